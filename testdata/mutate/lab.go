//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/redlockrun/redlockrun/testdata/mutate/mutants"
)

// lab builds test programs of mutants, and runs them.
type lab struct {
	root    string // of the module
	dir     string // for what is built
	timeout time.Duration
	sound   map[string]error // by test: nil if it passes on the program as it is
}

// tryAll tries one mutant after the other: they share the machine's time.
func (l *lab) tryAll(ctx context.Context, chosen []mutants.Mutant) error {
	bad := 0
	for _, m := range chosen {
		began := time.Now()
		verdict, killed := l.try(ctx, m)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !killed {
			bad++
		}
		fmt.Printf("%-34s %5.1fs  %s\n", m.Name, time.Since(began).Seconds(), verdict)
	}
	fmt.Printf("%d mutants, %d not killed\n", len(chosen), bad)
	if bad > 0 {
		return fmt.Errorf("%d of %d mutants were not killed", bad, len(chosen))
	}
	return nil
}

// try returns what became of a mutant, in words.
func (l *lab) try(ctx context.Context, m mutants.Mutant) (verdict string, killed bool) {
	if _, known := l.sound[m.Test]; !known {
		_, err := l.testOriginal(ctx, m)
		l.sound[m.Test] = err
	}
	if err := l.sound[m.Test]; err != nil {
		return fmt.Sprintf("NOTHING PROVED: %s does not pass on the program as it is: %v", m.Test, err), false
	}
	complaint, err := l.testMutant(ctx, m)
	switch {
	case err == nil:
		return "SURVIVED " + m.Test, false
	case errors.Is(err, errTest):
		return "killed by " + complaint, true
	default:
		return "BROKEN: " + err.Error(), false
	}
}

// testOriginal runs the test of m on the program as it is. Like testMutant it
// returns the first complaint of a test that fails with errTest.
func (l *lab) testOriginal(ctx context.Context, m mutants.Mutant) (complaint string, err error) {
	program := filepath.Join(l.dir, strings.ReplaceAll(m.Package(), "/", "-")+".test")
	if _, err := os.Stat(program); err != nil {
		changes := map[string]string{}
		if m.Package() == "./"+scriptPackage {
			name, text, err := l.scriptLoader()
			if err != nil {
				return "", err
			}
			changes[name] = text
		}
		if err := l.build(ctx, m.Package(), program, changes); err != nil {
			return "", err
		}
	}
	return l.test(ctx, program, m, nil)
}

func (l *lab) testMutant(ctx context.Context, m mutants.Mutant) (complaint string, err error) {
	if isScript(m) {
		env, err := l.scriptEnv(m)
		if err != nil {
			return "", err
		}
		return l.test(ctx, filepath.Join(l.dir, strings.ReplaceAll(m.Package(), "/", "-")+".test"), m, env)
	}
	text, err := m.Apply(l.root)
	if err != nil {
		return "", err
	}
	program := filepath.Join(l.dir, "mutant.test")
	changes := map[string]string{filepath.Join(l.root, filepath.FromSlash(m.File)): string(text)}
	if err := l.build(ctx, m.Package(), program, changes); err != nil {
		return "", err
	}
	return l.test(ctx, program, m, nil)
}

// build makes the test program of a package in which some files have another
// text, or are new.
func (l *lab) build(ctx context.Context, pkg, program string, changes map[string]string) error {
	overlay, err := mutants.WriteOverlay(l.dir, changes)
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-ldflags=-s -w", "-overlay", overlay, "-o", program, pkg)
	build.Dir = l.root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("it does not compile: %s", bytes.TrimSpace(out))
	}
	return nil
}

// errTest is a test that has failed, or did not end in time.
var errTest = errors.New("the test fails")

func (l *lab) test(ctx context.Context, program string, m mutants.Mutant, env []string) (complaint string, err error) {
	out, err := l.run(ctx, program, m, env)
	switch {
	case err != nil && ctx.Err() == nil:
		return firstComplaint(out), errTest
	case err != nil:
		return "", err
	case bytes.Contains(out, []byte("no tests to run")):
		return "", errors.New("there is no such test")
	case bytes.Contains(out, []byte("--- SKIP: ")):
		return "", errors.New("the test is skipped")
	}
	return "", nil
}

// run leaves nothing of what the test has started.
func (l *lab) run(ctx context.Context, program string, m mutants.Mutant, env []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout+30*time.Second) // for its own report of a time-out
	defer cancel()
	test := exec.CommandContext(ctx, program, "-test.v", "-test.count=1", "-test.timeout="+l.timeout.String(), "-test.run="+m.Pattern())
	test.Dir = filepath.Join(l.root, filepath.FromSlash(m.Package()))
	test.Env = append(os.Environ(), env...)
	test.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	test.Cancel = func() error { return syscall.Kill(-test.Process.Pid, syscall.SIGKILL) }
	test.WaitDelay = 10 * time.Second
	defer killLeftovers()
	return test.CombinedOutput()
}

var complaintLine = regexp.MustCompile(`(?m)^ +(\w+\.go:\d+: .*|FAIL: .*)$|^panic: .*$`)

// firstComplaint returns the first line of a test's output that says what is
// wrong.
func firstComplaint(out []byte) string {
	line := strings.TrimSpace(string(complaintLine.Find(out)))
	if line == "" {
		line = "a failure that says nothing"
	}
	if runes := []rune(line); len(runes) > 150 {
		line = string(runes[:148]) + ".."
	}
	return line
}
