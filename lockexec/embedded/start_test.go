//go:build unix

package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
)

func testBinary(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// countingExe returns a binary that is the test binary and also writes down its first argument at each start.
func countingExe(t testing.TB) (exe, log string) {
	t.Helper()
	exe, log = filepath.Join(t.TempDir(), "exe"), filepath.Join(t.TempDir(), "log")
	script := fmt.Sprintf("#!/bin/sh\necho $1 >>%s\nexec %s \"$@\"\n", log, testBinary(t))
	if err := os.WriteFile(exe, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return exe, log
}

func TestTwentyFirstRunsStartOneServer(t *testing.T) {
	cfg := newConfig(t)
	exe, log := countingExe(t)
	var runs sync.WaitGroup
	for range 20 {
		runs.Go(func() {
			cmd := exec.CommandContext(within(t), testBinary(t), roleEnsure, exe, cfg.Dir)
			cmd.Env = cfg.Env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("a run: %v\n%s", err, out)
			}
		})
	}
	runs.Wait()
	if starts, err := os.ReadFile(log); err != nil || string(starts) != embedded.RoleStart+"\n" {
		t.Errorf("got starts %q (%v), want one", starts, err)
	}
	if got := newClient(t, cfg.Dir).Ping(within(t)).Val(); got != "PONG" {
		t.Errorf("PING: got %q", got)
	}
}

// A renewal has little time for each try. Were a start given up with it, a slow machine would never get its server.
func TestAStartGoesOnWhenItsCallerHasNoMoreTime(t *testing.T) {
	cfg := newConfig(t)
	exe, log := countingExe(t)
	cfg.Exe = exe
	eventually(t, "tries of a millisecond find a server", func() bool {
		ctx, cancel := context.WithTimeout(within(t), time.Millisecond)
		defer cancel()
		err := embedded.Start(ctx, cfg)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return err == nil
	})
	if starts, err := os.ReadFile(log); err != nil || string(starts) != embedded.RoleStart+"\n" {
		t.Errorf("got starts %q (%v), want one", starts, err)
	}
}

func TestStartUsesTheServerThatRuns(t *testing.T) {
	cfg := newConfig(t)
	start(t, cfg)
	first := status(t, cfg.Dir).PID
	start(t, cfg)
	if again := status(t, cfg.Dir).PID; again != first {
		t.Errorf("a second Start: got pid %d, want %d", again, first)
	}
}

func TestServerIsNobodysProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	t.Setenv("REDISCLI_AUTH", "geheim")
	// A descriptor that is inherited, as one that a shell opened.
	inherited, err := unix.Open(filepath.Join(t.TempDir(), "inherited"), unix.O_CREAT|unix.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)

	cfg := newConfig(t)
	start(t, cfg)
	pid := status(t, cfg.Dir).PID
	proc := fmt.Sprintf("/proc/%d/", pid)

	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("session: got %d (%v), want its own, %d", sid, err, pid)
	}
	if ppid := parent(t, pid); ppid == os.Getpid() {
		t.Error("the server is a child of who started it")
	}
	if cwd, err := os.Readlink(proc + "cwd"); cwd != "/" {
		t.Errorf("working directory: got %q (%v)", cwd, err)
	}
	for fd := range 3 {
		if got, err := os.Readlink(proc + "fd/" + strconv.Itoa(fd)); got != os.DevNull {
			t.Errorf("descriptor %d: got %q (%v), want %s", fd, got, err, os.DevNull)
		}
	}
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if file, _ := os.Readlink(proc + "fd/" + fd.Name()); file != os.DevNull && strings.HasPrefix(file, "/") && !strings.HasPrefix(file, "/sys/") && !strings.HasPrefix(file, cfg.Dir) {
			t.Errorf("the server has %s open", file)
		}
	}
	if environ, err := os.ReadFile(proc + "environ"); string(environ) != cfg.Env[0]+"\x00" {
		t.Errorf("environment: got %q (%v), want nothing but %q", environ, err, cfg.Env)
	}
}

