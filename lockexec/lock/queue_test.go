package lock_test

import (
	"context"
	"errors"
	"fmt"
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

// patience is for what must happen sooner or later.
const patience = time.Minute

// line is a number of waiters for one lock, which note the order in which they
// get it.
type line struct {
	t       *testing.T
	locker  *lock.Locker
	waiting sync.WaitGroup

	mu     sync.Mutex
	served []int
}

func newLine(t *testing.T, client *redis.Client) *line {
	return &line{t: t, locker: lock.New(client)}
}

func waitRequest() lock.Request {
	req := request()
	req.Wait = lock.Forever
	return req
}

// join starts waiter n and returns once it is in line.
func (l *line) join(n int, req lock.Request) {
	l.t.Helper()
	inLine := make(chan struct{})
	var once sync.Once
	req.OnWait = func(lock.Waiting) { once.Do(func() { close(inLine) }) }
	l.waiting.Go(func() {
		lease, err := l.locker.Acquire(l.t.Context(), req)
		if err != nil {
			l.t.Errorf("waiter %d: %v", n, err)
			return
		}
		l.mu.Lock()
		l.served = append(l.served, n)
		l.mu.Unlock()
		if err := lease.Release(l.t.Context()); err != nil {
			l.t.Errorf("waiter %d: %v", n, err)
		}
	})
	select {
	case <-inLine:
	case <-time.After(patience):
		l.t.Fatalf("waiter %d never got in line", n)
	}
}

// order waits for all and returns in which order they were served.
func (l *line) order() []int {
	l.t.Helper()
	done := make(chan struct{})
	go func() {
		l.waiting.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		l.t.Fatalf("only %d were served", len(l.served))
	}
	return l.served
}

func numbers(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func release(t *testing.T, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// expectTTLs fails if a key has none.
func expectTTLs(t *testing.T, admin *redis.Client) {
	t.Helper()
	for _, key := range admin.Keys(t.Context(), "*").Val() {
		if ttl := admin.PTTL(t.Context(), key).Val(); ttl == -1 {
			t.Errorf("%s has no TTL", key)
		}
	}
}

func TestWaitersAreServedInOrderOfArrival(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, admin *redis.Client) {
		holder := acquire(t, client)
		l := newLine(t, client)
		const n = 100
		for i := range n {
			l.join(i, waitRequest())
		}
		expectTTLs(t, admin)
		release(t, holder)
		if got := l.order(); !slices.Equal(got, numbers(n)) {
			t.Errorf("served in the order %v", got)
		}
		expectTTLs(t, admin)
		for _, key := range admin.Keys(t.Context(), "*").Val() {
			if strings.Contains(key, ":queue:") || strings.Contains(key, ":waiters:") || !strings.HasPrefix(key, "redlockrun:") {
				t.Errorf("%s is left", key)
			}
		}
	})
}

// A hand-off takes the same number of commands however many wait.
func TestCommandsPerHandOff(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	var each []float64
	for _, n := range []int{10, 100, 1000} {
		s := redistest.Start(t, redistest.WithConfig("maxclients", "4000"))
		client := newClient(t, &redis.Options{Addr: s.Addr()})
		req := waitRequest()
		req.TTL = time.Hour
		holder, err := lock.New(client).Acquire(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		l := newLine(t, client)
		for i := range n {
			l.join(i, req)
		}
		s.ResetStats(t)
		release(t, holder)
		got := l.order()
		if !slices.Equal(got, numbers(n)) {
			t.Errorf("%d waiters: served in the order %v", n, got)
		}
		stats := s.CommandStats(t)
		each = append(each, float64(stats["eval"])/float64(n))
	}
	t.Logf("scripts per hand-off at 10, 100, 1,000 waiters: %.2f", each)
	// Release and confirmation are two, and the one who comes to the front
	// asks once; those at the front ask every second besides.
	if each[2] > 4 {
		t.Errorf("%.2f scripts per hand-off at 1,000 waiters", each[2])
	}
}

// Nobody passes those who wait: not even when the lock is free and they have
// not yet noticed.
func TestANewcomerDoesNotPassTheLine(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, admin *redis.Client) {
		acquire(t, client)
		l := newLine(t, client)
		l.join(0, waitRequest())
		l.join(1, waitRequest())
		admin.Del(t.Context(), name) // by somebody who knows no line
		_, err := lock.New(client).Acquire(t.Context(), request())
		if !errors.Is(err, lock.ErrLocked) && err != nil {
			t.Errorf("got %v", err)
		}
		if err == nil {
			l.mu.Lock()
			if len(l.served) < 2 {
				t.Error("a newcomer passed those who wait")
			}
			l.mu.Unlock()
		}
		if got := l.order(); !slices.Equal(got, numbers(2)) {
			t.Errorf("served in the order %v", got)
		}
	})
}

