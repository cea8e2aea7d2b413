package lock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/faultproxy"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// A lock that ends without a release is found by the first in line.
func TestALockThatExpires(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
		req := request()
		req.TTL = 1500 * time.Millisecond
		if _, err := lock.New(client).Acquire(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		l := newLine(t, client)
		for i := range 3 {
			l.join(i, waitRequest())
		}
		if got := l.order(); !slices.Equal(got, numbers(3)) {
			t.Errorf("served in the order %v", got)
		}
	})
}

// Waiters whose connection is dead without a sign are passed over, wherever
// they stood when it happened.
func TestDeadWaitersArePassedOver(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
		plain, ok := client.(*redis.Client)
		if !ok || plain.Options().Network == "unix" || strings.Contains(plain.Options().Addr, "Sentinel") || plain.Options().TLSConfig != nil {
			t.Skip("the proxy speaks TCP alone, to one server")
		}
		proxy := faultproxy.New(t, plain.Options().Addr)
		opts := *plain.Options()
		opts.Addr, opts.Dialer = proxy.Addr(), nil
		dead := lock.New(newClient(t, &opts))
		holder := acquire(t, client)
		l := newLine(t, client)
		ctx, cancel := context.WithCancel(t.Context())
		var dying sync.WaitGroup
		die := func() {
			inLine := make(chan struct{}, 100)
			dying.Go(func() {
				req := waitRequest()
				req.OnWait = func(lock.Waiting) {
					select {
					case inLine <- struct{}{}:
					default:
					}
				}
				if _, err := dead.Acquire(ctx, req); err == nil {
					t.Error("a dead waiter got the lock")
				}
			})
			<-inLine
		}
		die()
		l.join(0, waitRequest())
		die()
		die()
		l.join(1, waitRequest())
		l.join(2, waitRequest())
		die()
		proxy.BlackHole()
		release(t, holder)
		if got := l.order(); !slices.Equal(got, numbers(3)) {
			t.Errorf("served in the order %v", got)
		}
		cancel()
		dying.Wait()
	})
}

// A server that lost all its data while many wait: they queue anew, and one
// holds the lock at a time.
func TestTheServerForgetsTheLine(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		acquire(t, client)
		locker := lock.New(client)
		var inside, served atomic.Int32
		var waiting, inLine sync.WaitGroup
		const n = 50
		inLine.Add(n)
		for range n {
			waiting.Go(func() {
				var once sync.Once
				req := waitRequest()
				req.OnWait = func(lock.Waiting) { once.Do(inLine.Done) }
				lease, err := locker.Acquire(t.Context(), req)
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two hold the lock")
				}
				served.Add(1)
				inside.Add(-1)
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		inLine.Wait()
		admin.FlushAll(t.Context())
		waiting.Wait()
		if served.Load() != n {
			t.Errorf("%d of %d were served", served.Load(), n)
		}
	})
}

// A try that arrives after its sender gave up, and after the release that was
// to undo it, must not take the lock for nobody.
func TestATryThatComesTooLateFindsItsTokenSpent(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		locker := lock.New(client)
		req := request()
		token, err := lock.NewToken()
		if err != nil {
			t.Fatal(err)
		}
		req.Token = token
		if err := locker.ReleaseToken(t.Context(), name, token, req.TTL, 0, lock.End{}); err != nil {
			t.Fatal(err)
		}
		for _, wait := range []time.Duration{0, lock.Forever} {
			req.Wait = wait
			if _, err := locker.Acquire(t.Context(), req); err == nil {
				t.Error("a spent token took the lock")
			}
		}
		if n := admin.Exists(t.Context(), name, "redlockrun:queue:{"+name+"}").Val(); n != 0 {
			t.Error("it left something behind")
		}
		expectTTLs(t, admin)
		release(t, acquire(t, client))
	})
}

// The answer that says "it is yours" is lost: the next question says it again.
func TestTheReplyToAGrantIsLost(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	for name, then := range map[string]faultproxy.Action{"cut": faultproxy.ThenCut, "hang": faultproxy.ThenHang} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			proxy := faultproxy.New(t, s.Addr())
			client := newClient(t, &redis.Options{Addr: s.Addr()})
			holder := acquire(t, client)
			l := newLine(t, newClient(t, &redis.Options{Addr: proxy.Addr()}))
			req := waitRequest()
			req.ConnectTimeout = 2 * time.Second
			l.join(0, req)
			proxy.DropReply(faultproxy.Command("eval"), then)
			release(t, holder)
			l.order()
		})
	}
}

