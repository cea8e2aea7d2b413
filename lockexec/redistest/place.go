package redistest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
)

// The ports of servers lie below those that kernels give to outgoing connections (from 32768 on Linux, 49152
// elsewhere), so that nobody takes the port of a server that is down for a moment. The same is true of the port of a
// cluster bus, which is 10000 higher.
const (
	firstPort = 10000
	lastPort  = 21999
)

// maxSocketDir is the longest directory whose sockets have a path every system accepts (104 bytes on macOS).
const maxSocketDir = 90

// freePorts returns n different loopback ports on which nobody listens at the moment.
func freePorts(n int) ([]int, error) {
	var ports []int
	var last error
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		var random [2]byte
		_, _ = rand.Read(random[:])
		port := firstPort + int(binary.NativeEndian.Uint16(random[:]))%(lastPort-firstPort+1)
		if slices.Contains(ports, port) {
			continue
		}
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", loopback(port))
		if err != nil {
			last = err
			continue
		}
		l.Close()
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("no free loopback port: %w", last)
}

// tempDir makes a private directory with a path short enough for sockets in it.
func tempDir() (string, error) {
	const pattern = "redis"
	dir, err := os.MkdirTemp("", pattern)
	if err == nil && len(dir) <= maxSocketDir {
		return dir, nil
	}
	if err == nil {
		err = errors.Join(fmt.Errorf("%s is too long for sockets", dir), os.Remove(dir))
	}
	if runtime.GOOS == "windows" {
		return "", err
	}
	return os.MkdirTemp("/tmp", pattern)
}
