package proc

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The real-time signals, as the C library numbers them. It uses those below the
// first, and the Go runtime does not give the first to programs.
const (
	firstRealTime = 34
	lastRealTime  = 64
)

// realTimeName returns a name like RTMIN+3, as "kill -l" has it, or "".
func realTimeName(sig syscall.Signal) string {
	switch {
	case sig == firstRealTime:
		return "RTMIN"
	case sig == lastRealTime:
		return "RTMAX"
	case sig > firstRealTime && sig < lastRealTime:
		return "RTMIN+" + strconv.Itoa(int(sig-firstRealTime))
	default:
		return ""
	}
}

// realTimeNumber reads RTMIN, RTMAX, RTMIN+N and RTMAX-N, and returns 0 for
// all else.
func realTimeNumber(name string) syscall.Signal {
	base, sign := firstRealTime, byte('+')
	rest, found := strings.CutPrefix(name, "RTMIN")
	if !found {
		base, sign = lastRealTime, '-'
		if rest, found = strings.CutPrefix(name, "RTMAX"); !found {
			return 0
		}
	}
	offset := 0
	if rest != "" {
		n, err := strconv.ParseUint(rest[1:], 10, 8)
		if err != nil || rest[0] != sign {
			return 0
		}
		if offset = int(n); sign == '-' {
			offset = -offset
		}
	}
	if n := base + offset; n >= firstRealTime && n <= lastRealTime {
		return syscall.Signal(n)
	}
	return 0
}

func rareSignals() []os.Signal {
	list := []os.Signal{unix.SIGPWR}
	for sig := unix.Signal(firstRealTime + 1); sig <= lastRealTime; sig++ {
		list = append(list, sig)
	}
	return list
}
