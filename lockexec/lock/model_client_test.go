package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// What the model has of the client side. What goes out, and what a reply comes
// to, is the work of the real code, which here speaks to a modelPeer; so are the
// safe end and the time of a waiter's next question. Only the order of things,
// which the real code has in goroutines, is written down again, in receive,
// expire and the like: each rule names its source.

// modelPeer takes the place of a server's client: it keeps what was sent, and
// answers with a reply that is known already.
type modelPeer struct {
	sent  []any
	reply any
}

func (p *modelPeer) Process(_ context.Context, cmd redis.Cmder) error {
	p.sent = cmd.Args()
	if p.reply == nil {
		return os.ErrDeadlineExceeded
	}
	cmd.(onceCmd).SetVal(p.reply)
	return nil
}

// profile is what one client wants.
type profile struct {
	capacity Capacity
	wait     bool
	once     bool
	keep     time.Duration // --min-hold
	ttl      time.Duration
}

type phase byte

const (
	idle     phase = iota
	asking         // for the lock, for the first time or again
	waiting        // in line
	checking       // has the lock, and renews it before it starts
	running        // its child runs
	ending         // its child has ended
	leaving        // gives up what it may have got
	over           // has ended
	dead           // was killed, its child as well
)

var phaseNames = []string{"idle", "asking", "waiting", "checking", "running", "ending", "leaving", "over", "dead"}

// modelClient is one client. Times are in ms.
type modelClient struct {
	phase phase
	next  int64 // when it acts next, unless it awaits a reply

	awaits  bool // a reply
	message message
	until   int64 // it is awaited
	held    any   // the reply, where that is on its way

	tries     int   // to acquire, since the last reply
	unsettled bool  // as in Lease
	inLine    bool  // as in acquisition
	asked     int64 // when the last reply to a waiter came
	sent      int64 // as in Lease
	taken     int64 // when the lock was
	fence     int64
	lost      bool  // it knows
	keep      int64 // the lock for so long beyond the release
	success   bool  // of the child
	last      int64 // when it gives up to release
}

// message is what a client sends. The zero value of what an operation does not
// have is in it.
type message struct {
	from      int
	op        string
	sent      int64
	keep      int64
	success   bool
	unsettled bool
}

const (
	opAcquire = "acquire"
	opRenew   = "renew"
	opRelease = "release"
	opRevoke  = "revoke"
)

const (
	modelName   = "lock:report:m"
	modelBudget = int64(DefaultConnectTimeout / time.Millisecond)
	onceTTL     = time.Hour
)

func modelToken(client int) string { return fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", client) }

func (p profile) millis() int64 { return p.ttl.Milliseconds() }

// lease is the real lease of a client.
func (p profile) lease(client int, peer *modelPeer, now int64) *Lease {
	locker := &Locker{
		servers: []*server{{client: peer, place: "model"}},
		now:     func() Instant { return Instant(now * int64(time.Millisecond)) },
	}
	l := locker.lease(modelName, modelToken(client), p.ttl)
	if p.once {
		l.done = doneKey(modelName, "today")
	}
	return l
}

// safeEnd is that of a lease that was sent at that time, ms.
func (p profile) safeEnd(sent int64) int64 {
	l := Lease{ttl: p.ttl, sent: Instant(sent * int64(time.Millisecond))}
	return int64(l.safeEnd()) / int64(time.Millisecond)
}

// acquisition is the real one of a client.
func (p profile) acquisition(client int, peer *modelPeer, now int64) *acquisition {
	a := &acquisition{lease: p.lease(client, peer, now), req: Request{Name: modelName, TTL: p.ttl, Capacity: p.capacity}}
	if p.wait {
		a.req.Wait = Forever
	}
	a.record, _ = Holder{Host: "host", PID: client, Slots: p.capacity.wire()}.encode()
	return a
}

// do sends the message by the real code, which may fail: the peer has it then.
func (p profile) do(m message, peer *modelPeer) (acquireReply, ownership, error) {
	ctx := context.Background()
	switch m.op {
	case opAcquire:
		reply, err := p.acquisition(m.from, peer, m.sent).askOnce(ctx, time.Minute)
		return reply, 0, err
	case opRenew:
		return acquireReply{}, ours, p.lease(m.from, peer, m.sent).Renew(ctx)
	default:
		l := p.lease(m.from, peer, m.sent)
		if l.KeepFor(time.Duration(m.keep) * time.Millisecond); m.success {
			l.Succeed(onceTTL)
		}
		l.unsettled = m.unsettled
		state, err := l.releaseOnce(ctx)
		return acquireReply{}, state, err
	}
}

// patience is how long the client awaits the reply to the message, ms: see ask,
// Renew and releaseOnce.
func (p profile) patience(m message) int64 {
	switch m.op {
	case opAcquire:
		return modelBudget / 2
	case opRenew:
		return p.millis() / 6
	default:
		return min(max(p.millis()/6, minReleaseTry.Milliseconds()), maxReleaseTry.Milliseconds())
	}
}

// killAfter is the grace between the signal and the kill: see
// lockexec.Options.setDefaults.
func (p profile) killAfter() int64 { return min(5000, p.millis()/3) }

// receive has a client see the reply to what it has sent.
func (c *modelClient) receive(p profile, m message, reply any, now int64) error {
	answer, _, err := p.do(m, &modelPeer{reply: reply})
	if err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("the client does not understand the reply: %w", err)
	}
	c.awaits, c.held = false, nil
	switch m.op {
	case opAcquire:
		c.answered(p, m, answer, now)
	case opRenew:
		c.renewed(p, m, err, now)
	default: // whatever it says: see Lease.Release and settle
		c.phase = over
	}
	return nil
}

