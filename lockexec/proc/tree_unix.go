//go:build unix && !linux

package proc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func sysProcAttr(c Command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: c.Group}
}

// adoptOrphans: only Linux has subreapers.
func adoptOrphans() bool { return false }

// leftovers is asked only where orphans are adopted.
func (p *Process) leftovers() bool { return true }

func (p *Process) killTree() {
	p.signalTree(unix.SIGSTOP) // so that none is born unseen
	p.signalTree(unix.SIGKILL)
}

// signalTree reaches the child's group, and who descends from the child by
// parents that still live.
func (p *Process) signalTree(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		for _, pid := range descendants(p.pid) {
			_ = unix.Kill(pid, sig)
		}
		_ = unix.Kill(p.pid, sig)
	}
	if p.groupAlive() {
		_ = unix.Kill(-p.pid, sig)
	}
}

func killOrphanedGroup(group int) { _ = unix.Kill(-group, unix.SIGKILL) }

// canSeeTree: processes are asked for by other means than /proc.
func canSeeTree() bool { return true }

// runningMember: zombies can't be told apart here.
func runningMember(group, _ int) int { return group }

// isStopped and isContinued are known on Linux only.
func isStopped(int) bool   { return false }
func isContinued(int) bool { return false }

// Only Linux has cgroups.

func (p *Process) joinCgroup(string, *syscall.SysProcAttr) {}
func (p *Process) leaveCgroup(*syscall.SysProcAttr) bool   { return false }
func closeCgroup(*syscall.SysProcAttr)                     {}
func dropCgroup(string)                                    {}