func TestServerIsToldFromOtherProcesses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has subreapers")
	}
	cfg := newConfig(t)
	start(t, cfg)
	if pid := status(t, cfg.Dir).PID; !embedded.IsServer(pid) {
		t.Errorf("IsServer(%d): got false for the server", pid)
	}
	if embedded.IsServer(os.Getpid()) {
		t.Error("IsServer: got true for another process")
	}
}

func parent(t testing.TB, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ppid, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	cfg := newConfig(t)
	start(t, cfg)
	do(t, newClient(t, cfg.Dir), "SET", "k", "v")
	files, err := os.ReadDir(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if info, err := file.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: got mode %v (%v)", file.Name(), info.Mode(), err)
		}
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	cfg := newConfig(t)
	if err := os.Mkdir(cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: embedded.SocketPath(cfg.Dir)})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	start(t, cfg)
	if got := newClient(t, cfg.Dir).Ping(within(t)).Val(); got != "PONG" {
		t.Errorf("PING: got %q", got)
	}
}

func TestKilledHolderOfTheStartLockBlocksNobody(t *testing.T) {
	cfg := newConfig(t)
	if err := os.Mkdir(cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	holder := exec.Command(testBinary(t), roleHold, filepath.Join(cfg.Dir, "start.lock"))
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer holder.Wait()
	defer holder.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("holder: got %q, %v", line, err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := embedded.Start(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "start.lock") {
		t.Errorf("Start while another does: got %v, want the deadline and the lock's name", err)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
}

// A start that is killed at any moment, alone or with the server it began, leaves one server or none.
func TestKilledStarterBlocksNobody(t *testing.T) {
	cfg := newConfig(t)
	if err := os.Mkdir(cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		starter := exec.Command(testBinary(t), embedded.RoleStart, cfg.Dir, "1m")
		starter.Env = cfg.Env
		starter.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := starter.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 10 * time.Millisecond)
		_ = starter.Process.Kill()
		_ = starter.Wait()
		start(t, cfg)
		rdb := newClient(t, cfg.Dir)
		if got := do(t, rdb, "INCR", "starts"); got != int64(i+1) {
			t.Fatalf("start %d: got count %v, so that another server took it", i+1, got)
		}
		rdb.Close()
		if i%2 == 0 {
			kill9(t, cfg.Dir)
		}
	}
}

// Starts that were killed may leave servers on their way, which then all come up at once.
func TestOfManyServersOneServes(t *testing.T) {
	cfg := newConfig(t)
	if err := os.Mkdir(cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const servers = 5
	ended := make(chan error, servers)
	for range servers {
		server := exec.CommandContext(within(t), testBinary(t), embedded.RoleServe, cfg.Dir, "1m")
		server.Env = cfg.Env
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- server.Wait() }()
	}
	for range servers - 1 {
		if err := <-ended; err != nil {
			t.Errorf("a server too many: %v", err)
		}
	}
	if !status(t, cfg.Dir).Running {
		t.Error("no server runs")
	}
	if _, err := embedded.Stop(within(t), cfg.Dir, false); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server: %v", err)
	}
}

func TestStartTellsWhatTheServerSaid(t *testing.T) {
	cfg := newConfig(t)
	exe := filepath.Join(t.TempDir(), "exe")
	if err := os.WriteFile(exe, []byte("#!/bin/sh\necho the dog ate it >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg.Exe = exe
	err := embedded.Start(within(t), cfg)
	if failed, ok := errors.AsType[*embedded.StartError](err); !ok || failed.Output != "the dog ate it" || failed.Dir != cfg.Dir {
		t.Errorf("got %v, want a StartError with what was said", err)
	}
}

func TestDialBringsTheServerBack(t *testing.T) {
	cfg := newConfig(t)
	for range 2 {
		conn, err := embedded.Dial(within(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		kill9(t, cfg.Dir)
	}
}

func TestRoleIsOfNoOtherProcess(t *testing.T) {
	for _, args := range [][]string{nil, {"redlockrun"}, {"redlockrun", "status", embedded.RoleServe}, {embedded.RoleServe}} {
		if _, ok := embedded.Role(args); ok {
			t.Errorf("%q: got a role", args)
		}
	}
}
