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

func (p *Process) killTree() { p.signalTree(unix.SIGKILL) }

func (p *Process) signalTree(sig syscall.Signal) {
	if p.groupAlive() {
		_ = unix.Kill(-p.pid, sig)
		return
	}
	_ = p.Signal(sig)
}
