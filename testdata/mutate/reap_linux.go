package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of what tests leave behind: a mutant may
// be one that forgets what it has started.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// killLeftovers ends all children of this process, and theirs, which become
// its own. No command of ours may run.
func killLeftovers() {
	for range 1000 {
		children := childrenOf(os.Getpid())
		if len(children) == 0 {
			return
		}
		for _, pid := range children {
			_ = unix.Kill(pid, unix.SIGKILL)
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func childrenOf(parent int) (children []int) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		rest := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // the state, then the parent
		if len(rest) > 1 && rest[1] == strconv.Itoa(parent) {
			children = append(children, pid)
		}
	}
	return children
}
