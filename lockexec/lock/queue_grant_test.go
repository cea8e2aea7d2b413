package lock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

const (
	queueKey   = "redlockrun:queue:{" + name + "}"
	waitersKey = "redlockrun:waiters:{" + name + "}"
)

// Who was not heard of for too long is passed over, in no time at all: the lock
// is granted in the release itself, for no longer than it takes to say so.
func TestTheLockGoesToTheFirstWhoIsHeardOf(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		holder := acquire(t, client)
		now := admin.Time(t.Context()).Val()
		for i, waiter := range []struct {
			token   string
			watches int
			silent  time.Duration
		}{
			{"watched-and-died", 1, 7 * time.Second},
			{"died", 0, 27 * time.Second},
			{"lives", 0, 5 * time.Second},
			{"behind", 0, 0},
		} {
			admin.ZAdd(t.Context(), queueKey, redis.Z{Score: float64(i), Member: waiter.token})
			admin.HSet(t.Context(), waitersKey, waiter.token,
				fmt.Sprintf(`%d %d 1 15000 {"host":"h","pid":1,"label":"l","slots":1}`, now.Add(-waiter.silent).UnixMilli(), waiter.watches))
		}
		release(t, holder)
		if got := get(t, admin, name); got != "lives" {
			t.Errorf("%q has the lock, want the first who lives", got)
		}
		if ttl := admin.PTTL(t.Context(), name).Val(); ttl <= 0 || ttl > 2*time.Second {
			t.Errorf("it has it for %v", ttl)
		}
		if left := admin.ZRange(t.Context(), queueKey, 0, -1).Val(); len(left) != 1 || left[0] != "behind" {
			t.Errorf("%q are in line", left)
		}
	})
}

// A grant is short, for the case that nobody takes it.
func TestAGrantIsConfirmedForAWholeLease(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		holder := acquire(t, client)
		inLine := make(chan struct{}, 100)
		granted := make(chan *lock.Lease, 1)
		go func() {
			req := waitRequest()
			req.TTL = time.Hour
			req.OnWait = func(lock.Waiting) { inLine <- struct{}{} }
			lease, err := lock.New(client).Acquire(t.Context(), req)
			if err != nil {
				t.Error(err)
			}
			granted <- lease
		}()
		<-inLine
		release(t, holder)
		lease := <-granted
		if lease == nil {
			return
		}
		if left := admin.PTTL(t.Context(), name).Val(); left < 30*time.Minute {
			t.Errorf("the lock has %v left, want an hour", left)
		}
		release(t, lease)
	})
}

func TestALineLivesForAsLongAsSomebodyAsks(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		holder := acquire(t, client)
		l := newLine(t, client)
		l.join(0, waitRequest())
		for _, key := range []string{queueKey, waitersKey} {
			admin.PExpire(t.Context(), key, 30*time.Second)
			eventually(t, "the next question prolongs "+key, func() bool {
				return admin.PTTL(t.Context(), key).Val() > time.Minute
			})
		}
		release(t, holder)
		l.order()
	})
}
