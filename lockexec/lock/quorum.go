package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A quorum is a lock on several servers that know nothing of each other: who
// has it on most of them has it. Source: redis.io/docs, "Distributed Locks with
// Redis", the Redlock algorithm. Beyond that,
//
//   - a server that has been up for less than the ttl gives no vote: it may have
//     forgotten that it gave it to another;
//   - while most servers have the lock, a renewal sets it on those that lack it;
//   - the fence is the highest of the servers', and is made known to most of
//     them before the lease counts: so every later majority has one that knows.
//
// One server is a quorum of one, and goes the same way, less what has no sense
// there.

// NewQuorum returns a Locker on the servers of three clients or more, which
// stay the caller's to close. Two can't tell who of them is right when they
// can't reach each other, so that there is no majority to lose.
//
// It takes locks for one holder alone, and has no line: those who wait try
// again at random times.
func NewQuorum(clients ...redis.UniversalClient) (*Locker, error) {
	if len(clients) < 3 {
		return nil, fmt.Errorf("a quorum of %d servers: it takes three or more", len(clients))
	}
	l := &Locker{now: Now}
	for _, client := range clients {
		l.servers = append(l.servers, newServer(client))
	}
	return l, nil
}

// majority is the least number of servers that are most of them.
func (l *Locker) majority() int { return len(l.servers)/2 + 1 }

func (l *Locker) quorum() bool { return len(l.servers) > 1 }

// outcome returns what the votes on who owns the lock come to: what most say,
// or an error when that is not known.
func (v votes) outcome(ctx context.Context) (ownership, error) {
	var failures []error
	count := map[ownership]int{}
	for _, vote := range v.got {
		state, err := v.ownership(vote)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		count[state]++
	}
	all, most := len(v.lease.locker.servers), v.lease.locker.majority()
	switch {
	case count[ours] >= most:
		return ours, nil
	case count[gone]+count[another]+count[revoked] > all-most: // whatever the others say
		switch {
		case count[revoked] > 0:
			return revoked, nil
		case count[another] > count[gone]:
			return another, nil
		}
		return gone, nil
	default:
		err := v.failure(ctx, failures)
		if failure, ok := errors.AsType[*ServerError](err); ok {
			failure.partly = count[ours] > 0
		}
		return gone, err
	}
}

func (v votes) ownership(vote vote) (ownership, error) {
	if vote.err != nil {
		return gone, vote.err
	}
	state, err := parseOwnership(v.op.name, vote.reply)
	if err != nil {
		return gone, v.lease.failure(vote.server, v.op, err, FaultOther)
	}
	return state, nil
}

func (v votes) ownershipDecided() bool {
	count := map[bool]int{}
	for _, vote := range v.got {
		if state, err := v.ownership(vote); err == nil {
			count[state == ours]++
		}
	}
	all, most := len(v.lease.locker.servers), v.lease.locker.majority()
	return count[true] >= most || count[false] > all-most
}

