//go:build unix && !linux

package redistest

import (
	"os/exec"
	"syscall"
)

// endWithParent does nothing: only Linux can tie a process to its parent.
func endWithParent(*exec.Cmd) {}

func stop(p *process) error { return p.os.Signal(syscall.SIGSTOP) }
