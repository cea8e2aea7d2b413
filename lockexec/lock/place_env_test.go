package lock_test

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"os"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(m.Run())
}

// aclUser has exactly the rights that the documentation names.
const aclUser = "user locker on >pw-locker ~lock:report:* ~redlockrun:* -@all " +
	"+eval +get +set +del +exists +pexpire +pttl +time +hget +hset +hdel +hexists " +
	"+zadd +zcard +zrange +zrangebyscore +zrank +zrem +zscore +rpush +blpop +hkeys +xadd +xrevrange"

// forEachPlace runs a test on a fresh, empty server of each kind. admin has
// all rights there.
func forEachPlace(t *testing.T, test func(t *testing.T, client redis.UniversalClient, admin *redis.Client)) {
	places := map[string]startPlace{
		"tcp": func(t *testing.T) (redis.UniversalClient, *redis.Client) {
			s := redistest.Start(t)
			return newClient(t, &redis.Options{Addr: s.Addr()}), s.Client(t)
		},
		"unix": func(t *testing.T) (redis.UniversalClient, *redis.Client) {
			s := redistest.Start(t)
			return newClient(t, &redis.Options{Network: "unix", Addr: s.Socket()}), s.Client(t)
		},
		"tls+acl": func(t *testing.T) (redis.UniversalClient, *redis.Client) {
			s := redistest.Start(t, redistest.WithTLS(), redistest.WithACL(aclUser))
			return newClient(t, &redis.Options{
				Addr: s.TLSAddr(), Username: "locker", Password: "pw-locker", TLSConfig: tlsConfig(t, s),
			}), s.Client(t)
		},
		"sentinel": func(t *testing.T) (redis.UniversalClient, *redis.Client) {
			s := redistest.StartSentinel(t, 0, redistest.WithACL(aclUser))
			client := lock.NewSentinelClient(&redis.Options{Username: "locker", Password: "pw-locker"},
				lock.Sentinels{Master: s.Name, Addrs: s.Addrs(), Username: "sentinel", Password: "sentinel"})
			t.Cleanup(func() { _ = client.Close() })
			return client, s.Primary(t).Client(t)
		},
		"cluster": func(t *testing.T) (redis.UniversalClient, *redis.Client) {
			c := redistest.StartCluster(t, 1, redistest.WithACL(aclUser+" +cluster|slots +asking"))
			client := lock.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Username: "locker", Password: "pw-locker"})
			t.Cleanup(func() { _ = client.Close() })
			return client, c.NodeOf(t, name).Client(t)
		},
		"embedded": func(t *testing.T) (redis.UniversalClient, *redis.Client) {
			m := miniredis.NewMiniRedis()
			if err := m.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.Close)
			m.ClockTTL(true)
			return newClient(t, &redis.Options{Addr: m.Addr()}), newClient(t, &redis.Options{Addr: m.Addr()})
		},
	}
	maps.Copy(places, versionPlaces(t))
	for name, start := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && name != "embedded" {
				t.Skip("needs redis-server")
			}
			client, admin := start(t)
			test(t, client, admin)
		})
	}
}

func newClient(t *testing.T, opts *redis.Options) *redis.Client {
	t.Helper()
	client := lock.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func tlsConfig(t *testing.T, s *redistest.Server) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	cert, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
}

// freeAddr is a loopback address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
