package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// idle measures what waiters cost while nothing happens.
func (f *field) idle(waiters int, window time.Duration) ([]idleResult, error) {
	var all []idleResult
	for _, t := range f.those(func(t tool) bool { return t.waits }) {
		result, err := f.idleOf(t, waiters, window)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		all = append(all, result)
	}
	return all, nil
}

func (f *field) idleOf(t tool, waiters int, window time.Duration) (idleResult, error) {
	work, err := os.MkdirTemp(f.dir, "idle")
	if err != nil {
		return idleResult{}, err
	}
	ttl := time.Duration(0)
	if t.unrenewed {
		ttl = 5 * time.Minute
	}
	all, err := f.queueUp(t, work, waiters, ttl)
	if err != nil {
		return idleResult{}, err
	}
	time.Sleep(2 * time.Second)
	count, err := f.counter(t)
	if err != nil {
		return idleResult{}, err
	}
	start, before := time.Now(), usedBy(all[1:])
	time.Sleep(window)
	used, passed := usedBy(all[1:])-before, time.Since(start).Seconds()
	commands, err := count()
	if err != nil {
		return idleResult{}, err
	}
	result := idleResult{Name: t.name, Waiters: waiters, Commands: -1}
	if commands >= 0 {
		result.Commands = rounded(float64(commands) / passed / float64(waiters))
	}
	result.CPU = rounded(millis(used) / passed / float64(waiters))
	for _, cmd := range all[1:] {
		for _, pid := range tree(cmd.Process.Pid) {
			result.Memory += memory(pid)
		}
	}
	result.Memory /= waiters
	if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o600); err != nil {
		return idleResult{}, err
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			return idleResult{}, err
		}
	}
	return result, nil
}

// usedBy is the processor time of processes, and of all that they started.
func usedBy(all []*exec.Cmd) time.Duration {
	total := time.Duration(0)
	for _, cmd := range all {
		for _, pid := range tree(cmd.Process.Pid) {
			total += processorTime(pid)
		}
	}
	return total
}

// counter begins to count what clients of the tool's server send. The function
// that it returns ends that; the count is less than 0 without a server.
func (f *field) counter(t tool) (func() (int, error), error) {
	switch t.commander {
	case "redis":
		m, err := newMonitor(f.server.Addr())
		if err != nil {
			return nil, err
		}
		return func() (int, error) { sent, _ := m.stop(); return sent, nil }, nil
	case "etcd":
		before, err := f.etcdMessages()
		if err != nil {
			return nil, err
		}
		return func() (int, error) {
			after, err := f.etcdMessages()
			return after - before, err
		}, nil
	default:
		return func() (int, error) { return -1, nil }, nil
	}
}

// etcdMessages is how many messages etcd got from its clients so far.
func (f *field) etcdMessages() (int, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, f.etcd+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	total := 0.0
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "} "); ok && strings.HasPrefix(name, "grpc_server_msg_received_total{") {
			var n float64
			_, _ = fmt.Sscan(value, &n)
			total += n
		}
	}
	return int(total), lines.Err()
}
