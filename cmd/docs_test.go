//go:build unix

package cmd

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// What the documentation shows is true: every snippet is parsed, every call of
// redlockrun in it passes the program's own checks.
func TestEverySnippetOfTheDocumentationIsValid(t *testing.T) {
	for _, s := range allSnippets(t) {
		if err := checkSnippet(t, s); err != nil {
			t.Errorf("%v (%s): %v", s, s.kind, err)
		}
	}
}

// And what can be run does what the page says.
func TestTheSnippetsOfTheDocumentationRun(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("needs redis-server, and the programs of a Linux system")
	}
	all := slices.DeleteFunc(allSnippets(t), func(s *snippet) bool { return !s.runs() })
	server := redistest.Start(t, redistest.WithConfig("databases", strconv.Itoa(len(all)+1)))
	for i, s := range all {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			if err := runSnippet(t, s, fmt.Sprintf("%s/%d", server.URL(), i)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A unit is read by systemd itself, where there is one.
func TestTheUnitsOfTheDocumentationPassSystemd(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "redlockrun")
	writeFile(t, program, "#!/bin/sh\n")
	var units []string
	for _, s := range allSnippets(t) {
		if s.kind != "ini" || s.options == "" {
			continue
		}
		unit := filepath.Join(dir, s.options)
		writeFile(t, unit, strings.ReplaceAll(s.text, "/usr/local/bin/redlockrun", program))
		units = append(units, unit)
	}
	if len(units) == 0 {
		t.Fatal("no page has a unit")
	}
	out, err := exec.Command(verify, append([]string{"verify", "--man=no"}, units...)...).CombinedOutput()
	if err != nil || regexp.MustCompile(`(?i)unknown|ignoring|failed`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

// Every page can be reached from the first one, and every link leads somewhere.
func TestTheLinksOfTheDocumentationLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+\.md)?(#[^)]+)?\)`)
	linked := map[string]bool{}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../README.md") {
		text := readPage(t, page)
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target := page
			if match[1] != "" {
				target = filepath.Join(filepath.Dir(page), match[1])
			}
			if match[2] != "" && !slices.Contains(anchorsOf(readPage(t, target)), match[2]) {
				t.Errorf("%s links to %s%s, but there is no such heading", page, match[1], match[2])
			}
			if page == "../README.md" {
				linked[target] = true
			}
		}
	}
	for _, page := range pages {
		if !linked[page] {
			t.Errorf("README.md has no link to %s", page)
		}
	}
}

func readPage(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchorsOf returns the anchors of a page's headings.
func anchorsOf(page string) []string {
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	var anchors []string
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		text := dropped.ReplaceAllString(strings.ToLower(match[1]), "")
		anchors = append(anchors, "#"+strings.ReplaceAll(text, " ", "-"))
	}
	return anchors
}

// A page that says something else than what happens is found out, too.
func TestASnippetThatDoesSomethingElseIsFound(t *testing.T) {
	for name, page := range map[string]string{
		"another exit code":   "<!-- exit: 75 -->\n```sh\ntrue\n```\n",
		"an exit code":        "```sh\nredlockrun --redis embedded --key k -- sh -c 'exit 3'\n```\n",
		"another output":      "```sh\necho one\necho two\n```\n\n```output\none ...\ntwo\n```\n",
		"more output":         "```sh\necho one\necho two\n```\n\n```output\none\n```\n",
		"no program's answer": "```sh\nnosuchprogram\n```\n",
	} {
		snippets, err := snippetsOf("page.md", page)
		if err != nil || len(snippets) != 1 {
			t.Fatalf("%s: %d snippets, %v", name, len(snippets), err)
		}
		if runSnippet(t, snippets[0], "embedded") == nil {
			t.Errorf("%s is not found:\n%s", name, page)
		}
	}
}

