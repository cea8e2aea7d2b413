package lock_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// clockServer has a clock that can be set.
func clockServer(t *testing.T) (*redistest.Server, *redis.Client, func(ahead time.Duration)) {
	t.Helper()
	redistest.NeedClock(t)
	s := redistest.Start(t, redistest.WithClock())
	set := func(ahead time.Duration) {
		t.Helper()
		if err := s.SetClock(ahead); err != nil {
			t.Fatal(err)
		}
	}
	return s, newClient(t, &redis.Options{Addr: s.Addr()}), set
}

// The line does not care what time it is, nor how often that changes, as long as
// no step forward ends the lease: neither those who wait since before, nor those
// who came after, are passed over.
func TestWaitersAreServedThroughStepsOfTheClock(t *testing.T) {
	_, client, set := clockServer(t)
	holder := acquire(t, client)
	l := newLine(t, client)
	for i, ahead := range []time.Duration{0, -time.Hour, 3*time.Second - time.Hour, -48 * time.Hour} {
		l.join(i, waitRequest())
		set(ahead)
		if err := holder.Renew(t.Context()); err != nil {
			t.Fatalf("renewed with a clock %v ahead: %v", ahead, err)
		}
	}
	release(t, holder)
	if got := l.order(); !slices.Equal(got, numbers(4)) {
		t.Errorf("served in the order %v", got)
	}
}

// A server whose clock is set forward ends the leases that it has given. Who
// had one is told, and does not get it back; the fence of the next is higher.
func TestAStepForwardEndsTheLease(t *testing.T) {
	s, client, set := clockServer(t)
	first := acquire(t, client)
	set(time.Minute)
	var lost *lock.LostError
	if err := first.Renew(t.Context()); !errors.As(err, &lost) {
		t.Errorf("renewed after a step of a minute: %v, want a LostError", err)
	}
	second := acquire(t, client)
	if second.Fence() <= first.Fence() {
		t.Errorf("the fence went from %d to %d", first.Fence(), second.Fence())
	}
	everyKeyHasTTL(t, s.Client(t), 3)
}

// One whose clock is set back ends none too early, and a renewal makes the
// lease as long as it should be.
func TestAStepBackMakesALeaseLongerUntilItIsRenewed(t *testing.T) {
	s, client, set := clockServer(t)
	lease := acquire(t, client)
	set(-time.Hour)
	admin := s.Client(t)
	if left := admin.PTTL(t.Context(), name).Val(); left < time.Hour {
		t.Errorf("an hour back the lock has %v", left)
	}
	if _, err := lock.New(client).Acquire(t.Context(), request()); !errors.Is(err, lock.ErrLocked) {
		t.Errorf("another got %v, want ErrLocked", err)
	}
	if err := lease.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := admin.PTTL(t.Context(), name).Val(); left > 15*time.Second {
		t.Errorf("after a renewal the lock has %v", left)
	}
	release(t, lease)
	next := acquire(t, client)
	if next.Fence() <= lease.Fence() {
		t.Errorf("the fence went from %d to %d", lease.Fence(), next.Fence())
	}
}

// The same for those who share a lock: their leases end by that clock, each by
// itself.
func TestReadersThroughStepsOfTheClock(t *testing.T) {
	_, client, set := clockServer(t)
	reader := request()
	reader.Capacity = lock.Shared
	first, err := lock.New(client).Acquire(t.Context(), reader)
	if err != nil {
		t.Fatal(err)
	}
	set(-time.Hour)
	second, err := lock.New(client).Acquire(t.Context(), reader)
	if err != nil {
		t.Fatalf("a second reader, an hour before the first: %v", err)
	}
	for _, lease := range []*lock.Lease{first, second} {
		if err := lease.Renew(t.Context()); err != nil {
			t.Errorf("renewed: %v", err)
		}
	}
	set(-time.Hour + time.Minute)
	if err := second.Renew(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("renewed after a step of a minute: %v, want ErrLost", err)
	}
	writer, err := lock.New(client).Acquire(t.Context(), request())
	if err != nil {
		t.Fatalf("a writer, when all leases have ended: %v", err)
	}
	if writer.Fence() <= second.Fence() {
		t.Errorf("the fence went from %d to %d", second.Fence(), writer.Fence())
	}
}
