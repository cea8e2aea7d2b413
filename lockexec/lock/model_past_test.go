package lock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// past is what the guarantees need to know of what has happened.
type past struct {
	line  []queued // in the order in which they came
	fence int64    // the highest that was given
	kept  int64    // until then nobody may have the lock, ms
	done  bool     // a run has succeeded, and the server knows
	spent int      // bits: the client has given up, and the server knows
}

// queued is one who waits. The line of the model is that of the messages that
// came, not that of the scripts.
type queued struct {
	client  int
	heard   int64 // when it was last
	watches bool  // it was told to ask every second
}

// The times of line.lua that the guarantees speak of, ms.
const (
	silentWatcher = 5000
	silentWaiter  = 25000
	grantTTL      = 2000
)

// awaitsTurn reports whether the client still wants the lock.
func (c *modelClient) awaitsTurn() bool { return c.phase == asking || c.phase == waiting }

// limit is for how long the one in line may be silent, ms.
func (q queued) limit() int64 {
	if q.watches {
		return silentWatcher
	}
	return silentWaiter
}

// live reports whether the one in line must be served before all that came
// later.
func (s *scenario) live(w *world, q queued) bool {
	return w.clients[q.client].awaitsTurn() && w.now-q.heard <= q.limit()
}

// The guarantees, as the design numbers and names them.
var (
	errExclusion = errors.New("G1 exclusion")
	errLease     = errors.New("G1 lease: a child runs beyond what the server keeps for it")
	errHold      = errors.New("G1 min-hold")
	errOwnership = errors.New("G2 ownership")
	errZombie    = errors.New("G3 no zombie")
	errTooLong   = errors.New("G3 no zombie: the lock is kept for longer than a lease")
	errLateGrant = errors.New("G3 no zombie: a late request takes the lock for one that has given up")
	errFence     = errors.New("fences rise")
	errOrder     = errors.New("G8 order: no barging, first come first served")
	errPlace     = errors.New("G8 order: a live waiter lost its place")
	errWakeUp    = errors.New("G8 no lost wake-up")
	errGap       = errors.New("G8 hand-off: the lock is free while somebody waits for it")
	errStays     = errors.New("G8 order: who has left is in line")
	errMadeAgain = errors.New("G2 ownership: a renewal made a lock")
	errNobody    = errors.New("G3 no zombie: who was refused has the lock")
	errRefused   = errors.New("G8 hand-off: the first in line is refused what there is room for")
	errOnce      = errors.New("once")
	errScript    = errors.New("a script fails")
)

// deliver has the server do what it is told, and judges it.
func (s *scenario) deliver(w *world, m message) (any, error) {
	o := s.server.run(w.server, w.now, 0, s.wordsOf(m))
	before := w.server
	w.server = o.after
	if o.err != nil {
		return nil, fmt.Errorf("%w: %w", errScript, o.err)
	}
	if err := s.judge(w, before, m); err != nil {
		return nil, err
	}
	return o.reply, s.remember(w, m, o.reply)
}

// remember notes what is of use later.
func (s *scenario) remember(w *world, m message, reply any) error {
	token := modelToken(m.from)
	has := holders(w.server, w.now)
	holds := func(client int) bool {
		return slices.ContainsFunc(has, func(h stake) bool { return s.owner(h.token) == client })
	}
	queue, _ := w.server.find(beside("queue", modelName), w.now)
	var line []queued
	for _, q := range w.past.line {
		if slices.Contains(queue.fields, modelToken(q.client)) {
			line = append(line, q)
		} else if q.client != m.from && s.live(w, q) && !holds(q.client) {
			return fmt.Errorf("%w: client %d", errPlace, q.client)
		}
	}
	if m.op == opAcquire && slices.Contains(queue.fields, token) {
		at := slices.IndexFunc(line, func(q queued) bool { return q.client == m.from })
		if at < 0 {
			at, line = len(line), append(line, queued{client: m.from})
		}
		answer, _ := parseAcquireReply(reply)
		line[at].heard, line[at].watches = w.now, answer.watch
	}
	w.past.line = line
	if m.op == opAcquire {
		if err := s.judgeRefusal(w, m, reply, has); err != nil {
			return err
		}
	}
	if m.op == opRevoke {
		w.past.kept = 0
	}
	if m.op == opRelease {
		s.rememberRelease(w, m, reply)
	}
	if w.now < w.past.kept && !w.waived && !slices.ContainsFunc(has, func(h stake) bool { return h.ends >= w.past.kept }) {
		return fmt.Errorf("%w: it is to be kept for another %d ms", errHold, w.past.kept-w.now)
	}
	return nil
}

func (s *scenario) rememberRelease(w *world, m message, reply any) {
	if m.unsettled {
		w.past.spent |= 1 << m.from
	}
	if reply == int64(ours) && m.success {
		w.past.done = true
	}
	if reply == int64(ours) && m.keep > 0 && !w.revoked {
		w.past.kept = w.now + m.keep
	}
}

// checked judges a state, unless the step to it has broken something already.
func (s *scenario) checked(one step) step {
	if one.err != nil {
		return one
	}
	w := one.to
	n := map[Capacity]int{}
	all, foreign := 0, false
	has := holders(w.server, w.now)
	for _, h := range has {
		foreign = foreign || h.token == foreignToken
	}
	for i, c := range w.clients {
		p := s.profiles[i]
		if c.phase != running {
			continue
		}
		all++
		n[p.capacity]++
		holds := slices.ContainsFunc(has, func(h stake) bool { return h.token == modelToken(i) || h.token == modelToken(i)+tombstone })
		if !holds && !w.waived {
			one.err = fmt.Errorf("%w: client %d", errLease, i)
		}
		if p.once && w.past.done && !w.waived {
			one.err = fmt.Errorf("%w: client %d runs what was done", errOnce, i)
		}
	}
	for capacity, running := range n {
		limit := 1
		if capacity != Exclusive {
			limit = int(capacity)
		}
		if capacity == Shared {
			limit = all
		}
		if !w.waived && (running > limit || running < all || foreign) {
			one.err = fmt.Errorf("%w: %d run, %v", errExclusion, all, capacity)
		}
	}
	return one
}

const foreignToken = "somebody-else"

// wordsOf returns the command that goes out for the message, as the real code
// makes it.
func (s *scenario) wordsOf(m message) command {
	m.sent = 0
	if known, ok := s.words[m]; ok {
		return known
	}
	peer := &modelPeer{}
	if m.op == opRevoke {
		peer = s.revocation()
	} else {
		_, _, _ = s.profiles[m.from].do(m, peer)
	}
	words := make([]string, len(peer.sent))
	for i, word := range peer.sent {
		words[i] = fmt.Sprint(word)
	}
	words[1] = s.edit(strings.Replace(words[1], s.constant[0], s.constant[1], 1))
	s.words[m] = command{words, len(s.words) + len(s.profiles)}
	return s.words[m]
}
