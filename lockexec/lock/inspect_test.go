package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func inspect(t *testing.T, locker *lock.Locker) lock.Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := locker.Inspect(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestASnapshotTellsWhoHasTheLockAndWhoWaits(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
		locker := lock.New(client)
		if s := inspect(t, locker); s.State != lock.StateFree || s.Held != 0 || s.Waiting != 0 || s.Remaining != 0 {
			t.Errorf("nobody has it, but the snapshot says %+v", s)
		}
		holder := acquire(t, client)
		l := newLine(t, client)
		for i := range 3 {
			req := waitRequest()
			req.Holder = lock.Holder{Host: "h", Label: fmt.Sprintf("waiter %d", i), PID: i}
			l.join(i, req)
		}
		s := inspect(t, locker)
		if s.State != lock.StateHeld || s.Held != 1 || len(s.Holders) != 1 || !s.CapacityKnown || s.Capacity != lock.Exclusive {
			t.Fatalf("one has it, but the snapshot says %+v", s)
		}
		if s.Remaining <= 0 || s.Remaining > holder.TTL() || s.Fence != holder.Fence() {
			t.Errorf("it ends in %v, fence %d, want at most %v, fence %d", s.Remaining, s.Fence, holder.TTL(), holder.Fence())
		}
		if h := s.Holders[0]; h.Holder == nil || h.Holder.Fence != holder.Fence() || h.Remaining != s.Remaining {
			t.Errorf("the holder is %+v", h)
		}
		if s.Waiting != 3 || len(s.Waiters) != 3 {
			t.Fatalf("%d wait, %d are listed, want 3", s.Waiting, len(s.Waiters))
		}
		for i, w := range s.Waiters {
			if w.Holder == nil || w.Holder.Label != fmt.Sprintf("waiter %d", i) || !w.Watches || w.Silent < 0 || w.Silent > patience || !w.CapacityKnown {
				t.Errorf("waiter %d is %+v (%+v)", i, w, w.Holder)
			}
		}
		release(t, holder)
		l.order()
	})
}

func TestASnapshotTellsOfAllWhoShare(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
		locker := lock.New(client)
		for range 3 {
			req := request()
			req.Capacity = lock.Shared
			if _, err := locker.Acquire(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		s := inspect(t, locker)
		if s.Held != 3 || len(s.Holders) != 3 || s.Capacity != lock.Shared || !s.CapacityKnown {
			t.Errorf("three share it, but the snapshot says %+v", s)
		}
	})
}

func TestASnapshotTellsOfALockThatIsOnlyKept(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
		holder := acquire(t, client)
		holder.KeepFor(time.Minute)
		release(t, holder)
		s := inspect(t, lock.New(client))
		if s.State != lock.StateKept || s.Holders[0].Holder == nil || s.Remaining <= 0 {
			t.Errorf("it is kept, but the snapshot says %+v", s)
		}
	})
}

// What other programs leave can't steer a terminal, and is told from locks.
func TestASnapshotOfWhatOthersLeft(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		ctx, locker := t.Context(), lock.New(client)
		admin.Set(ctx, name, strings.Repeat("long\x1b[31m", 100), 0)
		s := inspect(t, locker)
		if s.State != lock.StateHeld || s.Remaining != lock.NoExpiry || s.Holders[0].Holder != nil || s.CapacityKnown {
			t.Errorf("data: %+v", s)
		}
		admin.Set(ctx, name, "token", time.Minute)
		hostile := `{"host":"\u001b[2J","pid":-7,"command":"a\nb\u009bc","label":"\u202eevil","slots":-3,"since":-9223372036854775808,"fence":1}`
		admin.HSet(ctx, besides("holders"), "token", hostile)
		admin.ZAdd(ctx, besides("queue"), redis.Z{Score: 1, Member: "w1"}, redis.Z{Score: 2, Member: "w2"}, redis.Z{Score: 3, Member: "w3"})
		admin.HSet(ctx, besides("waiters"), "w1", "99999999999999999999999 1 0 1 {}", "w2", "5 1 1 1000 "+hostile)
		s = inspect(t, locker)
		if s.Holders[0].Holder == nil || s.CapacityKnown || s.Waiting != 3 || len(s.Waiters) != 3 {
			t.Fatalf("hostile record: %+v", s)
		}
		for _, h := range []*lock.Holder{s.Holders[0].Holder, s.Waiters[1].Holder} {
			for _, text := range []string{h.Host, h.Command, h.Label} {
				if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("%q can steer a terminal", text)
				}
			}
		}
		admin.Del(ctx, name)
		admin.SAdd(ctx, name, "a set")
		_, err := locker.Inspect(ctx, name)
		if failure, _ := errors.AsType[*lock.ServerError](err); failure == nil || failure.Fault != lock.FaultWrongType {
			t.Errorf("no lock at all: %v", err)
		}
	})
}

