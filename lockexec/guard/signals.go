//go:build unix

package guard

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// All decisions about signals are in this file.
//
// The wrapper takes all of proc.Forwardable, and TSTP and CONT; it does not
// take those that it was told to ignore, nor what is about itself alone (CHLD,
// PIPE, URG, ...). What it takes it sends to the supervisor, which passes it
// on to the command, or, where there is none yet, gives up. The exceptions
// depend on the mode. The supervisor takes the same signals and does nothing
// about them, as whoever sends one to it sends one to the wrapper as well.
// (proc.RareSignals are taken a moment later, as to take them costs time.)

// mode is how the command shares the terminal with the wrapper. It is chosen
// once, at the start.
type mode int

const (
	// own: there is no terminal. The command has a group of its own, and gets
	// all signals from the wrapper.
	own mode = iota

	// handoff: the wrapper is a shell's job of its own. The command has a
	// group of its own, which has the terminal for as long as the wrapper's
	// would: so the keyboard's signals reach the command alone, and all that
	// reach the wrapper are passed on.
	handoff

	// shared: the wrapper is one part of a job, of a pipeline or a script. The
	// command stays in the group of the job, and gets the keyboard's signals
	// from the terminal like all others there: they are not passed on once
	// more. (A SIGINT that was sent to the wrapper alone can't be told from
	// one of the keyboard.)
	shared
)

// chooseMode looks at the terminal, nil without one, and at how this process
// stands to it. With a signal group the command never shares a group.
func chooseMode(terminal *proc.Terminal, signalGroup bool) mode {
	switch {
	case terminal == nil:
		return own
	case proc.Group() == os.Getpid() && !inPipeline():
		return handoff
	case signalGroup:
		return own
	default:
		return shared
	}
}

// inPipeline reports whether a standard stream is a pipe: then the group has,
// or is about to have, other members. They could be looked for, but a shell
// starts the first part of a pipeline before the others.
func inPipeline() bool {
	for fd := range 3 {
		var stat unix.Stat_t
		if unix.Fstat(fd, &stat) != nil {
			continue
		}
		if kind := stat.Mode & unix.S_IFMT; kind == unix.S_IFIFO || kind == unix.S_IFSOCK {
			return true
		}
	}
	return false
}

// passedOn reports whether the wrapper passes on a signal that it got.
// foreground says that its group has the terminal.
func (m mode) passedOn(sig os.Signal, foreground bool) bool {
	return m != shared || !foreground || !proc.KeyboardSignal(sig)
}

// taken are the signals that the wrapper takes. SIGCONT comes apart, as a
// wrapper that is about to stop itself waits for it.
func taken() []os.Signal {
	list := proc.Forwardable()
	for _, sig := range proc.JobSignals() {
		if sig != os.Signal(unix.SIGCONT) {
			list = append(list, sig)
		}
	}
	return list
}

// mirrored reports whether the wrapper stops when the command was stopped by
// sig: as the command would have, were it alone. In a group of its own without
// the terminal it is stopped for things that it could do in the wrapper's, and
// nobody may be there to see to it.
func (m mode) mirrored(sig syscall.Signal) bool {
	return m != own || sig == unix.SIGTSTP
}

// terminalStops are those that stop a supervisor for using the terminal, to
// which it says what it has to say from the background. One that the command
// must ignore, too, is not among them: nothing needs to be done about it.
func terminalStops() []os.Signal {
	var list []os.Signal
	for _, sig := range []syscall.Signal{unix.SIGTTIN, unix.SIGTTOU} {
		if !proc.Ignored(sig) {
			list = append(list, sig)
		}
	}
	return list
}
