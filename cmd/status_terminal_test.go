//go:build linux

package cmd_test

import (
	"testing"
)

// On a terminal, a lock is not taken away before somebody has seen from whom.
func TestForceAsksOnATerminal(t *testing.T) {
	server := terminalServer(t)
	admin := server.Client(t)
	s := startShell(t, server)
	s.types("redlockrun acquire k --ttl 1h --holder-label web-3 >token")
	s.file("token", "-")
	for _, answer := range []string{"", "n", "what"} {
		s.types("redlockrun release k --force; echo it ends with $?")
		s.expect(`lock:report:k: held, exclusive; free in (1h0m0s|59m\d+s) unless renewed`)
		s.expect(`web-3 \(pid \d+ on .*acquire`)
		s.expect(`Take it away\? .* \[y/N\] $`)
		s.types(answer)
		s.expect(`nothing was changed`)
		s.expect(`it ends with 1$`)
	}
	s.types("redlockrun release k --force")
	s.expect(`\[y/N\] $`)
	s.types("^C")
	s.expect(`\$ $`)
	if n := admin.Exists(t.Context(), "lock:report:k").Val(); n != 1 {
		t.Fatal("the lock is gone")
	}
	s.types("redlockrun release k --force; echo it ends with $?")
	s.expect(`\[y/N\] $`)
	s.types("y")
	s.expect(`lock:report:k was revoked: `)
	s.expect(`it ends with 0$`)
	s.types("redlockrun release k --force --now; echo it ends with $?")
	s.expect(`revoked, free in `)
	s.expect(`may start while this one still runs. \[y/N\] $`)
	s.types("yes")
	s.expect(`it ends with 0$`)
}

// A watch redraws its place on the screen, and ends by ^C as by that signal.
func TestAWatchIsRedrawn(t *testing.T) {
	server := terminalServer(t)
	s := startShell(t, server)
	s.types("redlockrun status k --watch; echo it ends with $?")
	s.expect("\x1b\\[2J\x1b\\[H\\d{4}-")
	s.expect(`k: free`)
	s.expect("\x1b\\[J\x1b\\[H\\d{4}-")
	if err := server.Client(t).Set(t.Context(), "lock:report:k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.expect("k: held by a value without a time to live:\x1b\\[K")
	s.types("^C")
	s.expect(`\$ $`)
}
