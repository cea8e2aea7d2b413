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

func keyboardSignal(sig os.Signal) bool {
	return sig == unix.SIGINT || sig == unix.SIGQUIT || sig == unix.SIGWINCH
}

func stopSignal(sig os.Signal) bool {
	switch sig {
	case unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGABRT:
		return true
	default:
		return false
	}
}

func signalNumber(name string) syscall.Signal {
	if n, err := strconv.Atoi(name); err == nil {
		if sig := syscall.Signal(n); n > 0 && unix.SignalName(sig) != "" {
			return sig
		}
		return 0
	}
	return unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG"))
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(sig))
}

func onTerminal() bool {
	tty, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(tty)
	foreground, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}
