//go:build linux

// Torture runs many redlockruns on a few keys at each place where locks can be
// kept, while processes are killed and stopped, servers die, and networks fail:
//
//	go run ./testdata/torture [-place NAME] [-for DURATION] [-seed N]
//
// What was guarded is judged from outside, by what the guarded commands
// themselves write down: see history.go and judge.go. It prints a table, and
// ends with 1 when a promise of docs/guarantees.md was broken; then it keeps
// the history, and names it. The seed chooses jobs and faults; the machine's
// scheduling, which no seed governs, decides how they meet.
//
// It needs Linux and redis-server. -binary tries another program, -mutant one
// that is broken on purpose, and -sabotage deletes locks behind everybody's
// back: these must be found out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// childRole is the first argument of what runs under the locks.
const childRole = "guarded"

// settings are those of the command line.
type settings struct {
	place    string
	time     time.Duration
	seed     uint64
	workers  int
	binary   string
	mutant   string
	flags    string
	sabotage bool
	lossless bool
	keep     bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == childRole {
		code, err := child()
		if err != nil {
			fmt.Fprintln(os.Stderr, "torture: guarded work:", err)
		}
		os.Exit(code)
	}
	testing.Init() // for the helpers, which ask for -short
	var s settings
	flag.StringVar(&s.place, "place", "all", "`NAMES` of places, with commas, or all: "+strings.Join(placeNames, ", "))
	flag.DurationVar(&s.time, "for", time.Minute, "how long at each place")
	flag.Uint64Var(&s.seed, "seed", 0, "what chooses jobs and faults; 0 makes one up")
	flag.IntVar(&s.workers, "workers", 8, "how many take locks")
	flag.StringVar(&s.binary, "binary", "", "the `PROGRAM` to try, instead of one that is built here")
	flag.StringVar(&s.mutant, "mutant", "", "break the program on purpose: "+strings.Join(mutantNames(), ", "))
	flag.StringVar(&s.flags, "flags", "", "`FLAGS` for each run, as --on-lost=warn, which gives up a promise")
	flag.BoolVar(&s.sabotage, "sabotage", false, "delete locks behind everybody's back")
	flag.BoolVar(&s.lossless, "lossless", false, "play no faults that may lose locks")
	flag.BoolVar(&s.keep, "keep", false, "keep the histories of good runs, too")
	flag.Parse()
	if s.seed == 0 {
		s.seed = uint64(time.Now().UnixNano())
	}
	logging.Disable()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	sound, err := torture(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	}
	if !sound {
		os.Exit(1)
	}
}

// torture returns whether all promises were kept. It is cut short when the
// context ends, and judges what there is.
func torture(ctx context.Context, s settings) (sound bool, err error) {
	names := placeNames
	if s.place != "all" {
		names = strings.Split(s.place, ",")
	}
	for _, name := range names {
		if places[name] == nil {
			return false, fmt.Errorf("there is no place %q; there are %s", name, strings.Join(placeNames, ", "))
		}
	}
	dir, err := os.MkdirTemp("", "torture")
	if err != nil {
		return false, err
	}
	sound = false
	defer func() {
		if sound && !s.keep {
			_ = os.RemoveAll(dir)
		}
	}()
	if s.binary == "" {
		s.binary = filepath.Join(dir, "redlockrun")
		if err := build(s.binary, s.mutant); err != nil {
			return false, err
		}
	}
	fmt.Printf("seed %d, %d workers, %v at each place\n", s.seed, s.workers, s.time)
	var results []result
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(os.Stderr, "%s ...\n", name)
		r, err := perform(ctx, s, name, filepath.Join(dir, name+".history"))
		if err != nil {
			return false, fmt.Errorf("%s (seed %d, history in %s): %w", name, s.seed, dir, err)
		}
		results = append(results, r)
	}
	report(os.Stdout, results)
	sound = !slices.ContainsFunc(results, result.broken)
	if !sound || s.keep {
		fmt.Printf("\nThe histories are in %s.\n", dir)
	}
	return sound, nil
}
