package cmd

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlockrun/redlockrun/lockexec/connect"
	"github.com/redlockrun/redlockrun/lockexec/embedded"
	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// completionWait is how long a person who hit the tab key waits for the names
// of locks, at most.
const completionWait = time.Second

// completeKey completes the one key that a command takes from the locks that
// are held. opts are those of the command: cobra has read into them what stands
// before the word.
//
// Nothing that goes wrong is told: the line is still being typed, and words of
// ours would end up in the midst of it. Nothing is started, changed or waited
// for, but for an answer of the server.
func (p *program) completeKey(opts *lockOptions) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.heldKeys(cmd, opts, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeKeyFlag does the same for --key.
func (p *program) completeKeyFlag(cmd *cobra.Command, opts *lockOptions) {
	complete := p.completeKey(opts)
	// It fails only for a flag that is not there, or the second time.
	_ = cmd.RegisterFlagCompletionFunc("key", func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd, nil, word)
	})
}

// heldKeys are the keys of locks that begin with word, each with its holder, or
// none where they can't be had.
func (p *program) heldKeys(cmd *cobra.Command, opts *lockOptions, word string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), completionWait)
	defer cancel()
	target, ok := p.targetSoFar(ctx, cmd, opts)
	if !ok {
		return nil
	}
	locker, connections, err := target.Open()
	if err != nil {
		return nil
	}
	defer connections.Close()
	locks, err := locker.List(ctx, lock.Listing{
		Prefix: opts.prefix + word, Timeout: completionWait / time.Duration(len(target.Places)), // one of a quorum may be away
	})
	if err != nil {
		return nil
	}
	var keys []string
	for _, s := range locks {
		key := strings.TrimPrefix(s.Name, opts.prefix)
		if _, err := lock.Name(opts.prefix, key); err == nil && !strings.ContainsFunc(key, specialToCompletion) {
			keys = append(keys, cobra.CompletionWithDesc(key, printable(listedHolder(s))))
		}
	}
	return keys
}

// specialToCompletion is for what some shell would not take as it stands: bash's
// script puts what several words have in common on the line without quotes. After
// an equals sign, zsh's and fish's take a word for the value of a flag.
func specialToCompletion(r rune) bool {
	return r == '=' || specialToShells(r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// targetSoFar is where the command would go, by what was typed of it, if all of
// that makes sense.
func (p *program) targetSoFar(ctx context.Context, cmd *cobra.Command, opts *lockOptions) (connect.Target, bool) {
	if config, set := p.settingSoFar(cmd.Flags().Lookup("config")); set && !isFile(config) {
		return connect.Target{}, false
	}
	from, wrong, err := p.load(cmd)
	if err != nil || wrong.orNil() != nil {
		return connect.Target{}, false
	}
	for _, file := range []string{opts.redis.passwordFile, opts.redis.tlsCA, opts.redis.tlsCert, opts.redis.tlsKey} {
		if file != "" && !isFile(file) {
			return connect.Target{}, false
		}
	}
	if from.of("redis").rank == asFlag {
		opts.redis.places = parsedOnce(opts.redis.places)
	}
	target := opts.redis.resolve(from, p.environ, wrong)
	if wrong.orNil() != nil {
		return connect.Target{}, false
	}
	target.Timeout = min(target.Timeout, completionWait)
	for i, place := range target.Places {
		if !place.Embedded {
			continue
		}
		running, ok := runningEmbedded(ctx)
		if !ok {
			return connect.Target{}, false
		}
		target.Places[i] = running
	}
	return target, true
}

// parsedOnce undoes that cobra parses the flags of a line twice when it
// completes, so that each value of a list comes twice.
func parsedOnce(values []string) []string {
	half := len(values) / 2
	if len(values) == 2*half && slices.Equal(values[:half], values[half:]) {
		return values[:half]
	}
	return values
}

// settingSoFar is a setting of the command line or the environment.
func (p *program) settingSoFar(f *pflag.Flag) (value string, set bool) {
	if f.Changed {
		return f.Value.String(), true
	}
	return p.environ(envName(f.Name))
}

// isFile tells a file from what could ask for a password, or take the keys that
// are meant for the shell: a terminal, a pipe.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// runningEmbedded is the socket of the embedded server, if that runs: a client
// of the place "embedded" would start one.
func runningEmbedded(ctx context.Context) (lock.Place, bool) {
	dir, err := embedded.Dir()
	if err != nil {
		return lock.Place{}, false
	}
	info, err := embedded.Status(ctx, dir)
	if err != nil || !info.Running {
		return lock.Place{}, false
	}
	return lock.Place{Network: "unix", Addr: info.Socket}, true
}
