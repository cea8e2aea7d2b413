package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// handOffs times how long a lock takes from the end of one command to the start
// of the next, with so many waiting.
func (f *field) handOffs(numbers []int) ([]handOffResult, error) {
	var all []handOffResult
	for _, waiters := range numbers {
		tools := f.those(func(t tool) bool { return t.waits && t.most >= waiters })
		times := make([]handOffTimes, len(tools))
		rounds := handOffRounds(waiters)
		for range rounds { // in turns, as the machine has its moods
			for i, t := range tools {
				if err := times[i].measure(f, t, waiters); err != nil {
					return nil, fmt.Errorf("%s: %w", t.name, err)
				}
			}
		}
		for i, t := range tools {
			h := times[i]
			all = append(all, handOffResult{
				Name: t.name, Waiters: waiters, Rounds: rounds,
				P50: millis(median(h.gaps)), P99: millis(percentile(h.gaps, 99)), Drain: millis(median(h.drains)),
				HandOffs: len(h.gaps), Inversions: h.inversions,
			})
		}
	}
	return all, nil
}

// handOffRounds makes at least 20 hand-offs.
func handOffRounds(waiters int) int {
	switch {
	case waiters >= 500:
		return 1
	case waiters >= 50:
		return 3
	default:
		return max(5, 20/waiters)
	}
}

// handOffTimes are those of one tool.
type handOffTimes struct {
	gaps, drains []time.Duration
	inversions   int
}

// measure runs one command that holds the lock until all others wait, and then
// those, which note when they start and end.
func (h *handOffTimes) measure(f *field, t tool, waiters int) error {
	work, err := os.MkdirTemp(f.dir, "handoff")
	if err != nil {
		return err
	}
	all, err := f.queueUp(t, work, waiters, 0)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o600); err != nil {
		return err
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			return err
		}
	}
	var runs []run
	for n := range all {
		r, err := readRun(work, n)
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b run) int { return a.start.Compare(b.start) })
	for i := 1; i < len(runs); i++ {
		h.gaps = append(h.gaps, runs[i].start.Sub(runs[i-1].end))
		if runs[i].number < runs[i-1].number {
			h.inversions++
		}
	}
	h.drains = append(h.drains, runs[len(runs)-1].end.Sub(runs[0].end))
	return os.RemoveAll(work)
}

// queueUp starts one that holds the lock, and then as many that wait, in the
// order of their numbers. The key is the folder's name.
func (f *field) queueUp(t tool, work string, waiters int, ttl time.Duration) ([]*exec.Cmd, error) {
	var all []*exec.Cmd
	for n := range waiters + 1 {
		cmd := t.command(filepath.Base(work), true, ttl, f.program("job"), work, fmt.Sprint(n))
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		all = append(all, cmd)
		if n == 0 && !awaitFile(filepath.Join(work, "0"), time.Minute) {
			return nil, fmt.Errorf("the first of those who wait did not get the lock")
		}
		if n > 0 {
			t.awaitInLine(filepath.Base(work), n)
		}
	}
	time.Sleep(settle(waiters))
	return all, nil
}

// awaitInLine returns when so many wait, so that they arrive in the order in
// which they were started. It can't see that of all tools.
func (t tool) awaitInLine(key string, waiters int) {
	if t.inLine == nil {
		time.Sleep(100 * time.Millisecond)
		return
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && t.inLine(key) < waiters; {
		time.Sleep(5 * time.Millisecond)
	}
}

// inOurLine asks Redis: see docs/waiting.md.
func (f *field) inOurLine(key string) int {
	return int(f.client.ZCard(context.Background(), "redlockrun:queue:{lock:report:"+key+"}").Val())
}

// waitingFor counts those who wait for a lock of the kernel. Source:
// proc_locks(5).
func waitingFor(file string) int {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	inode := fmt.Sprintf(":%d ", info.Sys().(*syscall.Stat_t).Ino)
	locks, _ := os.ReadFile("/proc/locks")
	waiting := 0
	for line := range strings.Lines(string(locks)) {
		if strings.Contains(line, "->") && strings.Contains(line, inode) {
			waiting++
		}
	}
	return waiting
}

func awaitFile(file string, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return true
		}
	}
	return false
}

// run is what a job noted.
type run struct {
	number, pid int
	start, end  time.Time
	overlaps    bool // with job 0
}

func readRun(work string, number int) (run, error) {
	text, err := os.ReadFile(filepath.Join(work, fmt.Sprint(number)))
	if err != nil {
		return run{}, err
	}
	r := run{number: number}
	var start, end int64
	_, err = fmt.Sscan(string(text), &r.pid, &start, &end, &r.overlaps)
	r.start, r.end = time.Unix(0, start), time.Unix(0, end)
	return r, err
}

// settle is how long waiters may take until all of them stand in line.
func settle(waiters int) time.Duration {
	return 500*time.Millisecond + time.Duration(waiters)*5*time.Millisecond
}
