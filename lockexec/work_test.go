package lockexec_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/faultproxy"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func TestPerformLockedWorkHoldsTheLockWhileWorkRuns(t *testing.T) {
	s, admin := server(t)
	rdb := plainClient(t, s.Addr())
	ran := false
	err := lockexec.PerformLockedWork(t.Context(), rdb, clientID, func() {
		ran = true
		value := admin.Get(t.Context(), lockName).Val()
		if _, err := uuid.Parse(value); err != nil {
			t.Errorf("the lock holds %q, want a UUID", value)
		}
		if ttl := admin.PTTL(t.Context(), lockName).Val(); ttl <= 0 || ttl > 15*time.Second {
			t.Errorf("ttl %v", ttl)
		}
	})
	if err != nil || !ran {
		t.Fatalf("ran: %v, error: %v", ran, err)
	}
	if n := admin.Exists(t.Context(), lockName).Val(); n != 0 {
		t.Error("the lock was not released")
	}
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the caller's client: %v", err)
	}
}

func TestPerformLockedWorkRunsOneOfMany(t *testing.T) {
	s, _ := server(t)
	rdb := plainClient(t, s.Addr())
	const workers = 30
	var running, most, done atomic.Int32
	errs := make(chan error, workers)
	hold := make(chan struct{})
	for range workers {
		go func() {
			errs <- lockexec.PerformLockedWork(t.Context(), rdb, clientID, func() {
				most.Store(max(most.Load(), running.Add(1)))
				<-hold
				done.Add(1)
				running.Add(-1)
			})
		}()
	}
	for range workers - 1 {
		if err := <-errs; !errors.Is(err, lockexec.ErrLocked) {
			t.Errorf("got %v, want ErrLocked", err)
		}
	}
	close(hold)
	if err := <-errs; err != nil {
		t.Error(err)
	}
	if most.Load() != 1 || done.Load() != 1 {
		t.Errorf("%d ran at once, %d in all, want one", most.Load(), done.Load())
	}
}

