// Bench times whole processes, from start to exit, side by side:
//
//	go run ./testdata/bench [-n ROUNDS] [-handoff]
//
// Each round runs every candidate once, in a changing order, so that what else
// the machine does falls on all of them alike. The table has medians, and the
// median of the ratios to the minimal wrapper within each round. Below it is
// the memory of a run. It needs Linux and redis-server, and takes flock and
// timeout along where they are installed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

type candidate struct {
	name string
	args []string
	wall []time.Duration
	cpu  []time.Duration
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "job" { // what the hand-offs run
		if err := job(os.Args[2], os.Args[3]); err != nil {
			log.Fatal(err)
		}
		return
	}
	rounds := flag.Int("n", 200, "rounds")
	waiting := flag.Bool("handoff", false, "time hand-offs as well, against flock and etcdctl where they are installed")
	flag.Parse()
	if err := bench(*rounds, *waiting); err != nil {
		log.Fatal(err)
	}
}

func bench(rounds int, waiting bool) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := redistest.Launch()
	if err != nil {
		return err
	}
	defer server.Close()
	for name, source := range map[string]string{"redlockrun": ".", "minimal": "./testdata/bench/minimal"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, name), source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if err := rewrite(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	candidates := []*candidate{
		{name: "minimal Go wrapper", args: []string{filepath.Join(dir, "minimal"), server.URL(), "bench", "true"}},
		{name: "redlockrun", args: []string{filepath.Join(dir, "redlockrun"), "-r", server.URL(), "-k", "bench", "--", "true"}},
		{name: "true", args: []string{"true"}},
		{name: "timeout", args: []string{"timeout", "60", "true"}},
		{name: "flock", args: []string{"flock", filepath.Join(dir, "lock"), "true"}},
	}
	candidates = slices.DeleteFunc(candidates, func(c *candidate) bool {
		_, err := exec.LookPath(c.args[0])
		return errors.Is(err, exec.ErrNotFound)
	})
	for range rounds {
		for _, i := range rand.Perm(len(candidates)) {
			if err := candidates[i].time(); err != nil {
				return err
			}
		}
	}
	fmt.Printf("%-20s %10s %10s %8s %8s\n", "", "wall", "cpu", "wall/min", "cpu/min")
	for _, c := range candidates {
		fmt.Printf("%-20s %8.2fms %8.2fms %8.2f %8.2f\n", c.name, millis(median(c.wall)), millis(median(c.cpu)),
			median(ratios(c.wall, candidates[0].wall)), median(ratios(c.cpu, candidates[0].cpu)))
	}
	if err := reportMemory(filepath.Join(dir, "redlockrun"), server.URL()); err != nil || !waiting {
		return err
	}
	return handOffs(dir, server)
}

// rewrite writes a program as an installer does, from one end to the other. The
// linker writes all over the file, which the system then keeps in small pieces:
// so it starts up to a seventh slower, and more so the larger it is.
func rewrite(program string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := os.Remove(program); err != nil {
		return err
	}
	return os.WriteFile(program, text, 0o755)
}

func (c *candidate) time() error {
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Stderr = os.Stderr
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	c.wall = append(c.wall, time.Since(start))
	c.cpu = append(c.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	return nil
}

func ratios(a, b []time.Duration) []float64 {
	list := make([]float64, len(a))
	for i := range a {
		list[i] = float64(a[i]) / float64(max(b[i], 1))
	}
	return list
}

func median[T time.Duration | float64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
