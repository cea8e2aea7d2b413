// Bench compares redlockrun with what one would use instead, side by side on
// this machine:
//
//	go run ./testdata/bench [-n ROUNDS] [-only LIST] [-waiters LIST] [-doc FILE] [-json FILE] [-svg FILE]
//
// It times whole runs from start to exit, their way to the server, hand-offs
// from one command to the next, waiters that have nothing to do, and how long a
// lock is nobody's after kill -9. What is compared takes turns, so that what
// else the machine does falls on all alike; the figures are medians, and
// medians of the ratios within a round.
//
// It needs Linux and redis-server. Programs that are not installed are left
// out, and named: flock and timeout, s6-setlock (Debian's s6), redis-cli
// (redis-tools), etcd and etcdctl (etcd-server, etcd-client).
//
// With -doc the tables go into the page, the figures and a chart into files
// beside it: this remakes the page of the documentation.
//
//	go run ./testdata/bench -doc docs/performance.md
//
// With -from FILE nothing is measured: the figures are those of a former run;
// with -only as well, these alone are measured again.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	rounds    int
	only      string
	waiters   string
	from      string
	doc       string
	json, svg string
}

func main() {
	log.SetFlags(0)
	var opts options
	flag.IntVar(&opts.rounds, "n", 200, "rounds of what takes milliseconds")
	flag.StringVar(&opts.only, "only", "", "measure these alone: runs, trips, startup, handoffs, idle, takeover")
	flag.StringVar(&opts.waiters, "waiters", "1,10,50,100,1000", "numbers of waiters in hand-offs; 1000 need 3 GB of memory and minutes")
	flag.StringVar(&opts.from, "from", "", "take the figures from this `FILE` of a former run")
	flag.StringVar(&opts.doc, "doc", "", "rewrite the tables in this page (`FILE`.md), and FILE.json and FILE.svg beside it")
	flag.StringVar(&opts.json, "json", "", "write the figures to this `FILE`")
	flag.StringVar(&opts.svg, "svg", "", "draw a chart in this `FILE`")
	flag.Parse()
	if err := bench(opts); err != nil {
		log.Fatal(err)
	}
}

func bench(opts options) (err error) {
	r := &results{Machine: thisMachine(opts.rounds)}
	if opts.from != "" {
		if r, err = readResults(opts.from); err != nil {
			return err
		}
	}
	if opts.from == "" || opts.only != "" {
		err = r.measure(opts)
	}
	r.print(os.Stdout)
	if err != nil {
		return err
	}
	if opts.doc != "" {
		if err := r.updatePage(opts.doc); err != nil {
			return err
		}
		beside := strings.TrimSuffix(opts.doc, ".md")
		opts.json, opts.svg = beside+".json", beside+".svg"
	}
	if opts.json != "" {
		if err := r.write(opts.json); err != nil {
			return err
		}
	}
	if opts.svg != "" {
		return os.WriteFile(opts.svg, []byte(r.chart()), 0o644)
	}
	return nil
}

// step is one of the measurements.
type step struct {
	name string
	run  func() error
}

// measure takes all figures, or those that are asked for.
func (r *results) measure(opts options) error {
	numbers, err := list(opts.waiters)
	if err != nil {
		return err
	}
	if opts.from != "" {
		r.Machine.Again = fmt.Sprintf("%s, with a load of %s before", opts.only, load())
	}
	f, missing, err := newField()
	if err != nil {
		return err
	}
	defer f.close()
	r.Missing = missing
	if _, err := exec.LookPath("etcd"); err == nil {
		stop, err := f.startEtcd()
		if err != nil {
			return err
		}
		defer stop()
	}
	var failed error
	for _, s := range r.steps(f, opts.rounds, numbers) {
		if opts.only != "" && !slices.Contains(strings.Split(opts.only, ","), s.name) {
			continue
		}
		start := time.Now()
		if err := s.run(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.name, err))
		}
		log.Printf("%s: %.0f s", s.name, time.Since(start).Seconds())
	}
	if opts.from == "" {
		r.Machine.Load = load()
	}
	return failed
}

// steps are all measurements.
func (r *results) steps(f *field, rounds int, numbers []int) []step {
	some := min(rounds, 40)
	return []step{
		{"runs", func() (err error) { r.Runs, err = f.uncontended(rounds); return err }},
		{"trips", func() (err error) { r.Trips, err = f.trips(some); return err }},
		{"startup", func() (err error) {
			r.Inits = f.inits(some)
			r.StartUp, err = f.startUp(rounds)
			return err
		}},
		{"handoffs", func() (err error) { r.HandOffs, err = f.handOffs(numbers); return err }},
		{"idle", func() (err error) {
			r.Idle, err = f.idle(50, time.Duration(min(20, rounds))*time.Second)
			return err
		}},
		{"takeover", func() (err error) { r.TakeOver, err = f.takeOvers(min(rounds, 5)); return err }},
	}
}

func list(text string) ([]int, error) {
	var numbers []int
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-waiters: %q is no number of waiters", word)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