// besides names a key that belongs to the lock.
func besides(kind string) string { return "redlockrun:" + kind + ":{" + name + "}" }

func TestTheListHasAllLocksAndNothingElse(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	s := redistest.Start(t)
	c := redistest.StartCluster(t, 3)
	cluster := lock.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { _ = cluster.Close() })
	for place, client := range map[string]redis.UniversalClient{
		"one server": newClient(t, &redis.Options{Addr: s.Addr()}), "cluster": cluster,
	} {
		t.Run(place, func(t *testing.T) {
			ctx, locker := t.Context(), lock.New(client)
			const prefix = "l[o]*k?:\\"
			var want []string
			for i := range 300 {
				req := request()
				req.Name = fmt.Sprintf("%sk%03d", prefix, i)
				if i%3 == 0 {
					req.Capacity = lock.Shared
				}
				if _, err := locker.Acquire(ctx, req); err != nil {
					t.Fatal(err)
				}
				want = append(want, req.Name)
			}
			for _, other := range []string{"lo*k?:\\x", "l[o]zzk?:\\x", "other"} {
				client.Set(ctx, other, "v", time.Minute)
			}
			client.SAdd(ctx, prefix+"set", "member")
			client.ZAdd(ctx, prefix+"zset", redis.Z{Score: 1, Member: "no token"})
			client.Set(ctx, prefix+"foreign", "v", 0)
			want = append(want, prefix+"foreign")
			slices.Sort(want)
			list, err := locker.List(ctx, lock.Listing{Prefix: prefix})
			if got := names(list); err != nil || !slices.Equal(got, want) {
				t.Errorf("got %d: %v, %v", len(got), got, err)
			}
			list, err = locker.List(ctx, lock.Listing{Prefix: prefix, Pattern: "k0[01]?"})
			if got := names(list); err != nil || !slices.Equal(got, want[1:21]) {
				t.Errorf("of a pattern: %v, %v", got, err)
			}
			list, err = locker.List(ctx, lock.Listing{})
			if err != nil || slices.ContainsFunc(names(list), func(n string) bool { return strings.HasPrefix(n, "redlockrun:") }) {
				t.Errorf("of all: %v, %v", names(list), err)
			}
		})
	}
}

func names(list []lock.Snapshot) []string {
	var all []string
	for _, s := range list {
		all = append(all, s.Name)
	}
	return all
}

func TestTheSuccessMarkersOfALock(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	s := redistest.Start(t)
	locker := lock.New(newClient(t, &redis.Options{Addr: s.Addr()}))
	for _, id := range []string{"2026-12-02", "a:b*"} {
		req := request()
		req.Once = id
		lease, err := locker.Acquire(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		lease.Succeed(time.Hour)
		release(t, lease)
	}
	markers, err := locker.Markers(t.Context(), name)
	if err != nil || len(markers) != 2 || markers[0].ID != "2026-12-02" || markers[1].ID != "a:b*" ||
		markers[1].Remaining <= 0 || markers[1].Remaining > time.Hour {
		t.Errorf("got %+v, %v", markers, err)
	}
	if markers, err = locker.Markers(t.Context(), name+"2"); err != nil || len(markers) != 0 {
		t.Errorf("of another lock: %+v, %v", markers, err)
	}
}

// The rights that a run needs are enough for a look, and a replica will do.
func TestToLookNeedsNoRightToWriteAndNoPrimary(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	primary := redistest.Start(t)
	replica := redistest.Start(t, redistest.WithReplicaOf(primary),
		redistest.WithACL("user looker on >pw ~* -@all +eval +get +pttl +time +hget +zcard +zrange +zrangebyscore +scan"))
	holder := acquire(t, newClient(t, &redis.Options{Addr: primary.Addr()}))
	locker := lock.New(newClient(t, &redis.Options{Addr: replica.Addr(), Username: "looker", Password: "pw"}))
	redistest.Eventually(t, func() bool { return inspect(t, locker).State == lock.StateHeld }, "the replica has the lock")
	if s := inspect(t, locker); s.Holders[0].Holder == nil || s.Holders[0].Holder.Fence != holder.Fence() {
		t.Errorf("the replica says %+v", s)
	}
	if list, err := locker.List(t.Context(), lock.Listing{Prefix: name}); err != nil || len(list) != 1 {
		t.Errorf("the replica lists %v, %v", names(list), err)
	}
	_, err := locker.Revoke(t.Context(), inspect(t, locker), false)
	if !errors.Is(err, lock.ErrNotPermitted) && !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("revoke at a replica: %v", err)
	}
}
