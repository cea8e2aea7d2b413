//go:build linux

package proc_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlockrun/redlockrun/lockexec/proc"
	"github.com/redlockrun/redlockrun/lockexec/proc/proctest"
)

// The test binary plays some parts besides the tests: the wrapper, which is a
// process of its own, as adopting orphans and dying of signals belong to a
// process; a parent that never waits for orphans; and some children that a shell
// can't play.
func TestMain(m *testing.M) {
	switch role := os.Getenv("PROC_TEST_ROLE"); role {
	case "":
		proctest.HeedSignals()
		os.Exit(m.Run())
	case "wrap":
		os.Exit(wrap(os.Args[1:]))
	case "report-signals":
		reportSignals()
	case "neglect":
		os.Exit(neglect(os.Args[1:]))
	case "deaf":
		os.Exit(deaf(os.Args[1:]))
	default:
		panic("unknown role " + role)
	}
}

// wrap is the smallest supervisor: it runs its arguments, forwards signals,
// kills what is left when the child has ended, and ends as the child did. With
// PROC_TEST_KILL it kills the tree when its standard input ends. In a delegated
// cgroup, the tree gets one that is named PROC_TEST_CGROUP. With
// PROC_TEST_NEGLECT it adopts nothing: "self" has orphans become its children
// all the same, as they do in a container whose first process it is; "parent"
// leaves them to its parent.
func wrap(args []string) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, proc.Forwardable()...)
	path, err := proc.LookPath(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 127
	}
	_ = os.Setenv("PROC_TEST_ROLE", os.Getenv("PROC_TEST_CHILD"))
	neglected := os.Getenv("PROC_TEST_NEGLECT")
	if neglected == "self" {
		becomeSubreaper()
	}
	c := proc.Command{Path: path, Args: args, Env: os.Environ(), Adopt: neglected == ""}
	if name := os.Getenv("PROC_TEST_CGROUP"); name != "" {
		if dir := proc.DelegatedCgroup(); dir != "" {
			c.Cgroup = filepath.Join(dir, name)
		}
	}
	p, err := proc.Start(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 126
	}
	if os.Getenv("PROC_TEST_KILL") != "" {
		go func() {
			_, _ = bufio.NewReader(os.Stdin).ReadByte()
			p.Kill()
		}()
	}
	for {
		select {
		case sig := <-signals:
			_ = p.Signal(sig.(syscall.Signal))
		case <-p.Exited():
			p.Kill()
			status := p.Status()
			if status.Signal != 0 {
				proc.DieOf(status.Signal)
			}
			return status.Shell()
		}
	}
}

// neglect runs a wrapper and becomes the parent of the orphans that it leaves,
// but does not wait for them: when they end, they stay zombies.
func neglect(args []string) int {
	becomeSubreaper()
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	runtime.LockOSThread() // whose death is the wrapper's
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), "PROC_TEST_ROLE=wrap")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode()
}

// deaf neglects all signals that it can, says so, and runs a command when it is
// told to by a line of its standard input.
func deaf(args []string) int {
	proc.NeglectAlone(append(proc.DeadlySignals(), unix.SIGTTIN, unix.SIGTTOU))
	fmt.Println("deaf")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return 1
	}
	p, err := proc.Start(proc.Command{Path: args[0], Args: args})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 126
	}
	<-p.Gone()
	return p.Status().Shell()
}

func becomeSubreaper() {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
}

// reportSignals prints the name of each signal it gets, after "ready", and
// ends at TERM.
func reportSignals() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, proc.Forwardable()...)
	fmt.Println("ready")
	for sig := range signals {
		fmt.Println(proc.SignalName(sig.(syscall.Signal)))
		if sig == syscall.SIGTERM {
			os.Exit(0)
		}
	}
}

// wrapper returns a command that runs args under the wrapper.
func wrapper(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), "PROC_TEST_ROLE=wrap")
	cmd.Stderr = os.Stderr
	return cmd
}

// start starts cmd, and kills it at the end of the test if it still runs.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
}

// pidsIn waits until the file holds n lines and returns them as numbers.
func pidsIn(t *testing.T, file string, n int) []int {
	t.Helper()
	var pids []int
	eventually(t, fmt.Sprintf("%s has %d lines", filepath.Base(file), n), func() bool {
		text, _ := os.ReadFile(file)
		pids = nil
		for line := range strings.Lines(string(text)) {
			if !strings.HasSuffix(line, "\n") {
				continue
			}
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		return len(pids) >= n
	})
	t.Cleanup(func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // only if the test failed are they alive
		}
	})
	return pids
}

// alive reports whether the process runs; a zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
	return !strings.HasPrefix(strings.TrimSpace(rest), "Z")
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}
