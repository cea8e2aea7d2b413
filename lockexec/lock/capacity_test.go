package lock_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func TestReadersShareAndWritersDoNot(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
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
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
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
		ends := admin.ZScore(t.Context(), name, dead.Token()).Val()
		redistest.Eventually(t, func() bool { return float64(admin.Time(t.Context()).Val().UnixMilli()) > ends },
			"the reader's lease has ended by the server's clock")
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
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
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
				time.Sleep(20 * time.Millisecond) // so that others come meanwhile
				inside.Add(-1)
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		users.Wait()
		if n := most.Load(); n > 3 {
			t.Errorf("%d at once, want 3 at most", n)
		} else if n < 2 {
			t.Error("nobody shared the slots: this proves nothing")
		}
	})
}

func TestUsersMustAgreeOnTheSlots(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
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
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
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
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
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

// A sorted set that is somebody's data is no lock: nothing is done to it.
func TestForeignSortedSetsAreLeftAlone(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
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

func TestHoldersWithoutARecordShareWithNobody(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
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
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
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
