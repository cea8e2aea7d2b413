//go:build linux

// Package record makes docs/session.svg: two terminals in which the program is
// really run, on a real server.
//
//	go run ./testdata/record/svg
//
// makes it anew. What is typed, and what job is run, stands here; all else is
// what the program says. The shells have host names of their own, so that the
// one of the machine does not get into the picture.
package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
)

// Options say how to record.
type Options struct {
	PATH  string // where redlockrun is, first, and the tools of a shell
	Redis string // URL of an empty server
	Dir   string // an empty folder

	// Pace is the pause behind each key. Behind a line it is longer, for those who
	// read what came of it. Zero is as fast as it goes.
	Pace time.Duration
}

// Columns and Rows are the size of a terminal: what the longest line needs.
const (
	Columns = 116
	Rows    = 14
)

// patience is the most that any one step takes.
const patience = 20 * time.Second

// job makes the report until the file "made" is there, which the recording decides.
const job = `#!/bin/sh
echo "making the report"
for i in $(seq 1200); do [ -e made ] && break; sleep 0.05; done
echo "the report is made"
`

// Session records both terminals, web-1 and web-2, from the first key to the
// end of the last run.
func Session(o Options) (terminals []*Terminal, err error) {
	if err := os.WriteFile(filepath.Join(o.Dir, "report.sh"), []byte(job), 0o700); err != nil { //nolint:gosec // a program
		return nil, err
	}
	defer func() { // also when the recording fails: jobs end, too
		err = errors.Join(err, os.WriteFile(filepath.Join(o.Dir, "made"), nil, 0o600))
		for _, t := range terminals {
			t.close()
		}
	}()
	begin := time.Now()
	for _, name := range []string{"web-1", "web-2"} {
		t, err := start(name, begin, o)
		if err != nil {
			return terminals, err
		}
		terminals = append(terminals, t)
	}
	one, two := terminals[0], terminals[1]
	const run = "redlockrun --key nightly -- ./report.sh"
	for _, step := range []func() error{
		func() error { return one.types(run, `making the report$`) },
		func() error { return two.types(run, `was not started$`) },
		func() error { return two.types("echo $?", `^75$`) },
		func() error { return two.types("redlockrun status nightly", `report\.sh$`) },
		func() error {
			return two.types("redlockrun --key nightly --wait 2m -- ./report.sh", `waiting for .*giving up in 1m5[0-7]s`)
		},
		func() error { return os.WriteFile(filepath.Join(o.Dir, "made"), nil, 0o600) },
		func() error { return one.awaits(`is made\n.*\$ $`) },
		func() error { return two.awaits(`is made\n.*\$ $`) },
	} {
		if err := step(); err != nil {
			return terminals, err
		}
	}
	return terminals, nil
}

// Frame is what a terminal showed from a time on.
type Frame struct {
	At    time.Duration // since the beginning
	Lines []string
}

// Terminal is a shell on a terminal.
type Terminal struct {
	Name   string
	Frames []Frame

	pace    time.Duration
	begin   time.Time
	command *exec.Cmd
	master  *os.File
	ended   chan struct{}

	mu     sync.Mutex
	screen screen
}

func start(name string, begin time.Time, o Options) (*Terminal, error) {
	t := &Terminal{Name: name, begin: begin, pace: o.Pace, ended: make(chan struct{})}
	size := &pty.Winsize{Rows: Rows, Cols: Columns}
	var err error
	for _, flags := range []uintptr{syscall.CLONE_NEWUTS, 0} { // not everybody may have a host name of his own
		t.command = exec.CommandContext(context.Background(), "bash", "-c", "{ echo "+name+" >/proc/sys/kernel/hostname; } 2>/dev/null; PS1='"+name+"$ ' exec bash --norc --noprofile -i")
		t.command.Dir = o.Dir
		t.command.Env = []string{
			"PATH=" + o.PATH, "REDIS_URL=" + o.Redis, "HOME=" + o.Dir, "XDG_CONFIG_HOME=" + o.Dir, "XDG_RUNTIME_DIR=" + o.Dir,
			"TERM=dumb", "TZ=UTC", "LC_ALL=C", "HISTFILE=", "GORACE=" + os.Getenv("GORACE"),
		}
		t.command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		if t.master, err = pty.StartWithSize(t.command, size); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	go t.read()
	return t, t.awaits(`\$ $`)
}

// read keeps what the screen shows.
func (t *Terminal) read() {
	defer close(t.ended)
	buffer := make([]byte, 4096)
	for {
		n, err := t.master.Read(buffer)
		if err != nil {
			return
		}
		t.mu.Lock()
		t.screen.write(string(buffer[:n]))
		t.Frames = append(t.Frames, Frame{time.Since(t.begin), t.screen.text()})
		t.mu.Unlock()
	}
}

// types a line at the prompt as a person does, and waits for what comes of it.
func (t *Terminal) types(line, until string) error {
	if err := t.awaits(`\$ $`); err != nil {
		return err
	}
	for _, key := range line + "\n" {
		if _, err := t.master.WriteString(string(key)); err != nil {
			return err
		}
		time.Sleep(t.pace)
	}
	if err := t.awaits(until); err != nil {
		return err
	}
	time.Sleep(30 * t.pace)
	return nil
}

// awaits waits until the screen ends in a match.
func (t *Terminal) awaits(pattern string) error {
	re := regexp.MustCompile("(?m)" + pattern)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		t.mu.Lock()
		text := strings.Join(t.screen.text(), "\n")
		t.mu.Unlock()
		if re.MatchString(text) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s never showed %q, but\n%s", t.Name, pattern, text)
		}
	}
}

// close hangs up, and waits for the shell. It must not be called twice.
func (t *Terminal) close() {
	_ = t.master.Close()
	_ = t.command.Process.Kill()
	_ = t.command.Wait()
	<-t.ended
}
