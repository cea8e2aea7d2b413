package lock

import (
	"crypto/sha256"
	"slices"
	"strconv"
)

// identity is the same for two worlds that have the same future: all times are
// relative to now in it, and those that no longer matter are as one.
func (s *scenario) identity(w *world) [16]byte {
	b := encoder{now: w.now}
	b.fences(w.server, w.now)
	b.known = append(b.known, w.past.fence)
	for i := range w.clients {
		b.replyFences(w.clients[i].held)
	}
	slices.Sort(b.known)
	b.known = slices.Compact(b.known)
	for _, e := range w.server.entries {
		if e.present(w.now) {
			b.entry(e)
		}
	}
	for i := range w.clients {
		b.client(&w.clients[i])
	}
	floats := make([]string, len(w.floats))
	for i, m := range w.floats {
		one := encoder{now: w.now}
		one.message(m)
		floats[i] = string(one.bytes)
	}
	slices.Sort(floats)
	for _, f := range floats {
		b.text(f)
	}
	b.numbers(int64(w.faults), int64(w.nudges), int64(w.past.spent), flags(w.revoked, w.foreign, w.waived, w.forgot, w.past.done))
	b.time(max(w.past.kept, w.now))
	b.text(b.rank(w.past.fence))
	for _, q := range w.past.line {
		b.numbers(int64(q.client), flags(q.watches))
		b.time(q.heard)
	}
	sum := sha256.Sum256(b.bytes)
	return [16]byte(sum[:16])
}

func flags(set ...bool) int64 {
	n := int64(0)
	for i, one := range set {
		n |= int64(flag(one)) << i
	}
	return n
}

type encoder struct {
	now   int64
	known []int64 // the fences, in order
	bytes []byte
}

func (b *encoder) text(s string) { b.bytes = append(append(b.bytes, s...), 0) }

func (b *encoder) numbers(all ...int64) {
	for _, n := range all {
		b.bytes = append(strconv.AppendInt(b.bytes, n, 10), ' ')
	}
}

// forgotten is the longest time ago that makes a difference, and remote the
// longest time to come that does, ms.
const (
	forgotten = silentWaiter + 2
	remote    = 200_000
)

func (b *encoder) time(at int64) {
	if at == 0 {
		b.text("-")
		return
	}
	b.numbers(min(max(at-b.now, -forgotten), remote))
}

// rank is where a fence stands among all: more does not matter of one that was
// given, but for the counter where that is ahead of the clock.
func (b *encoder) rank(fence int64) string {
	i, _ := slices.BinarySearch(b.known, fence)
	return "f" + strconv.Itoa(i)
}

// fences notes those that a server has.
func (b *encoder) fences(d *dump, now int64) {
	for _, e := range d.entries {
		if e.present(now) {
			b.replyFences(anys(e.fields))
		}
	}
}

func anys(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}

// replyFences notes those in replies.
func (b *encoder) replyFences(reply any) {
	switch v := reply.(type) {
	case string:
		eachNumber(v, func(digits string) string {
			if n, _ := strconv.ParseInt(digits, 10, 64); len(digits) == 16 {
				b.known = append(b.known, n)
			}
			return ""
		})
	case []any:
		for _, one := range v {
			b.replyFences(one)
		}
	}
}

// eachNumber returns text with all numbers in it, that are times or fences,
// replaced.
func eachNumber(text string, replace func(digits string) string) string {
	var out []byte
	for i := 0; i < len(text); {
		end := i
		for end < len(text) && text[end] >= '0' && text[end] <= '9' {
			end++
		}
		switch n := end - i; {
		case n == 13 || n == 16:
			out = append(out, replace(text[i:end])...)
		case n > 0:
			out = append(out, text[i:end]...)
		default:
			end = i + 1
			out = append(out, text[i])
		}
		i = end
	}
	return string(out)
}

func (b *encoder) relative(text string) string {
	return eachNumber(text, func(digits string) string {
		n, _ := strconv.ParseInt(digits, 10, 64)
		if len(digits) == 16 {
			return b.rank(n)
		}
		return strconv.FormatInt(max(n-b.now, -forgotten), 10)
	})
}

func (b *encoder) entry(e dumpEntry) {
	b.text(e.key)
	b.time(e.ends)
	switch {
	case e.key == beside("queue", modelName): // the order alone matters
		for i := 0; i < len(e.fields); i += 2 {
			b.text(e.fields[i])
		}
	case e.key == beside("holders", modelName): // since when is for people
		for i := 0; i < len(e.fields); i += 2 {
			b.text(e.fields[i])
			fence := fenceOf(e, e.fields[i])
			b.text(b.rank(fence))
		}
	case e.key == beside("fence", modelName):
		n, _ := strconv.ParseInt(e.fields[0], 10, 64)
		b.text(b.rank(n))
		b.numbers(max(n-b.now*1000, -1))
	case e.key == modelName && e.kind == "zset":
		for i := 0; i < len(e.fields); i += 2 {
			n, _ := strconv.ParseInt(e.fields[i+1], 10, 64)
			b.text(e.fields[i])
			b.time(max(n, b.now))
		}
	default:
		for _, f := range e.fields {
			b.text(b.relative(f))
		}
	}
}

func (b *encoder) message(m message) {
	b.text(m.op)
	b.numbers(int64(m.from), m.keep, flags(m.success, m.unsettled))
	b.time(m.sent)
}

func (b *encoder) client(c *modelClient) {
	b.numbers(int64(c.phase))
	if c.phase == idle || c.phase == over || c.phase == dead {
		return
	}
	b.numbers(int64(c.tries), c.keep, flags(c.awaits, c.unsettled, c.inLine, c.lost, c.success, c.held != nil))
	if c.awaits {
		b.message(c.message)
		b.time(c.until)
	}
	if c.acts() {
		b.time(c.next)
	}
	switch c.phase {
	case waiting:
		b.time(c.asked)
	case checking, running:
		b.time(c.sent)
		b.time(c.taken)
	case ending:
		b.time(c.last)
	default:
	}
	b.reply(c.held)
}

func (b *encoder) reply(reply any) {
	switch v := reply.(type) {
	case int64:
		b.numbers(v)
	case string:
		b.text(b.relative(v))
	case []any:
		for _, one := range v {
			b.reply(one)
		}
	case nil:
		b.text("-")
	}
}
