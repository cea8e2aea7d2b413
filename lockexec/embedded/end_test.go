//go:build unix

package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
)

func gone(file string) bool {
	_, err := os.Lstat(file)
	return errors.Is(err, fs.ErrNotExist)
}

func TestUnusedServerEnds(t *testing.T) {
	cfg := newConfig(t)
	cfg.Idle = 50 * time.Millisecond
	start(t, cfg)
	rdb := newClient(t, cfg.Dir)
	do(t, rdb, "SET", "redlockrun:done:{k}", "yes", "EX", 3600) // a record is no lock
	rdb.Close()
	eventually(t, "the unused server ends", func() bool { return gone(embedded.SocketPath(cfg.Dir)) })
	awaitNoServer(t, cfg.Dir)

	cfg.Idle = time.Minute
	start(t, cfg)
	if got := do(t, newClient(t, cfg.Dir), "GET", "redlockrun:done:{k}"); got != "yes" {
		t.Errorf("the marker after the end: got %v", got)
	}
}

func TestServerInUseStays(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, dir string) (end func()){
		"client": func(t *testing.T, dir string) func() {
			rdb := newClient(t, dir)
			do(t, rdb, "PING")
			return func() { rdb.Close() }
		},
		"lock": func(t *testing.T, dir string) func() {
			rdb := newClient(t, dir)
			do(t, rdb, "SET", "lock:report:k", token, "PX", 500)
			rdb.Close()
			return func() {} // it expires
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := newConfig(t)
			cfg.Idle = 10 * time.Millisecond
			conn := connected(t, cfg)
			end := use(t, cfg.Dir)
			conn.Close()
			pid := status(t, cfg.Dir).PID
			began := time.Now()
			for time.Since(began) < 20*cfg.Idle {
				if got := status(t, cfg.Dir); got.PID != pid {
					t.Fatalf("a server in use ended: got %+v", got)
				}
			}
			end()
			eventually(t, "the server ends after its use", func() bool { return gone(embedded.SocketPath(cfg.Dir)) })
		})
	}
}

// connected returns a connection that keeps the server; one that was made just before its end may be cut.
func connected(t *testing.T, cfg embedded.Config) net.Conn {
	t.Helper()
	for {
		conn, err := embedded.Dial(within(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := command(conn, "PING"); err == nil {
			return conn
		}
		conn.Close()
	}
}

// command sends one command on a bare connection and returns the first line of the reply.
func command(conn net.Conn, args ...string) (string, error) {
	request := fmt.Sprintf("*%d\r\n", len(args))
	for _, arg := range args {
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

// Clients that come at the instant at which the server ends are served, or fail at once; nothing that they were told
// is lost from one server to the next.
func TestClientsComeWhileTheServerEnds(t *testing.T) {
	cfg := newConfig(t)
	cfg.Idle = 10 * time.Millisecond
	var told atomic.Int64
	var servers sync.Map
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 40 {
				time.Sleep(rand.N(4 * cfg.Idle))
				conn, err := embedded.Dial(within(t), cfg)
				if err != nil {
					t.Errorf("Dial: %v", err)
					return
				}
				before := told.Load()
				reply, err := command(conn, "INCR", "redlockrun:count")
				conn.Close()
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("a client was neither served nor refused")
					return
				} else if err != nil {
					continue
				}
				n, err := strconv.ParseInt(strings.TrimPrefix(reply, ":"), 10, 64)
				if err != nil || n <= before {
					t.Errorf("INCR: got %q (%v), want more than %d", reply, err, before)
				}
				for old := told.Load(); n > old && !told.CompareAndSwap(old, n); old = told.Load() {
				}
				if info, err := os.ReadFile(filepath.Join(cfg.Dir, "server.json")); err == nil {
					servers.Store(string(info), nil)
				}
			}
		})
	}
	clients.Wait()
	count := 0
	servers.Range(func(any, any) bool { count++; return true })
	t.Logf("%d increments by at least %d servers", told.Load(), count)
	if count < 2 {
		t.Error("the test met no end of a server")
	}
}

func TestSIGTERMEndsTheServerInOrder(t *testing.T) {
	cfg := newConfig(t)
	start(t, cfg)
	rdb := newClient(t, cfg.Dir)
	do(t, rdb, "SET", "lock:report:k", token, "EX", 3600)
	pid := status(t, cfg.Dir).PID
	for _, ignored := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if err := syscall.Kill(pid, ignored); err != nil {
			t.Fatal(err)
		}
		do(t, rdb, "PING")
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitNoServer(t, cfg.Dir)
	for _, name := range []string{"redis.sock", "old.sock", "new.sock", "server.json"} {
		if !gone(filepath.Join(cfg.Dir, name)) {
			t.Errorf("%s is still there", name)
		}
	}
	start(t, cfg)
	if got := do(t, newClient(t, cfg.Dir), "GET", "lock:report:k"); got != token {
		t.Errorf("the lock after SIGTERM: got %v", got)
	}
}

func TestServerWhoseSocketWasRemovedMakesRoom(t *testing.T) {
	cfg := newConfig(t)
	start(t, cfg)
	do(t, newClient(t, cfg.Dir), "SET", "lock:report:k", token, "EX", 3600)
	if err := os.Remove(embedded.SocketPath(cfg.Dir)); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
	if got := do(t, newClient(t, cfg.Dir), "GET", "lock:report:k"); got != token {
		t.Errorf("the lock after the socket was removed: got %v", got)
	}
}

// A server whose folder was removed must not write into the one that took its place.
func TestServerWhoseFolderWasRemovedWritesNowhere(t *testing.T) {
	cfg := newConfig(t)
	start(t, cfg)
	old := newClient(t, cfg.Dir)
	do(t, old, "SET", "lock:report:k", token, "EX", 3600)
	witness := connected(t, cfg)
	defer witness.Close()
	if err := os.RemoveAll(cfg.Dir); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
	do(t, newClient(t, cfg.Dir), "SET", "lock:report:new", token, "EX", 3600)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if old.Do(ctx, "SET", "lock:report:k", token).Err() == nil {
		t.Error("the old server promised what it cannot keep")
	}
	state, err := os.ReadFile(filepath.Join(cfg.Dir, "state.resp"))
	if err != nil || strings.Contains(string(state), "lock:report:k") || !strings.Contains(string(state), "lock:report:new") {
		t.Errorf("state of the new server (%v):\n%s", err, state)
	}
	if _, err := io.Copy(io.Discard, witness); err != nil {
		t.Errorf("waiting for the old server to end: %v", err)
	}
}

func TestBlockedClientThatLeftIsForgotten(t *testing.T) {
	cfg := newConfig(t)
	start(t, cfg)
	conn, err := embedded.Dial(within(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "*3\r\n$5\r\nBLPOP\r\n$4\r\nwake\r\n$1\r\n0\r\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client is seen", func() bool { return status(t, cfg.Dir).Clients == 1 })
	conn.Close()
	eventually(t, "the client is forgotten", func() bool { return status(t, cfg.Dir).Clients == 0 })
	rdb := newClient(t, cfg.Dir)
	do(t, rdb, "RPUSH", "wake", "grant")
	if got := do(t, rdb, "LLEN", "wake"); got != int64(1) {
		t.Errorf("elements: got %v, want the one that nobody took", got)
	}
}
