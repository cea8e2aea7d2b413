//go:build unix

package guard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// link is one end of the socket between wrapper and supervisor. Its end of
// file tells that the other process has died: the kernel closes what that had
// open, however it died.
//
// Sending never waits: the other process may be stopped. Receiving does not
// wait either, so that whoever was stopped itself can read all that came
// meanwhile before it judges by the clock.
type link struct {
	socket *os.File
	raw    syscall.RawConn
	ready  chan struct{} // something has come, or the end
	rearm  chan struct{}
	rest   []byte // the beginning of a line
	ended  bool

	mu      sync.Mutex
	closed  bool
	queue   []message
	line    []byte          // the message that is being sent, as far as it is not
	full    bool            // the socket, so that write has to wait
	wake    chan struct{}   // full was set, or closed
	flushed []chan struct{} // closed once the queue is empty, made by flush
}

// newSockets returns a socket for the wrapper's link and one for the
// supervisor, which goes on to whatever is started next.
func newSockets() (ours, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("make a socket pair: %w", err)
	}
	unix.CloseOnExec(fds[0])
	return fds[0], fds[1], nil
}

// newLink takes over a socket.
func newLink(fd int) (*link, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("descriptor %d is no socket: %w", fd, err)
	}
	socket := os.NewFile(uintptr(fd), "link")
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &link{
		socket: socket,
		raw:    raw,
		ready:  make(chan struct{}, 1),
		rearm:  make(chan struct{}, 1),
		wake:   make(chan struct{}, 1),
	}
	go l.await()
	go l.write()
	return l, nil
}

// close ends the link, and with it the goroutines that serve it.
func (l *link) close() {
	_ = l.socket.Close()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	select {
	case l.rearm <- struct{}{}:
	default:
	}
}

// await tells when there is something to receive.
func (l *link) await() {
	for {
		err := l.raw.Read(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) //nolint:gosec // a descriptor
			return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
		})
		select {
		case l.ready <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
		<-l.rearm
	}
}

// receive returns all messages that have come, and io.EOF after the last ones
// of a process that has died. Each receive from l.ready must be followed by
// one; others may come at any time.
func (l *link) receive() ([]message, error) {
	defer func() {
		select {
		case l.rearm <- struct{}{}:
		default:
		}
	}()
	buffer := make([]byte, 4096)
	for !l.ended {
		var n int
		var err error
		// Not raw.Read, which would wait for the one in await.
		if closed := l.raw.Control(func(fd uintptr) { n, err = unix.Read(int(fd), buffer) }); closed != nil {
			l.ended = true
			break
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		l.ended = n <= 0 // an error, like a reset, is an end as well
		l.rest = append(l.rest, buffer[:max(n, 0)]...)
	}
	var list []message
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			break
		}
		l.rest = rest
		m, err := decode(line)
		if err != nil {
			return list, err
		}
		list = append(list, m)
	}
	if l.ended {
		return list, io.EOF
	}
	return list, nil
}

// send puts a message on its way: at once, as far as the socket takes it. Of
// the leases that wait to be sent, as to a stopped process, only the last is
// worth it.
func (l *link) send(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := len(l.queue) - 1; last >= 0 && m.Kind == leaseMessage && l.queue[last].Kind == leaseMessage {
		l.queue[last] = m
	} else {
		l.queue = append(l.queue, m)
	}
	if !l.full {
		l.sendQueue()
	}
}

// sendQueue sends what the socket takes; for the rest, write waits until it
// takes more. The caller holds l.mu.
func (l *link) sendQueue() {
	for !l.closed {
		if len(l.line) == 0 {
			if len(l.queue) == 0 {
				break
			}
			l.line = encode(l.queue[0])
			l.queue = l.queue[1:]
			continue
		}
		var n int
		var err error
		if closed := l.raw.Control(func(fd uintptr) { n, err = unix.Write(int(fd), l.line) }); closed != nil {
			break
		}
		switch {
		case err == nil:
			l.line = l.line[n:]
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			l.full = true
			select {
			case l.wake <- struct{}{}:
			default:
			}
			return
		default: // whoever has gone is noticed by receive
			l.line = nil
		}
	}
	for _, flushed := range l.flushed {
		close(flushed)
	}
	l.flushed = nil
}

// write sends the queue whenever the socket was full and takes more, until it
// is closed.
func (l *link) write() {
	for range l.wake {
		err := l.raw.Write(func(uintptr) bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.full = false
			l.sendQueue()
			return !l.full
		})
		if err != nil { // closed
			return
		}
	}
}

// flush waits until all is sent, for that long.
func (l *link) flush(patience time.Duration) {
	l.mu.Lock()
	if !l.full {
		l.mu.Unlock()
		return
	}
	flushed := make(chan struct{})
	l.flushed = append(l.flushed, flushed)
	l.mu.Unlock()
	select {
	case <-flushed:
	case <-time.After(patience):
	}
}
