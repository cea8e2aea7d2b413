package redistest_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func TestVersionsAreReadFromTheEnvironment(t *testing.T) {
	for text, want := range map[string][]redistest.Version{
		"":                {},
		"a=/x":            {{Name: "a", Path: "/x"}},
		"a=/x, b-1=/y=z,": {{Name: "a", Path: "/x"}, {Name: "b-1", Path: "/y=z"}},
	} {
		t.Setenv("REDLOCKRUN_TEST_SERVERS", text)
		got, err := redistest.Versions()
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, append([]redistest.Version{}, got...)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{"a", "=/x", "a=", "a=/x,b"} {
		t.Setenv("REDLOCKRUN_TEST_SERVERS", text)
		if got, err := redistest.Versions(); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestABinaryOfChoiceIsRun(t *testing.T) {
	redistest.Start(t) // skips where there is no server to be had
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := redistest.Launch(redistest.WithBinary(missing)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want not exist", err)
	}
	script := filepath.Join(t.TempDir(), "server")
	ran := script + ".ran"
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch "+ran+"\nexec redis-server \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t, redistest.WithBinary(script))
	if err := server.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(ran); err != nil {
		t.Errorf("another program was run: %v", err)
	}
}
