// Package redistest starts real redis-server processes for tests.
//
// A test asks for a server of its own and may do to it what happens to servers in life:
//
//	srv := redistest.Start(t)
//	client := srv.Client(t)
//	srv.Stop()    // SIGSTOP: connections stay open, nobody answers
//	srv.Cont()
//	srv.Kill()    // SIGKILL
//	srv.Restart() // same port, same socket, same directory
//
// A package that shares one server among its tests calls [Launch] in TestMain and closes it there. Every server listens
// on a loopback TCP port and on a unix socket, keeps nothing on disk unless told to, and ends with the test. On Linux
// it also ends when the test binary is killed.
//
// Each server has a user "redistest" with all rights, through which this package works whatever the other users may
// do. The package needs redis-server 6.2 or later in PATH and does not work on Windows.
package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// patience bounds every wait for something that must happen; it is long because test machines are slow.
	patience = 30 * time.Second
	// pollInterval is the pause between two looks at a condition.
	pollInterval = 5 * time.Millisecond
	// launchAttempts bounds how often Launch picks other ports because somebody took the ones it had picked.
	launchAttempts = 20
)

// ErrNotFound is returned by [Launch] when there is no redis-server in PATH.
var ErrNotFound = errors.New("redis-server not found: apt-get install redis-server, or run with -short")

// errPortTaken says that the server could not bind one of its ports.
var errPortTaken = errors.New("address already in use")

// Server is one redis-server with a fixed address. Its methods are safe for concurrent use.
type Server struct {
	// CAFile, CertFile and KeyFile are PEM files: the authority that signed the server's certificate, and a client
	// certificate with its key. They are empty without [WithTLS] and must not be changed.
	CAFile, CertFile, KeyFile string

	binary        string
	dir           string
	conf          config
	port, tlsPort int

	life   sync.Mutex // held by whoever starts or ends the process for good
	closed bool       // guarded by life

	procMu sync.Mutex
	proc   *process // nil before the first start; guarded by procMu

	adminMu sync.Mutex
	own     map[string]int64 // calls made by this package since the counters began; guarded by adminMu
}

// Start starts a server that ends with the test. With -short, and where redis-server cannot run at all, it skips the
// test; otherwise a server that does not come up fails the test. It must be called from the test's goroutine.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs redis-server, which -short leaves out")
	}
	s, err := Launch(opts...)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of redis-server %s:\n%s", s.Addr(), s.Log())
		}
		if err := s.Close(); err != nil {
			t.Errorf("close redis-server: %v", err)
		}
	})
	return s
}

