package cmd

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// settings has a value for each source of each setting, all different, as the
// flag shows them.
var settings = map[string]struct {
	preset          string
	file, env, flag string
	fileRaw         string // as it stands in YAML, where that is not quoted text
}{
	"key":                 {"", "f", "e", "g", ""},
	"prefix":              {"lock:report:", "f:", "e:", "g:", ""},
	"ttl":                 {"15s", "20s", "30s", "1m", ""},
	"no-wait":             {"false", "true", "false", "true", "true"},
	"wait":                {"", "1s", "forever", "3s", ""},
	"shared":              {"false", "true", "false", "true", "true"},
	"slots":               {"1", "2", "3", "4", "2"},
	"history":             {"0", "1", "2", "3", "1"},
	"wait-replicas":       {"0", "1", "2", "3", "1"},
	"progress":            {"auto", "always", "never", "auto", ""},
	"min-hold":            {"", "1s", "2s", "3s", ""},
	"once":                {"", "f", "e", "g", ""},
	"once-ttl":            {"168h", "1s", "2s", "3s", ""},
	"conflict-exit-code":  {"75", "1", "2", "3", "1"},
	"timeout":             {"", "1h", "2h", "3h", ""},
	"kill-after":          {"", "1s", "2s", "3s", ""},
	"stop-signal":         {"TERM", "INT", "HUP", "USR1", ""},
	"on-lost":             {"terminate", "warn", "terminate", "warn", ""},
	"leftovers":           {"kill", "wait", "leave", "wait", ""},
	"signal-group":        {"false", "true", "false", "true", "true"},
	"holder-label":        {"", "f", "e", "g", ""},
	"show-args":           {"false", "true", "false", "true", "true"},
	"metrics-file":        {"", "f.prom", "e.prom", "g.prom", ""},
	"redis":               {"[]", "[redis://f]", "[redis://e]", "[redis://g]", `"redis://f"`},
	"redis-username":      {"", "f", "e", "g", ""},
	"redis-password-file": {"", "f", "e", "g", ""},
	"tls-ca":              {"", "f", "e", "g", ""},
	"tls-cert":            {"", "f", "e", "g", ""},
	"tls-key":             {"", "f", "e", "g", ""},
	"tls-server-name":     {"", "f", "e", "g", ""},
	"tls-insecure":        {"false", "true", "false", "true", "true"},
	"connect-timeout":     {"5s", "1s", "2s", "3s", ""},
	"quiet":               {"false", "true", "false", "true", "true"},
	"verbose":             {"false", "true", "false", "true", "true"},
	"log-format":          {"text", "json", "text", "json", ""},
}

// environment is one of its own for a test.
type environment map[string]string

func (e environment) lookup(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}

func runFlags(t *testing.T) *pflag.FlagSet {
	t.Helper()
	p := &program{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, environ: environment{}.lookup}
	return p.newRunCommand(&output{}).Flags()
}

