//go:build unix

package proc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Terminal is the controlling terminal of this process. It is safe for
// concurrent use.
type Terminal struct{ file *os.File }

// OpenTerminal returns the controlling terminal of this process, or false when
// it has none.
func OpenTerminal() (*Terminal, bool) {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, false
	}
	return &Terminal{os.NewFile(uintptr(fd), "/dev/tty")}, true
}

// Close closes the terminal.
func (t *Terminal) Close() { _ = t.file.Close() }

// Foreground returns the process group that the keyboard belongs to, or 0 when
// that can't be told.
func (t *Terminal) Foreground() int {
	pgrp, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return pgrp
}

// SetForeground gives the keyboard to a process group of this session. Unlike
// the system call, it does so from the background too, as shells do.
func (t *Terminal) SetForeground(pgrp int) error {
	var err error
	withoutTTOU(func() { err = unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, pgrp) })
	if err != nil {
		return fmt.Errorf("give the terminal to process group %d: %w", pgrp, err)
	}
	return nil
}

// TerminalSettings are the modes of a terminal: echo, line editing and so on.
type TerminalSettings struct{ termios *unix.Termios }

// Settings returns the present settings, or nil when they can't be read.
func (t *Terminal) Settings() *TerminalSettings {
	termios, err := unix.IoctlGetTermios(int(t.file.Fd()), getTermios)
	if err != nil {
		return nil
	}
	return &TerminalSettings{termios}
}

// Restore sets the settings; nil does nothing. It does not wait for what was
// written to be shown: another writer may be blocked.
func (t *Terminal) Restore(s *TerminalSettings) {
	if s != nil {
		withoutTTOU(func() { _ = unix.IoctlSetTermios(int(t.file.Fd()), setTermios, s.termios) })
	}
}
