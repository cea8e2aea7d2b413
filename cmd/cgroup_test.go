//go:build linux

package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
	"github.com/redlockrun/redlockrun/lockexec/proc/cgrouptest"
)

// These tests run the program in a cgroup that was delegated to it, as by a
// systemd unit with Delegate=yes.

// commandsCgroup returns the only cgroup below that of the program.
func commandsCgroup(t *testing.T, group *cgrouptest.Group) string {
	t.Helper()
	below := group.Below()
	if len(below) != 1 || !strings.HasPrefix(filepath.Base(below[0]), "redlockrun-") {
		t.Fatalf("the cgroups below are %q, want one for the command", below)
	}
	return below[0]
}

// inCgroup reports in which cgroup of version 2 a process is.
func inCgroup(pid int, dir string) bool { return slices.Contains(cgrouptest.Members(dir), pid) }

// Whoever is left to kill the command does so by its cgroup too: what is in
// there and nobody's child dies with it. Whoever it is removes the cgroup.
func TestTheCgroupOfACommandIsKilledAndRemoved(t *testing.T) {
	for name, end := range map[string]func(g *guarded){
		"wrapper dies":       func(g *guarded) { _ = g.cmd.Process.Kill() },
		"supervisor dies":    func(g *guarded) { _ = syscall.Kill(g.supervisor, syscall.SIGKILL) },
		"supervisor stopped": func(g *guarded) { _ = syscall.Kill(g.supervisor, syscall.SIGSTOP) },
		"interrupted again and again": func(g *guarded) {
			for running(g.cmd.Process.Pid) {
				_ = g.cmd.Process.Signal(syscall.SIGINT)
				time.Sleep(20 * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			group := cgrouptest.New(t, true)
			server, admin := guardServer(t)
			g := startGuardedBy(t, group.Attr(), server, "--ttl", "3s")
			tree := commandsCgroup(t, group)
			for _, name := range brood {
				if pid := g.stamp(name).pid; !inCgroup(pid, tree) {
					t.Errorf("child %s (%d) is not in the command's cgroup", name, pid)
				}
			}
			for _, pid := range []int{g.cmd.Process.Pid, g.supervisor} {
				if !inCgroup(pid, group.Dir) {
					t.Errorf("process %d of the program is not in the program's cgroup", pid)
				}
			}
			stranger := exec.Command("sleep", "1000")
			stranger.SysProcAttr = (&cgrouptest.Group{Dir: tree, TB: t}).Attr()
			if err := stranger.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = stranger.Process.Kill()
				_ = stranger.Wait()
			})
			free := freeAt(t, admin)
			end(g)
			g.expectNoOverlap(<-free)
			g.status()
			eventually(t, "the supervisor ends", func() bool { return !running(g.supervisor) })
			g.expectDead()
			if running(stranger.Process.Pid) {
				t.Error("what was in the cgroup alone still runs")
			}
			if left := group.Below(); len(left) > 0 {
				t.Errorf("cgroups left: %q", left)
			}
		})
	}
}

// runIn runs a shell script in the group and returns its output.
func runIn(t *testing.T, group *cgrouptest.Group, dir, script string, env ...string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = group.Attr()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestACommandThatEndsLeavesNoCgroup(t *testing.T) {
	group := cgrouptest.New(t, true)
	server, _ := guardServer(t)
	out := runIn(t, group, t.TempDir(), `
		for i in 1 2 3 4 5; do redlockrun --key k -- grep ^0: /proc/self/cgroup || exit; done
		redlockrun --key k --leftovers leave -- true
		redlockrun --key k -- redlockrun --key inner -- true
		! redlockrun --key k -- no-such-command 2>/dev/null`, "REDIS_URL="+server.URL())
	lines := strings.Fields(out)
	slices.Sort(lines)
	if lines = slices.Compact(lines); len(lines) != 5 {
		t.Errorf("five runs were in %q, want a cgroup of its own for each", lines)
	}
	// The last of a run that leaves its leftovers may end a moment later.
	eventually(t, "no cgroup is left", func() bool { return len(group.Below()) == 0 })
}

func TestLeftoversThatLiveKeepTheirCgroup(t *testing.T) {
	group := cgrouptest.New(t, true)
	server, _ := guardServer(t)
	dir := t.TempDir()
	runIn(t, group, dir, "redlockrun --key k --leftovers leave -- child daemon d", "REDIS_URL="+server.URL())
	g := &guarded{t: t, dir: dir}
	eventually(t, "the daemon runs", func() bool { return g.stamp("d").pid > 0 })
	if pid := g.stamp("d").pid; !inCgroup(pid, commandsCgroup(t, group)) {
		t.Errorf("the daemon (%d) is not in its cgroup", pid)
	}
}

func TestWhereNothingIsDelegatedNoCgroupIsMade(t *testing.T) {
	group := cgrouptest.New(t, false)
	server, _ := guardServer(t)
	g := startGuardedBy(t, group.Attr(), server)
	if below := group.Below(); len(below) > 0 {
		t.Errorf("made: %q", below)
	}
	_ = syscall.Kill(g.supervisor, syscall.SIGKILL)
	g.status()
	g.expectDead()
	if below := group.Below(); len(below) > 0 {
		t.Errorf("made: %q", below)
	}
}

// An embedded server that a command started has others' locks, too.
func TestAnEmbeddedServerOutlivesTheCgroupItStartedIn(t *testing.T) {
	const inner = "redlockrun --redis embedded --key inner -- true; touch started"
	for name, script := range map[string]string{
		"that is killed": "redlockrun --key k -- sh -c '" + inner + "; sleep 1000' & until [ -e started ]; do sleep 0.02; done; kill -9 $!",
		"that is gone":   "redlockrun --key k -- sh -c '" + inner + "'",
	} {
		t.Run(name, func(t *testing.T) {
			group := cgrouptest.New(t, true)
			server, _ := guardServer(t)
			dir, err := os.MkdirTemp("", "rlr") //nolint:usetesting // sockets have short names
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				stopEmbedded(filepath.Join(dir, "redlockrun"))
				_ = os.RemoveAll(dir)
			})
			runIn(t, group, dir, script, "XDG_RUNTIME_DIR="+dir, "REDIS_URL="+server.URL())
			eventually(t, "the server alone is left", func() bool {
				members := cgrouptest.Members(group.Dir)
				return len(members) == 1 && embedded.IsServer(members[0]) && len(group.Below()) == 0
			})
		})
	}
}
