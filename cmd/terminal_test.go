//go:build linux

package cmd_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// shell is an interactive bash on a terminal of its own, as a person uses it.
type shell struct {
	t      *testing.T
	dir    string
	master *os.File

	mu     sync.Mutex
	screen strings.Builder
	seen   int // of the screen, by expect
}

// startShell returns a shell in an empty folder, with the server, if any, as
// its place.
func startShell(t *testing.T, server *redistest.Server) *shell {
	t.Helper()
	s := &shell{t: t, dir: t.TempDir()}
	url := "redis://127.0.0.1:1"
	if server != nil {
		url = server.URL()
	}
	cmd := exec.Command("bash", "--norc", "--noprofile", "-i")
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "PS1=$ ", "HISTFILE=", "TERM=dumb", "REDIS_URL="+url, "HOME="+s.dir, "BASH_SILENCE_DEPRECATION_WARNING=1")
	master, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	s.master = master
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			s.mu.Lock()
			s.screen.Write(buffer[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = master.Close() // hangs up
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Logf("screen:\n%s", s.screen.String())
		}
	})
	s.prompt()
	return s
}

// prompt waits for the shell: what is typed at a key like ^C is thrown away.
func (s *shell) prompt() {
	s.t.Helper()
	s.expect(`\$ $`)
}

