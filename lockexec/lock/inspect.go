package lock

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
)

// State is how a lock, or a hold on it, stands.
type State int

// The states.
const (
	StateFree    State = iota
	StateHeld          // by a holder, or by the value of another program
	StateKept          // its command has ended, and it is kept from others for a while
	StateRevoked       // taken away from its holder, who may still be about to stop: see [Locker.Revoke]
)

func (s State) String() string {
	switch s {
	case StateHeld:
		return "held"
	case StateKept:
		return "kept"
	case StateRevoked:
		return "revoked"
	default:
		return "free"
	}
}

// Snapshot is how a lock stood when the server was asked. All times are by the
// server's clock.
type Snapshot struct {
	Name  string
	State State // of several holders, that of the one who has most of it: held, kept, revoked

	// Capacity is how the holders use the lock, as far as their records tell.
	Capacity      Capacity
	CapacityKnown bool

	// Remaining is the time until the lock is free unless it is renewed;
	// NoExpiry when it is so for good: no lock client left it so.
	Remaining time.Duration

	// Held and Waiting are how many hold it and wait for it. Holders and
	// Waiters are all of them, unless there are very many; holders with the
	// first to end first, waiters in order.
	Held    int
	Holders []Holding
	Waiting int
	Waiters []Waiter

	// Fence is the highest fencing number that was given, or 0 if that was
	// forgotten, which it is an hour after the last holder.
	Fence int64

	// Servers are those of a quorum, in the order of its clients; nil without
	// one. The rest of the snapshot is what most of them say.
	Servers []ServerView

	everywhere []Holding // on any of them
}

// ServerView is how a lock stands on one server of a quorum.
type ServerView struct {
	Place  string
	Agrees bool // it has the lock from the same as most
	State  State
	Holder *Holder // the first, if it has one that left a record
	Err    error   // it could not be asked; State and Holder say nothing
}

// Holding is one hold on a lock.
type Holding struct {
	State     State
	Holder    *Holder       // nil for another program, and where it was revoked
	HeldFor   time.Duration // 0 without a holder record
	Remaining time.Duration // until it ends unless it is renewed, or NoExpiry

	name string // what inspect.lua calls it: its token, or a digest
}

// Waiter is one who waits for a lock.
type Waiter struct {
	Holder        *Holder // what it will say as a holder; nil if that can't be read
	Capacity      Capacity
	CapacityKnown bool
	Silent        time.Duration // since it last asked
	Watches       bool          // it asks every second, or else every ten
}

// listed is the most holders and waiters that Inspect tells of.
const listed = 10_000

// Inspect tells how the lock stands, and changes nothing. It tries until ctx is
// done while the server can't be reached, and fails as [Locker.Acquire] does:
// with [*ServerError], also for a key that is no lock ([FaultWrongType]), or
// with the cause of ctx. A quorum must answer by a majority.
func (l *Locker) Inspect(ctx context.Context, name string) (Snapshot, error) {
	return l.inspect(ctx, name, listed)
}

func (l *Locker) inspect(ctx context.Context, name string, most int) (Snapshot, error) {
	keys := []string{
		name, beside("fence", name), beside("holders", name), beside("queue", name), beside("waiters", name),
	}
	lease := l.lease(name, "", DefaultTTL)
	for retry := (backoff{most: lastBackoff}); ; {
		answers := lease.ask(ctx, oneTry(ctx), inspection, keys, most)
		snapshot, err := answers.snapshot(ctx)
		failure, _ := errors.AsType[*ServerError](err)
		if failure == nil || !failure.Fault.passing() || !retry.sleep(ctx, MaxTTL) {
			return snapshot, err
		}
	}
}

// oneTry is the part of the time that is left for one of several tries.
func oneTry(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(time.Until(deadline)/2, time.Millisecond)
	}
	return DefaultConnectTimeout / 2
}

