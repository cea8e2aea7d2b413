//go:build linux

package cmd_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/faultproxy"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// These tests end or stop one of the two processes that watch over a command,
// and look at what is left.

// guarded is a run of the real program with a brood below it: children that
// get out of sight in every way there is.
type guarded struct {
	t          *testing.T
	dir        string
	cmd        *exec.Cmd
	supervisor int
	stderr     *bytes.Buffer
	ended      chan struct{}
}

// place is a server, or a proxy before one.
type place interface{ URL() string }

// startGuarded starts the program with flags on the server, and waits until
// everything below it runs.
func startGuarded(t *testing.T, server place, flags ...string) *guarded {
	t.Helper()
	return startGuardedBy(t, nil, server, flags...)
}

// startGuardedBy does so with attributes for the program's process.
func startGuardedBy(t *testing.T, attr *syscall.SysProcAttr, server place, flags ...string) *guarded {
	t.Helper()
	g := &guarded{t: t, dir: t.TempDir(), stderr: new(bytes.Buffer), ended: make(chan struct{})}
	args := append([]string{"--key", "k", "--redis", server.URL()}, flags...)
	g.cmd = exec.Command("redlockrun", append(args, "--", "sh", "-c", `
		trap "" TERM HUP INT
		child stamps a &
		(child stamps b &)
		setsid child stamps c &
		child daemon d
		touch up
		child stamps e`)...)
	g.cmd.Dir = g.dir
	g.cmd.SysProcAttr = attr
	g.cmd.Stderr = g.stderr
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = g.cmd.Wait()
		close(g.ended)
	}()
	t.Cleanup(func() {
		_ = g.cmd.Process.Signal(syscall.SIGCONT)
		_ = g.cmd.Process.Kill()
		<-g.ended
		for _, name := range brood {
			if pid := g.stamp(name).pid; pid > 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL) // only if the test failed are they alive
			}
		}
	})
	for _, name := range brood {
		eventually(t, "child "+name+" runs", func() bool { return g.stamp(name).pid > 0 })
	}
	children := childrenOf(g.cmd.Process.Pid)
	if len(children) != 1 {
		t.Fatalf("the wrapper has the children %v, want the supervisor alone", children)
	}
	g.supervisor = children[0]
	return g
}

var brood = []string{"a", "b", "c", "d", "e"}

type stamp struct {
	at  lock.Instant
	pid int
}

// stamp returns the last stamp of a child, or nothing.
func (g *guarded) stamp(name string) (last stamp) {
	text, _ := os.ReadFile(filepath.Join(g.dir, name))
	lines := strings.Split(string(text), "\n")
	if len(lines) > 1 { // what follows the last line end may be half a line
		_, _ = fmt.Sscan(lines[len(lines)-2], &last.at, &last.pid)
	}
	return last
}

// lastStamp returns when the last of the brood still ran.
func (g *guarded) lastStamp() (last lock.Instant) {
	for _, name := range brood {
		last = max(last, g.stamp(name).at)
	}
	return last
}

// status waits for the end.
func (g *guarded) status() string {
	g.t.Helper()
	select {
	case <-g.ended:
	case <-time.After(scriptPatience):
		g.t.Fatal("the program has not ended")
	}
	return statusText(g.cmd.ProcessState)
}

// expectDead fails unless all that was started is dead.
func (g *guarded) expectDead() {
	g.t.Helper()
	for _, name := range brood {
		if pid := g.stamp(name).pid; running(pid) {
			g.t.Errorf("child %s (%d) still runs", name, pid)
		}
	}
	if running(g.supervisor) {
		g.t.Errorf("the supervisor (%d) still runs", g.supervisor)
	}
}

// running reports whether a process exists and is no zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	rest := string(stat[bytes.LastIndexByte(stat, ')')+1:])
	return !strings.HasPrefix(strings.TrimSpace(rest), "Z")
}

func guardServer(t *testing.T) (*redistest.Server, *redis.Client) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	server := redistest.Start(t)
	return server, server.Client(t)
}