func TestDifferentClientsDoNotWaitForEachOther(t *testing.T) {
	s, _ := server(t)
	rdb := plainClient(t, s.Addr())
	err := lockexec.PerformLockedWork(t.Context(), rdb, "a", func() {
		if err := lockexec.PerformLockedWork(t.Context(), rdb, "b", func() {}); err != nil {
			t.Error(err)
		}
		if err := lockexec.PerformLockedWork(t.Context(), rdb, "a", func() { t.Error("ran twice") }); !errors.Is(err, lockexec.ErrLocked) {
			t.Errorf("got %v", err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAPanicInWorkPassesAndReleases(t *testing.T) {
	s, admin := server(t)
	type own struct{ n int }
	func() {
		defer func() {
			if got := recover(); got != (own{7}) {
				t.Errorf("recovered %v, want the panic of work", got)
			}
		}()
		_ = lockexec.PerformLockedWork(t.Context(), plainClient(t, s.Addr()), clientID, func() { panic(own{7}) })
		t.Error("the panic did not pass")
	}()
	if n := admin.Exists(t.Context(), lockName).Val(); n != 0 {
		t.Error("the lock was not released")
	}
}

func TestGoexitInWorkReleases(t *testing.T) {
	s, admin := server(t)
	rdb := plainClient(t, s.Addr())
	ended := make(chan bool)
	go func() {
		returned := false
		defer func() { ended <- returned }()
		_ = lockexec.PerformLockedWork(context.Background(), rdb, clientID, runtime.Goexit)
		returned = true
	}()
	if <-ended {
		t.Error("Goexit did not end the goroutine")
	}
	if n := admin.Exists(t.Context(), lockName).Val(); n != 0 {
		t.Error("the lock was not released")
	}
}

func TestALockLostDuringWorkIsReported(t *testing.T) {
	s, admin := server(t)
	rdb := plainClient(t, s.Addr())
	err := lockexec.PerformLockedWork(t.Context(), rdb, clientID, func() { admin.Del(t.Context(), lockName) })
	if !errors.Is(err, lockexec.ErrLost) {
		t.Errorf("deleted: got %v, want ErrLost", err)
	}
	err = lockexec.PerformLockedWork(t.Context(), rdb, clientID, func() {
		admin.Set(t.Context(), lockName, "another", time.Minute)
	})
	if !errors.Is(err, lockexec.ErrLost) {
		t.Errorf("taken over: got %v, want ErrLost", err)
	}
	if got := admin.Get(t.Context(), lockName).Val(); got != "another" {
		t.Errorf("another's lock became %q", got)
	}
}

func TestTheLockIsRenewedWhileWorkRuns(t *testing.T) {
	s, admin := server(t)
	err := lockexec.PerformLockedWork(t.Context(), plainClient(t, s.Addr()), clientID, func() {
		for range 2 {
			admin.PExpire(t.Context(), lockName, 9*time.Second) // the next renewal is due in 5 s
			redistest.Eventually(t, func() bool {
				return admin.PTTL(t.Context(), lockName).Val() > 10*time.Second
			}, "the lock was renewed")
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCancellingTheContext(t *testing.T) {
	s, admin := server(t)
	rdb := plainClient(t, s.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	err := lockexec.PerformLockedWork(ctx, rdb, clientID, cancel)
	if err != nil {
		t.Errorf("cancelled during work: %v", err)
	}
	if n := admin.Exists(t.Context(), lockName).Val(); n != 0 {
		t.Error("the release was cancelled with the context")
	}
	err = lockexec.PerformLockedWork(ctx, rdb, clientID, func() { t.Error("work ran") })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	if n := admin.Exists(t.Context(), lockName).Val(); n != 0 {
		t.Error("a cancelled attempt left a lock")
	}
}

func TestAConnectionErrorIsWrapped(t *testing.T) {
	t.Parallel() // it takes the connect time-out
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	err = lockexec.PerformLockedWork(t.Context(), plainClient(t, addr), clientID, func() { t.Error("work ran") })
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.Is(err, lockexec.ErrUnavailable) ||
		errors.Is(err, lockexec.ErrLocked) || errors.Is(err, lockexec.ErrLost) {
		t.Errorf("got %v", err)
	}
}

func TestALostReplyNeverLocksTheCallerOut(t *testing.T) {
	s, admin := server(t)
	proxy := faultproxy.New(t, s.Addr())
	proxy.DropReply(faultproxy.Command("eval"), faultproxy.ThenCut)
	ran := false
	if err := lockexec.PerformLockedWork(t.Context(), plainClient(t, proxy.Addr()), clientID, func() { ran = true }); err != nil || !ran {
		t.Errorf("ran: %v, error: %v", ran, err)
	}
	if n := admin.Exists(t.Context(), lockName).Val(); n != 0 {
		t.Error("the lock was not released")
	}
}

// Work is done: whoever would repeat it for this error must be able to tell.
func TestAReleaseThatFailsSaysThatWorkIsDone(t *testing.T) {
	s, _ := server(t)
	proxy := faultproxy.New(t, s.Addr())
	err := lockexec.PerformLockedWork(t.Context(), plainClient(t, proxy.Addr()), clientID, proxy.Refuse)
	if !errors.Is(err, lockexec.ErrNotReleased) || errors.Is(err, lockexec.ErrLost) || errors.Is(err, lockexec.ErrUnavailable) {
		t.Errorf("got %v, want ErrNotReleased alone", err)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v does not wrap the error of the connection", err)
	}
}

// A client may carry hooks for tracing, and limits.
func TestHooksOfTheClientSeeTheCommands(t *testing.T) {
	s, _ := server(t)
	rdb := plainClient(t, s.Addr())
	var seen atomic.Int32
	rdb.AddHook(countingHook{&seen})
	if err := lockexec.PerformLockedWork(t.Context(), rdb, clientID, func() {}); err != nil {
		t.Fatal(err)
	}
	if seen.Load() < 2 { // on a slow machine, some are tried again
		t.Errorf("hooks saw %d commands, want 2 at least", seen.Load())
	}
}

type countingHook struct{ seen *atomic.Int32 }

func (countingHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h countingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "eval" {
			h.seen.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (countingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestWhatCannotBeAskedFor(t *testing.T) {
	rdb := plainClient(t, "127.0.0.1:1")
	for _, id := range []string{"", "-x", "a\nb", "{", "bad\xff"} {
		err := lockexec.PerformLockedWork(t.Context(), rdb, id, func() { t.Error("work ran") })
		if _, ok := errors.AsType[*lock.NameError](err); !ok {
			t.Errorf("client ID %q: %v", id, err)
		}
	}
	if lockexec.PerformLockedWork(t.Context(), nil, clientID, func() {}) == nil {
		t.Error("a nil client was accepted")
	}
	if lockexec.PerformLockedWork(t.Context(), rdb, clientID, nil) == nil {
		t.Error("nil work was accepted")
	}
}

func TestNoGoroutineIsLeftBehind(t *testing.T) {
	s, _ := server(t)
	proxy := faultproxy.New(t, s.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	// Warm up what stays as long as client and proxy do.
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()
	if err := lockexec.PerformLockedWork(t.Context(), rdb, "a", func() {}); err != nil {
		t.Error(err)
	}
	_ = lockexec.PerformLockedWork(t.Context(), rdb, "b", func() {
		_ = lockexec.PerformLockedWork(t.Context(), rdb, "b", func() {})
	})
	goleak.VerifyNone(t, before)
	if err := rdb.Close(); err != nil {
		t.Error(err)
	}
}
