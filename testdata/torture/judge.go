//go:build linux

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// verdict is what the judge finds in a history.
type verdict struct {
	acquisitions int
	overlaps     int // of work that exclude each other
	excused      int // the same, where a fault that may lose locks had been played
	regressions  int // of fences
	details      []string
}

func (v *verdict) note(count *int, format string, args ...any) {
	*count++
	v.details = append(v.details, fmt.Sprintf(format, args...))
}

// judge looks at work in the order in which it began. After a fault that may
// lose locks, work is excused for as long as a lease may last that was given
// before: ttl is the longest.
func judge(runs []*run, lossy []window, ttl time.Duration) verdict {
	v := verdict{acquisitions: len(runs)}
	byKey := map[string][]*run{}
	for _, r := range runs {
		byKey[r.key] = append(byKey[r.key], r)
	}
	excused := func(at lock.Instant) bool {
		return slices.ContainsFunc(lossy, func(w window) bool { return w.begin <= at && at <= w.end.Add(ttl) })
	}
	for _, runs := range byKey {
		v.exclusion(runs, excused)
		v.order(runs, excused)
		v.rise(runs)
	}
	return v
}

// exclusion counts work that began while other work went on which excludes it.
func (v *verdict) exclusion(runs []*run, excused func(lock.Instant) bool) {
	var present []*run
	for _, r := range runs {
		present = slices.DeleteFunc(present, func(other *run) bool { return other.last <= r.enter })
		if other := excluding(r, present); other != nil {
			count, what := &v.overlaps, "overlap"
			if excused(r.enter) {
				count, what = &v.excused, "excused overlap"
			}
			v.note(count, "%s: %s: %s (fence %d) began at %d, %s (fence %d, since %d) was seen %v later", what,
				r.key, r.id, r.fence, r.enter, other.id, other.fence, other.enter, other.last.Until(r.enter))
		}
		present = append(present, r)
	}
}

// excluding returns one of those present beside whom r must not be, or nil.
func excluding(r *run, present []*run) *run {
	for _, other := range present {
		alike := r.capacity == other.capacity && r.capacity != 1
		if !alike || r.capacity > 0 && len(present) >= r.capacity {
			return other
		}
	}
	return nil
}

// order counts fences that are lower than that of work which was excluded, and
// had begun before.
func (v *verdict) order(runs []*run, excused func(lock.Instant) bool) {
	var highest, alone *run
	for _, r := range runs {
		before := alone
		if r.capacity == 1 {
			before = highest
		}
		if before != nil && r.fence <= before.fence && !excused(r.enter) {
			v.note(&v.regressions, "fence: %s: %s has %d, but %s, which began before, has %d", r.key, r.id, r.fence, before.id, before.fence)
		}
		if highest == nil || r.fence > highest.fence {
			highest = r
		}
		if r.capacity == 1 && (alone == nil || r.fence > alone.fence) {
			alone = r
		}
	}
}

// rise counts fences that were given twice, and those that are lower than one
// that had been given before redlockrun was started at all. No fault of a
// server excuses that.
func (v *verdict) rise(runs []*run) {
	given := map[int64]*run{}
	for _, r := range runs {
		if other := given[r.fence]; other != nil {
			v.note(&v.regressions, "fence: %s: %s and %s both have %d", r.key, r.id, other.id, r.fence)
		}
		given[r.fence] = r
	}
	byLaunch := slices.Clone(runs)
	slices.SortFunc(byLaunch, func(a, b *run) int { return int(min(max(a.launch-b.launch, -1), 1)) })
	var highest *run
	next := 0
	for _, r := range byLaunch {
		for ; next < len(runs) && runs[next].enter < r.launch; next++ {
			if highest == nil || runs[next].fence > highest.fence {
				highest = runs[next]
			}
		}
		if highest != nil && r.fence < highest.fence {
			v.note(&v.regressions, "fence: %s: %s has %d, but %s had begun with %d before it was started", r.key, r.id, r.fence,
				highest.id, highest.fence)
		}
	}
}