func TestEverySettingComesFromItsFourSources(t *testing.T) {
	runFlags(t).VisitAll(func(f *pflag.Flag) {
		if _, ok := settings[f.Name]; !ok && inFiles(f.Name) {
			t.Errorf("--%s is missing in the table of this test", f.Name)
		}
	})
	for name, want := range settings {
		t.Run(name, func(t *testing.T) {
			raw := want.fileRaw
			if raw == "" {
				raw = `"` + want.file + `"`
			}
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte(name+": "+raw+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			inFile := environment{"REDLOCKRUN_CONFIG": path}
			inBoth := environment{"REDLOCKRUN_CONFIG": path, envName(name): strings.Trim(want.env, "[]")}
			argument := "--" + name + "=" + strings.Trim(want.flag, "[]")
			for _, tc := range []struct {
				what string
				env  environment
				args []string
				want string
			}{
				{"default", environment{}, nil, want.preset},
				{"file", inFile, nil, want.file},
				{"environment", inBoth, nil, want.env},
				{"flag", inBoth, []string{argument}, want.flag},
			} {
				flags := runFlags(t)
				if err := flags.Parse(tc.args); err != nil {
					t.Fatalf("%s: %v", tc.what, err)
				}
				if _, err := loadConfig(flags, flags, tc.env.lookup); err != nil {
					t.Errorf("%s: %v", tc.what, err)
				}
				if got := flags.Lookup(name).Value.String(); got != tc.want {
					t.Errorf("%s: %q, want %q", tc.what, got, tc.want)
				}
			}
		})
	}
}

// What YAML makes of text that nobody quoted must not become a setting.
func TestValuesThatAFormatWouldChangeAreRefused(t *testing.T) {
	for _, line := range []string{
		"key: 0123", "key: 1_000", "key: 2024-01-02", "key: 12345678901234567890123", "key: true", "key:", "key: [a]", "key: {a: b}",
		"ttl: 30", "ttl: 1.5", "show-args: yes please", "show-args: 1", "conflict-exit-code: \"7\"", "conflict-exit-code: 7.5",
		"ttl: {}", "key: {}", "redis: {}", "quiet: []", "redis: [1]", "redis: 6379", "stop-signal: 15", "Key.sub: a", "kay: a", "config: x", "json: true", "version: true",
		"ttl: \"1d\"", "ttl: \"\"", "ttl: \" 30s\"", "conflict-exit-code: 256", "conflict-exit-code: -1",
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte("# first line\n"+line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		flags := runFlags(t)
		_, err := loadConfig(flags, flags, environment{"REDLOCKRUN_CONFIG": path}.lookup)
		wrong, ok := errors.AsType[*configError](err)
		if !ok || wrong.code() != exitConfig || !strings.Contains(wrong.Error(), path+", line 2: ") {
			t.Errorf("%q: %v, want a complaint about line 2 of %s", line, err, path)
		}
	}
}

func TestTheFirstFolderWithAFileCounts(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, ".config", "redlockrun")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte("ttl = \"20s\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, tc := range map[string]struct {
		env  environment
		want string
	}{
		"home":              {environment{"HOME": home}, "20s"},
		"xdg before home":   {environment{"HOME": home, "XDG_CONFIG_HOME": t.TempDir()}, "15s"},
		"relative xdg":      {environment{"HOME": home, "XDG_CONFIG_HOME": "relative"}, "20s"},
		"xdg":               {environment{"XDG_CONFIG_HOME": filepath.Join(home, ".config")}, "20s"},
		"neither":           {environment{}, "15s"},
		"a file for folder": {environment{"XDG_CONFIG_HOME": filepath.Join(dir, "config.toml")}, "15s"},
	} {
		flags := runFlags(t)
		if _, err := loadConfig(flags, flags, tc.env.lookup); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := flags.Lookup("ttl").Value.String(); got != tc.want {
			t.Errorf("%s: ttl %s, want %s", what, got, tc.want)
		}
	}
}

func TestForeignVariables(t *testing.T) {
	for what, tc := range map[string]struct {
		env  environment
		want string
	}{
		"REDIS_URL":            {environment{"REDIS_URL": "redis://a"}, "[redis://a]"},
		"empty REDIS_URL":      {environment{"REDIS_URL": ""}, "[]"},
		"ours first":           {environment{"REDIS_URL": "redis://a", "REDLOCKRUN_REDIS": "redis://b"}, "[redis://b]"},
		"kubernetes' services": {environment{"REDIS_HOST": "a", "REDIS_PORT": "tcp://a:1", "REDLOCKRUN_PORT": "tcp://b:1"}, "[]"},
	} {
		flags := runFlags(t)
		if _, err := loadConfig(flags, flags, tc.env.lookup); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := flags.Lookup("redis").Value.String(); got != tc.want {
			t.Errorf("%s: %s, want %s", what, got, tc.want)
		}
	}
}

func FuzzConfigFile(f *testing.F) {
	for _, text := range []string{
		"ttl: \"30s\"\n", "ttl: 30\n", "{}", "[", "a: &a [*a]\n", "redis:\n  - \"redis://a\"\n", "\x00", "key: !!binary aGk=\n", "? [a]\n: b\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := loadConfig(runFlags(t), runFlags(t), environment{"REDLOCKRUN_CONFIG": path}.lookup)
		if wrong, ok := errors.AsType[*configError](err); err != nil && (!ok || wrong.code() != exitConfig) {
			t.Errorf("%v, want a configuration error", err)
		}
	})
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]string{
		"30": "30s or 30ms", "1.5": "1.5s", "1d": "24h", "0.5d": "12h", "": "500ms", " 30s": "500ms", "30 s": "500ms", "x": "500ms",
		"-5s": "negative", "1w": "500ms", "99999999999h": "500ms",
	} {
		err := durationValue{new(time.Duration)}.Set(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want it to say %q", text, err, want)
		}
	}
}

func TestSuggestions(t *testing.T) {
	words := []string{"key", "ttl", "timeout", "connect-timeout", "terminate", "version", "embedded"}
	got := map[string]string{}
	for _, word := range []string{"kye", "tll", "timout", "conect-timeout", "verison", "embed", "zzz", "k", "ke", "terminat"} {
		got[word] = closest(word, words)
	}
	want := map[string]string{
		"kye": "key", "tll": "ttl", "timout": "timeout", "conect-timeout": "connect-timeout", "verison": "version",
		"embed": "embedded", "zzz": "", "k": "key", "ke": "key", "terminat": "terminate",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
