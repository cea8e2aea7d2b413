package cmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// crowd is a lock that very many hold and wait for, all with long names.
func crowd() look {
	long := &lock.Holder{
		Host: strings.Repeat("h", 100), PID: 4194304, Label: strings.Repeat("é", 100), Command: strings.Repeat("c", 200),
		SinceMillis: 1_790_000_000_000, Fence: 1<<53 - 1,
	}
	s := lock.Snapshot{
		Name: "lock:report:k", State: lock.StateHeld, Capacity: lock.MaxCapacity, CapacityKnown: true,
		Remaining: 23*time.Hour + 59*time.Minute, Held: 500, Waiting: 1000, Fence: 1<<53 - 1,
	}
	for range 100 {
		s.Holders = append(s.Holders, lock.Holding{State: lock.StateHeld, Holder: long, HeldFor: 900 * time.Hour, Remaining: s.Remaining})
		s.Waiters = append(s.Waiters, lock.Waiter{Holder: long, Capacity: lock.Exclusive, CapacityKnown: true, Silent: 24999 * time.Millisecond})
	}
	return look{snapshot: s, looked: true, markers: []lock.Marker{{ID: strings.Repeat("i", 500), Remaining: 168 * time.Hour}}}
}

func TestStatusAndListFit80Columns(t *testing.T) {
	seen := crowd()
	commands := 0
	for line := range strings.Lines(statusText(seen, 80, mostRows)) {
		if n := utf8.RuneCountInString(line) - 1; n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.HasSuffix(line, "cc..\n") {
			commands++
		}
	}
	if want := 2 * mostRows; commands != want {
		t.Errorf("%d commands can be seen, want %d", commands, want)
	}
	text := statusText(seen, 80, mostRows)
	for _, more := range []string{"... and 480 more", "... and 980 more"} {
		if !strings.Contains(text, more) {
			t.Errorf("it does not say %q", more)
		}
	}
	for line := range strings.Lines(listText([]lock.Snapshot{seen.snapshot}, "lock:report:")) {
		if n := utf8.RuneCountInString(line) - 1; n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	small := statusText(seen, 80, watchRows)
	if n := strings.Count(small, "\n"); n > 22 { // and the time above them
		t.Errorf("a watch has %d lines", n)
	}
}

// A key, an ID, and what a server says of itself can be any text.
func TestNoTextOfOthersReachesTheTerminal(t *testing.T) {
	const evil = "a\x1b[31m\u009b2J\u202e\r\n\x7f\x00b\xff"
	s := lock.Snapshot{
		Name: "lock:report:" + evil, State: lock.StateHeld, Remaining: lock.NoExpiry, Held: 1,
		Holders: []lock.Holding{{State: lock.StateHeld, Remaining: lock.NoExpiry}},
		Servers: []lock.ServerView{{Place: "h:1", Err: &lock.ServerError{Name: evil}}},
	}
	seen := look{snapshot: s, looked: true, markers: []lock.Marker{{ID: evil, Remaining: time.Second}}}
	seen.snapshot.Servers[0].Err = &changedError{name: evil}
	var asJSON strings.Builder
	if err := printJSON(&asJSON, newLockStatus(seen)); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"status": statusText(seen, 0, mostRows), "list": listText([]lock.Snapshot{s}, "lock:report:"), "json": asJSON.String(),
	} {
		for line := range strings.Lines(text) {
			if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%s: %q", what, line)
			}
		}
	}
	var back lockStatus
	if err := json.Unmarshal([]byte(asJSON.String()), &back); err != nil || back.Done[0].ID != strings.ToValidUTF8(evil, "�") {
		t.Errorf("the JSON has the ID %q, %v", back.Done[0].ID, err)
	}
}
