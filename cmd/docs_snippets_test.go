//go:build unix

package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// snippet is a block of code in a page of the documentation.
//
// What its fence says decides what is done with it:
//
//	sh, bash            run; with  no-run "why"  behind it only parsed
//	output              what the snippet before it prints; "..." in it is anything
//	yaml, yaml config   command lines in it are parsed; or it is a configuration file
//	ini NAME.service    a systemd unit
//	crontab             lines of a user's crontab
//	dockerfile, go, python, json
//	console, text       lines after "$ " are parsed
//
// A comment before it tells of an exit code that is not 0: <!-- exit: 75 -->
type snippet struct {
	file    string
	line    int // of the fence
	kind    string
	options string // what follows the kind
	text    string
	exit    int
	output  *string // what it is said to print
}

func (s *snippet) String() string { return fmt.Sprintf("%s:%d", filepath.Base(s.file), s.line) }

// noRun reports whether the snippet says that it can't be run, and why.
func (s *snippet) noRun() (why string, ok bool) {
	rest, ok := strings.CutPrefix(s.options, "no-run")
	why, err := strconv.Unquote(strings.TrimSpace(rest))
	if !ok || err != nil {
		return "", false
	}
	return why, why != ""
}

// indented is the kind of a block that is set off by four blanks.
const indented = "indented"

var exitComment = regexp.MustCompile(`^<!-- exit: (\d+) -->$`)

// snippetsOf finds all snippets of a page.
func snippetsOf(file, page string) ([]*snippet, error) {
	var (
		all    []*snippet
		open   *snippet
		exit   int
		before string // the line before
	)
	for i, line := range strings.Split(page, "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case open != nil && open.kind != indented:
			if line == "```" {
				open = nil
			} else {
				open.text += line + "\n"
			}
		case fence:
			kind, options, _ := strings.Cut(strings.TrimSpace(info), " ")
			open = &snippet{file: file, line: i + 1, kind: kind, options: options, exit: exit}
			if kind == "" {
				return nil, fmt.Errorf("%v: the fence does not say what it holds", open)
			}
			all = append(all, open)
			exit = 0
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			return nil, fmt.Errorf("%s:%d: a fence must begin at the start of the line", file, i+1)
		case strings.HasPrefix(line, "    ") && (open != nil || before == ""):
			if open == nil {
				open = &snippet{file: file, line: i + 1, kind: indented}
				all = append(all, open)
			}
			open.text += line[4:] + "\n"
		default:
			open = nil
			if match := exitComment.FindStringSubmatch(line); match != nil {
				exit, _ = strconv.Atoi(match[1])
			} else if line != "" {
				exit = 0
			}
		}
		before = line
	}
	if open != nil && open.kind != indented {
		return nil, fmt.Errorf("%v: the fence is not closed", open)
	}
	return withOutputs(all)
}

// withOutputs gives each snippet the output block that follows it.
func withOutputs(all []*snippet) ([]*snippet, error) {
	var kept []*snippet
	for i, s := range all {
		if s.kind != "output" {
			kept = append(kept, s)
			continue
		}
		if i == 0 || !all[i-1].runs() {
			return nil, fmt.Errorf("%v: output of what? The snippet before it is not run", s)
		}
		all[i-1].output = &s.text
	}
	return kept, nil
}

// runs reports whether the snippet is for a shell to run.
func (s *snippet) runs() bool {
	_, no := s.noRun()
	return (s.kind == "sh" || s.kind == "bash") && !no
}

// allSnippets reads README.md and docs.
func allSnippets(t *testing.T) []*snippet {
	t.Helper()
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []*snippet
	for _, file := range append(pages, "../README.md") {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found, err := snippetsOf(file, string(page))
		if err != nil {
			t.Error(err)
		}
		all = append(all, found...)
	}
	return all
}
