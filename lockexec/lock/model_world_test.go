package lock

import (
	"fmt"
	"slices"
	"strings"
)

// world is one state of everything: the server, the clients, what is under way
// between them, and what the guarantees need to know of the past.
type world struct {
	now     int64
	server  *dump
	clients []modelClient
	floats  []message // that were sent and have not come; nobody awaits a reply, or see modelClient
	faults  int       // that may still come
	nudges  int       // steps of time that no event asks for, that may still come
	revoked bool      // an operator has
	foreign bool      // a client of another kind has

	forgot bool // the holders' records were evicted

	// waived: the lock was deleted or the server emptied behind everybody's
	// back, from where on two may run at once.
	waived bool

	past past
}

func (w *world) clone() *world {
	copied := *w
	copied.clients = slices.Clone(w.clients)
	copied.floats = slices.Clone(w.floats)
	copied.past.line = slices.Clone(w.past.line)
	return &copied
}

// step is one of a world.
type step = modelStep[*world]

// scenario is what is explored: who there is, what may go wrong, and for how long.
type scenario struct {
	name     string
	profiles []profile
	faults   int      // in one history, together
	kinds    []string // of faults: late, crash, deaf, evict, outage, delete, restart
	nudges   int
	revoke   bool
	stops    bool         // who waits may be told to stop
	foreign  bool         // a client of another kind may take the lock
	broken   string       // a rule of the client that is left out
	constant [2]string    // replaced in the scripts, to make a thing small enough
	horizon  int64        // ms
	server   *modelServer //
	edit     func(source string) string
	words    map[message]command
	unserved map[[16]byte]int64 // by calm, from there on
}

// model is what there is to explore.
func (s *scenario) model() model[*world] {
	return model[*world]{
		first:    &world{now: epoch, server: newDump(nil), clients: make([]modelClient, len(s.profiles)), faults: s.faults, nudges: s.nudges},
		steps:    s.steps,
		identity: s.identity,
		describe: s.describe,
		calm:     s.calm,
	}
}

func (s *scenario) describe(w *world) string {
	var b strings.Builder
	fmt.Fprintf(&b, "after %d ms the server has\n%s", w.now-epoch, w.server.describe(w.now))
	for i, c := range w.clients {
		fmt.Fprintf(&b, "    client %d: %s\n", i, phaseNames[c.phase])
	}
	return b.String()
}

func (s *scenario) allows(w *world, kind string) bool {
	return w.faults > 0 && slices.Contains(s.kinds, kind)
}

// steps returns what may happen next: all that is due now, in any order, and
// whatever may happen at any time; when nothing is due, time passes as well.
func (s *scenario) steps(w *world) []step {
	var all []step
	due := false
	for i := range w.clients {
		c, p := &w.clients[i], s.profiles[i]
		if c.phase == running && w.now >= p.safeEnd(c.sent) && s.broken != "no kill" {
			return []step{s.killed(w, i)} // before anything else: see supervisor.watch
		}
		switch {
		case c.awaits && w.now >= c.until:
			due = true
			all = append(all, s.change(w, i, "is tired of waiting for a reply", func(c *modelClient) { c.expire(p, w.now) }))
		case !c.awaits && c.acts() && c.next <= w.now:
			due = true
			all = append(all, s.send(w, i)...)
		case !c.awaits && c.phase == waiting && s.woken(w, i):
			due = true
			all = append(all, s.wake(w, i)...)
		}
		all = append(all, s.free(w, i)...)
	}
	all = append(all, s.environment(w)...)
	if !due {
		if next := s.moment(w); next != 0 && next-epoch <= s.horizon {
			all = append(all, s.pass(w, next))
		}
	}
	return all
}

// acts reports whether the client has something to do at its time.
func (c *modelClient) acts() bool {
	switch c.phase {
	case asking, waiting, checking, ending, leaving:
		return true
	case running:
		return !c.lost
	default:
		return false
	}
}

// change is a step of one client alone.
func (s *scenario) change(w *world, i int, what string, do func(c *modelClient)) step {
	to := w.clone()
	do(&to.clients[i])
	return s.checked(step{name: fmt.Sprintf("client %d %s", i, what), to: to})
}

func (s *scenario) killed(w *world, i int) step {
	return s.change(w, i, "kills its child at the safe end", func(c *modelClient) { c.release(s.profiles[i], w.now, 0, false) })
}

