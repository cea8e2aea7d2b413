package lock

import (
	"context"
	"fmt"
)

// environment is what happens to the server and on the way to it.
func (s *scenario) environment(w *world) []step {
	var all []step
	for n, m := range w.floats {
		if w.now > m.sent {
			all = append(all, s.arrive(w, n))
		}
	}
	if w.nudges > 0 {
		if next := s.moment(w); next > w.now+nudge && !s.due(w) {
			one := s.pass(w, w.now+nudge)
			one.to.nudges--
			all = append(all, one)
		}
	}
	_, held := w.server.find(modelName, w.now)
	if s.foreign && !w.foreign && !held {
		to := w.clone()
		to.foreign = true
		to.server = w.server.with(dumpEntry{key: modelName, kind: "string", fields: []string{foreignToken}, ends: w.now + foreignTTL})
		all = append(all, s.checked(step{name: "a foreign client takes the lock", to: to}))
	}
	if s.revoke && !w.revoked && held {
		to := w.clone()
		to.revoked = true
		_, err := s.deliver(to, message{from: len(s.profiles), op: opRevoke})
		all = append(all, s.checked(step{"an operator revokes the lock", to, err}))
	}
	if held && s.allows(w, "delete") {
		to := w.clone()
		to.faults--
		to.waived = true
		to.server = w.server.without(modelName)
		all = append(all, s.checked(step{name: "somebody deletes the lock", to: to}))
	}
	records := beside("holders", modelName)
	if _, ok := w.server.find(records, w.now); ok && held && s.allows(w, "evict") {
		to := w.clone()
		to.faults--
		to.forgot = true
		to.server = w.server.without(records)
		all = append(all, s.checked(step{name: "the holders' records are evicted", to: to}))
	}
	if len(w.server.entries) > 0 && s.allows(w, "restart") {
		to := w.clone()
		to.faults--
		to.waived = true
		to.now++ // it takes a moment
		to.server = newDump(nil)
		to.past.line = nil
		to.past.spent = 0
		all = append(all, s.checked(step{name: "the server restarts empty", to: to}))
	}
	if w.server != nil && s.allows(w, "outage") && !s.due(w) {
		all = append(all, s.outage(w))
	}
	return all
}

// outage is a time in which nobody reaches the server: shorter than a waiter
// tries to reach it, and longer than the server waits for word from one who
// watches. Whose place it costs depends on who comes first after it, so that all
// in line count as silent until they ask again.
func (s *scenario) outage(w *world) step {
	to := w.clone()
	to.faults--
	to.floats = nil
	to.now += outageMillis
	for i := range to.clients {
		c, p := &to.clients[i], s.profiles[i]
		switch {
		case c.phase == running && p.safeEnd(c.sent) <= to.now && s.broken != "no kill":
			c.release(p, to.now, 0, false)
		case c.awaitsTurn(): // its tries ended without a reply
			c.unsettled, c.awaits, c.held, c.next = true, false, nil, to.now
		case c.acts() || c.awaits:
			c.awaits, c.held, c.next = false, nil, to.now
		}
	}
	return s.checked(step{name: fmt.Sprintf("nobody reaches the server for %d ms", outageMillis), to: to})
}

const (
	outageMillis = 5500

	nudge      = 700  // ms
	foreignTTL = 1500 // ms
)

// due reports whether a client has something to do now.
func (s *scenario) due(w *world) bool {
	for i := range w.clients {
		c := &w.clients[i]
		if c.awaits && w.now >= c.until || !c.awaits && (c.acts() && c.next <= w.now || c.phase == waiting && s.woken(w, i)) {
			return true
		}
	}
	return false
}

// revocation is what an operator sends who takes the lock from whoever has it.
func (s *scenario) revocation() *modelPeer {
	peer := &modelPeer{reply: []any{int64(0), int64(0), "0"}}
	locker := &Locker{servers: []*server{{client: peer, place: "model"}}, now: Now}
	snapshot := Snapshot{Name: modelName}
	for i := range s.profiles {
		snapshot.Holders = append(snapshot.Holders, Holding{name: modelToken(i)})
	}
	if _, err := locker.Revoke(context.Background(), snapshot, false); err != nil {
		panic(fmt.Sprint("revoke: ", err))
	}
	return peer
}
