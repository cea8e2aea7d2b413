//go:build unix

package cmd

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// wasClosed reports whether a standard stream was closed when this process was
// started: the runtime then has put the null device in its place, open for
// reading and writing, which no shell does by > or <.
func wasClosed(file *os.File) bool {
	info, err := file.Stat()
	if err != nil {
		return true
	}
	null, err := os.Stat(os.DevNull)
	if err != nil || !os.SameFile(info, null) {
		return false
	}
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}

// readerGone reports whether the other end of a pipe was closed.
func readerGone(stream io.Writer) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	look := []unix.PollFd{{Fd: int32(file.Fd())}} //nolint:gosec // descriptors are small
	n, err := unix.Poll(look, 0)
	return err == nil && n > 0 && look[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}

// columns returns the width of a terminal, or 0 if it can't be told.
func columns(file *os.File) int {
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
