package faultproxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is one client's connection, and the one to the server made for it. Two goroutines carry bytes, one in each
// direction. A link ends when it is cut or when the server closes its side. A client that hangs up only ends the stream
// of requests, so that what it has sent is still delivered.
type link struct {
	p      *Proxy
	client net.Conn

	ended context.Context // done when both connections are closed
	end   context.CancelFunc

	toServer, toClient sync.Mutex // held from the look at the gate to the end of the write

	raw atomic.Bool // the bytes are not understood

	mu     sync.Mutex
	server net.Conn // nil until dialed
	ledger ledger   // what the server owes
}

func newLink(p *Proxy, client net.Conn) *link {
	l := &link{p: p, client: client}
	l.ended, l.end = context.WithCancel(context.Background())
	return l
}

// cut closes both connections with a reset. It does nothing when they are closed.
func (l *link) cut() { l.close(true) }

func (l *link) close(reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended.Err() != nil {
		return
	}
	l.end()
	for _, c := range []net.Conn{l.client, l.server} {
		if c == nil {
			continue
		}
		if tcp, ok := c.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0)
		}
		c.Close()
	}
}

// finishWrites returns when the writes that had found the gate open are done.
func (l *link) finishWrites() {
	for _, writing := range []*sync.Mutex{&l.toServer, &l.toClient} {
		writing.Lock()
		writing.Unlock() //nolint:staticcheck // the wait is all there is to do
	}
}

// run carries bytes until the link has ended.
func (l *link) run() {
	defer l.cut()
	if err := l.through(&l.toServer, l.dial); err != nil {
		return
	}
	var requests sync.WaitGroup
	requests.Go(l.requests)
	l.replies()
	requests.Wait()
}

func (l *link) dial() error {
	dialer := net.Dialer{Timeout: patience}
	server, err := dialer.DialContext(l.ended, l.p.network, l.p.addr)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ended.Err(); err != nil {
		server.Close()
		return err
	}
	l.server = server
	return nil
}

// through calls step as soon as the gate is open, and keeps it from being shut meanwhile. It returns step's error, or
// that of a link which ended before.
func (l *link) through(writing *sync.Mutex, step func() error) error {
	for {
		writing.Lock()
		open, changed := l.p.gate()
		if open {
			defer writing.Unlock()
			return step()
		}
		writing.Unlock()
		select {
		case <-changed:
		case <-l.ended.Done():
			return l.ended.Err()
		}
	}
}

// wait waits as a rule says, and fails when the link ends before.
func (l *link) wait(r *rule) error {
	var elapsed <-chan time.Time
	if r.time > 0 {
		timer := time.NewTimer(r.time)
		defer timer.Stop()
		elapsed = timer.C
	}
	select {
	case <-elapsed:
	case <-r.lifted:
	case <-l.ended.Done():
	}
	return l.ended.Err()
}

// requests carries what the client sends, and then that it hung up. It does not care whether the server takes it: how
// the server's end shows is up to replies.
func (l *link) requests() {
	var in stream
	for in.fill(l.client) == nil {
		for !l.raw.Load() {
			cmd, n, err := parseCommand(in.buf)
			if err != nil {
				l.raw.Store(true)
			}
			if n == 0 {
				break
			}
			l.request(cmd, in.take(n))
			if l.ended.Err() != nil {
				return
			}
		}
		if l.raw.Load() {
			_ = l.through(&l.toServer, in.flushTo(l.server))
		}
	}
	_ = l.through(&l.toServer, func() error {
		if c, ok := l.server.(interface{ CloseWrite() error }); ok {
			return c.CloseWrite()
		}
		return nil
	})
}

// request forwards one request when the faults let it, unless the link ends before.
func (l *link) request(cmd []string, b []byte) {
	waits, drop := l.p.arrive(cmd)
	for _, r := range waits {
		if l.wait(r) != nil {
			return
		}
	}
	_ = l.through(&l.toServer, func() error {
		l.mu.Lock()
		l.ledger.sent(cmd, drop)
		l.mu.Unlock()
		_, err := l.server.Write(b)
		return err
	})
}

// replies carries what the server sends, and then ends the link as the server did. A client that has hung up does not
// stop it: the server could lose requests it has not read yet if its replies met a closed connection.
func (l *link) replies() {
	var out stream
	for {
		err := out.fill(l.server)
		for !l.raw.Load() {
			n, err := replyLen(out.buf)
			if err != nil {
				l.raw.Store(true)
			}
			if n == 0 {
				break
			}
			if hung := l.reply(out.take(n)); hung {
				_, _ = io.Copy(io.Discard, l.server)
				return
			}
		}
		if l.raw.Load() {
			l.delayReply()
			_ = l.through(&l.toClient, out.flushTo(l.client))
		}
		if err != nil {
			_ = l.through(&l.toClient, func() error {
				l.close(!errors.Is(err, io.EOF))
				return nil
			})
			return
		}
	}
}

// reply passes one reply on or drops it, and reports whether nothing may follow it although the link goes on.
func (l *link) reply(b []byte) (hung bool) {
	l.mu.Lock()
	drop := l.ledger.received(b)
	l.mu.Unlock()
	if drop != nil {
		if drop.then == ThenHang {
			return true
		}
		_ = l.through(&l.toClient, func() error {
			l.cut()
			return nil
		})
		return false
	}
	l.delayReply()
	_ = l.through(&l.toClient, func() error {
		_, err := l.client.Write(b)
		return err
	})
	return false
}

func (l *link) delayReply() {
	if r := l.p.replyDelay(); r != nil {
		_ = l.wait(r)
	}
}
