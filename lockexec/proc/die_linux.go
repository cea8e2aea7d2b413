package proc

import (
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

	// A zeroed struct sigaction is SIG_DFL without flags on every
	// architecture; 152 bytes is more than the largest, 8 bytes is the size
	// of the kernel's signal set (16 on MIPS).
	var action [152]byte
	setSize := uintptr(8)
	if runtime.GOARCH == "mips" || runtime.GOARCH == "mipsle" || runtime.GOARCH == "mips64" || runtime.GOARCH == "mips64le" {
		setSize = 16
	}
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, setSize, 0, 0)

	var only unix.Sigset_t
	bits := uint(unsafe.Sizeof(only.Val[0])) * 8
	only.Val[uint(sig-1)/bits] |= 1 << (uint(sig-1) % bits)
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &only, nil)
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig)
}