// snapshot is what the answers to an inspection come to.
func (v votes) snapshot(ctx context.Context) (Snapshot, error) {
	views := make([]view, 0, len(v.got))
	for _, vote := range v.got {
		seen := view{server: vote.server, err: vote.err}
		if seen.err == nil {
			var err error
			if seen.snapshot, err = parseSnapshot(v.lease.name, vote.reply); err != nil {
				seen.err = v.lease.failure(vote.server, v.op, err, FaultOther)
			}
		}
		views = append(views, seen)
	}
	if len(v.lease.locker.servers) == 1 {
		return views[0].snapshot, views[0].err
	}
	return v.merge(ctx, views)
}

func parseSnapshot(name string, reply any) (Snapshot, error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) != 7 {
		return Snapshot{}, badReply("inspect", reply)
	}
	numbers := make([]int64, 0, 4)
	for _, at := range []int{0, 1, 3, 5} {
		n, err := parseInt(fields[at])
		if err != nil {
			return Snapshot{}, badReply("inspect", reply)
		}
		numbers = append(numbers, n)
	}
	now := numbers[1]
	holders, areHolders := fields[4].([]any)
	waiters, areWaiters := fields[6].([]any)
	if !areHolders || !areWaiters || len(holders)%4 != 0 {
		return Snapshot{}, badReply("inspect", reply)
	}
	s := Snapshot{Name: name, Held: int(numbers[2]), Waiting: int(numbers[3])}
	for part := holders; len(part) > 0; part = part[4:] {
		holding, err := parseHolding(part, now)
		if err != nil {
			return Snapshot{}, badReply("inspect", reply)
		}
		s.Holders = append(s.Holders, holding)
	}
	for _, entry := range waiters {
		text, _ := entry.(string)
		s.Waiters = append(s.Waiters, parseWaiter(text, now))
	}
	last, _ := fields[2].(string)
	if fence, err := strconv.ParseInt(last, 10, 64); err == nil && fence > 0 {
		s.Fence = fence
	}
	s.summarise()
	return s, nil
}

// summarise fills in what follows from the holders.
func (s *Snapshot) summarise() {
	for _, h := range s.Holders {
		if s.State == StateFree || h.State < s.State {
			s.State = h.State
		}
		if h.Remaining == NoExpiry || s.Remaining == NoExpiry {
			s.Remaining = NoExpiry
		} else {
			s.Remaining = max(s.Remaining, h.Remaining)
		}
		if h.Holder != nil && !s.CapacityKnown {
			s.Capacity, s.CapacityKnown = parseCapacity(int64(h.Holder.Slots))
		}
	}
}

func parseHolding(fields []any, now int64) (Holding, error) {
	name, isText := fields[0].(string)
	state, err1 := parseInt(fields[1])
	left, err2 := parseInt(fields[2])
	record, isRecord := fields[3].(string)
	if !isText || !isRecord || err1 != nil || err2 != nil || state < 0 || state > 2 {
		return Holding{}, errors.New("unexpected holder")
	}
	h := Holding{State: StateHeld + State(state), Holder: decodeHolder(record), name: name, Remaining: NoExpiry}
	if left != -1 {
		h.Remaining = max(0, millis(left))
	}
	if h.Holder != nil {
		h.HeldFor = max(0, millis(now-h.Holder.SinceMillis))
	}
	return h, nil
}

// parseWaiter reads an entry of the waiters, "SEEN WATCHES CAPACITY TTL RECORD":
// see line.lua. It never fails: somebody stands there, whatever the entry says.
func parseWaiter(entry string, now int64) Waiter {
	words := strings.SplitN(entry, " ", 5)
	if len(words) != 5 {
		return Waiter{}
	}
	var numbers [4]int64
	for i := range numbers {
		n, err := strconv.ParseUint(words[i], 10, 50) // what Lua's numbers hold, with much to spare
		if err != nil {
			return Waiter{}
		}
		numbers[i] = int64(n)
	}
	seen, watches, capacity := numbers[0], numbers[1], numbers[2]
	w := Waiter{Holder: decodeHolder(words[4]), Silent: max(0, millis(now-seen)), Watches: watches == 1}
	w.Capacity, w.CapacityKnown = parseCapacity(capacity)
	return w
}