// answered is what acquisition.wait and acquisition.end do with a reply.
func (c *modelClient) answered(p profile, m message, reply acquireReply, now int64) {
	c.tries = 0
	switch {
	case reply.acquired:
		c.fence, c.taken, c.sent = reply.fence, now, m.sent
		if now >= p.safeEnd(c.sent)-p.killAfter() { // see underLease
			c.phase, c.next = checking, now
			return
		}
		c.start(p)
	case reply.done, reply.spent, reply.capacity != nil, !p.wait:
		c.giveUp(now)
	default:
		c.phase, c.inLine, c.asked = waiting, true, now
		c.next = now + nextQuestion(reply, Forever).Milliseconds()
	}
}

// renewed is what Keep, and underLease before it, do with the outcome.
func (c *modelClient) renewed(p profile, m message, err error, now int64) {
	switch {
	case c.phase == checking && err != nil:
		c.release(p, now, 0, false)
	case err != nil:
		c.lost = true // the child may run on until the safe end
	default:
		c.sent = max(c.sent, m.sent)
		if c.phase == checking {
			c.start(p)
		} else {
			c.next = c.sent + p.millis()/3
		}
	}
}

// start runs the child, and the keeper beside it.
func (c *modelClient) start(p profile) {
	c.phase = running
	c.next = c.sent + p.millis()/3 // see renewalDue
}

// giveUp leaves nothing behind: see acquisition.end.
func (c *modelClient) giveUp(now int64) {
	if c.phase = over; c.unsettled || c.inLine {
		c.phase, c.next = leaving, now
	}
}

// release begins to give the lock back: see lockexec.Run and releaseBudget.
func (c *modelClient) release(p profile, now, keep int64, success bool) {
	c.awaits, c.held = false, nil
	c.phase, c.next, c.last = ending, now, now+min(max(p.millis()/3, 500), 5000)
	c.keep, c.success = keep, success
}

// expire is what a client does whose patience is over.
func (c *modelClient) expire(p profile, now int64) {
	c.awaits, c.held, c.next = false, nil, now
	switch c.phase {
	case asking, waiting: // see acquisition.ask
		c.unsettled = true
		if c.tries++; c.tries >= 2 {
			c.tries = 0
			c.giveUp(now)
		}
	case checking: // see underLease
		c.release(p, now, 0, false)
	case ending: // see Lease.Release
		if now >= c.last {
			c.phase = over
		}
	case leaving: // see settle: it has one try
		c.phase = over
	default: // a renewal is tried again: see Keep
	}
}

// outgoing is what the client sends now.
func (c *modelClient) outgoing(client int, now int64) message {
	m := message{from: client, sent: now}
	switch c.phase {
	case asking, waiting:
		m.op = opAcquire
	case checking, running:
		m.op = opRenew
	case ending:
		m.op, m.keep, m.success, m.unsettled = opRelease, c.keep, c.success, c.unsettled
	default:
		m.op, m.unsettled = opRelease, c.unsettled
	}
	return m
}
