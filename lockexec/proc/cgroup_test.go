//go:build linux

package proc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/redlockrun/redlockrun/lockexec/proc"
	"github.com/redlockrun/redlockrun/lockexec/proc/cgrouptest"
)

// wrapperIn starts a wrapper of script in the group, and returns the cgroup
// that its tree would have. The tree is killed when kill is called.
func wrapperIn(t *testing.T, group *cgrouptest.Group, script string) (cmd *exec.Cmd, tree string, kill func()) {
	t.Helper()
	cmd = wrapper(t, "/bin/sh", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(cmd.Env, "PROC_TEST_KILL=1", "PROC_TEST_CGROUP=tree")
	cmd.SysProcAttr = group.Attr()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	return cmd, filepath.Join(group.Dir, "tree"), func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	}
}

// What never comes to an end, but is never more than some processes: each
// starts its like and ends. And a daemon that has left group and session.
const restless = `
for i in 1 2 3; do setsid sh -c 'echo x >>generations; sh -c "$0" "$0" & exit' 'echo x >>generations; sh -c "$0" "$0" & exit' & done
setsid sh -c '(sh -c "echo \$\$ >>pids; exec 2>/dev/null; while :; do echo x >>ticks; sleep 0.01; done" &)' &
sleep 1000`

// rages waits until the restless are in full swing, and returns the daemon.
func rages(t *testing.T, dir string) (daemon int) {
	t.Helper()
	eventually(t, "many generations have passed", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "generations"))
		return len(text) > 100
	})
	return pidsIn(t, filepath.Join(dir, "pids"), 1)[0]
}

