//go:build unix && !linux

package proc

import (
	"os/signal"

	"golang.org/x/sys/unix"
)

const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)

// withoutTTOU runs f while TTOU, by which the terminal would stop a process in
// the background that changes it, is ignored. It stays so: no child is started
// once a terminal has been given away.
func withoutTTOU(f func()) {
	signal.Ignore(unix.SIGTTOU)
	f()
}
