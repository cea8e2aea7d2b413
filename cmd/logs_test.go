//go:build linux

package cmd_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// documentedEvents reads docs/logs.md: event -> fields.
func documentedEvents(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile("`([a-z_]+)`")
	events := map[string][]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 || !word.MatchString(cells[1]) {
			continue
		}
		event := word.FindStringSubmatch(cells[1])[1]
		events[event] = append([]string{}, events[event]...) // there also without a field
		for _, field := range word.FindAllStringSubmatch(cells[len(cells)-2], -1) {
			events[event] = append(events[event], field[1])
		}
	}
	return events
}

// Every event that the source names is on the page, and no other.
func TestTheEventsOfTheSourceAreDocumented(t *testing.T) {
	named := regexp.MustCompile(`"event", "([a-z_]+)"|event(?:: | = [^"\n]*)"([a-z_]+)"`)
	inSource := map[string]bool{}
	for _, folder := range []string{".", "../lockexec", "../lockexec/lock", "../lockexec/guard", "../lockexec/connect", "../lockexec/proc"} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", folder, files, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range named.FindAllStringSubmatch(string(text), -1) {
				inSource[match[1]+match[2]] = true
			}
		}
	}
	documented := documentedEvents(t)
	for event := range inSource {
		if documented[event] == nil {
			t.Errorf("docs/logs.md does not list the event %s", event)
		}
	}
	for event := range documented {
		if !inSource[event] {
			t.Errorf("docs/logs.md lists %s, which nobody logs", event)
		}
	}
}

// eventLog runs the program and looks at what it logs.
type eventLog struct {
	t          *testing.T
	documented map[string][]string
	seen       map[string]bool
}

// run runs it to its end. Meanwhile, it does what is to happen while it runs.
func (l *eventLog) run(server *redistest.Server, meanwhile func(*exec.Cmd), args ...string) {
	l.t.Helper()
	cmd := exec.Command("redlockrun", append([]string{"--log-format", "json", "-v", "--redis", server.URL()}, args...)...)
	cmd.Dir = l.t.TempDir()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	if meanwhile != nil {
		meanwhile(cmd)
	}
	_ = cmd.Wait() // how it ends is not what this is about
	for lines := bufio.NewScanner(&stderr); lines.Scan(); {
		l.check(lines.Text())
	}
}

// check compares a line with the page.
func (l *eventLog) check(line string) {
	l.t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(line), &fields); err != nil {
		l.t.Fatalf("%s: %v", line, err)
	}
	event, _ := fields["event"].(string)
	l.seen[event] = true
	for _, always := range []string{"time", "level", "msg", "event"} {
		if fields[always] == nil {
			l.t.Errorf("no %s: %s", always, line)
		}
		delete(fields, always)
	}
	for field := range fields {
		if !slices.Contains(l.documented[event], field) {
			l.t.Errorf("docs/logs.md does not tell of %s in %s: %s", field, event, line)
		}
	}
}

func TestTheEventsOfRealRunsAreDocumented(t *testing.T) {
	server, admin := guardServer(t)
	log := &eventLog{t, documentedEvents(t), map[string]bool{}}
	run := func(meanwhile func(*exec.Cmd), args ...string) {
		t.Helper()
		log.run(server, meanwhile, args...)
	}
	up := func(cmd *exec.Cmd) {
		eventually(t, "the command runs", func() bool {
			_, err := os.Stat(filepath.Join(cmd.Dir, "up"))
			return err == nil
		})
	}
	remove := func(cmd *exec.Cmd) {
		up(cmd)
		admin.Del(t.Context(), guardedLock)
	}
	long := []string{"--", "sh", "-c", "touch up; exec sleep 60"}

	run(nil, "--key", "k", "--ttl", "3s", "--", "sleep", "2")
	run(func(cmd *exec.Cmd) {
		up(cmd)
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}, append([]string{"--key", "k"}, long...)...)
	run(nil, append([]string{"--key", "k", "--timeout", "100ms"}, long...)...)
	run(nil, "--key", "k", "--kill-after", "100ms", "--", "sh", "-c", "sleep 60 & exit 0")
	run(nil, "--key", "k", "--", "nosuchprogram")
	run(nil, "--key", "k", "--nosuchflag", "--", "true")
	folder := filepath.Join(t.TempDir(), "m")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	run(nil, "--key", "k", "--metrics-file", folder+"/k.prom", "--", "rmdir", folder)
	run(func(cmd *exec.Cmd) {
		up(cmd)
		go func() { // several at once may be one
			for cmd.Process.Signal(syscall.SIGINT) == nil {
				time.Sleep(50 * time.Millisecond)
			}
		}()
	}, "--key", "k", "--ttl", "1m", "--", "sh", "-c", "trap : INT; touch up; while :; do sleep 0.05; done")

	// A lock that is lost.
	run(remove, append([]string{"--key", "k", "--ttl", "1s"}, long...)...)
	run(remove, "--key", "k", "--ttl", "1s", "--on-lost", "warn", "--", "sh", "-c", "touch up; sleep 2")

	// One that another has.
	run(nil, "--key", "m", "--min-hold", "1m", "--once", "a", "--", "true")
	run(nil, "--key", "m", "--", "true")
	run(nil, "--key", "m", "--wait", "100ms", "--", "true")
	run(nil, "--key", "m", "--slots", "3", "--", "true")
	run(nil, "--key", "m", "--once", "a", "--", "true")
	run(func(cmd *exec.Cmd) {
		eventually(t, "it waits", func() bool { return admin.ZCard(t.Context(), "redlockrun:queue:{lock:report:m}").Val() == 1 })
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}, "--key", "m", "--wait", "forever", "--", "true")

	// A server that is gone.
	dying := redistest.Start(t)
	log.run(dying, func(cmd *exec.Cmd) {
		up(cmd)
		dying.Kill()
	}, append([]string{"--key", "k", "--ttl", "2s"}, long...)...)
	log.run(dying, nil, append([]string{"--key", "k", "--connect-timeout", "200ms"}, long...)...)
	dying = redistest.Start(t)
	log.run(dying, func(cmd *exec.Cmd) {
		up(cmd)
		dying.Kill()
		if err := os.WriteFile(filepath.Join(cmd.Dir, "go"), nil, 0o600); err != nil {
			t.Error(err)
		}
	}, "--key", "k", "--ttl", "5s", "--", "sh", "-c", "touch up; until [ -e go ]; do sleep 0.02; done")

	for event := range strings.FieldsSeq("acquired renewed renew_failed lost stopping killing exited leftovers released release_failed " +
		"metrics_failed waiting busy skipped interrupted timeout unavailable not_started capacity error") {
		if !log.seen[event] {
			t.Errorf("no run came to the event %s", event)
		}
	}
}
