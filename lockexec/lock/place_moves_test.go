package lock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/faultproxy"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// There the lock alone is deleted, without what stands beside it.
func TestAReleaseWhileASlotMovesDeletesNoLockOfAnother(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	client := lock.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { _ = client.Close() })
	lease := acquire(t, client)
	m := c.StartMigration(t, name)
	m.MoveKeys(t)
	to := m.To.Client(t)
	asking := func(args ...any) string {
		conn := to.Conn()
		defer conn.Close()
		_ = conn.Do(t.Context(), "asking").Err()
		text, _ := conn.Do(t.Context(), args...).Text()
		return text
	}
	asking("set", name, "another", "px", time.Minute.Milliseconds())
	lostFor(t, lease.Release(t.Context()), lock.LossReplaced)
	if got := asking("get", name); got != "another" {
		t.Errorf("another's lock became %q", got)
	}
	asking("set", name, lease.Token(), "px", time.Minute.Milliseconds())
	release(t, lease)
	if got := asking("get", name); got != "" {
		t.Errorf("the lock holds %q after its release", got)
	}
}

// WAIT takes its time, and the lease runs meanwhile.
func TestWaitingForReplicasDoesNotMoveTheSafeEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	t.Parallel()
	primary := redistest.Start(t)
	redistest.Start(t, redistest.WithReplicaOf(primary))
	proxy := faultproxy.New(t, primary.Addr())
	var sent lock.Instant
	proxy.OnRequest(func(cmd []string) {
		if scripts(cmd) {
			sent = lock.Now() // or before
		}
	})
	proxy.DelayReplies(500 * time.Millisecond)
	req := request()
	req.Replicas = 1
	lease, err := lock.New(newClient(t, &redis.Options{Addr: proxy.Addr()})).Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if late := lease.SafeEnd().Until(sent.Add(req.TTL)); late >= 0 {
		t.Errorf("the safe end is %v after that of a lease that began when the last script came", late)
	}
}