// types a line, or keys like ^C.
func (s *shell) types(text string) {
	s.t.Helper()
	switch text {
	case "^C":
		text = "\x03"
	case "^Z":
		text = "\x1a"
	case `^\`:
		text = "\x1c"
	default:
		text += "\n"
	}
	s.keys(text)
}

// keys types no more than that.
func (s *shell) keys(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// expect waits until the screen shows a match behind the last one.
func (s *shell) expect(pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	for deadline := time.Now().Add(scriptPatience); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		rest := strings.ReplaceAll(s.screen.String(), "\r\n", "\r\r")[s.seen:]
		rest = strings.ReplaceAll(rest, "\r\r", "\n\n")
		if at := re.FindStringIndex(rest); at != nil {
			s.seen += at[1]
			s.mu.Unlock()
			return rest[at[0]:at[1]]
		}
		s.mu.Unlock()
		if time.Now().After(deadline) {
			s.t.Fatalf("the screen never showed %q; the rest of it is %q", pattern, rest)
		}
	}
}

// file waits for a line in a file of the shell's folder.
func (s *shell) file(name, pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	for deadline := time.Now().Add(scriptPatience); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(s.dir + "/" + name)
		if at := re.FindIndex(text); at != nil && err == nil {
			return string(text[at[0]:at[1]])
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s never had %q, but %q", name, pattern, text)
		}
	}
}

// pid waits for a process ID in a file.
func (s *shell) pid(name string) int {
	s.t.Helper()
	var pid int
	_, _ = fmt.Sscan(s.file(name, `^\d+$`), &pid)
	return pid
}

func terminalServer(t *testing.T) *redistest.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	return redistest.Start(t)
}

func TestTheCommandCanReadFromTheTerminal(t *testing.T) {
	s := startShell(t, terminalServer(t))
	s.types("redlockrun --key k -- child read; echo code=$?")
	s.expect("^reading")
	s.types("hello")
	s.expect("^got HELLO")
	s.types("end")
	s.expect("^code=0")
	s.types("redlockrun --key k -- child read <input | cat; echo codes=${PIPESTATUS[*]}") // no such file
	s.expect("codes=")
}

func TestTheKeyboardsSignalsReachTheCommandOnce(t *testing.T) {
	server := terminalServer(t)
	for name, line := range map[string]string{
		"alone":         "redlockrun --key k1 -- child signals got",
		"in a pipeline": "redlockrun --key k2 -- child signals got | cat",
		"in a script":   "sh -c 'trap : INT QUIT; redlockrun --key k3 -- child signals got; true'",
	} {
		t.Run(name, func(t *testing.T) {
			s := startShell(t, server)
			s.types(line)
			s.file("got", "ready")
			for n, key := range []string{"^C", `^\`, "^C"} {
				s.types(key)
				s.file("got", fmt.Sprintf(`(SIG\w+\n){%d}`, n+1))
			}
			if err := pty.Setsize(s.master, &pty.Winsize{Rows: 30, Cols: 100}); err != nil {
				t.Fatal(err)
			}
			s.file("got", "SIGWINCH")
			s.types("^C") // behind it: one too many of the others would be seen by now
			s.file("got", `WINCH\nSIGINT`)
			pid := s.pid("got.pid")
			_ = syscall.Kill(pid, syscall.SIGTERM)
			eventually(t, "the command has ended", func() bool { return syscall.Kill(pid, 0) != nil })
			text, _ := os.ReadFile(s.dir + "/got")
			if want := "ready\nSIGINT\nSIGQUIT\nSIGINT\nSIGWINCH\nSIGINT\nSIGTERM\n"; string(text) != want {
				t.Errorf("the command got %q, want %q", text, want)
			}
		})
	}
}

func TestInterruptedByTheKeyboard(t *testing.T) {
	s := startShell(t, terminalServer(t))
	s.types("redlockrun --key k -- sh -c 'touch held; exec sleep 1000'")
	s.file("held", "^")
	s.types("^C")
	s.prompt()
	s.types("echo code=$?")
	s.expect(`^code=130`)
}

// The lock is held while the job is stopped, longer than its ttl; the shell
// has the terminal meanwhile.
func TestStoppedAndContinuedByTheShell(t *testing.T) {
	server := terminalServer(t)
	admin := server.Client(t)
	for name, line := range map[string]string{
		"alone":         "redlockrun --key k --ttl 3s -- child read",
		"in a pipeline": "redlockrun --key k --ttl 3s -- child read | cat",
	} {
		t.Run(name, func(t *testing.T) {
			admin.FlushAll(t.Context())
			s := startShell(t, server)
			s.types(line)
			s.expect("^reading")
			token := admin.Get(t.Context(), "lock:report:k").Val()
			s.types("^Z")
			s.expect("Stopped")
			s.prompt()
			s.types("echo the shell is back")
			s.expect("^the shell is back")
			time.Sleep(4 * time.Second) // longer than the ttl: this is what is tested
			if got := admin.Get(t.Context(), "lock:report:k").Val(); got == "" || got != token {
				t.Errorf("the lock holds %q, want %q", got, token)
			}
			s.types("fg")
			s.types("again")
			s.expect("^got AGAIN")
			s.types("^Z")
			s.expect("Stopped")
			s.prompt()
			s.types("bg")
			s.types("echo in front")
			s.expect("^in front")
			// The job in the background reads, and stops. To bring it to the
			// front in that very moment is a race under any shell. So is what bg
			// does itself: a command that reads before the CONT has reached all
			// of a pipeline stops, and cat does not.
			s.types("n=0; until jobs | grep Stopped; do sleep 0.05; ((++n % 200)) || kill -TTIN %1; done")
			s.expect("Stopped")
			s.prompt()
			s.types("fg")
			s.types("once more")
			s.expect("^got ONCE MORE")
			s.types("end")
			s.types("echo done") // a list that was stopped goes on without its rest
			s.expect("^done")
			eventually(t, "the lock is released", func() bool { return admin.Exists(t.Context(), "lock:report:k").Val() == 0 })
		})
	}
}

// Whoever continues the job in the background has it stopped again, for reading.
// A CONT that crosses with that stop leaves no wrapper running before a command
// that is stopped, which no shell would continue.
func TestAJobThatReadsInTheBackgroundStopsAsAWhole(t *testing.T) {
	server := terminalServer(t)
	const read = "sh -c 'echo $$ >pid; echo $PPID >supervisor; exec child read'"
	for name, line := range map[string]string{
		"alone":         "redlockrun --key k1 -- " + read,
		"in a pipeline": "redlockrun --key k2 -- " + read + " | cat",
	} {
		t.Run(name, func(t *testing.T) {
			s := startShell(t, server)
			s.types(line)
			s.expect("^reading")
			command, wrapper := s.pid("pid"), parentOf(t, s.pid("supervisor"))
			s.types("^Z")
			s.expect("Stopped")
			s.prompt()
			for range 20 {
				s.types("kill -CONT %1")
				s.prompt()
				eventually(t, "wrapper and command are stopped", func() bool { return stateOf(wrapper)+stateOf(command) == "TT" })
			}
			s.types("kill -KILL %1; wait; echo done")
			s.expect("^done")
		})
	}
}

func TestAJobStartedInTheBackground(t *testing.T) {
	s := startShell(t, terminalServer(t))
	s.types("redlockrun --key k -- sh -c 'touch held; until [ -e go ]; do sleep 0.02; done; exec child read' &")
	s.file("held", "^")
	s.types("touch go; until jobs | grep Stopped; do sleep 0.05; done")
	s.expect("Stopped +redlockrun")
	s.prompt()
	s.types("fg")
	s.types("at last")
	s.expect("^got AT LAST")
	s.types("^C")
	s.prompt()
	s.types("echo code=$?")
	s.expect("^code=130")
}

// Brought to the front while it runs, the job is told nothing by the shell.
func TestARunningJobBroughtToTheForeground(t *testing.T) {
	s := startShell(t, terminalServer(t))
	s.types("redlockrun --key k -- sh -c 'touch held; until [ -e go ]; do sleep 0.02; done; exec child read' &")
	s.file("held", "^")
	s.types("fg")
	s.expect("^redlockrun")
	if err := os.WriteFile(s.dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.expect("^reading")
	s.types("hello")
	s.expect("^got HELLO")
	s.types("end")
	s.types("echo code=$?")
	s.expect("^code=0")
}

// A stopped command does not run on without its lock: it is killed, and the
// wrapper, which is stopped too, is continued to say so. (The command is no loop
// of a shell: one that is stopped between its vfork and its exec hides the stop
// of the shell, from any parent.)
func TestTheLockIsLostWhileTheJobIsStopped(t *testing.T) {
	server := terminalServer(t)
	admin := server.Client(t)
	for name, line := range map[string]string{
		"alone":         "redlockrun --key k --ttl 3s -- sh -c 'echo $$ >pid; exec child stamps ran'",
		"in a pipeline": "redlockrun --key k --ttl 3s -- sh -c 'echo $$ >pid; exec child stamps ran' | cat",
	} {
		t.Run(name, func(t *testing.T) {
			admin.FlushAll(t.Context())
			s := startShell(t, server)
			s.types("set -o pipefail; " + line)
			pid := s.pid("pid")
			s.file("ran", `^\d`)
			s.types("^Z")
			s.expect("Stopped")
			s.prompt()
			before, _ := os.ReadFile(s.dir + "/ran")
			admin.Set(t.Context(), "lock:report:k", "another", time.Minute)
			eventually(t, "the command is dead", func() bool { return syscall.Kill(pid, 0) != nil })
			// The wrapper was continued to say so, behind the shell's back.
			s.expect("was lost")
			s.types("fg") // what is left of the job, if anything is
			s.types("echo code=$?")
			s.expect("Exit 79|^code=79")
			if after, _ := os.ReadFile(s.dir + "/ran"); string(after) != string(before) {
				t.Error("the command ran on")
			}
		})
	}
}

func TestTheTerminalIsRestoredAfterAKill(t *testing.T) {
	s := startShell(t, terminalServer(t))
	s.types("stty -a | grep -o '.echo .echoe' >before; redlockrun --key k -- sh -c 'stty -echo raw; echo $$ >pid; exec sleep 1000'; stty -a | grep -o '.echo .echoe' >after; touch done")
	pid := s.pid("pid")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.file("done", "^")
	before, _ := os.ReadFile(s.dir + "/before")
	after, _ := os.ReadFile(s.dir + "/after")
	if string(before) != string(after) {
		t.Errorf("the terminal has %q, want %q as before", after, before)
	}
}

// What a command does to the terminal on purpose stays.
func TestTheTerminalIsLeftAsACommandLeftIt(t *testing.T) {
	s := startShell(t, terminalServer(t))
	s.types("redlockrun --key k -- stty -echo; stty -a | grep -o '.echo ' >after; stty echo; touch done")
	s.file("done", "^")
	if after, _ := os.ReadFile(s.dir + "/after"); string(after) != "-echo \n" {
		t.Errorf("the terminal has %q, want echo off", after)
	}
}

// With tostop the terminal stops those who write to it from the background;
// that must not stop who keeps the lease.
func TestATerminalThatStopsBackgroundOutput(t *testing.T) {
	s := startShell(t, terminalServer(t))
	s.types("stty tostop; redlockrun -v --key k --ttl 3s -- sh -c 'until [ -e go ]; do sleep 0.02; done; echo still here'; echo code=$?")
	s.expect("^redlockrun: renewed")
	if err := os.WriteFile(s.dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.expect("^still here")
	s.expect("^code=0")
}

// A job that the terminal stopped as a whole, and the shell continued, is not
// stopped once more by what the wrapper had not read yet.
func TestAJobStoppedForWritingIsContinuedOnce(t *testing.T) {
	s := startShell(t, terminalServer(t))
	s.types("stty tostop; set -o pipefail")
	for range 10 {
		s.prompt()
		s.types("redlockrun --key k -- sh -c 'until [ -e go ]; do sleep 0.02; done; rm go; echo out >&2; exit 5' | cat &")
		s.prompt()
		s.types("touch go; until jobs | grep Stopped; do sleep 0.05; done")
		s.expect("^.1.. +Stopped")
		s.prompt()
		s.types("fg; echo code=$?")
		if got := s.expect(`^code=\d+`); got != "code=5" {
			t.Fatalf("%s, want the command's 5", got)
		}
	}
}

// The wrapper looks at what became of the command, not at what was told first.
func TestStoppedAndContinuedBehindTheWrappersBack(t *testing.T) {
	s := startShell(t, terminalServer(t))
	s.types("redlockrun --key k -- sh -c 'echo $$ >pid; echo $PPID >supervisor; until [ -e go ]; do sleep 0.02; done; exit 6'")
	command, supervisor := s.pid("pid"), s.pid("supervisor")
	wrapper := parentOf(t, supervisor)
	for _, step := range []struct {
		pid  int
		sig  syscall.Signal
		want string
	}{{wrapper, syscall.SIGSTOP, "T"}, {command, syscall.SIGSTOP, "T"}, {command, syscall.SIGCONT, "S"}} {
		_ = syscall.Kill(step.pid, step.sig)
		eventually(t, "it is in state "+step.want, func() bool { return stateOf(step.pid) == step.want })
	}
	eventually(t, "the wrapper runs", func() bool { return stateOf(wrapper) == "S" })
	if err := os.WriteFile(s.dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the wrapper ends", func() bool { return !running(wrapper) }) // whatever the shell saw of its stop
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	var parent int
	if _, err := fmt.Sscan(strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[1], &parent); err != nil {
		t.Fatal(err)
	}
	return parent
}

// A shell that is killed may have given the terminal to a job of its own.
func TestTheTerminalIsTakenBackFromAShellThatWasKilled(t *testing.T) {
	server := terminalServer(t)
	admin := server.Client(t)
	s := startShell(t, server)
	s.types("redlockrun --key k --ttl 3s --kill-after 100ms -- bash --norc -i")
	s.prompt()
	s.types("sh -c 'stty -echo -icanon; touch held; exec sleep 1000'")
	s.file("held", "^")
	admin.Del(t.Context(), "lock:report:k")
	s.expect("was lost")
	s.types("stty -a | grep -o '[-]*echo ' >after; touch done")
	s.file("done", "^")
	if after, _ := os.ReadFile(s.dir + "/after"); string(after) != "echo \n" {
		t.Errorf("the terminal has %q, want echo on", after)
	}
}

func TestTheWaitingLine(t *testing.T) {
	server := terminalServer(t)
	admin := server.Client(t)
	s := startShell(t, server)
	if err := pty.Setsize(s.master, &pty.Winsize{Rows: 24, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	admin.Set(t.Context(), "lock:report:k", "foreign", time.Minute)
	s.types("redlockrun --key k --wait 10m -- echo it runs")
	s.expect(`waiting for lock:report:k: held by a program that leaves no record; giving up in 9m5\ds`)
	admin.Del(t.Context(), "lock:report:k")
	s.expect("\x1b\\[Kit runs")
}
