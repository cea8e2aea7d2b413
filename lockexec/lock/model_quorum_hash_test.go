package lock

import (
	"crypto/sha256"
	"slices"
	"strings"
)

// model is what there is to explore.
func (s *quorumScenario) model() model[*quorumWorld] {
	first := &quorumWorld{now: epoch, clients: make([]quorumClient, s.clients), faults: s.faults}
	for i := range first.servers {
		first.servers[i] = newDump(nil)
		first.started[i] = epoch - 60_000
	}
	for s.held && first.clients[0].phase != running { // what comes first is that all goes well
		first = s.steps(first)[0].to
	}
	return model[*quorumWorld]{first: first, steps: s.steps, identity: s.identity, describe: s.describe}
}

// identity is as that of a scenario.
func (s *quorumScenario) identity(w *quorumWorld) [16]byte {
	b := encoder{now: w.now}
	for i, d := range w.servers {
		b.fences(d, s.clock(w, i))
	}
	b.known = append(b.known, w.fence)
	for i := range w.clients {
		b.replyFences(w.clients[i].replies[:])
		b.known = append(b.known, w.clients[i].fence)
	}
	slices.Sort(b.known)
	b.known = slices.Compact(b.known)
	for i, d := range w.servers {
		b.now = s.clock(w, i)
		for _, e := range d.entries {
			if e.present(b.now) {
				b.entry(e)
			}
		}
		b.numbers(min((w.now - w.started[i]), s.profile.millis()+2000))
	}
	b.now = w.now
	for _, c := range w.clients {
		b.numbers(int64(c.phase))
		if c.phase == idle || c.phase == over || c.phase == dead {
			continue
		}
		b.text(c.round)
		b.numbers(int64(c.tries), flags(c.unsettled, c.lost, c.came[0], c.came[1], c.came[2]))
		b.text(b.rank(c.fence))
		if c.round != "" {
			b.time(c.asked)
			b.reply(c.replies[:])
		} else {
			b.time(c.next)
		}
		b.time(c.began)
		b.time(c.sent)
	}
	floats := make([]string, len(w.floats))
	for i, f := range w.floats {
		one := encoder{now: w.now, known: b.known}
		one.text(f.op)
		one.numbers(int64(f.from), int64(f.server), flags(f.unsettled))
		one.text(one.rank(f.fence))
		one.time(f.sent)
		floats[i] = string(one.bytes)
	}
	slices.Sort(floats)
	b.text(strings.Join(floats, "|"))
	b.numbers(int64(w.faults), flags(w.waived))
	b.text(b.rank(w.fence))
	sum := sha256.Sum256(b.bytes)
	return [16]byte(sum[:16])
}

// moment is the next one at which something is due, or 0.
func (s *quorumScenario) moment(w *quorumWorld) int64 {
	next := earliest{after: w.now}
	for _, c := range w.clients {
		switch {
		case c.round != "":
			next.consider(c.asked + s.patience())
		case c.phase == asking, c.phase == checking, c.phase == running && !c.lost:
			next.consider(c.next)
		}
		if c.phase == running {
			next.consider(s.profile.safeEnd(c.sent))
		}
	}
	for i, d := range w.servers {
		for _, h := range holders(d, s.clock(w, i)) {
			next.consider(h.ends - s.skew[i])
		}
		next.consider(w.started[i] + s.profile.millis() + 1000)
	}
	return next.at
}
