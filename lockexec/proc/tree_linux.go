package proc

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func sysProcAttr(c Command) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pgid: c.Group}
	if !c.Survives {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

// adoptOrphans makes this process the parent of what its descendants leave
// behind, and reports whether it is.
func adoptOrphans() bool {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
}

// canSeeTree: /proc may be missing, or show another PID namespace, as in a
// container that was entered by half (unshare without --mount-proc): then the
// numbers there are those of strangers.
func canSeeTree() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
}

// killOrphanedGroup: they are adopted, and the group's number may be another's.
func killOrphanedGroup(int) {}

func isStopped(pid int) bool { return statOf(pid).state == "T" }

func isContinued(pid int) bool {
	s := statOf(pid)
	return canSeeTree() && (s.dead() || strings.Contains("RSD", s.state))
}

// stat is what the kernel says of a process; of one that it does not know,
// nothing.
type stat struct {
	state         string // a letter, that of the first thread
	parent, group int
	threads       int
}

func statOf(pid int) (s stat) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}
	}
	// "PID (COMMAND) STATE PPID PGRP ...": the command may hold anything.
	fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(fields) < 18 {
		return stat{}
	}
	s.state = fields[0]
	s.parent, _ = strconv.Atoi(fields[1])
	s.group, _ = strconv.Atoi(fields[2])
	s.threads, _ = strconv.Atoi(fields[17])
	return s
}

// dead reports whether nothing of the process runs. The first thread may have
// ended before the others.
func (s stat) dead() bool {
	return s.state == "" || strings.ContainsAny(s.state, "ZX") && s.threads <= 1
}

// runningMember returns a member of a process group that is not dead, 0 if there
// is none; last is what it returned before. Where members can't be seen, the
// group's number stands for one: also where /proc hides the processes of others
// (hidepid), of whom the first process is one.
func runningMember(group, last int) int {
	runs := func(pid int) bool {
		s := statOf(pid)
		return s.group == group && !s.dead()
	}
	if last != 0 && runs(last) {
		return last
	}
	if !canSeeTree() || statOf(1).state == "" {
		return group
	}
	for range 2 { // as one may be born behind the look
		for _, pid := range processes() {
			if runs(pid) {
				return pid
			}
		}
	}
	return 0
}

// roots returns the processes at which the child's tree begins: all of our
// children where they are ours alone, else the child. The caller holds p.mu
// for as long as it uses them, so that their numbers stay theirs.
func (p *Process) roots() []int {
	if p.adopt.Load() {
		return p.children(os.Getpid())
	}
	if p.reaped {
		return nil
	}
	return []int{p.pid}
}

// leftovers reports whether this process has children that are not spared.
func (p *Process) leftovers() bool { return len(p.children(os.Getpid())) > 0 }

// children lists the children of a process that are of the child's tree.
func (p *Process) children(pid int) []int {
	list := childrenOf(pid)
	if p.spare != nil {
		list = slices.DeleteFunc(list, p.spare)
	}
	return list
}

// killTree stops every process before it asks for its children, so that none
// is born unseen behind the walk, then kills them all. The child's group is
// stopped as a whole first, as it may grow faster than the walk goes; it is not
// killed before the walk has asked whose parents they are, for until the dead
// have ended, which may take long on a busy machine, their children are nobody's.
func (p *Process) killTree() {
	p.mu.Lock()
	defer p.mu.Unlock()
	signalGroup := func(sig syscall.Signal) {
		if p.ownGroup && p.groupAlive() {
			_ = unix.Kill(-p.pid, sig)
		}
	}
	signalGroup(unix.SIGSTOP)
	var doomed []int
	for next := p.roots(); len(next) > 0; {
		pid := next[0]
		next = next[1:]
		if unix.Kill(pid, unix.SIGSTOP) != nil {
			continue
		}
		doomed = append(doomed, pid)
		next = append(next, p.children(pid)...)
	}
	signalGroup(unix.SIGKILL)
	for _, pid := range doomed {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

func (p *Process) signalTree(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for next := p.roots(); len(next) > 0; next = next[1:] {
		next = append(next, p.children(next[0])...)
		_ = unix.Kill(next[0], sig)
	}
	if !p.adopt.Load() && p.groupAlive() {
		_ = unix.Kill(-p.pid, sig)
	}
}

// childrenOf lists the children of all threads of a process. One that has
// ended has none.
func childrenOf(pid int) []int {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return nil
	}
	var children []int
	for _, thread := range threads {
		list, err := os.ReadFile(tasks + "/" + thread.Name() + "/children")
		if err != nil {
			return childrenByParent(pid) // the kernel has no such list
		}
		for field := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// childrenByParent finds the children of a process by asking all processes
// for their parent.
func childrenByParent(pid int) []int {
	return slices.DeleteFunc(processes(), func(candidate int) bool { return statOf(candidate).parent != pid })
}

// processes lists all that can be seen.
func processes() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
