//go:build unix

package guard

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// The wrapper as a job of the user's shell: what the command does on the
// terminal, the wrapper does too, as the shell looks at the wrapper alone.

// groupPause is how long the others of a job may take to be continued.
const groupPause = 200 * time.Millisecond

// commandStopped stops the wrapper as the command was stopped, with the lease
// kept by the supervisor. When it returns, the wrapper was continued.
func (w *wrapper) commandStopped(sig syscall.Signal) {
	if w.mode == handoff && (sig == unix.SIGTTIN || sig == unix.SIGTTOU) && w.foreground() {
		// The shell has brought the job to the foreground, which it does not
		// tell a job that was running.
		w.resume()
		return
	}
	if !w.mode.mirrored(sig) {
		return
	}
	if w.mode == shared && proc.IsContinued(w.command) {
		return // the terminal stopped all of the job, and the shell continued it
	}
	w.takeTerminalBack(false)
	for len(w.continued) > 0 {
		<-w.continued
	}
	proc.StopSelf(sig)
	// Continued, or not stopped at all, as there is no shell that could have
	// continued it: then the command goes on as well.
	select {
	case <-w.continued:
	case <-time.After(groupPause):
	}
	w.wasContinued()
}

// wasContinued continues the command when the wrapper was. In a shared group
// the shell continues both.
func (w *wrapper) wasContinued() {
	if w.mode == shared {
		w.resumeAt = lock.Now().Add(groupPause)
		return
	}
	w.resume()
}

// resume gives the terminal to the command, if it is the wrapper's to give,
// and lets it be continued: that is up to the supervisor, which asks for the
// lease first.
func (w *wrapper) resume() {
	if w.command == 0 || w.exited {
		return
	}
	if w.mode == handoff && w.foreground() {
		_ = w.terminal.SetForeground(w.command) // the command's group has its number
	}
	w.link.send(message{Kind: signalMessage, Signal: unix.SIGCONT})
}

// takeTerminalBack takes the terminal from the command, if it has it. One that
// was killed may have left it without echo, or worse; and if it was a shell, it
// may have given it to a group that is dead as well.
func (w *wrapper) takeTerminalBack(restore bool) {
	if w.terminal == nil || w.command == 0 {
		return
	}
	holder := w.terminal.Foreground()
	orphaned := restore && w.modes != nil && holder > 0 && errors.Is(unix.Kill(-holder, 0), unix.ESRCH)
	if orphaned || w.mode == handoff && holder == w.command {
		_ = w.terminal.SetForeground(proc.Group())
	}
	if restore && w.command != 0 && w.foreground() {
		w.terminal.Restore(w.modes)
	}
}
