//go:build linux

package proc_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlockrun/redlockrun/lockexec/proc"
)

func TestExitCodesPassThrough(t *testing.T) {
	for code := range 256 {
		cmd := wrapper(t, "/bin/sh", "-c", fmt.Sprintf("exit %d", code))
		err := cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("exit %d became %d (%v)", code, got, err)
		}
	}
}

func TestDeathBySignalPassesThrough(t *testing.T) {
	dir := t.TempDir()
	for _, sig := range []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE,
		unix.SIGKILL, unix.SIGUSR1, unix.SIGSEGV, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGTERM, unix.SIGSYS,
	} {
		cmd := wrapper(t, "/bin/sh", "-c", fmt.Sprintf("kill -%d $$", sig))
		cmd.Dir = dir
		_ = cmd.Run()
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !status.Signaled() || status.Signal() != sig {
			t.Errorf("death by %v became %v", sig, cmd.ProcessState)
		}
		if status.CoreDump() {
			t.Errorf("death by %v: the wrapper left a core of its own", sig)
		}
	}
}

func TestArgumentsAndStreamsAreVerbatim(t *testing.T) {
	args := []string{"", "two words", "line\nbreak", "-x", "--", "$HOME", "'\"", "bad\xffutf8", "*"}
	cmd := wrapper(t, append([]string{"/bin/sh", "-c", `for a; do printf '<%s>' "$a"; done; cat; echo err >&2`, "sh"}, args...)...)
	stdin := bytes.Repeat([]byte("0123456789abcde\n"), 10<<20/16)
	cmd.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	want := "<" + strings.Join(args, "><") + ">" + string(stdin)
	if got := stdout.String(); got != want {
		t.Errorf("stdout has %d bytes, begins with %.80q; want %d, %.80q", len(got), got, len(want), want)
	}
	if stderr.String() != "err\n" {
		t.Errorf("stderr %q", stderr.String())
	}
}

func TestLookPath(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write := func(path, text string, mode os.FileMode) string {
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write(filepath.Join(dir, "plain"), "#!/bin/sh\n", 0o644)
	write(filepath.Join(dir, "tool"), "#!/bin/sh\n", 0o644)
	tool := write(filepath.Join(other, "tool"), "#!/bin/sh\n", 0o755)
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, path string
		want       string
		kind       error
	}{
		{name: "tool", path: dir + ":" + other, want: tool}, // the one that can't be executed is passed over
		{name: "plain", path: dir, kind: proc.ErrNotExecutable},
		{name: "folder", path: dir, kind: proc.ErrNotExecutable},
		{name: "nothing", path: dir, kind: proc.ErrNotFound},
		{name: "tool", path: "", kind: proc.ErrNotFound},
		{name: "tool", path: plain + ":/no/such", kind: proc.ErrNotFound},
		{name: "", path: dir, kind: proc.ErrNotFound},
		{name: tool, want: tool},
		{name: plain, kind: proc.ErrNotExecutable},
		{name: folder, kind: proc.ErrNotExecutable},
		{name: folder + "/none", kind: proc.ErrNotFound},
		{name: plain + "/none", kind: proc.ErrNotFound},
	} {
		t.Setenv("PATH", tc.path)
		got, err := proc.LookPath(tc.name)
		if got != tc.want || !errors.Is(err, tc.kind) {
			t.Errorf("LookPath(%q) with PATH=%q: %q, %v; want %q, %v", tc.name, tc.path, got, err, tc.want, tc.kind)
		}
	}
	t.Chdir(other)
	t.Setenv("PATH", ":"+dir)
	if got, err := proc.LookPath("tool"); err != nil || got != "./tool" {
		t.Errorf("with an empty entry in PATH: %q, %v, want ./tool", got, err)
	}
}

func TestStartOfAFileThatIsNoProgram(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// Without #!, a script is sh's, with its arguments.
	cmd := wrapper(t, script("bare", `echo "$0 $1"`), "arg")
	out, err := cmd.Output()
	if err != nil || !strings.HasSuffix(string(out), "/bare arg\n") {
		t.Errorf("a script without #!: %q, %v", out, err)
	}
	_, err = proc.Start(proc.Command{Path: script("lost", "#!/no/such/interpreter\n"), Args: []string{"lost"}})
	if !errors.Is(err, proc.ErrNotExecutable) {
		t.Errorf("a missing interpreter: %v", err)
	}
	_, err = proc.Start(proc.Command{Path: filepath.Join(dir, "bare"), Args: []string{"bare", strings.Repeat("x", 1<<20)}})
	if !errors.Is(err, proc.ErrNotExecutable) {
		t.Errorf("an argument that is too long: %v", err)
	}
}

func TestAFileThatIsBeingWrittenIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "busy")
	source, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = proc.Start(proc.Command{Path: path, Args: []string{path}})
	if !errors.Is(err, syscall.ETXTBSY) || !errors.Is(err, proc.ErrNotExecutable) {
		t.Errorf("while it is being written: %v", err)
	}
	writer.Close()
	p, err := proc.Start(proc.Command{Path: path, Args: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Gone()
}

func TestSignalsReachTheChildOnce(t *testing.T) {
	exe, _ := os.Executable()
	cmd := wrapper(t, exe)
	cmd.Env = append(cmd.Env, "PROC_TEST_CHILD=report-signals")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	lines := bufio.NewScanner(out)
	lines.Scan() // ready
	var got []string
	want := []string{"SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGABRT", "SIGALRM", "SIGWINCH", "SIGTERM"}
	for _, name := range want {
		sig, err := proc.ParseSignal(name)
		if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Process.Signal(sig)
		if lines.Scan() {
			got = append(got, lines.Text())
		}
	}
	for lines.Scan() {
		got = append(got, lines.Text())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the child got %q, want %q", got, want)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	exe, _ := os.Executable()
	cmd := wrapper(t, exe)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `trap "" HUP INT; exec "$@"`, "sh", exe, exe}
	cmd.Env = append(cmd.Env, "PROC_TEST_CHILD=report-signals")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	reader := bufio.NewReader(out)
	if line, err := reader.ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM} {
		_ = cmd.Process.Signal(sig)
	}
	rest, _ := io.ReadAll(reader)
	if string(rest) != "SIGTERM\n" {
		t.Errorf("the child got %q, want SIGTERM alone", rest)
	}
	_ = cmd.Wait()
}

// What a child leaves behind in every way that gets it out of sight: in the
// background, orphaned, in a session of its own, forked twice.
const brood = `
echo $$ >>pids
sleep 1000 & echo $! >>pids
(sleep 1000 & echo $! >>pids)
setsid sh -c 'echo $$ >>pids; exec sleep 1000' &
setsid sh -c '(echo $$ >/dev/null; sh -c "echo \$\$ >>pids; exec sleep 1000" &)' &
(trap "" TERM HUP INT; sh -c 'echo $$ >>pids; while :; do sleep 1000; done' &)
`

// Neither ignored nor blocked in the child is what was neglected, and ignored
// still what was before.
func TestNeglectedSignalsAreTheChildsAllTheSame(t *testing.T) {
	for _, shell := range []string{`exec "$@"`, `trap "" HUP TSTP; exec "$@"`} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		const cat = "/bin/cat"
		direct := exec.CommandContext(ctx, "/bin/sh", "-c", shell, "sh", cat, "/proc/self/status")
		want, err := direct.Output()
		if err != nil {
			t.Fatal(err)
		}
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", shell, "sh", exe, cat, "/proc/self/status")
		cmd.Env = append(os.Environ(), "PROC_TEST_ROLE=deaf")
		stdin, _ := cmd.StdinPipe()
		stdout, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(stdout)
		if line, err := lines.ReadString('\n'); line != "deaf\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		for _, sig := range []syscall.Signal{
			unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGABRT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU,
		} {
			for range 3 {
				_ = cmd.Process.Signal(sig)
			}
		}
		_, _ = io.WriteString(stdin, "\n")
		got, _ := io.ReadAll(lines)
		if err := cmd.Wait(); err != nil {
			t.Errorf("after all signals: %v", err)
		}
		for _, set := range []string{"SigBlk:", "SigIgn:"} {
			if got, want := field(string(got), set), field(string(want), set); got != want || want == "" {
				t.Errorf("%s the child has %s %q, want %q", shell, set, got, want)
			}
		}
	}
}

// field returns what follows a word in the file that /proc has of a process.
func field(status, word string) string {
	_, rest, _ := strings.Cut(status, word)
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

func TestKillEndsTheWholeTree(t *testing.T) {
	dir := t.TempDir()
	cmd := wrapper(t, "/bin/sh", "-c", brood+"wait; sleep 1000")
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "PROC_TEST_KILL=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	pids := pidsIn(t, filepath.Join(dir, "pids"), 6)
	stdin.Close()
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != unix.SIGKILL {
		t.Errorf("the wrapper ended with %v, want SIGKILL as its child", cmd.ProcessState)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d of the tree is alive", pid)
		}
	}
}

func TestLeftoversAreSeenAndKilled(t *testing.T) {
	dir := t.TempDir()
	cmd := wrapper(t, "/bin/sh", "-c", brood+"while [ $(wc -l <pids) -lt 6 ]; do sleep 0.01; done; exit 7")
	cmd.Dir = dir
	start(t, cmd)
	pids := pidsIn(t, filepath.Join(dir, "pids"), 6)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit code %d, want the child's 7", code)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
}

