//go:build unix

package redistest

import (
	"os"
	"syscall"
)

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
