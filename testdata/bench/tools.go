package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// tool is a way to run a command, most of them under a lock.
type tool struct {
	name  string
	needs string // program that has to be installed

	// line is what comes before the command. With wait it stands in line for the
	// lock; a ttl of 0 is the tool's own.
	line func(key string, wait bool, ttl time.Duration) []string
	env  []string

	waits     bool
	most      int                  // waiters that it is asked to manage
	expires   time.Duration        // its ttl, where it has one
	unrenewed bool                 // and that is all the time that it gets
	inLine    func(key string) int // how many wait; nil where that can't be seen
	commander string               // whose commands are counted: redis, etcd, or nobody's
}

// redlockrun is the tool that this is all about; yardstick that which others
// are compared with.
const (
	redlockrun = "redlockrun"
	yardstick  = "minimal Go wrapper"
)

// field is what all measurements share.
type field struct {
	dir    string
	server *redistest.Server
	client *redis.Client
	etcd   string // where it listens; empty without
	tools  []tool
}

// newField builds the programs and starts the servers. What is not installed
// is named.
func newField() (f *field, missing []string, err error) {
	f = &field{}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if f.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return nil, nil, err
	}
	for name, source := range map[string]string{
		redlockrun: ".", "minimal": "./testdata/bench/minimal", "job": "./testdata/bench/job", "empty": "./testdata/bench/empty",
	} {
		if err := build(source, f.program(name)); err != nil {
			return nil, nil, err
		}
	}
	if f.server, err = redistest.Launch(); err != nil {
		return nil, nil, err
	}
	f.client = redis.NewClient(&redis.Options{Addr: f.server.Addr()})
	all := f.allTools()
	f.tools = slices.DeleteFunc(slices.Clone(all), func(t tool) bool {
		if _, err := exec.LookPath(t.needs); err == nil || t.needs == "" {
			return false
		}
		missing = append(missing, t.needs)
		return true
	})
	return f, missing, nil
}

func (f *field) close() {
	if f.client != nil {
		_ = f.client.Close()
	}
	if f.server != nil {
		_ = f.server.Close()
	}
	if f.dir != "" {
		_ = os.RemoveAll(f.dir)
	}
}

func (f *field) program(name string) string { return filepath.Join(f.dir, name) }

func (f *field) allTools() []tool {
	script, _ := filepath.Abs("testdata/bench/lock.sh")
	file := func(key string) string { return filepath.Join(f.dir, key+".lock") }
	return []tool{
		{
			name: yardstick, expires: 15 * time.Second, commander: "redis",
			line: func(key string, _ bool, _ time.Duration) []string {
				return []string{f.program("minimal"), f.server.URL(), key}
			},
		},
		{
			name: redlockrun, waits: true, most: 1000, expires: 15 * time.Second, commander: "redis", inLine: f.inOurLine,
			line: func(key string, wait bool, ttl time.Duration) []string {
				args := []string{f.program(redlockrun), "-q", "-r", f.server.URL(), "-k", key}
				if wait {
					args = append(args, "--wait", "forever")
				}
				if ttl != 0 {
					args = append(args, "--ttl", ttl.String())
				}
				return append(args, "--")
			},
		},
		{name: "command alone", line: func(string, bool, time.Duration) []string { return nil }},
		{name: "timeout", needs: "timeout", line: func(string, bool, time.Duration) []string { return []string{"timeout", "300"} }},
		{
			name: "flock", needs: "flock", waits: true, most: 1000,
			inLine: func(key string) int { return waitingFor(file(key)) },
			line:   func(key string, _ bool, _ time.Duration) []string { return []string{"flock", file(key)} },
		},
		{
			name: "s6-setlock", needs: "s6-setlock", waits: true, most: 1000,
			inLine: func(key string) int { return waitingFor(file(key)) },
			line:   func(key string, _ bool, _ time.Duration) []string { return []string{"s6-setlock", file(key)} },
		},
		{
			name: "redis-cli script", needs: "redis-cli", waits: true, most: 10, expires: 15 * time.Second, unrenewed: true, commander: "redis",
			line: func(key string, wait bool, ttl time.Duration) []string {
				pause := "0"
				if wait {
					pause = "1"
				}
				if ttl == 0 {
					ttl = 15 * time.Second
				}
				return []string{script, f.server.URL(), key, strconv.FormatInt(ttl.Milliseconds(), 10), pause}
			},
		},
		{
			name: "etcdctl lock", needs: "etcd", waits: true, most: 100, expires: 10 * time.Second, commander: "etcd",
			env: []string{"ETCDCTL_API=3"},
			line: func(key string, _ bool, ttl time.Duration) []string {
				args := []string{"etcdctl", "--endpoints", f.etcd, "lock"}
				if ttl != 0 {
					args = append(args, "--ttl", strconv.Itoa(int(ttl.Seconds())))
				}
				return append(args, key, "--")
			},
		},
	}
}

// those returns the tools of which a condition holds.
func (f *field) those(holds func(tool) bool) []tool {
	return slices.DeleteFunc(slices.Clone(f.tools), func(t tool) bool { return !holds(t) })
}

// command is not started yet. It ends with this process.
func (t tool) command(key string, wait bool, ttl time.Duration, command ...string) *exec.Cmd {
	args := append(slices.Clone(t.line(key, wait, ttl)), command...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), t.env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// build makes a program as a release is made. It writes the file as an
// installer does, from one end to the other: the linker writes all over it,
// which the system then keeps in small pieces, so that it starts up to a
// seventh slower, and more so the larger it is.
func build(source, program string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := os.Remove(program); err != nil {
		return err
	}
	return os.WriteFile(program, text, 0o755)
}

// startEtcd starts a server of one node in the folder.
func (f *field) startEtcd() (stop func(), err error) {
	var urls []string
	for range 2 {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		urls = append(urls, "http://"+l.Addr().String())
		_ = l.Close()
	}
	cmd := exec.Command("etcd", "--data-dir", filepath.Join(f.dir, "etcd"), "--log-level", "error",
		"--listen-client-urls", urls[0], "--advertise-client-urls", urls[0], "--listen-peer-urls", urls[1],
		"--initial-advertise-peer-urls", urls[1], "--initial-cluster", "default="+urls[1])
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	for range 200 {
		health := exec.Command("etcdctl", "--endpoints", urls[0], "endpoint", "health")
		health.Env = append(os.Environ(), "ETCDCTL_API=3")
		if health.Run() == nil {
			f.etcd = urls[0]
			return stop, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	return nil, fmt.Errorf("etcd did not come up")
}
