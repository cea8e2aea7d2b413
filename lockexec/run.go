package lockexec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// The variables by which a child learns of the lock that it runs under.
const (
	EnvKey   = "REDLOCKRUN_LOCK_KEY"   // the full name of the lock
	EnvToken = "REDLOCKRUN_LOCK_TOKEN" //nolint:gosec // the name of the variable with the holder's token
	EnvFence = "REDLOCKRUN_LOCK_FENCE" // the fencing number
)

// ErrTimeout is returned by [Run] when the command was stopped because
// [Options.Timeout] was over.
var ErrTimeout = errors.New("the command ran for too long and was stopped")

// InterruptedError is returned by [Run] when a signal asked it to stop before
// the command was started. Nothing is left in Redis.
type InterruptedError struct{ Signal syscall.Signal }

func (e *InterruptedError) Error() string {
	return "stopped by " + proc.SignalName(e.Signal) + " before the command was started"
}

// OnLost is what becomes of the command when its lock is lost.
type OnLost int

// What to do when the lock is lost.
const (
	Terminate   OnLost = iota // stop the command before another can hold the lock
	WarnAndKeep               // let it run, knowing that another may run too
)

// Options say how [Run] locks and runs. Name and Command are required; the
// zero value of all else is the default of the redlockrun tool.
type Options struct {
	// Name is the full name of the lock, as from [lock.Name].
	Name string

	// Command is the program and its arguments. The program is searched for
	// in PATH, before Redis is asked for anything.
	Command []string

	// Env is the environment of the command; nil is that of this process.
	// The variables of the lock are added to it.
	Env []string

	TTL            time.Duration  // of the lease, see lock.Request; 15 s
	ConnectTimeout time.Duration  // see lock.Request; 5 s
	Timeout        time.Duration  // stop the command after this long; 0 is never
	KillAfter      time.Duration  // from the stop signal to KILL; DefaultKillAfter
	StopSignal     syscall.Signal // asks the command to stop; SIGTERM
	OnLost         OnLost

	// Label is shown to those who find the lock taken; the host's name.
	Label string

	// ShowArgs puts the command's arguments into the holder record, where
	// everyone who can read Redis sees them.
	ShowArgs bool

	// Signals are passed on to the command as they come. One that asks to
	// stop and comes before the command was started ends Run instead. Use
	// [proc.Forwardable] with signal.Notify.
	Signals <-chan os.Signal

	// Adopt: see proc.Command. Only for a process that has no other children.
	Adopt bool

	// Spare: see proc.Command.
	Spare func(pid int) bool

	// Log gets what happens, never anything secret: warnings and errors are
	// for people; Info and Debug tell the story of a run. nil is silence.
	Log *slog.Logger
}

// DefaultKillAfter is the time from the stop signal to KILL for a given ttl:
// 5 s, or a third of the ttl if that is less.
func DefaultKillAfter(ttl time.Duration) time.Duration { return min(5*time.Second, ttl/3) }

// CheckKillAfter says what is wrong with a kill-after for the ttl, or returns
// nil. Above half of the ttl, the stop of the command would have to begin
// before a renewal, which comes at a third, had its time.
func CheckKillAfter(killAfter, ttl time.Duration) error {
	switch {
	case killAfter < 0:
		return fmt.Errorf("%v is negative", killAfter)
	case killAfter > ttl/2:
		return fmt.Errorf("%v is more than half of the ttl of %v", killAfter, ttl)
	}
	return nil
}

