package proc

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// errBusyText has no like on Windows.
var errBusyText = errors.New("text file busy")

// Process is a command that was started. It is safe for concurrent use.
type Process struct {
	process *os.Process
	job     windows.Handle // 0 where there is none
	status  Status         // written before exited is closed
	exited  chan struct{}
	gone    chan struct{}
}

// thread: here a child's life does not hang on one.
type thread struct{}

func newThread() thread { return thread{} }

func (thread) end() {}

// Pid returns the child's process ID.
func (p *Process) Pid() int { return p.process.Pid }

// Exited returns a channel that is closed when the child has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Gone returns a channel that is closed when the child and all it started have
// ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Stops returns a channel that never tells anything: there is no job control.
func (p *Process) Stops() <-chan syscall.Signal { return nil }

// Status returns how the child ended. It is valid once Exited is closed.
func (p *Process) Status() Status { return p.status }

// Signal sends Ctrl-Break to the child and its console group for every signal
// but KILL: a child in a group of its own gets no Ctrl-C.
func (p *Process) Signal(sig syscall.Signal) error {
	select {
	case <-p.exited:
		return nil
	default:
	}
	if sig != syscall.SIGKILL {
		return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.process.Pid)) //nolint:gosec // a process ID
	}
	if err := p.process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// SignalGroup is Signal: the console knows groups only.
func (p *Process) SignalGroup(sig syscall.Signal) error { return p.Signal(sig) }

// Stop asks the child to end by Ctrl-Break. Source: the Windows console API.
func (p *Process) Stop(sig syscall.Signal) error { return p.Signal(sig) }

// StopLeftovers asks what is left of the child's console group to end.
func (p *Process) StopLeftovers(syscall.Signal) {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.process.Pid)) //nolint:gosec // a process ID
}

// Adopt does nothing: a process is put into a job when it is started.
func (p *Process) Adopt() {}

// Kill ends the child and all that it started, and returns when they are gone.
func (p *Process) Kill() {
	for {
		_ = p.Signal(syscall.SIGKILL)
		for _, pid := range p.members() {
			if handle, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, pid); err == nil {
				_ = windows.TerminateProcess(handle, 1)
				_ = windows.CloseHandle(handle)
			}
		}
		select {
		case <-p.gone:
			return
		case <-time.After(jobPause):
		}
	}
}

// jobPause is the time between two looks at the processes of the job.
const jobPause = 20 * time.Millisecond

// ownJob returns the job that this process and all it starts belong to, and
// whose members the system ends when this process does, however it does.
// Source: JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE in the Windows API.
var ownJob = sync.OnceValue(func() windows.Handle {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		return 0
	}
	if windows.AssignProcessToJobObject(job, windows.CurrentProcess()) != nil {
		return 0
	}
	return job
})

// LetLeftoversLive keeps the system from ending, with this process, what the
// child left running.
func (p *Process) LetLeftoversLive() {
	if p.job != 0 {
		var none windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
		_, _ = windows.SetInformationJobObject(p.job, windows.JobObjectExtendedLimitInformation,
			uintptr(unsafe.Pointer(&none)), uint32(unsafe.Sizeof(none)))
	}
}

// members lists the processes of the job, but for this one.
func (p *Process) members() []uint32 {
	if p.job == 0 {
		return nil
	}
	var list struct {
		assigned, listed uint32
		pids             [1024]uintptr
	}
	err := windows.QueryInformationJobObject(p.job, windows.JobObjectBasicProcessIdList,
		uintptr(unsafe.Pointer(&list)), uint32(unsafe.Sizeof(list)), nil)
	if err != nil && !errors.Is(err, windows.ERROR_MORE_DATA) {
		return nil
	}
	var pids []uint32
	for _, pid := range list.pids[:min(int(list.listed), len(list.pids))] {
		if pid := uint32(pid); pid != windows.GetCurrentProcessId() { //nolint:gosec // a process ID
			pids = append(pids, pid)
		}
	}
	return pids
}

func start(c Command) (*Process, error) {
	p := &Process{exited: make(chan struct{}), gone: make(chan struct{})}
	if c.Adopt { // the job is of this process, with all its children
		p.job = ownJob()
	}
	before := p.members()
	process, err := os.StartProcess(c.Path, c.Args, &os.ProcAttr{
		Env:   c.Env,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP},
	})
	if err != nil {
		return nil, startError(c.Path, err)
	}
	p.process = process
	go func() {
		state, err := process.Wait()
		p.status = Status{Code: 1}
		if err == nil {
			p.status.Code = state.ExitCode()
		}
		close(p.exited)
		for slices.ContainsFunc(p.members(), func(pid uint32) bool { return !slices.Contains(before, pid) }) {
			time.Sleep(jobPause)
		}
		close(p.gone)
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

func forwardable() []os.Signal {
	var list []os.Signal
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if !signal.Ignored(sig) {
			list = append(list, sig)
		}
	}
	return list
}

// keyboardSignal: a child in a group of its own gets none from the console.
func keyboardSignal(os.Signal) bool { return false }

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

// What has no like on Windows.

func dieOf(syscall.Signal)        {}
func dieWithoutTraces() func()    { return func() {} }
func stopSelf(syscall.Signal)     {}
func ignored(syscall.Signal) bool { return false }
func jobSignals() []os.Signal     { return nil }
func rareSignals() []os.Signal    { return nil }
func deadlySignal(os.Signal) bool { return true }
func group() int                  { return 0 }
func dropInherited()              {}
func setName(string)              {}
func neglectAlone([]os.Signal)    {}
func killOrphanedGroup(int)       {}
func isStopped(int) bool          { return false }
func isContinued(int) bool        { return false }

// Terminal is not needed on Windows: the console has no foreground group.
type Terminal struct{}

// OpenTerminal reports false.
func OpenTerminal() (*Terminal, bool) { return nil, false }

// Close does nothing.
func (*Terminal) Close() {}

// Foreground returns 0.
func (*Terminal) Foreground() int { return 0 }
