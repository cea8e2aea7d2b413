// Package metrics writes a file of metrics for Prometheus: for the textfile
// collector of its node_exporter, which reads what short-lived programs leave
// behind.
//
// The file tells of one key. It is written as a whole after every attempt to
// run; what an attempt does not change, such as the time of the last success,
// is taken over from the file as it was. It is written by hand, as the client
// library of Prometheus costs milliseconds of every start.
//
// What the metrics mean is told in docs/metrics.md.
package metrics

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Outcome is what came of an attempt.
type Outcome string

// What comes of attempts.
const (
	Ran         Outcome = "ran" // the command ended by itself, with any exit code
	Busy        Outcome = "busy"
	Skipped     Outcome = "skipped" // it was done already
	Unavailable Outcome = "unavailable"
	Lost        Outcome = "lost"
	Timeout     Outcome = "timeout"
	NotStarted  Outcome = "not_started"
	Interrupted Outcome = "interrupted" // before the command was started
	Error       Outcome = "error"       // anything else
)

// Outcomes returns all of them.
func Outcomes() []Outcome {
	return []Outcome{Ran, Busy, Skipped, Unavailable, Lost, Timeout, NotStarted, Interrupted, Error}
}

// Attempt is one attempt to run a command under a lock.
type Attempt struct {
	Prefix, Key string // of the lock
	End         time.Time
	Outcome     Outcome // one that is not known counts as Error
	ExitCode    int     // of the tool, as a shell sees it
	Waited      time.Duration

	// Started: the command was, and ran for so long.
	Started bool
	Ran     time.Duration
}

// Check says why no file can be written at path, as far as that can be seen
// without a try, or returns nil. Its errors are clauses that follow the
// setting's name.
func Check(path string) error {
	if path == "" {
		return errors.New("is empty")
	}
	dir := filepath.Dir(path)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("there is no folder %s", dir)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", dir)
	}
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is there and is no file", path)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	return nil
}

// Write replaces the file at path by one that tells of the attempt. Whoever
// reads it sees the old one or the new one, never a part. Of two that write at
// the same time the last one wins, and the other is not counted.
func Write(path string, a Attempt) error {
	before := readOwn(path)
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()) // not *.prom, which would be read
	err := writeNew(temp, render(a, before))
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
	}
	return err
}

func writeNew(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // the exporter is another user
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// metric is a family of metrics of the file.
type metric struct {
	name, kind, help string
	outcomes         bool // one for each outcome

	// value returns the value for an attempt, given the one that stands in the
	// file as it was, and false for no such metric.
	value func(a Attempt, outcome Outcome, before float64, known bool) (float64, bool)
}

func always(value func(Attempt) float64) func(Attempt, Outcome, float64, bool) (float64, bool) {
	return func(a Attempt, _ Outcome, _ float64, _ bool) (float64, bool) { return value(a), true }
}

// metrics are those of a file, in their order there.
func metrics() []metric {
	return []metric{
		{
			name: "redlockrun_last_attempt_timestamp_seconds", kind: "gauge",
			help:  "When redlockrun last ended, whatever came of it.",
			value: always(func(a Attempt) float64 { return seconds(a.End) }),
		},
		{
			name: "redlockrun_last_attempt_outcome", kind: "gauge", outcomes: true,
			help: "1 for what came of the last attempt, else 0.",
			value: func(a Attempt, outcome Outcome, _ float64, _ bool) (float64, bool) {
				if a.Outcome == outcome {
					return 1, true
				}
				return 0, true
			},
		},
		{
			name: "redlockrun_attempts_total", kind: "counter", outcomes: true,
			help: "Attempts by what came of them, since this file was there.",
			value: func(a Attempt, outcome Outcome, before float64, _ bool) (float64, bool) {
				if a.Outcome == outcome {
					before++
				}
				return before, true
			},
		},
		{
			name: "redlockrun_last_exit_code", kind: "gauge",
			help:  "Exit code of the last attempt, as a shell sees it.",
			value: always(func(a Attempt) float64 { return float64(a.ExitCode) }),
		},
		{
			name: "redlockrun_last_wait_seconds", kind: "gauge",
			help:  "How long the last attempt took to get the lock, or to give up.",
			value: always(func(a Attempt) float64 { return a.Waited.Seconds() }),
		},
		{
			name: "redlockrun_last_run_timestamp_seconds", kind: "gauge",
			help: "When the command last ended on this host; 0 if it never ran.",
			value: func(a Attempt, _ Outcome, before float64, _ bool) (float64, bool) {
				if a.Started {
					return seconds(a.End), true
				}
				return before, true
			},
		},
		{
			name: "redlockrun_last_run_duration_seconds", kind: "gauge",
			help: "How long the command ran then.",
			value: func(a Attempt, _ Outcome, before float64, known bool) (float64, bool) {
				if a.Started {
					return a.Ran.Seconds(), true
				}
				return before, known
			},
		},
		{
			name: "redlockrun_last_success_timestamp_seconds", kind: "gauge",
			help: "When the command last ended with 0 on this host; 0 if it never did.",
			value: func(a Attempt, _ Outcome, before float64, _ bool) (float64, bool) {
				if a.Outcome == Ran && a.ExitCode == 0 {
					return seconds(a.End), true
				}
				return before, true
			},
		},
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// render makes the text of the file. before is what stood there, by what
// stands before the value.
func render(a Attempt, before map[string]float64) []byte {
	if !slices.Contains(Outcomes(), a.Outcome) {
		a.Outcome = Error
	}
	var b bytes.Buffer
	labels := fmt.Sprintf(`prefix="%s",key="%s"`, escape(a.Prefix), escape(a.Key))
	for _, m := range metrics() {
		outcomes := []Outcome{""}
		if m.outcomes {
			outcomes = Outcomes()
		}
		var lines bytes.Buffer
		for _, outcome := range outcomes {
			series := m.name + "{" + labels
			if m.outcomes {
				series += `,outcome="` + string(outcome) + `"`
			}
			series += "}"
			last, known := before[series]
			if value, ok := m.value(a, outcome, last, known); ok {
				fmt.Fprintf(&lines, "%s %s\n", series, strconv.FormatFloat(value, 'f', -1, 64))
			}
		}
		if lines.Len() > 0 {
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
			b.Write(lines.Bytes())
		}
	}
	return b.Bytes()
}

// escape makes text the value of a label.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text)
}

// ownSize is more than a file of ours can have.
const ownSize = 64 << 10

// readOwn reads a file that was written here. Lines that make no sense, and a
// file that can't be read, have nothing to take over.
func readOwn(path string) map[string]float64 {
	values := map[string]float64{}
	file, err := os.Open(path)
	if err != nil {
		return values
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, ownSize))
	if err != nil {
		return values
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		if value, err := strconv.ParseFloat(line[at+1:], 64); err == nil && value >= 0 && value < 1e15 {
			values[line[:at]] = value
		}
	}
	return values
}
