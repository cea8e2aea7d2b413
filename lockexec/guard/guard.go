// Package guard runs a command under a lock by two processes that watch over
// each other: the wrapper, which is the process that the user started, and the
// supervisor, its child, which holds the lock and starts the command.
//
//	user ── W wrapper ──socketpair── S supervisor ── C command ── ...
//	        signals, terminal,       lease, tree of
//	        exit                     the command
//
// Whichever of the two is killed, the other ends the command with all that it
// started, and releases the lock. A stopped supervisor is not waited for: the
// wrapper knows how long the lease is safe, too. What each does about whose
// death is told in docs/supervision.md.
//
// # What may be touched here
//
// wrapper*.go is what W does and supervisor*.go what S does, as two loops that
// read from top to bottom. What they say to each other is in protocol.go.
// Which signal goes where is decided in signals.go and nowhere else. How to
// hold a lease and when to kill is the business of package lockexec, how to
// kill that of package proc.
package guard

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/connect"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// Options say what to run under which lock, and where that is kept.
type Options struct {
	Target connect.Target

	// Run is what lockexec.Run gets, but for what the guard itself decides:
	// Token, PID, Signals, Group, Terminal, Unignored, Adopt, Cgroup,
	// Spare and Observe are left empty. Env is that of this process, and Log is for what
	// the wrapper has to say.
	Run lockexec.Options

	// Voice makes the supervisor's voice: see [Role].
	Voice VoiceSettings
}

// VoiceSettings say how the supervisor is to speak, in words of the program's
// own.
type VoiceSettings struct {
	Format   string
	Level    slog.Level
	Progress string
}

// Voice is how the supervisor speaks to the user. Log is required.
type Voice struct {
	Log       *slog.Logger
	OnWait    func(lock.Waiting) // see lock.Request
	WaitEnded func()             // after the last OnWait, if there was any
}

// VoiceMaker makes the voice of the supervisor, which is a process of its own,
// as [Options] asked for it.
type VoiceMaker func(VoiceSettings) Voice

// SupervisorError is a supervisor that died, or that could not be started. The
// command is dead with it, if it was started at all.
type SupervisorError struct {
	Silent   bool        // it did not answer, and was killed
	Status   proc.Status // how it ended, unless it was silent
	Err      error       // why it could not be started; nil if it was
	Released error       // why the lock was not released; nil if it was
}

func (e *SupervisorError) Error() string {
	if e.Err != nil {
		return "can't start the process that watches over the command: " + e.Err.Error()
	}
	end := e.Status.String()
	if e.Silent {
		end = "did not answer"
	}
	text := "the process that watches over the command " + end + "; the command was killed"
	if e.Released != nil {
		text += ", but the lock could not be released and expires by itself: " + e.Released.Error()
	}
	return text
}

// Guard is a wrapper with its supervisor.
type Guard struct {
	guard
	watch stopwatch
}

// Times are how long the parts of a run took.
type Times struct {
	Waited  time.Duration // for the lock, or until that was given up
	Ran     time.Duration // the command, with all that it left running and was waited for
	Started bool          // it was
}

// stopwatch notes when the parts of a run began; 0 is not yet.
type stopwatch struct{ asked, acquired, started, ended lock.Instant }

func note(at *lock.Instant) {
	if *at == 0 {
		*at = lock.Now()
	}
}

func (w stopwatch) times() Times {
	note(&w.acquired)
	note(&w.ended)
	t := Times{Started: w.started != 0}
	if w.asked != 0 {
		t.Waited = w.acquired.Until(w.asked)
	}
	if t.Started {
		t.Ran = w.ended.Until(w.started)
	}
	return t
}

// Launch starts a supervisor, which waits to be told what to do by Run: it
// comes up while this process reads its configuration. A failure is told by
// Run.
func Launch() *Guard { return &Guard{guard: launch()} }

// Run takes the lock, runs the command, and releases the lock, as lockexec.Run
// does and with its errors, and with [*SupervisorError]. It can be called
// once. It takes over the signals, the terminal, the children and the standard
// input and output of this process, which must have no other use for them: it
// is to end when Run returns.
func (g *Guard) Run(ctx context.Context, opts Options) (proc.Status, error) {
	return g.run(ctx, opts, &g.watch)
}

// Times returns how long the parts of the run took. It is to be called when Run
// has returned.
func (g *Guard) Times() Times { return g.watch.times() }

// Close ends a supervisor that was launched and never used. It does nothing
// after Run.
func (g *Guard) Close() { g.close() }

// roleSupervise is the first argument of a supervisor.
const roleSupervise = "__supervise"

// Role returns what this process is to do when args (all of os.Args) say that
// it is a supervisor, and false in all other cases. A program must call it
// before it does anything else, and end with the number that it returns.
func Role(args []string, newVoice VoiceMaker) (run func() int, ok bool) {
	if len(args) < 2 || args[1] != roleSupervise {
		return nil, false
	}
	return func() int {
		if err := supervise(args[2:], newVoice); err != nil {
			fmt.Fprintln(os.Stderr, "redlockrun: "+err.Error())
			return 1
		}
		return 0
	}, true
}
