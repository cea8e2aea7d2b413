//go:build unix

package cmd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// The commands that the scripts have beside those of testscript.

// cmdStatus runs a command to its end: "status N COMMAND ARG...". N is an exit
// code or the name of the signal that it died of.
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%v", err)
	}
	got := "0"
	if exit != nil {
		got = statusText(exit.ProcessState)
	}
	if got != args[0] {
		ts.Fatalf("status %s, want %s", got, args[0])
	}
}

func statusText(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return proc.SignalName(status.Signal())
	}
	return strconv.Itoa(state.ExitCode())
}

// processes are those that a script started and has not seen end.
type processes struct {
	mu     sync.Mutex
	byName map[string]*process
	server *redistest.Server // of this script alone, or nil
}

type processesKey struct{}

type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func processOf(ts *testscript.TestScript, name string) *process {
	all := ts.Value(processesKey{}).(*processes)
	all.mu.Lock()
	defer all.mu.Unlock()
	p := all.byName[name]
	if p == nil {
		ts.Fatalf("no process %q was started", name)
	}
	return p
}

// cmdStart starts a command in the background: "start NAME COMMAND ARG...".
// Its output goes to NAME.out and NAME.err.
func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME COMMAND [ARG...]")
	}
	name := args[0]
	path, err := lookPath(ts, args[1])
	ts.Check(err)
	stdout, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	stderr, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	c := &exec.Cmd{Path: path, Args: args[1:], Dir: ts.MkAbs("."), Stdout: stdout, Stderr: stderr}
	c.Env = scriptEnv(ts)
	ts.Check(c.Start())
	p := &process{cmd: c, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = c.Wait()
		_ = stdout.Close()
		_ = stderr.Close()
	}()
	all := ts.Value(processesKey{}).(*processes)
	all.mu.Lock()
	all.byName[name] = p
	all.mu.Unlock()
	ts.Defer(func() {
		_ = c.Process.Kill()
		<-p.done
	})
}

// scriptEnv is the environment of the script, as far as programs need it.
func scriptEnv(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{
		"PATH", "HOME", "WORK", "TMPDIR", "REPO", "REDIS_URL", "REDISCLI_AUTH", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME",
		"GOCOVERDIR", "GORACE", "REPORT_DELAY",
	} {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func lookPath(ts *testscript.TestScript, name string) (string, error) {
	if strings.Contains(name, "/") {
		return ts.MkAbs(name), nil
	}
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), ":") {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: not found", name)
}

// cmdSignal sends a signal: "signal NAME SIGNAL". NAME is of a process that
// was started, "NAME/child" its only child, "NAME/child/child" the only one of
// that, or a file that holds a process ID.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal NAME|FILE SIGNAL")
	}
	sig, err := proc.ParseSignal(args[1])
	ts.Check(err)
	if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
		pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
		ts.Check(err)
		ts.Check(syscall.Kill(pid, sig))
		return
	}
	name, _, _ := strings.Cut(args[0], "/")
	pid := processOf(ts, name).cmd.Process.Pid
	for range strings.Count(args[0], "/child") {
		children := childrenOf(pid)
		if len(children) != 1 {
			ts.Fatalf("%s: process %d has the children %v, want one", args[0], pid, children)
		}
		pid = children[0]
	}
	ts.Check(syscall.Kill(pid, sig))
}

// childrenOf lists the children of all threads of a process.
func childrenOf(pid int) []int {
	var children []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		list, _ := os.ReadFile(task)
		for field := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// cmdEnded waits for the end of a process: "ended NAME N", N as for status.
func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ended NAME N")
	}
	p := processOf(ts, args[0])
	select {
	case <-p.done:
	case <-time.After(scriptPatience):
		ts.Fatalf("%s has not ended", args[0])
	}
	if got := statusText(p.cmd.ProcessState); got != args[1] {
		ts.Logf("[%s.err]\n%s", args[0], ts.ReadFile(args[0]+".err"))
		ts.Fatalf("status %s, want %s", got, args[1])
	}
}

const scriptPatience = 60 * time.Second

// cmdWaitFor waits until a file exists, or has a line that matches: "waitfor
// FILE [REGEXP]"; negated, until there is no such file.
func cmdWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: [!] waitfor FILE [REGEXP]")
	}
	pattern := regexp.MustCompile("")
	if len(args) == 2 {
		pattern = regexp.MustCompile("(?m)" + args[1])
	}
	file := ts.MkAbs(args[0])
	for deadline := time.Now().Add(scriptPatience); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(file)
		if (err == nil && pattern.Match(text)) != neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("waited too long for %s; it has %q", strings.Join(args, " "), text)
		}
	}
}

// cmdRedis asks the server of the script: "redis COMMAND ARG...", and prints
// the answer as lines. "redis await ANSWER COMMAND ARG..." asks until the
// answer is the one wanted.
func cmdRedis(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: redis [await ANSWER] COMMAND [ARG...]")
	}
	client := scriptClient(ts)
	defer client.Close()
	if args[0] == "await" && len(args) > 2 {
		for deadline := time.Now().Add(scriptPatience); ; time.Sleep(5 * time.Millisecond) {
			got := ask(ts, client, args[2:])
			if got == args[1] {
				return
			}
			if time.Now().After(deadline) {
				ts.Fatalf("%s: still %q, want %q", strings.Join(args[2:], " "), got, args[1])
			}
		}
	}
	fmt.Fprintln(ts.Stdout(), ask(ts, client, args))
}

func scriptClient(ts *testscript.TestScript) *redis.Client {
	place, err := lock.ParsePlace(ts.Getenv("REDIS_URL"))
	ts.Check(err)
	opts := place.Options()
	if place.Embedded {
		opts.Network, opts.Addr = "unix", embedded.SocketPath(filepath.Join(ts.Getenv("XDG_RUNTIME_DIR"), "redlockrun"))
	}
	return lock.NewClient(opts)
}

func ask(ts *testscript.TestScript, client *redis.Client, args []string) string {
	words := make([]any, len(args))
	for i, arg := range args {
		words[i] = arg
	}
	reply, err := client.Do(context.Background(), words...).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "(nil)"
	case err != nil:
		ts.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	if list, ok := reply.([]any); ok {
		lines := make([]string, len(list))
		for i, item := range list {
			lines[i] = fmt.Sprint(item)
		}
		return strings.Join(lines, "\n")
	}
	return fmt.Sprint(reply)
}
