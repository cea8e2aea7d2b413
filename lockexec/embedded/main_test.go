//go:build unix

package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
)

// Roles of the test binary beside those of the package.
const (
	roleEnsure = "__test-ensure" // EXE DIR: calls Start, as a run of the tool does
	roleHold   = "__test-hold"   // FILE: locks it, says so, and stays
)

func TestMain(m *testing.M) {
	if run, ok := embedded.Role(os.Args); ok {
		os.Exit(run())
	}
	logging.Disable() // servers are killed here
	if len(os.Args) > 1 {
		var err error
		switch os.Args[1] {
		case roleEnsure:
			err = embedded.Start(context.Background(), embedded.Config{
				Exe: os.Args[2], Dir: os.Args[3], Idle: time.Minute, Env: []string{"GORACE=atexit_sleep_ms=0"},
			})
		case roleHold:
			err = hold(os.Args[2])
		default:
			os.Exit(m.Run())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func hold(file string) error {
	if err := flock.New(file).Lock(); err != nil {
		return err
	}
	fmt.Println("locked")
	time.Sleep(time.Minute)
	return nil
}

// patience bounds each wait for a condition. It is long, as the machine may be busy; nothing waits for its end.
const patience = 2 * time.Minute

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until condition returns true.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// newConfig returns a server that does not run yet, and no longer runs when the test has ended.
func newConfig(t testing.TB) embedded.Config {
	t.Helper()
	parent, err := os.MkdirTemp("", "rl") //nolint:usetesting // a socket needs a short path
	if err != nil {
		t.Fatal(err)
	}
	races := filepath.Join(parent, "races")
	cfg := embedded.Config{
		Dir:  filepath.Join(parent, "redlockrun"),
		Idle: time.Minute,
		// The server's own output goes nowhere, so that the race detector needs a file.
		Env: []string{"GORACE=atexit_sleep_ms=0 log_path=" + races},
	}
	t.Cleanup(func() {
		// A start that the test killed may bring a server up yet.
		eventually(t, "the servers of the test end", func() bool {
			if _, err := embedded.Stop(within(t), cfg.Dir, true); err != nil {
				t.Errorf("stopping the server of the test: %v", err)
			}
			lock := flock.New(filepath.Join(cfg.Dir, "server.lock"))
			defer lock.Unlock()
			free, err := lock.TryLock()
			return free || err != nil
		})
		if reports, _ := filepath.Glob(races + "*"); len(reports) > 0 {
			report, err := os.ReadFile(reports[0])
			t.Errorf("data race in the server (%v):\n%s", err, report)
		}
		eventually(t, "the folder is removed", func() bool { return os.RemoveAll(parent) == nil })
	})
	return cfg
}

func start(t testing.TB, cfg embedded.Config) {
	t.Helper()
	if err := embedded.Start(within(t), cfg); err != nil {
		t.Fatalf("Start: %v", err)
	}
}

func status(t testing.TB, dir string) embedded.Info {
	t.Helper()
	info, err := embedded.Status(within(t), dir)
	if err != nil {
		t.Fatalf("Status: %v", err)
	}
	return info
}

// awaitNoServer returns when no process holds the server's lock.
func awaitNoServer(t testing.TB, dir string) {
	t.Helper()
	lock := flock.New(filepath.Join(dir, "server.lock"))
	if _, err := lock.TryLockContext(within(t), time.Millisecond); err != nil {
		t.Fatalf("a server is still there: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// kill9 kills the server and returns when it is dead.
func kill9(t testing.TB, dir string) {
	t.Helper()
	kill9PID(t, dir, status(t, dir).PID)
}

func kill9PID(t testing.TB, dir string, pid int) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("no pid of the server in %s: %d", dir, pid)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
	awaitNoServer(t, dir)
}

// newClient returns a client with the options that the tool uses.
func newClient(t testing.TB, dir string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Network:               "unix",
		Addr:                  embedded.SocketPath(dir),
		MaxRetries:            -1,
		DialerRetries:         1,
		DisableIdentity:       true,
		ContextTimeoutEnabled: true,
		ReadTimeout:           patience,
		WriteTimeout:          patience,
	})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

func do(t testing.TB, rdb *redis.Client, args ...any) any {
	t.Helper()
	reply, err := rdb.Do(within(t), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}
