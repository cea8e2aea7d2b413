package doctor_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redlockrun/redlockrun/lockexec/connect"
	"github.com/redlockrun/redlockrun/lockexec/doctor"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(m.Run())
}

// subject is a run with default settings and these places.
func subject(t *testing.T, urls ...string) doctor.Subject {
	t.Helper()
	s := doctor.Subject{
		Target: connect.Target{Timeout: 30 * time.Second},
		Prefix: "lock:report:",
		TTL:    lock.DefaultTTL,
	}
	for _, url := range urls {
		place, err := lock.ParsePlace(url)
		if err != nil {
			t.Fatal(err)
		}
		s.Target.Places = append(s.Target.Places, place)
	}
	return s
}

// want fails the test unless there is one check of that name, and place if one
// is given, with that status, and that text in what it found or says to do.
func want(t *testing.T, checks []doctor.Check, place, name string, status doctor.Status, text string) {
	t.Helper()
	found := 0
	for _, c := range checks {
		if c.Name != name || place != "" && c.Place != place {
			continue
		}
		found++
		if all := c.Found + ". " + c.Next; c.Status != status || !strings.Contains(all, text) {
			t.Errorf("%s %s %s: %s, want %s with %q", c.Status, c.Name, c.Place, all, status, text)
		}
	}
	if found != 1 {
		t.Errorf("%d checks %q of %q, want one; all are\n%s", found, name, place, report(checks))
	}
}

func report(checks []doctor.Check) string {
	var b strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&b, "%s %s %s: %s. %s\n", c.Status, c.Name, c.Place, c.Found, c.Next)
	}
	return b.String()
}

// wantOnly fails the test where a check has another status than these, but for
// how fast the machine is at the moment.
func wantOnly(t *testing.T, checks []doctor.Check, statuses ...doctor.Status) {
	t.Helper()
	for _, c := range checks {
		if c.Name != "latency" && !slices.Contains(statuses, c.Status) {
			t.Errorf("%s %s %s: %s. %s", c.Status, c.Name, c.Place, c.Found, c.Next)
		}
	}
}

func wantEmpty(t *testing.T, server *redistest.Server) {
	t.Helper()
	keys, err := server.Client(t).Keys(t.Context(), "*").Result()
	if err != nil || len(keys) > 0 {
		t.Errorf("left behind: %q, %v", keys, err)
	}
}

func TestAGoodServerPassesEveryCheckAndKeepsNothing(t *testing.T) {
	server := redistest.Start(t, redistest.WithPersistence())
	for _, url := range []string{server.URL(), server.URL() + "?protocol=3", server.UnixURL()} {
		for _, key := range []string{"", "client_{123}", strings.Repeat("x", lock.MaxKey)} {
			s := subject(t, url)
			s.Key, s.Histories = key, true
			checks := doctor.Examine(t.Context(), s)
			wantOnly(t, checks, doctor.Pass)
			if len(checks) < 13 {
				t.Errorf("only\n%s", report(checks))
			}
			wantEmpty(t, server)
		}
	}
}

func TestTheShortestTTLStillLeavesTimeToLook(t *testing.T) {
	server := redistest.Start(t)
	s := subject(t, server.URL())
	s.TTL = lock.MinTTL
	checks := doctor.Examine(t.Context(), s)
	want(t, checks, "", "scripts", doctor.Pass, "")
	wantEmpty(t, server)
}

func TestAServerThatCanNotBeReachedFailsToConnect(t *testing.T) {
	stopped := redistest.Start(t)
	if err := stopped.Stop(); err != nil {
		t.Fatal(err)
	}
	foreign, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	go func() {
		for {
			conn, err := foreign.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = conn.Close()
		}
	}()
	for url, fault := range map[string]lock.Fault{
		"redis://127.0.0.1:1":                lock.FaultUnreachable,
		stopped.URL():                        lock.FaultTimeout,
		"redis://" + foreign.Addr().String(): lock.FaultProtocol,
	} {
		s := subject(t, url)
		s.Target.Timeout = 500 * time.Millisecond
		checks := doctor.Examine(t.Context(), s)
		want(t, checks, "", "connect", doctor.Fail, "")
		if len(checks) != 1 || checks[0].Err == nil || checks[0].Err.Fault != fault {
			t.Errorf("%s: %#v, want fault %d", url, checks, fault)
		}
	}
}

