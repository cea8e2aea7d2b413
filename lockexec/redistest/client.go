package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Client returns a client of the TCP port that is closed when the test ends. It is the default user, with the password
// if there is one. It neither retries commands nor dials, heeds contexts, and sends nothing but HELLO of its own.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr:                     s.Addr(),
		Password:                 s.conf.password,
		MaxRetries:               -1,
		DialerRetries:            1,
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			t.Errorf("close client: %v", err)
		}
	})
	return client
}

// CommandStats returns how often each command was called since the start or the last ResetStats, from INFO
// commandstats. Names are in lower case, subcommands follow a bar ("config|set"). Calls inside scripts count, calls
// that were rejected and those of this package do not.
func (s *Server) CommandStats(t testing.TB) map[string]int64 {
	t.Helper()
	s.adminMu.Lock()
	defer s.adminMu.Unlock()
	text, err := s.adminLocked("INFO", "commandstats")
	if err != nil {
		t.Fatalf("INFO commandstats: %v", err)
	}
	s.own["info"]-- // the reply was made before this call was counted
	stats, err := parseCommandStats(text)
	if err != nil {
		t.Fatalf("INFO commandstats: %v", err)
	}
	for name, calls := range s.own {
		if _, ok := stats[name]; !ok {
			name, _, _ = strings.Cut(name, "|") // servers before 7.0 do not tell subcommands apart
		}
		if stats[name] -= calls; stats[name] <= 0 {
			delete(stats, name)
		}
	}
	s.own["info"]++
	return stats
}

// parseCommandStats reads lines such as "cmdstat_get:calls=1,usec=2,...".
func parseCommandStats(text string) (map[string]int64, error) {
	stats := map[string]int64{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":calls=")
		if !ok {
			continue
		}
		digits, _, _ := strings.Cut(rest, ",")
		calls, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		if calls > 0 {
			stats[strings.TrimPrefix(name, "cmdstat_")] = calls
		}
	}
	return stats, nil
}

// ResetStats sets the counters of CommandStats to zero.
func (s *Server) ResetStats(t testing.TB) {
	t.Helper()
	s.adminMu.Lock()
	defer s.adminMu.Unlock()
	if _, err := s.adminLocked("CONFIG", "RESETSTAT"); err != nil {
		t.Fatalf("CONFIG RESETSTAT: %v", err)
	}
	clear(s.own)
	s.own["config|resetstat"] = 1 // counted after it has cleared the rest
}

// ConfigSet changes a setting of the running server.
func (s *Server) ConfigSet(t testing.TB, key, value string) {
	t.Helper()
	if _, err := s.admin("CONFIG", "SET", key, value); err != nil {
		t.Fatalf("CONFIG SET %s %s: %v", key, value, err)
	}
}

// admin runs one command with all rights on a connection of its own.
func (s *Server) admin(args ...string) (string, error) {
	s.adminMu.Lock()
	defer s.adminMu.Unlock()
	return s.adminLocked(args...)
}

func (s *Server) adminLocked(args ...string) (string, error) {
	c, err := s.dialLocked()
	if err != nil {
		return "", err
	}
	defer c.Close()
	return s.doLocked(c, args...)
}

// dialLocked returns a connection with all rights, on the unix socket. Its deadline is set.
func (s *Server) dialLocked() (*conn, error) {
	nc, err := (&net.Dialer{Timeout: patience}).DialContext(context.Background(), "unix", s.Socket())
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, r: bufio.NewReader(nc)}
	err = c.SetDeadline(time.Now().Add(patience))
	if err == nil {
		_, err = s.doLocked(c, "AUTH", adminName, adminName)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// doLocked runs one command and remembers that the server counts it as called.
func (s *Server) doLocked(c *conn, args ...string) (string, error) {
	reply, err := c.do(args...)
	if err == nil {
		s.own[countedAs(args)]++
	}
	return reply, err
}

// countedAs returns the name under which INFO commandstats has a command.
func countedAs(args []string) string {
	if name := strings.ToLower(args[0]); name != "config" {
		return name
	}
	return strings.ToLower(strings.Join(args[:2], "|"))
}

// replyError is an error reply of the server, without the leading minus sign.
type replyError string

func (e replyError) Error() string { return string(e) }

// conn speaks as much of the Redis protocol as this package needs.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func (c *conn) do(args ...string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		return "", err
	}
	return c.reply()
}

// reply reads a simple string, an error or a bulk string.
func (c *conn) reply() (string, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	rest := strings.TrimSuffix(line[1:], "\r\n")
	switch line[0] {
	case '+':
		return rest, nil
	case '-':
		return "", replyError(rest)
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", fmt.Errorf("unexpected reply %q", line)
		}
		text := make([]byte, n+len("\r\n"))
		_, err = io.ReadFull(c.r, text)
		return string(text[:n]), err
	}
	return "", fmt.Errorf("unexpected reply %q", line)
}