// free is what a client may do at any time.
func (s *scenario) free(w *world, i int) []step {
	c, p := &w.clients[i], s.profiles[i]
	var all []step
	add := func(what string, do func(c *modelClient)) { all = append(all, s.change(w, i, what, do)) }
	switch c.phase {
	case idle:
		// Who wants the same comes in turn: the others would only have other names.
		for j := range i {
			if s.profiles[j] == p && w.clients[j].phase == idle {
				return nil
			}
		}
		add("comes", func(c *modelClient) { c.phase, c.next = asking, w.now })
	case asking, waiting:
		if !s.stops {
			break
		}
		if c.awaits { // see settle: the exchange ends in its time, or not
			add("is told to stop, and leaves when its exchange has ended", func(c *modelClient) { c.unsettled = true; c.awaits = false; c.held = nil; c.giveUp(w.now) })
			add("is told to stop, and goes without a word", func(c *modelClient) { c.phase, c.awaits, c.held = over, false, nil })
		} else if c.phase == waiting {
			add("is told to stop", func(c *modelClient) { c.giveUp(w.now) })
		}
	case running:
		keep := max(0, p.keep.Milliseconds()-(w.now-c.taken))
		add("ends its child", func(c *modelClient) { c.release(p, w.now, keep, p.once && !c.lost) })
		if p.once {
			add("has its child fail", func(c *modelClient) { c.release(p, w.now, keep, false) })
		}
	default:
	}
	if c.awaits && c.held != nil {
		to := w.clone()
		m := c.message
		if s.broken == "counts from the reply" {
			m.sent = w.now
		}
		err := to.clients[i].receive(p, m, c.held, w.now)
		all = append(all, s.checked(step{fmt.Sprintf("client %d gets the reply to %s late", i, c.message.op), to, err}))
	}
	if c.phase != idle && c.phase != dead && c.phase != over && s.allows(w, "crash") {
		one := s.change(w, i, "is killed with its child", func(c *modelClient) { *c = modelClient{phase: dead} })
		one.to.faults--
		all = append(all, one)
	}
	return all
}

// send is a client's next exchange: it takes no time; or the request is on its
// way for a while, for ever, or longer than the client; or the reply is.
//
// That an exchange takes no time unless something is wrong leaves nothing out:
// what is on its way changes nobody, so that of all orders in which the
// messages of one moment can be sent and come, only that of their coming to the
// server matters.
func (s *scenario) send(w *world, i int) []step {
	p := s.profiles[i]
	m := w.clients[i].outgoing(i, w.now)
	name := fmt.Sprintf("client %d: %s", i, m.op)
	to := w.clone()
	reply, err := s.deliver(to, m)
	if err == nil {
		err = to.clients[i].receive(p, m, reply, w.now)
	}
	all := []step{s.checked(step{name, to, err})}
	if err != nil || !s.allows(w, "late") || len(w.floats) >= 2 {
		return all
	}
	await := func(w *world) {
		c := &w.clients[i]
		c.awaits, c.message, c.until, c.held = true, m, w.now+p.patience(m), nil
		w.faults--
	}
	floating := w.clone()
	await(floating)
	floating.floats = append(floating.floats, m)
	slow := w.clone()
	await(slow)
	slow.clients[i].held, err = s.deliver(slow, m)
	return append(all,
		s.checked(step{name + ", which stays on its way", floating, nil}),
		s.checked(step{name + ", whose reply stays on its way", slow, err}))
}

// arrive is a request that was on its way for a while.
func (s *scenario) arrive(w *world, n int) step {
	to := w.clone()
	m := w.floats[n]
	to.floats = slices.Delete(to.floats, n, n+1)
	reply, err := s.deliver(to, m)
	name := fmt.Sprintf("the %s of client %d, sent %d ms ago, arrives", m.op, m.from, w.now-m.sent)
	if c := &to.clients[m.from]; err == nil && c.awaits && c.held == nil && c.message == m {
		err = c.receive(s.profiles[m.from], m, reply, w.now)
		name += " in time"
	}
	return s.checked(step{name, to, err})
}

func (s *scenario) woken(w *world, i int) bool {
	e, ok := w.server.find(wakeKey(modelName, modelToken(i)), w.now)
	return ok && e.kind == "list"
}

// wake has a waiter's listener take the next word from its list, or a
// connection that is dead.
func (s *scenario) wake(w *world, i int) []step {
	o := s.server.run(w.server, w.now, 0, command{[]string{"LPOP", wakeKey(modelName, modelToken(i))}, i})
	to := w.clone()
	to.server = o.after
	c := &to.clients[i]
	switch o.reply {
	case "watch": // see listener.await
		c.next = min(c.next, c.asked+watchInterval.Milliseconds())
	default:
		if c.next = w.now; s.broken == "no confirm" && holds(to, i) {
			c.sent, c.taken = w.now, w.now
			c.start(s.profiles[i])
		}
	}
	all := []step{{name: fmt.Sprintf("client %d is woken: %v", i, o.reply), to: to, err: o.err}}
	if s.allows(w, "deaf") {
		to := w.clone()
		to.server = o.after
		to.faults--
		all = append(all, step{name: fmt.Sprintf("client %d is not reached by: %v", i, o.reply), to: to})
	}
	return all
}
