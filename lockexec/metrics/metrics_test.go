package metrics_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/redlockrun/redlockrun/lockexec/metrics"
)

var end = time.UnixMilli(1_800_000_000_123)

func file(t *testing.T) string { return filepath.Join(t.TempDir(), "report.prom") }

func write(t *testing.T, path string, a metrics.Attempt) map[string]float64 {
	t.Helper()
	a.Prefix, a.Key, a.End = "lock:", "k", end
	if err := metrics.Write(path, a); err != nil {
		t.Fatal(err)
	}
	return read(t, path)
}

// read parses the file as Prometheus does: name and labels other than key and
// prefix -> value.
func read(t *testing.T, path string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for name, family := range parse(t, path) {
		for _, m := range family.Metric {
			series := name
			for _, label := range m.Label {
				if label.GetName() == "outcome" {
					series += "/" + label.GetValue()
				}
			}
			values[series] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

func parse(t *testing.T, path string) map[string]*dto.MetricFamily {
	t.Helper()
	text, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func TestARunThatSucceeded(t *testing.T) {
	got := write(t, file(t), metrics.Attempt{Outcome: metrics.Ran, Started: true, Ran: 90 * time.Second, Waited: 1500 * time.Millisecond})
	want := map[string]float64{
		"redlockrun_last_attempt_timestamp_seconds": 1800000000.123,
		"redlockrun_last_exit_code":                 0,
		"redlockrun_last_wait_seconds":              1.5,
		"redlockrun_last_run_timestamp_seconds":     1800000000.123,
		"redlockrun_last_run_duration_seconds":      90,
		"redlockrun_last_success_timestamp_seconds": 1800000000.123,
	}
	for _, outcome := range metrics.Outcomes() {
		count := 0.0
		if outcome == metrics.Ran {
			count = 1
		}
		want["redlockrun_last_attempt_outcome/"+string(outcome)] = count
		want["redlockrun_attempts_total/"+string(outcome)] = count
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestWhatAnAttemptDoesNotChangeStays(t *testing.T) {
	path := file(t)
	first := metrics.Attempt{Prefix: "lock:", Key: "k", End: end.Add(-time.Hour), Outcome: metrics.Ran, Started: true, Ran: time.Minute}
	if err := metrics.Write(path, first); err != nil {
		t.Fatal(err)
	}
	before := 1800000000.123 - 3600
	got := write(t, path, metrics.Attempt{Outcome: metrics.Ran, ExitCode: 3, Started: true, Ran: time.Second})
	if got["redlockrun_last_success_timestamp_seconds"] != before || got["redlockrun_last_run_timestamp_seconds"] == before || got["redlockrun_last_exit_code"] != 3 {
		t.Errorf("after a failure: %v", got)
	}
	got = write(t, path, metrics.Attempt{Outcome: metrics.Busy, ExitCode: 75})
	for series, want := range map[string]float64{
		"redlockrun_last_success_timestamp_seconds": before,
		"redlockrun_last_run_duration_seconds":      1,
		"redlockrun_last_attempt_outcome/busy":      1,
		"redlockrun_last_attempt_outcome/ran":       0,
		"redlockrun_attempts_total/ran":             2,
		"redlockrun_attempts_total/busy":            1,
		"redlockrun_last_exit_code":                 75,
	} {
		if math.Abs(got[series]-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", series, got[series], want)
		}
	}
}

func TestACommandThatNeverRan(t *testing.T) {
	got := write(t, file(t), metrics.Attempt{Outcome: metrics.Unavailable, ExitCode: 69})
	if got["redlockrun_last_success_timestamp_seconds"] != 0 || got["redlockrun_last_run_timestamp_seconds"] != 0 {
		t.Errorf("%v", got)
	}
	if _, there := got["redlockrun_last_run_duration_seconds"]; there {
		t.Error("it tells how long it ran")
	}
}

func TestAnOutcomeOfALaterVersionIsAnError(t *testing.T) {
	if got := write(t, file(t), metrics.Attempt{Outcome: "eaten"}); got["redlockrun_last_attempt_outcome/error"] != 1 {
		t.Errorf("%v", got)
	}
}

// A key has any text but control characters.
func TestKeysAreEscaped(t *testing.T) {
	for _, key := range []string{`a"b\c`, `\`, `{x}`, "é 😀", `a\nb`, `k",outcome="busy`, " "} {
		path := file(t)
		for range 2 {
			if err := metrics.Write(path, metrics.Attempt{Prefix: "p:" + key, Key: key, End: end, Outcome: metrics.Ran}); err != nil {
				t.Fatal(err)
			}
		}
		for name, family := range parse(t, path) {
			for _, m := range family.Metric {
				if m.Label[0].GetValue() != "p:"+key || m.Label[1].GetValue() != key {
					t.Errorf("%q: %s has %v", key, name, m.Label)
				}
			}
		}
		if got := read(t, path)["redlockrun_attempts_total/ran"]; got != 2 {
			t.Errorf("%q: %v attempts, want 2", key, got)
		}
	}
}

func TestEachMetricHasItsHelpAndType(t *testing.T) {
	path := file(t)
	write(t, path, metrics.Attempt{Outcome: metrics.Ran, Started: true})
	for name, family := range parse(t, path) {
		if family.GetHelp() == "" || (family.GetType() == dto.MetricType_COUNTER) != strings.HasSuffix(name, "_total") {
			t.Errorf("%s: %v", name, family)
		}
	}
}

// What another program, another key or a broken disk has left there is replaced.
func TestAFileThatMakesNoSenseIsReplaced(t *testing.T) {
	for _, text := range []string{
		"", "\n\n", "nonsense", strings.Repeat("x 1\n", 100_000), "redlockrun_attempts_total{prefix=\"lock:\",key=\"k\",outcome=\"ran\"} NaN\n",
		"redlockrun_attempts_total{prefix=\"lock:\",key=\"other\",outcome=\"ran\"} 7\n",
	} {
		path := file(t)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := write(t, path, metrics.Attempt{Outcome: metrics.Ran})["redlockrun_attempts_total/ran"]; got != 1 {
			t.Errorf("%.40q: %v attempts", text, got)
		}
	}
}

func TestWhoeverReadsSeesAWholeFile(t *testing.T) {
	path := file(t)
	write(t, path, metrics.Attempt{})
	done := make(chan error)
	go func() {
		var err error
		for i := range 200 {
			if err == nil {
				err = metrics.Write(path, metrics.Attempt{Prefix: "lock:", Key: fmt.Sprint(i)})
			}
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
		if got := read(t, path); len(got) != 5+2*len(metrics.Outcomes()) {
			t.Fatalf("%d series", len(got))
		}
	}
}

func TestNothingIsLeftOfAWriteThatFailed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.prom")
	if err := os.Mkdir(path, 0o700); err != nil { // can't be replaced by a file
		t.Fatal(err)
	}
	if err := metrics.Write(path, metrics.Attempt{}); err == nil {
		t.Error("it was written")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestOthersMayReadIt(t *testing.T) {
	path := file(t)
	write(t, path, metrics.Attempt{})
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&^0o644 != 0 || info.Mode().Perm()&0o400 == 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	names, _ := os.ReadDir(filepath.Dir(path))
	if !slices.ContainsFunc(names, func(e os.DirEntry) bool { return e.Name() == "report.prom" }) || len(names) != 1 {
		t.Errorf("%v", names)
	}
}

func TestPathsThatCantBe(t *testing.T) {
	dir := t.TempDir()
	regular := filepath.Join(dir, "regular")
	if err := os.WriteFile(regular, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"":                               "is empty",
		dir:                              "is there and is no file",
		os.DevNull:                       "is there and is no file",
		filepath.Join(dir, "no", "x"):    "there is no folder",
		filepath.Join(regular, "x.prom"): "is no folder",
	} {
		if err := metrics.Check(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	for _, path := range []string{regular, filepath.Join(dir, "new.prom"), "new.prom"} {
		if err := metrics.Check(path); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
}
