//go:build unix

package guard

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/embedded"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// How a run ends, as the wrapper sees it: well, or with a supervisor that died,
// that let the lease run out, or that does not answer.

// finish is the end that all hope for. The supervisor has nothing left to do;
// it is waited for, so that nothing is left of it, but not for long, as it may
// be stopped.
func (w *wrapper) finish() (proc.Status, error) {
	select {
	case <-w.supervisor.Exited():
	case <-time.After(time.Second):
		_ = w.supervisor.Signal(unix.SIGKILL)
		<-w.supervisor.Exited()
	}
	return w.outcome.result()
}

// supervisorDied ends what the supervisor has left, and reports it.
func (w *wrapper) supervisorDied(ctx context.Context, cause error) (proc.Status, error) {
	if !errors.Is(cause, io.EOF) {
		_ = w.supervisor.Signal(unix.SIGKILL)
	}
	<-w.supervisor.Exited()
	if w.gone && w.command != 0 { // its last duty was the release
		_ = w.release(ctx)
		return w.outcome.result()
	}
	err := w.end(ctx)
	return proc.Status{}, &SupervisorError{Status: w.supervisor.Status(), Released: err}
}

// overran kills a command whose lease is about to end, together with the
// supervisor that did not: it must have been stopped.
func (w *wrapper) overran(ctx context.Context) (proc.Status, error) {
	w.outcome = newOutcome(proc.Status{}, &lock.LostError{
		Name: w.opts.Run.Name, Reason: lock.LossExpired,
		Cause: errors.New("the process that watches over the command was stopped, or had no time to run"),
	})
	_ = w.end(ctx)
	return w.outcome.result()
}

// giveUp ends without a supervisor that does not answer: it must be stopped.
func (w *wrapper) giveUp(ctx context.Context) (proc.Status, error) {
	if w.gone && w.opts.Run.Leftovers == lockexec.LeaveLeftovers {
		_ = w.supervisor.Signal(unix.SIGKILL)
		<-w.supervisor.Exited()
		_ = w.release(ctx)
	} else {
		_ = w.end(ctx)
	}
	switch {
	case w.outcome != nil:
		return w.outcome.result()
	case w.command != 0:
		return proc.Status{}, &SupervisorError{Silent: true}
	default:
		return proc.Status{}, &lockexec.InterruptedError{Signal: w.interrupted}
	}
}

// end kills the supervisor and the tree of the command, and releases the lock.
func (w *wrapper) end(ctx context.Context) error {
	if w.cgroup != "" {
		defer proc.RemoveCgroup(w.cgroup, embedded.IsServer)
		proc.KillCgroup(w.cgroup, embedded.IsServer)
	}
	w.supervisor.Kill()
	if w.command != 0 && !w.gone && w.mode != shared {
		proc.KillOrphanedGroup(w.command)
	}
	err := w.release(ctx)
	w.takeTerminalBack(true)
	return err
}

// releaseBudget is how long a lock is tried to be released in the place of a
// supervisor that is dead.
const releaseBudget = 5 * time.Second

// release releases the lock in the place of the supervisor, whether that had
// taken it or not.
func (w *wrapper) release(ctx context.Context) error {
	locker, connections, err := w.opts.Target.Open()
	if err != nil {
		return err
	}
	defer connections.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseBudget)
	defer cancel()
	return locker.ReleaseToken(ctx, w.opts.Run.Name, w.token, w.opts.Run.TTL, w.opts.Run.History, w.ending())
}

// ending is how the run ended, for the history.
func (w *wrapper) ending() lock.End {
	if w.outcome != nil {
		return lockexec.EndOf(w.outcome.result())
	}
	return lock.End{How: lock.Killed, Reason: "the process that watches over the command died, or did not answer"}
}
