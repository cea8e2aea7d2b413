// Package embedded is a Redis-speaking server in the background, one per user and host, for locks that need no
// Redis server: on a single machine, to try things, and in tests.
//
// [Start] makes sure that it runs. The first run on a host starts it from the same binary; all later ones, from any
// shell, cron job or session of that user, find it at [SocketPath] of [Dir] and share it. It ends by itself when it
// has had no client and no live lock for a while.
//
// What it promises to a lock:
//   - One server per folder. It holds a file lock in the folder for as long as it lives, so that two can never serve
//     one socket or write one state file.
//   - No lock is lost when it dies, also by kill -9: the effect of a command is in a file before the reply leaves.
//     The file survives a process, not a crash of the host, which ends all holders too.
//   - No success is reported that is not in that file: when it cannot be written, the client gets a MISCONF error and
//     its connection is closed.
//   - A command whose effect the file cannot hold is refused with an error, not forgotten at the next start.
//
// The program that imports this package must call [Role] before it looks at its own arguments, as the server is the
// same binary started again.
package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// DefaultIdle is how long a server without a client and without a live lock stays.
const DefaultIdle = 5 * time.Minute

// ownPrefix begins the names of the records that the tool keeps beside its locks. A key of another name that has a
// time to live is a lock.
const ownPrefix = "redlockrun:"

// Files in the folder.
const (
	socketName      = "redis.sock"
	newSocketName   = "new.sock"    // bound, but not yet listening under its real name
	aloneSocketName = "old.sock"    // out of reach while the server decides whether to end
	startLockName   = "start.lock"  // held by who starts or ends the server
	serverLockName  = "server.lock" // held by the server for as long as it lives
	stateName       = "state.resp"
	newStateName    = "state.new"
	infoName        = "server.json"
	newInfoName     = "server.new"
	crashName       = "crash.log" // what the Go runtime says when the server dies of a fault of its own
)

// LocksHeldError is the refusal to stop a server that has live locks.
type LocksHeldError struct {
	Locks int // how many locks are held
}

func (e *LocksHeldError) Error() string {
	if e.Locks == 1 {
		return "1 lock is held"
	}
	return fmt.Sprintf("%d locks are held", e.Locks)
}

// DirError says why the server's folder cannot be used, and what to do about it.
type DirError struct {
	Path   string
	Reason string // "belongs to uid 1000, not to you (uid 0)"
	Next   string // "remove it, or set XDG_RUNTIME_DIR to a folder of your own"
	Err    error  // the cause, or nil
}

func (e *DirError) Error() string { return fmt.Sprintf("%s %s: %s", e.Path, e.Reason, e.Next) }
func (e *DirError) Unwrap() error { return e.Err }

// StartError says that the server did not come up.
type StartError struct {
	Dir    string
	Output string // what the server or the process that started it said, or ""
	Err    error  // how the process that started it ended
}

func (e *StartError) Error() string {
	if e.Output == "" {
		return fmt.Sprintf("the embedded server in %s did not start: %v", e.Dir, e.Err)
	}
	return fmt.Sprintf("the embedded server in %s did not start: %s", e.Dir, e.Output)
}
func (e *StartError) Unwrap() error { return e.Err }

// Config says where a server is and how it is started. The zero value is right for a program whose binary calls
// [Role] first.
type Config struct {
	Dir  string        // the folder; "" is that of Dir()
	Idle time.Duration // 0 is DefaultIdle; a server that runs already keeps its own

	Exe   string   // the binary to start; "" is the running one
	Argv0 string   // its argv[0]; "" is the base name of the running one's
	Env   []string // all of its environment: the caller's, which may hold secrets, is not passed on to a process that stays
}

func (c Config) complete() (Config, error) {
	var err error
	if c.Dir == "" {
		if c.Dir, err = Dir(); err != nil {
			return c, err
		}
	}
	if c.Idle <= 0 {
		c.Idle = DefaultIdle
	}
	if c.Exe == "" {
		if c.Exe, err = os.Executable(); err != nil {
			return c, fmt.Errorf("finding the binary to start: %w", err)
		}
	}
	if c.Argv0 == "" {
		c.Argv0 = filepath.Base(os.Args[0])
	}
	if c.Env == nil {
		c.Env = []string{}
	}
	return c, nil
}
