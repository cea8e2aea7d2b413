package proc

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// awaitEnd returns a channel that is closed when the child has ended, or when
// that can't be told any more; or nil, where it can't be told at all: before
// Linux 5.10. The child must not have been waited for.
func (p *Process) awaitEnd() <-chan struct{} {
	fd, err := unix.PidfdOpen(p.pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), "child")
	child, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer file.Close()
		_ = child.Read(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) //nolint:gosec // a descriptor
			return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
		})
	}()
	return ended
}
