package lock

import "fmt"

// calm goes on from a state with no more faults: nobody comes, children end at
// once, what is on its way is lost, and everybody does what is due. All who wait
// must get the lock, or an answer, and soon.
func (s *scenario) calm(w *world) ([]string, *world, error) {
	w = w.clone()
	w.floats, w.faults, w.nudges = nil, 0, 0
	w.revoked, w.foreign = true, true
	patience := s.delay(w)
	unserved := int64(0) // time in which no living client has the lock
	var names []string
	var path [][16]byte
	var at []int64 // unserved, then
	for range 400 {
		id := s.identity(w)
		left, known := s.unserved[id]
		if known || !s.anybodyWaits(w) {
			if unserved += left; unserved > patience {
				break
			}
			for i, id := range path {
				s.unserved[id] = unserved - at[i]
			}
			return nil, nil, nil
		}
		path, at = append(path, id), append(at, unserved)
		one, ok := s.next(w)
		names = append(names, "then "+one.name)
		if !ok {
			return names, w, fmt.Errorf("%w: nothing happens any more", errWakeUp)
		}
		if one.err != nil {
			return names, one.to, one.err
		}
		if passed := one.to.now - w.now; passed > 0 && !s.busy(w) {
			unserved += passed
		}
		if w = one.to; unserved > patience {
			break
		}
	}
	return names, w, fmt.Errorf("%w: %d ms, where %d are enough", errWakeUp, unserved, patience)
}

// next is the one step of a world in which all goes well.
func (s *scenario) next(w *world) (step, bool) {
	for i, c := range w.clients {
		if c.phase == running {
			return s.change(w, i, "ends its child", func(c *modelClient) { c.release(s.profiles[i], w.now, 0, false) }), true
		}
	}
	for i := range w.clients {
		c, p := &w.clients[i], s.profiles[i]
		switch {
		case c.awaits && w.now >= c.until:
			return s.change(w, i, "is tired of waiting for a reply", func(c *modelClient) { c.expire(p, w.now) }), true
		case !c.awaits && c.acts() && c.next <= w.now:
			return s.send(w, i)[0], true
		case !c.awaits && c.phase == waiting && s.woken(w, i):
			return s.wake(w, i)[0], true
		}
	}
	if at := s.moment(w); at != 0 {
		return s.pass(w, at), true
	}
	return step{name: "nothing"}, false
}

func (s *scenario) anybodyWaits(w *world) bool {
	for i := range w.clients {
		if c := &w.clients[i]; c.awaitsTurn() {
			return true
		}
	}
	return false
}

// busy reports whether somebody who lives has the lock, or is to get a reply.
func (s *scenario) busy(w *world) bool {
	for i := range w.clients {
		if c := &w.clients[i]; c.awaits || c.phase == running || c.phase == checking || c.phase == ending || c.phase == leaving {
			return true
		}
	}
	return false
}

// delay is for how long, ms, those who wait may have to wait for nobody: until
// what is left of others ends, and then up to a second, and up to three for each
// in line who has died and was heard of a short while ago.
func (s *scenario) delay(w *world) int64 {
	most := int64(0)
	for _, h := range holders(w.server, w.now) {
		i := s.owner(h.token)
		if i < 0 || w.clients[i].mayHaveGone() || h.token != modelToken(i) {
			most = max(most, h.ends-w.now)
		}
	}
	for _, c := range w.clients {
		if c.phase == ending {
			most = max(most, c.keep)
		}
	}
	most += watchInterval.Milliseconds() + 1
	for _, q := range w.past.line {
		if c := &w.clients[q.client]; !c.awaitsTurn() && w.now-q.heard <= q.limit() {
			most += 3000
		}
	}
	return most
}

// mayHaveGone reports whether nobody takes care of the client's lock any more:
// or will not, should the release that is on its way be the last one.
func (c *modelClient) mayHaveGone() bool {
	return c.phase == dead || c.phase == over || c.awaits && (c.phase == ending || c.phase == leaving)
}
