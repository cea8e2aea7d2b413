// Package faultproxy is a proxy in front of a Redis server that does to connections what networks do, for tests.
//
// The proxy stands for the network: a client dials [Proxy.Addr] instead of the server, and a test switches faults on
// and off while both sides run.
//
//	p := faultproxy.New(t, srv.Addr())
//	p.DropReply(faultproxy.Command("SET"), faultproxy.ThenCut) // the SET is done, the client never learns
//
// There are two kinds of fault. States concern whole connections: [Proxy.Pass], [Proxy.BlackHole], [Proxy.Refuse]; and
// [Proxy.Cut], which is an event. Rules concern single requests: [Proxy.DropReply], [Proxy.DelayRequests],
// [Proxy.HoldRequests] and so on; they add up, apply to present and new connections, and stay until Pass.
//
// Rules see each request as the command the client sent, such as {"SET", "key", "value"}, whichever way its bytes were
// split or pipelined. A connection that does not speak in arrays of the Redis protocol (TLS, inline commands) is
// forwarded unread: it has no commands, and only the states and DelayReplies affect it.
package faultproxy

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	patience      = 30 * time.Second // bounds waits for what must happen
	retryInterval = 5 * time.Millisecond
)

// Match chooses requests by their command and arguments, as sent. It is called from the connections' goroutines and
// must not keep or change cmd. A nil Match chooses every request.
type Match func(cmd []string) bool

// Command matches requests by the name of the command, in any case.
func Command(names ...string) Match {
	return func(cmd []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, cmd[0]) })
	}
}

// state is what the proxy does to connections as a whole.
type state int

const (
	passing state = iota
	blackHole
	refusing
)

// Proxy forwards connections to a server, with faults. Its methods are safe for concurrent use and may be called from
// a Match or an OnRequest hook.
type Proxy struct {
	t             testing.TB
	network, addr string // of the server
	listenAddr    string

	goroutines sync.WaitGroup // connections and their listeners; Add under mu, and not when closed

	switching sync.Mutex // held while the state is being changed

	mu       sync.Mutex
	state    state
	changed  chan struct{} // closed and replaced when state changes
	closed   bool
	listener *listener // nil while refusing
	links    map[*link]struct{}
	rules    []*rule
	latency  *rule // nil without DelayReplies
	hook     func(cmd []string)
	accepted int
	commands [][]string
}

// New starts a proxy in front of target, "127.0.0.1:port" or the path of a unix socket. It passes everything until told
// otherwise, and ends with the test: connections are cut, held requests are dropped, all goroutines are waited for.
// The target need not listen yet; a connection for which it cannot be reached is cut.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{
		t:       t,
		network: "tcp",
		addr:    target,
		changed: make(chan struct{}),
		links:   map[*link]struct{}{},
	}
	if strings.ContainsAny(target, `/\`) {
		p.network = "unix"
	}
	l, err := listenAnywhere()
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	p.listenAddr = l.Addr().String()
	p.serve(l)
	t.Cleanup(p.close)
	return p
}

// Addr returns the address to dial, "127.0.0.1:port". It does not change.
func (p *Proxy) Addr() string { return p.listenAddr }

// URL returns "redis://127.0.0.1:port", without credentials.
func (p *Proxy) URL() string { return "redis://" + p.listenAddr }

// Accepted returns how many connections clients have made.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Commands returns the requests that have reached the proxy, in the order in which it read them, also those it holds,
// delays or keeps in a black hole. The caller must not change the commands.
func (p *Proxy) Commands() [][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.commands)
}

// Forget drops what Commands would return, which else grows for as long as the proxy is used.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commands = nil
}

// OnRequest has hook called for every request after it is read and before any fault applies to it; the request waits
// for hook to return. The hook replaces an earlier one, nil takes it away. It is called from the connections'
// goroutines, must not keep or change cmd, and must return before the test can end.
func (p *Proxy) OnRequest(hook func(cmd []string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Cut() // first, for it lets a BlackHole that waits for writes return
	p.switching.Lock()
	p.stopListening()
	p.switching.Unlock()
	p.goroutines.Wait()
}

// listener is a listening socket and the end of the goroutine that accepts from it.
type listener struct {
	net.Listener
	done chan struct{}
}

// serve accepts connections from l. It closes l at once when the proxy is closed.
func (p *Proxy) serve(l net.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.Close()
		return
	}
	ln := &listener{Listener: l, done: make(chan struct{})}
	p.listener = ln
	p.goroutines.Go(func() {
		defer close(ln.done)
		for {
			client, err := ln.Accept()
			switch {
			case err == nil:
				p.accept(client)
			case errors.Is(err, net.ErrClosed):
				return
			default: // out of descriptors, or the client is gone already
				time.Sleep(retryInterval)
			}
		}
	})
}

// accept takes in a client, or cuts it off if nobody will be there to serve it.
func (p *Proxy) accept(client net.Conn) {
	l := newLink(p, client)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.state == refusing {
		l.cut()
		return
	}
	p.accepted++
	p.links[l] = struct{}{}
	p.goroutines.Go(func() {
		l.run()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
}

// stopListening returns when new dials are refused and no further connection will be accepted.
func (p *Proxy) stopListening() {
	p.mu.Lock()
	ln := p.listener
	p.listener = nil
	p.mu.Unlock()
	if ln != nil {
		ln.Close()
		<-ln.done
	}
}

// listenAgain makes the proxy reachable at its address after stopListening.
func (p *Proxy) listenAgain() {
	p.mu.Lock()
	listening := p.listener != nil || p.closed
	p.mu.Unlock()
	if listening {
		return
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(retryInterval) {
		l, err := listen(p.listenAddr)
		if err == nil {
			p.serve(l)
			return
		}
		if time.Now().After(deadline) {
			p.t.Errorf("proxy cannot listen again: %v", err)
			return
		}
	}
}

// listenAnywhere listens on a loopback port below those that kernels give to outgoing connections, so that nobody takes
// it while the proxy refuses connections.
func listenAnywhere() (net.Listener, error) {
	const first, last = 22000, 31999
	var errs error
	for range 1000 {
		var random [2]byte
		_, _ = rand.Read(random[:])
		port := first + int(binary.NativeEndian.Uint16(random[:]))%(last-first+1)
		l, err := listen(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return l, nil
		}
		errs = err
	}
	return nil, errs
}

func listen(addr string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
}
