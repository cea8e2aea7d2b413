package proc

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

// errBusyText has no like on Windows.
var errBusyText = errors.New("text file busy")

// Process is a command that was started. It is safe for concurrent use.
type Process struct {
	process *os.Process
	mu      sync.Mutex
	status  Status
	exited  chan struct{}
}

// Pid returns the child's process ID.
func (p *Process) Pid() int { return p.process.Pid }

// Exited returns a channel that is closed when the child has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Gone returns a channel that is closed when the child has ended: what it
// started is not followed on Windows.
func (p *Process) Gone() <-chan struct{} { return p.exited }

// Status returns how the child ended. It is valid once Exited is closed.
func (p *Process) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Signal does nothing but for KILL: the console sends its own events to the
// child, and Windows has no other signals.
func (p *Process) Signal(sig syscall.Signal) error {
	if sig != syscall.SIGKILL {
		return nil
	}
	if err := p.process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Stop ends the child, as Windows has no signal that asks it to.
func (p *Process) Stop(syscall.Signal) error { return p.Signal(syscall.SIGKILL) }

// StopLeftovers does nothing: what the child started is not followed.
func (p *Process) StopLeftovers(syscall.Signal) {}

// Kill ends the child and returns when it is gone.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL)
	<-p.exited
}

func start(c Command) (*Process, error) {
	process, err := os.StartProcess(c.Path, c.Args, &os.ProcAttr{
		Env:   c.Env,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return nil, startError(c.Path, err)
	}
	p := &Process{process: process, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		state, err := process.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.status = Status{Code: 1}
		if err == nil {
			p.status.Code = state.ExitCode()
		}
	}()
	return p, nil
}

func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return "", &StartError{Command: name, Kind: ErrNotFound, Err: errors.New("command not found in PATH")}
	default:
		return "", &StartError{Command: name, Kind: ErrNotExecutable, Err: err}
	}
}

// onTerminal: the console sends its events to every process attached to it.
func onTerminal() bool { return true }

func forwardable() []os.Signal {
	var list []os.Signal
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if !signal.Ignored(sig) {
			list = append(list, sig)
		}
	}
	return list
}

func keyboardSignal(sig os.Signal) bool { return sig == os.Interrupt }

func stopSignal(os.Signal) bool { return true }

func signalNumber(name string) syscall.Signal {
	switch strings.TrimPrefix(name, "SIG") {
	case "TERM", "15":
		return syscall.SIGTERM
	case "INT", "2":
		return syscall.SIGINT
	case "KILL", "9":
		return syscall.SIGKILL
	default:
		return 0
	}
}

func signalName(sig syscall.Signal) string { return sig.String() }

func dieOf(syscall.Signal) {}
