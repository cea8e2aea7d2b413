//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// orphanGrace is how long after the end of redlockrun what it had started may be
// seen. It has killed it before, or does so within milliseconds; the rest is for
// a busy machine. A supervisor whose wrapper was killed may release for longer.
const (
	orphanGrace     = 10 * time.Second
	supervisorGrace = 30 * time.Second
)

// strikes are the faults of processes. Each run gets one at most, so that never
// both the wrapper and its supervisor are killed, or one killed and one stopped:
// docs/supervision.md tells what is left then.
var strikes = []struct {
	kind   string
	whom   func(wrapper int) int
	signal unix.Signal
	resume bool
}{
	{"kill W", wrapperOf, unix.SIGKILL, false},
	{"kill W at work", atWork(wrapperOf), unix.SIGKILL, false},
	{"kill S", supervisorOf, unix.SIGKILL, false},
	{"kill S at work", atWork(supervisorOf), unix.SIGKILL, false},
	{"kill C", commandOf, unix.SIGKILL, false},
	{"freeze W", wrapperOf, unix.SIGSTOP, true},
	{"freeze W at work", atWork(wrapperOf), unix.SIGSTOP, true},
	{"freeze S", supervisorOf, unix.SIGSTOP, true},
	{"freeze S at work", atWork(supervisorOf), unix.SIGSTOP, true},
	{"freeze C", commandOf, unix.SIGSTOP, true},
	{"end W", wrapperOf, unix.SIGTERM, false},
}

// strikeAll strikes one run after the other, until the context ends.
func (s *scene) strikeAll(ctx context.Context, rng *rand.Rand) {
	done := make(chan struct{}, 1000)
	waiting := 0
	for ctx.Err() == nil {
		pause(ctx, between(rng, 50*time.Millisecond, 600*time.Millisecond))
		frozen := between(rng, 50*time.Millisecond, 5*time.Second)
		waiting++
		s.strike(ctx, rng, frozen, func() { done <- struct{}{} })
		for len(done) > 0 {
			<-done
			waiting--
		}
	}
	for ; waiting > 0; waiting-- {
		<-done
	}
}

// strike calls done when the fault is over.
func (s *scene) strike(ctx context.Context, rng *rand.Rand, frozen time.Duration, done func()) {
	over := done
	defer func() { over() }()
	what := strikes[rng.IntN(len(strikes))]
	var wrapper, victim *os.Process
	for try := 0; victim == nil; try++ { // commands live for some milliseconds only
		if try == 50 || ctx.Err() != nil {
			return
		}
		if wrapper, victim = s.victim(what.kind, what.whom, rng); victim == nil {
			pause(ctx, 2*time.Millisecond)
		}
	}
	begin := lock.Now()
	if victim.Signal(what.signal) != nil {
		return
	}
	s.note(what.kind, false, begin)
	if !what.resume {
		return
	}
	over = func() {}
	go func() {
		defer done()
		pause(ctx, frozen)
		_ = victim.Signal(unix.SIGCONT)
		if what.kind == "freeze C" { // which the wrapper mirrors, as a job's
			_ = wrapper.Signal(unix.SIGCONT)
		}
	}()
}

// victim returns a process of a run that was not struck before, and its wrapper.
func (s *scene) victim(kind string, whom func(wrapper int) int, rng *rand.Rand) (wrapper, victim *os.Process) {
	id, wrapper := s.pick(kind, rng.IntN)
	if wrapper == nil {
		return nil, nil
	}
	victim = find(whom(wrapper.Pid), id)
	if victim == nil {
		s.spare(id)
	}
	return wrapper, victim
}

// spare takes back that a run was struck.
func (s *scene) spare(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.present[id]; p != nil {
		p.struck = ""
	}
}

// find returns a process if it belongs to the run: a process ID may have become
// another's.
func find(pid int, id string) *os.Process {
	if pid <= 1 {
		return nil
	}
	process, err := os.FindProcess(pid)
	if err != nil || runOf(pid) != id {
		return nil
	}
	return process
}

// runOf returns the run that a process belongs to, or "".
func runOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for variable := range bytes.SplitSeq(text, []byte{0}) {
		if id, ok := strings.CutPrefix(string(variable), runVariable+"="); ok {
			return id
		}
	}
	return ""
}

func wrapperOf(wrapper int) int    { return wrapper }
func supervisorOf(wrapper int) int { return firstChild(wrapper) }
func commandOf(wrapper int) int    { return firstChild(firstChild(wrapper)) }

// atWork finds a process while the command runs.
func atWork(whom func(wrapper int) int) func(wrapper int) int {
	return func(wrapper int) int {
		if commandOf(wrapper) == 0 {
			return 0
		}
		return whom(wrapper)
	}
}

// firstChild returns the first child of a process, or 0.
func firstChild(pid int) int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		if fields := strings.Fields(string(text)); pid > 0 && len(fields) > 0 {
			child, _ := strconv.Atoi(fields[0])
			return child
		}
	}
	return 0
}

// lookForOrphans counts processes of runs that have ended a while ago, and ends
// them.
func (s *scene) lookForOrphans(reported map[string]bool) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range all {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		id := runOf(pid)
		s.mu.Lock()
		end, ended := s.past[id]
		s.mu.Unlock()
		if id == "" || !ended || reported[id] {
			continue
		}
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		grace := orphanGrace
		if bytes.Contains(args, []byte("__supervise")) {
			grace = supervisorGrace
		}
		if age := lock.Now().Until(end); age > grace && len(args) > 0 {
			reported[id] = true
			s.count(&s.orphans, "orphan: process %d of %s (%q) lives %v after its run; %s", pid, id, args, age, condition(pid))
			if process := find(pid, id); process != nil {
				_ = process.Kill()
			}
		}
	}
}

// condition says what the system tells of a process: its state and its parent.
func condition(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	var found []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "State:") || strings.HasPrefix(line, "PPid:") || strings.HasPrefix(line, "SigPnd:") {
			found = append(found, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(found, ", ")
}

// play plays the faults of the place, one after the other, until the context
// ends.
func (s *scene) play(ctx context.Context, rng *rand.Rand, lossless bool) error {
	var bag []fault
	for _, f := range s.place.faults {
		for range f.weight {
			if !f.lossy || !lossless {
				bag = append(bag, f)
			}
		}
	}
	for {
		pause(ctx, between(rng, 500*time.Millisecond, 4*time.Second))
		if ctx.Err() != nil {
			return nil
		}
		f := bag[rng.IntN(len(bag))]
		begin := lock.Now()
		err := attempt(func() { f.play(ctx, rng) })
		s.note(f.kind, f.lossy, begin)
		if err != nil {
			return fmt.Errorf("%s: %w", f.kind, err)
		}
	}
}

// sabotage deletes locks behind everybody's back, and does not own up to it.
func (s *scene) sabotage(ctx context.Context, rng *rand.Rand) {
	for ; ctx.Err() == nil; pause(ctx, between(rng, 100*time.Millisecond, time.Second)) {
		k := s.place.keys[rng.IntN(len(s.place.keys))]
		for _, client := range s.place.direct {
			_ = client.Del(ctx, prefix+k.name).Err()
		}
	}
}
