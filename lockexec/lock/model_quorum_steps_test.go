package lock

import (
	"context"
	"fmt"
	"slices"
)

// steps returns what may happen next.
func (s *quorumScenario) steps(w *quorumWorld) []quorumStep {
	var all []quorumStep
	due := false
	for i := range w.clients {
		c := &w.clients[i]
		if c.phase == running && w.now >= s.profile.safeEnd(c.sent) {
			to := w.clone()
			s.begin(to, i, opRelease)
			return []quorumStep{s.checked(fmt.Sprintf("client %d kills its child at the safe end", i), to, nil)}
		}
		switch {
		case c.round != "":
			missing := c.missing()
			due = due || missing > w.faults || w.now >= c.asked+s.patience()
			all = append(all, s.inRound(w, i)...)
		case (c.phase == asking || c.phase == checking || c.phase == running && !c.lost) && c.next <= w.now:
			due = true
			to := w.clone()
			op := opAcquire
			if c.phase != asking {
				op = opRenew
			}
			s.begin(to, i, op)
			all = append(all, s.checked(fmt.Sprintf("client %d sends %s", i, op), to, nil))
		}
		all = append(all, s.free(w, i)...)
	}
	for n := range w.floats {
		all = append(all, s.arrive(w, n))
	}
	if w.faults > 0 && slices.Contains(s.kinds, "restart") {
		for i := range w.servers {
			if len(w.servers[i].entries) == 0 {
				continue
			}
			to := w.clone()
			to.faults--
			to.servers[i], to.started[i] = newDump(nil), w.now
			all = append(all, s.checked(fmt.Sprintf("server %d restarts empty", i), to, nil))
		}
	}
	if w.faults > 0 && slices.Contains(s.kinds, "delete") {
		for i := range w.servers {
			if len(holders(w.servers[i], s.clock(w, i))) == 0 {
				continue
			}
			to := w.clone()
			to.faults--
			to.waived = true
			to.servers[i] = w.servers[i].without(modelName)
			all = append(all, s.checked(fmt.Sprintf("somebody deletes the lock on server %d", i), to, nil))
		}
	}
	if next := s.moment(w); !due && next != 0 && next-epoch < 30_000 {
		to := w.clone()
		to.now = next
		to.floats = slices.DeleteFunc(to.floats, func(b ballot) bool { return next-b.sent > maxLate })
		all = append(all, s.checked(fmt.Sprintf("%d ms pass", next-w.now), to, nil))
	}
	return all
}

func (c *quorumClient) missing() int {
	n := 0
	for _, came := range c.came {
		n += flag(!came)
	}
	return n
}

// patience is that of all rounds: see askQuorum, Renew and releaseOnce.
func (s *quorumScenario) patience() int64 { return s.profile.patience(message{op: opRelease}) }

// begin starts a round.
func (s *quorumScenario) begin(w *quorumWorld, i int, op string) {
	c := &w.clients[i]
	c.round, c.asked, c.came, c.replies = op, w.now, [quorumSize]bool{}, [quorumSize]any{}
	switch op {
	case opAcquire:
		c.began = w.now
	case opRelease:
		c.phase = ending
	}
}

func (s *quorumScenario) ballot(w *quorumWorld, i, server int) ballot {
	c := &w.clients[i]
	b := ballot{from: i, server: server, op: c.round, sent: c.asked, unsettled: c.round == opRelease && c.unsettled}
	if c.round == opRaise {
		b.fence = c.fence
	}
	return b
}

// inRound is what may happen to a round: one of its requests comes to a server,
// with or without a reply; or the client has heard enough, or waited for long
// enough, and the rest comes later or not at all.
func (s *quorumScenario) inRound(w *quorumWorld, i int) []quorumStep {
	c := &w.clients[i]
	var all []quorumStep
	alone := len(w.floats) == 0
	for j, other := range w.clients {
		alone = alone && (j == i || other.round == "")
	}
	for server := range quorumSize {
		if c.came[server] {
			continue
		}
		if alone && len(all) > 0 {
			break // nobody else is about: which of the others comes next makes no difference
		}
		to := w.clone()
		reply, err := s.deliver(to, s.ballot(w, i, server))
		to.clients[i].came[server] = true
		name := fmt.Sprintf("client %d: %s comes to server %d", i, c.round, server)
		if w.faults > 0 && slices.Contains(s.kinds, "late") {
			lost := to.clone()
			lost.faults--
			s.mayEnd(lost, i)
			all = append(all, s.checked(name+", whose reply is lost", lost, err))
		}
		to.clients[i].replies[server] = reply
		if err == nil {
			err = s.mayEnd(to, i)
		}
		all = append(all, s.checked(name, to, err))
	}
	v := s.votes(i, c)
	missing := c.missing()
	if late := slices.Contains(s.kinds, "late"); !late || missing > w.faults || len(w.floats)+missing > 3 ||
		w.now < c.asked+s.patience() && !v.op.enough(v) {
		return all
	}
	to := w.clone()
	for server := range quorumSize {
		if !c.came[server] {
			to.floats = append(to.floats, s.ballot(w, i, server))
		}
	}
	to.faults -= missing
	err := s.end(to, i)
	return append(all, s.checked(fmt.Sprintf("client %d: %s goes on without %d", i, c.round, missing), to, err))
}

