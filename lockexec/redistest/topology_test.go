package redistest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func TestAFailoverMakesAnotherServerThePrimary(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 2)
	first := s.Primary(t)
	if first != s.Servers[0] {
		t.Fatalf("the first primary is %s, want %s", first.Addr(), s.Servers[0].Addr())
	}
	second := s.Failover(t)
	second.Kill()
	third := s.AwaitPrimaryOtherThan(t, second)
	if err := second.Restart(); err != nil {
		t.Fatal(err)
	}
	client := second.Client(t)
	redistest.Eventually(t, func() bool {
		return strings.Contains(client.Info(t.Context(), "replication").Val(), "role:slave")
	}, "the one that came back is a replica")
	if s.Primary(t) != third {
		t.Error("the one that came back is the primary")
	}
}

func TestASlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	const key = "{tag}a"
	from := c.NodeOf(t, key)
	client := from.Client(t)
	client.Set(t.Context(), key, 1, 0)
	m := c.StartMigration(t, key)
	if err := client.MGet(t.Context(), key, "{tag}b").Err(); err == nil || !strings.HasPrefix(err.Error(), "TRYAGAIN") {
		t.Errorf("several keys: got %v, want TRYAGAIN", err)
	}
	m.MoveKeys(t)
	if err := client.Get(t.Context(), key).Err(); err == nil || !strings.HasPrefix(err.Error(), "ASK") {
		t.Errorf("a key that has moved: got %v, want ASK", err)
	}
	m.Finish(t)
	if err := client.Get(t.Context(), key).Err(); err == nil || !strings.HasPrefix(err.Error(), "MOVED") {
		t.Errorf("a slot that has moved: got %v, want MOVED", err)
	}
	if got := m.To.Client(t).Get(t.Context(), key).Val(); got != "1" {
		t.Errorf("the key has %q at its new node", got)
	}
}

func TestAReplicaOfAClusterTakesOver(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	primary := c.NodeOf(t, "k")
	primary.Kill()
	replica := c.ReplicaOf(primary).Client(t)
	redistest.Eventually(t, func() bool { return fmt.Sprint(replica.Set(t.Context(), "k", 1, 0).Val()) == "OK" },
		"the replica serves the key")
}
