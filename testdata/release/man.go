package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manual makes a page for each command (section 1) and each help topic
// (section 7), by file name.
func manual(root *cobra.Command, version, day string) map[string][]byte {
	files := map[string][]byte{}
	pages := allPages(root)
	for _, p := range pages {
		files[fmt.Sprintf("%s.%d", p.name, p.section)] = p.render(pages, version, day)
	}
	return files
}

// page is a command or a topic in the manual.
type page struct {
	cmd     *cobra.Command
	name    string
	section int
}

func allPages(cmd *cobra.Command) []page {
	if cmd.Hidden {
		return nil
	}
	p := page{cmd, strings.ReplaceAll(cmd.CommandPath(), " ", "-"), 1}
	if cmd.IsAdditionalHelpTopicCommand() {
		p.section = 7
	}
	pages := []page{p}
	for _, sub := range cmd.Commands() {
		pages = append(pages, allPages(sub)...)
	}
	return pages
}

func (p page) render(all []page, version, day string) []byte {
	var b roff
	title := map[int]string{1: "User Commands", 7: "Miscellaneous"}[p.section]
	fmt.Fprintf(&b, ".TH %s %d %s \"redlockrun %s\" \"%s\"\n", escape(strings.ToUpper(p.name)), p.section, day, version, title)
	b.WriteString(".nh\n.ad l\n") // no hyphenation, ragged right: most words here are to be typed
	b.section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", escape(p.name), escape(lowerFirst(p.cmd.Short)))

	description, exitStatus, _ := strings.Cut(p.cmd.Long, "\n\nEXIT STATUS\n")
	if p.section == 1 {
		b.section("SYNOPSIS")
		p.synopsis(&b)
	}
	b.section("DESCRIPTION")
	b.text(description)
	if p.cmd.Flags().HasAvailableFlags() && p.section == 1 {
		b.section("OPTIONS")
		p.cmd.Flags().VisitAll(b.option)
	}
	if exitStatus != "" {
		b.section("EXIT STATUS")
		b.paragraph(strings.Split(exitStatus, "\n"))
	}
	if p.section == 1 && p.cmd.Flags().Lookup("config") != nil {
		b.section("ENVIRONMENT")
		b.paragraph([]string{"All options but those of one call alone can be set by variables and in files: see redlockrun-environment(7)."})
	}
	if p.cmd.Example != "" {
		b.section("EXAMPLES")
		b.verbatim(strings.Split(p.cmd.Example, "\n"))
	}
	b.section("SEE ALSO")
	var others []string
	for _, other := range all {
		if other.name != p.name {
			others = append(others, fmt.Sprintf("\\fB%s\\fR(%d)", escape(other.name), other.section))
		}
	}
	b.WriteString(strings.Join(others, ",\n") + "\n")
	return b.Bytes()
}

// synopsis is the line of use: what is in capitals there is for the user to
// put in.
func (p page) synopsis(b *roff) {
	line := p.cmd.UseLine()
	placeholder := regexp.MustCompile(`[A-Z]{2,}`)
	line = placeholder.ReplaceAllString(escape(line), `\fI$0\fR`)
	program := escape(p.cmd.CommandPath())
	fmt.Fprintf(b, "\\fB%s\\fR%s\n", program, strings.TrimPrefix(line, program))
}

// roff is a manual page in the making.
type roff struct {
	bytes.Buffer
	begun int // length up to the last heading, which needs no gap after it
}

func (b *roff) section(name string) {
	fmt.Fprintf(b, ".SH \"%s\"\n", name)
	b.begun = b.Len()
}

func (b *roff) gap() {
	if b.Len() > b.begun {
		b.WriteString(".PP\n")
	}
}

// option writes a flag, with what it does and its default.
func (b *roff) option(f *pflag.Flag) {
	if f.Hidden {
		return
	}
	placeholder, usage := pflag.UnquoteUsage(f)
	b.WriteString(".TP\n")
	if f.Shorthand != "" {
		fmt.Fprintf(b, "\\fB\\-%s\\fR, ", f.Shorthand)
	}
	fmt.Fprintf(b, "\\fB%s\\fR", escape("--"+f.Name))
	if placeholder != "" {
		fmt.Fprintf(b, " \\fI%s\\fR", escape(placeholder))
	}
	switch f.DefValue {
	case "", "false", "[]":
	default:
		usage += " (default " + f.DefValue + ")"
	}
	fmt.Fprintf(b, "\n%s\n", escape(usage))
}

// text writes help as it is for terminals: paragraphs, tables of terms, and
// what is indented and to stay as it is.
func (b *roff) text(help string) {
	for block := range strings.SplitSeq(strings.TrimSpace(help), "\n\n") {
		lines := strings.Split(strings.Trim(block, "\n"), "\n")
		switch {
		case !strings.HasPrefix(lines[0], "  "):
			b.paragraph(lines)
		case isTable(lines):
			b.table(lines)
		default:
			b.verbatim(lines)
		}
	}
}

func (b *roff) paragraph(lines []string) {
	b.gap()
	for _, line := range lines {
		b.WriteString(escape(strings.TrimSpace(line)) + "\n")
	}
}

func (b *roff) verbatim(lines []string) {
	b.gap()
	b.WriteString(".RS 2\n.nf\n")
	for _, line := range lines {
		b.WriteString(escape(strings.TrimPrefix(line, "  ")) + "\n")
	}
	b.WriteString(".fi\n.RE\n")
}

// row is a term, and after two blanks or more what it means, or begins to:
// what is indented further goes on with that.
var (
	row     = regexp.MustCompile(`^  (\S+(?: \S+)*)(?:  +(\S.*))?$`)
	goingOn = regexp.MustCompile(`^ {10,}\S`)
)

func isTable(lines []string) bool {
	if first := row.FindStringSubmatch(lines[0]); first == nil || first[2] == "" {
		return false
	}
	for _, line := range lines {
		if !row.MatchString(line) && !goingOn.MatchString(line) {
			return false
		}
	}
	return true
}

// table puts longer terms than fit on a line of their own.
func (b *roff) table(lines []string) {
	width := 0
	for _, line := range lines {
		if cells := row.FindStringSubmatch(line); cells != nil && cells[2] != "" {
			width = max(width, len(cells[1])+2)
		}
	}
	b.gap()
	b.WriteString(".PD 0\n")
	for _, line := range lines {
		text := strings.TrimSpace(line)
		if cells := row.FindStringSubmatch(line); cells != nil {
			fmt.Fprintf(b, ".TP %d\n\\fB%s\\fR\n", width, escape(cells[1]))
			text = cells[2]
		}
		if text != "" {
			b.WriteString(escape(text) + "\n")
		}
	}
	b.WriteString(".PD\n")
}

// escape makes text that roff prints as it is: with the characters that are
// typed, not typographic ones.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

func lowerFirst(text string) string { return strings.ToLower(text[:1]) + text[1:] }
