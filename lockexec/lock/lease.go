package lock

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Lease is a lock that we hold. It is safe for concurrent use.
type Lease struct {
	locker *Locker
	name   string
	token  string
	fence  int64
	ttl    time.Duration
	done   string // the key of the success marker, or ""

	// calls counts the exchanges under way. One that was given up goes on
	// until its own time-out.
	calls sync.WaitGroup

	extended chan struct{} // has room for one

	// unsettled: a try to acquire or to restore may still be on its way, and must
	// not take the lock when it comes.
	unsettled bool

	// What the release is to do beside: see Succeed, KeepFor and Record.
	success    string
	successTTL time.Duration
	keep       time.Duration
	history    int    // how many runs are kept, or 0
	record     string // of the holder, as it was sent
	end        string // what the history is to have, or ""

	mu        sync.Mutex
	sent      Instant // when the last exchange that set the ttl was sent
	lastError error   // of the last renewal, nil when it succeeded
}

// Name returns the full name of the lock.
func (l *Lease) Name() string { return l.name }

// Token returns the value that stands for this holder in the lock.
func (l *Lease) Token() string { return l.token }

// Fence returns the fencing number of this holder: higher than that of every
// earlier holder, exact in a float64. A resource that remembers the highest
// it saw can refuse a holder that was paused and overtaken.
func (l *Lease) Fence() int64 { return l.fence }

// TTL returns how long the server keeps the lock after each renewal.
func (l *Lease) TTL() time.Duration { return l.ttl }

// SafeEnd returns the instant up to which the lock is surely ours: the ttl
// counted from before the last successful exchange was sent, less the drift
// between this clock and the server's, 1 % of the ttl and 2 ms.
func (l *Lease) SafeEnd() Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.safeEnd()
}

func (l *Lease) safeEnd() Instant {
	drift := l.ttl/100 + 2*time.Millisecond
	return l.sent.Add(l.ttl - drift)
}

// Extended returns a channel that tells when [Lease.SafeEnd] has moved since it
// was last received from.
func (l *Lease) Extended() <-chan struct{} { return l.extended }

// Expired returns nil before the safe end, and [Lease.Overdue] after it.
func (l *Lease) Expired() error {
	if l.locker.now() < l.SafeEnd() {
		return nil
	}
	return l.Overdue()
}

// overdue reports whether the safe end has passed, of a lease that has one.
func (l *Lease) overdue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent != 0 && l.locker.now() >= l.safeEnd()
}

// Overdue returns the [*LostError] of a lease that was not renewed in time,
// with the last renewal's failure as its cause. It does not look at the clock.
func (l *Lease) Overdue() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &LostError{Name: l.name, Reason: LossExpired, Cause: l.lastError}
}

// extend notes that an exchange sent at that instant set the ttl anew. One
// whose reply came late never moves the safe end back.
func (l *Lease) extend(sent Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = max(l.sent, sent)
	l.lastError = nil
	select {
	case l.extended <- struct{}{}:
	default:
	}
}

// renewalDue returns the time until the next renewal, a third of the ttl
// after the last one was sent.
func (l *Lease) renewalDue() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, l.sent.Add(l.ttl/3).Until(l.locker.now()))
}

func (l *Lease) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastError = err
}

// Renew starts the lease anew. It fails with [*LostError] when the lock is
// gone or another's, which is final; with [*ServerError] when that is not
// known, which leaves the safe end where it was; or with the cause of ctx.
func (l *Lease) Renew(ctx context.Context) error {
	sent := l.locker.now()
	votes := l.ask(ctx, l.ttl/6, renewal, []string{l.name}, l.token, l.ttl.Milliseconds())
	state, err := votes.outcome(ctx)
	if err != nil {
		if ctx.Err() == nil { // being called off is no failure
			l.failed(err)
		}
		return err
	}
	if state != ours {
		return l.lost(state)
	}
	l.extend(sent)
	l.restore(ctx, votes)
	return nil
}

// RenewWithin renews the lease and its record, trying until ctx is done while the server
// can't be reached, or refuses for a reason that may pass.
func (l *Lease) RenewWithin(ctx context.Context) error {
	for retry := (backoff{most: lastBackoff}); ; {
		err := l.Renew(ctx)
		if err == nil {
			l.refresh(ctx, slog.New(slog.DiscardHandler))
			return nil
		}
		failure, _ := errors.AsType[*ServerError](err)
		if failure == nil || !failure.Fault.passing() || !retry.sleep(ctx, l.ttl) {
			return err
		}
	}
}

func (l *Lease) lost(state ownership) *LostError {
	reason := LossMissing
	switch state {
	case another:
		reason = LossReplaced
	case revoked:
		reason = LossRevoked
	case ours, gone:
	}
	return &LostError{Name: l.name, Reason: reason}
}

