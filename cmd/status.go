package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// statusOptions are the settings of the status command.
type statusOptions struct {
	lockOptions
	asJSON bool
	watch  bool
}

func (p *program) newStatusCommand(out *output) *cobra.Command {
	opts := &statusOptions{lockOptions: newLookOptions(out)}
	cmd := &cobra.Command{
		Use:   "status KEY",
		Short: "Tell who holds a lock, and who waits for it",
		Long: `Tell who holds the lock of KEY and since when, when it is free unless it is
renewed, who waits for it, and which runs with --once were done. Nothing is
changed; a replica will do as well as a master.

With --watch that goes on, once a second, until ^C: on a terminal on the same
place of the screen, elsewhere only when something has changed.

EXIT STATUS
  0 when the lock is held, or not yet free after a release --force. 1 when it is
  free. 69: Redis is unavailable, or the key is no lock.`,
		Example: `  redlockrun status client_123
  redlockrun status client_123 --json
  redlockrun status client_123 --watch`,
		Args:              oneKey,
		ValidArgsFunction: p.completeKey(&opts.lockOptions),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runStatus(cmd, opts, args[0])
		},
	}
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&opts.watch, "watch", false, "go on, once a second")
	opts.addPrefixFlag(cmd.Flags())
	opts.addPlaceFlags(cmd.Flags())
	cmd.Flags().SortFlags = false
	return cmd
}

// newLookOptions are those of a command that takes no lock.
func newLookOptions(out *output) lockOptions {
	return lockOptions{output: out, slots: 1, ttl: lock.DefaultTTL}
}

func (p *program) runStatus(cmd *cobra.Command, opts *statusOptions, key string) error {
	from, wrong, err := p.load(cmd)
	if err != nil {
		return err
	}
	name, _ := opts.fullName(key, from, wrong)
	target := opts.check(from, p.environ, wrong)
	if err := wrong.orNil(); err != nil {
		return err
	}
	return atPlace(target, noLimit, func(ctx context.Context, locker *lock.Locker) error {
		look := looker{name: name, locker: locker, opts: opts}
		if opts.watch {
			return p.watch(ctx, look)
		}
		return p.showOnce(ctx, look)
	})
}

// showOnce prints how the lock stands.
func (p *program) showOnce(ctx context.Context, look looker) error {
	seen, err := look.now(ctx)
	if err != nil {
		return err
	}
	look.addMarkers(ctx, &seen)
	if look.opts.asJSON {
		err = printJSON(p.stdout, newLockStatus(seen))
	} else {
		_, err = io.WriteString(p.stdout, statusText(seen, p.width(), mostRows))
	}
	if err != nil {
		return err
	}
	if seen.snapshot.State == lock.StateFree {
		return errNo
	}
	return nil
}

// looker looks at one lock.
type looker struct {
	name   string
	locker *lock.Locker
	opts   *statusOptions
}

// look is what was seen of a lock.
type look struct {
	snapshot lock.Snapshot

	// markers are of runs with --once. looked: they were asked for, and all of
	// them were found.
	markers []lock.Marker
	looked  bool
	noLook  error // why not
}

func (l looker) now(ctx context.Context) (look, error) {
	snapshot, err := bounded(ctx, &l.opts.lockOptions, func(ctx context.Context) (lock.Snapshot, error) {
		return l.locker.Inspect(ctx, l.name)
	})
	return look{snapshot: snapshot}, err
}

// addMarkers looks for markers, which takes a right and a time of its own: that
// there are none of these is no reason not to tell the rest.
func (l looker) addMarkers(ctx context.Context, seen *look) {
	seen.markers, seen.noLook = bounded(ctx, &l.opts.lockOptions, func(ctx context.Context) ([]lock.Marker, error) {
		return l.locker.Markers(ctx, l.name)
	})
	seen.looked = seen.noLook == nil
}

// bounded asks the server something, for no longer than --connect-timeout.
func bounded[T any](ctx context.Context, opts *lockOptions, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, opts.redis.connectTimeout, errNoAnswer)
	defer cancel()
	answer, err := ask(ctx)
	if err != nil {
		err = &byTokenError{err}
	}
	return answer, err
}

// noLookText says why the markers are not known.
func noLookText(err error) string {
	if errors.Is(err, lock.ErrNotPermitted) {
		return "the ACL user lacks +scan"
	}
	return fmt.Sprintf("not looked for: %v", err)
}
