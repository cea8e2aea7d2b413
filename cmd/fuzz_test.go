package cmd

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// A duration that was understood is written so that it is understood again.
func FuzzDuration(f *testing.F) {
	for _, text := range []string{"15s", "1h30m", "500ms", "0", "forever", "-1s", "1d", "30", "9223372036854775807ns", "1e3s", ".5h", "1h0m0.000000001s", "∞"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var d, again time.Duration
		if err := (waitValue{&d}).Set(text); err != nil {
			if strings.Contains(err.Error(), "%!") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if d < 0 && d != lock.Forever {
			t.Errorf("%q is %v", text, d)
		}
		written := waitValue{&d}.String()
		if d == 0 {
			return // the flag's default, which is not shown
		}
		if err := (waitValue{&again}).Set(written); err != nil || again != d {
			t.Errorf("%q is %v, written %q, and that is %v (%v)", text, d, written, again, err)
		}
	})
}

// A place that can be read is shown without its password, and what can't be
// read is not shown at all.
func FuzzMaskedPlace(f *testing.F) {
	f.Add("redis", "user", "pw", "h:1", "/2?protocol=3")
	f.Add("redis-sentinel", "", "a%2Cb", "a:1,b", "/m?sentinel-username=u&sentinel-password=S3CRET")
	f.Add("unix", "u", "", "", "/p?db=1")
	f.Add("rediss", "u:v", "#", "[::1]", "/?p")
	f.Add("redis", "", "", "h", "/?sentinel%2dpassword=S3CRET")
	f.Fuzz(func(t *testing.T, scheme, user, password, hosts, rest string) {
		path, query, _ := strings.Cut(rest, "?")
		// What is in the place of a host or a path is no secret.
		if strings.Contains(scheme+user+hosts+path, "S3CRET") || strings.ContainsAny(scheme+user, "/?#") {
			return
		}
		if strings.Contains(query, "S3CRET") && !strings.Contains(query, "password=S3CRET") {
			return
		}
		text := scheme + "://" + user + ":S3CRET" + password + "@" + hosts + rest
		place, err := lock.ParsePlace(text)
		if err != nil {
			if strings.Contains(err.Error(), "S3CRET") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		for _, shown := range []string{maskedPlace(text), place.String()} {
			if strings.Contains(shown, "S3CRET") {
				t.Errorf("%q is shown as %q", text, shown)
			}
		}
	})
}

// Whatever others wrote to Redis, and whatever a lock is called: no line is
// wider than the terminal, and none can steer it.
func FuzzTerminal(f *testing.F) {
	f.Add("lock:report:client_123", "web-3", "generate-report.sh", "2026-12-02", uint8(80))
	f.Add("a\x1b[31m\u009b2J\u202e\r\n\x7f\x00b\xff", "\x1b]0;title\x07", "\t", "\u200b", uint8(20))
	f.Add("lock:鍵", "東京のサーバー東京のサーバー", "日報を作る", "한국어", uint8(40))
	f.Add("", "e\u0301", "🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉", "ｗｉｄｅ", uint8(3))
	f.Fuzz(func(t *testing.T, name, label, command, id string, width uint8) {
		holder := &lock.Holder{Host: "h", Label: printable(label), Command: printable(command), PID: 812, SinceMillis: 1_790_000_000_000}
		s := lock.Snapshot{
			Name: name, State: lock.StateHeld, Held: 1, Waiting: 1, Remaining: time.Second,
			Holders: []lock.Holding{{State: lock.StateHeld, Holder: holder, Remaining: time.Second}},
			Waiters: []lock.Waiter{{Holder: holder}},
			Servers: []lock.ServerView{{Place: "h:1", Err: errors.New(label)}},
		}
		columns := max(int(width), 2)
		check := func(what, text string, limit int) {
			t.Helper()
			for line := range strings.Lines(text) {
				line = strings.TrimSuffix(line, "\n")
				if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("%s: %q", what, line)
				}
				if got := widthOf(line); got > limit {
					t.Errorf("%s: %d columns, want %d at most: %q", what, got, limit, line)
				}
			}
		}
		check("status", statusText(look{snapshot: s, looked: true, markers: []lock.Marker{{ID: id}}}, columns, mostRows), columns)
		check("list", listText([]lock.Snapshot{s}, ""), max(80, widthOf(printable(name)))) // a long key has a line of its own
		check("waiting", waitingLineText(lock.Waiting{Name: name, Holder: holder, Ahead: 3, Left: time.Minute}, columns), columns-1)
	})
}

// widthOf is how many columns a text takes where East Asian text is as wide as
// it is in their fonts.
func widthOf(text string) (columns int) {
	for _, r := range text {
		if unicode.In(r, unicode.Mn, unicode.Me) {
			continue
		}
		columns++
		narrow := r >= 0xff61 && r <= 0xffdc || r >= 0x1160 && r <= 0x11ff || r >= 0xd7b0 && r <= 0xd7ff // halves, and parts
		if !narrow && (unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) ||
			r >= 0xff01 && r <= 0xff60 || r >= 0x1f300 && r <= 0x1f64f) {
			columns++
		}
	}
	return columns
}