// Keep renews the lease every third of its ttl until ctx is done, and returns
// nil, or until the lock is lost, and returns a [*LostError]. That of a quorum
// is renewed at once, too, so that all servers have it: the acquisition did not
// wait for those that were late, or did not count yet. A renewal that
// fails otherwise is tried again at once and then with short pauses; each
// such failure goes to log. Keep does not look at the safe end: whoever has
// work to stop watches that, on a goroutine that no server can hold up.
func (l *Lease) Keep(ctx context.Context, log *slog.Logger) error {
	_ = releasing.source() // made while there is time for it
	refresh := time.NewTicker(recordTTL(l.ttl) / 3)
	defer refresh.Stop()
	due := l.renewalDue()
	if l.locker.quorum() {
		due = 0
	}
	for ; ; due = l.renewalDue() {
		select {
		case <-ctx.Done():
			return nil
		case <-refresh.C:
			l.refresh(ctx, log)
			continue
		case <-time.After(due):
		}
		for retry := (backoff{most: min(lastBackoff, l.ttl/12)}); ; {
			err := l.Renew(ctx)
			if err == nil {
				log.Debug("renewed "+l.name, "event", "renewed", "lock", l.name)
				break
			}
			if errors.Is(err, ErrLost) {
				return err
			}
			if ctx.Err() != nil {
				return nil
			}
			log.Warn(err.Error()+"; trying again", "event", "renew_failed", "lock", l.name, "error", err.Error())
			if !retry.sleep(ctx, l.ttl) {
				return nil
			}
		}
	}
}

// refresh keeps the holder record alive. A failure leaves a lock that nobody
// can put a name to, which is not worth more than a line in the log.
func (l *Lease) refresh(ctx context.Context, log *slog.Logger) {
	_, err := l.ask(ctx, l.ttl/6, refreshing,
		[]string{beside("holders", l.name)}, l.token, recordTTL(l.ttl).Milliseconds()).outcome(ctx)
	if err != nil {
		log.Debug(err.Error(), "event", "refresh_failed", "lock", l.name, "error", err.Error())
	}
}

// Succeed has the release note, in the same moment, that the work of
// [Request.Once] was done: it is refused to others for as long as ttl. It must
// not be called while Release runs.
func (l *Lease) Succeed(ttl time.Duration) {
	if l.done != "" {
		l.success, l.successTTL = l.token, ttl
	}
}

// KeepFor has the release keep the lock from others for as long, instead of
// giving it back at once. It must not be called while Release runs.
func (l *Lease) KeepFor(d time.Duration) { l.keep = max(0, d) }

// keys are those that the scripts with a line have in common: see line.lua.
func (l *Lease) keys() []string {
	keys := []string{
		l.name, beside("fence", l.name), beside("holders", l.name), beside("queue", l.name), beside("waiters", l.name),
		wakeKey(l.name, l.token),
	}
	if l.done != "" {
		keys = append(keys, l.done)
	}
	if l.history > 0 {
		keys = append(keys, beside("history", l.name))
	}
	return keys
}

// Release deletes the lock if it is still ours, trying until ctx is done
// while the server can't be reached. It fails with [*LostError] when the lock
// was gone or another's before it was asked to release it. When a reply got
// lost on the way and the lock is gone at the next try, that is a success, if
// the request was sent before the safe end.
//
// Nothing may renew the lease meanwhile. When Release fails otherwise, the
// server deletes the lock when its ttl is over.
func (l *Lease) Release(ctx context.Context) error {
	// A try may have released the lock without our knowing. One that was sent
	// after the safe end is no such excuse: the lock may have been another's
	// before.
	unsettled := false
	var failure *ServerError
	for retry := (backoff{most: min(lastBackoff, l.ttl/12)}); ; {
		overdue := l.overdue()
		state, err := l.releaseOnce(ctx)
		switch {
		case err != nil && ctx.Err() != nil && failure != nil:
			return failure // says more than that the time is over
		case err != nil:
			known := errors.As(err, &failure) && failure.Fault.undone() && !failure.partly
			unsettled = unsettled || !known && !overdue
			if failure == nil || !failure.Fault.passing() || !retry.sleep(ctx, l.ttl) {
				return err
			}
		case state == ours, unsettled:
			return nil
		default:
			return l.lost(state)
		}
	}
}

func (l *Lease) releaseOnce(ctx context.Context) (ownership, error) {
	state, err := l.ask(ctx, l.releaseTry(), releasing,
		l.keys(), l.token, l.keep.Milliseconds(), l.success, l.successTTL.Milliseconds(), flag(l.unsettled),
		l.end, l.historyRecord(), l.history).outcome(ctx)
	if failure, _ := errors.AsType[*ServerError](err); failure != nil && failure.Fault == FaultTryAgain && l.keep == 0 && l.success == "" {
		// The slot is on its way to another node, where scripts of many keys
		// have to wait. The lock alone can be deleted: those who wait for it
		// find it free within a second of their next question.
		return l.ask(ctx, l.releaseTry(), deletion, []string{l.name}, l.token).outcome(ctx)
	}
	return state, err
}

// minReleaseTry is the least that one try of a release waits for its reply:
// with a short ttl, giving up early would cost more than it saves.
const minReleaseTry = 250 * time.Millisecond

// maxReleaseTry is the most of it: who releases has seconds, and a request that
// got lost on a connection that stays open must be sent again within them.
const maxReleaseTry = time.Second

// releaseTry is how long one try waits for its reply.
func (l *Lease) releaseTry() time.Duration { return min(max(l.ttl/6, minReleaseTry), maxReleaseTry) }

// settle releases a token that may or may not have become the lock: after
// every exchange that is still on its way has ended, as a late one could take
// the lock behind our back. It waits no longer than settleBudget; the ttl
// takes care of the rest.
func (l *Lease) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleBudget)
	defer cancel()
	settled := make(chan struct{})
	go func() {
		l.calls.Wait()
		close(settled)
	}()
	select {
	case <-settled:
		_, _ = l.releaseOnce(ctx)
	case <-ctx.Done():
	}
}

const settleBudget = time.Second

func flag(set bool) int {
	if set {
		return 1
	}
	return 0
}
