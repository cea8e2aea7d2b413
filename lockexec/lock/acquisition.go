package lock

import (
	"context"
	"errors"
	"time"
)

// Acquire takes the lock, or fails: with [*HeldError] when others have it, also
// after waiting for it; with [ErrDone]; with [*CapacityError]; with
// [*ServerError] when the server can't be reached or refuses; or with the cause
// of ctx.
//
// Those who wait get the lock in the order in which they came, and nobody who
// comes passes them.
//
// A try whose reply got lost may have taken the lock. It is repeated with the
// same token, which the script knows again; and whenever Acquire fails without
// knowing, it asks the server to release that token, as far as it answers.
func (l *Locker) Acquire(ctx context.Context, req Request) (*Lease, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	if l.quorum() && (req.Capacity != Exclusive || req.Replicas > 0 || req.History > 0) {
		return nil, ErrQuorum
	}
	if req.Wait != 0 && !l.quorum() && l.servers[0].listen == nil {
		return nil, errClientKind
	}
	req.Holder.Slots = req.Capacity.wire()
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
	if req.ConnectTimeout <= 0 {
		req.ConnectTimeout = DefaultConnectTimeout
	}
	a := &acquisition{
		lease:  l.lease(req.Name, token, req.TTL),
		req:    req,
		record: record,
	}
	a.lease.history, a.lease.record = req.History, record
	if req.Once != "" {
		a.lease.done = doneKey(req.Name, req.Once)
	}
	if req.Wait != 0 {
		return a.wait(ctx)
	}
	reply, err := a.ask(ctx)
	return a.end(ctx, reply, err)
}

// acquisition is one attempt to become a holder.
type acquisition struct {
	lease  *Lease
	req    Request
	record string

	// inLine: there is a place in the line to leave.
	inLine bool
}

// ask asks the server for the lock, or for a place in the line for it. It tries again for the connect time-out while the server
// can't be reached, or refuses for a reason that may pass.
func (a *acquisition) ask(ctx context.Context) (acquireReply, error) {
	l := a.lease.locker
	limit := l.now().Add(a.req.ConnectTimeout)
	// Half of the patience for one try leaves time for a second one, when the
	// reply to the first is lost on a connection that stays open.
	budget := a.req.ConnectTimeout / 2
	var last *ServerError
	splits := backoff{most: lastBackoff, tries: 1} // none at once: they would meet again
	for retry := (backoff{most: lastBackoff}); ; {
		sent := l.now()
		reply, err := a.askOnce(ctx, min(budget, limit.Until(sent)))
		if err == nil {
			if reply.split && splits.sleep(ctx, limit.Until(l.now())) {
				continue
			}
			if reply.acquired {
				a.lease.fence = reply.fence
				a.lease.extend(sent)
			}
			return reply, nil
		}
		failure, _ := errors.AsType[*ServerError](err)
		if failure != nil && failure.Fault == FaultTimeout && last != nil && limit.Until(sent) < budget {
			// The last try had little time: what went wrong before says more.
			failure, err = last, last
			a.lease.unsettled = true
		}
		last = failure
		known := failure != nil && failure.Fault.undone()
		a.lease.unsettled = a.lease.unsettled || !known
		if failure == nil || !failure.Fault.passing() || !retry.sleep(ctx, limit.Until(l.now())) {
			if cause := context.Cause(ctx); cause != nil {
				return acquireReply{}, cause
			}
			return acquireReply{}, err
		}
	}
}

func (a *acquisition) askOnce(ctx context.Context, budget time.Duration) (acquireReply, error) {
	if a.lease.locker.quorum() {
		return a.askQuorum(ctx, budget)
	}
	answer := a.lease.ask(ctx, budget, acquiring, a.lease.keys(), a.args(0)...).got[0]
	if answer.err != nil {
		return acquireReply{}, answer.err
	}
	reply, err := parseAcquireReply(answer.reply)
	if err != nil {
		return acquireReply{}, a.lease.failure(answer.server, acquiring, err, FaultOther)
	}
	return reply, nil
}

// args are the ARGV of acquire.lua, for servers that were up for uptime.
func (a *acquisition) args(uptime time.Duration) []any {
	inLine := a.req.Wait != 0 && !a.lease.locker.quorum()
	return []any{a.lease.token, a.lease.ttl.Milliseconds(), a.record, a.req.Capacity.wire(), flag(inLine), uptime.Milliseconds(), a.req.History}
}

// end returns the lease, or the error that the reply or err comes to, with
// nothing of the attempt left on the server.
func (a *acquisition) end(ctx context.Context, reply acquireReply, err error) (*Lease, error) {
	if err == nil && reply.acquired && a.req.Replicas > 0 {
		err = a.lease.awaitReplicas(ctx, a.req.Replicas, a.req.ConnectTimeout)
		a.lease.unsettled = a.lease.unsettled || err != nil
	}
	if err == nil && reply.acquired && a.lease.overdue() {
		err = a.confirmLate(ctx)
		a.lease.unsettled = a.lease.unsettled || err != nil
	}
	if err == nil && reply.acquired {
		return a.lease, nil
	}
	if a.lease.unsettled || a.inLine {
		a.lease.settle(ctx)
	}
	switch {
	case err != nil:
		return nil, err
	case reply.done:
		return nil, ErrDone
	case reply.spent:
		return nil, errSpent
	case reply.capacity != nil:
		return nil, &CapacityError{Name: a.req.Name, Wanted: a.req.Capacity, Used: *reply.capacity}
	default:
		// Had an earlier try taken the lock, this one had known it; but it may
		// still have been on its way: that was settled.
		return nil, &HeldError{
			Name: a.req.Name, Holder: reply.holder, HeldFor: reply.heldFor, Remaining: reply.remaining, Waiting: reply.ahead,
			Revoked: reply.revoked(),
		}
	}
}

// confirmLate asks whether a lock is ours still, whose lease was over when the
// answer came that had granted it.
func (a *acquisition) confirmLate(ctx context.Context) error {
	err := a.lease.Renew(ctx)
	if errors.Is(err, ErrLost) { // nothing was done under it
		return a.lease.failure(a.lease.locker.servers[0], acquiring, context.DeadlineExceeded, FaultTimeout)
	}
	return err
}

// errSpent can't be for a token that is asked for by one caller alone.
var errSpent = errors.New("the token was released already")
