package metrics_test

import (
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redlockrun/redlockrun/lockexec/metrics"
)

// A key may be any text: Prometheus reads it back as it was, and so does the
// next attempt, which counts on.
func FuzzLabels(f *testing.F) {
	for _, key := range []string{"client_123", `a"b\c`, "line\nend", `\`, `"} 1e9`, "é鍵", " ", "#"} {
		f.Add("lock:report:", key)
		f.Add(key, "k")
	}
	f.Fuzz(func(t *testing.T, prefix, key string) {
		if !utf8.ValidString(prefix) || !utf8.ValidString(key) {
			return // no name of a lock
		}
		path := file(t)
		for range 2 {
			attempt := metrics.Attempt{Prefix: prefix, Key: key, End: time.Unix(1, 0), Outcome: metrics.Busy}
			if err := metrics.Write(path, attempt); err != nil {
				t.Fatal(err)
			}
		}
		for name, family := range parse(t, path) {
			for _, m := range family.Metric {
				labels := map[string]string{}
				for _, label := range m.Label {
					labels[label.GetName()] = label.GetValue()
				}
				if labels["prefix"] != prefix || labels["key"] != key {
					t.Errorf("%s has the labels %q", name, labels)
				}
				if n := m.GetCounter().GetValue(); labels["outcome"] == "busy" && name == "redlockrun_attempts_total" && n != 2 {
					t.Errorf("%v attempts, want 2", n)
				}
			}
		}
	})
}
