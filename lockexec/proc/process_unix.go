//go:build unix

package proc

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a command that was started. It is safe for concurrent use.
type Process struct {
	pid      int
	ownGroup bool
	adopt    atomic.Bool
	spare    func(pid int) bool
	cgroup   string    // of the tree, or ""
	terminal *Terminal // that the child's group has or had the foreground of
	mayStop  bool      // by a terminal

	// mu is held while a child is reaped and while one is signalled, so that
	// a signal never reaches a stranger that got the pid anew.
	mu     sync.Mutex
	reaped bool

	groupGone bool // nothing of the child's group was seen to run after its end
	member    int  // of the group, that ran at the last look

	status Status

	unwatch   sync.Once
	unwatched chan struct{} // closed when nobody wants to know of leftovers

	exited chan struct{}       // closed when the child itself was reaped
	gone   chan struct{}       // closed when its whole tree has ended
	stops  chan syscall.Signal // what stopped the child, or CONT
}

// Pid returns the child's process ID.
func (p *Process) Pid() int { return p.pid }

// Exited returns a channel that is closed when the child itself has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Gone returns a channel that is closed when the child and all it started have
// ended, as far as that can be seen: all of it where Command.Adopt is set on
// Linux, else the child's process group. Zombies have ended, whether or not
// their parent ever waits for them.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Stops returns a channel that tells of each stop of the child by the signal
// that stopped it, and of each time that it was continued by SIGCONT. If
// nobody listens for long, the latest of them are missing.
func (p *Process) Stops() <-chan syscall.Signal { return p.stops }

// Status returns how the child ended. It is valid once Exited is closed.
func (p *Process) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Signal sends sig to the child. A child that has ended is not an error.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	return ignoreGone(syscall.Kill(p.pid, sig))
}

// SignalGroup sends sig to the child's own group; without one, to the child.
// Without Command.Adopt it does so also when the child itself has ended.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	if !p.ownGroup {
		return p.Signal(sig)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.groupAlive() {
		return nil
	}
	return ignoreGone(syscall.Kill(-p.pid, sig))
}

// Stop asks the child to end: sig, and CONT, as a stopped process would not
// see it. A child that has ended is not an error.
func (p *Process) Stop(sig syscall.Signal) error {
	return errors.Join(p.Signal(sig), p.Signal(syscall.SIGCONT))
}

// StopLeftovers sends sig, and CONT, to all that the child started and that
// still runs.
func (p *Process) StopLeftovers(sig syscall.Signal) {
	p.signalTree(sig)
	p.signalTree(syscall.SIGCONT)
}

// LetLeftoversLive ends the watch over what a child that has ended left
// running: Gone tells nothing any more. The cgroup of a tree is left to its
// leftovers, if there are any.
func (p *Process) LetLeftoversLive() {
	p.unwatch.Do(func() { close(p.unwatched) })
	dropCgroup(p.cgroup)
}

// Adopt does what Command.Adopt does, later. No other child of this process may
// be waited for any more.
func (p *Process) Adopt() { p.adopt.Store(adoptOrphans()) }

// The time between two walks of a tree that is being killed: longer each time,
// as one that is still there after many of them belongs to another user.
const (
	firstKillPause = 2 * time.Millisecond
	lastKillPause  = 100 * time.Millisecond
)

