package main

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// table is one for people to read: the first column has names, the others
// figures.
type table struct {
	name string // of its place in a page
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// widths are those of the columns.
func (t *table) widths() []int {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// text is the table in plain text.
func (t *table) text() string {
	var b strings.Builder
	widths := t.widths()
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			if i == 0 {
				fmt.Fprintf(&b, "%-*s", widths[i], cell)
			} else {
				fmt.Fprintf(&b, "  %*s", widths[i], cell)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// markdown is the table as a page has it.
func (t *table) markdown() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.head)
	rules := []string{"---"}
	for range t.head[1:] {
		rules = append(rules, "---:")
	}
	fmt.Fprintf(&b, "|%s|\n", strings.Join(rules, "|"))
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// rewritePage puts text between the marks of each place in a page:
//
//	<!-- bench: NAME -->
//	<!-- end -->
//
// A page that lacks a place is an error, as is one with a place of no text.
func rewritePage(page string, places map[string]string) (string, error) {
	const begin, closing, end = "<!-- bench: ", " -->\n", "<!-- end -->"
	var b strings.Builder
	seen := map[string]bool{}
	for {
		before, rest, found := strings.Cut(page, begin)
		b.WriteString(before)
		if !found {
			break
		}
		name, rest, named := strings.Cut(rest, closing)
		_, after, ended := strings.Cut(rest, end)
		text, known := places[name]
		if !named || !ended || !known {
			return "", fmt.Errorf("%.30q is no place for figures, or does not end", name)
		}
		fmt.Fprintf(&b, "%s%s%s\n%s\n%s", begin, name, closing, text, end)
		seen[name] = true
		page = after
	}
	for name := range places {
		if !seen[name] {
			return "", fmt.Errorf("the page has no place for %q", name)
		}
	}
	return b.String(), nil
}

// updatePage rewrites a file, with the figures of the results.
func (r *results) updatePage(file string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := rewritePage(string(page), r.places())
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// places is what stands where in the page.
func (r *results) places() map[string]string {
	places := map[string]string{"machine": r.Machine.String() + "\n" + missingText(r.Missing)}
	for _, t := range r.tables() {
		places[t.name] = t.markdown()
	}
	return places
}
