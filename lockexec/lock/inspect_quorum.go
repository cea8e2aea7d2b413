package lock

import (
	"context"
	"slices"
	"strings"
	"time"
)

// view is how a lock stands on one server.
type view struct {
	server   *server
	snapshot Snapshot
	err      error
}

// from says from whom the server has the lock.
func (v view) from() string {
	var names []string
	for _, h := range v.snapshot.Holders {
		names = append(names, h.name)
	}
	return strings.Join(names, " ")
}

// merge makes one snapshot of those of a quorum: what most say. Where none is
// said by most, nobody holds the lock.
func (v votes) merge(ctx context.Context, views []view) (Snapshot, error) {
	var failures []error
	alike := map[string][]view{}
	merged := Snapshot{Name: v.lease.name}
	answered := 0
	for _, seen := range views {
		if seen.err != nil {
			failures = append(failures, seen.err)
			continue
		}
		answered++
		alike[seen.from()] = append(alike[seen.from()], seen)
		merged.Fence = max(merged.Fence, seen.snapshot.Fence)
	}
	need := v.lease.locker.majority()
	if answered < need {
		return Snapshot{}, v.failure(ctx, failures)
	}
	agreed := ""
	for from, same := range alike {
		if len(same) >= need {
			agreed = from
			merged.Holders = holdersOf(same, need)
			merged.Held = len(merged.Holders)
		}
	}
	merged.summarise()
	for _, s := range v.lease.locker.servers {
		seen := views[slices.IndexFunc(views, func(v view) bool { return v.server == s })]
		sv := ServerView{Place: s.place, State: seen.snapshot.State, Err: seen.err}
		sv.Agrees = seen.err == nil && seen.from() == agreed
		if len(seen.snapshot.Holders) > 0 {
			sv.Holder = seen.snapshot.Holders[0].Holder
		}
		merged.Servers = append(merged.Servers, sv)
	}
	merged.everywhere = holdings(views)
	return merged, nil
}

// holdersOf are the holders that all of these servers tell of. Each holds the
// lock until too few of them have it, and has its record where one was left: a
// renewal that sets the lock again sets none.
func holdersOf(same []view, need int) []Holding {
	holders := slices.Clone(same[0].snapshot.Holders)
	for i := range holders {
		var ends []time.Duration
		for _, seen := range same {
			other := seen.snapshot.Holders[i]
			left := other.Remaining
			if left == NoExpiry {
				left = 1<<63 - 1
			}
			ends = append(ends, left)
			if holders[i].Holder == nil {
				holders[i].Holder, holders[i].HeldFor = other.Holder, other.HeldFor
			}
		}
		slices.Sort(ends)
		if holders[i].Remaining = ends[len(ends)-need]; holders[i].Remaining == 1<<63-1 {
			holders[i].Remaining = NoExpiry
		}
	}
	return holders
}

// holdings are the holders on any of the servers, each once.
func holdings(views []view) []Holding {
	var all []Holding
	for _, seen := range views {
		for _, h := range seen.snapshot.Holders {
			if !slices.ContainsFunc(all, func(other Holding) bool { return other.name == h.name }) {
				all = append(all, h)
			}
		}
	}
	return all
}
