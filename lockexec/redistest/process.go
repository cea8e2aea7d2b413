package redistest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// terminationGrace is how long a server may take to end by itself before it is killed.
const terminationGrace = 5 * time.Second

var errNotRunning = errors.New("redis-server is not running")

// process is one run of redis-server.
type process struct {
	os     *os.Process
	exited chan struct{} // closed when the process has been waited for
	err    error         // result of the wait; valid when exited is closed
}

// startProcess runs redis-server with the given arguments, and variables beside this process's own. The process ends with this one where the platform can
// see to that. There the order counts from the thread that started the process, not from this process, so one
// goroutine keeps that thread for as long as the server runs.
func startProcess(binary string, args, env []string, dir string, log *os.File) (*process, error) {
	cmd := exec.CommandContext(context.Background(), binary, args...)
	cmd.Env = append(cmd.Environ(), env...)
	cmd.Dir = dir
	cmd.Stdout = log
	cmd.Stderr = log
	endWithParent(cmd)

	p := &process{exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		p.os = cmd.Process
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// end asks the process to end, kills it after grace, and returns when it is gone. A stopped process is resumed so that
// it can hear. With no grace it is killed at once.
func (p *process) end(grace time.Duration) {
	if grace > 0 && p.os.Signal(syscall.SIGTERM) == nil {
		_ = resume(p.os)
		select {
		case <-p.exited:
		case <-time.After(grace):
		}
	}
	_ = p.os.Kill()
	<-p.exited
}

func (s *Server) process() *process {
	s.procMu.Lock()
	defer s.procMu.Unlock()
	return s.proc
}

// Pid returns the process ID of the running server, or of the last one if it has ended.
func (s *Server) Pid() int { return s.process().os.Pid }

// Signal sends a signal to the server. It fails when the server has ended.
func (s *Server) Signal(sig os.Signal) error {
	err := s.process().os.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return errNotRunning
	}
	return err
}

// Stop freezes the server with SIGSTOP: its connections stay open, the kernel accepts new ones, and nobody answers. On
// Linux it returns when the server does stand still, elsewhere when the signal is sent.
func (s *Server) Stop() error { return stop(s.process()) }

// Cont lets a stopped server go on (SIGCONT).
func (s *Server) Cont() error { return resume(s.process().os) }

// Kill ends the server with SIGKILL and returns when it is gone. Killing a server that has ended does nothing.
func (s *Server) Kill() { s.process().end(0) }

// Restart starts the server again with the same ports, socket, directory and options, and returns when it answers. A
// server that still runs is first asked to end as by SIGTERM; call Kill before for a crash. What was changed by
// ConfigSet is gone, and so is all data without [WithPersistence].
func (s *Server) Restart() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return errors.New("redis-server is closed")
	}
	s.process().end(terminationGrace)
	return poll(func() (bool, error) {
		err := s.start()
		if errors.Is(err, errPortTaken) {
			return false, nil
		}
		return err == nil, err
	})
}

// poll calls step until it is done or fails, and gives up after a generous time.
func poll(step func() (done bool, err error)) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pollInterval) {
		if done, err := step(); done || err != nil {
			return err
		}
	}
	return errors.New("not within " + patience.String())
}