// A lock that ends without a release is found by the first in line.
func TestALockThatExpires(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, _ *redis.Client) {
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
	forEachPlace(t, func(t *testing.T, client, _ *redis.Client) {
		proxy := faultproxy.New(t, client.Options().Addr)
		opts := *client.Options()
		opts.Addr, opts.Dialer = proxy.Addr(), nil
		if client.Options().Network == "unix" || opts.TLSConfig != nil {
			t.Skip("the proxy speaks TCP alone")
		}
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

// Who leaves the line leaves nothing behind, and passes on what it was granted
// in that moment.
func TestLeavingTheLine(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, admin *redis.Client) {
		for range 20 {
			holder := acquire(t, client)
			ctx, cancel := context.WithCancel(t.Context())
			inLine := make(chan struct{}, 100)
			ended := make(chan error, 1)
			go func() {
				req := waitRequest()
				req.OnWait = func(lock.Waiting) { inLine <- struct{}{} }
				lease, err := lock.New(client).Acquire(ctx, req)
				if err == nil {
					err = lease.Release(context.WithoutCancel(ctx))
				}
				ended <- err
			}()
			<-inLine
			l := newLine(t, client)
			l.join(0, waitRequest())
			go cancel() // races with the grant
			release(t, holder)
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			l.order()
			if n := admin.Exists(t.Context(), name, "redlockrun:queue:{"+name+"}", "redlockrun:waiters:{"+name+"}").Val(); n != 0 {
				t.Fatalf("%d keys are left", n)
			}
		}
	})
}

func TestAWaitThatRunsOut(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, admin *redis.Client) {
		acquire(t, client)
		req := request()
		req.Wait = 300 * time.Millisecond
		var seen lock.Waiting
		req.OnWait = func(w lock.Waiting) { seen = w }
		_, err := lock.New(client).Acquire(t.Context(), req)
		if held := (*lock.HeldError)(nil); !errors.As(err, &held) || held.Holder == nil {
			t.Errorf("got %v", err)
		}
		if seen.Holder == nil || seen.Left <= 0 || seen.Left > req.Wait || seen.Ahead != 0 {
			t.Errorf("told %+v while waiting", seen)
		}
		if n := admin.Exists(t.Context(), "redlockrun:queue:{"+name+"}").Val(); n != 0 {
			t.Error("still in line")
		}
	})
}

// A server that lost all its data while many wait: they queue anew, and one
// holds the lock at a time.
func TestTheServerForgetsTheLine(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, admin *redis.Client) {
		acquire(t, client)
		locker := lock.New(client)
		var inside, served atomic.Int32
		var waiting, inLine sync.WaitGroup
		const n = 20
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

func TestReadersShareAndWritersDoNot(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, admin *redis.Client) {
		locker := lock.New(client)
		shared := request()
		shared.Capacity = lock.Shared
		first, err := locker.Acquire(t.Context(), shared)
		if err != nil {
			t.Fatal(err)
		}
		second, err := locker.Acquire(t.Context(), shared)
		if err != nil {
			t.Fatal(err)
		}
		if second.Fence() <= first.Fence() {
			t.Errorf("fences %d, %d", first.Fence(), second.Fence())
		}
		if _, err := locker.Acquire(t.Context(), request()); !errors.Is(err, lock.ErrLocked) {
			t.Errorf("a writer beside readers: %v", err)
		}
		if set := admin.SetNX(t.Context(), name, "foreign", time.Second).Val(); set {
			t.Error("a foreign client got the lock beside readers")
		}
		// A writer in line stops readers that come later: it would starve.
		l := newLine(t, client)
		l.join(0, waitRequest())
		waitingReader := shared
		waitingReader.Wait = lock.Forever
		l.join(1, waitingReader)
		l.join(2, waitingReader)
		if _, err := locker.Acquire(t.Context(), shared); !errors.Is(err, lock.ErrLocked) {
			t.Errorf("a reader passed a writer: %v", err)
		}
		if err := first.Renew(t.Context()); err != nil {
			t.Errorf("renew: %v", err)
		}
		release(t, first)
		if len(l.served) != 0 {
			t.Error("the writer did not wait for the second reader")
		}
		release(t, second)
		got := l.order()
		if got[0] != 0 {
			t.Errorf("served in the order %v, want the writer first", got)
		}
		if err := second.Renew(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("renewed after the release: %v", err)
		}
	})
}

