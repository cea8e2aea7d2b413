// Package cgrouptest makes real cgroups for tests of what is done with them.
package cgrouptest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Group is a cgroup of version 2 that a test has for itself. At the test's end
// all that is in it is killed, and it is removed.
type Group struct {
	Dir string
	testing.TB
}

// New makes a group, and marks it as delegated if it is to be so. It skips the
// test where cgroups can't be made, or not be killed as a whole.
func New(t testing.TB, delegated bool) *Group {
	t.Helper()
	mount := mountPoint()
	if mount == "" {
		t.Skip("no file system of cgroup version 2 is mounted")
	}
	dir, err := os.MkdirTemp(mount, "redlockrun.test-") //nolint:usetesting // it is no common folder
	if err != nil {
		t.Skipf("can't make a cgroup: %v", err)
	}
	g := &Group{dir, t}
	t.Cleanup(g.remove)
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil {
		t.Skipf("Linux before 5.14: %v", err)
	}
	if delegated {
		if err := unix.Setxattr(dir, "user.delegate", []byte("1"), 0); err != nil {
			t.Skipf("can't mark a cgroup as delegated: %v", err)
		}
	}
	return g
}

func mountPoint() string {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "cgroup2" {
			return fields[1]
		}
	}
	return ""
}

// Attr has what is started with it begin in the group.
func (g *Group) Attr() *syscall.SysProcAttr {
	g.Helper()
	dir, err := os.Open(g.Dir)
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { _ = dir.Close() })
	return &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
}

// Write writes to one of the group's files.
func (g *Group) Write(name, value string) {
	g.Helper()
	file, err := os.OpenFile(filepath.Join(g.Dir, name), os.O_WRONLY, 0)
	if err != nil {
		g.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(value); err != nil {
		g.Fatal(err)
	}
}

// Below returns the directories of the groups below this one, each before its
// own.
func (g *Group) Below() (dirs []string) {
	entries, _ := os.ReadDir(g.Dir)
	for _, entry := range entries {
		if entry.IsDir() {
			sub := &Group{filepath.Join(g.Dir, entry.Name()), g.TB}
			dirs = append(append(dirs, sub.Dir), sub.Below()...)
		}
	}
	return dirs
}

// Members returns the processes that are in a group, without those of the
// groups below it.
func Members(dir string) (pids []int) {
	list, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for field := range strings.FieldsSeq(string(list)) {
		pid, _ := strconv.Atoi(field)
		pids = append(pids, pid)
	}
	return pids
}

// Populated reports whether anything lives in a group, or below it.
func Populated(dir string) bool {
	events, _ := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	return strings.Contains(string(events), "populated 1")
}

func (g *Group) remove() {
	_ = os.WriteFile(filepath.Join(g.Dir, "cgroup.kill"), []byte("1"), 0)
	for range 1000 {
		for _, dir := range slices.Backward(append([]string{g.Dir}, g.Below()...)) {
			_ = unix.Rmdir(dir)
		}
		if _, err := os.Stat(g.Dir); err != nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	g.Errorf("the cgroup %s can't be removed", g.Dir)
}
