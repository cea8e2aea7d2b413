//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

const (
	// childCode is how the guarded work ends when nothing befalls it.
	childCode = 7
	// stampPause is the time between two signs of life of it.
	stampPause = time.Millisecond
	// longestWork ends work that nobody ends, such as that of a child that
	// redlockrun forgot.
	longestWork = 3 * time.Minute
)

// The environment tells the guarded work what redlockrun does not.
const (
	runVariable     = "TORTURE_RUN"
	historyVariable = "TORTURE_HISTORY"
	jobVariable     = "TORTURE_JOB"
)

// work is what the guarded command does.
type work struct {
	capacity int
	busy     time.Duration
	stubborn bool          // it does not end when asked to
	daemon   time.Duration // it leaves a process running, which goes on for that long
}

func (w work) String() string {
	return fmt.Sprintf("%d %d %t %d", w.capacity, w.busy, w.stubborn, w.daemon)
}

func parseWork(text string) (w work, err error) {
	_, err = fmt.Sscan(text, &w.capacity, &w.busy, &w.stubborn, &w.daemon)
	return w, err
}

// child is the guarded command. What it writes to the history is all that the
// judge knows of it.
func child() (code int, err error) {
	h, err := openHistory(os.Getenv(historyVariable))
	if err != nil {
		return 1, err
	}
	id := os.Getenv(runVariable)
	w, err := parseWork(os.Getenv(jobVariable))
	if err != nil {
		return 1, err
	}
	if w.stubborn {
		signal.Ignore(syscall.SIGTERM)
	}
	if len(os.Args) > 2 { // what a child left running
		return 0, stamps(h, id, w.daemon)
	}
	fence, err := strconv.ParseInt(os.Getenv("REDLOCKRUN_LOCK_FENCE"), 10, 64)
	if err != nil {
		return 1, err
	}
	if err := h.add("enter", id, os.Getpid(), os.Getenv("REDLOCKRUN_LOCK_KEY"), w.capacity, fence); err != nil {
		return 1, err
	}
	if w.daemon > 0 {
		if err := leaveRunning(); err != nil {
			return 1, err
		}
	}
	if err := stamps(h, id, w.busy); err != nil {
		return 1, err
	}
	return childCode, h.add("leave", id)
}

func stamps(h *history, id string, long time.Duration) error {
	for end := lock.Now().Add(min(long, longestWork)); lock.Now() < end; time.Sleep(stampPause) {
		if err := h.add("stamp", id); err != nil {
			return err
		}
	}
	return nil
}

// leaveRunning starts a process in a session of its own.
func leaveRunning() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	next := &exec.Cmd{Path: exe, Args: []string{os.Args[0], childRole, "daemon"}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	return next.Start()
}
