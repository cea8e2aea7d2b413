package redistest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func TestCommandStatsCountTheTestsCommandsAlone(t *testing.T) {
	srv := redistest.Start(t)
	if got := srv.CommandStats(t); len(got) != 0 {
		t.Errorf("got %v at the start, want nothing", got)
	}
	client := srv.Client(t)
	use := func() {
		t.Helper()
		for _, cmd := range [][]any{
			{"set", "k", "v"},
			{"get", "k"},
			{"get", "k"},
			{"eval", "return redis.call('get', KEYS[1])", 1, "k"},
			{"config", "set", "maxmemory", 0},
		} {
			if err := client.Do(t.Context(), cmd...).Err(); err != nil {
				t.Fatalf("%v: %v", cmd, err)
			}
		}
	}
	use()
	srv.ConfigSet(t, "maxmemory", "0")
	srv.CommandStats(t)
	srv.Monitor(t)
	want := map[string]int64{"hello": 1, "set": 1, "get": 3, "eval": 1, "config|set": 1}
	if diff := cmp.Diff(want, srv.CommandStats(t)); diff != "" {
		t.Errorf("since the start (-want +got):\n%s", diff)
	}
	srv.ResetStats(t)
	if got := srv.CommandStats(t); len(got) != 0 {
		t.Errorf("got %v after ResetStats, want nothing", got)
	}
	use()
	delete(want, "hello")
	if diff := cmp.Diff(want, srv.CommandStats(t)); diff != "" {
		t.Errorf("since ResetStats (-want +got):\n%s", diff)
	}
	if err := srv.Restart(); err != nil {
		t.Fatal(err)
	}
	if got := srv.CommandStats(t); len(got) != 0 {
		t.Errorf("got %v after Restart, want nothing", got)
	}
}

func TestMonitorCollectsCommands(t *testing.T) {
	srv := redistest.Start(t)
	m := srv.Monitor(t)
	client := srv.Client(t)
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Eval(t.Context(), "return redis.call('get', KEYS[1])", []string{"k"}).Err(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"set" "k" "v"`, `lua] "get" "k"`} {
		redistest.Eventually(t, func() bool { return strings.Contains(strings.Join(m.Lines(), "\n"), want) },
			"MONITOR shows "+want)
	}
}

func TestMonitorEndsWithTheServer(t *testing.T) {
	srv := redistest.Start(t)
	srv.Monitor(t)
	srv.Kill()
}