// freeAt returns, on a channel, when the lock was seen to be free.
func freeAt(t *testing.T, admin *redis.Client) <-chan lock.Instant {
	free := make(chan lock.Instant, 1)
	go func() {
		for {
			if n, err := admin.Exists(t.Context(), guardedLock).Result(); err != nil || n == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		free <- lock.Now()
	}()
	return free
}

func (g *guarded) expectNoOverlap(free lock.Instant) {
	g.t.Helper()
	if last := g.lastStamp(); last >= free {
		g.t.Errorf("the command ran at %v, but the lock was free at %v", last, free)
	}
}

// A long ttl shows that the lock is released, and does not run out.
func TestTheWrapperIsKilled(t *testing.T) {
	server, admin := guardServer(t)
	g := startGuarded(t, server, "--ttl", "1h")
	free := freeAt(t, admin)
	_ = g.cmd.Process.Kill()
	g.expectNoOverlap(<-free)
	eventually(t, "the supervisor ends", func() bool { return !running(g.supervisor) })
	g.expectDead()
	if got := g.status(); got != "SIGKILL" {
		t.Errorf("status %s", got)
	}
}

func TestTheSupervisorDies(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV} { // SEGV: a crash, with a stack trace
		t.Run(sig.String(), func(t *testing.T) {
			server, admin := guardServer(t)
			proxy := faultproxy.New(t, server.Addr())
			g := startGuarded(t, proxy, "--ttl", "1h")
			free := freeAt(t, admin)
			// Who releases first and kills then would leave time between.
			proxy.DelayReplies(300 * time.Millisecond)
			_ = syscall.Kill(g.supervisor, sig)
			g.expectNoOverlap(<-free)
			if got := g.status(); got != "125" {
				t.Errorf("status %s, want 125\n%s", got, g.stderr)
			}
			g.expectDead()
			if !strings.Contains(g.stderr.String(), "the process that watches over the command") {
				t.Errorf("the user was told %q", g.stderr)
			}
		})
	}
}

// A stopped supervisor gives no sign of itself: the wrapper looks at the clock.
func TestTheSupervisorIsStopped(t *testing.T) {
	server, admin := guardServer(t)
	g := startGuarded(t, server, "--ttl", "3s")
	free := freeAt(t, admin)
	_ = syscall.Kill(g.supervisor, syscall.SIGSTOP)
	if got := g.status(); got != "79" {
		t.Errorf("status %s, want 79\n%s", got, g.stderr)
	}
	g.expectNoOverlap(<-free)
	g.expectDead()
}

// The lease of a run whose wrapper is stopped is kept; a lost one ends the
// command all the same, and the wrapper is continued to say so.
func TestTheWrapperIsStopped(t *testing.T) {
	server, admin := guardServer(t)
	g := startGuarded(t, server, "--ttl", "3s")
	_ = g.cmd.Process.Signal(syscall.SIGSTOP)
	token := admin.Get(t.Context(), guardedLock).Val()
	time.Sleep(4 * time.Second) // longer than the ttl: this is what is tested
	if got := admin.Get(t.Context(), guardedLock).Val(); got != token || got == "" {
		t.Fatalf("the lock holds %q, want %q", got, token)
	}
	admin.Set(t.Context(), guardedLock, "another", time.Hour)
	if got := g.status(); got != "79" {
		t.Errorf("status %s, want 79\n%s", got, g.stderr)
	}
	g.expectDead()
}

// A wrapper that is about to be stopped when the command ends does not look so
// yet, and is continued all the same.
func TestTheWrapperIsStoppedAsTheCommandEnds(t *testing.T) {
	server, _ := guardServer(t)
	for range 200 {
		cmd := exec.Command("redlockrun", "--key", "k", "--redis", server.URL(), "--", "sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		command := 0
		eventually(t, "the command runs", func() bool {
			for _, supervisor := range childrenOf(cmd.Process.Pid) {
				for _, command = range childrenOf(supervisor) {
					if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", command)); string(comm) == "sleep\n" {
						return true
					}
				}
			}
			return false
		})
		_ = cmd.Process.Signal(syscall.SIGSTOP)
		_ = syscall.Kill(command, syscall.SIGKILL)
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(scriptPatience):
			state := stateOf(cmd.Process.Pid)
			_ = cmd.Process.Kill()
			<-ended
			t.Fatalf("the wrapper stays in state %s", state)
		}
		if got := statusText(cmd.ProcessState); got != "SIGKILL" {
			t.Fatalf("status %s, want the command's SIGKILL", got)
		}
	}
}

