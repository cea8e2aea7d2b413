//go:build unix

package embedded_test

import (
	"testing"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
)

// BenchmarkStart is what a run pays when the server is there already.
func BenchmarkStart(b *testing.B) {
	cfg := newConfig(b)
	start(b, cfg)
	for b.Loop() {
		start(b, cfg)
	}
}

// BenchmarkFirstStart is what the first run pays.
func BenchmarkFirstStart(b *testing.B) {
	cfg := newConfig(b)
	for b.Loop() {
		start(b, cfg)
		b.StopTimer()
		if _, err := embedded.Stop(within(b), cfg.Dir, true); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkRoundTrip compares a command that is saved with one that is not.
func BenchmarkRoundTrip(b *testing.B) {
	for _, args := range [][]any{
		{"PING"},
		{"GET", "lock:report:k"},
		{"SET", "lock:report:k", token, "PX", 15000},
		{"EVAL", "return redis.call('PEXPIRE', KEYS[1], ARGV[1])", 1, "lock:report:k", 15000},
	} {
		b.Run(args[0].(string), func(b *testing.B) {
			cfg := newConfig(b)
			start(b, cfg)
			rdb := newClient(b, cfg.Dir)
			do(b, rdb, "SET", "lock:report:k", token)
			for b.Loop() {
				do(b, rdb, args...)
			}
		})
	}
}
