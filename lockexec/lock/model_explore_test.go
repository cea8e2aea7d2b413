package lock

import (
	"fmt"
	"strings"
)

// modelStep is something that may happen next.
type modelStep[W any] struct {
	name string
	to   W
	err  error // the guarantee that it breaks
}

// model is what there is to explore.
type model[W any] struct {
	first    W
	steps    func(W) []modelStep[W]
	identity func(W) [16]byte
	describe func(W) string

	// calm looks at how a state would go on without faults.
	calm func(W) ([]string, W, error)
}

// finding is a guarantee that was broken, and how.
type finding struct {
	err   error
	trace []string
	last  string
}

func (f *finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n", f.err)
	for i, name := range f.trace {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, name)
	}
	return b.String() + f.last
}

// exploration is what a look at a model came to.
type exploration struct {
	states, steps int
	depth         int  // of which every history was looked at
	whole         bool // there was nothing more to look at
	found         *finding
}

// node is a state that was seen, and how it was come to.
type node struct {
	from int
	name string
}

// explore looks at all that can happen, the shorter histories first, until it
// has seen so many states, and stops at the first guarantee that is broken.
func explore[W any](m model[W], most int) exploration {
	type place struct {
		w    W
		node int
	}
	seen := map[[16]byte]struct{}{m.identity(m.first): {}}
	nodes := []node{{from: -1}}
	var e exploration
	fail := func(err error, at int, last W, rest ...string) exploration {
		for ; at > 0; at = nodes[at].from {
			rest = append([]string{nodes[at].name}, rest...)
		}
		e.states, e.found = len(nodes), &finding{err, rest, m.describe(last)}
		return e
	}
	for level := []place{{m.first, 0}}; len(level) > 0; e.depth++ {
		var next []place
		for _, p := range level {
			for _, one := range m.steps(p.w) {
				e.steps++
				if one.err != nil {
					return fail(one.err, p.node, one.to, one.name)
				}
				id := m.identity(one.to)
				if _, known := seen[id]; known {
					continue
				}
				seen[id] = struct{}{}
				nodes = append(nodes, node{p.node, one.name})
				next = append(next, place{one.to, len(nodes) - 1})
				if m.calm != nil {
					if names, last, err := m.calm(one.to); err != nil {
						return fail(err, len(nodes)-1, last, names...)
					}
				}
				if len(nodes) >= most {
					e.states = len(nodes)
					return e
				}
			}
		}
		level = next
	}
	e.states, e.whole = len(nodes), true
	return e
}
