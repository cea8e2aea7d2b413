package redistest_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func TestWithPasswordRefusesOtherClients(t *testing.T) {
	const password = `p"a\s s@:/#%é`
	srv := redistest.Start(t, redistest.WithPassword(password))
	if err := srv.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Errorf("with password: %v", err)
	}
	opts, err := redis.ParseURL(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	defer client.Close()
	if err := client.Ping(t.Context()).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Errorf("without password: got %v, want NOAUTH", err)
	}
}

func TestWithACLAddsUsersAndRestrictsTheDefault(t *testing.T) {
	srv := redistest.Start(t, redistest.WithACL(
		"user alice on >secret ~app:* -@all +get",
		"user default off",
	))
	if err := srv.Client(t).Ping(t.Context()).Err(); err == nil {
		t.Error("the default user is off and was served")
	}
	client := redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: "alice", Password: "secret"})
	defer client.Close()
	if err := client.Get(t.Context(), "app:k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("GET of an allowed key: got %v, want nil reply", err)
	}
	for _, cmd := range [][]any{{"get", "other"}, {"set", "app:k", "v"}} {
		if err := client.Do(t.Context(), cmd...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("%v: got %v, want NOPERM", cmd, err)
		}
	}
	if got := srv.CommandStats(t)["get"]; got != 1 {
		t.Errorf("got %d calls of GET, want 1", got)
	}
}

func TestWithTLSServesBothNamesAndVerifiesClients(t *testing.T) {
	srv := redistest.Start(t, redistest.WithTLS(), redistest.WithConfig("tls-auth-clients", "yes"))
	pem, err := os.ReadFile(srv.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	cert, err := tls.LoadX509KeyPair(srv.CertFile, srv.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	ping := func(conf *tls.Config) error {
		client := redis.NewClient(&redis.Options{Addr: srv.TLSAddr(), TLSConfig: conf, MaxRetries: -1})
		defer client.Close()
		return client.Ping(t.Context()).Err()
	}
	for _, name := range []string{"127.0.0.1", "localhost"} {
		conf := &tls.Config{RootCAs: roots, ServerName: name, Certificates: []tls.Certificate{cert}}
		if err := ping(conf); err != nil {
			t.Errorf("as %s: %v", name, err)
		}
	}
	if err := ping(&tls.Config{RootCAs: roots, ServerName: "localhost"}); err == nil {
		t.Error("a client without certificate was served")
	}
	if err := ping(&tls.Config{ServerName: "localhost", Certificates: []tls.Certificate{cert}}); err == nil {
		t.Error("the certificate is valid without its authority")
	}
	if got, want := srv.TLSURL(), "rediss://"+srv.TLSAddr(); got != want {
		t.Errorf("got URL %s, want %s", got, want)
	}
}

func TestWithTLSServesClientsWithoutCertificate(t *testing.T) {
	srv := redistest.Start(t, redistest.WithTLS())
	pem, err := os.ReadFile(srv.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	opts, err := redis.ParseURL(srv.TLSURL())
	if err != nil {
		t.Fatal(err)
	}
	opts.TLSConfig.RootCAs = roots
	client := redis.NewClient(opts)
	defer client.Close()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestWithConfigAndConfigSetChangeSettings(t *testing.T) {
	srv := redistest.Start(t, redistest.WithConfig("maxmemory", "3mb"), redistest.WithConfig("save", ""))
	client := srv.Client(t)
	want := func(value string) {
		t.Helper()
		got, err := client.ConfigGet(t.Context(), "maxmemory").Result()
		if err != nil || got["maxmemory"] != value {
			t.Errorf("got %v, %v; want maxmemory %s", got, err, value)
		}
	}
	want("3145728")
	srv.ConfigSet(t, "maxmemory", "4mb")
	want("4194304")
}

func TestDataSurvivesACrashOnlyWithPersistence(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []redistest.Option
		want int64
	}{
		{"without", nil, 0},
		{"with", []redistest.Option{redistest.WithPersistence()}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := redistest.Start(t, test.opts...)
			client := srv.Client(t)
			if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			srv.Kill()
			if err := srv.Restart(); err != nil {
				t.Fatal(err)
			}
			redistest.Eventually(t, func() bool { return client.Ping(t.Context()).Err() == nil }, "the client connects again")
			if got, err := client.Exists(t.Context(), "k").Result(); got != test.want || err != nil {
				t.Errorf("got %d keys, %v; want %d", got, err, test.want)
			}
		})
	}
}

func TestWithReplicaOfCopiesAProtectedPrimary(t *testing.T) {
	primary := redistest.Start(t, redistest.WithPassword("secret"))
	if err := primary.Client(t).Set(t.Context(), "before", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	replica := redistest.Start(t, redistest.WithReplicaOf(primary)).Client(t)
	if got, err := replica.Get(t.Context(), "before").Result(); got != "1" || err != nil {
		t.Errorf("got %q, %v at once; want the key written before", got, err)
	}
	if err := replica.Set(t.Context(), "k", "v", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
		t.Errorf("write on the replica: got %v, want READONLY", err)
	}
	if err := primary.Client(t).Set(t.Context(), "after", "2", 0).Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, func() bool { return replica.Get(t.Context(), "after").Val() == "2" }, "a later write arrives")
}
