package lockexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// Run takes the lock, runs the command while it keeps the lock, and releases
// the lock when the command and all that it started have ended; for what it
// leaves running, see [Leftovers].
//
// The status says how the command ended; with a nil error it ended by itself,
// also where it did so on a signal that was passed on. The errors of a command
// that did not run are [*proc.StartError], [*InterruptedError], [ErrLocked],
// [ErrDone], [*lock.CapacityError], [ErrUnavailable], [ErrNotPermitted], and the
// cause of ctx. [ErrLost] means that the lock was lost, and the command stopped
// for it, and [ErrTimeout] that it ran for too long; [ErrStatusUnknown] that it
// ran, and that is all. A release that fails is a warning in the log: the lock
// expires by itself.
//
// If the lease can't be renewed, the whole tree of the command is dead before
// [lock.Lease.SafeEnd], also when Redis does not answer at all.
//
// When ctx is cancelled, nothing is started; a command that runs is killed at
// once with all that it started, and the lock released.
func Run(ctx context.Context, locker *lock.Locker, opts Options) (proc.Status, error) {
	opts.setDefaults()
	if locker == nil || len(opts.Command) == 0 {
		return proc.Status{}, errors.New("lockexec: Run needs a locker and a command")
	}
	if err := CheckKillAfter(opts.KillAfter, opts.TTL); err != nil {
		return proc.Status{}, fmt.Errorf("kill-after: %w", err)
	}
	if opts.OnceTTL < time.Millisecond {
		return proc.Status{}, fmt.Errorf("once-ttl: %v is less than a millisecond", opts.OnceTTL)
	}
	path, err := proc.LookPath(opts.Command[0])
	if err != nil {
		return proc.Status{}, err
	}

	journal := newJournal(opts.Log) //nolint:contextcheck // what is logged must not depend on ctx
	defer journal.close()
	opts.Log = journal.Logger

	// Made while the server is asked, not when the command is to start.
	thread := proc.NewThread()
	defer thread.End()

	asked := lock.Now()
	lease, err := acquire(ctx, locker, opts)
	if err != nil {
		return proc.Status{}, err
	}
	taken := lock.Now()
	opts.Log.Info("acquired "+opts.Name+", fence "+strconv.FormatInt(lease.Fence(), 10),
		"event", "acquired", "lock", opts.Name, "fence", lease.Fence(), "ttl_ms", opts.TTL.Milliseconds(),
		"waited_ms", taken.Until(asked).Milliseconds())

	opts.Observe(Event{Kind: Acquired, SafeEnd: lease.SafeEnd()})
	status, err := underLease(ctx, lease, proc.Command{Path: path, Thread: thread}, opts)
	opts.Observe(Event{Kind: Gone, Status: status, Err: err})
	if err == nil && status == (proc.Status{}) {
		lease.Succeed(opts.OnceTTL)
	}
	var kept time.Duration
	if err == nil || errors.Is(err, ErrTimeout) { // it ran
		kept = max(0, opts.MinHold-lock.Now().Until(taken))
		lease.KeepFor(kept)
	}
	end := EndOf(status, err)
	end.HeldMillis = lock.Now().Until(taken).Milliseconds()
	if opts.Wait != 0 {
		end.WaitedMillis = taken.Until(asked).Milliseconds()
	}
	lease.Record(opts.History, end)
	logRelease(opts, kept, release(ctx, lease), err)
	return status, err
}

// logRelease tells how the release went, unless the lock's loss is the
// outcome of the run anyway. It is kept from others for that long.
func logRelease(opts Options, kept time.Duration, err, outcome error) {
	log := opts.Log
	switch {
	case err == nil && kept > 0:
		log.Info("released "+opts.Name+", kept for "+briefly(kept)+" by --min-hold",
			"event", "released", "lock", opts.Name, "kept_ms", kept.Milliseconds())
	case err == nil:
		log.Info("released "+opts.Name, "event", "released", "lock", opts.Name)
	case errors.Is(outcome, ErrLost):
	case errors.Is(err, ErrLost):
		log.Warn(err.Error()+", before it could be released: another may have run at the same time",
			"event", "lost", "lock", opts.Name, "error", err.Error())
	default:
		log.Warn(err.Error()+"; the lock is gone by itself in "+opts.TTL.String()+" at the latest",
			"event", "release_failed", "lock", opts.Name, "error", err.Error())
	}
}

// acquire takes the lock unless a signal or ctx asks to stop first.
func acquire(ctx context.Context, locker *lock.Locker, opts Options) (*lock.Lease, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type result struct {
		lease *lock.Lease
		err   error
	}
	done := make(chan result, 1)
	holder := lock.NewHolder(opts.Label, describe(opts))
	holder.PID = opts.PID
	go func() {
		lease, err := locker.Acquire(ctx, lock.Request{
			Name:           opts.Name,
			TTL:            opts.TTL,
			ConnectTimeout: opts.ConnectTimeout,
			Capacity:       opts.Capacity,
			Wait:           opts.Wait,
			OnWait:         opts.OnWait,
			Replicas:       opts.Replicas,
			Once:           opts.Once,
			History:        opts.History,
			Holder:         holder,
			Token:          opts.Token,
		})
		done <- result{lease, err}
	}()
	signals := opts.Signals
	for {
		select {
		case r := <-done:
			// The lock may have come in spite of the signal.
			if cause := context.Cause(ctx); cause != nil && r.err == nil {
				_ = release(ctx, r.lease)
				return nil, cause
			}
			return r.lease, r.err
		case sig, ok := <-signals:
			if !ok {
				signals = nil
			} else if proc.StopSignal(sig) {
				cancel(&InterruptedError{Signal: asSignal(sig)})
			}
		}
	}
}

// underLease runs the command under the lease. The tree of the command is
// gone when it returns, and nothing renews the lease any more.
func underLease(ctx context.Context, lease *lock.Lease, command proc.Command, opts Options) (proc.Status, error) {
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

	command.Args = opts.Command
	command.Env = childEnv(opts.Env, lease)
	command.Group = opts.Group
	command.Terminal = opts.Terminal
	command.Unignored = opts.Unignored
	command.Adopt = opts.Adopt
	command.Cgroup = opts.Cgroup
	command.Spare = opts.Spare
	process, err := proc.Start(command)
	if err != nil {
		return proc.Status{}, err
	}
	opts.Observe(Event{Kind: Started, PID: process.Pid()})
	s := &supervisor{lease: lease, process: process, opts: opts, started: lock.Now()}
	return s.run(ctx)
}

// stopAsked returns an error if a signal or ctx asks not to begin.
func stopAsked(ctx context.Context, signals <-chan os.Signal) error {
	for {
		select {
		case sig, ok := <-signals:
			if !ok {
				signals = nil
			} else if proc.StopSignal(sig) {
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
