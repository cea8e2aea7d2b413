//go:build unix

package proc

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func forwardable() []os.Signal {
	var list []os.Signal
	for _, sig := range []os.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGABRT, unix.SIGALRM, unix.SIGIO, unix.SIGWINCH,
	} {
		if !signal.Ignored(sig) {
			list = append(list, sig)
		}
	}
	return list
}

func jobSignals() []os.Signal {
	if ignored(unix.SIGTSTP) {
		return []os.Signal{unix.SIGCONT}
	}
	return []os.Signal{unix.SIGTSTP, unix.SIGCONT}
}

func keyboardSignal(sig os.Signal) bool {
	return sig == unix.SIGINT || sig == unix.SIGQUIT || sig == unix.SIGWINCH || sig == unix.SIGTSTP
}

func stopSignal(sig os.Signal) bool {
	switch sig {
	case unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGABRT:
		return true
	default:
		return false
	}
}

// deadlySignal: the Go runtime lets a process die of these, and be stopped by
// TSTP; all others it drops. Source: the documentation of package os/signal.
func deadlySignal(sig os.Signal) bool { return stopSignal(sig) || sig == unix.SIGTSTP }

func signalNumber(name string) syscall.Signal {
	if n, err := strconv.Atoi(name); err == nil {
		if sig := syscall.Signal(n); n > 0 && (unix.SignalName(sig) != "" || realTimeName(sig) != "") {
			return sig
		}
		return 0
	}
	name = strings.TrimPrefix(name, "SIG")
	if sig := realTimeNumber(name); sig != 0 {
		return sig
	}
	return unix.SignalNum("SIG" + name)
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	if name := realTimeName(sig); name != "" {
		return "SIG" + name
	}
	return "signal " + strconv.Itoa(int(sig))
}
