package lock_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/faultproxy"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func revoke(t *testing.T, locker *lock.Locker, s lock.Snapshot, atOnce bool) lock.Revocation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done, err := locker.Revoke(ctx, s, atOnce)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestARevokedLockIsLostAndNotYetFree(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		locker := lock.New(client)
		for _, capacity := range []lock.Capacity{lock.Exclusive, lock.Shared, 2} {
			req := request()
			req.Capacity = capacity
			holder, err := locker.Acquire(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if done := revoke(t, locker, inspect(t, locker), false); done.Revoked != 1 || done.Others != 0 || done.FreeIn <= 0 || done.FreeIn > req.TTL {
				t.Errorf("%v: revoked: %+v", capacity, done)
			}
			s := inspect(t, locker)
			if s.State != lock.StateRevoked || s.Held != 1 || s.Holders[0].Holder != nil || s.Remaining <= 0 || s.Remaining > req.TTL {
				t.Errorf("%v: the snapshot is %+v", capacity, s)
			}
			expectTTLs(t, admin)
			if done := revoke(t, locker, s, false); done.Others != 0 || done.FreeIn <= 0 {
				t.Errorf("%v: revoked again: %+v", capacity, done)
			}
			lost := (*lock.LostError)(nil)
			if err := holder.Renew(t.Context()); !errors.As(err, &lost) || lost.Reason != lock.LossRevoked {
				t.Errorf("%v: a renewal says %v, want that it was revoked", capacity, err)
			}
			held := (*lock.HeldError)(nil)
			if _, err := locker.Acquire(t.Context(), req); !errors.As(err, &held) || !held.Revoked || held.Remaining <= 0 {
				t.Errorf("%v: another got %v, want that it was revoked", capacity, err)
			}
			release(t, holder)
			if s := inspect(t, locker); s.State != lock.StateFree {
				t.Errorf("%v: after its release the lock is %+v", capacity, s)
			}
		}
	})
}

func TestARevokedLockPassesToTheNextInLineWhenItsHolderReleases(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
		holder := acquire(t, client)
		l := newLine(t, client)
		l.join(0, waitRequest())
		locker := lock.New(client)
		revoke(t, locker, inspect(t, locker), false)
		if s := inspect(t, locker); s.State != lock.StateRevoked || s.Waiting != 1 {
			t.Errorf("the snapshot is %+v", s)
		}
		release(t, holder)
		l.order()
	})
}

func TestARevokedLockPassesOnWhenItsHolderIsDead(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
		locker := lock.New(client)
		req := request()
		req.TTL = 500 * time.Millisecond
		taken := lock.Now()
		lease, err := locker.Acquire(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		revoke(t, locker, inspect(t, locker), false)
		next := waitRequest()
		if _, err = locker.Acquire(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		if now := lock.Now(); now < lease.SafeEnd() {
			t.Errorf("another has it %v after it was taken", now.Until(taken))
		}
	})
}

func TestAtOnceIsAtOnce(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		locker := lock.New(client)
		holder := acquire(t, client)
		l := newLine(t, client)
		l.join(0, waitRequest())
		if done := revoke(t, locker, inspect(t, locker), true); done.Revoked != 1 || done.FreeIn != 0 {
			t.Errorf("revoked: %+v", done)
		}
		l.order()
		if err := holder.Renew(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("a renewal says %v", err)
		}
		admin.Set(t.Context(), name, "data", 0)
		if done := revoke(t, locker, inspect(t, locker), false); done.Revoked != 0 || done.Others != 1 {
			t.Errorf("what has no end was revoked: %+v", done)
		}
		if done := revoke(t, locker, inspect(t, locker), true); done.Revoked != 1 {
			t.Errorf("revoked: %+v", done)
		}
		if n := admin.Exists(t.Context(), name).Val(); n != 0 {
			t.Error("it is still there")
		}
	})
}

func TestALockThatIsOnlyKeptIsFreeAtOnceWhenRevoked(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
		for _, capacity := range []lock.Capacity{lock.Exclusive, lock.Shared} {
			locker := lock.New(client)
			req := request()
			req.Capacity = capacity
			holder, err := locker.Acquire(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			holder.KeepFor(time.Minute)
			release(t, holder)
			if done := revoke(t, locker, inspect(t, locker), false); done.Revoked != 1 || done.FreeIn != 0 {
				t.Errorf("%v: revoked: %+v", capacity, done)
			}
			if s := inspect(t, locker); s.State != lock.StateFree {
				t.Errorf("%v: it is %+v", capacity, s)
			}
		}
	})
}

