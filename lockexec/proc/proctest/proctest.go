//go:build unix

// Package proctest is for tests that start processes.
package proctest

import (
	"os"
	"os/signal"
	"syscall"
)

// HeedSignals gives what the tests start the usual dispositions of signals, also
// where the tests themselves were started by what ignores some: nohup, or a job
// in the background of a shell script. It is for TestMain.
func HeedSignals() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig) // who is started gets the default in place of a handler
		}
	}
}
