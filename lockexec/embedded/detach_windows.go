package embedded

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// detached makes a process one without a console and outside of the caller's process group.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}

// closeOnExec has nothing to do: handles are passed on by name only.
func closeOnExec() {}

func leaveOutput() error { return errors.Join(os.Stdout.Close(), os.Stderr.Close()) }

func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, windows.WSAECONNREFUSED)
}

func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, windows.WSAECONNRESET)
}

func isBusy(err error) bool { return errors.Is(err, windows.WSAEWOULDBLOCK) }
