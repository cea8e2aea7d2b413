package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/connect"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// The commands of those who can't put their work into one command, like the
// steps of a CI job: they hold the lock by its token alone, and have to renew
// it themselves.

// tokenExample is the whole of it.
//
//nolint:gosec // no token, only the word
const tokenExample = `  token=$(redlockrun acquire deploy --wait 5m --ttl 10m) || exit
  trap 'redlockrun release deploy --token "$token"' EXIT
  ./step-one && redlockrun renew deploy --token "$token" --ttl 10m && ./step-two`

// acquired is what acquire prints with --json.
type acquired struct {
	Key       string    `json:"key"` // the full name of the lock
	Token     string    `json:"token"`
	Fence     int64     `json:"fence"`
	ExpiresAt time.Time `json:"expires_at"` // by this machine's clock, at the earliest
}

func (p *program) newAcquireCommand(out *output) *cobra.Command {
	opts := &lockOptions{output: out}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "acquire KEY",
		Short: "Take a lock, and print its token",
		Long: `Take the lock of KEY and print the token that renew and release want. Nobody
renews the lock then: it is gone when its --ttl is over. Where you can, let
redlockrun run a command under the lock instead: it renews, releases, and stops
the command when the lock is lost.

EXIT STATUS
  0 when the lock was taken. 75: busy. 69: Redis is unavailable.`,
		Example:           tokenExample,
		Args:              oneKey,
		ValidArgsFunction: p.completeKey(opts),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runAcquire(cmd, opts, args[0], asJSON)
		},
	}
	opts.addFlags(cmd.Flags())
	opts.addPlaceFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: key, token, fence, expires_at")
	cmd.Flags().SortFlags = false
	return cmd
}

func (p *program) runAcquire(cmd *cobra.Command, opts *lockOptions, key string, asJSON bool) error {
	if p.stdout == os.Stdout && wasClosed(os.Stdout) {
		return usageErrorf("standard output is closed: nobody would have the token")
	}
	from, wrong, err := p.load(cmd)
	if err != nil {
		return err
	}
	name := opts.name(key, from, p.environ, wrong)
	target := opts.check(from, p.environ, wrong)
	if err := wrong.orNil(); err != nil {
		return err
	}
	return atPlace(target, noLimit, func(ctx context.Context, locker *lock.Locker) error {
		lease, err := acquireHere(ctx, opts, locker, name)
		if err != nil {
			return &byTokenError{err}
		}
		if len(target.Places) > 1 {
			// This sets it on those servers of a quorum that gave no vote: the
			// next renewal may be far away. The lock stands without it.
			_ = lease.Renew(ctx)
		}
		return p.handOver(ctx, opts, lease, asJSON)
	})
}

// acquireHere takes a lock for whoever started this program.
func acquireHere(ctx context.Context, opts *lockOptions, locker *lock.Locker, name string) (*lock.Lease, error) {
	line := newWaitingLine(os.Stderr, opts.output.logger(), opts.progress, opts.output.format == jsonFormat || opts.output.quiet)
	asked := time.Now()
	holder := lock.NewHolder(opts.label, "acquire")
	holder.PID = os.Getppid() // who will have the token
	lease, err := locker.Acquire(ctx, lock.Request{
		Name: name, TTL: opts.ttl, Capacity: opts.capacity(), Wait: opts.wait, OnWait: line.update,
		Replicas: opts.replicas, History: opts.history, ConnectTimeout: opts.redis.connectTimeout, Holder: holder,
	})
	line.end()
	if held := (*lock.HeldError)(nil); errors.As(err, &held) {
		return nil, &busyError{held, opts.conflictCode, opts.wait}
	}
	if err != nil {
		return nil, err
	}
	opts.output.logger().Info("acquired "+name+", fence "+strconv.FormatInt(lease.Fence(), 10),
		"event", "acquired", "lock", name, "fence", lease.Fence(), "ttl_ms", opts.ttl.Milliseconds(), "waited_ms", time.Since(asked).Milliseconds())
	return lease, nil
}

// handOver prints the token of a lock, or gives the lock back if it can't.
func (p *program) handOver(ctx context.Context, opts *lockOptions, lease *lock.Lease, asJSON bool) error {
	var err error
	if asJSON {
		err = json.NewEncoder(p.stdout).Encode(acquired{
			Key: lease.Name(), Token: lease.Token(), Fence: lease.Fence(),
			ExpiresAt: time.Now().Add(lease.SafeEnd().Until(lock.Now())).UTC().Truncate(time.Millisecond),
		})
	} else {
		_, err = fmt.Fprintln(p.stdout, lease.Token())
	}
	if err != nil { // nobody has the token
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), opts.redis.connectTimeout)
		defer cancel()
		return errors.Join(err, lease.Release(ctx))
	}
	return nil
}

// tokenOptions are the settings of what is done by token.
type tokenOptions struct {
	lockOptions
	token  string
	forced forceOptions
}

func (o *tokenOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.token, "token", "", "`TOKEN` that acquire printed (required)")
	o.addPrefixFlag(cmd.Flags())
}

