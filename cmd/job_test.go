//go:build unix

package cmd_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// guardedLock is the lock of the key "k".
const guardedLock = "lock:report:k"

// job is a run of the program, whose command ends when it is told to.
type job struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan struct{}
}

// startJob runs a command under the lock "k", with those flags besides.
func startJob(t *testing.T, flags ...string) *job {
	t.Helper()
	j := &job{t: t, dir: t.TempDir(), ended: make(chan struct{})}
	j.cmd = exec.Command("redlockrun", append(append([]string{"--key", "k"}, flags...), "--",
		"sh", "-c", `echo $REDLOCKRUN_LOCK_FENCE >fence.new; mv fence.new fence; until [ -e finish ]; do sleep 0.02; done; exit 7`)...)
	j.cmd.Dir = j.dir
	j.cmd.Stderr = &j.stderr
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = j.cmd.Wait()
		close(j.ended)
	}()
	t.Cleanup(func() {
		_ = j.cmd.Process.Kill()
		<-j.ended
	})
	return j
}

// fence waits until the command runs, and returns its fencing number.
func (j *job) fence() int64 {
	j.t.Helper()
	file := filepath.Join(j.dir, "fence")
	eventually(j.t, "the command runs", func() bool {
		select {
		case <-j.ended:
			j.t.Fatalf("it has ended: %v\n%s", j.cmd.ProcessState, j.stderr.String())
		default:
		}
		_, err := os.Stat(file)
		return err == nil
	})
	text, err := os.ReadFile(file)
	if err != nil {
		j.t.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		j.t.Fatal(err)
	}
	return n
}

// passesTo finishes the job, which has that fencing number, and waits until the
// next one runs, whose number it returns: it is higher.
func (j *job) passesTo(next *job, fence int64) int64 {
	j.t.Helper()
	j.finish()
	j.ends(7)
	n := next.fence()
	if n <= fence {
		j.t.Errorf("the fence went from %d to %d", fence, n)
	}
	return n
}

func (j *job) finish() {
	j.t.Helper()
	if err := os.WriteFile(filepath.Join(j.dir, "finish"), nil, 0o600); err != nil {
		j.t.Fatal(err)
	}
}

// ends waits for the end of the run, and checks its exit code.
func (j *job) ends(code int) {
	j.t.Helper()
	select {
	case <-j.ended:
	case <-time.After(2 * time.Minute):
		j.t.Fatalf("it does not end\n%s", j.stderr.String())
	}
	if got := j.cmd.ProcessState.ExitCode(); got != code {
		j.t.Errorf("exit code %d, want %d\n%s", got, code, j.stderr.String())
	}
}

// runNow runs a command that does nothing under the lock "k".
func runNow(t *testing.T, flags ...string) int {
	t.Helper()
	cmd := exec.Command("redlockrun", append(append([]string{"--key", "k"}, flags...), "--", "true")...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("exit code %d: %s", cmd.ProcessState.ExitCode(), out)
	return cmd.ProcessState.ExitCode()
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(scriptPatience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
