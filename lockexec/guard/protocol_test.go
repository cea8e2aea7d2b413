//go:build unix

package guard

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/connect"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// Whatever a run ends with, the wrapper sees the same kinds and the same words.
func TestOutcomesTravel(t *testing.T) {
	kinds := []error{
		lockexec.ErrTimeout, lock.ErrLocked, lock.ErrLost, lock.ErrUnavailable, lock.ErrNotPermitted,
		proc.ErrNotFound, proc.ErrNotExecutable, lock.ErrDone,
	}
	for name, err := range map[string]error{
		"ended":          nil,
		"interrupted":    &lockexec.InterruptedError{Signal: syscall.SIGTERM},
		"timeout":        lockexec.ErrTimeout,
		"missing":        &lock.LostError{Name: "n", Reason: lock.LossMissing},
		"expired":        &lock.LostError{Name: "n", Reason: lock.LossExpired, Cause: errors.New("no answer")},
		"held":           &lock.HeldError{Name: "n", Holder: &lock.Holder{Host: "h", PID: 7, Label: "l"}, HeldFor: time.Second, Remaining: time.Minute},
		"held by no one": &lock.HeldError{Name: "n", Remaining: lock.NoExpiry},
		"unreachable":    &lock.ServerError{Op: "acquire", Name: "n", Place: "p", Fault: lock.FaultUnreachable, Err: errors.New("refused")},
		"not permitted":  &lock.ServerError{Op: "acquire", Name: "n", Place: "p", Fault: lock.FaultNoPerm, Err: errors.New("NOPERM")},
		"not found":      &proc.StartError{Command: "c", Kind: proc.ErrNotFound, Err: errors.New("x")},
		"not executable": &proc.StartError{Command: "c", Kind: proc.ErrNotExecutable, Err: errors.New("x")},
		"no memory":      &proc.StartError{Command: "c", Err: syscall.ENOMEM},
		"late":           errors.Join(lock.ErrUnavailable, errors.New("late")),
		"done":           lock.ErrDone,
		"capacity":       &lock.CapacityError{Name: "n", Wanted: 3, Used: lock.Shared},
		"anything":       errors.New("anything"),
	} {
		status := proc.Status{Code: 3}
		m, decodeErr := decode(bytes.TrimSuffix(encode(message{Kind: finishedMessage, Outcome: newOutcome(status, err)}), []byte("\n")))
		if decodeErr != nil {
			t.Fatal(decodeErr)
		}
		gotStatus, got := m.Outcome.result()
		if gotStatus != status {
			t.Errorf("%s: status %v, want %v", name, gotStatus, status)
		}
		if (err == nil) != (got == nil) {
			t.Errorf("%s: got %v", name, got)
			continue
		}
		if err == nil {
			continue
		}
		if got.Error() != err.Error() {
			t.Errorf("%s: got %q, want %q", name, got, err)
		}
		for _, kind := range kinds {
			if errors.Is(got, kind) != errors.Is(err, kind) {
				t.Errorf("%s: errors.Is(%v) is %v", name, kind, errors.Is(got, kind))
			}
		}
		if errors.Is(err, lock.ErrLocked) && !reflect.DeepEqual(err, got) {
			t.Errorf("%s: got %+v, want %+v", name, got, err)
		}
	}
}

// Every setting of a run that the supervisor needs arrives: a field that is
// added to one of the two structs and forgotten in the other is found here.
func TestSettingsTravel(t *testing.T) {
	run := lockexec.Options{
		Name: "n", Command: []string{"sh", "a\xffb", ""}, TTL: time.Second, ConnectTimeout: 2 * time.Second, Timeout: 3 * time.Second,
		KillAfter: 4 * time.Second, StopSignal: syscall.SIGINT, OnLost: lockexec.WarnAndKeep, Leftovers: lockexec.AwaitLeftovers,
		Label: "label", ShowArgs: true, SignalGroup: true,
		Capacity: lock.Shared, Replicas: 2, Wait: lock.Forever, Once: "o", OnceTTL: time.Hour, MinHold: time.Minute, History: 5,
	}
	opts := Options{Run: run, Target: connect.Target{
		Places: []lock.Place{{Network: "tcp", Addr: "a:1", Password: "p", TLS: true}, {Master: "m", Addrs: []string{"b:2"}}},
		TLS:    &connect.TLS{CA: []byte("ca"), ServerName: "s"}, Timeout: time.Second,
	}}
	m, err := decode(bytes.TrimSuffix(encode(message{Kind: settingsMessage, Settings: newSettings(opts, "token")}), []byte("\n")))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m.Settings.Target, opts.Target) {
		t.Errorf("target %+v, want %+v", m.Settings.Target, opts.Target)
	}
	run.Token = "token"
	got := reflect.ValueOf(m.Settings.options())
	want := reflect.ValueOf(run)
	// Those that guard decides, or that are not data.
	decided := "OnWait Env PID Signals Group Terminal Unignored Adopt Cgroup Spare Observe Log"
	for i := range got.NumField() {
		name := got.Type().Field(i).Name
		if strings.Contains(decided, name) {
			continue
		}
		if want.Field(i).IsZero() {
			t.Errorf("%s is not set in this test", name)
		}
		if !reflect.DeepEqual(got.Field(i).Interface(), want.Field(i).Interface()) {
			t.Errorf("%s is %v, want %v", name, got.Field(i), want.Field(i))
		}
	}
}

