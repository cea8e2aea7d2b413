//go:build unix

package guard

import (
	"context"
	"crypto/rand"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// wrapper is the process that the user started: its signals go to the command,
// and what becomes of the command becomes of it. Its loop never waits for the
// supervisor, which may be stopped.
type wrapper struct {
	guard
	*stopwatch
	opts      Options
	token     string
	cgroup    string // of the command; "" where it gets none of its own
	mode      mode
	terminal  *proc.Terminal         // nil without one
	modes     *proc.TerminalSettings // as they were at the start, if we had the terminal
	signals   chan os.Signal
	continued chan os.Signal

	// What the supervisor told.
	safeEnd lock.Instant // of the lease; 0 without one
	command int          // its process ID, 0 before the start
	stopped bool         // the command is, as a job
	killed  bool         // it died of a signal
	exited  bool         // the command is gone
	gone    bool         // and its tree, too
	outcome *outcome     // how the run ended

	takesAll bool // rare signals, too

	// stoppedBy is what stopped the command, until that is mirrored.
	stoppedBy syscall.Signal

	// interrupted is the last signal that asked to stop before the start.
	interrupted syscall.Signal

	// giveUpAt is when the supervisor is no longer waited for, 0 is never;
	// resumeAt when a command is continued that should have been by others.
	giveUpAt, resumeAt lock.Instant
}

// patience is how long the supervisor may take for what it has to do where no
// command runs any more: more than it needs with a server that is gone.
const patience = 10 * time.Second

func (g guard) run(ctx context.Context, opts Options, watch *stopwatch) (proc.Status, error) {
	if g.err != nil {
		return proc.Status{}, &SupervisorError{Err: g.err}
	}
	if opts.Run.TTL == 0 {
		opts.Run.TTL = lock.DefaultTTL
	}
	token, err := lock.NewToken()
	if err != nil {
		return proc.Status{}, err
	}
	w := &wrapper{
		guard:     g,
		stopwatch: watch,
		opts:      opts,
		token:     token,
		signals:   make(chan os.Signal, 64),
		continued: make(chan os.Signal, 1),
	}
	if terminal, ok := proc.OpenTerminal(); ok {
		defer terminal.Close()
		w.terminal = terminal
	}
	w.mode = chooseMode(w.terminal, opts.Run.SignalGroup)
	signal.Notify(w.signals, taken()...)
	w.traces()
	signal.Notify(w.continued, unix.SIGCONT)
	// They stay taken: one that comes when the run is over does not change how
	// it ended.

	// The embedded server is nobody's child: it is started before this process
	// adopts any.
	if err := opts.Target.Start(ctx); err != nil {
		return proc.Status{}, err
	}
	w.supervisor.Adopt()
	proc.DropInherited()
	note(&w.asked)
	w.instruct()
	return w.watch(ctx)
}

// instruct tells the supervisor what to do.
func (w *wrapper) instruct() {
	settings := newSettings(w.opts, w.token)
	settings.PID = os.Getpid()
	if dir := proc.DelegatedCgroup(); dir != "" { // the supervisor was born in it, too
		w.cgroup = filepath.Join(dir, "redlockrun-"+strconv.Itoa(os.Getpid())+"-"+rand.Text())
		settings.Cgroup = w.cgroup
	}
	settings.OneProcessor = w.oneProcessor
	foreground := w.foreground()
	if foreground {
		w.modes = w.terminal.Settings()
	}
	switch w.mode {
	case own:
	case shared:
		settings.Group = proc.Group()
	case handoff:
		settings.Terminal = foreground
	}
	w.link.send(message{Kind: settingsMessage, Settings: settings})
}

// foreground reports whether the terminal belongs to this process's group.
func (w *wrapper) foreground() bool {
	return w.terminal != nil && w.terminal.Foreground() == proc.Group()
}

func (w *wrapper) watch(ctx context.Context) (proc.Status, error) {
	ready := w.link.ready
	for {
		// First all that the supervisor said, then the clock: this process may
		// just have been continued.
		messages, err := w.link.receive()
		for _, m := range messages {
			if w.hear(m); m.Kind == finishedMessage {
				return w.finish()
			}
		}
		if w.stoppedBy != 0 { // and was not continued since
			sig := w.stoppedBy
			w.stoppedBy = 0
			w.commandStopped(sig)
		}
		switch {
		case err != nil: // the supervisor is dead, or talks nonsense
			return w.supervisorDied(ctx, err)
		case len(messages) > 0:
			continue
		}
		now := lock.Now()
		switch {
		case w.resumeAt != 0 && now >= w.resumeAt:
			w.resumeAt = 0
			if w.stopped {
				w.resume()
			}
		case w.giveUpAt != 0 && now >= w.giveUpAt:
			return w.giveUp(ctx)
		case w.overdue(now):
			return w.overran(ctx)
		}
		select {
		case <-ready:
		case sig := <-w.signals:
			w.signal(sig)
		case <-w.continued:
			w.wasContinued()
		case <-ctx.Done():
			ctx = context.WithoutCancel(ctx)
			w.link.send(message{Kind: signalMessage, Signal: unix.SIGTERM})
		case <-time.After(w.untilNextLook(now)):
			if w.command != 0 && !w.takesAll {
				w.takesAll = true
				signal.Notify(w.signals, proc.RareSignals()...)
			}
		}
	}
}

// guarded reports whether a command may run that must end before the lease.
func (w *wrapper) guarded() bool {
	return w.safeEnd != 0 && !w.gone && w.opts.Run.OnLost == lockexec.Terminate
}

// overdue reports whether the command is to be killed from here: the supervisor
// should have killed it, or it is about to be time for that, and the supervisor
// is stopped. On a busy machine it takes a while to kill: who is sure that
// nobody else will do it begins early.
func (w *wrapper) overdue(now lock.Instant) bool {
	margin := lockexec.KillMargin(w.opts.Run.TTL)
	switch left := w.safeEnd.Until(now); {
	case !w.guarded() || left > 2*margin:
		return false
	case left > margin/2:
		return proc.IsStopped(w.supervisor.Pid())
	default:
		return true
	}
}

// overdueNext is when overdue may be true next.
func (w *wrapper) overdueNext(now lock.Instant) lock.Instant {
	margin := lockexec.KillMargin(w.opts.Run.TTL)
	return max(w.safeEnd.Add(-2*margin), min(now.Add(margin/4), w.safeEnd.Add(-margin/2)))
}

// watchPause: see the constant of that name in package lockexec.
const watchPause = 250 * time.Millisecond

func (w *wrapper) untilNextLook(now lock.Instant) time.Duration {
	next := now.Add(watchPause)
	for _, at := range []lock.Instant{w.resumeAt, w.giveUpAt} {
		if at != 0 {
			next = min(next, at)
		}
	}
	if w.guarded() {
		next = min(next, w.overdueNext(now))
	}
	return max(0, next.Until(now))
}

// hear notes what the supervisor said.
func (w *wrapper) hear(m message) {
	switch m.Kind {
	case leaseMessage:
		note(&w.acquired)
		w.safeEnd = max(w.safeEnd, m.SafeEnd)
	case startedMessage:
		note(&w.started)
		w.command = m.PID
		w.giveUpAt = 0
	case stoppedMessage:
		w.stopped, w.stoppedBy = true, m.Signal
	case continuedMessage:
		w.stopped, w.stoppedBy = false, 0
	case heardMessage:
		if w.command != 0 && !w.gone {
			w.giveUpAt = 0
		}
	case exitedMessage:
		w.exited, w.stopped, w.stoppedBy = true, false, 0
		w.killed = m.Status.Signal != 0
		w.takeTerminalBack(w.killed)
	case goneMessage:
		note(&w.ended)
		w.takeTerminalBack(w.killed) // its children may have had it
		w.gone = true
		w.outcome = m.Outcome
		w.giveUpAt = lock.Now().Add(patience)
	case finishedMessage:
		w.gone = true
		if w.outcome == nil {
			w.outcome = m.Outcome
		}
	case settingsMessage, signalMessage: // not from there
	}
}

// signal passes on what this process got.
func (w *wrapper) signal(sig os.Signal) {
	if !w.mode.passedOn(sig, w.foreground()) {
		if w.command != 0 || !proc.StopSignal(sig) {
			return // it has it from the terminal
		}
	}
	number, _ := sig.(syscall.Signal)
	w.link.send(message{Kind: signalMessage, Signal: number})
	if !proc.StopSignal(sig) || w.gone {
		return
	}
	if w.stopped && w.mode == own {
		w.resume() // it was stopped for using a terminal that its group has not
	}
	// This is to end soon, or at least to be heard of. Where nothing runs yet,
	// who asks again insists.
	switch {
	case w.giveUpAt == 0:
		w.giveUpAt = lock.Now().Add(patience)
	case w.command == 0:
		w.giveUpAt = lock.Now()
	}
	w.interrupted = number
}