// The checks find what they are there to find.
func TestTheChecksOfTheDocumentationFindFaults(t *testing.T) {
	faults := map[string]string{
		"an unknown flag":                "```sh\nredlockrun --key k --wiat 5s -- true\n```\n",
		"the same after a pipe":          "```sh\ntrue | redlockrun --key k --wiat 5s -- true\n```\n",
		"the same in a substitution":     "```sh\nx=\"$(redlockrun acquire k --timeout 3s)\" || exit\n```\n",
		"the same in a trap":             "```sh\ntrap 'redlockrun release k --tokn \"$x\"' EXIT\n```\n",
		"the same in what is run":        "```sh\nredlockrun --key k -- sh -c 'redlockrun --key j --wiat 5s -- true'\n```\n",
		"the same, not run":              "```sh no-run \"a reason\"\nredlockrun --key k --wiat 5s -- true\n```\n",
		"the same after an if":           "```bash\nif ! redlockrun --key k --wiat 5s -- true; then exit 1; fi\n```\n",
		"a value without unit":           "```sh\nredlockrun --key k --ttl 30 -- true\n```\n",
		"a kill-after above half":        "```sh\nredlockrun --key k --ttl 10s --kill-after 6s -- true\n```\n",
		"no dashes":                      "```sh\nredlockrun --key k true\n```\n",
		"no key":                         "```sh\nredlockrun -n -- true\n```\n",
		"a subcommand that there isn't":  "```sh\nredlockrun unlock k\n```\n",
		"a token that is missing":        "```sh\nredlockrun renew k --ttl 5m\n```\n",
		"no reason not to run":           "```sh no-run\ntrue\n```\n",
		"no shell":                       "```sh\nif true; then\n```\n",
		"a fence that says nothing":      "```\ntrue\n```\n",
		"a kind that nobody checks":      "```perl\n1;\n```\n",
		"a prompt":                       "```console\n$ redlockrun --key k --wiat 5s -- true\n```\n",
		"an indented line":               "Text:\n\n    redlockrun --key k --wiat 5s -- true\n",
		"args of a container":            "```yaml\nargs: [--key, k, --wiat, 5s, --, x]\n```\n",
		"command and args":               "```yaml\ncommand: [/bin/redlockrun]\nargs: [--key, k, --, x]\n---\ncommand: [redlockrun]\nargs: [--key, k, x]\n```\n",
		"a script in a container":        "```yaml\ncommand: [sh, -c, 'exec redlockrun --key k --wiat 5s -- x']\n```\n",
		"an entrypoint":                  "```yaml\nentrypoint: [redlockrun, --key, k]\ncommand: [x]\n```\n",
		"a step of a workflow":           "```yaml\nsteps:\n  - run: |\n      redlockrun --key k --wiat 5s -- x\n```\n",
		"a script of a job":              "```yaml\njob:\n  script:\n    - redlockrun --key k --wiat 5s -- x\n```\n",
		"a variable of ours":             "```yaml\nenv:\n  - {name: REDLOCKRUN_WIAT, value: 5s}\n```\n",
		"a bad value of a variable":      "```yaml\nenv:\n  REDLOCKRUN_TTL: \"30\"\nsteps:\n  - run: redlockrun --key k -- x\n```\n",
		"a YAML key that is there twice": "```yaml\na: 1\na: 2\n```\n",
		"a setting of a file":            "```yaml config\nwiat: 5s\n```\n",
		"a unit":                         "```ini a.service\n[Service]\nExecStart=/usr/local/bin/redlockrun --key k --wiat 5s -- /bin/true\n```\n",
		"a unit without a path":          "```ini a.service\n[Service]\nExecStart=redlockrun --key k -- /bin/true\n```\n",
		"a percent sign for cron":        "```crontab\n0 3 * * * redlockrun --key k --once \"$(date +%F)\" -- x\n```\n",
		"four fields":                    "```crontab\n0 3 * * redlockrun --key k -- x\n```\n",
		"a flag in a crontab":            "```crontab\n0 3 * * * redlockrun --key k --wiat 5s -- x\n```\n",
		"an ENTRYPOINT that is a shell":  "```dockerfile\nFROM x\nENTRYPOINT redlockrun --key k --\n```\n",
		"an ENTRYPOINT's flag":           "```dockerfile\nFROM x\nENTRYPOINT [\"redlockrun\", \"--kye\", \"k\", \"--\"]\nCMD [\"x\"]\n```\n",
		"an instruction":                 "```dockerfile\nFORM x\n```\n",
		"output of nothing":              "```text\nx\n```\n\n```output\nx\n```\n",
	}
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		snippets, err := snippetsOf("page.md", faults[name])
		for _, s := range snippets {
			if err == nil {
				err = checkSnippet(t, s)
			}
		}
		if err == nil {
			t.Errorf("%s is not found:\n%s", name, faults[name])
		}
	}
}
