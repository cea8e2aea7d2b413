package main

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"time"
)

// results are the figures of one run of the benchmark. All times are
// milliseconds.
type results struct {
	Machine  machine
	Missing  []string // programs that are not installed
	Runs     []runResult
	Trips    []tripResult
	StartUp  []startUpResult
	Inits    []initResult
	HandOffs []handOffResult
	Idle     []idleResult
	TakeOver []takeOverResult
}

// machine says what the figures were measured on.
type machine struct {
	Date             string
	Processors       int
	Model            string
	MemoryMegabytes  int
	Kernel, System   string
	Go               string
	Programs         []string // and their versions
	LoadBefore, Load string   // before and after: of 1, 5 and 15 minutes
	Rounds           int
	Again            string `json:",omitempty"` // what was measured anew by a later run
}

// runResult is what it costs to run a command that does nothing.
type runResult struct {
	Name                string
	Wall, CPU           float64 // medians
	WallRatio, CPURatio float64 // medians of the ratios to the yardstick within a round
	Memory              int     // kB of PSS while the command runs, without the command
	Processes           int     // that wait while the command runs
}

// tripResult is how a run goes, in milliseconds from its start.
type tripResult struct {
	Name                                         string
	Connections, Trips                           int // to the server, and back
	Sent, InScripts                              int // commands that the server ran
	Connected, Asked, Started, Released, Stopped float64
}

// startUpResult is the cost of a program that ends before Redis is asked.
type startUpResult struct {
	Name      string
	Wall, CPU float64
}

// initResult is what the runtime says of the initialisation of packages.
type initResult struct {
	Name     string
	Packages int
	Total    float64
	Dearest  []packageInit
}

type packageInit struct {
	Path string
	Time float64
}

// handOffResult is about the time from the end of one command to the start of
// the next.
type handOffResult struct {
	Name            string
	Waiters, Rounds int
	P50, P99, Drain float64 // Drain is from the first end to the last
	HandOffs        int
	Inversions      int // hand-offs to one that came before the one before
}

// idleResult is what waiters cost while nothing happens, each.
type idleResult struct {
	Name     string
	Waiters  int
	Commands float64 // per second; less than 0 where there is nobody to count them
	CPU      float64 // milliseconds per second
	Memory   int     // kB of PSS
}

// takeOverResult is the time from kill -9 to the start of the next command.
type takeOverResult struct {
	Name     string
	TTL      string
	Custom   bool // not the tool's own ttl
	Victim   string
	Rounds   int
	Median   float64
	Max      float64
	Overlaps int // rounds in which the killed one's command still ran then
	Kept     int // rounds in which that command had to end first
}

func readResults(file string) (*results, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &results{}
	return r, json.Unmarshal(text, r)
}

func (r *results) write(file string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// median is the mean of the two in the middle where there is none.
func median[T time.Duration | float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// percentile is the smallest value that p percent of all don't exceed.
func percentile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)*p+99)/100-1]
}

func ratios(a, b []time.Duration) []float64 {
	list := make([]float64, len(a))
	for i := range a {
		list[i] = float64(a[i]) / float64(max(b[i], 1))
	}
	return list
}

// millis drops what is below a microsecond.
func millis(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }
