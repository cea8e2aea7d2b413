//go:build unix

package cmd_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// nodeModules names the folder with the libraries of lock.js.
const nodeModules = "REDLOCKRUN_TEST_NODE_MODULES"

// foreignLock is a library of another language.
type foreignLock struct {
	interpreters []string // the first that has the library is used
	probe        []string // arguments with which it says whether it has
	program      string   // in testdata/interop
	install      string   // how to get what is missing
}

var foreignLocks = map[string]foreignLock{
	"python": {
		interpreters: []string{"/usr/bin/python3", "python3"}, // that of the system has the system's packages
		probe:        []string{"-c", "import redis"},
		program:      "lock.py",
		install:      "apt-get install python3-redis",
	},
	"node": {
		interpreters: []string{"node"},
		probe:        []string{"-e", "require('redlock'); require('ioredis')"},
		program:      "lock.js",
		install: "apt-get install nodejs npm; cp testdata/interop/package.json DIR; npm install --prefix DIR; " +
			nodeModules + "=DIR/node_modules",
	},
	"perl": {
		interpreters: []string{"perl"},
		probe:        []string{"-MRedis", "-e", "1"},
		program:      "lock.pl",
		install:      "apt-get install libredis-perl",
	},
}

func forEachForeignLock(t *testing.T, test func(t *testing.T, server *redistest.Server, admin *redis.Client, foreign *foreigner)) {
	t.Helper()
	for language, lock := range foreignLocks {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			interpreter := lock.find(t)
			server := redistest.Start(t)
			test(t, server, server.Client(t), startForeigner(t, interpreter, lock.program, server.Addr()))
		})
	}
}

// find returns an interpreter that has the library.
func (l foreignLock) find(t *testing.T) string {
	t.Helper()
	var said []byte
	for _, interpreter := range l.interpreters {
		probe := exec.Command(interpreter, l.probe...)
		probe.Env = foreignEnv()
		out, err := probe.CombinedOutput()
		if err == nil {
			return interpreter
		}
		said = fmt.Appendf(said, "\n%s: %v %s", interpreter, err, out)
	}
	missing := fmt.Sprintf("the library of %s is not here: %s%s", l.program, l.install, said)
	if slices.Contains(strings.Fields(strings.ReplaceAll(os.Getenv("REDLOCKRUN_TEST_REQUIRE"), ",", " ")), "interop") {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

func foreignEnv() []string { return append(os.Environ(), "NODE_PATH="+os.Getenv(nodeModules)) }

// foreigner is a program of testdata/interop that runs.
type foreigner struct {
	t       *testing.T
	stdin   io.Writer
	answers *bufio.Reader
	token   string // of its last success
	hung    *time.Timer
}

// foreignPatience is how long a foreigner may take to answer or to end.
const foreignPatience = 2 * time.Minute

func startForeigner(t *testing.T, interpreter, program string, addrs ...string) *foreigner {
	t.Helper()
	args := append([]string{filepath.Join("..", "testdata", "interop", program)}, addrs...)
	cmd := exec.Command(interpreter, args...)
	cmd.Env = foreignEnv()
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(foreignPatience, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		hung.Reset(foreignPatience)
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", program, err)
		}
		hung.Stop()
	})
	return &foreigner{t: t, stdin: stdin, answers: bufio.NewReader(stdout), hung: hung}
}

func (f *foreigner) ask(line string) string {
	f.t.Helper()
	f.hung.Reset(foreignPatience)
	if _, err := io.WriteString(f.stdin, line+"\n"); err != nil {
		f.t.Fatal(err)
	}
	answer, err := f.answers.ReadString('\n')
	if err != nil {
		f.t.Fatalf("%s: %v", line, err)
	}
	return strings.TrimSpace(answer)
}

// acquires reports whether it gets the lock "k".
func (f *foreigner) acquires(ttl time.Duration) bool {
	f.t.Helper()
	answer := f.ask(fmt.Sprintf("acquire %s %d", guardedLock, ttl.Milliseconds()))
	if answer == "busy" {
		return false
	}
	f.token = answer
	return true
}

// extends has it prolong, or cut short, what it last got, and says whether it
// was still its.
func (f *foreigner) extends(ttl time.Duration) bool {
	f.t.Helper()
	return f.ask(fmt.Sprintf("extend %d", ttl.Milliseconds())) == "extended"
}

// releases has it release what it last got, and says whether it was still its.
func (f *foreigner) releases() bool {
	f.t.Helper()
	return f.ask("release") == "released"
}
