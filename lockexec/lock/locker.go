package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// Limits of a lease, and the wait for a server at acquisition when a
// [Request] names none.
const (
	MinTTL                = 100 * time.Millisecond
	MaxTTL                = 24 * time.Hour
	DefaultTTL            = 15 * time.Second
	DefaultConnectTimeout = 5 * time.Second
)

// Keys beside a lock outlive it by this much at least, so that a fence rises
// through every plausible backward step of the server's clock, and a record is
// there for a lock that is still held. See also beside.
const (
	minFenceTTL  = time.Hour
	minRecordTTL = 4 * time.Hour
)

// Locker takes locks on one server. It is safe for concurrent use.
type Locker struct {
	client processor
	place  string
	now    func() Instant
}

// New returns a Locker on the server of client, which stays the caller's to
// close. Any client will do; one from [NewClient] notices time-outs sooner and
// costs fewer round trips.
func New(client *redis.Client) *Locker {
	return &Locker{client: client, place: place(client), now: Now}
}

// Request is what [Locker.Acquire] is asked for.
type Request struct {
	// Name is the full name of the lock, as from [Name].
	Name string

	// TTL is how long the server keeps the lock without a renewal: whole
	// milliseconds from [MinTTL] to [MaxTTL].
	TTL time.Duration

	// ConnectTimeout bounds the tries while the server can't be reached or
	// refuses for a reason that may pass. Zero is [DefaultConnectTimeout].
	ConnectTimeout time.Duration

	// Holder is told to those who find the lock taken.
	Holder Holder

	// Token stands for this holder in the lock, and must never have stood for
	// another: from [NewToken]. Empty is a new one.
	Token string
}

func (r *Request) check() error {
	if r.Name == "" {
		return errors.New("the lock has no name")
	}
	return CheckTTL(r.TTL)
}

// CheckTTL says what is wrong with a ttl, or returns nil. The server would take
// a ttl of 0 for "delete" at a renewal, and cuts what is below a millisecond.
func CheckTTL(ttl time.Duration) error {
	switch {
	case ttl < MinTTL || ttl > MaxTTL:
		return fmt.Errorf("a lease of %v is outside of %v to %v", ttl, MinTTL, MaxTTL)
	case ttl%time.Millisecond != 0:
		return fmt.Errorf("a lease of %v is not whole milliseconds", ttl)
	}
	return nil
}

// Acquire takes the lock at once or fails: with [*HeldError] when another has
// it, with [*ServerError] when the server can't be reached or refuses, or with
// the cause of ctx.
//
// A try whose reply got lost may have taken the lock. It is repeated with the
// same token, which the script knows again; and whenever Acquire fails without
// knowing, it asks the server to release that token, as far as it answers.
func (l *Locker) Acquire(ctx context.Context, req Request) (*Lease, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	record, err := req.Holder.encode()
	if err != nil {
		return nil, err
	}
	token := req.Token
	if token == "" {
		if token, err = NewToken(); err != nil {
			return nil, err
		}
	}
	lease := l.lease(req.Name, token, req.TTL)

	patience := req.ConnectTimeout
	if patience <= 0 {
		patience = DefaultConnectTimeout
	}
	limit := l.now().Add(patience)
	// Half of the patience for one try leaves time for a second one, when the
	// reply to the first is lost on a connection that stays open.
	budget := patience / 2

	unsettled := false // a try may have taken the lock without our knowing
	var last *ServerError
	for retry := (backoff{most: lastBackoff}); ; {
		sent := l.now()
		reply, err := l.acquireOnce(ctx, min(budget, limit.Until(sent)), lease, record)
		if err == nil {
			if !reply.acquired {
				// Had an earlier try taken the lock, this one had known it;
				// but it may still be on its way.
				if unsettled {
					lease.settle(ctx)
				}
				return nil, &HeldError{
					Name: req.Name, Holder: reply.holder, HeldFor: reply.heldFor, Remaining: reply.remaining,
				}
			}
			lease.fence = reply.fence
			lease.extend(sent)
			return lease, nil
		}

		failure, _ := errors.AsType[*ServerError](err)
		if failure != nil && failure.Fault == FaultTimeout && last != nil && limit.Until(sent) < budget {
			// The last try had little time: what went wrong before says more.
			failure, err = last, last
			unsettled = true
		}
		last = failure
		known := failure != nil && failure.Fault.undone()
		unsettled = unsettled || !known
		if failure == nil || !failure.Fault.passing() || !retry.sleep(ctx, limit.Until(l.now())) {
			if unsettled {
				lease.settle(ctx)
			}
			if cause := context.Cause(ctx); cause != nil {
				return nil, cause
			}
			return nil, err
		}
	}
}

// NewToken returns a token for a [Request]: a random UUID.
func NewToken() (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	return id.String(), nil
}

func (l *Locker) lease(name, token string, ttl time.Duration) *Lease {
	return &Lease{locker: l, name: name, token: token, ttl: ttl, extended: make(chan struct{}, 1)}
}

// ReleaseToken releases the lock if it holds that token, for a holder that
// died before it could. It tries until ctx is done while the server can't be
// reached; a lock that is free or another's by then is no error.
func (l *Locker) ReleaseToken(ctx context.Context, name, token string, ttl time.Duration) error {
	err := l.lease(name, token, ttl).Release(ctx)
	if errors.Is(err, ErrLost) {
		return nil
	}
	return err
}

func (l *Locker) acquireOnce(ctx context.Context, budget time.Duration, lease *Lease, record string) (acquireReply, error) {
	raw, err := lease.run(ctx, budget, "acquire", acquireScript,
		[]string{lease.name, beside("fence", lease.name), beside("holders", lease.name)},
		lease.token, lease.ttl.Milliseconds(), record,
		max(minFenceTTL, 10*lease.ttl).Milliseconds(), recordTTL(lease.ttl).Milliseconds())
	if err != nil {
		return acquireReply{}, err
	}
	reply, err := parseAcquireReply(raw)
	if err != nil {
		return acquireReply{}, lease.failure("acquire", err, FaultOther)
	}
	return reply, nil
}

func recordTTL(ttl time.Duration) time.Duration { return max(minRecordTTL, 10*ttl) }

// backoff spaces tries: the first at once, as most connections break because
// the other side restarted and listens again; then longer each time, up to a
// bound, with jitter, so that many clients don't come in step.
type backoff struct {
	most  time.Duration
	tries int
}

const (
	firstBackoff = 20 * time.Millisecond
	lastBackoff  = 500 * time.Millisecond
)

// sleep waits before the next try. It reports false, at once, when ctx is
// done or when left would be over by then.
func (b *backoff) sleep(ctx context.Context, left time.Duration) bool {
	var pause time.Duration
	if b.tries > 0 {
		pause = min(firstBackoff<<min(b.tries-1, 10), b.most)
		pause = pause/2 + rand.N(pause/2+1) //nolint:gosec // jitter is no secret
	}
	b.tries++
	if pause >= left {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}
