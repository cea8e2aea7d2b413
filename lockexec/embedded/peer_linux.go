package embedded

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerPID returns the process that listens at the other end, or 0 when the system does not tell.
func peerPID(conn net.Conn) (pid int) {
	control(conn, func(fd int) {
		if peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}