// A stopped supervisor that nobody can see dying with its wrapper is continued
// by the kernel.
func TestTheWrapperIsKilledWhileTheSupervisorIsStopped(t *testing.T) {
	server, admin := guardServer(t)
	g := startGuarded(t, server, "--ttl", "1h")
	free := freeAt(t, admin)
	_ = syscall.Kill(g.supervisor, syscall.SIGSTOP)
	eventually(t, "the supervisor is stopped", func() bool { return stateOf(g.supervisor) == "T" })
	_ = g.cmd.Process.Kill()
	g.expectNoOverlap(<-free)
	eventually(t, "the supervisor ends", func() bool { return !running(g.supervisor) })
	g.expectDead()
}

func stateOf(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}

// Whatever of the two goes while Redis can't be reached, no command outlives
// the lease.
func TestADeathWhileRedisIsAway(t *testing.T) {
	for name, kill := range map[string]func(g *guarded){
		"nobody":     func(*guarded) {},
		"wrapper":    func(g *guarded) { _ = g.cmd.Process.Kill() },
		"supervisor": func(g *guarded) { _ = syscall.Kill(g.supervisor, syscall.SIGKILL) },
		"stopped":    func(g *guarded) { _ = syscall.Kill(g.supervisor, syscall.SIGSTOP) },
	} {
		t.Run(name, func(t *testing.T) {
			server, admin := guardServer(t)
			g := startGuarded(t, server, "--ttl", "3s")
			if err := server.Stop(); err != nil {
				t.Fatal(err)
			}
			kill(g)
			g.status()
			eventually(t, "the supervisor ends", func() bool { return !running(g.supervisor) })
			g.expectDead()
			last := g.lastStamp()
			if err := server.Cont(); err != nil {
				t.Fatal(err)
			}
			// The server, stopped since before the kill, says how long the
			// lock still has: it had that after the last stamp.
			left := admin.PTTL(t.Context(), guardedLock).Val()
			if end := lock.Now().Add(left); left > 0 && last >= end {
				t.Errorf("the command ran at %v, the lock until %v", last, end)
			}
		})
	}
}

// What asks a run to stop before its command runs must leave nothing, also
// when the supervisor does not answer.
func TestStoppedBeforeTheStart(t *testing.T) {
	server, admin := guardServer(t)
	if err := server.Stop(); err != nil { // it accepts connections, and never answers
		t.Fatal(err)
	}
	cmd := exec.Command("redlockrun", "--key", "k", "--redis", server.URL(), "--connect-timeout", "1h", "--", "true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var supervisor int
	eventually(t, "the supervisor runs", func() bool {
		children := childrenOf(cmd.Process.Pid)
		if len(children) != 1 {
			return false
		}
		supervisor = children[0]
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", supervisor))
		return string(comm) == "rlr-supervisor\n"
	})
	eventually(t, "the supervisor waits for the server", func() bool { return sockets(supervisor) > 1 })
	_ = syscall.Kill(supervisor, syscall.SIGSTOP)
	for range 3 { // who asks again insists
		_ = cmd.Process.Signal(syscall.SIGTERM)
		time.Sleep(50 * time.Millisecond)
	}
	_ = server.Cont()
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || statusText(exit.ProcessState) != "SIGTERM" {
		t.Errorf("got %v, want death by TERM", err)
	}
	eventually(t, "no lock is left", func() bool { return admin.Exists(t.Context(), guardedLock).Val() == 0 })
	if running(supervisor) {
		t.Error("the supervisor still runs")
	}
}

// sockets counts the sockets of a process.
func sockets(pid int) int {
	n := 0
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if target, _ := os.Readlink(link); strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}

// A thousand short runs, or as many as this test has patience for, leave no
// process behind, and no key but the fence.
func TestManyRunsLeaveNothing(t *testing.T) {
	server, admin := guardServer(t)
	runs := 200
	script := fmt.Sprintf("for i in $(seq %d); do redlockrun --key k -- true || exit; done", runs)
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), "REDIS_URL="+server.URL())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	session := strconv.Itoa(cmd.Process.Pid)
	left, _ := exec.Command("ps", "-o", "pid,args", "-s", session, "--no-headers").Output()
	if len(bytes.TrimSpace(left)) > 0 {
		t.Errorf("left behind: %s", left)
	}
	if keys := admin.Keys(t.Context(), "*").Val(); len(keys) != 1 {
		t.Errorf("keys left: %q", keys)
	}
}

