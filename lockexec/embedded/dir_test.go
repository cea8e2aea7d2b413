//go:build unix

package embedded_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
)

func TestDirIsBelowTheRuntimeDir(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/1000/x")
	if got, err := embedded.Dir(); got != "/run/user/1000/x/redlockrun" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestDirDoesNotDependOnTheSession(t *testing.T) {
	uid := strconv.Itoa(os.Geteuid())
	want := "/tmp/redlockrun-" + uid
	if info, err := os.Stat("/run/user/" + uid); err == nil && info.IsDir() {
		want = "/run/user/" + uid + "/redlockrun"
	}
	t.Setenv("TMPDIR", t.TempDir())
	for _, unusable := range []string{"", "relative/path"} {
		t.Setenv("XDG_RUNTIME_DIR", unusable)
		if got, err := embedded.Dir(); got != want || err != nil {
			t.Errorf("XDG_RUNTIME_DIR=%q: got %q, %v; want %q", unusable, got, err, want)
		}
	}
}

func TestRuntimeDirOfAnotherUserIsRefused(t *testing.T) {
	asRoot(t)
	dir := t.TempDir()
	if err := os.Chown(dir, 12345, -1); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", dir)
	_, err := embedded.Dir()
	if problem, ok := errors.AsType[*embedded.DirError](err); !ok || problem.Path != dir || !strings.Contains(err.Error(), "12345") {
		t.Errorf("got %v, want a DirError with path and owner", err)
	}
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
}

func TestUnsafeFolderIsRefused(t *testing.T) {
	mkdir := func(t *testing.T, dir string, mode os.FileMode) {
		if err := errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		prepare func(t *testing.T, dir string)
		reason  string
	}{
		"open to the group": {func(t *testing.T, dir string) { mkdir(t, dir, 0o750) }, "mode 0750"},
		"open to others":    {func(t *testing.T, dir string) { mkdir(t, dir, 0o701) }, "mode 0701"},
		"file": {func(t *testing.T, dir string) {
			if err := os.WriteFile(dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a folder"},
		"symbolic link": {func(t *testing.T, dir string) {
			if err := os.Symlink(t.TempDir(), dir); err != nil {
				t.Fatal(err)
			}
		}, "symbolic link"},
		"another user's": {func(t *testing.T, dir string) {
			asRoot(t)
			mkdir(t, dir, 0o700)
			if err := os.Chown(dir, 12345, -1); err != nil {
				t.Fatal(err)
			}
		}, "uid 12345"},
		"no parent": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Dir(dir)); err != nil {
				t.Fatal(err)
			}
		}, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			parent, err := os.MkdirTemp("", "rl") //nolint:usetesting // a socket needs a short path
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(parent)
			dir := filepath.Join(parent, "redlockrun")
			test.prepare(t, dir)
			err = embedded.Start(within(t), embedded.Config{Dir: dir})
			problem, ok := errors.AsType[*embedded.DirError](err)
			if !ok || problem.Path != dir || problem.Next == "" || !strings.Contains(problem.Reason, test.reason) {
				t.Fatalf("Start: got %v, want a DirError with %q, the path and the next step", err, test.reason)
			}
			if name == "no parent" {
				return
			}
			if _, err := embedded.Status(within(t), dir); err == nil {
				t.Error("Status talks to a server in an unsafe folder")
			}
			if _, err := embedded.Stop(within(t), dir, true); err == nil {
				t.Error("Stop talks to a server in an unsafe folder")
			}
		})
	}
}

func TestTooLongPathIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 25))
	_, statusErr := embedded.Status(within(t), dir)
	for _, err := range []error{embedded.Start(within(t), embedded.Config{Dir: dir}), statusErr} {
		if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") {
			t.Errorf("got %v, want an error with path and next step", err)
		}
	}
}

func TestLongestPathWorks(t *testing.T) {
	cfg := newConfig(t)
	cfg.Dir += strings.Repeat("x", 103-len(embedded.SocketPath(cfg.Dir)))
	start(t, cfg)
	if _, err := embedded.Stop(within(t), cfg.Dir, true); err != nil {
		t.Error(err)
	}
}