// Kill kills the child and all that it started, and returns when they are
// gone. It walks the tree again until nothing is left, as a process may fork
// while it is being killed.
func (p *Process) Kill() {
	killCgroup(p.cgroup, p.spare)
	for pause := firstKillPause; ; pause = min(pause*5/4, lastKillPause) {
		p.killTree()
		select {
		case <-p.gone:
			return
		case <-time.After(pause):
		}
	}
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// reap waits for the child, and for orphans where they are adopted, until the
// tree is gone.
//
// To ask for SIGCHLD, and to take it, costs a short run more than all else
// here. Where the child's own end is told otherwise, the signal is asked for a
// moment later, or when the child has left something; but at once for a child
// that may be stopped for using a terminal.
func (p *Process) reap() {
	changes := make(chan os.Signal, 1)
	defer signal.Stop(changes)
	ended, later := p.awaitEnd(), time.After(listenPause)
	listening := false
	for !p.reapOnce() {
		if !listening && (ended == nil || later == nil || p.mayStop) {
			listening = true
			signal.Notify(changes, syscall.SIGCHLD)
			continue // what came before sends no signal
		}
		// Leftovers that are not ours to wait for send no signal when they
		// end: their group is looked at.
		var look <-chan time.Time
		if p.reaped && !p.adopt.Load() { // only this goroutine writes reaped
			look = time.After(groupPause)
		}
		select {
		case <-ended:
			ended = nil
		case <-later:
			later = nil
		case <-changes:
		case <-look:
		case <-p.unwatched:
			return
		}
	}
	removeCgroup(p.cgroup, p.spare, 10)
	close(p.gone)
}

const (
	listenPause = 250 * time.Millisecond
	groupPause  = 20 * time.Millisecond
)

// reapOnce takes in what has ended and reports whether the tree is gone.
func (p *Process) reapOnce() bool {
	adopt, target := p.adopt.Load(), p.pid
	if adopt {
		target = -1
	}
	for {
		p.mu.Lock()
		var state unix.WaitStatus
		pid, err := 0, error(unix.ECHILD)
		if adopt || !p.reaped {
			pid, err = unix.Wait4(target, &state, unix.WNOHANG|unix.WUNTRACED|unix.WCONTINUED, nil)
		}
		switch {
		case pid != p.pid:
		case state.Stopped():
			p.stopped(state.StopSignal())
		case state.Continued():
			p.stopped(unix.SIGCONT)
		default:
			p.reaped = true
			p.status = statusOf(state)
			close(p.exited)
		}
		p.mu.Unlock()
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // ECHILD: there is no child any more
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.reaped { // but there was
				p.reaped = true
				p.status = Status{Unknown: true}
				close(p.exited)
			}
			return adopt || !p.groupRuns()
		case pid == 0:
			return p.reaped && adopt && !p.leftovers()
		}
	}
}

// stopped tells that the child was stopped by sig, or continued. One that was
// stopped for using the terminal before it had been given to it is continued
// without further ado.
func (p *Process) stopped(sig syscall.Signal) {
	if p.terminal != nil && (sig == unix.SIGTTIN || sig == unix.SIGTTOU) && p.terminal.Foreground() == p.pid {
		_ = unix.Kill(-p.pid, unix.SIGCONT)
		return
	}
	select {
	case p.stops <- sig:
	default:
	}
}

// groupAlive reports whether the child's group still has members. No new
// group can have the number while it does; once it has none after the child's
// end, the number is another's. The caller holds p.mu.
//
// Where orphans are adopted nobody needs the group once the child is reaped,
// and nobody looks at it often enough to notice that the number is free.
func (p *Process) groupAlive() bool {
	if !p.ownGroup || p.groupGone || p.reaped && p.adopt.Load() {
		return false
	}
	alive := !errors.Is(unix.Kill(-p.pid, 0), unix.ESRCH)
	p.groupGone = p.reaped && !alive
	return alive
}

// groupRuns reports whether the child's group has members that are not just
// zombies: those stay for as long as their parent likes, for ever with one that
// never waits. The caller holds p.mu; the child has been reaped.
func (p *Process) groupRuns() bool {
	if !p.groupAlive() {
		return false
	}
	p.member = runningMember(p.pid, p.member)
	p.groupGone = p.member == 0
	return !p.groupGone
}

func statusOf(state unix.WaitStatus) Status {
	if state.Signaled() {
		return Status{Signal: state.Signal()}
	}
	return Status{Code: state.ExitStatus()}
}
