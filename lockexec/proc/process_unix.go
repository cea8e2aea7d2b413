//go:build unix

package proc

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a command that was started. It is safe for concurrent use.
type Process struct {
	pid      int
	ownGroup bool
	adopt    bool
	spare    func(pid int) bool

	// mu is held while a child is reaped and while one is signalled, so that
	// a signal never reaches a stranger that got the pid anew.
	mu     sync.Mutex
	reaped bool
	status Status

	exited chan struct{} // closed when the child itself was reaped
	gone   chan struct{} // closed when its whole tree has ended
}

// Pid returns the child's process ID.
func (p *Process) Pid() int { return p.pid }

// Exited returns a channel that is closed when the child itself has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Gone returns a channel that is closed when the child and all it started have
// ended, as far as that can be seen: all of it where Command.Adopt is set on
// Linux, else the child's process group.
func (p *Process) Gone() <-chan struct{} { return p.gone }

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

// killPause is the time between two walks of a tree that is being killed.
const killPause = 2 * time.Millisecond

// Kill kills the child and all that it started, and returns when they are
// gone. It walks the tree again until nothing is left, as a process may fork
// while it is being killed.
func (p *Process) Kill() {
	for {
		p.killTree()
		select {
		case <-p.gone:
			return
		case <-time.After(killPause):
		}
	}
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

func start(c Command) (*Process, error) {
	p := &Process{
		ownGroup: !c.Terminal,
		adopt:    c.Adopt && adoptOrphans(),
		spare:    c.Spare,
		exited:   make(chan struct{}),
		gone:     make(chan struct{}),
	}
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGCHLD)

	// The kernel sends the parent-death signal when the *thread* that forked
	// ends, so the thread lives as long as the tree does.
	forked := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		err := p.fork(c)
		forked <- err
		if err == nil {
			<-p.gone
		}
	}()
	if err := <-forked; err != nil {
		signal.Stop(changes)
		return nil, err
	}
	go p.reap(changes)
	return p, nil
}

// busyTries is how often an exec is tried again while some process has the
// file open for writing: one that forked while it wrote it, most of the time.
// Source: golang.org/issue/22315.
const busyTries = 5

func (p *Process) fork(c Command) error {
	attr := &syscall.ProcAttr{
		Env:   c.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   sysProcAttr(p.ownGroup),
	}
	path, args := c.Path, c.Args
	for try := 0; ; try++ {
		pid, err := syscall.ForkExec(path, args, attr)
		switch {
		case err == nil:
			p.pid = pid
			return nil
		case errors.Is(err, syscall.ETXTBSY) && try < busyTries:
			time.Sleep(10 * time.Millisecond << try)
		case errors.Is(err, syscall.ENOEXEC) && path == c.Path:
			// No #! line: a script for sh, as every shell takes it.
			path, args = "/bin/sh", append([]string{"sh", c.Path}, c.Args[1:]...)
		case errors.Is(err, syscall.ENOENT):
			// The file is there, or its search had failed: what is not there
			// is the interpreter of its #! line, or its dynamic loader.
			return &StartError{
				Command: c.Path, Kind: ErrNotExecutable,
				Err: errors.New("its interpreter (the #! line, or the dynamic loader) does not exist"),
			}
		default:
			return startError(c.Path, err)
		}
	}
}

// reap waits for the child, and for orphans where they are adopted, until the
// tree is gone.
func (p *Process) reap(changes chan os.Signal) {
	defer close(p.gone)
	defer signal.Stop(changes)
	for !p.reapOnce() {
		// Leftovers that are not ours to wait for send no signal when they
		// end: their group is looked at.
		var look <-chan time.Time
		if p.reaped && !p.adopt { // only this goroutine writes reaped
			look = time.After(groupPause)
		}
		select {
		case <-changes:
		case <-look:
		}
	}
}

const groupPause = 20 * time.Millisecond

// reapOnce takes in what has ended and reports whether the tree is gone.
func (p *Process) reapOnce() bool {
	target := p.pid
	if p.adopt {
		target = -1
	}
	for {
		p.mu.Lock()
		var state unix.WaitStatus
		pid, err := 0, error(unix.ECHILD)
		if p.adopt || !p.reaped {
			pid, err = unix.Wait4(target, &state, unix.WNOHANG, nil)
		}
		if pid == p.pid {
			p.reaped = true
			p.status = statusOf(state)
			close(p.exited)
		}
		p.mu.Unlock()
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // ECHILD: there is no child any more
			return p.adopt || !p.groupAlive()
		case pid == 0:
			return p.reaped && p.adopt && !p.leftovers()
		}
	}
}

// groupAlive reports whether the child's group still has members. No new
// group can have the number while it does.
func (p *Process) groupAlive() bool {
	return p.ownGroup && unix.Kill(-p.pid, 0) == nil
}

func statusOf(state unix.WaitStatus) Status {
	if state.Signaled() {
		return Status{Signal: state.Signal()}
	}
	return Status{Code: state.ExitStatus()}
}