func links(t *testing.T) (a, b *link) {
	t.Helper()
	ours, theirs, err := newSockets()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = newLink(ours); err != nil {
		t.Fatal(err)
	}
	if b, err = newLink(theirs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	t.Cleanup(b.close)
	return a, b
}

// collect receives until the other end is closed.
func collect(t *testing.T, l *link) (all []message) {
	t.Helper()
	for {
		<-l.ready
		messages, err := l.receive()
		all = append(all, messages...)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestMessagesArriveInOrderAndThenTheEnd(t *testing.T) {
	a, b := links(t)
	const n = 1000
	for pid := range n {
		a.send(message{Kind: startedMessage, PID: pid})
	}
	go func() {
		a.flush(time.Minute)
		a.close()
	}()
	got := collect(t, b)
	if len(got) != n {
		t.Fatalf("%d messages, want %d", len(got), n)
	}
	for pid, m := range got {
		if m.PID != pid {
			t.Fatalf("message %d is of %d", pid, m.PID)
		}
	}
}

// A process that is stopped for a day does not hold up the other, which renews
// its lease all the while; what it hears when it is continued is the last.
func TestSendingNeverWaits(t *testing.T) {
	a, b := links(t)
	const n = 200_000 // far more than a socket holds
	for i := range n {
		a.send(message{Kind: leaseMessage, SafeEnd: lock.Instant(i)})
	}
	a.send(message{Kind: finishedMessage})
	go func() {
		a.flush(time.Minute)
		a.close()
	}()
	got := collect(t, b)
	if len(got) < 2 || got[len(got)-1].Kind != finishedMessage || got[len(got)-2].SafeEnd != n-1 {
		t.Errorf("the last of %d messages are %v", len(got), got[max(0, len(got)-2):])
	}
}

// Receiving does not wait, and sees all that has come: the clock is looked at
// only then.
func TestReceivingDoesNotWait(t *testing.T) {
	a, b := links(t)
	if messages, err := b.receive(); len(messages) != 0 || err != nil {
		t.Errorf("got %v, %v from a silent link", messages, err)
	}
	a.send(message{Kind: startedMessage, PID: 1})
	a.flush(time.Minute)
	if messages, err := b.receive(); len(messages) != 1 || err != nil {
		t.Errorf("got %v, %v, want one message", messages, err)
	}
}

func TestAMessageInPieces(t *testing.T) {
	a, b := links(t)
	for _, c := range encode(message{Kind: startedMessage, PID: 5}) {
		if _, err := a.socket.Write([]byte{c}); err != nil {
			t.Fatal(err)
		}
	}
	a.close()
	if got := collect(t, b); len(got) != 1 || got[0].PID != 5 {
		t.Errorf("got %v", got)
	}
}

func TestNonsenseIsAnError(t *testing.T) {
	a, b := links(t)
	if _, err := a.socket.WriteString("nonsense\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.receive(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("got %v, want an error", err)
	}
}

func TestAnotherVersionIsRefused(t *testing.T) {
	a, b := links(t)
	line := bytes.Replace(encode(message{Kind: settingsMessage, Settings: &settings{}}), []byte(protocolVersion), []byte("0"), 1)
	if _, err := a.socket.Write(line); err != nil {
		t.Fatal(err)
	}
	if _, _, err := receiveSettings(b); !errors.Is(err, errVersion) {
		t.Errorf("got %v", err)
	}
}

// Words that were cut off, and words too many, are noticed.
func TestHalfAMessageIsAnError(t *testing.T) {
	whole := encode(message{Kind: goneMessage, Outcome: newOutcome(proc.Status{Code: 3}, &lock.HeldError{Name: "a b", Holder: &lock.Holder{Host: "\n"}})})
	whole = bytes.TrimSuffix(whole, []byte("\n"))
	if bytes.Contains(whole, []byte("\n")) {
		t.Errorf("a line's end in the middle of %q", whole)
	}
	for n := range whole {
		if m, err := decode(whole[:n]); err == nil {
			t.Errorf("%q is %+v", whole[:n], m)
		}
	}
	if m, err := decode(append(whole, " 1"...)); err == nil {
		t.Errorf("with a word too many: %+v", m)
	}
}

func TestASignalThatComesWithTheSettings(t *testing.T) {
	a, b := links(t)
	a.send(message{Kind: settingsMessage, Settings: &settings{}})
	a.send(message{Kind: signalMessage, Signal: unix.SIGTERM})
	a.flush(time.Minute)
	_, rest, err := receiveSettings(b)
	if err != nil || len(rest) != 1 || rest[0].Signal != unix.SIGTERM {
		t.Errorf("got %v, %v, want the signal", rest, err)
	}
}

func TestWhichSignalsArePassedOn(t *testing.T) {
	for _, test := range []struct {
		mode       mode
		sig        syscall.Signal
		foreground bool
		want       bool
	}{
		{own, unix.SIGINT, false, true},
		{handoff, unix.SIGINT, false, true},
		{handoff, unix.SIGINT, true, true}, // the command has no terminal then, so it was not sent there
		{shared, unix.SIGINT, true, false},
		{shared, unix.SIGQUIT, true, false},
		{shared, unix.SIGTSTP, true, false},
		{shared, unix.SIGWINCH, true, false},
		{shared, unix.SIGINT, false, true},
		{shared, unix.SIGTERM, true, true},
		{shared, unix.SIGHUP, true, true},
		{shared, unix.SIGUSR1, true, true},
	} {
		if got := test.mode.passedOn(test.sig, test.foreground); got != test.want {
			t.Errorf("mode %d, %v, foreground %v: %v, want %v", test.mode, test.sig, test.foreground, got, test.want)
		}
	}
}
