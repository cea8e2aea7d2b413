package cmd

import (
	"strings"
	"testing"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// A morning: one ends well while the next waits, that one fails, the third dies
// and is found dead, the fourth loses its lock, the fifth runs.
func morning() ([]lock.Hold, time.Time) {
	day := time.Date(2026, 3, 1, 3, 0, 0, 0, time.Local)
	at := func(minutes int) time.Time { return day.Add(time.Duration(minutes) * time.Minute) }
	holder := func(label string) lock.Holder {
		return lock.Holder{Label: label, Host: label, PID: 7, Command: "report"}
	}
	return []lock.Hold{
		{Holder: holder("web-5"), End: lock.End{How: lock.Held}, Since: at(50)},
		{Holder: holder("web-4"), End: lock.End{How: lock.Lost}, Since: at(40), Until: at(45), LockLost: true},
		{Holder: holder("a-host-with-a-long-name"), End: lock.End{How: lock.Unknown}, Since: at(30), Found: at(40)},
		{Holder: holder("web-2"), End: lock.End{How: lock.Exited, Code: 3}, Since: at(20), Until: at(25), Waited: 15 * time.Minute},
		{Holder: holder("web-1"), End: lock.End{How: lock.Exited}, Since: at(0), Until: at(20)},
	}, at(60)
}

func TestATimeLineIsReadWithoutColor(t *testing.T) {
	holds, now := morning()
	want := `lock:report:k, 2026-03-01 03:00:00 to 2026-03-01 04:00:00
03:00:00 web-1          |###########                     |   20m0s  exit 0
03:20:00 web-2          |  ........###x                  |    5m0s  exit 3
03:30:00 a-host-with-.. |                ?               |       ?  no end known
03:40:00 web-4          |                     ###!       |    5m0s  lock lost
03:50:00 web-5          |                          #####>|   10m0s  held now
. waiting   # held   x failed, or stopped   ! lock lost   > held now
? no end known
`
	if got := plotHistory("lock:report:k", holds, now, 0, false); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestATimeLineFitsItsTerminal(t *testing.T) {
	holds, now := morning()
	holds[4].Since = now.Add(-100 * 24 * time.Hour)
	holds[4].Until = now.Add(-90 * 24 * time.Hour)
	holds[4].End = lock.End{How: lock.Exited, Code: 255}
	for _, width := range []int{0, 64, 80, 200} {
		most := width
		if width == 0 {
			most = 80
		}
		for line := range strings.Lines(plotHistory("k", holds, now, width, false)) {
			if n := len([]rune(line)) - 1; n > most {
				t.Errorf("%d columns of %d: %s", n, most, line)
			}
		}
	}
}

// A time line of one run that took no time, of a run of which nothing is known,
// and of clocks that differ.
func TestATimeLineOfLittle(t *testing.T) {
	now := time.Now()
	for _, hold := range []lock.Hold{
		{End: lock.End{How: lock.Exited}, Since: now, Until: now},
		{End: lock.End{How: lock.Unknown}, Found: now},
		{End: lock.End{How: lock.Unknown}},
		{End: lock.End{How: lock.Held}, Since: now.Add(time.Hour)},
		{End: lock.End{How: lock.Exited}, Since: now, Until: now.Add(-time.Hour), Waited: time.Hour},
	} {
		if got := plotHistory("k", []lock.Hold{hold}, now, 0, false); strings.Count(got, "\n") != 3 {
			t.Errorf("%+v:\n%s", hold, got)
		}
	}
}

func TestColorsAreOnlyAddedToATimeLine(t *testing.T) {
	holds, now := morning()
	colored := plotHistory("k", holds, now, 80, true)
	for _, code := range []string{"\x1b[2m", "\x1b[0;32m", "\x1b[0;31m", "\x1b[0;33m", "\x1b[0;36m", "\x1b[0m"} {
		if !strings.Contains(colored, code) {
			t.Errorf("no %q", code)
		}
		colored = strings.ReplaceAll(colored, code, "")
	}
	if plain := plotHistory("k", holds, now, 80, false); colored != plain {
		t.Errorf("without the colors it is\n%s\nnot\n%s", colored, plain)
	}
}

func TestWhenATerminalGetsColors(t *testing.T) {
	for _, test := range []struct {
		env  environment
		want bool
	}{
		{environment{"TERM": "xterm"}, true},
		{environment{"TERM": "xterm", "NO_COLOR": ""}, true},
		{environment{"TERM": "xterm", "NO_COLOR": "1"}, false},
		{environment{"TERM": "dumb"}, false},
		{environment{}, false},
	} {
		if got := (&program{environ: test.env.lookup}).colorful(); got != test.want {
			t.Errorf("%v: %v", test.env, got)
		}
	}
}
