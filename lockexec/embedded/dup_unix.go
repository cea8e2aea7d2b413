//go:build unix && !linux

package embedded

import (
	"os"

	"golang.org/x/sys/unix"
)

func dup(file *os.File, fd int) error { return unix.Dup2(int(file.Fd()), fd) }
