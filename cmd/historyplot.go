package cmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// The marks of a time line. Each says by itself what it means, without a color.
const (
	markWaiting = '.'
	markHeld    = '#'
	markFailed  = 'x' // at the end of what was held
	markLost    = '!'
	markPresent = '>'
	markUnknown = '?'
)

// legends explain the marks, in this order.
var legends = []struct {
	mark rune
	text string
}{
	{markWaiting, "waiting"},
	{markHeld, "held"},
	{markFailed, "failed, or stopped"},
	{markLost, "lock lost"},
	{markPresent, "held now"},
	{markUnknown, "no end known"},
}

// span is the part of a time line that one hold takes.
type span struct{ waiting, begin, end time.Time }

func spanOf(hold lock.Hold, now time.Time) span {
	end := hold.Until
	switch {
	case hold.End.How == lock.Held:
		end = now
	case end.IsZero():
		end = hold.Since // nobody knows more
	}
	begin := hold.Since
	if begin.IsZero() {
		begin = end
	}
	if begin.IsZero() {
		begin, end = hold.Found, hold.Found
	}
	if end.Before(begin) { // the clocks of this host and of Redis differ
		end = begin
	}
	return span{begin.Add(-hold.Waited), begin, end}
}

// timeline is a scale of times on columns.
type timeline struct {
	from, to time.Time
	columns  int
}

// column returns where an instant falls, from 0 to columns-1.
func (l timeline) column(t time.Time) int {
	whole := l.to.Sub(l.from)
	if whole <= 0 {
		return 0
	}
	at := int(float64(t.Sub(l.from)) / float64(whole) * float64(l.columns))
	return min(max(at, 0), l.columns-1)
}

// bar draws one hold.
func (l timeline) bar(s span, hold lock.Hold) []rune {
	bar := []rune(strings.Repeat(" ", l.columns))
	begin, end := l.column(s.begin), l.column(s.end)
	if hold.Waited > 0 {
		for i := l.column(s.waiting); i < begin; i++ {
			bar[i] = markWaiting
		}
	}
	for i := begin; i <= end; i++ {
		bar[i] = markHeld
	}
	bar[end] = endMark(hold)
	return bar
}

func endMark(hold lock.Hold) rune {
	switch {
	case hold.End.How == lock.Held:
		return markPresent
	case hold.End.How == lock.Unknown:
		return markUnknown
	case hold.LockLost || hold.End.How == lock.Lost:
		return markLost
	case hold.End.How == lock.Released, hold.End.How == lock.Exited && hold.End.Code == 0:
		return markHeld
	default:
		return markFailed
	}
}

const (
	plotColumns   = 80 // where there is no terminal
	whoColumns    = 14
	heldColumns   = 7
	endedColumns  = 12
	leastBar      = 10
	plotOverheads = 1 + whoColumns + 2 + 2 + heldColumns + 2 + endedColumns // all but the start and the bar
)

// plotHistory draws who held the lock when, the oldest first, one line for
// each, in lines of width columns; 0 is that of a terminal of old.
func plotHistory(name string, holds []lock.Hold, now time.Time, width int, color bool) string {
	holds = slices.Clone(holds)
	slices.SortStableFunc(holds, func(a, b lock.Hold) int { return spanOf(a, now).begin.Compare(spanOf(b, now).begin) })
	line := timeline{from: spanOf(holds[0], now).waiting, to: spanOf(holds[0], now).end}
	for _, hold := range holds {
		s := spanOf(hold, now)
		if s.waiting.Before(line.from) {
			line.from = s.waiting
		}
		if s.end.After(line.to) {
			line.to = s.end
		}
	}
	layout := "15:04:05"
	if line.to.Sub(line.from) >= 20*time.Hour {
		layout = "01-02 15:04"
	}
	if width <= 0 {
		width = plotColumns
	}
	line.columns = max(leastBar, width-len(layout)-plotOverheads)

	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s to %s\n", name, line.from.Local().Format(time.DateTime), line.to.Local().Format(time.DateTime))
	seen := map[rune]bool{}
	for _, hold := range holds {
		s := spanOf(hold, now)
		bar := line.bar(s, hold)
		for _, mark := range bar {
			seen[mark] = true
		}
		ended := endText(hold)
		if hold.LockLost {
			ended = "lock lost"
		}
		row := fmt.Sprintf("%s %s |%s| %*s  %s", s.begin.Local().Format(layout), padded(cut(hold.Holder.Label, whoColumns), whoColumns),
			painted(string(bar), endMark(hold), color), heldColumns, heldText(hold, now), cut(ended, endedColumns))
		b.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	return b.String() + legend(seen, width)
}

// legend explains the marks that were seen.
func legend(seen map[rune]bool, width int) string {
	text, line := "", ""
	for _, l := range legends {
		item := string(l.mark) + " " + l.text
		switch {
		case !seen[l.mark]:
		case line == "":
			line = item
		case len(line)+3+len(item) > width:
			text += line + "\n"
			line = item
		default:
			line += "   " + item
		}
	}
	return text + line + "\n"
}

// painted colors a bar by how it ended; what was waited for is dim.
func painted(bar string, end rune, color bool) string {
	if !color {
		return bar
	}
	code := map[rune]string{markHeld: "32", markPresent: "36", markUnknown: "33", markFailed: "31", markLost: "31"}[end]
	waiting := strings.LastIndexByte(bar, byte(markWaiting)) + 1
	return "\x1b[2m" + bar[:waiting] + "\x1b[0;" + code + "m" + bar[waiting:] + "\x1b[0m"
}
