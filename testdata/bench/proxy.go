package main

import (
	"bufio"
	"context"
	"net"
	"strings"
	"sync"
	"time"
)

// proxy stands before Redis and notes when what was said.
type proxy struct {
	listener net.Listener
	server   string
	wait     sync.WaitGroup

	mu          sync.Mutex
	connections int
	trips       int
	connected   time.Time   // the first connection
	requests    []time.Time // one for each piece that a client sent
}

func newProxy(server string) (*proxy, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, server: server}
	p.wait.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.wait.Go(func() { p.serve(client) })
		}
	})
	return p, nil
}

func (p *proxy) url() string { return "redis://" + p.listener.Addr().String() }

func (p *proxy) close() {
	_ = p.listener.Close()
	p.wait.Wait()
}

// serve counts a trip whenever the client speaks after the server has.
func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.server)
	if err != nil {
		return
	}
	p.mu.Lock()
	if p.connections++; p.connections == 1 {
		p.connected = time.Now()
	}
	p.mu.Unlock()
	asks := false
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		pass(client, server, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			asks = false
		})
	}()
	pass(server, client, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !asks {
			p.trips++
		}
		asks = true
		p.requests = append(p.requests, time.Now())
	})
	_ = server.Close()
	<-answers
}

func pass(to, from net.Conn, note func()) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		note()
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// monitor counts the commands that a server runs.
type monitor struct {
	conn net.Conn
	done chan struct{}

	mu              sync.Mutex
	sent, inScripts int
}

func newMonitor(addr string) (*monitor, error) {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(conn)
	if _, err := lines.ReadString('\n'); err != nil { // it has begun
		return nil, err
	}
	m := &monitor{conn: conn, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			// +1339518083.107412 [0 127.0.0.1:60866] "get" "x": or [0 lua]
			source, _, _ := strings.Cut(line, "]")
			m.mu.Lock()
			if strings.HasSuffix(source, " lua") {
				m.inScripts++
			} else {
				m.sent++
			}
			m.mu.Unlock()
		}
	}()
	return m, nil
}

// stop returns what was sent by clients, and what their scripts did.
func (m *monitor) stop() (sent, inScripts int) {
	time.Sleep(100 * time.Millisecond) // the last line is on its way
	_ = m.conn.Close()
	<-m.done
	return m.sent, m.inScripts
}
