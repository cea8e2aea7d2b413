//go:build unix

package lockexec_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// A program may wait for any child that it has, as the first process of a
// container should: then Run can't know how the command ended.
func TestAStatusThatAnotherTookIsNoSuccess(t *testing.T) {
	_, admin := server(t)
	opts := lockexec.Options{
		Name: lockName, Command: []string{"sh", "-c", "exec sleep 1000"}, Once: "day",
		Observe: func(e lockexec.Event) {
			if e.Kind != lockexec.Started {
				return
			}
			_ = syscall.Kill(e.PID, syscall.SIGKILL)
			var status syscall.WaitStatus
			if _, err := syscall.Wait4(e.PID, &status, 0, nil); err != nil {
				t.Skip("Run was faster, and has it")
			}
		},
	}
	status, err := lockexec.Run(t.Context(), lock.New(admin), opts)
	if !errors.Is(err, lockexec.ErrStatusUnknown) || !status.Unknown {
		t.Errorf("got %v, %v, want ErrStatusUnknown", status, err)
	}
	opts.Command, opts.Observe = []string{"true"}, nil
	if _, err := lockexec.Run(t.Context(), lock.New(admin), opts); err != nil {
		t.Errorf("the next run: %v", err)
	}
}

// What is left running is nobody's business any more, also in a program that
// goes on for long.
func TestWhatIsLeftIsNotWatchedForEver(t *testing.T) {
	_, admin := server(t)
	dir := t.TempDir()
	_, err := lockexec.Run(t.Context(), lock.New(admin), lockexec.Options{
		Name: lockName, Command: []string{"sh", "-c", "sleep 1000 & echo $! >" + dir + "/pid"}, Leftovers: lockexec.LeaveLeftovers,
	})
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(readFile(dir + "/pid")))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	redistest.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "lockexec/proc.")
	}, "no goroutine of package proc is left")
	if syscall.Kill(pid, 0) != nil {
		t.Error("what was to be left alone has ended")
	}
}

// A command that was stopped may have lost its lock meanwhile: it goes on when
// that was asked for, and not before.
func TestACommandThatLostItsLockIsNotContinued(t *testing.T) {
	_, admin := server(t)
	stamps := filepath.Join(t.TempDir(), "stamps")
	exe, _ := os.Executable()
	signals := make(chan os.Signal, 1)
	var before string
	_, err := lockexec.Run(t.Context(), lock.New(admin), lockexec.Options{
		Name: lockName, Command: []string{exe, "note-time", stamps}, Signals: signals,
		Observe: func(e lockexec.Event) {
			if e.Kind == lockexec.Started {
				go func() {
					waitForFile(stamps)
					_ = syscall.Kill(e.PID, syscall.SIGSTOP)
				}()
			}
			if e.Kind == lockexec.Stopped {
				before = readFile(stamps)
				admin.Set(t.Context(), lockName, "another", time.Minute)
				signals <- syscall.SIGCONT
			}
		},
	})
	if !errors.Is(err, lockexec.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
	if after := readFile(stamps); after != before {
		t.Errorf("it ran on, from %d to %d bytes of stamps", len(before), len(after))
	}
}
