package lock

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// moment is the next one at which something is due or the server changes by
// itself, or 0.
func (s *scenario) moment(w *world) int64 {
	next := earliest{after: w.now}
	for i, c := range w.clients {
		switch {
		case c.awaits:
			next.consider(c.until)
		case c.acts():
			next.consider(c.next)
		}
		if c.phase == running {
			next.consider(s.profiles[i].safeEnd(c.sent))
		}
	}
	for _, h := range holders(w.server, w.now) {
		next.consider(h.ends)
	}
	for _, q := range w.past.line {
		if !w.clients[q.client].awaitsTurn() {
			next.consider(q.heard + silentWatcher + 1)
			next.consider(q.heard + silentWaiter + 1)
		}
	}
	return next.at
}

// earliest is the first of some moments that are to come, 0 without one.
type earliest struct{ after, at int64 }

func (e *earliest) consider(at int64) {
	if at > e.after && (e.at == 0 || at < e.at) {
		e.at = at
	}
}

func (s *scenario) pass(w *world, to int64) step {
	after := w.clone()
	after.now = to
	after.floats = slices.DeleteFunc(after.floats, func(m message) bool { return to-m.sent > maxLate && !after.clients[m.from].expects(m) })
	return s.checked(step{name: fmt.Sprintf("%d ms pass", to-w.now), to: after})
}

func (c *modelClient) expects(m message) bool { return c.awaits && c.message == m }

// maxLate is how long a request may be on its way, ms: longer than a lease.
const maxLate = 8000

// stake is one who has the lock, or what stands in its place.
type stake struct {
	token string
	ends  int64
}

// holders returns who has the lock by the server's word.
func holders(d *dump, now int64) []stake {
	e, ok := d.find(modelName, now)
	if !ok {
		return nil
	}
	if e.kind == "string" {
		return []stake{{e.fields[0], e.ends}}
	}
	var all []stake
	for i := 0; e.kind == "zset" && i < len(e.fields); i += 2 {
		if ends, _ := strconv.ParseInt(e.fields[i+1], 10, 64); ends > now {
			all = append(all, stake{e.fields[i], ends})
		}
	}
	return all
}

// holds reports whether the client has the lock by the server's word.
func holds(w *world, i int) bool {
	return slices.ContainsFunc(holders(w.server, w.now), func(h stake) bool { return h.token == modelToken(i) })
}

// owner returns the client whose token that is, with or without a word behind
// it, or -1.
func (s *scenario) owner(token string) int {
	for i := range s.profiles {
		if strings.HasPrefix(token, modelToken(i)) {
			return i
		}
	}
	return -1
}
