//go:build linux || darwin

package embedded

import (
	"net"
	"syscall"
)

// control calls f with the descriptor of conn.
func control(conn net.Conn, f func(fd int)) {
	if sc, ok := conn.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { f(int(fd)) })
		}
	}
}
