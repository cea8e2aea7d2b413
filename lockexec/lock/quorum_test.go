package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// quorumTTL is short, as a server counts only when it is up for as long.
const quorumTTL = 4 * time.Second

// quorum is three servers behind proxies.
type quorum struct {
	servers []*redistest.Server
	proxies []*faultproxy.Proxy
	locker  *lock.Locker
}

func newQuorum(t *testing.T) *quorum {
	t.Helper()
	q := &quorum{}
	for range 3 {
		s := redistest.Start(t)
		q.servers = append(q.servers, s)
		q.proxies = append(q.proxies, faultproxy.New(t, s.Addr()))
	}
	q.locker = q.newLocker(t)
	for _, s := range q.servers {
		awaitUptime(t, s, quorumTTL)
	}
	return q
}

// newLocker returns a Locker with connections of its own.
func (q *quorum) newLocker(t *testing.T) *lock.Locker {
	t.Helper()
	var clients []redis.UniversalClient
	for _, p := range q.proxies {
		clients = append(clients, newClient(t, &redis.Options{Addr: p.Addr()}))
	}
	locker, err := lock.NewQuorum(clients...)
	if err != nil {
		t.Fatal(err)
	}
	return locker
}

// awaitUptime waits until the server counts in a quorum.
func awaitUptime(t *testing.T, s *redistest.Server, ttl time.Duration) {
	t.Helper()
	client := s.Client(t)
	redistest.Eventually(t, func() bool {
		var up int64
		_, _ = fmt.Sscanf(client.InfoMap(t.Context(), "server").Item("Server", "uptime_in_seconds"), "%d", &up)
		return time.Duration(up)*time.Second >= ttl+time.Second
	}, "the server is up for long enough")
}

// values are what the servers have in the lock.
func (q *quorum) values(t *testing.T) []string {
	t.Helper()
	var values []string
	for _, s := range q.servers {
		values = append(values, get(t, s.Client(t), name))
	}
	return values
}

func quorumRequest() lock.Request {
	req := request()
	req.TTL = quorumTTL
	req.ConnectTimeout = 20 * time.Second
	return req
}

func (q *quorum) acquire(t *testing.T) *lock.Lease {
	t.Helper()
	lease, err := q.locker.Acquire(t.Context(), quorumRequest())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// keeping renews a lease until it is lost or the test stops it.
func keeping(t *testing.T, lease *lock.Lease) (ended <-chan error, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	lost := make(chan error, 1)
	go func() { lost <- lease.Keep(ctx, slog.New(slog.DiscardHandler)) }()
	return lost, cancel
}

func TestAQuorumExcludesAndReleases(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	lease := q.acquire(t)
	redistest.Eventually(t, func() bool {
		for _, value := range q.values(t) {
			if value != lease.Token() {
				return false
			}
		}
		return true
	}, "all servers have the token")
	_, err := q.newLocker(t).Acquire(t.Context(), quorumRequest())
	var held *lock.HeldError
	if !errors.As(err, &held) || held.Holder == nil || held.Holder.Label != "web-3" {
		t.Fatalf("got %v, want a HeldError that names the holder", err)
	}
	for _, s := range q.servers { // what is left must not go away by itself
		s.Client(t).Persist(t.Context(), name)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, func() bool { return fmt.Sprint(q.values(t)) == "[  ]" }, "the lock is gone from all servers")
	for _, s := range q.servers {
		everyKeyHasTTL(t, s.Client(t), 1)
	}
}

// One of three may fail, in any way.
func TestAQuorumDoesWithoutOneServer(t *testing.T) {
	t.Parallel()
	for fault, cause := range map[string]func(q *quorum) (mend func()){
		"killed": func(q *quorum) func() {
			q.servers[1].Kill()
			return func() {}
		},
		"stopped": func(q *quorum) func() {
			q.servers[1].Stop()
			return func() { q.servers[1].Cont() }
		},
		"replies get lost": func(q *quorum) func() {
			q.proxies[1].DropReplies(faultproxy.Command("eval"), faultproxy.ThenHang)
			return func() {}
		},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			q := newQuorum(t)
			mend := cause(q)
			defer mend()
			lease := q.acquire(t)
			ended, stop := keeping(t, lease)
			first := lease.SafeEnd()
			redistest.Eventually(t, func() bool { return lease.SafeEnd() > first }, "the lease is renewed")
			if _, err := q.newLocker(t).Acquire(t.Context(), quorumRequest()); !errors.Is(err, lock.ErrLocked) {
				t.Errorf("got %v, want ErrLocked", err)
			}
			stop()
			if err := <-ended; err != nil {
				t.Errorf("keeping the lease: %v", err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("release: %v", err)
			}
		})
	}
}

func TestAQuorumNeedsMostServers(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	lease := q.acquire(t)
	q.servers[0].Kill()
	q.servers[1].Kill()
	if err := lease.Renew(t.Context()); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("renewal: got %v, want ErrUnavailable", err)
	}
	req := quorumRequest()
	req.Name += "-other"
	req.ConnectTimeout = 300 * time.Millisecond
	_, err := q.newLocker(t).Acquire(t.Context(), req)
	var failure *lock.ServerError
	if !errors.As(err, &failure) || !errors.Is(err, lock.ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	redistest.Eventually(t, func() bool { return get(t, q.servers[2].Client(t), req.Name) == "" },
		"what was taken on the one server is given back")
}

