//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// prefix is what redlockrun puts before a key when it is told nothing else.
const prefix = "lock:report:"

const (
	waitFor        = 8 * time.Second  // of those who wait
	connectTimeout = 10 * time.Second // how long a fault may last
	// bound is how long any run may take: its wait, its connecting and its work, on a busy machine. Who takes longer
	// is starved.
	bound = 60 * time.Second
	// lastWait is how long those wait who take each lock once when the faults are over.
	lastWait = 40 * time.Second
)

// worker takes locks, one after the other.
type worker struct {
	*scene
	number, runs int
	rng          *rand.Rand
}

// job is one run to come.
type job struct {
	key
	work
	capacityFlags []string
	wait          time.Duration // 0: none
	long          bool          // work that may be longer than a lease
	minHold       time.Duration
	byToken       bool // acquire, renew, release
	late          bool // it works on until its lease is over, and releases then
	history       bool
	replicas      bool
}

// choose makes up a job.
func (w *worker) choose() job {
	// A few workers are on one key alone, with work that is long enough to meet
	// with faults; the others make many.
	j := job{key: w.place.keys[0]}
	longOdds := 40
	if w.number%3 != 0 {
		j.key = w.place.keys[1+w.rng.IntN(len(w.place.keys)-1)]
		longOdds = 1
	}
	switch {
	case j.alone:
		j.capacity = 1
	case j.slots > 0:
		j.capacity = j.slots
		j.capacityFlags = []string{"--slots", strconv.Itoa(j.slots)}
	case w.rng.IntN(3) > 0:
		j.capacityFlags = []string{"--shared"}
	default:
		j.capacity = 1
	}
	odds := func(percent int) bool { return w.rng.IntN(100) < percent }
	if odds(70) {
		j.wait = waitFor
	}
	j.busy = between(w.rng, 0, 15*time.Millisecond)
	if j.long = odds(longOdds); j.long {
		j.busy = between(w.rng, j.ttl/2, 5*j.ttl/2)
	}
	j.stubborn = odds(50)
	if odds(2) {
		j.daemon = between(w.rng, 0, 500*time.Millisecond)
	}
	if j.long && odds(50) {
		j.daemon = longestWork
	}
	if odds(2) {
		j.minHold = between(w.rng, 50*time.Millisecond, 300*time.Millisecond)
	}
	j.byToken = !j.long && odds(12)
	j.late = odds(5)
	j.history = odds(30) && len(w.place.direct) != 3
	j.replicas = odds(20) && w.place.replicated
	return j
}

func (j job) flags() []string {
	flags := append([]string{"--ttl", j.ttl.String(), "--connect-timeout", connectTimeout.String()}, j.capacityFlags...)
	if j.wait > 0 {
		flags = append(flags, "--wait", j.wait.String())
	}
	if j.replicas {
		flags = append(flags, "--wait-replicas", "1")
	}
	return flags
}

// loop works until the context ends.
func (w *worker) loop(ctx context.Context) error {
	// A redlockrun is to die with this program, which the system counts from
	// the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for ctx.Err() == nil {
		j := w.choose()
		do := w.guarded
		if j.byToken {
			do = w.heldByToken
		}
		if _, err := do(j); err != nil {
			return err
		}
		pause(ctx, between(w.rng, 0, 20*time.Millisecond))
	}
	return nil
}

// last takes each lock once, now that there are no faults.
func (w *worker) last() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, k := range w.place.keys {
		j := job{key: k, work: work{capacity: 1}, wait: lastWait}
		if k.slots > 0 {
			j.capacity, j.capacityFlags = k.slots, []string{"--slots", strconv.Itoa(k.slots)}
		}
		code, err := w.guarded(j)
		if err != nil {
			return err
		}
		if code != childCode {
			w.count(&w.starved, "starved: worker %d ended with %d at %s, when there were no faults", w.number, code, k.name)
		}
	}
	return nil
}

// guarded runs a command under the lock, and returns how that ended.
func (w *worker) guarded(j job) (code int, err error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	args := append(append(slices.Clone(w.place.flags), "--key", j.name), j.flags()...)
	args = append(args, w.extra...)
	if j.minHold > 0 {
		args = append(args, "--min-hold", j.minHold.String())
	}
	if j.history {
		args = append(args, "--history", "5")
	}
	args = append(args, "--", exe, childRole)
	id := w.newRun()
	cmd, stderr := w.command(id, j, args)
	code, err = w.run(id, j.long, cmd)
	if err == nil {
		w.judgeEnd(id, code, stderr.String())
	}
	return code, err
}

