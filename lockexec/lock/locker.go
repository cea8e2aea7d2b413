package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
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

// minRecordTTL is how long the holder records outlive their lock at least, so
// that there is one for a lock that is still held. See hold in line.lua.
const minRecordTTL = 4 * time.Hour

// Locker takes locks on one server, on a cluster, or on a quorum of servers. It
// is safe for concurrent use.
type Locker struct {
	servers []*server // one, or a quorum
	now     func() Instant
}

// New returns a Locker on the server, or the cluster, of client, which stays the
// caller's to close: a [*redis.Client] or a [*redis.ClusterClient]; one from
// [NewClient] or [NewClusterClient] notices time-outs sooner and costs fewer
// round trips. Any other can take locks and give them back; a [Request] with
// Wait or Replicas fails with it, and so does List.
//
// Those who wait are woken on a connection of their own, that has the client's
// options but not its hooks.
func New(client redis.UniversalClient) *Locker {
	return &Locker{servers: []*server{newServer(client)}, now: Now}
}

// Request is what [Locker.Acquire] is asked for.
type Request struct {
	// Name is the full name of the lock, as from [Name].
	Name string

	// TTL is how long the server keeps the lock without a renewal: whole
	// milliseconds from [MinTTL] to [MaxTTL].
	TTL time.Duration

	// Capacity is how many may hold the lock at once. All users of a lock must
	// agree on it, but those who are alone and those who share get along.
	Capacity Capacity

	// ConnectTimeout bounds the tries while the server can't be reached or
	// refuses for a reason that may pass. Zero is [DefaultConnectTimeout].
	ConnectTimeout time.Duration

	// Wait is how long to wait in line for a lock that others hold: 0 does
	// not, [Forever] has no end.
	Wait time.Duration

	// OnWait, unless nil, is told how things stand whenever the server was
	// asked while waiting. It must not wait for anything.
	OnWait func(Waiting)

	// Replicas is how many replicas must have the lock before Acquire returns
	// it, as told by WAIT; with fewer, it fails. A quorum has none.
	Replicas int

	// Once, unless empty, names the success of a run: the lock is refused with
	// [ErrDone] when [Lease.Succeed] was told of one with this ID that is not
	// yet forgotten.
	Once string

	// History keeps a record of the last runs of this lock, as many, for
	// [Locker.History]: of this one by [Lease.Record], and of those that ended
	// without a word by whoever comes after them. 0 keeps none. A quorum has
	// none.
	History int

	// Holder is told to those who find the lock taken.
	Holder Holder

	// Token stands for this holder in the lock, and must never have stood for
	// another: from [NewToken]. Empty is a new one.
	Token string
}

// Forever is a [Request.Wait] without an end.
const Forever time.Duration = -1

// Capacity is how many may hold a lock at once: N from 2 on, or one of the two
// below.
type Capacity int

// The capacities that are no number.
const (
	Exclusive Capacity = 0  // one alone
	Shared    Capacity = -1 // any number of those who share
)

// MaxCapacity is the largest capacity.
const MaxCapacity = 1_000_000

// wire is the capacity as the scripts and the holder records have it.
func (c Capacity) wire() int {
	switch c {
	case Exclusive:
		return 1
	case Shared:
		return 0
	default:
		return int(c)
	}
}

func (c Capacity) String() string {
	switch c.wire() {
	case 0:
		return "shared"
	case 1:
		return "exclusive"
	default:
		return strconv.Itoa(int(c)) + " slots"
	}
}

func (r *Request) check() error {
	if r.Name == "" {
		return errors.New("the lock has no name")
	}
	if r.Capacity < Shared || r.Capacity > MaxCapacity {
		return fmt.Errorf("a capacity of %d is outside of 1 to %d", int(r.Capacity), MaxCapacity)
	}
	if r.History < 0 || r.History > MaxHistory {
		return fmt.Errorf("a history of %d runs is outside of 0 to %d", r.History, MaxHistory)
	}
	if r.Replicas < 0 {
		return fmt.Errorf("%d replicas", r.Replicas)
	}
	return CheckTTL(r.TTL)
}

// ErrQuorum is what a quorum is asked for and does not have: see [NewQuorum].
var ErrQuorum = errors.New("a quorum of servers has locks for one holder alone, no replicas, and no history")

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

// Resume returns the lease of a token that another process has acquired. It
// knows no fence, and no safe end before it was renewed.
func (l *Locker) Resume(name, token string, ttl time.Duration) *Lease {
	return l.lease(name, token, ttl)
}

// ReleaseToken releases the lock if it holds that token, for a holder that
// died before it could. It tries until ctx is done while the server can't be
// reached; a lock that is free or another's by then is no error. With a history
// of more than 0 runs, that has the end.
func (l *Locker) ReleaseToken(ctx context.Context, name, token string, ttl time.Duration, history int, end End) error {
	lease := l.lease(name, token, ttl)
	lease.Record(history, end)
	lease.unsettled = true
	err := lease.Release(ctx)
	if errors.Is(err, ErrLost) {
		return nil
	}
	return err
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
