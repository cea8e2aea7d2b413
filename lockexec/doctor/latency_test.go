package doctor

import (
	"strings"
	"testing"
	"time"
)

func TestARoundTripIsComparedWithTheTTL(t *testing.T) {
	const ttl = 15 * time.Second // a renewal has 2.5 s
	for _, tc := range []struct {
		slowest time.Duration
		status  Status
		next    string
	}{
		{time.Millisecond, Pass, ""},
		{500 * time.Millisecond, Pass, ""},
		{501 * time.Millisecond, Warn, "raise --ttl"},
		{2500 * time.Millisecond, Warn, "raise --ttl"},
		{2600 * time.Millisecond, Fail, "raise --ttl to 1m19s"},
	} {
		status, next := judgeLatency(tc.slowest, ttl)
		if status != tc.status || !strings.HasPrefix(next, tc.next) {
			t.Errorf("%v: %s, %q, want %s, %q", tc.slowest, status, next, tc.status, tc.next)
		}
	}
}
