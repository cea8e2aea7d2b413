//go:build unix

// Mutate takes the guards of this program out, one at a time, and looks whether
// the test that is named for each fails. The source is left alone: the compiler
// is told to read another file in the place of the one that is changed.
//
//	go run ./testdata/mutate [-list] [-only NAME,...] [-timeout 5m]
//
// First each of these tests runs on the program as it is: it must pass, or
// its failure would prove nothing. It exits with 1 if a mutant survives, does
// not apply any more, or does not compile.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redlockrun/redlockrun/testdata/mutate/mutants"
)

func main() {
	list := flag.Bool("list", false, "print the table for docs/proof.md, and run nothing")
	only := flag.String("only", "", "`NAME,...` of the mutants to run; all")
	timeout := flag.Duration("timeout", 5*time.Minute, "for one test; who takes longer has failed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *list, *only, *timeout); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, list bool, only string, timeout time.Duration) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	if list {
		for _, m := range chosen {
			fmt.Println(m.Row())
		}
		return nil
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	for _, m := range chosen { // before much time is spent
		if _, err := m.Apply(strings.TrimSpace(string(root))); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	adopt()
	lab := &lab{root: strings.TrimSpace(string(root)), dir: dir, timeout: timeout, sound: map[string]error{}}
	return lab.tryAll(ctx, chosen)
}

// choose returns the mutants of these names, or all.
func choose(only string) ([]mutants.Mutant, error) {
	all := mutants.All()
	if only == "" {
		return all, nil
	}
	var chosen []mutants.Mutant
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(m mutants.Mutant) bool { return m.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no mutant %q: see -list", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
