package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// retryDelay is the time between two looks at a socket or a file lock that another process is about to change.
const retryDelay = 5 * time.Millisecond

// Start makes sure that the server runs: it returns nil once one accepts connections on the socket. When one does
// already, that costs one connect; else it starts one, and of many that start at once exactly one does so while the
// others wait for it.
//
// The server is not a child of the caller and shares no session, descriptor or environment with it. (A caller that is
// a child subreaper, or process 1, inherits it as every orphan below it; see [IsServer].)
//
// Start returns a *DirError when the folder cannot be used, a *StartError with what the server said when it failed,
// and an error that wraps ctx's when that ends first. It is safe for concurrent use, by many processes too.
func Start(ctx context.Context, cfg Config) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	if err := makeDir(cfg.Dir); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(cfg.Dir, startLockName))
	unlock := func() { _ = lock.Unlock() }
	defer func() { unlock() }()
	doing := "connecting to the embedded server in " + cfg.Dir
	for {
		if conn, err := connect(ctx, cfg.Dir); err == nil {
			return conn.Close()
		} else if !canPass(err) {
			return fmt.Errorf("%s: %w", doing, err)
		}
		// Who gets the lock looks once more before starting a server, as one may have come since.
		if lock.Locked() {
			started := make(chan error, 1)
			release := unlock
			unlock = func() {}
			go func() {
				err := spawn(context.WithoutCancel(ctx), cfg)
				release()
				started <- err
			}()
			select {
			case err := <-started:
				return err
			case <-ctx.Done():
				return fmt.Errorf("waiting for the embedded server in %s to come up: %w", cfg.Dir, ctx.Err())
			}
		}
		if got, err := lock.TryLock(); err != nil {
			return fmt.Errorf("locking %s: %w", lock.Path(), err)
		} else if got {
			continue
		}
		doing = fmt.Sprintf("waiting for the process that starts or ends the embedded server (it holds %s)", lock.Path())
		if err := pause(ctx); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
}

// Dial connects to the server, and starts it first where none runs. It fits a Redis client's Dialer: a server that
// ended or was killed comes back at the next reconnect, with the locks it had. The errors are those of [Start].
func Dial(ctx context.Context, cfg Config) (net.Conn, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	for {
		if err := Start(ctx, cfg); err != nil {
			return nil, err
		}
		conn, err := connect(ctx, cfg.Dir)
		if err == nil || !canPass(err) {
			return conn, err
		}
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("connecting to the embedded server: %w", err)
		}
	}
}

// connect returns a connection to the server of a folder that was found safe.
func connect(ctx context.Context, dir string) (net.Conn, error) {
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", SocketPath(dir))
}

// canPass reports whether connect may succeed once a server was started, or when tried again.
func canPass(err error) bool {
	_, badDir := errors.AsType[*DirError](err)
	return !badDir && (isAbsent(err) || isBusy(err))
}

// pause waits for a moment, or returns ctx's error when it ends.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(retryDelay):
		return nil
	}
}

// startPatience is how long a server may take to be ready, beyond the wait for the one before it to end.
const startPatience = serverLockWait + 20*time.Second

// spawn starts a server and returns nil once it is ready. It starts it through a process that ends then, so that the
// server becomes an orphan and init's.
func spawn(ctx context.Context, cfg Config) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	said := &limited{max: 16 << 10}
	cmd := exec.CommandContext(ctx, cfg.Exe)
	cmd.Args = []string{cfg.Argv0, RoleStart, cfg.Dir, cfg.Idle.String()}
	cmd.Env = cfg.Env
	cmd.Dir = string(os.PathSeparator)
	cmd.Stderr = said
	cmd.SysProcAttr = detached()
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for the embedded server in %s to come up: %w", cfg.Dir, ctx.Err())
	default:
		return &StartError{Dir: cfg.Dir, Output: strings.TrimSpace(said.String()), Err: err}
	}
}

// limited keeps the first max bytes written to it.
type limited struct {
	bytes.Buffer
	max int
}

func (l *limited) Write(p []byte) (int, error) {
	keep := min(len(p), max(0, l.max-l.Len()))
	l.Buffer.Write(p[:keep])
	return len(p), nil
}
