//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

// Each history is judged with leases of 100 ns.
var histories = map[string]struct {
	lines                          string
	overlaps, excused, regressions int
}{
	"one after the other": {
		lines: `
			launch 1 a
			launch 2 b
			enter 10 a 100 k 1 7
			stamp 20 a
			leave 30 a
			end 40 a 7
			enter 31 b 101 k 1 8
			leave 50 b`,
	},
	"one while the other goes on": {
		lines: `
			launch 1 a
			launch 2 b
			enter 10 a 100 k 1 7
			stamp 32 a
			enter 31 b 101 k 1 8
			leave 50 b`,
		overlaps: 1,
	},
	"one within the other": {
		lines: `
			launch 1 a
			launch 2 b
			enter 10 a 100 k 1 7
			enter 31 b 101 k 1 8
			leave 50 b
			leave 60 a`,
		overlaps: 1,
	},
	"at the same time, but of two keys": {
		lines: `
			launch 1 a
			launch 2 b
			enter 10 a 100 k 1 7
			leave 50 a
			enter 31 b 101 l 1 3
			leave 50 b`,
	},
	"one that was killed when it was about to end": {
		lines: `
			launch 1 a
			launch 2 b
			enter 10 a 100 k 1 7
			stamp 30 a
			enter 31 b 101 k 1 8
			leave 50 b`,
	},
	"those who share": {
		lines: `
			launch 1 a
			launch 2 b
			enter 10 a 100 k 0 7
			enter 11 b 101 k 0 6
			leave 50 a
			leave 51 b`,
	},
	"one alone beside those who share": {
		lines: `
			launch 1 a
			launch 2 b
			enter 10 a 100 k 0 7
			enter 11 b 101 k 1 8
			leave 50 a
			leave 51 b`,
		overlaps: 1,
	},
	"as many as there are slots": {
		lines: `
			enter 10 a 100 k 2 7
			enter 11 b 101 k 2 8
			leave 20 b
			enter 21 c 102 k 2 9
			leave 50 a
			leave 50 c`,
	},
	"more than there are slots": {
		lines: `
			enter 10 a 100 k 2 7
			enter 11 b 101 k 2 8
			enter 20 c 102 k 2 9
			leave 21 b
			leave 50 a
			leave 50 c`,
		overlaps: 1,
	},
	"within the lease that a lossy fault may have cost": {
		lines: `
			launch 1 a
			launch 2 b
			enter 10 a 100 k 1 7
			lossy 30 empty 20
			enter 129 b 101 k 1 8
			leave 150 a
			leave 160 b`,
		excused: 1,
	},
	"after the lease that a lossy fault may have cost": {
		lines: `
			launch 1 a
			launch 2 b
			enter 10 a 100 k 1 7
			lossy 30 empty 20
			enter 131 b 101 k 1 8
			leave 150 a
			leave 160 b`,
		overlaps: 1,
	},
	"before a lossy fault": {
		lines: `
			launch 1 a
			launch 2 b
			enter 10 a 100 k 1 7
			enter 19 b 101 k 1 8
			leave 25 a
			lossy 30 empty 20
			leave 160 b`,
		overlaps: 1,
	},
	"another fault, which excuses nothing": {
		lines: `
			launch 1 a
			launch 2 b
			enter 10 a 100 k 1 7
			fault 30 cut 20
			enter 29 b 101 k 1 8
			leave 150 a
			leave 160 b`,
		overlaps: 1,
	},
	"a fence that falls": {
		lines: `
			launch 1 a
			launch 2 b
			enter 10 a 100 k 1 7
			leave 20 a
			enter 21 b 101 k 1 6
			leave 30 b`,
		regressions: 1,
	},
	"a fence that falls for who came later, which nothing excuses": {
		lines: `
			launch 1 a
			enter 10 a 100 k 1 7
			lossy 15 empty 12
			leave 20 a
			launch 21 b
			enter 22 b 101 k 1 6
			leave 30 b`,
		regressions: 1,
	},
	"a fence that is late after a lossy fault: the resource refuses it": {
		lines: `
			launch 1 a
			launch 2 b
			lossy 9 empty 3
			enter 10 a 100 k 1 7
			leave 20 a
			enter 21 b 101 k 1 6
			leave 30 b`,
	},
	"a fence that is given twice": {
		lines: `
			launch 1 a
			launch 2 b
			enter 10 a 100 k 0 7
			enter 21 b 101 k 0 7
			leave 20 a
			leave 30 b`,
		regressions: 1,
	},
	"a fence of those who share, below that of one alone before": {
		lines: `
			launch 1 a
			launch 2 b
			enter 10 a 100 k 1 7
			leave 20 a
			enter 21 b 101 k 0 6
			leave 30 b`,
		regressions: 1,
	},
}

func TestTheJudge(t *testing.T) {
	for name, want := range histories {
		t.Run(name, func(t *testing.T) {
			lines := strings.ReplaceAll(strings.TrimSpace(want.lines), "\t", "")
			runs, lossy, err := readHistory(strings.NewReader(lines))
			if err != nil {
				t.Fatal(err)
			}
			got := judge(runs, lossy, 100*time.Nanosecond)
			if got.overlaps != want.overlaps || got.excused != want.excused || got.regressions != want.regressions {
				t.Errorf("got %d overlaps, %d excused, %d regressions; want %d, %d, %d: %q",
					got.overlaps, got.excused, got.regressions, want.overlaps, want.excused, want.regressions, got.details)
			}
			if got.acquisitions != len(runs) {
				t.Errorf("got %d acquisitions of %d", got.acquisitions, len(runs))
			}
		})
	}
}

func TestAHistoryThatMakesNoSenseIsRefused(t *testing.T) {
	for _, line := range []string{"enter 10 a", "enter x a 1 k 1 7", "lossy 1 empty", "what 1 a", ""} {
		if _, _, err := readHistory(strings.NewReader("launch 1 a\n" + line + "\n")); err == nil {
			t.Errorf("%q was taken", line)
		}
	}
}

func TestWorkThatNeverBeganIsNoAcquisition(t *testing.T) {
	runs, _, err := readHistory(strings.NewReader("launch 1 a\nend 2 a 75\n"))
	if err != nil || len(runs) != 0 {
		t.Errorf("got %d, %v", len(runs), err)
	}
}

// What is to be found out can still be broken.
func TestEveryMutantApplies(t *testing.T) {
	for _, m := range broken() {
		if _, err := m.Apply("../.."); err != nil {
			t.Error(err)
		}
	}
}