// failure makes one error of those of the servers that left the question open.
// It has the fault of the one that is most likely to pass, as that decides
// whether it is worth asking again.
func (v votes) failure(ctx context.Context, failures []error) error {
	if len(v.lease.locker.servers) == 1 {
		return failures[0]
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var worst *ServerError
	var places []string
	for _, err := range failures {
		failure, ok := errors.AsType[*ServerError](err)
		if !ok {
			continue
		}
		places = append(places, failure.Place)
		if worst == nil || failure.Fault.openness() > worst.Fault.openness() {
			worst = failure
		}
	}
	if worst == nil { // servers disagree, and none failed
		worst = &ServerError{Op: v.op.name, Name: v.lease.name, Fault: FaultNoQuorum, Err: errors.New("they do not agree")}
	}
	slices.Sort(places)
	all, most := len(v.lease.locker.servers), v.lease.locker.majority()
	summary := *worst
	summary.Place = fmt.Sprintf("%s (of %d servers, %d must agree)", strings.Join(places, ", "), all, most)
	if len(places) == 0 {
		summary.Place = fmt.Sprintf("%d servers, of which %d must agree", all, most)
	}
	return &summary
}

// openness orders faults by how much they leave open.
func (f Fault) openness() int {
	switch {
	case f.passing() && !f.undone():
		return 2
	case f.passing():
		return 1
	default:
		return 0
	}
}

// restore sets the lock on the servers that answered a renewal that they do
// not have it, while most of them do. A failure is left to the next renewal,
// and to the release, as the server may do it late.
func (l *Lease) restore(ctx context.Context, v votes) {
	var lacking []*server
	for _, vote := range v.got {
		if state, err := v.ownership(vote); err == nil && state == gone {
			lacking = append(lacking, vote.server)
		}
	}
	for _, s := range lacking {
		answer := l.askServer(ctx, s, l.ttl/6, restoring, []string{l.name, wakeKey(l.name, l.token)}, []any{l.token, l.ttl.Milliseconds()})
		if answer.err != nil {
			l.mu.Lock()
			l.unsettled = true
			l.mu.Unlock()
		}
	}
}

// askQuorum asks all servers for the lock once. Unless it got it, it has given
// back what it got.
func (a *acquisition) askQuorum(ctx context.Context, budget time.Duration) (acquireReply, error) {
	l := a.lease
	votes := l.ask(ctx, min(budget, l.ttl/6), acquiring, l.keys(), a.args(l.ttl)...)
	reply, err := votes.acquisition(ctx)
	// One that is still on its way is to find, after the release, that its token
	// was spent.
	l.unsettled = l.unsettled || !votes.complete()
	if err == nil && reply.acquired {
		var state ownership
		state, err = l.ask(ctx, min(budget, l.ttl/6), raising,
			[]string{l.name, beside("fence", l.name), beside("holders", l.name)},
			l.token, fmt.Sprint(reply.fence), l.ttl.Milliseconds()).outcome(ctx)
		if err == nil && state == ours {
			return reply, nil
		}
		reply = acquireReply{split: true, remaining: l.ttl}
	}
	withdrawal := context.WithoutCancel(ctx)
	_ = l.ask(withdrawal, max(l.ttl/6, minReleaseTry), releasing, l.keys(), l.token, 0, "", 0, 0, "", "", 0)
	return reply, err
}

// complete reports whether all servers have answered.
func (v votes) complete() bool {
	for _, vote := range v.got {
		if vote.err != nil {
			return false
		}
	}
	return len(v.got) == len(v.lease.locker.servers)
}

// tally counts what the servers say to an acquisition.
type tally struct {
	acquired int
	fence    int64
	answered int
	done     *acquireReply
	held     map[string][]acquireReply // by the token of the holder
	failures []error
}

func (v votes) tally() tally {
	t := tally{held: map[string][]acquireReply{}}
	for _, vote := range v.got {
		reply, err := acquireReply{}, vote.err
		if err == nil {
			reply, err = parseAcquireReply(vote.reply)
			switch {
			case err != nil:
				err = v.lease.failure(vote.server, v.op, err, FaultOther)
			case reply.young > 0:
				err = v.lease.failure(vote.server, v.op, &youngError{reply.young}, FaultYoung)
			case reply.spent:
				err = v.lease.failure(vote.server, v.op, errSpent, FaultOther)
			}
		}
		if err != nil {
			t.failures = append(t.failures, err)
			continue
		}
		t.answered++
		switch {
		case reply.acquired:
			t.acquired++
			t.fence = max(t.fence, reply.fence)
		case reply.done:
			t.done = &reply
		default:
			t.held[reply.token] = append(t.held[reply.token], reply)
		}
	}
	return t
}

// youngError is a server that has to be up for longer before its vote counts.
type youngError struct{ left time.Duration }

func (e *youngError) Error() string {
	return fmt.Sprintf("it was started a moment ago and may have lost locks that it had: it counts in %v", e.left.Round(time.Second))
}

// foremost is the holder whom most servers name, and how many do.
func (t tally) foremost() (acquireReply, int) {
	var reply acquireReply
	most := 0
	for _, replies := range t.held {
		if len(replies) > most {
			reply, most = replies[0], len(replies)
		}
	}
	return reply, most
}

func (v votes) acquisition(ctx context.Context) (acquireReply, error) {
	t := v.tally()
	need := v.lease.locker.majority()
	reply, same := t.foremost()
	switch {
	case t.done != nil:
		return *t.done, nil
	case t.acquired >= need:
		return acquireReply{acquired: true, fence: t.fence}, nil
	case same >= need:
		return reply, nil
	case t.answered < need:
		return acquireReply{}, v.failure(ctx, t.failures)
	case same > 0: // some have it here, some there, and nobody has most
		reply.split = true
		return reply, nil
	default: // we had them all, but too many did not answer
		return acquireReply{}, v.failure(ctx, t.failures)
	}
}

func (v votes) acquisitionDecided() bool {
	t := v.tally()
	need := v.lease.locker.majority()
	_, same := t.foremost()
	return t.acquired >= need || same >= need || t.done != nil
}

// The time between two tries of one who waits for a quorum.
const (
	leastRetry = 200 * time.Millisecond
	mostRetry  = 600 * time.Millisecond
)

// retryLater waits for a random time, so that those who got the lock on some
// servers each do not meet again, or returns the cause of ctx.
func retryLater(ctx context.Context, left time.Duration) error {
	pause := leastRetry + rand.N(mostRetry-leastRetry) //nolint:gosec // jitter is no secret
	if left != Forever {
		pause = min(pause, left)
	}
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
