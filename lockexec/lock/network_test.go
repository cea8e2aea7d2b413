package lock_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/faultproxy"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

var scripts = faultproxy.Command("eval")

// proxied starts a server with a proxy before it.
func proxied(t *testing.T) (*faultproxy.Proxy, *redis.Client) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	s := redistest.Start(t)
	return faultproxy.New(t, s.Addr()), s.Client(t)
}

// clients makes a client of ours, and one as any program makes it, which sends
// again by itself what got no answer, unless it is told not to.
var clients = map[string]func(t *testing.T, opts *redis.Options) *redis.Client{
	"our client": newClient,
	"any client": func(t *testing.T, opts *redis.Options) *redis.Client {
		t.Helper()
		opts.ReadTimeout = time.Second
		client := redis.NewClient(opts)
		t.Cleanup(func() { _ = client.Close() })
		return client
	},
}

// Whoever asks again after a lost reply finds a lock in place: their own.
func TestALostReplyDoesNotLockUsOut(t *testing.T) {
	for what, then := range map[string]faultproxy.Action{"cut": faultproxy.ThenCut, "hangs": faultproxy.ThenHang} {
		for whose, newClient := range clients {
			t.Run(what+"/"+whose, func(t *testing.T) {
				proxy, admin := proxied(t)
				proxy.DropReply(scripts, then)
				lease := acquire(t, newClient(t, &redis.Options{Addr: proxy.Addr()}))
				if got := get(t, admin, name); got != lease.Token() {
					t.Errorf("the lock holds %q, want %q", got, lease.Token())
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestTheFirstTrysFenceIsKeptWhenItsReplyIsLost(t *testing.T) {
	proxy, admin := proxied(t)
	proxy.DropReply(scripts, faultproxy.ThenCut)
	lease := acquire(t, newClient(t, &redis.Options{Addr: proxy.Addr()}))
	if got := get(t, admin, fenceKey); got != strconv.FormatInt(lease.Fence(), 10) {
		t.Errorf("the counter is at %s, the lease at %d: two fences for one acquisition", got, lease.Fence())
	}
}

func TestALostReplyToAReleaseIsNoLoss(t *testing.T) {
	for what, then := range map[string]faultproxy.Action{"cut": faultproxy.ThenCut, "hangs": faultproxy.ThenHang} {
		for whose, newClient := range clients {
			t.Run(what+"/"+whose, func(t *testing.T) {
				proxy, admin := proxied(t)
				lease := acquire(t, newClient(t, &redis.Options{Addr: proxy.Addr()}))
				proxy.DropReply(scripts, then)
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("released, but: %v", err)
				}
				if got := get(t, admin, name); got != "" {
					t.Errorf("the lock still holds %q", got)
				}
			})
		}
	}
}

// A request that got lost while its connection stays open is sent again in time,
// also with a long ttl.
func TestAReleaseThatNobodyAnswersIsSentAgain(t *testing.T) {
	proxy, admin := proxied(t)
	locker := lock.New(newClient(t, &redis.Options{Addr: proxy.Addr()}))
	req := request()
	req.TTL = time.Hour
	lease, err := locker.Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Forget()
	letGo := proxy.HoldRequests(scripts)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	released := make(chan error)
	go func() { released <- lease.Release(ctx) }()
	redistest.Eventually(t, func() bool { return len(proxy.Commands()) > 1 }, "another release is sent")
	letGo()
	if err := <-released; err != nil {
		t.Error(err)
	}
	if got := get(t, admin, name); got != "" {
		t.Errorf("the lock still holds %q", got)
	}
}

// A try that never left this machine released nothing: what is gone then was
// lost.
func TestALossIsNotTakenForAReleaseThatNobodyHeard(t *testing.T) {
	proxy, admin := proxied(t)
	lease := acquire(t, newClient(t, &redis.Options{Addr: proxy.Addr()}))
	proxy.Refuse()
	for range 3 { // use up the connections that were there
		_ = lease.Renew(t.Context())
	}
	admin.Del(t.Context(), name)
	released := make(chan error)
	go func() { released <- lease.Release(t.Context()) }()
	select {
	case err := <-released:
		t.Fatalf("ended while nobody listened: %v", err)
	case <-time.After(100 * time.Millisecond): // some tries have failed by now, or will
	}
	proxy.Pass()
	lostFor(t, <-released, lock.LossMissing)
}

func TestAnAcquisitionThatIsCancelledLeavesNoLock(t *testing.T) {
	proxy, admin := proxied(t)
	proxy.DelayReplies(2 * time.Second)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("stop asked for")
	go func() {
		for get(t, admin, name) == "" {
			time.Sleep(time.Millisecond)
		}
		cancel(cause) // the lock is taken, the reply on its way
		proxy.DelayReplies(0)
	}()
	lease, err := lock.New(newClient(t, &redis.Options{Addr: proxy.Addr()})).Acquire(ctx, request())
	if lease != nil || !errors.Is(err, cause) {
		t.Fatalf("got %v, %v, want the cause", lease, err)
	}
	if got := get(t, admin, name); got != "" {
		t.Errorf("the lock holds %q", got)
	}
}

// A request that is still on its way when the caller gives up must not take
// the lock behind its back.
func TestALateRequestIsSettledBeforeGivingUp(t *testing.T) {
	proxy, admin := proxied(t)
	arrived := make(chan struct{})
	release := proxy.HoldRequests(scripts)
	proxy.OnRequest(func(cmd []string) {
		if scripts(cmd) {
			select {
			case <-arrived:
			default:
				close(arrived)
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
		time.Sleep(50 * time.Millisecond) // let the caller notice first
		release()
	}()
	if _, err := lock.New(newClient(t, &redis.Options{Addr: proxy.Addr()})).Acquire(ctx, request()); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	eventually(t, "the late request has come", func() bool {
		return strings.Contains(admin.Info(t.Context(), "commandstats").Val(), "cmdstat_eval:")
	})
	if got := get(t, admin, name); got != "" {
		t.Errorf("the lock holds %q", got)
	}
}

func TestABlackHoleIsATimeout(t *testing.T) {
	proxy, admin := proxied(t)
	proxy.BlackHole()
	req := request()
	req.ConnectTimeout = 400 * time.Millisecond
	_, err := lock.New(newClient(t, &redis.Options{Addr: proxy.Addr()})).Acquire(t.Context(), req)
	var failure *lock.ServerError
	if !errors.As(err, &failure) || failure.Fault != lock.FaultTimeout {
		t.Errorf("got %v, want a time-out", err)
	}
	proxy.Cut()
	proxy.Pass()
	if got := get(t, admin, name); got != "" {
		t.Errorf("the lock holds %q", got)
	}
}

func TestARenewalThatFailsIsNoLoss(t *testing.T) {
	proxy, admin := proxied(t)
	lease := acquire(t, newClient(t, &redis.Options{Addr: proxy.Addr()}))
	end := lease.SafeEnd()
	proxy.Refuse()
	for range 3 {
		if err := lease.Renew(t.Context()); !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, lock.ErrLost) {
			t.Errorf("got %v, want unavailable", err)
		}
	}
	if lease.SafeEnd() != end {
		t.Error("a renewal that failed moved the safe end")
	}
	proxy.Pass()
	if err := lease.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	if got := get(t, admin, name); got != lease.Token() {
		t.Errorf("the lock holds %q", got)
	}
}

// A release that was sent when the lease was over says nothing of what happened
// before it was.
func TestALostReplyToALateReleaseIsALoss(t *testing.T) {
	proxy, admin := proxied(t)
	req := request()
	req.TTL = time.Second
	lease, err := lock.New(newClient(t, &redis.Options{Addr: proxy.Addr()})).Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, func() bool { return lease.Expired() != nil && get(t, admin, name) == "" }, "the lease has ended")
	proxy.DropReply(scripts, faultproxy.ThenCut)
	lostFor(t, lease.Release(t.Context()), lock.LossMissing)
}
