//go:build unix

package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
)

// standIns are harmless programs by the names that the documentation uses: in
// PATH, and those with "./" in the folder where a snippet is run. What they
// leave running ends with the file $ALIVE.
var standIns = map[string]string{
	"./generate-report.sh": "",
	"./deploy.sh":          "",
	"./build.sh":           "",
	"./migrate.sh":         "",
	"./nightly.sh":         "",
	"./step-one":           "",
	"./step-two":           "",
	"./read-stock.sh":      "",
	"./start-server.sh":    `(while [ -e "$ALIVE" ]; do sleep 0.05; done) </dev/null >/dev/null 2>&1 &`,
	"kubectl":              "",
	"crontab":              "",
	"psql":                 `cat >/dev/null`,
	"mail":                 `cat >/dev/null`,
	"logger":               "",
	"redis-cli":            `exec "$REAL_REDIS_CLI" -u "$REDIS_URL" "$@"`,
}

const snippetPatience = 2 * time.Minute

// runSnippet runs a snippet as a script in a folder of its own, and compares
// its end and output with what the page says.
func runSnippet(t *testing.T, s *snippet, url string) error {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, ".bin")
	alive := filepath.Join(dir, ".alive")
	makeStandIns(t, dir, bin)
	writeFile(t, alive, "")
	t.Cleanup(func() { _ = os.Remove(alive) })
	script := s.text
	if !strings.HasPrefix(script, "#!") {
		shell, err := exec.LookPath(s.kind)
		if err != nil {
			t.Skip(err)
		}
		script = "#!" + shell + "\n" + script
	}
	writeFile(t, filepath.Join(dir, "snippet"), script)

	ctx, cancel := context.WithTimeout(t.Context(), snippetPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "snippet"))
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = snippetEnvironment(t, dir, bin, alive, url)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return err
	}
	if got := cmd.ProcessState.ExitCode(); got != s.exit {
		return fmt.Errorf("it exits with %d, want %d; it says\n%s", got, s.exit, out)
	}
	if s.output != nil && !matchesOutput(string(out), *s.output) {
		return fmt.Errorf("it prints\n%s\nbut the page says\n%s", out, *s.output)
	}
	return nil
}

// matchesOutput compares with what a page says, where "..." stands for
// anything within a line, and two spaces or more for as many as the columns of
// this run need.
func matchesOutput(got, want string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, `.*`)
	pattern = regexp.MustCompile(` {2,}`).ReplaceAllString(pattern, ` {2,}`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(got)
}

func TestColumnsOfAnyWidthMatchThePage(t *testing.T) {
	const page = "HELD  WHO ... COMMAND\n...  web-2 (pid ... on ...)  sh\n...  web-1 (pid ... on ...)  nightly.sh\n"
	for got, want := range map[string]bool{
		"HELD  WHO                    COMMAND\n11ms  web-2 (pid 327 on a)    sh\n8ms   web-1 (pid 32745 on a)  nightly.sh\n": true,
		"HELD  WHO                COMMAND\n8ms   web-2 (pid 7 on a)  sh\n11ms  web-1 (pid 8 on a)  nightly.sh\n":             true,
		"HELD  WHO                COMMAND\n8ms   web-2 (pid 7 on a) sh\n11ms  web-1 (pid 8 on a)  nightly.sh\n":              false,
		"HELD  WHO                COMMAND\n8ms   web-3 (pid 7 on a)  sh\n11ms  web-1 (pid 8 on a)  nightly.sh\n":             false,
		"HELD  WHO                COMMAND\n8ms   web-2 (pid 7 on a)  sh\n\n11ms  web-1 (pid 8 on a)  nightly.sh\n":           false,
	} {
		if matchesOutput(got, page) != want {
			t.Errorf("it is %t that this is the page's:\n%s", !want, got)
		}
	}
}

func makeStandIns(t *testing.T, dir, bin string) {
	t.Helper()
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, script := range standIns {
		folder := bin
		if strings.HasPrefix(name, "./") {
			folder = dir
		}
		writeFile(t, filepath.Join(folder, name), "#!/bin/sh\n"+script+"\n")
	}
}

// writeFile writes a program. No other test forks meanwhile: its child would
// have the file open for writing for a moment, and nobody could run it.
func writeFile(t *testing.T, file, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

func snippetEnvironment(t *testing.T, dir, bin, alive, url string) []string {
	t.Helper()
	// Sockets have short names, the folders of tests long ones.
	runtime, err := os.MkdirTemp("", "rlr") //nolint:usetesting // see above: t.TempDir has a long name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(runtime, "redlockrun")); err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_, _ = embedded.Stop(ctx, filepath.Join(runtime, "redlockrun"), true)
		}
		_ = os.RemoveAll(runtime)
	})
	redisCLI, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Log("no redis-cli: snippets that call it fail")
	}
	return []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"),
		"HOME=" + dir,
		"XDG_CONFIG_HOME=" + filepath.Join(dir, ".config"),
		"XDG_RUNTIME_DIR=" + runtime,
		"REDIS_URL=" + url,
		"REAL_REDIS_CLI=" + redisCLI,
		"ALIVE=" + alive,
		"GORACE=" + os.Getenv("GORACE"),
		"LC_ALL=C",
	}
}
