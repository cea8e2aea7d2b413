package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// forceOptions are the settings of a release without the token.
type forceOptions struct {
	force bool
	now   bool
	yes   bool
}

func (o *forceOptions) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.force, "force", false, "take the lock from whoever holds it, and pass it on when their commands must have ended")
	fs.BoolVar(&o.now, "now", false, "with --force: do not wait for that, so that two commands may run at the same time")
	fs.BoolVarP(&o.yes, "yes", "y", false, "with --force: do not ask")
}

// check notes what can't be meant.
func (o *forceOptions) check(from sources, wrong *configError) {
	for name, given := range map[string]bool{"now": o.now, "yes": o.yes} {
		if given && !o.force {
			wrong.add(source{"--" + name, asFlag}, "is of use with --force only")
		}
	}
	if _, given := from["token"]; given && o.force {
		wrong.add(source{"--force", asFlag}, "and %s exclude each other: who has the token needs no force", from.of("token").text)
	}
}

// runForce takes a lock from its holders.
func (p *program) runForce(cmd *cobra.Command, opts *tokenOptions, key string) error {
	from, wrong, err := p.load(cmd)
	if err != nil {
		return err
	}
	name, _ := opts.fullName(key, from, wrong)
	opts.forced.check(from, wrong)
	target := opts.check(from, p.environ, wrong)
	if err := wrong.orNil(); err != nil {
		return err
	}
	if !opts.forced.yes && !isTerminal(os.Stdin) {
		return usageErrorf("release --force asks before it takes a lock from its holder, but there is no terminal to ask on: "+
			"look at the holder with \"%s\", then add --yes", p.sameWith(cmd, "status", from, key))
	}
	return atPlace(target, noLimit, func(ctx context.Context, locker *lock.Locker) error {
		return p.forceHere(ctx, opts, locker, name)
	})
}

// sameWith returns the line of another command that looks where this one does.
func (p *program) sameWith(cmd *cobra.Command, other string, from sources, key string) string {
	words := []string{programName(), other, key}
	target, _, err := cmd.Root().Find(words[1:2])
	if err != nil {
		return shellLine(words)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		src, given := from[f.Name]
		if !given || src.rank != asFlag || target.Flags().Lookup(f.Name) == nil || !asksElsewhere(f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			if secret(f.Name) {
				value = maskedPlace(value)
			}
			words = append(words, "--"+f.Name+"="+value)
		}
	})
	return shellLine(words)
}

// asksElsewhere reports whether a flag says which lock is meant, and where.
func asksElsewhere(flag string) bool {
	return flag == "prefix" || flag == "config" || flag == "redis" ||
		strings.HasPrefix(flag, "redis-") || strings.HasPrefix(flag, "tls-")
}

func (p *program) forceHere(ctx context.Context, opts *tokenOptions, locker *lock.Locker, name string) error {
	seen, err := bounded(ctx, &opts.lockOptions, func(ctx context.Context) (lock.Snapshot, error) {
		return locker.Inspect(ctx, name)
	})
	if err != nil {
		return err
	}
	if done, err := p.mayForce(ctx, opts, seen); done || err != nil {
		return err
	}
	revoked, err := bounded(ctx, &opts.lockOptions, func(ctx context.Context) (lock.Revocation, error) {
		return locker.Revoke(ctx, seen, opts.forced.now)
	})
	if err != nil {
		return err
	}
	return p.tellForced(opts, seen, revoked)
}

// mayForce reports whether there is nothing to do, and fails when it must not
// be done.
func (p *program) mayForce(ctx context.Context, opts *tokenOptions, seen lock.Snapshot) (done bool, err error) {
	log := opts.output.logger()
	name := printable(seen.Name)
	switch {
	case seen.State == lock.StateFree && !partlyHeld(seen):
		log.Warn(name+" is free already", "event", "free", "lock", seen.Name)
		return true, nil
	case seen.State == lock.StateRevoked && !opts.forced.now:
		log.Warn(name+" was revoked already; it is free in "+rounded(seen.Remaining)+" at the latest", "event", "revoked", "lock", seen.Name)
		return true, nil
	case seen.Remaining == lock.NoExpiry && !opts.forced.now:
		return false, usageErrorf("%s holds a value without a time to live: no holder would notice that it was taken, and no time says when it has ended. "+
			"It may be data, or a lock whose owner died; look at it with \"redis-cli GET\", and add --now to delete it", name)
	case !opts.forced.yes:
		return false, p.confirm(ctx, opts, seen)
	}
	return false, nil
}

// partlyHeld reports whether some servers of a quorum have the lock.
func partlyHeld(s lock.Snapshot) bool {
	for _, server := range s.Servers {
		if server.Err == nil && server.State != lock.StateFree {
			return true
		}
	}
	return false
}

// errDeclined is the answer no.
var errDeclined = errors.New("nothing was changed")

// confirm asks on the terminal, and returns nil for yes.
func (p *program) confirm(ctx context.Context, opts *tokenOptions, seen lock.Snapshot) error {
	question := "Take it away? Its command is stopped, and the next one starts after that."
	if opts.forced.now {
		question = "Take it away at once? The next command may start while this one still runs."
	}
	fmt.Fprintf(p.stderr, "%s%s [y/N] ", statusText(look{snapshot: seen}, columns(os.Stdin), mostRows), question)
	answers := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answers <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(p.stderr)
		return context.Cause(ctx)
	case line := <-answers:
		if !strings.HasSuffix(line, "\n") {
			fmt.Fprintln(p.stderr)
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return errDeclined
	}
}

// changedError is a lock that is held by others than when it was looked at.
type changedError struct {
	name   string
	others int
}

func (e *changedError) Error() string {
	return fmt.Sprintf("%s changed hands meanwhile: %d hold it who did not when it was looked at, and keep it; look again", printable(e.name), e.others)
}

// tellForced says what came of it.
func (p *program) tellForced(opts *tokenOptions, seen lock.Snapshot, revoked lock.Revocation) error {
	log := opts.output.logger().With("lock", seen.Name)
	name := printable(seen.Name)
	switch {
	case revoked.Others > 0:
		return &changedError{seen.Name, revoked.Others}
	case revoked.Revoked == 0:
		log.Warn(name+" is free already", "event", "free")
	case opts.forced.now && seen.State != lock.StateKept:
		log.Warn(name+" was taken from its holder at once: until that notices, at its next renewal, another may run at the same time. "+
			"A program that does not renew never notices", "event", "forced")
	case revoked.FreeIn == 0:
		log.Warn(name+" is free", "event", "forced")
	default:
		log.Warn(name+" was revoked: it is free as soon as its holder has stopped, in "+rounded(revoked.FreeIn)+" at the latest",
			"event", "revoked", "free_ms", revoked.FreeIn.Milliseconds())
	}
	return nil
}
