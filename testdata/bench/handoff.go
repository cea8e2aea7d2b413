package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// locker is a tool that runs a command under a lock, and waits for it.
type locker struct {
	name string
	args []string // what comes before the command
	env  []string
}

// handOffs times how long a lock takes from the end of one command to the start
// of the next, with so many waiting, for each tool that is installed.
func handOffs(dir string, server *redistest.Server) error {
	tools := []locker{
		{"redlockrun", []string{filepath.Join(dir, "redlockrun"), "-q", "-r", server.URL(), "-k", "handoff", "--wait", "forever", "--"}, nil},
		{"flock", []string{"flock", filepath.Join(dir, "handoff")}, nil},
	}
	if _, err := exec.LookPath("etcd"); err == nil {
		endpoint, stop, err := startEtcd(dir)
		if err != nil {
			return err
		}
		defer stop()
		tools = append(tools, locker{"etcdctl lock", []string{"etcdctl", "--endpoints", endpoint, "lock", "handoff"}, []string{"ETCDCTL_API=3"}})
	}
	fmt.Printf("\n%-14s %8s %10s %10s %10s %11s\n", "hand-off", "waiters", "p50", "p99", "drain", "inversions")
	tools = slices.DeleteFunc(tools, func(tool locker) bool {
		_, err := exec.LookPath(tool.args[0])
		return err != nil
	})
	for _, waiters := range []int{1, 10, 50} {
		all := make([]handOffTimes, len(tools))
		for range max(3, 30/waiters) { // in turns, as the machine has its moods
			for i, tool := range tools {
				if err := all[i].measure(dir, tool, waiters); err != nil {
					return fmt.Errorf("%s: %w", tool.name, err)
				}
			}
		}
		for i, tool := range tools {
			all[i].print(tool.name, waiters)
		}
	}
	return idle(dir, server)
}

// handOffTimes are those of one tool.
type handOffTimes struct {
	gaps, drains []time.Duration
	inversions   int
}

func (h *handOffTimes) print(name string, waiters int) {
	slices.Sort(h.gaps)
	fmt.Printf("%-14s %8d %8.2fms %8.2fms %8.0fms %11d\n", name, waiters, millis(median(h.gaps)),
		millis(h.gaps[len(h.gaps)*99/100]), millis(median(h.drains)), h.inversions)
}

// measure runs one command that holds the lock until all others wait, and then
// those, which note when they start and end.
func (h *handOffTimes) measure(dir string, tool locker, waiters int) error {
	work, err := os.MkdirTemp(dir, "handoff")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	start := func(n int) (*exec.Cmd, error) {
		cmd := exec.Command(tool.args[0], append(slices.Clone(tool.args[1:]), self, "job", work, fmt.Sprint(n))...)
		cmd.Env = append(os.Environ(), tool.env...)
		cmd.Stderr = os.Stderr
		return cmd, cmd.Start()
	}
	var all []*exec.Cmd
	for n := range waiters + 1 {
		cmd, err := start(n)
		if err != nil {
			return err
		}
		all = append(all, cmd)
		if n == 0 {
			for { // it holds the lock
				if _, err := os.Stat(filepath.Join(work, "0")); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(60 * time.Millisecond) // so that they arrive in this order
	}
	time.Sleep(time.Second)
	if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o600); err != nil {
		return err
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			return err
		}
	}
	var runs []run
	for n := range all {
		text, err := os.ReadFile(filepath.Join(work, fmt.Sprint(n)))
		if err != nil {
			return err
		}
		r := run{number: n}
		if _, err := fmt.Sscan(string(text), &r.start, &r.end); err != nil {
			return err
		}
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b run) int { return int(a.start - b.start) })
	for i := 1; i < len(runs); i++ {
		h.gaps = append(h.gaps, runs[i].start-runs[i-1].end)
		if runs[i].number < runs[i-1].number {
			h.inversions++
		}
	}
	h.drains = append(h.drains, runs[len(runs)-1].end-runs[0].end)
	return nil
}

type run struct {
	number     int
	start, end time.Duration // since 1970
}

// job is the command: it notes its start and its end. The first one ends when
// it is told to.
func job(work, number string) error {
	start := time.Now().UnixNano()
	file := filepath.Join(work, number)
	if number == "0" {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return err
		}
		for {
			if _, err := os.Stat(filepath.Join(work, "go")); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	return os.WriteFile(file, fmt.Appendf(nil, "%d %d\n", start, time.Now().UnixNano()), 0o600)
}

// idle counts what 50 waiters ask of the server while nothing happens.
func idle(dir string, server *redistest.Server) error {
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	ctx := context.Background()
	const waiters, window = 50, 20 * time.Second
	if err := client.Set(ctx, "lock:report:idle", "somebody", time.Hour).Err(); err != nil {
		return err
	}
	var all []*exec.Cmd
	for range waiters {
		cmd := exec.Command(filepath.Join(dir, "redlockrun"), "-q", "-r", server.URL(), "-k", "idle", "--wait", "forever", "--", "true")
		if err := cmd.Start(); err != nil {
			return err
		}
		all = append(all, cmd)
	}
	time.Sleep(3 * time.Second)
	client.ConfigResetStat(ctx)
	time.Sleep(window)
	calls := int64(0)
	for line := range strings.Lines(client.Info(ctx, "commandstats").Val()) {
		var n int64
		name, rest, _ := strings.Cut(line, ":calls=")
		_, _ = fmt.Sscanf(rest, "%d,", &n)
		if name == "cmdstat_eval" || name == "cmdstat_blpop" { // others are called by the script
			calls += n
		}
	}
	pss := 0
	for _, cmd := range all {
		wrapper, _ := memory(cmd.Process.Pid)
		supervisor, _ := memory(firstChild(cmd.Process.Pid))
		pss += wrapper + supervisor
	}
	fmt.Printf("\nidle, %d waiters: %.3f commands/s each, pss %d kB each\n",
		waiters, float64(calls)/window.Seconds()/waiters, pss/waiters)
	client.Del(ctx, "lock:report:idle")
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// startEtcd starts a server of one node in the folder.
func startEtcd(dir string) (endpoint string, stop func(), err error) {
	var urls []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, err
		}
		urls = append(urls, "http://"+l.Addr().String())
		_ = l.Close()
	}
	cmd := exec.Command("etcd", "--data-dir", filepath.Join(dir, "etcd"), "--log-level", "error",
		"--listen-client-urls", urls[0], "--advertise-client-urls", urls[0], "--listen-peer-urls", urls[1],
		"--initial-advertise-peer-urls", urls[1], "--initial-cluster", "default="+urls[1])
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	for range 200 {
		health := exec.Command("etcdctl", "--endpoints", urls[0], "endpoint", "health")
		health.Env = append(os.Environ(), "ETCDCTL_API=3")
		if health.Run() == nil {
			return urls[0], stop, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	return "", nil, fmt.Errorf("etcd did not come up")
}
