package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// scene is one way to lose the holder of a lock.
type scene struct {
	tool   tool
	ttl    time.Duration // 0 is the tool's own
	whole  bool          // all processes of the holder are killed, not the first alone
	times  []time.Duration
	result takeOverResult
}

// takeOvers kills those who hold a lock, and times how soon the next one has
// it. All tools do so side by side, as most of the time nothing happens; no two
// of them are killed at once.
func (f *field) takeOvers(rounds int) ([]takeOverResult, error) {
	var scenes []*scene
	for _, t := range f.those(func(t tool) bool { return t.waits }) {
		ttls := []time.Duration{0}
		if t.expires != 0 {
			ttls = append(ttls, equalTTL)
		}
		for _, ttl := range ttls {
			scenes = append(scenes, &scene{tool: t, ttl: ttl, whole: true}, &scene{tool: t, ttl: ttl})
		}
	}
	var kill sync.Mutex
	for range rounds {
		errs := make([]error, len(scenes))
		var wait sync.WaitGroup
		for i, s := range scenes {
			wait.Go(func() { errs[i] = s.play(f, &kill) })
		}
		wait.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	all := make([]takeOverResult, 0, len(scenes))
	for _, s := range scenes {
		all = append(all, s.summary(rounds))
	}
	return all, nil
}

// What is killed.
const (
	victimAll     = "all of it"
	victimWrapper = "the wrapper"
)

// equalTTL is that with which the tools that have one are compared.
const equalTTL = 5 * time.Second

func (s *scene) summary(rounds int) takeOverResult {
	r := s.result
	r.Name, r.Rounds, r.Victim = s.tool.name, rounds, victimWrapper
	if s.whole {
		r.Victim = victimAll
	}
	r.TTL = "none"
	if s.tool.expires != 0 {
		r.TTL = s.tool.expires.String() + ", the default"
	}
	if s.ttl != 0 {
		r.TTL, r.Custom = s.ttl.String(), true
	}
	r.Median, r.Max = millis(median(s.times)), millis(percentile(s.times, 100))
	return r
}

// play is one round.
func (s *scene) play(f *field, kill *sync.Mutex) error {
	work, err := os.MkdirTemp(f.dir, "takeover")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var all []*exec.Cmd
	for n := range 2 {
		cmd := s.tool.command(filepath.Base(work), true, s.ttl, f.program("job"), work, fmt.Sprint(n))
		cmd.Stderr = nil // etcdctl complains of what was done to it
		if err := cmd.Start(); err != nil {
			return err
		}
		all = append(all, cmd)
		if n == 0 && !awaitFile(filepath.Join(work, "0"), time.Minute) {
			return fmt.Errorf("%s does not start", s.tool.name)
		}
	}
	holder := tree(all[0].Process.Pid)
	// At any point of what the holder does again and again.
	life := max(s.ttl, 5*time.Second)
	time.Sleep(time.Second + rand.N(life/3))

	kill.Lock()
	killed := time.Now()
	end(holder, s.whole)
	time.Sleep(300 * time.Millisecond)
	kill.Unlock()

	taken := awaitFile(filepath.Join(work, "1"), max(s.tool.expires, s.ttl)+5*time.Second)
	if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o600); err != nil {
		return err
	}
	_ = all[0].Wait()
	if err := all[1].Wait(); err != nil {
		return fmt.Errorf("%s: %w", s.tool.name, err)
	}
	next, err := readRun(work, 1)
	if err != nil {
		return err
	}
	if !taken {
		s.result.Kept++
		return nil
	}
	if next.overlaps {
		s.result.Overlaps++
	}
	s.times = append(s.times, next.start.Sub(killed))
	return nil
}

// end kills a tree of processes, the first one alone or all: these stand still
// before, so that none of them learns of the end of another.
func end(pids []int, whole bool) {
	if !whole {
		pids = pids[:1]
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