func (w *worker) newRun() string {
	w.runs++
	return w.runID(w.runs)
}

// runID is unlike those of other places, and of other tortures.
func (w *worker) runID(n int) string {
	return fmt.Sprintf("%s-%d-w%d-%d", w.name, os.Getpid(), w.number, n)
}

func (w *worker) command(id string, j job, args []string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(w.binary, args...)
	cmd.Env = append(append(os.Environ(), w.place.environ...),
		runVariable+"="+id, historyVariable+"="+w.history.file.Name(), jobVariable+"="+j.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second // of what a killed one left behind with its standard error
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	return cmd, stderr
}

// run starts redlockrun and waits for its end: an exit code, or 128 and the
// number of the signal that killed it.
func (w *worker) run(id string, long bool, cmd *exec.Cmd) (code int, err error) {
	if err := w.history.add("launch", id); err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	w.began(id, &presence{process: cmd.Process, long: long})
	timer := time.AfterFunc(bound, func() {
		w.count(&w.starved, "starved: %s took longer than %v", id, bound)
		_ = cmd.Process.Kill()
	})
	err = cmd.Wait()
	timer.Stop()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return 0, fmt.Errorf("%s: %w", id, err)
	}
	code = status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
	}
	err = w.history.add("end", id, code)
	w.ended(id)
	return code, err
}

// heldByToken takes the lock for this process itself, which keeps to what it is
// told of the lease, as a careful script would.
func (w *worker) heldByToken(j job) (code int, err error) {
	call := func(stdout *bytes.Buffer, args ...string) (int, error) {
		args = append(append([]string{args[0], j.name}, w.place.flags...), args[1:]...)
		id := w.newRun()
		cmd, stderr := w.command(id, j, args)
		if stdout != nil {
			cmd.Stdout = stdout
		}
		code, err := w.run(id, false, cmd)
		if err == nil {
			w.judgeEnd(id, code, stderr.String())
		}
		return code, err
	}
	var told bytes.Buffer
	asked := w.runs + 1
	code, err = call(&told, append([]string{"acquire", "--json"}, j.flags()...)...)
	if err != nil || code != 0 {
		return code, err
	}
	var lease struct {
		Key, Token string
		Fence      int64
		ExpiresAt  time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal(told.Bytes(), &lease); err != nil {
		return 0, fmt.Errorf("acquire said %q: %w", told.String(), err)
	}
	id := w.runID(asked)
	end := lock.Now().Add(time.Until(lease.ExpiresAt))
	busy := j.busy
	if j.late {
		busy = j.ttl
	}
	if err := w.workUntil(id, lease.Key, j.capacity, lease.Fence, end, busy); err != nil {
		return 0, err
	}
	if j.late {
		time.Sleep(end.Until(lock.Now()) + 100*time.Millisecond)
	} else if w.rng.IntN(2) == 0 {
		before := lock.Now()
		flags := []string{"renew", "--token", lease.Token, "--ttl", j.ttl.String(), "--connect-timeout", "1s"}
		code, err = call(nil, flags...)
		if err == nil && code == 0 {
			// 1 % and 2 ms less, as redlockrun itself counts.
			end = before.Add(j.ttl - j.ttl/100 - 2*time.Millisecond)
			err = w.workUntil(id, "", 0, 0, end, busy)
		}
		if err != nil {
			return 0, err
		}
	}
	return call(nil, "release", "--token", lease.Token, "--connect-timeout", "2s")
}

// workUntil is the work of this process, which ends with its lease.
func (w *worker) workUntil(id, name string, capacity int, fence int64, end lock.Instant, busy time.Duration) error {
	var errs error
	until := min(end, lock.Now().Add(busy))
	for first := name != ""; ; time.Sleep(stampPause) {
		now := lock.Now()
		if now >= until && (!first || now >= end) {
			return errs
		}
		if first {
			errs = errors.Join(errs, w.history.addAt(now, "enter", id, os.Getpid(), name, capacity, fence))
			first = false
			continue
		}
		errs = errors.Join(errs, w.history.addAt(now, "stamp", id))
	}
}