// A reader that died does not live on by the renewals of others.
func TestADeadReaderIsNotRenewedByOthers(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, _ *redis.Client) {
		locker := lock.New(client)
		shared := request()
		shared.Capacity = lock.Shared
		shared.TTL = time.Second
		dead, err := locker.Acquire(t.Context(), shared)
		if err != nil {
			t.Fatal(err)
		}
		shared.TTL = time.Minute
		alive, err := locker.Acquire(t.Context(), shared)
		if err != nil {
			t.Fatal(err)
		}
		for dead.Expired() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond) // the drift between the two clocks
		if err := dead.Renew(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("renewed after its end: %v", err)
		}
		if err := alive.Renew(t.Context()); err != nil {
			t.Error(err)
		}
		release(t, alive)
		release(t, acquire(t, client))
	})
}

func TestSlots(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, _ *redis.Client) {
		locker := lock.New(client)
		req := waitRequest()
		req.Capacity = 3
		var inside, most atomic.Int32
		var users sync.WaitGroup
		for range 30 {
			users.Go(func() {
				lease, err := locker.Acquire(t.Context(), req)
				if err != nil {
					t.Error(err)
					return
				}
				n := inside.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(5 * time.Millisecond) // so that others come meanwhile
				inside.Add(-1)
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		users.Wait()
		if most.Load() != 3 {
			t.Errorf("%d at once, want 3", most.Load())
		}
	})
}

func TestUsersMustAgreeOnTheSlots(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, _ *redis.Client) {
		locker := lock.New(client)
		for _, test := range []struct {
			used, wanted lock.Capacity
			refused      bool
		}{
			{3, 4, true},
			{3, lock.Exclusive, true},
			{3, lock.Shared, true},
			{lock.Exclusive, 3, true},
			{lock.Shared, 3, true},
			{lock.Exclusive, lock.Shared, false},
			{lock.Shared, lock.Exclusive, false},
		} {
			req := request()
			req.Capacity = test.used
			lease, err := locker.Acquire(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			req.Capacity = test.wanted
			_, err = locker.Acquire(t.Context(), req)
			var mismatch *lock.CapacityError
			if errors.As(err, &mismatch) != test.refused {
				t.Errorf("%v beside %v: %v", test.wanted, test.used, err)
			}
			if test.refused && mismatch != nil && (mismatch.Used != test.used || mismatch.Wanted != test.wanted) {
				t.Errorf("the error tells of %v and %v, not of %v and %v", mismatch.Used, mismatch.Wanted, test.used, test.wanted)
			}
			release(t, lease)
		}
	})
}

func TestOnce(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, admin *redis.Client) {
		locker := lock.New(client)
		req := request()
		req.Once = "2026-12-02"
		failed, err := locker.Acquire(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		release(t, failed) // without success: nothing is remembered
		first, err := locker.Acquire(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		// The second waits, and then finds it done.
		ended := make(chan error)
		inLine := make(chan struct{}, 100)
		go func() {
			second := req
			second.Wait = lock.Forever
			second.OnWait = func(lock.Waiting) { inLine <- struct{}{} }
			_, err := locker.Acquire(t.Context(), second)
			ended <- err
		}()
		<-inLine
		first.Succeed(time.Hour)
		release(t, first)
		if err := <-ended; !errors.Is(err, lock.ErrDone) {
			t.Errorf("the second got %v, want ErrDone", err)
		}
		if n := admin.Exists(t.Context(), name, "redlockrun:queue:{"+name+"}").Val(); n != 0 {
			t.Error("the second left something behind")
		}
		req.Once = "2026-12-03"
		other, err := locker.Acquire(t.Context(), req)
		if err != nil {
			t.Fatalf("another ID: %v", err)
		}
		release(t, other)
		expectTTLs(t, admin)
	})
}

func TestALockThatIsKeptForAWhile(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, admin *redis.Client) {
		lease := acquire(t, client)
		lease.KeepFor(700 * time.Millisecond)
		release(t, lease)
		if left := admin.PTTL(t.Context(), name).Val(); left <= 0 || left > 700*time.Millisecond {
			t.Errorf("the lock has %v left", left)
		}
		if _, err := lock.New(client).Acquire(t.Context(), request()); !errors.Is(err, lock.ErrLocked) {
			t.Errorf("got %v", err)
		}
		l := newLine(t, client)
		l.join(0, waitRequest())
		l.order()
	})
}

// Nobody's clock but the server's counts: see the scripts, which take no time
// from their callers.
func TestScriptsTakeNoTimeFromTheirCallers(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	s := redistest.Start(t)
	proxy := faultproxy.New(t, s.Addr())
	client := newClient(t, &redis.Options{Addr: proxy.Addr()})
	release(t, acquire(t, client))
	year := fmt.Sprint(time.Now().UnixMilli())[:5]
	for _, command := range proxy.Commands() {
		if strings.Contains(fmt.Sprint(command), year) {
			t.Errorf("a time of ours was sent: %v", command)
		}
	}
}