func TestOnlyThoseWhoWereSeenAreRevoked(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
		locker := lock.New(client)
		first := acquire(t, client)
		before := inspect(t, locker)
		release(t, first)
		second := acquire(t, client)
		for _, atOnce := range []bool{false, true} {
			if done := revoke(t, locker, before, atOnce); done.Revoked != 0 || done.Others != 1 {
				t.Errorf("revoked: %+v", done)
			}
		}
		if err := second.Renew(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Those who share go one after another, and nobody joins them meanwhile.
func TestAllWhoShareAreRevoked(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		locker := lock.New(client)
		req := request()
		req.Capacity = lock.Shared
		var holders []*lock.Lease
		for range 3 {
			holder, err := locker.Acquire(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			holders = append(holders, holder)
		}
		if done := revoke(t, locker, inspect(t, locker), false); done.Revoked != 3 {
			t.Errorf("revoked: %+v", done)
		}
		expectTTLs(t, admin)
		for _, holder := range holders {
			if _, err := locker.Acquire(t.Context(), req); !errors.Is(err, lock.ErrLocked) {
				t.Errorf("another got %v, want that it is busy", err)
			}
			release(t, holder)
		}
		if _, err := locker.Acquire(t.Context(), req); err != nil {
			t.Error(err)
		}
	})
}

// A revocation whose reply was lost was one all the same.
func TestARevocationWhoseReplyWasLost(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	s := redistest.Start(t)
	proxy := faultproxy.New(t, s.Addr())
	direct := newClient(t, &redis.Options{Addr: s.Addr()})
	locker := lock.New(newClient(t, &redis.Options{Addr: proxy.Addr()}))
	for _, atOnce := range []bool{false, true} {
		holder := acquire(t, direct)
		before := inspect(t, locker)
		proxy.DropReply(scripts, faultproxy.ThenCut)
		if done := revoke(t, locker, before, atOnce); done.Revoked != 1 || done.Others != 0 {
			t.Errorf("at once %v: %+v", atOnce, done)
		}
		if err := holder.Renew(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("at once %v: a renewal says %v", atOnce, err)
		}
		s.Client(t).FlushAll(t.Context())
	}
}

func TestAQuorumIsRevokedOnAllServers(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	q := newQuorum(t)
	holder := q.acquire(t)
	go func() { _ = holder.Keep(t.Context(), slog.New(slog.DiscardHandler)) }()
	s := inspect(t, q.locker)
	if s.State != lock.StateHeld || s.Held != 1 || s.Holders[0].Holder == nil || len(s.Servers) != 3 {
		t.Fatalf("the snapshot is %+v", s)
	}
	if done := revoke(t, q.locker, s, false); done.Revoked != 1 || done.FreeIn <= 0 {
		t.Errorf("revoked: %+v", done)
	}
	want := holder.Token() + ":revoked"
	for i, value := range q.values(t) {
		if value != want {
			t.Errorf("server %d has %q, want %q", i, value, want)
		}
	}
	lost := (*lock.LostError)(nil)
	if err := holder.Renew(t.Context()); !errors.As(err, &lost) || lost.Reason != lock.LossRevoked {
		t.Errorf("a renewal says %v", err)
	}
	release(t, holder)
	if s := inspect(t, q.locker); s.State != lock.StateFree {
		t.Errorf("the snapshot is %+v", s)
	}
}

func TestTheServersOfAQuorumThatDiffer(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	q := newQuorum(t)
	holder := q.acquire(t)
	q.servers[1].Client(t).Set(t.Context(), name, "another", time.Minute)
	s := inspect(t, q.locker)
	if s.State != lock.StateHeld || s.Holders[0].Holder == nil || s.Holders[0].Holder.Fence != holder.Fence() {
		t.Fatalf("the snapshot is %+v", s)
	}
	for i, server := range s.Servers {
		if server.Place != q.proxies[i].Addr() || server.Agrees != (i != 1) || server.State != lock.StateHeld {
			t.Errorf("server %d is %+v", i, server)
		}
	}
	q.servers[2].Client(t).Del(t.Context(), name)
	if s := inspect(t, q.locker); s.State != lock.StateFree || s.Servers[2].State != lock.StateFree || !s.Servers[2].Agrees {
		t.Errorf("nobody has it on most, but the snapshot is %+v", s)
	}
	list, err := q.locker.List(t.Context(), lock.Listing{Prefix: name})
	if err != nil || len(list) != 1 {
		t.Errorf("the list is %v, %v", names(list), err)
	}
}
