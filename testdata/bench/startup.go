package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// startUp times what runs before Redis is asked: programs that end before.
func (f *field) startUp(rounds int) ([]startUpResult, error) {
	run := func(args ...string) func() *exec.Cmd {
		return func() *exec.Cmd { return exec.Command(args[0], args[1:]...) }
	}
	program := f.program(redlockrun)
	samples := []*sample{
		{name: "an empty Go program", command: run(f.program("empty"))},
		{name: "redlockrun --version", command: run(program, "--version")},
	}
	if err := inTurns(rounds, samples); err != nil {
		return nil, err
	}
	all := make([]startUpResult, 0, len(samples))
	for _, s := range samples {
		all = append(all, startUpResult{s.name, millis(median(s.wall)), millis(median(s.cpu))})
	}
	return all, nil
}

// inits asks the runtime what the initialisation of packages takes. It is the
// same in both processes of a run.
func (f *field) inits(rounds int) []initResult {
	var all []initResult
	for _, p := range []struct {
		name string
		args []string
	}{
		{redlockrun, []string{f.program(redlockrun), "--version"}},
		{yardstick, []string{f.program("minimal"), "redis://127.0.0.1:1", "inits", "true"}},
	} {
		var totals []float64
		packages := map[string][]float64{}
		for range rounds {
			cmd := exec.Command(p.args[0], p.args[1:]...)
			cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
			var trace bytes.Buffer
			cmd.Stderr = &trace
			_ = cmd.Run() // the yardstick finds no server
			total := 0.0
			for line := range strings.Lines(trace.String()) {
				// init internal/bytealg @0.008 ms, 0 ms clock, 0 bytes, 0 allocs
				var path string
				var at, clock float64
				if _, err := fmt.Sscanf(line, "init %s @%f ms, %f ms clock", &path, &at, &clock); err == nil {
					packages[path] = append(packages[path], clock)
					total += clock
				}
			}
			totals = append(totals, total)
		}
		result := initResult{Name: p.name, Packages: len(packages), Total: rounded(median(totals))}
		for path, times := range packages {
			result.Dearest = append(result.Dearest, packageInit{path, rounded(median(times))})
		}
		slices.SortFunc(result.Dearest, func(a, b packageInit) int {
			return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Path, b.Path))
		})
		result.Dearest = result.Dearest[:min(8, len(result.Dearest))]
		all = append(all, result)
	}
	return all
}