func TestALoginThatIsRefusedFails(t *testing.T) {
	server := redistest.Start(t, redistest.WithPassword("pw"))
	want(t, doctor.Examine(t.Context(), subject(t, server.URL())), "", "login", doctor.Fail, "NOAUTH")
	wrong := strings.Replace(server.URL(), "//", "//:nope@", 1)
	want(t, doctor.Examine(t.Context(), subject(t, wrong)), "", "login", doctor.Fail, "WRONGPASS")
	right := strings.Replace(server.URL(), "//", "//:pw@", 1)
	want(t, doctor.Examine(t.Context(), subject(t, right)), "", "login", doctor.Pass, "with a password")
}

func TestTheCertificateIsLookedAt(t *testing.T) {
	server, other := redistest.Start(t, redistest.WithTLS()), redistest.Start(t, redistest.WithTLS())
	pem := func(file string) []byte {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	s := subject(t, server.TLSURL())
	s.Target.TLS = &connect.TLS{CA: pem(server.CAFile)}
	want(t, doctor.Examine(t.Context(), s), "", "tls", doctor.Warn, "in 24h0m0s. renew it")
	s.Target.TLS = &connect.TLS{CA: pem(other.CAFile)}
	want(t, doctor.Examine(t.Context(), s), "", "tls", doctor.Fail, "certificate signed by unknown authority")
	s.Target.TLS = &connect.TLS{Insecure: true}
	want(t, doctor.Examine(t.Context(), s), "", "tls", doctor.Warn, "was not verified")
	s = subject(t, strings.Replace(server.URL(), "redis:", "rediss:", 1))
	s.Target.TLS, s.Target.Timeout = &connect.TLS{CA: pem(server.CAFile)}, 500*time.Millisecond
	want(t, doctor.Examine(t.Context(), s), "", "connect", doctor.Fail, "does this port speak TLS?")
}

func TestWhatTakesNoLocksIsNamed(t *testing.T) {
	sentinel := redistest.StartSentinel(t, 0)
	replica := redistest.Start(t, redistest.WithReplicaOf(sentinel.Servers[0]))
	cluster := redistest.StartCluster(t, 1)
	checks := doctor.Examine(t.Context(), subject(t, replica.URL()))
	want(t, checks, "", "role", doctor.Fail, "it is a replica of 127.0.0.1:")
	want(t, checks, "", "scripts", doctor.Skip, "")
	checks = doctor.Examine(t.Context(), subject(t, strings.Replace(sentinel.Sentinels[0].URL(), "//", "//sentinel:sentinel@", 1)))
	want(t, checks, "", "role", doctor.Fail, "write redis-sentinel://127.0.0.1:")
	checks = doctor.Examine(t.Context(), subject(t, cluster.Primaries[0].URL()))
	want(t, checks, "", "role", doctor.Fail, "write redis-cluster://127.0.0.1:")
}

// miniredis has a clock that can be set, and no HELLO without arguments, like a
// proxy.
func TestAClockThatIsOffAndAServerThatKnowsNoHELLOAreWarnedOf(t *testing.T) {
	m := miniredis.RunT(t)
	m.SetTime(time.Now().Add(-time.Hour))
	checks := doctor.Examine(t.Context(), subject(t, "redis://"+m.Addr()))
	want(t, checks, "", "clock", doctor.Warn, "-1h0m0")
	want(t, checks, "", "protocol", doctor.Warn, "a proxy")
	want(t, checks, "", "persistence", doctor.Skip, "")
}

func TestCommandsThatAProxyRefusesAreNamed(t *testing.T) {
	rename := func(command string) *redistest.Server {
		return redistest.Start(t, redistest.WithConfig("rename-command", command+` ""`))
	}
	checks := doctor.Examine(t.Context(), subject(t, rename("EVAL").URL()))
	want(t, checks, "", "scripts", doctor.Fail, "unknown command 'eval'")
	checks = doctor.Examine(t.Context(), subject(t, rename("BLPOP").URL()))
	want(t, checks, "", "waking", doctor.Warn, "BLPOP is refused (ERR unknown command 'blpop'")
	checks = doctor.Examine(t.Context(), subject(t, rename("HELLO").URL()))
	want(t, checks, "", "protocol", doctor.Warn, "unknown command 'hello'")
	want(t, checks, "", "version", doctor.Pass, "redis")
	want(t, checks, "", "role", doctor.Pass, "primary")
	checks = doctor.Examine(t.Context(), subject(t, rename("INFO").URL()))
	for _, name := range []string{"persistence", "eviction", "replication"} {
		want(t, checks, "", name, doctor.Skip, "unknown command 'info'")
	}
	wantOnly(t, checks, doctor.Pass, doctor.Skip)
}

func TestARunThatIsCalledOffEndsTheLook(t *testing.T) {
	server := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	checks := doctor.Examine(ctx, subject(t, server.URL()))
	want(t, checks, "", "connect", doctor.Fail, "")
	wantEmpty(t, server)
}