// What is known of the line is lost, and the lock stays: all queue anew.
func TestTheLineIsLostAndTheLockIsNot(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		holder := acquire(t, client)
		l := newLine(t, client)
		for i := range 5 {
			l.join(i, waitRequest())
		}
		admin.Del(t.Context(), "redlockrun:queue:{"+name+"}", "redlockrun:waiters:{"+name+"}")
		release(t, holder)
		if got := l.order(); len(got) != 5 {
			t.Errorf("served: %v", got)
		}
	})
}

// The server stands still for longer than a grant lasts.
func TestTheServerPausesDuringAHandOff(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	s := redistest.Start(t)
	client := newClient(t, &redis.Options{Addr: s.Addr()})
	holder := acquire(t, client)
	l := newLine(t, client)
	for i := range 5 {
		l.join(i, waitRequest())
	}
	go func() { _ = holder.Release(t.Context()) }()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // longer than a grant: this is what is tested
	if err := s.Cont(); err != nil {
		t.Fatal(err)
	}
	if got := l.order(); len(got) != 5 {
		t.Errorf("served: %v", got)
	}
}

// Redis is away for less than the connect time-out: nobody gives up, and those
// who wait have kept their places.
func TestAnOutageWhileWaiting(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	s := redistest.Start(t)
	proxy := faultproxy.New(t, s.Addr())
	client := newClient(t, &redis.Options{Addr: s.Addr()})
	holder := acquire(t, client)
	l := newLine(t, newClient(t, &redis.Options{Addr: proxy.Addr()}))
	req := waitRequest()
	req.ConnectTimeout = patience
	for i := range 5 {
		l.join(i, req)
	}
	proxy.Refuse()
	time.Sleep(2500 * time.Millisecond) // so that each of them has asked
	proxy.Pass()
	release(t, holder)
	if got := l.order(); !slices.Equal(got, numbers(5)) {
		t.Errorf("served in the order %v", got)
	}

	// A longer one ends the wait as what it is.
	holder = acquire(t, client)
	ended := make(chan error)
	inLine := make(chan struct{}, 100)
	go func() {
		req := waitRequest()
		req.ConnectTimeout = 300 * time.Millisecond
		req.OnWait = func(lock.Waiting) { inLine <- struct{}{} }
		_, err := lock.New(newClient(t, &redis.Options{Addr: proxy.Addr()})).Acquire(t.Context(), req)
		ended <- err
	}()
	<-inLine
	proxy.Refuse()
	if err := <-ended; !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	release(t, holder)
}

func TestWaitersWhoAreNeverWokenAreServed(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	s := redistest.Start(t, redistest.WithACL(strings.ReplaceAll(aclUser, " +blpop", "")))
	client := newClient(t, &redis.Options{Addr: s.Addr(), Username: "locker", Password: "pw-locker"})
	holder := acquire(t, client)
	l := newLine(t, client)
	for i := range 7 {
		l.join(i, waitRequest())
	}
	release(t, holder)
	expectTTLs(t, s.Client(t)) // also of what nobody reads
	if got := l.order(); len(got) != 7 || !slices.Equal(got[:4], numbers(4)) {
		t.Errorf("served in the order %v", got)
	}
}

func TestAPauseOfTheServerKeepsTheOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	s := redistest.Start(t)
	client := newClient(t, &redis.Options{Addr: s.Addr()})
	holder := acquire(t, client)
	l := newLine(t, client)
	req := waitRequest()
	req.ConnectTimeout = patience
	for i := range 5 {
		l.join(i, req)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(7 * time.Second) // longer than a watcher may be silent
	if err := s.Cont(); err != nil {
		t.Fatal(err)
	}
	for { // the line is back, or about to be
		if err := holder.Renew(t.Context()); err == nil {
			break
		}
	}
	release(t, holder)
	if got := l.order(); !slices.Equal(got, numbers(5)) {
		t.Errorf("served in the order %v", got)
	}
}