func (p *program) newRenewCommand(out *output) *cobra.Command {
	opts := &tokenOptions{lockOptions: lockOptions{output: out, slots: 1}}
	cmd := &cobra.Command{
		Use:   "renew KEY --token TOKEN",
		Short: "Start the lease of a lock anew",
		Long: `Keep the lock of KEY for another --ttl, if it is still held with that token. A
lock that is gone stays gone, as another may have had it meanwhile: stop what
you do under it.

EXIT STATUS
  0 when it was renewed. 79: it is not held with that token. 69: Redis is
  unavailable; the lock may still be held, until its ttl is over.`,
		Example:           tokenExample,
		Args:              oneKey,
		ValidArgsFunction: p.completeKey(&opts.lockOptions),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.byToken(cmd, opts, args[0], "renewed", func(ctx context.Context, lease *lock.Lease) error {
				return lease.RenewWithin(ctx)
			})
		},
	}
	opts.addFlags(cmd)
	opts.addTTLFlag(cmd.Flags())
	opts.addPlaceFlags(cmd.Flags())
	cmd.Flags().SortFlags = false
	return cmd
}

func (p *program) newReleaseCommand(out *output) *cobra.Command {
	opts := &tokenOptions{lockOptions: lockOptions{output: out, slots: 1, ttl: lock.DefaultTTL}}
	cmd := &cobra.Command{
		Use:   "release KEY (--token TOKEN | --force)",
		Short: "Give back a lock, or take it from its holder",
		Long: `Release the lock of KEY, if it is still held with that token, and pass it on to
whoever waits for it.

Or take it from whoever holds it, with --force, which asks first. That is safe:
the lock stays taken until the holder must have stopped. Its redlockrun finds at
its next renewal that the lock was revoked, stops its command and exits with 79;
then the next in line gets the lock, or when the lease would have ended at the
latest. With --now the lock is free at once, and the next command may start
while the old one still runs.

EXIT STATUS
  0 when it was released or revoked; with --force also when it was free. 1: the
  answer was no. 64: nobody to ask, without --yes. 75: with --force, it changed
  hands meanwhile. 79: it is not held with that token. 69: Redis is unavailable;
  the lock is gone when its ttl is over.`,
		Example: tokenExample + `
  redlockrun release deploy --force`,
		Args:              oneKey,
		ValidArgsFunction: p.completeKey(&opts.lockOptions),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.forced.force {
				return p.runForce(cmd, opts, args[0])
			}
			return p.byToken(cmd, opts, args[0], "released", func(ctx context.Context, lease *lock.Lease) error {
				lease.Record(opts.history, lock.End{How: lock.Released})
				return lease.Release(ctx)
			})
		},
	}
	opts.addFlags(cmd)
	cmd.Flags().Lookup("token").Usage = "`TOKEN` that acquire printed"
	opts.forced.addFlags(cmd.Flags())
	opts.addHistoryFlag(cmd.Flags())
	opts.addPlaceFlags(cmd.Flags())
	cmd.Flags().SortFlags = false
	return cmd
}

// byToken does something with a lock that another process has taken; done is
// what has happened then.
func (p *program) byToken(
	cmd *cobra.Command, opts *tokenOptions, key, done string, do func(context.Context, *lock.Lease) error,
) error {
	from, wrong, err := p.load(cmd)
	if err != nil {
		return err
	}
	name, _ := opts.fullName(key, from, wrong)
	opts.forced.check(from, wrong)
	switch _, given := from["token"]; {
	case !given:
		wrong.add(from.of("token"), "is required: it is what acquire printed")
	case opts.token == "":
		wrong.add(from.of("token"), "is empty: is a variable of your shell empty?")
	}
	target := opts.check(from, p.environ, wrong)
	if err := wrong.orNil(); err != nil {
		return err
	}
	return atPlace(target, opts.redis.connectTimeout, func(ctx context.Context, locker *lock.Locker) error {
		err := do(ctx, locker.Resume(name, opts.token, opts.ttl))
		if lost := (*lock.LostError)(nil); errors.As(err, &lost) {
			return &notOursError{lost}
		}
		if err != nil {
			return &byTokenError{err}
		}
		opts.output.logger().Info(done+" "+name, "event", done, "lock", name)
		return nil
	})
}

var errNoAnswer = fmt.Errorf("%w: no answer within --connect-timeout", lockexec.ErrUnavailable)

// notOursError is a lock that a token does not hold.
type notOursError struct{ lost *lock.LostError }

func (e *notOursError) Error() string {
	return fmt.Sprintf("%s is not held with this token: %s", e.lost.Name, e.lost.Reason)
}

// oneKey is the Args of a command with a key.
func oneKey(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usageErrorf("%s needs a key, as in\n  %s client_123", cmd.CommandPath(), cmd.CommandPath())
	case 1:
		return nil
	default:
		return usageErrorf("%s takes one key, but got %q too", cmd.CommandPath(), args[1])
	}
}

// stoppable returns a context that ends with the first signal that asks to
// stop, as its cause.
func stoppable() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, slices.DeleteFunc(proc.DeadlySignals(), func(sig os.Signal) bool { return !proc.StopSignal(sig) })...)
	go func() {
		for sig := range signals {
			if number, ok := sig.(syscall.Signal); ok {
				cancel(&lockexec.InterruptedError{Signal: number})
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// noLimit is for what has an end of its own.
const noLimit time.Duration = 0

// atPlace opens the place of locks, where something listens then, and does what
// is to be done there: until a signal asks to stop or, unless that is noLimit,
// for so long in all.
func atPlace(target connect.Target, within time.Duration, do func(context.Context, *lock.Locker) error) error {
	ctx, stop := stoppable()
	defer stop()
	if within != noLimit {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, within, errNoAnswer)
		defer cancel()
	}
	if err := target.Start(ctx); err != nil {
		return err
	}
	locker, connections, err := target.Open()
	if err != nil {
		return err
	}
	defer connections.Close()
	return do(ctx, locker)
}
