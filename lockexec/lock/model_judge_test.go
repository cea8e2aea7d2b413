package lock

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// judge compares what the server had with what it has.
func (s *scenario) judge(w *world, before *dump, m message) error {
	for _, e := range w.server.entries {
		if e.ends == 0 {
			return fmt.Errorf("%w: %s has no TTL", errZombie, e.key)
		}
	}
	old, now := holders(before, w.now), holders(w.server, w.now)
	token := modelToken(m.from)
	for _, h := range old {
		own := m.op == opRevoke || h.token == token || m.op == opRelease && h.token == token+tombstone
		if !own && !slices.Contains(now, h) {
			return fmt.Errorf("%w: %s of client %d changed the lock of %s", errOwnership, m.op, m.from, h.token)
		}
	}
	var fresh []stake
	for _, h := range now {
		if !slices.ContainsFunc(old, func(o stake) bool { return o.token == h.token }) {
			fresh = append(fresh, h)
		}
	}
	if err := s.judgeGap(w, m, now); err != nil {
		return err
	}
	return s.judgeGrants(w, m, fresh, old)
}

// judgeGap sees to it that who has left the lock, or the line, has left no gap.
func (s *scenario) judgeGap(w *world, m message, now []stake) error {
	queue, _ := w.server.find(beside("queue", modelName), w.now)
	if m.op == opRelease && slices.Contains(queue.fields, modelToken(m.from)) {
		return fmt.Errorf("%w: client %d", errStays, m.from)
	}
	for _, q := range w.past.line {
		if m.op != opRenew && q.client != m.from && s.live(w, q) && len(now) == 0 {
			return fmt.Errorf("%w: client %d", errGap, q.client)
		}
	}
	return nil
}

// judgeRefusal looks at whether who was refused has to be.
func (s *scenario) judgeRefusal(w *world, m message, reply any, has []stake) error {
	answer, err := parseAcquireReply(reply)
	if err != nil || answer.acquired {
		return err
	}
	for _, h := range has {
		if h.token == modelToken(m.from) {
			return fmt.Errorf("%w: client %d", errNobody, m.from)
		}
	}
	if answer.done || answer.spent || answer.capacity != nil {
		return nil
	}
	for _, q := range w.past.line {
		if q.client == m.from {
			break
		}
		if w.now-q.heard <= q.limit() {
			return nil // that one comes first, dead or not
		}
	}
	capacity := s.profiles[m.from].capacity
	for _, h := range has {
		if i := s.owner(h.token); capacity == Exclusive || i < 0 || s.profiles[i].capacity != capacity || w.forgot || w.revoked {
			return nil
		}
	}
	if capacity > 0 && len(has) >= int(capacity) {
		return nil
	}
	return fmt.Errorf("%w: client %d", errRefused, m.from)
}

// judgeGrants looks at those who have just got the lock.
func (s *scenario) judgeGrants(w *world, m message, fresh, old []stake) error {
	records, _ := w.server.find(beside("holders", modelName), w.now)
	type grant struct {
		client int
		fence  int64
	}
	var grants []grant
	for _, h := range fresh {
		client := s.owner(h.token)
		switch {
		case strings.HasSuffix(h.token, tombstone):
			if !slices.ContainsFunc(old, func(o stake) bool { return o.token+tombstone == h.token && o.ends == h.ends }) {
				return fmt.Errorf("%w: the tombstone does not end with its lease", errExclusion)
			}
			continue
		case strings.HasSuffix(h.token, ":kept"):
			continue
		case client < 0:
			return fmt.Errorf("%w: %s has the lock", errOwnership, h.token)
		case m.op == opRenew:
			return fmt.Errorf("%w: client %d", errMadeAgain, client)
		case h.ends > w.now+max(s.profiles[client].millis(), grantTTL):
			return fmt.Errorf("%w: client %d", errTooLong, client)
		case w.now < w.past.kept && !w.waived:
			return fmt.Errorf("%w: client %d has the lock %d ms early", errHold, client, w.past.kept-w.now)
		case w.past.spent&(1<<client) != 0:
			return fmt.Errorf("%w: client %d", errLateGrant, client)
		}
		for _, q := range w.past.line {
			if q.client == client {
				break
			}
			if s.live(w, q) && !slices.ContainsFunc(fresh, func(h stake) bool { return s.owner(h.token) == q.client }) {
				return fmt.Errorf("%w: client %d has passed client %d", errOrder, client, q.client)
			}
		}
		grants = append(grants, grant{client, fenceOf(records, h.token)})
	}
	slices.SortFunc(grants, func(a, b grant) int { return s.place(w, a.client) - s.place(w, b.client) })
	for _, g := range grants {
		if g.fence <= w.past.fence {
			return fmt.Errorf("%w: client %d has %d, after %d", errFence, g.client, g.fence, w.past.fence)
		}
		w.past.fence = g.fence
	}
	return nil
}

// place is how far in front in the line the client is; who is in none comes
// last.
func (s *scenario) place(w *world, client int) int {
	if i := slices.IndexFunc(w.past.line, func(q queued) bool { return q.client == client }); i >= 0 {
		return i
	}
	return len(s.profiles)
}

func fenceOf(records dumpEntry, token string) int64 {
	for i := 0; i+1 < len(records.fields); i += 2 {
		if records.fields[i] == token {
			_, text, _ := strings.Cut(records.fields[i+1], `"fence":`)
			fence, _ := strconv.ParseInt(strings.TrimRight(text, "}"), 10, 64)
			return fence
		}
	}
	return 0
}