// Processes that are born faster than they can be listed do not get away, from
// whichever of the two is left to kill them.
func TestAForkStormDoesNotGetAway(t *testing.T) {
	for _, victim := range []string{"wrapper", "supervisor"} {
		t.Run(victim, func(t *testing.T) {
			server, admin := guardServer(t)
			dir := t.TempDir()
			mark := fmt.Sprintf("STORM=%d.%s", os.Getpid(), victim)
			cmd := exec.Command("redlockrun", "--key", "k", "--ttl", "1h", "--redis", server.URL(), "--",
				"sh", "-c", "child storm 4 pids; exec sleep 1000")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), mark)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				for _, pid := range marked(mark) {
					_ = syscall.Kill(pid, syscall.SIGKILL) // only if the test failed is there one
				}
			})
			eventually(t, "the storm rages", func() bool {
				pids, _ := os.ReadFile(filepath.Join(dir, "pids"))
				return bytes.Count(pids, []byte("\n")) > 100
			})
			pid := cmd.Process.Pid
			if victim == "supervisor" {
				pid = childrenOf(pid)[0]
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_ = cmd.Wait()
			eventually(t, "the lock is released", func() bool { return admin.Exists(t.Context(), guardedLock).Val() == 0 })
			for _, pid := range marked(mark) {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if bytes.Contains(line, []byte("storm")) {
					t.Errorf("the lock was released, but %q still ran", line)
				}
			}
			eventually(t, "nobody is left", func() bool { return len(marked(mark)) == 0 })
		})
	}
}

// marked lists the processes with an entry in their environment.
func marked(entry string) []int {
	var found []int
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, environ := range environs {
		text, err := os.ReadFile(environ)
		if err != nil || !bytes.Contains(text, []byte(entry+"\x00")) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(environ, "/proc/%d/", &pid); err == nil && running(pid) {
			found = append(found, pid)
		}
	}
	return found
}

// A signal that asks to stop is never lost, however early it comes: before the
// supervisor runs, with its settings, at the fork.
func TestASignalAtAnyMomentOfTheStart(t *testing.T) {
	server, admin := guardServer(t)
	for after := range 30 {
		cmd := exec.Command("redlockrun", "--key", "k", "--redis", server.URL(), "--", "sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(after) * time.Millisecond) // whatever that hits
		_ = cmd.Process.Signal(syscall.SIGTERM)
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case <-done:
		case <-time.After(scriptPatience):
			_ = cmd.Process.Kill()
			t.Fatalf("a signal after %d ms was lost", after)
		}
		if got := statusText(cmd.ProcessState); got != "SIGTERM" {
			t.Errorf("after %d ms: status %s", after, got)
		}
		eventually(t, "no lock is left", func() bool { return admin.Exists(t.Context(), guardedLock).Val() == 0 })
	}
}

// The supervisor is stopped, and so can't pass on a signal: whoever sent it
// does not wait for the end of the lease.
func TestAStoppedSupervisorDoesNotKeepASignalFromWorking(t *testing.T) {
	server, admin := guardServer(t)
	g := startGuarded(t, server, "--ttl", "1h", "--on-lost", "warn")
	_ = syscall.Kill(g.supervisor, syscall.SIGSTOP)
	eventually(t, "the supervisor is stopped", func() bool { return stateOf(g.supervisor) == "T" })
	_ = g.cmd.Process.Signal(syscall.SIGTERM)
	if got := g.status(); got != "125" {
		t.Errorf("status %s, want 125\n%s", got, g.stderr)
	}
	g.expectDead()
	if n := admin.Exists(t.Context(), guardedLock).Val(); n != 0 {
		t.Error("the lock was not released")
	}
}
