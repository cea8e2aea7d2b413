//go:build unix && !linux

package proc

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func dieOf(sig syscall.Signal) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // the child's core is the one of interest
	signal.Reset(sig)
	_ = unix.Kill(unix.Getpid(), sig)
	// The signal may reach another thread first, a moment later.
	time.Sleep(100 * time.Millisecond)
}

// dieWithoutTraces is for Linux only.
func dieWithoutTraces() (undo func()) { return func() {} }

// stopSelf uses STOP, as a handler of another signal can't be put aside here.
// Where nobody could continue this process, it is not stopped.
func stopSelf(syscall.Signal) {
	if parent, err := unix.Getsid(unix.Getppid()); err == nil && parent == mustSession() {
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
		time.Sleep(100 * time.Millisecond) // as above
	}
}

func mustSession() int {
	session, err := unix.Getsid(0)
	if err != nil {
		return -1
	}
	return session
}

func ignored(sig syscall.Signal) bool { return signal.Ignored(sig) }

// neglectAlone has a handler do nothing; an exec takes it away.
func neglectAlone(signals []os.Signal) {
	if len(signals) > 0 { // none would be all
		signal.Notify(make(chan os.Signal, 1), signals...)
	}
}

// setName: only Linux has a name apart from the file's.
func setName(string) {}

func dupOnto(from, to int) error { return unix.Dup2(from, to) }