// A try that arrives after its sender gave up, and after the release that was
// to undo it, must not take the lock for nobody.
func TestATryThatComesTooLateFindsItsTokenSpent(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, admin *redis.Client) {
		locker := lock.New(client)
		req := request()
		token, err := lock.NewToken()
		if err != nil {
			t.Fatal(err)
		}
		req.Token = token
		if err := locker.ReleaseToken(t.Context(), name, token, req.TTL); err != nil {
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
	forEachPlace(t, func(t *testing.T, client, admin *redis.Client) {
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

// A sorted set that is somebody's data is no lock: nothing is done to it.
func TestForeignSortedSetsAreLeftAlone(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, admin *redis.Client) {
		for what, prepare := range map[string]func(){
			"without a ttl": func() {
				admin.ZAdd(t.Context(), name, redis.Z{Score: 5, Member: "0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b"}, redis.Z{Score: 1e15, Member: "b"})
			},
			"with a ttl": func() {
				admin.ZAdd(t.Context(), name, redis.Z{Score: 5, Member: "alice"}, redis.Z{Score: 1e15, Member: "bob"})
				admin.PExpire(t.Context(), name, time.Hour)
			},
		} {
			prepare()
			for _, capacity := range []lock.Capacity{lock.Exclusive, lock.Shared, 3} {
				req := request()
				req.Capacity = capacity
				_, err := lock.New(client).Acquire(t.Context(), req)
				if failure := (*lock.ServerError)(nil); !errors.As(err, &failure) || failure.Fault != lock.FaultWrongType {
					t.Errorf("%s, %v: got %v", what, capacity, err)
				}
			}
			if n := admin.ZCard(t.Context(), name).Val(); n != 2 {
				t.Errorf("%s: %d members are left", what, n)
			}
			admin.Del(t.Context(), name)
		}
	})
}

// A key may have blanks and a tag of its own: its waiters are woken as others.
func TestWaitersOfAnyKeyAreWoken(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, _ *redis.Client) {
		for _, key := range []string{"my key", "a {tag} b", "100% %d"} {
			full, err := lock.Name("lock:report:", key)
			if err != nil {
				t.Fatal(err)
			}
			req := waitRequest()
			req.Name = full
			req.Holder.Label = ` "slots":5 %d}`
			holder, err := lock.New(client).Acquire(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			l := newLine(t, client)
			for i := range 6 {
				l.join(i, req)
			}
			start := time.Now()
			release(t, holder)
			if got := l.order(); !slices.Equal(got, numbers(6)) {
				t.Errorf("%q: served in the order %v", key, got)
			}
			if took := time.Since(start); took > 5*time.Second { // nobody woken: 6 s at least
				t.Errorf("%q: nobody was woken: %v", key, took)
			}
		}
	})
}

// Without the right to block nobody is ever woken: those who watch don't need
// it, and nobody waits for ever.
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
	if got := l.order(); len(got) != 7 || !slices.Equal(got[:4], numbers(4)) {
		t.Errorf("served in the order %v", got)
	}
}

// While the server is away nobody can ask, and nobody loses its place.
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

// Who does not know what the others share, shares nothing with them.
func TestHoldersWithoutARecordShareWithNobody(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, admin *redis.Client) {
		req := request()
		req.Capacity = 2
		if _, err := lock.New(client).Acquire(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		admin.Del(t.Context(), "redlockrun:holders:{"+name+"}")
		for _, capacity := range []lock.Capacity{2, 5, lock.Shared, lock.Exclusive} {
			req.Capacity = capacity
			if _, err := lock.New(client).Acquire(t.Context(), req); !errors.Is(err, lock.ErrLocked) {
				t.Errorf("%v: got %v", capacity, err)
			}
		}
	})
}

func TestARenewalDoesNotChangeALockThatIsKept(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client, admin *redis.Client) {
		for _, capacity := range []lock.Capacity{lock.Exclusive, 2} {
			req := request()
			req.Capacity = capacity
			lease, err := lock.New(client).Acquire(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			lease.KeepFor(time.Hour)
			release(t, lease)
			if err := lease.Renew(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("%v: got %v", capacity, err)
			}
			if left := admin.PTTL(t.Context(), name).Val(); left < 50*time.Minute {
				t.Errorf("%v: %v left", capacity, left)
			}
			if capacity == lock.Exclusive {
				_, err = lock.New(client).Acquire(t.Context(), request())
				if held := (*lock.HeldError)(nil); !errors.As(err, &held) || held.Holder == nil {
					t.Errorf("who kept it is not known: %v", err)
				}
			}
			admin.Del(t.Context(), name)
		}
	})
}