func TestATreeWithACgroupIsKilledAndTheCgroupRemoved(t *testing.T) {
	group := cgrouptest.New(t, true)
	cmd, tree, kill := wrapperIn(t, group, restless)
	daemon := rages(t, cmd.Dir)
	if members := cgrouptest.Members(tree); !slices.Contains(members, daemon) || slices.Contains(members, cmd.Process.Pid) {
		t.Errorf("the tree's cgroup has %v, want the daemon %d in it and the wrapper %d not", members, daemon, cmd.Process.Pid)
	}
	// Nobody's child there: only the cgroup tells that it is to be killed.
	stranger := exec.Command("sleep", "1000")
	stranger.SysProcAttr = (&cgrouptest.Group{Dir: tree, TB: t}).Attr()
	start(t, stranger)
	kill()
	if alive(daemon) {
		t.Error("the daemon is alive")
	}
	if alive(stranger.Process.Pid) {
		t.Error("what was in the cgroup alone is alive")
	}
	if cgrouptest.Populated(group.Dir) {
		t.Errorf("alive: %v", cgrouptest.Members(tree))
	}
	if left := group.Below(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// The wrapper is stopped: nothing here is due to its walk.
func TestKillCgroupSparesWhomItIsTold(t *testing.T) {
	group := cgrouptest.New(t, true)
	cmd, tree, _ := wrapperIn(t, group, restless)
	daemon := rages(t, cmd.Dir)
	_ = cmd.Process.Signal(syscall.SIGSTOP)
	proc.KillCgroup(tree, func(pid int) bool { return pid == daemon })
	eventually(t, "nobody is left in the cgroup", func() bool { return !cgrouptest.Populated(tree) })
	if !alive(daemon) {
		t.Error("the daemon was to be spared")
	}
	if members := cgrouptest.Members(group.Dir); !slices.Contains(members, daemon) {
		t.Errorf("the daemon is not where the tree came from, in %v", members)
	}
	proc.RemoveCgroup(tree, nil)
	if left := group.Below(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	ticks := func() int64 {
		info, err := os.Stat(filepath.Join(cmd.Dir, "ticks"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := ticks()
	eventually(t, "the daemon runs on", func() bool { return ticks() > before })
}

func TestWhatHasLeftTheCgroupIsKilledToo(t *testing.T) {
	group := cgrouptest.New(t, true)
	cmd, _, kill := wrapperIn(t, group, `
		mkdir `+group.Dir+`/tree/own
		setsid sh -c 'echo $$ >`+group.Dir+`/cgroup.procs; echo $$ >>pids; exec sleep 1000' &
		setsid sh -c 'echo $$ >`+group.Dir+`/tree/own/cgroup.procs; echo $$ >>pids; exec sleep 1000' &
		sleep 1000`)
	pids := pidsIn(t, filepath.Join(cmd.Dir, "pids"), 2)
	kill()
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
	if left := group.Below(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// The single writer of what was not delegated is another.
func TestWithoutDelegationNoCgroupIsMade(t *testing.T) {
	group := cgrouptest.New(t, false)
	cmd, _, kill := wrapperIn(t, group, "echo $$ >>pids; sleep 1000")
	pid := pidsIn(t, filepath.Join(cmd.Dir, "pids"), 1)[0]
	if below := group.Below(); len(below) > 0 {
		t.Errorf("made: %q", below)
	}
	if members := cgrouptest.Members(group.Dir); !slices.Contains(members, pid) {
		t.Errorf("the child %d is not in its parent's cgroup, but that has %v", pid, members)
	}
	kill()
	if alive(pid) {
		t.Error("the child is alive")
	}
}

func TestTheChildStartsWhereItCanHaveNoCgroup(t *testing.T) {
	for name, spoil := range map[string]func(*cgrouptest.Group){
		"can't be made": func(g *cgrouptest.Group) { g.Write("cgroup.max.descendants", "0") },
		"can't be joined": func(g *cgrouptest.Group) {
			sub := filepath.Join(g.Dir, "threads")
			if err := os.Mkdir(sub, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(sub, "cgroup.type"), []byte("threaded"), 0); err != nil {
				t.Fatal(err)
			}
		},
		"exists": func(g *cgrouptest.Group) {
			if err := os.Mkdir(filepath.Join(g.Dir, "tree"), 0o755); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			group := cgrouptest.New(t, true)
			spoil(group)
			before := group.Below()
			cmd, _, kill := wrapperIn(t, group, "echo $$ >>pids; sleep 1000")
			pid := pidsIn(t, filepath.Join(cmd.Dir, "pids"), 1)[0]
			if members := cgrouptest.Members(group.Dir); !slices.Contains(members, pid) {
				t.Errorf("the child %d is not in its parent's cgroup, but that has %v", pid, members)
			}
			kill()
			if after := group.Below(); !slices.Equal(after, before) {
				t.Errorf("cgroups before: %q, after: %q", before, after)
			}
		})
	}
}

// One that can't be executed is told as such, and a script without #! keeps
// the cgroup.
func TestStartErrorsAreTheSameWithACgroup(t *testing.T) {
	group := cgrouptest.New(t, true)
	dir := t.TempDir()
	lost, bare := filepath.Join(dir, "lost"), filepath.Join(dir, "bare")
	for path, text := range map[string]string{lost: "#!/no/such/interpreter\n", bare: "cat /proc/self/cgroup\n"} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tree := filepath.Join(group.Dir, "tree")
	if _, err := proc.Start(proc.Command{Path: lost, Args: []string{"lost"}, Cgroup: tree}); err == nil ||
		!strings.Contains(err.Error(), "interpreter") {
		t.Errorf("a missing interpreter: %v", err)
	}
	if left := group.Below(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	cmd := wrapper(t, bare)
	cmd.Env = append(cmd.Env, "PROC_TEST_CGROUP=tree")
	cmd.SysProcAttr = group.Attr()
	out, err := cmd.Output()
	if want := "0::/" + filepath.Base(group.Dir) + "/tree\n"; err != nil || !strings.HasSuffix(string(out), want) {
		t.Errorf("a script without #! is in %q (%v), want %q", out, err, want)
	}
}

// A command that makes cgroups of its own may still do so.
func TestTheCgroupOfATreeIsDelegatedInTurn(t *testing.T) {
	group := cgrouptest.New(t, true)
	cmd, tree, kill := wrapperIn(t, group, "echo $$ >>pids; sleep 1000")
	pidsIn(t, filepath.Join(cmd.Dir, "pids"), 1)
	value := make([]byte, 8)
	if n, err := unix.Getxattr(tree, "user.delegate", value); err != nil || string(value[:n]) != "1" {
		t.Errorf("the mark: %q, %v", value[:max(n, 0)], err)
	}
	kill()
}
