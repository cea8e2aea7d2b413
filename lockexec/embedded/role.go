package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// First arguments of the processes that [Start] makes of the running binary.
const (
	RoleStart = "__embedded-start" // starts the server, waits until it is ready, and ends
	RoleServe = "__embedded-serve" // is the server
)

// readyMark is the last thing the server writes before it lets go of its standard output.
const readyMark = "ready\n"

// Role returns what this process is to do when args (all of os.Args) say that it is a process of the embedded server,
// and false in all other cases. A program must call it before it does anything else, and end with the number that run
// returns.
func Role(args []string) (run func() int, ok bool) {
	if len(args) < 2 {
		return nil, false
	}
	var role func(dir string, idle time.Duration) error
	switch args[1] {
	case RoleStart:
		role = startServer
	case RoleServe:
		role = serve
	default:
		return nil, false
	}
	return func() int {
		if err := runRole(role, args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}, true
}

func runRole(role func(string, time.Duration) error, args []string) error {
	if len(args) != 2 {
		return errors.New("this is a process of the embedded server, not to be started by hand")
	}
	idle, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	return role(args[0], idle)
}

// startServer starts the server in a session of its own and returns nil when it is ready, or else an error with what
// it said. Of what this process inherited, only the environment is passed on.
func startServer(dir string, idle time.Duration) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	closeOnExec()
	cmd := exec.CommandContext(context.Background(), exe) // nothing of ours ends it
	cmd.Args = []string{filepath.Base(os.Args[0]), RoleServe, dir, idle.String()}
	cmd.Env = os.Environ()
	cmd.Dir = string(os.PathSeparator)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	said, err := io.ReadAll(r) // ends when the server is ready, or has ended
	if err != nil {
		return err
	}
	if bytes.HasSuffix(said, []byte(readyMark)) {
		return nil
	}
	if err := cmd.Wait(); len(said) == 0 {
		return fmt.Errorf("the server ended before it was ready: %w", err)
	}
	return errors.New(string(bytes.TrimSpace(said)))
}

// announceReady tells startServer that connections are accepted, and leaves standard output and error.
func announceReady() error {
	// When nobody reads any more, who started us was killed; that is no reason to end.
	_, _ = os.Stdout.WriteString(readyMark)
	return leaveOutput()
}