// Launch starts a server for callers that have no test at hand, such as TestMain, and returns once it answers. The
// caller must Close it. One goroutine waits for the process until then; a package that looks for leaked goroutines
// after all tests takes goleak.IgnoreCurrent() after Launch.
//
// The error is [ErrNotFound] without redis-server, wraps errors.ErrUnsupported on Windows, and else quotes the
// server's log.
func Launch(opts ...Option) (_ *Server, err error) {
	if runtime.GOOS == "windows" {
		return nil, fmt.Errorf("redis-server on windows: %w", errors.ErrUnsupported)
	}
	s := &Server{own: map[string]int64{}, conf: config{binary: defaultBinary}}
	for _, opt := range opts {
		opt(&s.conf)
	}
	if s.binary, err = exec.LookPath(s.conf.binary); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNotFound, err)
	}
	s.conf.channels = s.conf.binary == defaultBinary || knowsChannels(s.binary)
	if s.dir, err = tempDir(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if s.conf.tls {
		if err := s.makeCertificates(); err != nil {
			return nil, fmt.Errorf("make certificates: %w", err)
		}
	}
	if err := s.launch(); err != nil {
		return nil, err
	}
	if s.conf.primary != nil {
		if err := s.awaitLink(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// launch starts the process on free ports, and on others when those turn out to be taken.
func (s *Server) launch() error {
	for range launchAttempts {
		ports, err := freePorts(2)
		if err != nil {
			return err
		}
		s.port = ports[0]
		if s.conf.tls {
			s.tlsPort = ports[1]
		}
		if err := s.start(); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return fmt.Errorf("no free port in %d attempts: %w", launchAttempts, errPortTaken)
}

// start runs the process on the server's ports and returns when it answers.
func (s *Server) start() error {
	conf := filepath.Join(s.dir, "redis.conf")
	if err := os.WriteFile(conf, []byte(s.configText()), 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	before, err := log.Stat()
	if err != nil {
		return err
	}
	s.adminMu.Lock()
	clear(s.own)
	s.adminMu.Unlock()

	args := []string{conf}
	if s.conf.sentinel {
		args = append(args, "--sentinel")
	}
	var env []string
	if s.conf.clock {
		if env, err = s.clockEnvironment(); err != nil {
			return err
		}
	}
	proc, err := startProcess(s.binary, args, env, s.dir, log)
	if err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	s.procMu.Lock()
	s.proc = proc
	s.procMu.Unlock()

	if err := s.awaitReady(proc); err != nil {
		proc.end(0)
		said := s.Log()[before.Size():]
		if strings.Contains(said, "Address already in use") {
			return errPortTaken
		}
		return fmt.Errorf("%w; its log:\n%s", err, said)
	}
	return nil
}

// awaitReady returns when the server answers on its unix socket, which it opens after its ports. Unlike the ports, the
// socket cannot be another server's.
func (s *Server) awaitReady(proc *process) error {
	var last error
	for deadline := time.Now().Add(2 * patience); time.Now().Before(deadline); {
		reply, err := s.admin("PING")
		if err == nil && reply == "PONG" {
			return nil
		}
		if re, ok := errors.AsType[replyError](err); ok && !strings.HasPrefix(string(re), "LOADING") {
			return nil // it refuses PING for a reason of its own, but it is up
		}
		last = err
		select {
		case <-proc.exited:
			return fmt.Errorf("redis-server ended before it answered: %w", proc.err)
		case <-time.After(pollInterval):
		}
	}
	return fmt.Errorf("redis-server does not answer: %w", last)
}

// Close ends the server and removes its directory. Calls after the first do nothing.
func (s *Server) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if proc := s.process(); proc != nil {
		proc.end(terminationGrace)
	}
	return os.RemoveAll(s.dir)
}

// Addr returns the TCP address, "127.0.0.1:port".
func (s *Server) Addr() string { return loopback(s.port) }

// TLSAddr returns the address of the TLS port, or "" without [WithTLS].
func (s *Server) TLSAddr() string {
	if s.tlsPort == 0 {
		return ""
	}
	return loopback(s.tlsPort)
}

// Socket returns the path of the unix socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "s") }

// URL returns "redis://127.0.0.1:port", without credentials.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// TLSURL returns "rediss://127.0.0.1:port" of the TLS port, without credentials, or "" without [WithTLS].
func (s *Server) TLSURL() string {
	if s.tlsPort == 0 {
		return ""
	}
	return "rediss://" + s.TLSAddr()
}

// UnixURL returns "unix:///path/to/socket", without credentials.
func (s *Server) UnixURL() string { return "unix://" + s.Socket() }

// Log returns what the server has logged since Launch, over all restarts.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis.log") }

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Eventually waits until cond holds and fails the test with msg when it does not within a generous time. It calls cond
// on the calling goroutine, which must be the test's, every few milliseconds.
func Eventually(t testing.TB, cond func() bool, msg string) {
	t.Helper()
	within(t, patience, cond, msg)
}

func within(t testing.TB, limit time.Duration, cond func() bool, msg string) {
	t.Helper()
	for deadline := time.Now().Add(limit); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, msg)
		}
		time.Sleep(pollInterval)
	}
}
