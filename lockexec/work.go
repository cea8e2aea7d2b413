package lockexec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// KeyPrefix is put before the key of a lock, here and, unless told otherwise,
// by the redlockrun tool, so that both exclude each other.
const KeyPrefix = "lock:report:"

// ErrNotReleased is returned after work ran under the lock from beginning to
// end, when the lock could not be released. It expires by itself. The work is
// done: it must not be repeated because of this error, which wraps the reason.
var ErrNotReleased = errors.New("work is done, but its lock could not be released")

// notReleasedError is [ErrNotReleased] with its reason. The reason's own kind is
// told but not unwrapped: ErrUnavailable says that work did not run.
type notReleasedError struct{ reason error }

func (e *notReleasedError) Error() string { return ErrNotReleased.Error() + ": " + e.reason.Error() }

func (e *notReleasedError) Is(target error) bool { return target == ErrNotReleased }

// Unwrap returns what the connection or the server said.
func (e *notReleasedError) Unwrap() error {
	if failure, ok := errors.AsType[*lock.ServerError](e.reason); ok {
		return failure.Err
	}
	return e.reason
}

// PerformLockedWork runs work while it holds the lock of clientID, and returns
// when work has returned and the lock is released.
//
// The lock is the key "lock:report:" + clientID, taken by one atomic SET NX
// with a TTL of 15 s and a UUID as its value, renewed every 5 s while work
// runs, and released by a script that compares the value. It is released, too,
// when work panics, which goes on unchanged, or calls [runtime.Goexit].
//
// Work did not run when the error is one of
//
//   - [ErrLocked]: another holds the lock;
//   - [ErrUnavailable] or [ErrNotPermitted]: Redis could not be asked; the
//     error wraps that of the connection;
//   - the cause of ctx;
//   - a [*lock.NameError]: clientID can't be part of a key.
//
// Work ran to its end when the error is nil or one of
//
//   - [ErrLost]: the lock was lost meanwhile, and another may have run the
//     same work. Work is not stopped for it, having no means to be told;
//     pass what it needs through a closure, and let it check the fence, or use
//     [Run] for work that must be stopped;
//   - [ErrNotReleased].
//
// Cancelling ctx gives up the attempt to take the lock; once work runs, the
// lock is kept and released whatever becomes of ctx. The connection is that of
// rdb, which stays open and whose options, hooks and limits hold; an exchange
// that hangs is given up in time, and ends in the background by the time-outs
// of rdb. PerformLockedWork is safe for concurrent use.
func PerformLockedWork(ctx context.Context, rdb *redis.Client, clientID string, work func()) (err error) {
	if rdb == nil || work == nil {
		return errors.New("lockexec: PerformLockedWork needs a client and work")
	}
	name, err := lock.Name(KeyPrefix, clientID)
	if err != nil {
		return fmt.Errorf("client ID: %w", err)
	}
	lease, err := lock.New(rdb).Acquire(ctx, lock.Request{
		Name:   name,
		TTL:    lock.DefaultTTL,
		Holder: lock.NewHolder("", programName()),
	})
	if err != nil {
		return err
	}
	keeper, stopKeeping := keep(ctx, lease, slog.New(slog.DiscardHandler))

	// Deferred, as work may panic or end its goroutine. Nothing recovers: a
	// panic passes with its own stack.
	defer func() {
		stopKeeping()
		lost := <-keeper
		expired := lease.Expired() // as of the end of work, however long the release takes
		released := release(ctx, lease)
		switch {
		case lost != nil:
			err = lost
		case errors.Is(released, ErrLost):
			err = released
		case released != nil && expired != nil:
			err = expired
		case released != nil:
			err = &notReleasedError{released}
		}
	}()
	work()
	return nil
}

// keep renews the lease, whatever becomes of ctx, until stop is called, which
// waits for its end. The channel then has nil, or earlier the
// [*lock.LostError] that ended the keeping.
func keep(ctx context.Context, lease *lock.Lease, log *slog.Logger) (ended <-chan error, stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	result := make(chan error, 1)
	var keeping sync.WaitGroup
	keeping.Go(func() { result <- lease.Keep(ctx, log) })
	return result, func() {
		cancel()
		keeping.Wait()
	}
}

// release gives the release a time of its own: that of the work may be over.
func release(ctx context.Context, lease *lock.Lease) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), releaseBudget(lease.TTL()), errReleaseTimeout)
	defer cancel()
	return lease.Release(ctx)
}

var errReleaseTimeout = errors.New("no answer in time")

// releaseBudget is how long a release is tried: about as long as a renewal
// would be, as after that the lock is soon gone by itself.
func releaseBudget(ttl time.Duration) time.Duration {
	return min(max(ttl/3, 500*time.Millisecond), 5*time.Second)
}
