package redistest

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// Monitor collects what MONITOR shows of a server. It is safe for concurrent use.
type Monitor struct {
	mu    sync.Mutex
	lines []string
}

// Monitor begins to collect the commands the server runs, and ends with the test or the server's process. Every command
// sent after it has returned is collected, soon after it ran.
func (s *Server) Monitor(t testing.TB) *Monitor {
	t.Helper()
	s.adminMu.Lock()
	c, err := s.dialLocked()
	if err == nil {
		_, err = s.doLocked(c, "MONITOR")
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	s.adminMu.Unlock()
	if c != nil {
		t.Cleanup(func() { c.Close() })
	}
	if err != nil {
		t.Fatalf("MONITOR: %v", err)
	}

	m := &Monitor{}
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			line, err := c.reply()
			if err != nil {
				return
			}
			m.mu.Lock()
			m.lines = append(m.lines, line)
			m.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		c.Close()
		reader.Wait()
	})
	return m
}

// Lines returns what was collected so far, in the order of execution, one command a line as Redis prints it:
//
//	1339518083.107412 [0 127.0.0.1:60866] "get" "x"
//
// Commands of scripts have "lua" in place of the address. This package's own commands are among the lines.
func (m *Monitor) Lines() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.lines)
}
