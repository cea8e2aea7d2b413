package lock_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/faultproxy"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// A text of the script is enough to know it by.
func script(text string) faultproxy.Match {
	return func(cmd []string) bool { return strings.Contains(strings.Join(cmd, " "), text) }
}

var (
	restoring = script("return (owned(KEYS[1], ARGV[1]))")
	raising   = script("string.gsub(record")
)

// A server that lost the lock gets it again, with a time to live; but not
// where another was faster.
func TestALockIsRestoredOnlyWhereNobodyHasIt(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	lease := q.acquire(t)
	admin := q.servers[2].Client(t)
	renewUntil := func(done func() bool) {
		t.Helper()
		redistest.Eventually(t, func() bool {
			if err := lease.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			return done()
		}, "the lock is restored, or about to be")
	}
	admin.Del(t.Context(), name)
	renewUntil(func() bool { return get(t, admin, name) == lease.Token() })
	if ttl := admin.PTTL(t.Context(), name).Val(); ttl <= 0 {
		t.Errorf("the restored lock has the TTL %v", ttl)
	}

	var tries atomic.Int32
	q.proxies[2].OnRequest(func(cmd []string) {
		if restoring(cmd) { // and did not come yet
			admin.Set(t.Context(), name, "another", time.Minute)
			tries.Add(1)
		}
	})
	admin.Del(t.Context(), name)
	renewUntil(func() bool { return tries.Load() > 0 })
	if err := lease.Renew(t.Context()); err != nil { // behind it on its way
		t.Error(err)
	}
	if got := get(t, admin, name); got != "another" {
		t.Errorf("another's lock became %q", got)
	}
}

// One that was given up, and comes when the lock was released already.
func TestALateRestorationTakesNoLock(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	third := q.servers[2]
	// All three votes are counted: none that is on its way has the release mind
	// what is late.
	third.Client(t).Set(t.Context(), name, "another", time.Minute)
	q.proxies[0].DelayReplies(100 * time.Millisecond)
	lease := q.acquire(t)
	q.proxies[0].DelayReplies(0)
	third.Client(t).Del(t.Context(), name)
	ctx, giveUp := context.WithCancel(t.Context())
	q.proxies[2].OnRequest(func(cmd []string) {
		if restoring(cmd) {
			giveUp()
		}
	})
	deliver := q.proxies[2].HoldRequests(restoring)
	redistest.Eventually(t, func() bool {
		_ = lease.Renew(ctx)
		return ctx.Err() != nil
	}, "the lock is about to be restored")
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	third.ResetStats(t)
	deliver()
	redistest.Eventually(t, func() bool { return third.CommandStats(t)["eval"] > 0 }, "the late restoration has come")
	if got := get(t, third.Client(t), name); got != "" {
		t.Errorf("the server has %q in the lock", got)
	}
}

// Whoever finds that others have most of the servers keeps none of the rest.
func TestWhatAMinorityGaveIsGivenBack(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	for _, s := range q.servers[:2] {
		s.Client(t).Set(t.Context(), name, "another", time.Minute)
	}
	q.proxies[1].DelayReplies(100 * time.Millisecond) // so that the third vote was counted
	if _, err := q.locker.Acquire(t.Context(), quorumRequest()); !errors.Is(err, lock.ErrLocked) {
		t.Fatalf("got %v, want ErrLocked", err)
	}
	third := q.servers[2].Client(t)
	third.Persist(t.Context(), name) // what is left must not go away by itself
	redistest.Eventually(t, func() bool { return get(t, third, name) == "" }, "the third server was given back")
}

// The fence is made known to the servers before the lease counts. Who does not
// have most of them any more by then has nothing.
func TestVotesThatAreLostBeforeTheStartDoNotCount(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	for i, proxy := range q.proxies {
		admin := q.servers[i].Client(t)
		proxy.OnRequest(func(cmd []string) {
			if raising(cmd) {
				admin.Set(t.Context(), name, "another", time.Minute)
			}
		})
	}
	if _, err := q.locker.Acquire(t.Context(), quorumRequest()); !errors.Is(err, lock.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
}
