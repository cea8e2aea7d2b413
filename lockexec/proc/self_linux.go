package proc

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dieOf works below package os/signal: Reset does not bring back the default
// action of a signal that the runtime itself handles, like QUIT or SEGV.
func dieOf(sig syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // the child's core is the one of interest
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)     // a core_pattern with a pipe ignores the limit

	var action kernelAction // zero is SIG_DFL without flags
	sigaction(sig, &action, nil)
	only := sigset(sig)
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &only, nil)
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig)
}

// dieWithoutTraces: package os/signal does not put back handlers that the
// runtime has had from its start.
func dieWithoutTraces() (undo func()) {
	signals := []syscall.Signal{unix.SIGQUIT, unix.SIGABRT}
	before := make([]kernelAction, len(signals))
	for i, sig := range signals {
		var byDefault kernelAction
		sigaction(sig, &byDefault, &before[i])
	}
	return func() {
		for i, sig := range signals {
			sigaction(sig, &before[i], nil)
		}
	}
}

// stopSelf sends sig to the very thread that it runs on, which is stopped
// before the call returns: a signal to the process may be taken by another
// thread a little later. A handler, which package os/signal does not take back
// for signals of this kind, is put aside meanwhile.
func stopSelf(sig syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var byDefault, before kernelAction
	if !sigaction(sig, nil, &before) || *before.handler() == sigIgn {
		return
	}
	sigaction(sig, &byDefault, nil)
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig)
	sigaction(sig, &before, nil)
}

// ignored asks the kernel about signals that the runtime leaves alone until it
// is asked for them, and the runtime about the others.
func ignored(sig syscall.Signal) bool {
	switch sig {
	case unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT:
		var action kernelAction
		return sigaction(sig, nil, &action) && *action.handler() == sigIgn
	default:
		return signal.Ignored(sig)
	}
}

// neglectAlone works below package os/signal, which takes 20 µs for each signal.
//
// Where the runtime has a handler, this process ignores the signal: a child
// does not, as the runtime puts the default there when it forks. To the others
// it gives that handler, which does nothing for signals that nobody asked for,
// if they are no deadly ones; an exec takes it away. Source: clearSignalHandlers
// and sigfwdgo in runtime/signal_unix.go.
func neglectAlone(signals []os.Signal) {
	var ignore, handle kernelAction
	*ignore.handler() = sigIgn
	sigaction(unix.SIGURG, nil, &handle) // which always has it
	for _, sig := range signals {
		var before kernelAction
		number, ok := sig.(syscall.Signal)
		switch {
		case !ok || !sigaction(number, nil, &before):
		case *before.handler() == sigDfl:
			sigaction(number, &handle, nil)
		default:
			sigaction(number, &ignore, nil)
		}
	}
}

const (
	sigDfl = 0
	sigIgn = 1
)

// kernelAction is the kernel's struct sigaction: 152 bytes is more than the
// largest of any architecture.
type kernelAction [152 / 8]uint64

// handler is the first member, but for MIPS.
func (a *kernelAction) handler() *uintptr {
	words := (*[2]uintptr)(unsafe.Pointer(a))
	if mips {
		return &words[1]
	}
	return &words[0]
}

const mips = runtime.GOARCH == "mips" || runtime.GOARCH == "mipsle" || runtime.GOARCH == "mips64" || runtime.GOARCH == "mips64le"

func sigaction(sig syscall.Signal, action, old *kernelAction) bool {
	setSize := uintptr(8) // of the kernel's signal set
	if mips {
		setSize = 16
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(old)), setSize, 0, 0)
	return errno == 0
}

func sigset(sig syscall.Signal) unix.Sigset_t {
	var only unix.Sigset_t
	bits := uint(unsafe.Sizeof(only.Val[0])) * 8
	only.Val[uint(sig-1)/bits] |= 1 << (uint(sig-1) % bits)
	return only
}

// setName names the first thread, which stands for the process.
func setName(name string) { _ = os.WriteFile("/proc/self/comm", []byte(name), 0) }

func dupOnto(from, to int) error { return unix.Dup3(from, to, 0) }
