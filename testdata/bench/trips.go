package main

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// trips looks at how runs go on their way to Redis, round by round in turns.
func (f *field) trips(rounds int) ([]tripResult, error) {
	tools := f.those(func(t tool) bool { return t.commander == "redis" })
	seen := make([][]tripResult, len(tools))
	for range rounds {
		for i, t := range tools {
			result, err := f.trip(t)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			seen[i] = append(seen[i], result)
		}
	}
	all := make([]tripResult, 0, len(tools))
	for i, t := range tools {
		middle := func(of func(tripResult) float64) float64 {
			var values []float64
			for _, r := range seen[i] {
				values = append(values, of(r))
			}
			return rounded(median(values))
		}
		result := seen[i][0] // the counts are the same in all
		result.Name = t.name
		result.Connected = middle(func(r tripResult) float64 { return r.Connected })
		result.Asked = middle(func(r tripResult) float64 { return r.Asked })
		result.Started = middle(func(r tripResult) float64 { return r.Started })
		result.Released = middle(func(r tripResult) float64 { return r.Released })
		result.Stopped = middle(func(r tripResult) float64 { return r.Stopped })
		all = append(all, result)
	}
	return all, nil
}

func (f *field) trip(t tool) (tripResult, error) {
	p, err := newProxy(f.server.Addr())
	if err != nil {
		return tripResult{}, err
	}
	defer p.close()
	m, err := newMonitor(f.server.Addr())
	if err != nil {
		return tripResult{}, err
	}
	work, err := os.MkdirTemp(f.dir, "trip")
	if err != nil {
		return tripResult{}, err
	}
	cmd := f.through(p, t).command("trip", false, 0, f.program("job"), work, "1")
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return tripResult{}, err
	}
	stopped := time.Since(start)
	result := tripResult{Stopped: millis(stopped)}
	result.Sent, result.InScripts = m.stop()
	ran, err := readRun(work, 1)
	if err != nil {
		return tripResult{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	since := func(t time.Time) float64 { return millis(t.Sub(start)) }
	result.Connections, result.Trips = p.connections, p.trips
	result.Connected, result.Started = since(p.connected), since(ran.start)
	// The lock is asked for in the last piece before the command starts, and
	// released in the first one after its end.
	after := slices.IndexFunc(p.requests, func(t time.Time) bool { return t.After(ran.end) })
	if after < 1 {
		return tripResult{}, fmt.Errorf("%d requests, and none after the end", len(p.requests))
	}
	result.Asked, result.Released = since(p.requests[after-1]), since(p.requests[after])
	return result, nil
}

// through returns the tool as it talks by way of the proxy.
func (f *field) through(p *proxy, t tool) tool {
	direct := t.line
	t.line = func(key string, wait bool, ttl time.Duration) []string {
		args := direct(key, wait, ttl)
		for i, arg := range args {
			if arg == f.server.URL() {
				args[i] = p.url()
			}
		}
		return args
	}
	return t
}
