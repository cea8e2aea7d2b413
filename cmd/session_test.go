//go:build linux

package cmd_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redlockrun/redlockrun/testdata/record"
)

// The picture in README shows what the program still says, at other times and
// to other processes. If this fails because its words have changed, record it
// anew: go run ./testdata/record/svg
func TestTheRecordedSessionIsWhatHappens(t *testing.T) {
	server := terminalServer(t)
	terminals, err := record.Session(record.Options{PATH: os.Getenv("PATH"), Redis: server.URL(), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	shown := readSession(t)
	for _, terminal := range terminals {
		last := terminal.Frames[len(terminal.Frames)-1]
		got, want := masked(last.Lines), masked(shown.last[terminal.Name])
		if !slices.Equal(got, want) {
			t.Errorf("%s shows in the end\n%s\nbut the picture has\n%s", terminal.Name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if len(last.Lines) > record.Rows {
			t.Errorf("%s has %d lines, and would scroll", terminal.Name, len(last.Lines))
		}
		ever := masked(shown.ever[terminal.Name])
		for _, frame := range terminal.Frames {
			for _, line := range masked(frame.Lines) {
				if complete := regexp.MustCompile(`^waiting for .*giving up in TIME$`); complete.MatchString(line) && !slices.Contains(ever, line) {
					t.Errorf("%s shows %q, but the picture does not", terminal.Name, line)
				}
			}
		}
	}
	if !slices.ContainsFunc(shown.ever["web-2"], func(line string) bool { return strings.HasPrefix(line, "waiting for ") }) {
		t.Error("nobody waits in the picture")
	}
}

// And it asks nothing of who looks at it: no other file, no script.
func TestTheRecordedSessionStandsAlone(t *testing.T) {
	file, err := os.ReadFile("../docs/session.svg")
	if err != nil {
		t.Fatal(err)
	}
	if len(file) > 100_000 {
		t.Errorf("it has %d bytes", len(file))
	}
	text := strings.ReplaceAll(string(file), `xmlns="http://www.w3.org/2000/svg"`, "")
	for _, bad := range []string{"<script", "<image", "href", "url(", "@import", "@font-face", "://", "/tmp", "/home", "/root"} {
		if strings.Contains(text, bad) {
			t.Errorf("it has %q", bad)
		}
	}
	for _, good := range []string{"<title", "<desc", `role="img"`, "prefers-color-scheme", "prefers-reduced-motion"} {
		if !strings.Contains(text, good) {
			t.Errorf("it has no %q", good)
		}
	}
}

// session holds the texts of the picture, for each terminal: all, and those that
// are seen without animation.
type session struct{ ever, last map[string][]string }

func readSession(t *testing.T) session {
	t.Helper()
	file, err := os.Open("../docs/session.svg")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := session{map[string][]string{}, map[string][]string{}}
	terminal, line, hidden, inLine := "", "", false, false
	for decoder := xml.NewDecoder(file); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return s
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			switch token.Name.Local {
			case "g":
				terminal = token.Attr[0].Value
			case "text":
				line, inLine = "", terminal != "" && !hasAttribute(token, "class", "name")
				hidden = hasAttribute(token, "visibility", "hidden")
			}
		case xml.CharData:
			line += string(token)
		case xml.EndElement:
			if token.Name.Local != "text" || !inLine {
				continue
			}
			s.ever[terminal] = append(s.ever[terminal], line)
			if !hidden {
				s.last[terminal] = append(s.last[terminal], line)
			}
		}
	}
}

func hasAttribute(element xml.StartElement, name, value string) bool {
	return slices.ContainsFunc(element.Attr, func(a xml.Attr) bool { return a.Name.Local == name && a.Value == value })
}

// masked takes out what differs from run to run, and empty lines.
func masked(lines []string) []string {
	var rest []string
	for _, line := range lines {
		for _, mask := range []struct{ pattern, text string }{
			{`[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, "DATE"},
			{`\S+ \(pid \d+`, "WHO (pid N"},
			{`\b(\d+h)?(\d+m)?\d+(\.\d+)?(s|ms)\b|\b\d+m\b`, "TIME"},
			{` +`, " "},
		} {
			line = regexp.MustCompile(mask.pattern).ReplaceAllString(line, mask.text)
		}
		if line = strings.TrimSpace(line); line != "" {
			rest = append(rest, line)
		}
	}
	return rest
}
