//go:build unix

package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// checkSnippet parses a snippet, and every call of redlockrun in it.
func checkSnippet(t *testing.T, s *snippet) error {
	t.Helper()
	switch s.kind {
	case "sh", "bash":
		if _, no := s.noRun(); s.options != "" && !no {
			return fmt.Errorf("%q is not understood: only no-run \"why\" is", s.options)
		}
		return checkScript(s.text, nil)
	case "yaml":
		if s.options == "config" {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(s.text), 0o600); err != nil {
				return err
			}
			return checkCall([]string{"--key", "k", "--config", file, "--", "true"}, nil)
		}
		return checkYAML(s.text)
	case "ini":
		return checkUnit(s.text)
	case "crontab":
		return checkCrontab(s.text)
	case "dockerfile":
		return checkDockerfile(s.text)
	case "console", "text", indented:
		return checkLines(s.text, s.kind == indented)
	case "go":
		_, err := parser.ParseFile(token.NewFileSet(), s.file, s.text, 0)
		return err
	case "json":
		if !json.Valid([]byte(s.text)) {
			return errors.New("is no JSON")
		}
		return nil
	case "python":
		if _, err := exec.LookPath("python3"); err == nil { // else nothing here can read it
			return parseWith(s.text, "python3", "-c", "import ast, sys; ast.parse(sys.stdin.read())")
		}
		return nil
	default:
		return fmt.Errorf("there is no check for %q: add one, or call it text", s.kind)
	}
}

// parseWith gives a text to a program that says whether it can read it.
func parseWith(text string, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return nil
}

// checkScript parses a shell script and the calls in it.
func checkScript(script string, environ map[string]string) error {
	if err := parseWith(script, "bash", "-n"); err != nil {
		return err
	}
	calls, err := ourCalls(script)
	if err != nil {
		return err
	}
	if len(calls) == 0 && ours.MatchString(script) {
		return errors.New("redlockrun is called somewhere in it, but where?")
	}
	return checkCalls(calls, environ)
}

func checkCalls(calls [][]string, environ map[string]string) error {
	for _, call := range calls {
		if err := checkCall(call, environ); err != nil {
			return fmt.Errorf("redlockrun %s\n%w", strings.Join(call, " "), err)
		}
	}
	return nil
}

// checkWords checks a command that is given as a list, as of a container.
func checkWords(words []string, environ map[string]string) error {
	switch {
	case len(words) == 0:
		return nil
	case strings.HasPrefix(words[0], "-"): // for the entry point of an image
		return checkCalls([][]string{words}, environ)
	case slices.Contains([]string{"sh", "bash"}, path.Base(words[0])) && len(words) > 2:
		return checkScript(words[2], environ)
	default:
		return checkCalls(callsIn(words), environ)
	}
}

// checkLines checks what follows a prompt; of an indented block also a line
// that begins with our name.
func checkLines(text string, promptless bool) error {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		command, prompted := strings.CutPrefix(line, "$ ")
		if !prompted && (!promptless || !ours.MatchString(line)) {
			continue
		}
		calls, err := ourCalls(command)
		if err == nil {
			err = checkCalls(calls, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unitSettings are those of systemd units that hold a command line.
var unitSettings = regexp.MustCompile(`^Exec(Start|StartPre|StartPost|Stop|Reload)$`)

// checkUnit parses a systemd unit line by line.
func checkUnit(text string) error {
	environ := map[string]string{}
	var lines [][]string
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '[' && strings.HasSuffix(line, "]") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		switch {
		case !ok || !regexp.MustCompile(`^[A-Z]\w+$`).MatchString(name):
			return fmt.Errorf("%q is no setting of a unit", line)
		case name == "Environment":
			if name, value, ok := strings.Cut(strings.Trim(value, `"`), "="); ok {
				environ[name] = value
			}
		case unitSettings.MatchString(name):
			lines = append(lines, []string{strings.TrimLeft(value, "-+!@:")})
		}
	}
	if err := checkEnvironment(environ); err != nil {
		return err
	}
	for _, line := range lines {
		words, err := shellCommands(strings.NewReplacer("%%", "%", "$$", "$").Replace(line[0]))
		if err != nil {
			return err
		}
		if len(words) != 1 || !path.IsAbs(words[0][0]) {
			return fmt.Errorf("%q is not one command with an absolute path: systemd is no shell", line[0])
		}
		if err := checkWords(words[0], environ); err != nil {
			return err
		}
	}
	return nil
}

var (
	cronVariable = regexp.MustCompile(`^(\w+)\s*=\s*"?(.*?)"?$`)
	cronLine     = regexp.MustCompile(`^(@\w+|(?:(?:[\d*,/-]|[A-Za-z]{3}\b)+\s+){5})\s*(.+)$`)
	barePercent  = regexp.MustCompile(`(^|[^\\])%`)
)

// checkCrontab parses the lines of a user's crontab.
func checkCrontab(text string) error {
	environ := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if match := cronVariable.FindStringSubmatch(line); match != nil {
			environ[match[1]] = match[2]
			continue
		}
		match := cronLine.FindStringSubmatch(line)
		if match == nil {
			return fmt.Errorf("%q is no line of a crontab: five fields and a command", line)
		}
		command := match[2]
		if barePercent.MatchString(command) {
			return fmt.Errorf("%q: cron ends the command at a %%; write \\%%", line)
		}
		if err := checkScript(strings.ReplaceAll(command, `\%`, "%"), environ); err != nil {
			return err
		}
	}
	return checkEnvironment(environ)
}

var dockerInstructions = strings.Fields("ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL RUN SHELL STOPSIGNAL USER VOLUME WORKDIR")

// checkDockerfile parses a Dockerfile, and what the image would run.
func checkDockerfile(text string) error {
	argv := map[string][]string{}
	environ := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, _ := strings.Cut(line, " ")
		switch {
		case !slices.Contains(dockerInstructions, name):
			return fmt.Errorf("%q is no instruction", name)
		case name == "ENV":
			if name, value, ok := strings.Cut(value, "="); ok {
				environ[name] = strings.Trim(value, `"`)
			}
		case name == "FROM":
			clear(argv)
			clear(environ)
		case name == "RUN":
			if err := checkScript(value, environ); err != nil {
				return err
			}
		case name == "ENTRYPOINT" || name == "CMD":
			var words []string
			if err := json.Unmarshal([]byte(value), &words); err != nil {
				return fmt.Errorf("%s must be a JSON list, or a shell is process 1: %w", name, err)
			}
			argv[name] = words
		}
	}
	if err := checkEnvironment(environ); err != nil {
		return err
	}
	return checkWords(append(argv["ENTRYPOINT"], argv["CMD"]...), environ)
}