func (s *quorumScenario) mayEnd(w *quorumWorld, i int) error {
	if w.clients[i].missing() > 0 {
		return nil
	}
	return s.end(w, i)
}

// end is what a client does with the outcome of a round: see askQuorum, Renew,
// and the places that the rules of modelClient name.
func (s *quorumScenario) end(w *quorumWorld, i int) error {
	c := &w.clients[i]
	v := s.votes(i, c)
	op := c.round
	c.round = ""
	ctx := context.Background()
	switch op {
	case opAcquire:
		reply, err := v.acquisition(ctx)
		c.unsettled = c.unsettled || !v.complete()
		if err == nil && reply.acquired {
			c.fence = reply.fence
			if s.broken == "no raise" {
				return s.acquired(w, i)
			}
			s.begin(w, i, opRaise)
			return nil
		}
		s.begin(w, i, opWithdraw)
	case opRaise:
		if state, err := v.outcome(ctx); err == nil && state == ours {
			return s.acquired(w, i)
		}
		s.begin(w, i, opWithdraw)
	case opWithdraw:
		if c.tries++; c.tries < 2 {
			c.phase, c.next = asking, w.now+leastRetry.Milliseconds()
		} else if c.phase = over; c.unsettled {
			s.begin(w, i, opRelease)
		}
	case opRenew:
		return s.renewed(w, i, v)
	default:
		c.phase = over
	}
	return nil
}

// acquired is underLease: the lease counts from before the request.
func (s *quorumScenario) acquired(w *quorumWorld, i int) error {
	c := &w.clients[i]
	c.sent = c.began
	if w.now >= s.profile.safeEnd(c.sent)-s.profile.killAfter() {
		c.phase, c.next = checking, w.now
		return nil
	}
	return s.run(w, i)
}

func (s *quorumScenario) run(w *quorumWorld, i int) error {
	c := &w.clients[i]
	c.phase, c.next = running, c.sent+s.profile.millis()/3
	if c.fence <= w.fence {
		return fmt.Errorf("%w: client %d has %d, after %d", errFence, i, c.fence, w.fence)
	}
	w.fence = c.fence
	return nil
}

func (s *quorumScenario) renewed(w *quorumWorld, i int, v votes) error {
	c := &w.clients[i]
	state, err := v.outcome(context.Background())
	switch {
	case c.phase == checking && (err != nil || state != ours):
		s.begin(w, i, opRelease)
	case err != nil:
		c.next = w.now // again
	case state != ours:
		c.lost = true
	default:
		c.sent = max(c.sent, c.asked)
		c.next = c.sent + s.profile.millis()/3
		for server := range quorumSize { // see Lease.restore
			if c.replies[server] == int64(gone) {
				if _, err := s.deliver(w, ballot{from: i, server: server, op: opRestore, sent: w.now}); err != nil {
					return err
				}
			}
		}
		if c.phase == checking {
			return s.run(w, i)
		}
	}
	return nil
}

// free is what a client may do at any time.
func (s *quorumScenario) free(w *quorumWorld, i int) []quorumStep {
	c := &w.clients[i]
	var all []quorumStep
	switch {
	case c.phase == idle && (i == 0 || w.clients[i-1].phase != idle):
		to := w.clone()
		to.clients[i].phase, to.clients[i].next = asking, w.now
		all = append(all, s.checked(fmt.Sprintf("client %d comes", i), to, nil))
	case c.phase == running:
		to := w.clone()
		s.begin(to, i, opRelease)
		all = append(all, s.checked(fmt.Sprintf("client %d ends its child", i), to, nil))
	}
	if c.phase != idle && c.phase != over && c.phase != dead && w.faults > 0 && slices.Contains(s.kinds, "crash") {
		to := w.clone()
		to.faults--
		to.clients[i] = quorumClient{phase: dead}
		all = append(all, s.checked(fmt.Sprintf("client %d is killed with its child", i), to, nil))
	}
	return all
}

func (s *quorumScenario) arrive(w *quorumWorld, n int) quorumStep {
	to := w.clone()
	b := w.floats[n]
	to.floats = slices.Delete(to.floats, n, n+1)
	_, err := s.deliver(to, b)
	return s.checked(fmt.Sprintf("the %s of client %d, sent %d ms ago, comes to server %d", b.op, b.from, w.now-b.sent, b.server), to, err)
}