func (o *Options) setDefaults() {
	if o.TTL == 0 {
		o.TTL = lock.DefaultTTL
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = lock.DefaultConnectTimeout
	}
	if o.KillAfter == 0 {
		o.KillAfter = DefaultKillAfter(o.TTL)
	}
	if o.StopSignal == 0 {
		o.StopSignal = syscall.SIGTERM
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Run takes the lock, runs the command while it keeps the lock, and releases
// the lock when the command and all that it started have ended. What the
// command leaves running gets KillAfter to end by itself, then StopSignal,
// then KILL, with the lock kept all the while.
//
// The status says how the command ended; with a nil error it ended by itself,
// also where it did so on a signal that was passed on. The errors of a command
// that did not run are [*proc.StartError], [*InterruptedError], [ErrLocked],
// [ErrUnavailable], [ErrNotPermitted], and the cause of ctx. [ErrLost] means
// that the lock was lost, and the command stopped for it, and [ErrTimeout]
// that it ran for too long. A release that fails is a warning in the log: the
// lock expires by itself.
//
// If the lease can't be renewed, the whole tree of the command is dead before
// [lock.Lease.SafeEnd], also when Redis does not answer at all.
//
// Cancelling ctx is for the time before the command starts, as a signal is.
// The client is used as by [PerformLockedWork].
func Run(ctx context.Context, rdb *redis.Client, opts Options) (proc.Status, error) {
	opts.setDefaults()
	if rdb == nil || len(opts.Command) == 0 {
		return proc.Status{}, errors.New("lockexec: Run needs a client and a command")
	}
	if err := CheckKillAfter(opts.KillAfter, opts.TTL); err != nil {
		return proc.Status{}, fmt.Errorf("kill-after: %w", err)
	}
	path, err := proc.LookPath(opts.Command[0])
	if err != nil {
		return proc.Status{}, err
	}

	journal := newJournal(opts.Log) //nolint:contextcheck // what is logged must not depend on ctx
	defer journal.close()
	opts.Log = journal.Logger

	lease, err := acquire(ctx, rdb, opts)
	if err != nil {
		return proc.Status{}, err
	}
	opts.Log.Info("acquired "+opts.Name+", fence "+strconv.FormatInt(lease.Fence(), 10),
		"event", "acquired", "lock", opts.Name, "fence", lease.Fence(), "ttl_ms", opts.TTL.Milliseconds())

	status, err := underLease(ctx, lease, path, opts)
	logRelease(opts, release(ctx, lease), err)
	return status, err
}

// logRelease tells how the release went, unless the lock's loss is the
// outcome of the run anyway.
func logRelease(opts Options, err, outcome error) {
	log := opts.Log.With("lock", opts.Name)
	switch {
	case err == nil:
		log.Info("released "+opts.Name, "event", "released")
	case errors.Is(outcome, ErrLost):
	case errors.Is(err, ErrLost):
		log.Warn(err.Error()+", before it could be released: another may have run at the same time",
			"event", "lost", "error", err.Error())
	default:
		log.Warn(err.Error()+"; the lock is gone by itself in "+opts.TTL.String()+" at the latest",
			"event", "release_failed", "error", err.Error())
	}
}

// acquire takes the lock unless a signal or ctx asks to stop first.
func acquire(ctx context.Context, rdb *redis.Client, opts Options) (*lock.Lease, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type result struct {
		lease *lock.Lease
		err   error
	}
	done := make(chan result, 1)
	go func() {
		lease, err := lock.New(rdb).Acquire(ctx, lock.Request{
			Name:           opts.Name,
			TTL:            opts.TTL,
			ConnectTimeout: opts.ConnectTimeout,
			Holder:         lock.NewHolder(opts.Label, describe(opts)),
		})
		done <- result{lease, err}
	}()
	for {
		select {
		case r := <-done:
			// The lock may have come in spite of the signal.
			if cause := context.Cause(ctx); cause != nil && r.err == nil {
				_ = release(ctx, r.lease)
				return nil, cause
			}
			return r.lease, r.err
		case sig := <-opts.Signals:
			if proc.StopSignal(sig) {
				cancel(&InterruptedError{Signal: asSignal(sig)})
			}
		}
	}
}

// underLease runs the command under the lease. The tree of the command is
// gone when it returns, and nothing renews the lease any more.
func underLease(ctx context.Context, lease *lock.Lease, path string, opts Options) (proc.Status, error) {
	// The last look before the fork: a stop may have been asked while the
	// answer of Redis was on its way, and the answer may have come late.
	if stopTime(lease, opts.KillAfter).Until(lock.Now()) <= 0 {
		if err := lease.Renew(ctx); errors.Is(err, ErrLost) {
			return proc.Status{}, fmt.Errorf("%w: it answered so late that %v, before the command could be started", ErrUnavailable, err) //nolint:errorlint // not lost: nothing ran
		} else if err != nil {
			return proc.Status{}, err
		}
	}
	if err := stopAsked(ctx, opts.Signals); err != nil {
		return proc.Status{}, err
	}

	terminal := proc.OnTerminal()
	process, err := proc.Start(proc.Command{
		Path:     path,
		Args:     opts.Command,
		Env:      childEnv(opts.Env, lease),
		Terminal: terminal,
		Adopt:    opts.Adopt,
		Spare:    opts.Spare,
	})
	if err != nil {
		return proc.Status{}, err
	}
	// What came while the child was being started was meant for it, also
	// where it came from the keyboard, which did not reach it.
	for pending := true; pending; {
		select {
		case sig := <-opts.Signals:
			_ = process.Signal(asSignal(sig))
		default:
			pending = false
		}
	}
	s := &supervisor{lease: lease, process: process, terminal: terminal, opts: opts}
	return s.run(ctx)
}

// stopAsked returns an error if a signal or ctx asks not to begin.
func stopAsked(ctx context.Context, signals <-chan os.Signal) error {
	for {
		select {
		case sig := <-signals:
			if proc.StopSignal(sig) {
				return &InterruptedError{Signal: asSignal(sig)}
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
			return nil
		}
	}
}

// childEnv adds the lock to the environment, in place of that of an outer run.
func childEnv(env []string, lease *lock.Lease) []string {
	own := make([]string, 0, len(env)+3)
	for _, entry := range env {
		switch name, _, _ := strings.Cut(entry, "="); name {
		case EnvKey, EnvToken, EnvFence:
		default:
			own = append(own, entry)
		}
	}
	return append(own,
		EnvKey+"="+lease.Name(),
		EnvToken+"="+lease.Token(),
		EnvFence+"="+strconv.FormatInt(lease.Fence(), 10))
}

func describe(opts Options) string {
	name := filepath.Base(opts.Command[0])
	if opts.ShowArgs {
		return strings.Join(append([]string{name}, opts.Command[1:]...), " ")
	}
	return name
}

func programName() string { return filepath.Base(os.Args[0]) }

func asSignal(sig os.Signal) syscall.Signal {
	if number, ok := sig.(syscall.Signal); ok {
		return number
	}
	return syscall.SIGINT // os.Interrupt, where it is no syscall.Signal
}
