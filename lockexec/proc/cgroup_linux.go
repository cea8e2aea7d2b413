package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The cgroup of a tree is one more means to kill it, before the walk that is
// in tree_linux.go: the kernel takes all of it at one stroke, however fast it
// forks and whichever user it became. Who is in the tree is asked of the walk
// alone: what has left the cgroup is still of the tree.
//
// A cgroup has one master, systemd most of the time. Only below one that was
// delegated may others make more. Whatever fails here is passed over, as the
// walk does without.

// delegatedCgroup looks up where cgroups are mounted only for one that may be
// delegated: to look it up takes most of the time.
func delegatedCgroup() string {
	path := cgroupPath()
	if path == "" || undelegated(path) {
		return ""
	}
	if dir := cgroupDir(path); dir != "" && delegateMark(dir) == nil {
		return dir
	}
	return ""
}

// cgroupPath returns the cgroup (v2) of this process, or "".
func cgroupPath() string {
	cgroups, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(cgroups)) {
		if path, found := strings.CutPrefix(line, "0::"); found {
			return strings.TrimSuffix(path, "\n")
		}
	}
	return ""
}

// undelegated reports whether a cgroup is without a mark, as far as it is
// where it is on most systems, also beside cgroups of v1.
func undelegated(path string) bool {
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var system unix.Statfs_t
		if unix.Statfs(mount, &system) == nil && system.Type == unix.CGROUP2_SUPER_MAGIC {
			return errors.Is(delegateMark(mount+path), unix.ENODATA)
		}
	}
	return false
}

// cgroupDir returns the directory of a cgroup, or "". What is mounted may
// begin at any cgroup, as in a container.
func cgroupDir(path string) string {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		mount, kind, _ := strings.Cut(line, " - ")
		fields := strings.Fields(mount)
		if !strings.HasPrefix(kind, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		root, dir := fields[3], fields[4]
		below, found := strings.CutPrefix(path, strings.TrimSuffix(root, "/"))
		if found && (below == "" || below[0] == '/') && filepath.IsLocal("."+below) { // not outside of a namespace
			return filepath.Join(dir, below)
		}
	}
	return ""
}

// The marks that systemd puts on what it delegates. The older one root alone
// can see.
const (
	delegatedMark    = "user.delegate"
	oldDelegatedMark = "trusted.delegate"
)

// delegateMark returns nil if a directory has one of the marks, else an error:
// ENODATA if it has none.
func delegateMark(dir string) (err error) {
	value := make([]byte, 8)
	for _, name := range []string{delegatedMark, oldDelegatedMark} {
		var n int
		if n, err = unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" {
			return nil
		}
	}
	if err == nil { // it says no
		err = unix.ENODATA
	}
	return err
}

// joinCgroup makes a cgroup and has the child be born in it. It is delegated
// in turn, so that the child finds what it had without it.
func (p *Process) joinCgroup(dir string, attr *syscall.SysProcAttr) {
	if dir == "" || unix.Mkdir(dir, 0o755) != nil {
		return
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = unix.Rmdir(dir)
		return
	}
	_ = unix.Setxattr(dir, delegatedMark, []byte("1"), 0)
	p.cgroup = dir
	attr.UseCgroupFD, attr.CgroupFD = true, fd
}

// leaveCgroup undoes joinCgroup for a child that could not be started, and
// reports whether there was anything to be undone.
func (p *Process) leaveCgroup(attr *syscall.SysProcAttr) bool {
	if !attr.UseCgroupFD {
		return false
	}
	closeCgroup(attr)
	_ = unix.Rmdir(p.cgroup)
	p.cgroup = ""
	return true
}

func closeCgroup(attr *syscall.SysProcAttr) {
	if attr.UseCgroupFD {
		_ = unix.Close(attr.CgroupFD)
		attr.UseCgroupFD = false
	}
}

// dropCgroup removes a cgroup that nobody is in.
func dropCgroup(dir string) {
	if dir != "" {
		_ = unix.Rmdir(dir)
	}
}

// killCgroup has everybody stand still while those who are spared are looked
// for.
func killCgroup(dir string, spare func(pid int) bool) {
	if dir == "" {
		return
	}
	kill, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return // it is gone, or Linux is older than 5.14
	}
	defer kill.Close()
	if spare != nil {
		writeCgroup(dir, "cgroup.freeze", "1")
		evict(dir, spare)
	}
	_, _ = kill.WriteString("1")
}

// removePause is the time between two tries to remove a cgroup.
const removePause = time.Millisecond

// removeCgroup tries it more than once: one that was killed may take a moment to
// die, and still be counted as being in the cgroup when it has.
func removeCgroup(dir string, spare func(pid int) bool, tries int) {
	if dir == "" {
		return
	}
	for range tries {
		if err := unix.Rmdir(dir); !errors.Is(err, unix.EBUSY) {
			return
		}
		if spare != nil {
			evict(dir, spare)
		}
		for _, sub := range slices.Backward(cgroupsOf(dir)) {
			_ = unix.Rmdir(sub)
		}
		time.Sleep(removePause)
	}
}

// evict moves those who are spared to where the tree has come from.
func evict(dir string, spare func(pid int) bool) {
	for _, sub := range cgroupsOf(dir) {
		list, _ := os.ReadFile(filepath.Join(sub, "cgroup.procs"))
		for field := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(field); err == nil && spare(pid) {
				writeCgroup(filepath.Dir(dir), "cgroup.procs", field)
			}
		}
	}
}

// cgroupsOf returns dir and all below it, each before its own.
func cgroupsOf(dir string) (all []string) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	return all
}

func writeCgroup(dir, name, value string) {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = file.WriteString(value)
	_ = file.Close()
}