// A server that lost what it had gets the lock back while most have it, and a
// loss on most is a loss.
func TestARenewalRestoresTheLockWhereItIsLacking(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	lease := q.acquire(t)
	ended, stop := keeping(t, lease)
	defer stop()
	for i, s := range q.servers {
		s.Client(t).Del(t.Context(), name)
		redistest.Eventually(t, func() bool { return get(t, s.Client(t), name) == lease.Token() },
			fmt.Sprintf("server %d has the lock again", i))
	}
	q.servers[0].Client(t).Set(t.Context(), name, "another", time.Minute)
	q.servers[1].Client(t).Set(t.Context(), name, "another", time.Minute)
	if err := <-ended; !errors.Is(err, lock.ErrLost) {
		t.Errorf("keeping: got %v, want ErrLost", err)
	}
	if got := q.values(t); got[0] != "another" || got[1] != "another" {
		t.Errorf("the servers have %q", got)
	}
}

// The server that was restarted empty had given its vote to the holder.
func TestAServerThatWasJustStartedDoesNotCount(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	q.servers[2].Kill() // the holder has two
	req := quorumRequest()
	req.TTL = 4 * time.Second
	for _, s := range q.servers[:2] {
		awaitUptime(t, s, req.TTL)
	}
	if _, err := q.locker.Acquire(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	end := lock.Now().Add(req.TTL)
	q.servers[1].Kill()
	q.servers[1].Restart() // empty
	q.servers[2].Restart()
	other := req
	other.Wait = lock.Forever
	lease, err := q.newLocker(t).Acquire(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	if taken := lease.SafeEnd().Add(-req.TTL); taken < end.Add(-300*time.Millisecond) {
		t.Errorf("taken %v before the first lease ended", taken.Until(end))
	}
}

// Each server has a counter of its own, and may lose it.
func TestFencesOfAQuorumRise(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	q.servers[0].Client(t).Set(t.Context(), fenceKey, ahead, time.Hour)
	last := int64(0)
	for i := range 6 {
		down := q.servers[(i+1)%3] // another majority each time
		down.Stop()
		lease := q.acquire(t)
		if lease.Fence() <= last {
			t.Errorf("the fence went from %d to %d", last, lease.Fence())
		}
		last = lease.Fence()
		for _, s := range q.servers {
			if s != down {
				everyKeyHasTTL(t, s.Client(t), 1)
			}
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		down.Cont()
		redistest.Eventually(t, func() bool { return get(t, down.Client(t), name) == "" }, "the late votes are gone")
	}
	if last <= ahead {
		t.Errorf("the fence %d is not above that of the server that is ahead, %d", last, ahead)
	}
}

// Five pods start the same job at the same time: one runs it, and votes that
// were split do not send them all away.
func TestAQuorumIsOneOfFivesWhoComeTogether(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	for round := range 10 {
		req := quorumRequest()
		req.Name = fmt.Sprint(name, round)
		var got atomic.Int32
		var pods sync.WaitGroup
		for range 5 {
			locker := q.newLocker(t)
			pods.Go(func() {
				_, err := locker.Acquire(context.Background(), req)
				switch {
				case err == nil:
					got.Add(1)
				case !errors.Is(err, lock.ErrLocked):
					t.Errorf("got %v, want ErrLocked", err)
				}
			})
		}
		pods.Wait()
		if n := got.Load(); n != 1 {
			t.Errorf("round %d: %d have the lock, want one", round, n)
		}
	}
}

func TestThoseWhoWaitForAQuorumGetIt(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	var inside, served atomic.Int32
	var waiters sync.WaitGroup
	for range 5 {
		locker := q.newLocker(t)
		waiters.Go(func() {
			req := quorumRequest()
			req.Wait = lock.Forever
			lease, err := locker.Acquire(context.Background(), req)
			if err != nil {
				t.Errorf("acquire: %v", err)
				return
			}
			if inside.Add(1) != 1 {
				t.Error("two have the lock")
			}
			served.Add(1)
			inside.Add(-1)
			if err := lease.Release(context.Background()); err != nil {
				t.Errorf("release: %v", err)
			}
		})
	}
	waiters.Wait()
	if served.Load() != 5 {
		t.Errorf("%d of 5 were served", served.Load())
	}
}

func TestAQuorumRefusesWhatItHasNot(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	shared, replicas := quorumRequest(), quorumRequest()
	shared.Capacity = lock.Shared
	replicas.Replicas = 1
	for what, req := range map[string]lock.Request{"shared": shared, "replicas": replicas} {
		if _, err := q.locker.Acquire(t.Context(), req); !errors.Is(err, lock.ErrQuorum) {
			t.Errorf("%s: got %v, want ErrQuorum", what, err)
		}
	}
	if _, err := lock.NewQuorum(redis.NewClient(&redis.Options{}), redis.NewClient(&redis.Options{})); err == nil {
		t.Error("two servers are taken for a quorum")
	}
}

// A vote that comes when the lock was released already takes nothing.
func TestALateVoteTakesNoLock(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	deliver := q.proxies[2].HoldRequests(func(cmd []string) bool { return strings.Contains(strings.Join(cmd, " "), "too_young") })
	lease := q.acquire(t)
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	third := q.servers[2]
	third.ResetStats(t)
	deliver()
	redistest.Eventually(t, func() bool { return third.CommandStats(t)["eval"] > 0 }, "the late vote has come")
	if got := get(t, third.Client(t), name); got != "" {
		t.Errorf("the server has %q in the lock", got)
	}
}
