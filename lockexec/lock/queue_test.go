package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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

func newLine(t *testing.T, client redis.UniversalClient) *line {
	return &line{t: t, locker: lock.New(client)}
}

func waitRequest() lock.Request {
	req := request()
	req.Wait = lock.Forever
	req.ConnectTimeout = patience
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
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
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

// Who looks after Redis counts its errors, and is to look into those that are
// some: the scripts of a run that goes well raise none.
func TestALockOfOneRaisesNoErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	s := redistest.Start(t)
	client := newClient(t, &redis.Options{Addr: s.Addr()})
	holder := acquire(t, client)
	l := newLine(t, client)
	l.join(0, waitRequest())
	if err := holder.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	release(t, holder)
	l.order()
	stats := s.Client(t).Info(t.Context(), "errorstats").Val()
	if strings.Contains(stats, "errorstat_") {
		t.Errorf("Redis counts errors:\n%s", stats)
	}
}

// Nobody passes those who wait: not even when the lock is free and they have
// not yet noticed.
func TestANewcomerDoesNotPassTheLine(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
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

// Who leaves the line leaves nothing behind, and passes on what it was granted
// in that moment.
func TestLeavingTheLine(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
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
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		acquire(t, client)
		req := request()
		req.Wait = 2 * time.Second
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
	today := fmt.Sprint(time.Now().UnixMilli())[:7] // more digits than a token has by chance
	for _, command := range proxy.Commands() {
		if strings.Contains(fmt.Sprint(command), today) {
			t.Errorf("a time of ours was sent: %v", command)
		}
	}
}

// A key may have blanks and a tag of its own: its waiters are woken as others.
func TestWaitersOfAnyKeyAreWoken(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
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
			for i := range 12 {
				l.join(i, req)
			}
			start := time.Now()
			release(t, holder)
			if got := l.order(); !slices.Equal(got, numbers(12)) {
				t.Errorf("%q: served in the order %v", key, got)
			}
			if took := time.Since(start); took > 10*time.Second { // nobody woken: 12 s at least
				t.Errorf("%q: nobody was woken: %v", key, took)
			}
		}
	})
}

// Without the right to block nobody is ever woken: those who watch don't need
// it, and nobody waits for ever.
// While the server is away nobody can ask, and nobody loses its place.
// Who does not know what the others share, shares nothing with them.
