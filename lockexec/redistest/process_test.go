package redistest_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func TestStoppedServerAnswersWhenItGoesOn(t *testing.T) {
	srv := redistest.Start(t)
	client := srv.Client(t)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := srv.Stop(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := client.Set(ctx, "k", "v", 0).Err(); !errors.Is(err, context.DeadlineExceeded) && !os.IsTimeout(err) {
		t.Errorf("stopped: got %v, want a time-out", err)
	}
	if err := srv.Cont(); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, func() bool { return client.Ping(t.Context()).Err() == nil }, "it answers again")
}

func TestStoppedServerIsEndedAtClose(t *testing.T) {
	redistest.Start(t)
	srv, err := redistest.Launch()
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Stop(); err != nil {
		t.Error(err)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if err := srv.Signal(os.Kill); err == nil {
		t.Error("the process is still there after Close")
	}
}

func TestKilledServerComesBackAtItsAddress(t *testing.T) {
	srv := redistest.Start(t, redistest.WithTLS())
	addr, tlsAddr, socket, pid := srv.Addr(), srv.TLSAddr(), srv.Socket(), srv.Pid()
	srv.Kill()
	srv.Kill()
	if err := srv.Client(t).Ping(t.Context()).Err(); err == nil {
		t.Error("a killed server answered")
	}
	if answers(socket) {
		t.Error("a killed server listens on its socket")
	}
	if err := srv.Stop(); err == nil {
		t.Error("a killed server was stopped")
	}
	if err := srv.Restart(); err != nil {
		t.Fatal(err)
	}
	if srv.Addr() != addr || srv.TLSAddr() != tlsAddr || srv.Socket() != socket {
		t.Errorf("got %s, %s, %s; want %s, %s, %s", srv.Addr(), srv.TLSAddr(), srv.Socket(), addr, tlsAddr, socket)
	}
	if srv.Pid() == pid {
		t.Errorf("the process is the same, %d", pid)
	}
	if err := srv.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Errorf("after Restart: %v", err)
	}
}

func TestRestartWaitsForItsPort(t *testing.T) {
	srv := redistest.Start(t)
	srv.Kill()
	intruder, err := net.Listen("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer intruder.Close()
	restarted := make(chan error)
	go func() { restarted <- srv.Restart() }()
	redistest.Eventually(t, func() bool { return strings.Contains(srv.Log(), "Address already in use") },
		"the server finds its port taken")
	intruder.Close()
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	if err := srv.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestRestartReplacesARunningServer(t *testing.T) {
	srv := redistest.Start(t)
	pid := srv.Pid()
	if err := srv.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := srv.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	if srv.Pid() == pid {
		t.Errorf("the process is the same, %d", pid)
	}
}
