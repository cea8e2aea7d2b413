//go:build unix

package proc

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

var errNoTree = errors.New("can't watch over what it starts: /proc is not mounted, or is that of another PID namespace " +
	"(with unshare, use --mount-proc)")

func start(c Command) (*Process, error) {
	p := &Process{
		ownGroup: c.Group == 0,
		spare:    c.Spare,
		mayStop:  c.Terminal != nil || len(c.Unignored) > 0,
		exited:   make(chan struct{}),
		gone:     make(chan struct{}),
		stops:    make(chan syscall.Signal, 16),

		unwatched: make(chan struct{}),
	}
	if c.Adopt {
		if !canSeeTree() {
			return nil, &StartError{Command: c.Path, Err: errNoTree}
		}
		p.Adopt()
	}
	if err := p.forkOnThread(c); err != nil {
		return nil, err
	}
	go p.reap()
	return p, nil
}

// thread is a goroutine that is locked to its thread, and does what is asked.
type thread struct{ work chan func() }

func newThread() thread {
	t := thread{make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for do := range t.work {
			do()
		}
	}()
	return t
}

func (t thread) fork(p *Process, c Command) error {
	forked := make(chan error)
	t.work <- func() { forked <- p.forkAsTold(c) }
	return <-forked
}

func (t thread) end() { close(t.work) }

// forkOnThread forks on a thread that lives as long as the tree does. What
// survives needs none: a thread costs as much as the fork.
func (p *Process) forkOnThread(c Command) error {
	switch {
	case c.Survives:
		return p.forkAsTold(c)
	case c.Thread != nil:
		return c.Thread.fork(p, c)
	}
	t := newThread()
	if err := t.fork(p, c); err != nil {
		t.end()
		return err
	}
	go func() {
		select {
		case <-p.gone:
		case <-p.unwatched:
		}
		t.end()
	}()
	return nil
}

// forkAsTold forks with signals and terminal as they are to be for the child.
func (p *Process) forkAsTold(c Command) error {
	if len(c.Unignored) > 0 {
		// An exec resets a signal with a handler, and keeps an ignored one.
		handled := make(chan os.Signal, 1)
		signal.Notify(handled, c.Unignored...)
		defer signal.Stop(handled)
		defer signal.Ignore(c.Unignored...)
	}
	if err := p.fork(c); err != nil {
		return err
	}
	if c.Terminal != nil && p.ownGroup {
		// The child may be ahead of this and have been stopped for what it
		// did to a terminal that was not yet its own: see reapOnce.
		_ = c.Terminal.SetForeground(p.pid)
		p.terminal = c.Terminal
	}
	return nil
}

// busyTries is how often an exec is tried again while some process has the
// file open for writing: one that forked while it wrote it, most of the time.
// Source: golang.org/issue/22315.
const busyTries = 5

func (p *Process) fork(c Command) error {
	attr := &syscall.ProcAttr{
		Env:   c.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   sysProcAttr(c),
	}
	p.joinCgroup(c.Cgroup, attr.Sys)
	defer closeCgroup(attr.Sys)
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
		case p.leaveCgroup(attr.Sys):
			// It may be for the cgroup that it failed: once more without.
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
