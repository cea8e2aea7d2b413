//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// scene is one place with all that happens there.
type scene struct {
	name    string
	place   *place
	binary  string
	extra   []string // flags for each run
	history *history

	mu       sync.Mutex
	present  map[string]*presence
	past     map[string]lock.Instant // when runs ended
	faults   map[string]int
	attempts int
	details  []string

	orphans, eternal, starved, odd int
}

// presence is a redlockrun that runs now.
type presence struct {
	process *os.Process
	long    bool   // its work may be
	struck  string // what the nemesis did to it, if it did
}

func newScene(name string, p *place, binary string, extra []string, h *history) *scene {
	return &scene{
		name: name, place: p, binary: binary, extra: extra, history: h,
		present: map[string]*presence{}, past: map[string]lock.Instant{}, faults: map[string]int{},
	}
}

// count adds one to a counter of violations, and says what it was.
func (s *scene) count(counter *int, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*counter++
	text := fmt.Sprintf(format, args...)
	s.details = append(s.details, text)
	_ = s.history.add("wrong", strings.ReplaceAll(text, "\n", " "))
}

func (s *scene) began(id string, p *presence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts++
	s.present[id] = p
}

func (s *scene) ended(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past[id] = lock.Now()
}

// judgeEnd looks at an exit code: each that nothing explains is odd.
func (s *scene) judgeEnd(id string, code int, stderr string) {
	s.mu.Lock()
	struck := s.present[id].struck
	delete(s.present, id)
	s.mu.Unlock()
	explained := []int{0, childCode, 69, 75, 79, 128 + 2} // the last when a person ends all of this
	switch strings.TrimSuffix(struck, " at work") {
	case "kill W", "kill C":
		explained = append(explained, 128+9)
	case "kill S", "freeze S":
		explained = append(explained, 125)
	case "end W":
		explained = append(explained, 128+15)
	}
	if !slices.Contains(explained, code) {
		s.count(&s.odd, "odd: %s (%q) ended with %d: %s", id, struck, code, strings.TrimSpace(stderr))
	}
}

// note counts a fault and writes it down.
func (s *scene) note(kind string, lossy bool, begin lock.Instant) {
	s.mu.Lock()
	s.faults[kind]++
	s.mu.Unlock()
	word := "fault"
	if lossy {
		word = "lossy"
	}
	_ = s.history.add(word, strings.ReplaceAll(kind, " ", "-"), int64(begin))
}

// pick returns a run that the nemesis has not yet struck, and notes that it is
// struck now. Every other time it is one of long work, if there is any.
func (s *scene) pick(kind string, choose func(n int) int) (id string, process *os.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(s.present)), func(id string) bool { return s.present[id].struck != "" })
	if len(ids) == 0 {
		return "", nil
	}
	if long := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !s.present[id].long }); len(long) > 0 && choose(2) == 0 {
		ids = long
	}
	id = ids[choose(len(ids))]
	s.present[id].struck = kind
	return id, s.present[id].process
}

// watch looks again and again, until the context ends, for what must never be.
func (s *scene) watch(ctx context.Context) {
	reported := map[string]bool{}
	roles := map[int]string{}
	seen := lock.Now()
	for ; ctx.Err() == nil; pause(ctx, 300*time.Millisecond) {
		for _, proxy := range s.place.proxies {
			proxy.Forget()
		}
		if s.place.replicated && s.promoted(roles) {
			s.note("promotion", true, seen.Add(-4*time.Second))
		}
		seen = lock.Now()
		s.lookForOrphans(reported)
		for i := range s.place.direct {
			s.lookForEternal(ctx, i, reported)
		}
	}
}

// promoted reports whether a replica has become a primary since it was last
// called. A busy machine can bring that about by itself.
func (s *scene) promoted(roles map[int]string) bool {
	found := false
	for i, client := range s.place.direct {
		now := role(client)
		if now == "" {
			continue
		}
		found = found || roles[i] == "slave" && now == "master"
		roles[i] = now
	}
	return found
}

// lookForEternal counts keys without a time to live.
func (s *scene) lookForEternal(ctx context.Context, server int, reported map[string]bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client := s.place.direct[server]
	var cursor uint64
	for {
		names, next, err := client.Scan(ctx, cursor, "*", 1000).Result()
		if err != nil {
			return // it is away, or not yet here
		}
		for _, name := range names {
			left, err := client.PTTL(ctx, name).Result()
			if err == nil && left == -1 && !reported[name] {
				reported[name] = true
				s.count(&s.eternal, "eternal: %s has no time to live", name)
			}
		}
		if cursor = next; cursor == 0 {
			return
		}
	}
}
