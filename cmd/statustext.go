package cmd

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// mostRows is how many holders, and waiters, are shown; --json has all.
const mostRows = 20

// defaultWidth is for a terminal that does not tell its own.
const defaultWidth = 80

// width is the columns of the terminal, or 0 where there is none.
func (p *program) width() int {
	file, ok := p.stdout.(*os.File)
	if !ok || !isTerminal(file) {
		return 0
	}
	if n := columns(file); n > 0 {
		return n
	}
	return defaultWidth
}

// statusText tells how a lock stands. Lines are cut at width, unless that is 0;
// what is cut is what a command is called, at the end.
func statusText(seen look, width, rows int) string {
	s := seen.snapshot
	var b strings.Builder
	b.WriteString(headline(s) + "\n")
	for _, server := range s.Servers {
		if !server.Agrees {
			fmt.Fprintf(&b, "  %s differs: %s\n", server.Place, serverText(server))
		}
	}
	if len(s.Holders) > 0 {
		b.WriteString("\n" + holderTable(s, rows))
	}
	if s.Waiting > 0 {
		b.WriteString("\n" + waiterTable(s, rows))
	}
	switch {
	case len(seen.markers) > 0:
		b.WriteString("\n" + markerTable(seen.markers, rows))
	case seen.noLook != nil:
		b.WriteString("\ndone with --once: " + noLookText(seen.noLook) + "\n")
	}
	return cutLines(b.String(), width)
}

// headline says in a line what there is to say.
func headline(s lock.Snapshot) string {
	name := printable(s.Name)
	mode := ""
	if s.CapacityKnown {
		mode = ", " + s.Capacity.String()
	}
	var text string
	switch {
	case s.State == lock.StateFree:
		return name + ": free"
	case s.Remaining == lock.NoExpiry:
		return name + ": held by a value without a time to live:\nit may be data, or a lock whose owner died"
	case s.State == lock.StateRevoked:
		text = "revoked, free in " + rounded(s.Remaining)
	case s.State == lock.StateKept:
		text = "its command has ended; kept for another " + rounded(s.Remaining)
	default:
		text = "held" + mode + "; free in " + rounded(s.Remaining) + " unless renewed"
	}
	return name + ": " + text
}

func serverText(server lock.ServerView) string {
	switch {
	case server.Err != nil:
		return printable(server.Err.Error())
	case server.Holder != nil:
		return server.State.String() + " by " + holderText(*server.Holder)
	case server.State == lock.StateHeld:
		return "held by another program"
	default:
		return server.State.String()
	}
}

// whoWidth is the most columns of a holder.
const whoWidth = 26

// who names a holder, or what there is instead of one.
func who(h *lock.Holder, state lock.State) string {
	switch {
	case h != nil:
		return cut(holderText(*h), whoWidth)
	case state == lock.StateRevoked:
		return "(revoked)"
	default:
		return "(another program)"
	}
}

func holderTable(s lock.Snapshot, most int) string {
	rows := [][]string{{"HOLDER", "SINCE", "HELD", "LEASE", "COMMAND"}}
	for _, h := range first(s.Holders, most) {
		since, held, command := "-", "-", ""
		if h.Holder != nil {
			since, held, command = sinceText(h.Holder), rounded(h.HeldFor), h.Holder.Command
		}
		rows = append(rows, []string{who(h.Holder, h.State), since, held, leaseText(h.Remaining), command})
	}
	return alignedRows(rows) + andMore(s.Held, len(rows)-1)
}

func sinceText(h *lock.Holder) string {
	since := h.Since()
	if since.IsZero() {
		return "-"
	}
	return since.Local().Format(time.Stamp)
}

func leaseText(left time.Duration) string {
	if left == lock.NoExpiry {
		return "no end"
	}
	return rounded(left)
}

func waiterTable(s lock.Snapshot, most int) string {
	rows := [][]string{{"#", "WAITING", "HEARD OF", "WANTS", "COMMAND"}}
	for i, w := range first(s.Waiters, most) {
		name, wants, command := "(unknown)", "?", ""
		if w.Holder != nil {
			name, command = cut(holderText(*w.Holder), whoWidth), w.Holder.Command
		}
		if w.CapacityKnown {
			wants = w.Capacity.String()
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), name, rounded(w.Silent) + " ago", wants, command})
	}
	return alignedRows(rows) + andMore(s.Waiting, len(rows)-1)
}

func markerTable(markers []lock.Marker, most int) string {
	rows := [][]string{{"DONE WITH --once", "FORGOTTEN IN"}}
	for _, m := range first(markers, most) {
		rows = append(rows, []string{cut(printable(m.ID), 60), rounded(m.Remaining)})
	}
	return alignedRows(rows) + andMore(len(markers), len(rows)-1)
}

func first[T any](list []T, most int) []T { return list[:min(most, len(list))] }

func andMore(all, shown int) string {
	if all <= shown {
		return ""
	}
	return fmt.Sprintf("... and %d more\n", all-shown)
}

// cutLines cuts every line, unless width is 0.
func cutLines(text string, width int) string {
	if width <= 1 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = cut(line, width)
	}
	return strings.Join(lines, "\n")
}
