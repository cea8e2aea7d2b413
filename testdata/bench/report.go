package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// tables are all figures, in the order of the page.
func (r *results) tables() []*table {
	return []*table{
		r.runTable(), r.tripTable(), r.timeLineTable(), r.startUpTable(), r.initTable(), r.handOffTable(), r.idleTable(), r.takeOverTable(),
	}
}

// print shows all that was measured.
func (r *results) print(w io.Writer) {
	fmt.Fprintf(w, "%s\n%s", r.Machine, missingText(r.Missing))
	for _, t := range r.tables() {
		if len(t.rows) > 0 {
			fmt.Fprintf(w, "\n%s", t.text())
		}
	}
}

func (m machine) String() string {
	others := "Nobody else had much to do on it when the run began."
	if m.busy() {
		others = "Others used it at the same time: compare the figures with each other, not with those of other runs."
	}
	again := ""
	if m.Again != "" {
		again = " Measured again later: " + m.Again + "."
	}
	return fmt.Sprintf("%s. %s, Linux %s; %d processors (%s), %d MB of memory; %s; %s.\n"+
		"Load before %s, after %s. %s\n%d rounds of what takes milliseconds.%s",
		m.Date, m.System, m.Kernel, m.Processors, m.Model, m.MemoryMegabytes, m.Go, strings.Join(m.Programs, ", "),
		m.LoadBefore, m.Load, others, m.Rounds, again)
}

// busy reports whether others had work for the machine when the run began.
func (m machine) busy() bool {
	var before float64
	_, _ = fmt.Sscan(m.LoadBefore, &before)
	return before > 0.5
}

func missingText(programs []string) string {
	if len(programs) == 0 {
		return ""
	}
	return "Not installed, and so left out: " + strings.Join(programs, ", ") + ".\n"
}

func (r *results) runTable() *table {
	t := &table{name: "runs", head: []string{"", "start to exit", "CPU", "time, ratio", "CPU, ratio", "memory", "processes"}}
	for _, run := range r.Runs {
		t.add(run.Name, ms(run.Wall), ms(run.CPU), ratio(run.WallRatio), ratio(run.CPURatio), kilobytes(run.Memory), strconv.Itoa(run.Processes))
	}
	return t
}

func (r *results) tripTable() *table {
	t := &table{name: "trips", head: []string{"", "connections", "round trips", "commands", "more in scripts"}}
	for _, trip := range r.Trips {
		t.add(trip.Name, strconv.Itoa(trip.Connections), strconv.Itoa(trip.Trips), strconv.Itoa(trip.Sent), strconv.Itoa(trip.InScripts))
	}
	return t
}

func (r *results) timeLineTable() *table {
	t := &table{name: "time-line", head: []string{"", "connects", "asks for the lock", "command runs", "releases", "exits"}}
	for _, trip := range r.Trips {
		t.add(trip.Name, ms(trip.Connected), ms(trip.Asked), ms(trip.Started), ms(trip.Released), ms(trip.Stopped))
	}
	return t
}

func (r *results) startUpTable() *table {
	t := &table{name: "start-up", head: []string{"", "start to exit", "CPU"}}
	for _, s := range r.StartUp {
		t.add(s.Name, ms(s.Wall), ms(s.CPU))
	}
	return t
}

func (r *results) initTable() *table {
	t := &table{name: "inits", head: []string{"", "packages", "together", "the dearest of them"}}
	for _, i := range r.Inits {
		var dearest []string
		for _, p := range i.Dearest {
			dearest = append(dearest, fmt.Sprintf("%s %.2f", p.Path, p.Time))
		}
		t.add(i.Name, strconv.Itoa(i.Packages), ms(i.Total), strings.Join(dearest, ", "))
	}
	return t
}

func (r *results) handOffTable() *table {
	t := &table{name: "hand-offs", head: []string{"", "waiters", "p50", "p99", "all served in", "out of order"}}
	for _, h := range r.HandOffs {
		t.add(h.Name, strconv.Itoa(h.Waiters), ms(h.P50), ms(h.P99), ms(h.Drain), fmt.Sprintf("%d of %d", h.Inversions, h.HandOffs))
	}
	return t
}

func (r *results) idleTable() *table {
	t := &table{name: "idle", head: []string{"", "waiters", "commands/s each", "CPU each", "memory each"}}
	for _, i := range r.Idle {
		commands := "none"
		if i.Commands >= 0 {
			commands = fmt.Sprintf("%.2f", i.Commands)
		}
		t.add(i.Name, strconv.Itoa(i.Waiters), commands, fmt.Sprintf("%.2f ms/s", i.CPU), kilobytes(i.Memory))
	}
	return t
}

func (r *results) takeOverTable() *table {
	t := &table{name: "take-over", head: []string{"", "ttl", "killed", "next one starts after", "at most", "two at once"}}
	for _, o := range r.TakeOver {
		after, most := ms(o.Median), ms(o.Max)
		if o.Kept == o.Rounds {
			after, most = "the command's end", ""
		}
		t.add(o.Name, o.TTL, o.Victim, after, most, fmt.Sprintf("%d of %d", o.Overlaps, o.Rounds))
	}
	return t
}

// ms shows milliseconds, with the digits that may mean something.
func ms(x float64) string {
	switch {
	case x >= 10_000:
		return fmt.Sprintf("%.1f s", x/1000)
	case x >= 1000:
		return fmt.Sprintf("%.2f s", x/1000)
	case x >= 100:
		return fmt.Sprintf("%.0f ms", x)
	case x >= 10:
		return fmt.Sprintf("%.1f ms", x)
	default:
		return fmt.Sprintf("%.2f ms", x)
	}
}

func ratio(x float64) string { return fmt.Sprintf("%.2f", x) }

func kilobytes(n int) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1024)
}
