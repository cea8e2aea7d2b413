//go:build unix && !linux

package proc

import (
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
