//go:build unix

package guard

import (
	"bytes"
	"testing"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// What is read is written as it was read, whatever came over the socket.
func FuzzDecode(f *testing.F) {
	for _, m := range []message{
		{Kind: settingsMessage, Settings: newSettings(Options{Run: lockexec.Options{Name: "n", Command: []string{"sh", "\xff"}}}, "token")},
		{Kind: signalMessage, Signal: 15},
		{Kind: stoppedMessage, Signal: 20},
		{Kind: heardMessage},
		{Kind: continuedMessage},
		{Kind: leaseMessage, SafeEnd: 1 << 60},
		{Kind: startedMessage, PID: 812},
		{Kind: exitedMessage, Status: proc.Status{Code: 3}},
		{Kind: goneMessage, Outcome: newOutcome(proc.Status{Signal: 9}, &lock.LostError{Name: "n", Reason: lock.LossExpired})},
		{Kind: finishedMessage, Outcome: newOutcome(proc.Status{}, &lock.HeldError{Name: "n", Holder: &lock.Holder{Host: "h"}})},
		{Kind: finishedMessage, Outcome: newOutcome(proc.Status{Code: 1}, nil)},
	} {
		f.Add(bytes.TrimSuffix(encode(m), []byte("\n")))
	}
	for _, line := range []string{"", "2", `2 "lease" 0`, `2 "lease" 1 "`, `2 "gone" 0 0 0 0 0 0 2`, "1 x", "x"} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := decode(line)
		if err != nil {
			return
		}
		if m.Outcome != nil {
			_, _ = m.Outcome.result()
		}
		written := encode(m)
		if n := bytes.Count(written, []byte("\n")); n != 1 {
			t.Errorf("%q became %d lines: %q", line, n, written)
		}
		again, err := decode(bytes.TrimSuffix(written, []byte("\n")))
		if err != nil {
			t.Fatalf("%q became %q: %v", line, written, err)
		}
		if twice := encode(again); !bytes.Equal(twice, written) {
			t.Errorf("%q became %q, and that %q", line, written, twice)
		}
	})
}
