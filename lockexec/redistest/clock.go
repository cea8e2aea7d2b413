package redistest

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// clockSource is a library that comes before the system's.
//
//go:embed testdata/clock.c
var clockSource []byte

// WithClock lets [Server.SetClock] set the server's clock. It works where [NeedClock] does not skip.
func WithClock() Option {
	return func(c *config) { c.clock = true }
}

// NeedClock skips the test where the clock of a server can't be set: it takes Linux and a C compiler. It fails the test
// instead, if REDLOCKRUN_TEST_REQUIRE, a list with commas, has the word "clock".
func NeedClock(t testing.TB) {
	t.Helper()
	err := errors.ErrUnsupported
	if runtime.GOOS == "linux" {
		_, err = exec.LookPath("gcc")
	}
	switch {
	case err == nil:
	case slices.Contains(strings.Split(os.Getenv("REDLOCKRUN_TEST_REQUIRE"), ","), "clock"):
		t.Fatalf("set a server's clock: %v", err)
	default:
		t.Skipf("set a server's clock: %v", err)
	}
}

// SetClock sets the clock of a server that was started [WithClock]: so much ahead of this machine's, or behind it if
// that is negative. It stays so when the server is started again. How long something takes is measured by another
// clock, which is left alone.
func (s *Server) SetClock(ahead time.Duration) error {
	file, err := os.OpenFile(s.clockFile(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	// In one go, as the server looks at it all the time.
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead)), 0)
	return err
}

func (s *Server) clockFile() string { return filepath.Join(s.dir, "clock") }

// clockEnvironment is that of a server whose clock can be set.
func (s *Server) clockEnvironment() ([]string, error) {
	library := filepath.Join(s.dir, "clock.so")
	if _, err := os.Stat(library); err != nil { // else it was started before
		compile := exec.Command("gcc", "-x", "c", "-O2", "-shared", "-fPIC", "-o", library, "-")
		compile.Stdin = bytes.NewReader(clockSource)
		if out, err := compile.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("compile clock.c: %w\n%s", err, out)
		}
		if err := s.SetClock(0); err != nil {
			return nil, err
		}
	}
	return []string{"LD_PRELOAD=" + library, "REDISTEST_CLOCK=" + s.clockFile()}, nil
}