func TestAForkStormDoesNotEscape(t *testing.T) {
	dir := t.TempDir()
	storm := `storm() { echo $$ >>pids; [ $1 -gt 0 ] && { (storm $(($1-1))) & (storm $(($1-1))) & }; sleep 1000; }; storm 7`
	cmd := wrapper(t, "/bin/sh", "-c", storm)
	cmd.Dir = dir
	// A mark in the environment tells the storm's processes from all others.
	cmd.Env = append(cmd.Env, "PROC_TEST_KILL=1", "PROC_TEST_STORM="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	pidsIn(t, filepath.Join(dir, "pids"), 20) // in the midst of it
	stdin.Close()
	_ = cmd.Wait()
	if left := processesWith(t, "PROC_TEST_STORM="+dir); len(left) > 0 {
		t.Errorf("%d processes of the storm are alive", len(left))
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// processesWith lists the live processes that have entry in their environment.
func processesWith(t *testing.T, entry string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if slices.Contains(strings.Split(string(text), "\x00"), entry) {
			var pid int
			if _, err := fmt.Sscanf(file, "/proc/%d/environ", &pid); err == nil && alive(pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func TestTheChildDiesWithItsParent(t *testing.T) {
	dir := t.TempDir()
	cmd := wrapper(t, "/bin/sh", "-c", "echo $$ >>pids; exec sleep 1000")
	cmd.Dir = dir
	start(t, cmd)
	pid := pidsIn(t, filepath.Join(dir, "pids"), 1)[0]
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "the child is dead", func() bool { return !alive(pid) })
}

func TestWithoutAdoptionOtherChildrenAreLeftAlone(t *testing.T) {
	other := exec.Command("sleep", "1000")
	start(t, other)
	path, err := proc.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p, err := proc.Start(proc.Command{
		Path: path,
		Args: []string{"sh", "-c", "sleep 1000 & echo $! >>" + dir + "/pids; exit 3"},
		Env:  os.Environ(),
	})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	if got := p.Status(); got.Code != 3 {
		t.Errorf("status %v", got)
	}
	pid := pidsIn(t, filepath.Join(dir, "pids"), 1)[0]
	select {
	case <-p.Gone():
		t.Error("gone, though a job of its group runs")
	default:
	}
	p.Kill()
	if alive(pid) {
		t.Error("the job in the background is alive")
	}
	if !alive(other.Process.Pid) {
		t.Error("a child of the test itself was killed")
	}
	_ = other.Process.Kill()
	if err := other.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the status of a child of the test itself was taken away: %v", err)
	}
}

// Who becomes the parent of orphans may wait for none of them: the first process
// of a container is often no init. Their zombies hold nobody up.
func TestZombiesOfOrphansAreNotWaitedFor(t *testing.T) {
	for neglectful, role := range map[string]string{"self": "wrap", "parent": "neglect"} {
		t.Run(neglectful, func(t *testing.T) {
			dir := t.TempDir()
			cmd := wrapper(t, "/bin/sh", "-c", "sleep 1000 & echo $! >>pids; sleep 1000 & echo $! >>pids; exit 7")
			cmd.Dir = dir
			cmd.Env = append(cmd.Env, "PROC_TEST_ROLE="+role, "PROC_TEST_NEGLECT="+neglectful)
			start(t, cmd)
			pids := pidsIn(t, filepath.Join(dir, "pids"), 2)
			ended := make(chan struct{})
			go func() {
				_ = cmd.Wait()
				close(ended)
			}()
			select {
			case <-ended:
			case <-time.After(30 * time.Second):
				_ = cmd.Process.Kill()
				<-ended
				t.Fatal("the dead are waited for")
			}
			if code := cmd.ProcessState.ExitCode(); code != 7 {
				t.Errorf("exit code %d, want the child's 7", code)
			}
			for _, pid := range pids {
				if alive(pid) {
					t.Errorf("process %d is alive", pid)
				}
			}
		})
	}
}

func TestASignalAfterTheEndReachesNobody(t *testing.T) {
	p, err := proc.Start(proc.Command{Path: "/bin/true", Args: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	<-p.Gone()
}

func TestParseSignal(t *testing.T) {
	for text, want := range map[string]syscall.Signal{
		"TERM": unix.SIGTERM, "sigterm": unix.SIGTERM, "SIGUSR1": unix.SIGUSR1, "15": unix.SIGTERM, "kill": unix.SIGKILL,
		"34": 34, "RTMIN": 34, "sigrtmin+3": 37, "RTMAX-1": 63, "64": 64,
	} {
		if got, err := proc.ParseSignal(text); err != nil || got != want {
			t.Errorf("ParseSignal(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "99", "TERMINATE", "SIG", "15x", "65", "RTMIN+31", "RTMIN-1", "RTMAX+1", "RTMAXX1", "RTMIN+"} {
		if got, err := proc.ParseSignal(text); err == nil {
			t.Errorf("ParseSignal(%q) = %v, want an error", text, got)
		}
	}
}
