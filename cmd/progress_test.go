package cmd

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

func TestTheWaitingLineFitsTheTerminal(t *testing.T) {
	w := lock.Waiting{
		Name:   "lock:report:client_123",
		Holder: &lock.Holder{Label: "web-3", PID: 812, Command: "generate-report.sh"}, HeldFor: 80 * time.Second,
		Ahead: 2, Left: 40 * time.Second,
	}
	for columns, want := range map[int]string{
		200: "waiting for lock:report:client_123: held by web-3 (pid 812, generate-report.sh) for 1m20s; 2 ahead of you; giving up in 40s",
		110: "waiting for lock:report:client_123: held by web-3 (pid 812) for 1m20s; 2 ahead of you; giving up in 40s",
		80:  "waiting for lock:report:client_123; 2 ahead of you; giving up in 40s",
		0:   "waiting for lock:report:client_123; 2 ahead of you; giving up in 40s",
		20:  "waiting for lock:r…",
	} {
		got := waitingLineText(w, columns)
		if got != want {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
		if columns > 0 && utf8.RuneCountInString(got) >= columns {
			t.Errorf("%d columns: %q is too long", columns, got)
		}
	}
	w.Left = lock.Forever
	if got := waitingLineText(w, 0); strings.Contains(got, "giving up") {
		t.Errorf("a wait without an end gives up: %q", got)
	}
}
