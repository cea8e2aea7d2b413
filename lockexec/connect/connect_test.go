package connect_test

import (
	"crypto/tls"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/connect"
	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// A place with TLS never gets plain text, whatever the settings leave out.
func TestAPlaceWithTLSIsSpokenToByTLS(t *testing.T) {
	for url, want := range map[string]bool{
		"redis://127.0.0.1:1":           false,
		"rediss://127.0.0.1:1":          true,
		"rediss-cluster://127.0.0.1:1":  true,
		"redis-cluster://127.0.0.1:1":   false,
		"rediss-sentinel://127.0.0.1/m": true,
	} {
		place, err := lock.ParsePlace(url)
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		for _, settings := range []*connect.TLS{nil, {}} {
			client, err := connect.Target{Places: []lock.Place{place}, TLS: settings}.Client(place)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			var config *tls.Config
			switch client := client.(type) {
			case *redis.Client:
				config = client.Options().TLSConfig
			case *redis.ClusterClient:
				config = client.Options().TLSConfig
			}
			if (config != nil) != want {
				t.Errorf("%s with settings %v: TLS %v, want %v", url, settings, config != nil, want)
			}
			if config != nil && config.InsecureSkipVerify {
				t.Errorf("%s: the server is not verified", url)
			}
		}
	}
}
