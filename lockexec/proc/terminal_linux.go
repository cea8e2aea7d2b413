package proc

import (
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)

// withoutTTOU runs f on a thread that blocks TTOU, by which the terminal would
// stop a process in the background that changes it.
func withoutTTOU(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	blocked := sigset(unix.SIGTTOU)
	var before unix.Sigset_t
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, &before)
	f()
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
}
