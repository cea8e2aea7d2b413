//go:build unix

package embedded_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
)

func TestStatusOfNoServer(t *testing.T) {
	cfg := newConfig(t)
	want := embedded.Info{Socket: embedded.SocketPath(cfg.Dir)}
	if got := status(t, cfg.Dir); got != want {
		t.Errorf("without a folder: got %+v, want %+v", got, want)
	}
	if !gone(cfg.Dir) {
		t.Error("Status made the folder")
	}
	start(t, cfg)
	kill9(t, cfg.Dir)
	if got := status(t, cfg.Dir); got != want {
		t.Errorf("with a stale socket: got %+v, want %+v", got, want)
	}
}

func TestStatusTellsOfTheServer(t *testing.T) {
	cfg := newConfig(t)
	start(t, cfg)
	rdb := newClient(t, cfg.Dir)
	do(t, rdb, "SET", "lock:report:k", token, "EX", 3600)
	do(t, rdb, "SET", "redlockrun:done:{k}", "yes", "EX", 3600)
	do(t, rdb, "SET", "foreign", "without a time to live")
	got := status(t, cfg.Dir)

	var file struct {
		PID     int       `json:"pid"`
		Started time.Time `json:"started"`
		Version string    `json:"version"`
	}
	content, err := os.ReadFile(filepath.Join(cfg.Dir, "server.json"))
	if err == nil {
		err = json.Unmarshal(content, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := embedded.Info{
		Running: true, Socket: embedded.SocketPath(cfg.Dir), PID: file.PID, Since: file.Started, Version: file.Version,
		Clients: 1, Keys: 3, Locks: 1,
	}
	if !got.Since.Equal(want.Since) {
		t.Errorf("since: got %v, want %v", got.Since, want.Since)
	}
	if got.Since = want.Since; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestStopEndsAServerWithoutLocks(t *testing.T) {
	cfg := newConfig(t)
	if stopped, err := embedded.Stop(within(t), cfg.Dir, false); stopped || err != nil {
		t.Errorf("Stop of no server: got %v, %v", stopped, err)
	}
	start(t, cfg)
	do(t, newClient(t, cfg.Dir), "SET", "redlockrun:done:{k}", "yes", "EX", 3600)
	if stopped, err := embedded.Stop(within(t), cfg.Dir, false); !stopped || err != nil {
		t.Errorf("got %v, %v", stopped, err)
	}
	awaitNoServer(t, cfg.Dir)
}

func TestStopRefusesWhileLocksLive(t *testing.T) {
	cfg := newConfig(t)
	start(t, cfg)
	rdb := newClient(t, cfg.Dir)
	do(t, rdb, "SET", "lock:report:a", token, "EX", 3600)
	do(t, rdb, "ZADD", "lock:report:b", 1, token)
	do(t, rdb, "EXPIRE", "lock:report:b", 3600)
	stopped, err := embedded.Stop(within(t), cfg.Dir, false)
	if held, ok := errors.AsType[*embedded.LocksHeldError](err); stopped || !ok || held.Locks != 2 {
		t.Errorf("got %v, %v, want a refusal for 2 locks", stopped, err)
	}
	do(t, rdb, "PING") // goes on, on the same connection
	start(t, cfg)

	if stopped, err := embedded.Stop(within(t), cfg.Dir, true); !stopped || err != nil {
		t.Errorf("force: got %v, %v", stopped, err)
	}
	start(t, cfg)
	if got := status(t, cfg.Dir).Locks; got != 2 {
		t.Errorf("after the forced stop: got %d locks, want both", got)
	}
}

// What listens may be anything; to ask it must end.
func TestStatusOfAServerThatDoesNotAnswer(t *testing.T) {
	cfg := newConfig(t)
	if err := os.Mkdir(cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", embedded.SocketPath(cfg.Dir))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if info, err := embedded.Status(ctx, cfg.Dir); !errors.Is(err, context.DeadlineExceeded) || info.Running {
		t.Errorf("silence: got %+v, %v", info, err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(conn).ReadString('\n')
			_, _ = conn.Write([]byte("-ERR unknown command\r\n"))
			conn.Close()
		}
	}()
	if _, err := embedded.Status(within(t), cfg.Dir); err == nil || !strings.Contains(err.Error(), embedded.SocketPath(cfg.Dir)) {
		t.Errorf("another server: got %v, want an error that names the socket", err)
	}
	if stopped, err := embedded.Stop(within(t), cfg.Dir, true); err == nil || stopped {
		t.Errorf("Stop of another server: got %v, %v", stopped, err)
	}
	l.Close()
}
