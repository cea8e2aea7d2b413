package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/connect"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

func TestEachKindOfErrorHasItsCode(t *testing.T) {
	for _, tc := range []struct {
		err    error
		code   int
		signal syscall.Signal
	}{
		{nil, 0, 0},
		{&childEnding{proc.Status{Code: 3}}, 3, 0},
		{&childEnding{proc.Status{Signal: syscall.SIGKILL}}, 137, syscall.SIGKILL},
		{&lockexec.InterruptedError{Signal: syscall.SIGTERM}, 143, syscall.SIGTERM},
		{usageErrorf("x"), 64, 0},
		{&configError{[]problem{{source{"--ttl", asFlag}, "x"}}}, 64, 0},
		{&configError{[]problem{{source{"REDLOCKRUN_TTL", inEnvironment}, "x"}}}, 78, 0},
		{&lock.ServerError{Fault: lock.FaultUnreachable, Err: errors.New("x")}, 69, 0},
		{&lock.ServerError{Fault: lock.FaultNoPerm, Err: errors.New("x")}, 69, 0},
		{&connect.EmbeddedError{Err: errors.New("x")}, 69, 0},
		{&busyError{&lock.HeldError{}, 75, 0}, 75, 0},
		{&busyError{&lock.HeldError{}, 0, 0}, 0, 0},
		{&lock.LostError{Reason: lock.LossMissing}, 79, 0},
		{&timeoutError{"k", time.Second}, 124, 0},
		{&proc.StartError{Kind: proc.ErrNotExecutable, Err: errors.New("x")}, 126, 0},
		{&proc.StartError{Kind: proc.ErrNotFound, Err: errors.New("x")}, 127, 0},
		{&proc.StartError{Err: errors.New("out of memory")}, 125, 0},
		{errors.New("unforeseen"), 125, 0},
	} {
		for _, err := range []error{tc.err, wrapped(tc.err)} {
			end := endingOf(err)
			if end.code != tc.code || end.signal != tc.signal {
				t.Errorf("%v: code %d, signal %v; want %d, %v", err, end.code, end.signal, tc.code, tc.signal)
			}
		}
	}
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("wrapped: %w", err)
}

func TestEveryFaultHasANextStep(t *testing.T) {
	for fault := lock.FaultUnreachable; fault <= lock.FaultReplicas; fault++ {
		hint := serverHint(&lock.ServerError{Fault: fault, Place: "PLACE", Name: "NAME", Err: errors.New("x")})
		if hint == "" || strings.Contains(hint, "%") {
			t.Errorf("fault %d has the hint %q", fault, hint)
		}
	}
}

func TestEveryCodeIsExplained(t *testing.T) {
	topic := newExitCodesTopic().Long
	for _, code := range []int{
		exitUsage, exitUnavailable, exitBusy, exitConfig, exitLost, exitTimeout, exitFault, exitNotExecutable, exitNotFound,
	} {
		if !strings.Contains(topic, fmt.Sprintf("\n  %d ", code)) {
			t.Errorf("help exit-codes says nothing of %d", code)
		}
	}
}

func TestMessagesOfEachLevelAndFormat(t *testing.T) {
	say := func(o output) string {
		var b bytes.Buffer
		o.writer = &b
		log := o.logger()
		for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			log.Log(t.Context(), level, strings.ToLower(level.String()))
		}
		return b.String()
	}
	for _, tc := range []struct {
		output output
		want   string
	}{
		{output{}, "redlockrun: warn\nredlockrun: error\n"},
		{output{quiet: true}, "redlockrun: error\n"},
		{output{verbose: true}, "redlockrun: debug\nredlockrun: info\nredlockrun: warn\nredlockrun: error\n"},
	} {
		if got := say(tc.output); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.output, got, tc.want)
		}
	}
	if got := say(output{format: jsonFormat, quiet: true}); !strings.HasPrefix(got, "{") || !strings.Contains(got, `"msg":"error"`) {
		t.Errorf("JSON: %q", got)
	}
}

// The help is read on terminals of 80 columns.
func TestHelpFits80Columns(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"help", "exit-codes"}, {"help", "environment"}, {"embedded", "--help"}, {"version", "--help"}, {"history", "--help"}, {"acquire", "--help"}, {"release", "--help"}} {
		var stdout, stderr bytes.Buffer
		p := &program{stdout: &stdout, stderr: &stderr, environ: environment{}.lookup}
		if end := p.run(args); end.code != 0 {
			t.Errorf("%q: %+v", args, end)
		}
		for line := range strings.Lines(stdout.String()) {
			if len([]rune(strings.TrimRight(line, "\n"))) > 80 {
				t.Errorf("%q: %d columns: %s", args, len([]rune(line))-1, line)
			}
		}
	}
}
