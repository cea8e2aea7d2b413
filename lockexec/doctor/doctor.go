// Package doctor looks at the place of locks as a run would use it, and says
// what is wrong with it before a run finds out.
//
// It connects by the same way, with the same credentials, runs the same scripts
// on a lock that nobody else uses, and reads what the servers tell about
// themselves. Afterwards nothing of it is left in Redis; what a crash leaves
// expires.
//
// # What may be touched here
//
// One check is one line of the answer: what was found, and what to do about it.
// The hints for faults that a run has too are package cmd's. Nothing here starts a
// command, writes to a key that it did not make up, or changes a setting.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/connect"
	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// Subject is what to look at: the settings of a run, as far as they concern the
// place of locks.
type Subject struct {
	Target   connect.Target
	Prefix   string        // of lock names
	Key      string        // that the made-up lock's name begins with; may be empty
	TTL      time.Duration // of the runs' locks
	Replicas int           // that a run waits for

	// Histories: runs are remembered, for which more rights are needed.
	Histories bool
}

// Status is how a check ended.
type Status string

// How a check ends.
const (
	Pass Status = "pass"
	Warn Status = "warn" // locks work, but not always as they should
	Fail Status = "fail" // runs will fail, or locks will be lost
	Skip Status = "skip" // it could not be looked at
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"check"` // stable, see docs/doctor.md
	Status Status `json:"status"`
	Place  string `json:"place"` // the server, or what the servers are together; no credentials
	Found  string `json:"found"`
	Next   string `json:"next,omitempty"` // what to do

	// Err is the fault that a run would meet, where there is one: Next is left to
	// whoever has words for it.
	Err *lock.ServerError `json:"-"`
}

// Examine looks at all servers of the place at the same time, at each for no
// longer than the time-out of the target, and a moment to clean up. Sentinels, and
// the table of a cluster, are asked before. An embedded server that has to be
// started first takes as long as it does for a run.
//
// It never fails: what goes wrong is a check that failed. When ctx is done, the
// rest is skipped.
func Examine(ctx context.Context, s Subject) []Check {
	places := s.Target.Places
	switch place := places[0]; {
	case len(places) > 1:
		return s.quorum(ctx)
	case place.Embedded:
		return s.embedded(ctx)
	case place.Master != "":
		return s.sentinel(ctx)
	case place.Cluster:
		return s.cluster(ctx)
	default:
		return s.server(ctx, place, single).checks
	}
}

// kind is what a server is part of.
type kind int

const (
	single kind = iota
	ofQuorum
	ofSentinel
	ofCluster
	ofUser // embedded
)

// findings collects checks.
type findings struct {
	place  string
	checks []Check
}

func (f *findings) add(name string, status Status, next string, format string, args ...any) {
	f.checks = append(f.checks, Check{Name: name, Status: status, Place: f.place, Found: fmt.Sprintf(format, args...), Next: next})
}

// refused notes the fault that stood in the way of a check.
func (f *findings) refused(name string, status Status, err error) {
	failure, ok := errors.AsType[*lock.ServerError](err)
	if !ok {
		failure = &lock.ServerError{Op: name, Place: f.place, Fault: lock.FaultOf(err), Err: err}
	}
	f.checks = append(f.checks, Check{Name: name, Status: status, Place: f.place, Found: failure.Reason(), Err: failure})
}

// inParallel calls do for each item, and returns the results in the same order.
func inParallel[T, R any](items []T, do func(T) R) []R {
	results := make([]R, len(items))
	var all sync.WaitGroup
	for i, item := range items {
		all.Go(func() { results[i] = do(item) })
	}
	all.Wait()
	return results
}

// plural is "1 server", "2 servers".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// sameTwice returns two items of which the key is the same, unless it is empty.
func sameTwice[T any](items []T, key func(T) string) (a, b T, found bool) {
	for i, item := range items {
		if key(item) == "" {
			continue
		}
		j := slices.IndexFunc(items[:i], func(other T) bool { return key(other) == key(item) })
		if j >= 0 {
			return items[j], item, true
		}
	}
	return a, b, false
}
