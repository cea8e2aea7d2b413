//go:build unix

package embedded

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// detached makes a process a session of its own: no terminal, and no part in the caller's process group.
func detached() *unix.SysProcAttr { return &unix.SysProcAttr{Setsid: true} }

// closeOnExec keeps the descriptors that this process inherited, such as a shell's `exec 9>file`, from the next one.
func closeOnExec() {
	fds, err := os.ReadDir("/dev/fd")
	if err != nil {
		for fd := 3; fd < 4096; fd++ {
			unix.CloseOnExec(fd)
		}
		return
	}
	for _, entry := range fds {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// leaveOutput puts /dev/null in the place of standard output and error.
func leaveOutput() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	return errors.Join(dup(null, 1), dup(null, 2))
}

// isAbsent reports whether a failed connect means that no server listens.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}

// isCut reports whether an exchange failed as the other end closed the connection.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

// isBusy reports whether a failed connect means that a server listens and has a full queue.
func isBusy(err error) bool { return errors.Is(err, unix.EAGAIN) }
