//go:build linux

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is what happened at a place, and what the judge says of it.
type result struct {
	place string
	verdict
	*scene
}

// broken reports whether a promise was.
func (r result) broken() bool {
	return r.overlaps+r.regressions+r.orphans+r.eternal+r.starved+r.odd > 0
}

// mostDetails is how many violations are told one by one.
const mostDetails = 20

func report(out io.Writer, results []result) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "place\tattempts\tacquisitions\tfaults\toverlaps\texcused\tregressions\torphans\teternal\tstarved\todd\t")
	for _, r := range results {
		faults := 0
		for _, n := range r.faults {
			faults += n
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", r.place, r.attempts, r.acquisitions, faults,
			r.overlaps, r.excused, r.regressions, r.orphans, r.eternal, r.starved, r.odd)
	}
	table.Flush()
	fmt.Fprintln(out, "\nfaults by kind")
	for _, r := range results {
		var list []string
		for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
			list = append(list, fmt.Sprintf("%s %d", kind, r.faults[kind]))
		}
		fmt.Fprintf(out, "  %s: %s\n", r.place, strings.Join(list, ", "))
	}
	for _, r := range results {
		violations := append(slices.Clone(r.scene.details), r.verdict.details...)
		violations = slices.DeleteFunc(violations, func(text string) bool { return strings.HasPrefix(text, "excused") })
		for i, text := range violations {
			if i == 0 {
				fmt.Fprintf(out, "\nwrong at %s\n", r.place)
			}
			if i == mostDetails {
				fmt.Fprintf(out, "  and %d more\n", len(violations)-i)
				break
			}
			fmt.Fprintf(out, "  %s\n", text)
		}
	}
}
