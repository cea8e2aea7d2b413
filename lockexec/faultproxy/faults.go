package faultproxy

import (
	"slices"
	"sync"
	"time"
)

// Action is what becomes of a connection whose reply was dropped.
type Action int

const (
	// ThenCut closes the connection with a reset, to both sides.
	ThenCut Action = iota
	// ThenHang leaves the connection open, but nothing of it reaches the client any more, not even its end. Requests
	// still reach the server. Pass does not bring the connection back to life.
	ThenHang
)

// effect is what a rule does to a request.
type effect int

const (
	dropReply effect = iota
	wait             // for the rule's time or, if that is 0, until the rule is lifted
)

// rule is a fault of single requests.
type rule struct {
	match  Match
	effect effect
	then   Action        // for dropReply
	once   bool          // lifted by its first use
	time   time.Duration // for wait
	lifted chan struct{} // closed by lift
	lift   func()
}

func newRule(r rule) *rule {
	r.lifted = make(chan struct{})
	r.lift = sync.OnceFunc(func() { close(r.lifted) })
	return &r
}

// Pass ends every fault: the proxy listens, black holes open, rules are gone, and requests that were held or delayed
// go on at once. Bytes that waited are delivered late and in order, as TCP does when a network recovers, also those of
// clients that have hung up in the meantime; Cut before Pass to lose them. The OnRequest hook stays.
func (p *Proxy) Pass() {
	p.mu.Lock()
	for _, r := range append(p.rules, p.latency) {
		if r != nil {
			r.lift()
		}
	}
	p.rules, p.latency = nil, nil
	p.mu.Unlock()

	p.switching.Lock()
	defer p.switching.Unlock()
	p.set(passing)
	p.listenAgain()
}

// BlackHole lets nothing through in either direction, for present and new connections, as when a cable is unplugged.
// Connections stay open: they hang, and see neither the data nor the end of the other side. New connections are
// accepted, but the server is not dialed before Pass. When BlackHole returns, no further byte gets through; it waits
// for writes that are under way.
func (p *Proxy) BlackHole() {
	p.switching.Lock()
	defer p.switching.Unlock()
	links := p.set(blackHole)
	p.listenAgain()
	for _, l := range links {
		l.finishWrites()
	}
}

// Refuse stops listening, so that new dials are refused, and cuts present connections.
func (p *Proxy) Refuse() {
	p.switching.Lock()
	defer p.switching.Unlock()
	p.set(refusing)
	p.stopListening()
	p.Cut()
}

// Cut closes all connections it has accepted with a reset, to both sides. Requests that had not been forwarded are lost. New
// connections fare as the present faults say: without any, they pass.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// DropReply forwards the next request that matches, swallows the server's reply to it and then acts on the connection:
// the server has done it, the client does not know. Replies to earlier requests on the connection still pass, and so do
// messages of subscriptions. When several such rules match a request, the oldest is used.
func (p *Proxy) DropReply(match Match, then Action) {
	p.add(rule{match: match, effect: dropReply, then: then, once: true})
}

// DropReplies is [Proxy.DropReply] for every request that matches, until Pass.
func (p *Proxy) DropReplies(match Match, then Action) {
	p.add(rule{match: match, effect: dropReply, then: then})
}

// DelayRequests forwards each request that matches d later than it came, and whatever follows on its connection after
// it. The request is sent also when the client has hung up by then.
func (p *Proxy) DelayRequests(match Match, d time.Duration) {
	if d > 0 {
		p.add(rule{match: match, effect: wait, time: d})
	}
}

// DelayReplies has each reply wait for d before it is passed on; those that wait behind it wait for d again. Zero ends
// the delay.
func (p *Proxy) DelayReplies(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.latency != nil {
		p.latency.lift()
		p.latency = nil
	}
	if d > 0 {
		p.latency = newRule(rule{effect: wait, time: d})
	}
}

// HoldRequests keeps the requests that match from the server, and whatever follows on their connections, until release
// is called. They are sent then, also when the client has hung up by then: messages that come late. Commands tells that
// a request has come to be held. Calls of release after the first do nothing; the test's end drops what is held.
func (p *Proxy) HoldRequests(match Match) (release func()) {
	r := p.add(rule{match: match, effect: wait})
	return func() {
		p.remove(r)
		r.lift()
	}
}

func (p *Proxy) add(r rule) *rule {
	added := newRule(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, added)
	return added
}

// remove takes a rule away and reports whether it was there.
func (p *Proxy) remove(r *rule) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.rules, r)
	if i >= 0 {
		p.rules = slices.Delete(p.rules, i, i+1)
	}
	return i >= 0
}

// set changes the state and returns the links that may not have noticed.
func (p *Proxy) set(s state) []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
	close(p.changed)
	p.changed = make(chan struct{})
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	return links
}

// gate returns whether bytes may pass, and a channel that is closed when that may have changed.
func (p *Proxy) gate() (open bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == passing, p.changed
}

// arrive records a request, calls the hook, and returns the rules that make the request wait and the one, if any, that
// drops its reply.
func (p *Proxy) arrive(cmd []string) (waits []*rule, drop *rule) {
	p.mu.Lock()
	p.commands = append(p.commands, cmd)
	hook := p.hook
	p.mu.Unlock()
	if hook != nil {
		hook(cmd)
	}
	p.mu.Lock()
	rules := slices.Clone(p.rules)
	p.mu.Unlock()
	for _, r := range rules {
		switch {
		case r.effect == dropReply && drop != nil:
		case r.match != nil && !r.match(cmd):
		case r.effect == wait:
			waits = append(waits, r)
		case !r.once || p.remove(r):
			drop = r
		}
	}
	return waits, drop
}

func (p *Proxy) replyDelay() *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latency
}
