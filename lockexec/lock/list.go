package lock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Listing is what [Locker.List] is asked for.
type Listing struct {
	Prefix  string // that names begin with
	Pattern string // glob-style, as for SCAN, for what follows the prefix; empty is all

	// Timeout bounds each exchange with a server, with its tries while that
	// can't be reached. Zero is [DefaultConnectTimeout].
	Timeout time.Duration
}

// List tells how all locks stand that are held, with a quorum on any of the
// servers, in the order of their names; of each no more than one holder, and one
// waiter. What was
// free by the time it was looked at is left out, and so is what is no lock: a
// key of another type, or one that belongs to a lock. It fails as
// [Locker.Inspect] does.
//
// It goes through all keys of the servers, step by step (SCAN), which blocks
// nobody but takes a while where there are very many.
func (l *Locker) List(ctx context.Context, req Listing) ([]Snapshot, error) {
	if req.Timeout <= 0 {
		req.Timeout = DefaultConnectTimeout
	}
	if req.Pattern == "" {
		req.Pattern = "*"
	}
	names, err := l.scan(ctx, req.Timeout, escapeGlob(req.Prefix)+req.Pattern)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "redlockrun:") })
	return l.inspectAll(ctx, req.Timeout, names)
}

// inspectors is how many locks are looked at side by side.
const inspectors = 8

func (l *Locker) inspectAll(ctx context.Context, timeout time.Duration, names []string) ([]Snapshot, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	snapshots := make([]Snapshot, len(names))
	next := make(chan int)
	var looking sync.WaitGroup
	for range inspectors {
		looking.Go(func() {
			for i := range next {
				bounded, done := context.WithTimeout(ctx, timeout)
				snapshot, err := l.inspect(bounded, names[i], 1)
				done()
				if failure, _ := errors.AsType[*ServerError](err); failure != nil && failure.Fault == FaultWrongType {
					continue
				}
				if err != nil {
					cancel(err)
				}
				snapshots[i] = snapshot
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	looking.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return slices.DeleteFunc(snapshots, func(s Snapshot) bool { return s.State == StateFree && len(s.everywhere) == 0 }), nil
}

// Marker tells that a run with an ID has succeeded: see [Request.Once].
type Marker struct {
	ID        string        // as it was given: any text
	Remaining time.Duration // until that is forgotten
}

// Markers lists the success markers of a lock, in the order of their IDs. Like
// [Locker.List], it goes through all keys, of the server that has the lock's.
// It fails as that does.
func (l *Locker) Markers(ctx context.Context, name string) ([]Marker, error) {
	prefix := doneKey(name, "")
	keys, err := l.scanOf(ctx, oneTry(ctx), escapeGlob(prefix)+"*", name)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	left := map[string]time.Duration{}
	answers := l.lease(name, "", DefaultTTL).ask(ctx, oneTry(ctx), marking, keys)
	var failures []error
	for _, answer := range answers.got {
		fields, ok := answer.reply.([]any)
		if answer.err == nil && (!ok || len(fields) != len(keys)) {
			answer.err = badReply("inspect", answer.reply)
		}
		if answer.err != nil {
			failures = append(failures, answer.err)
			continue
		}
		for i, field := range fields {
			if ms, err := parseInt(field); err == nil && ms > 0 {
				left[keys[i]] = max(left[keys[i]], millis(ms))
			}
		}
	}
	if len(l.servers)-len(failures) < l.majority() {
		return nil, failures[0]
	}
	var markers []Marker
	for _, key := range keys {
		if left[key] > 0 {
			markers = append(markers, Marker{ID: strings.TrimPrefix(key, prefix), Remaining: left[key]})
		}
	}
	return markers, nil
}

// scan finds the names of all keys, of all servers, that match.
func (l *Locker) scan(ctx context.Context, timeout time.Duration, match string) ([]string, error) {
	return l.scanOf(ctx, timeout, match, "")
}

// scanOf looks at no other nodes than that of a key, unless it is empty.
func (l *Locker) scanOf(ctx context.Context, timeout time.Duration, match, key string) ([]string, error) {
	var (
		mu    sync.Mutex
		found []string
	)
	var failures []error
	for _, s := range l.servers {
		look := func(ctx context.Context, node *redis.Client) error {
			names, err := scanNode(ctx, timeout, node, match)
			mu.Lock()
			defer mu.Unlock()
			found = append(found, names...)
			return err
		}
		var err error
		if key == "" {
			err = s.masters(ctx, look)
		} else {
			var node *redis.Client
			if node, err = s.node(ctx, key); err == nil {
				err = look(ctx, node)
			}
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		default:
			failures = append(failures, &ServerError{
				Op: "list", Name: match, Place: s.place, Fault: s.classify(ctx, err), Err: err,
			})
		}
	}
	if len(l.servers)-len(failures) < l.majority() {
		return nil, failures[0]
	}
	slices.Sort(found)
	return slices.Compact(found), nil // a key may come twice
}

// scanCount is how many keys a server looks at in one step.
const scanCount = 1000

// scanNode tries again while the node can't be reached, from the beginning:
// another may have taken its place.
func scanNode(ctx context.Context, timeout time.Duration, node *redis.Client, match string) ([]string, error) {
	deadline := time.Now().Add(timeout)
	for retry := (backoff{most: lastBackoff}); ; {
		var found []string
		var err error
		for cursor := uint64(0); ; {
			bounded, cancel := context.WithTimeout(ctx, timeout)
			var keys []string
			keys, cursor, err = node.Scan(bounded, cursor, match, scanCount).Result()
			cancel()
			found = append(found, keys...)
			if err != nil || cursor == 0 {
				break
			}
		}
		if err == nil || ctx.Err() != nil || !classify(err).passing() || !retry.sleep(ctx, time.Until(deadline)) {
			return found, err
		}
	}
}

// escapeGlob writes text as a pattern that matches it alone.
func escapeGlob(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if strings.IndexByte(`\*?[]^`, text[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
