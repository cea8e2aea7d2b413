package lock

import (
	"os"
	"strconv"
	"testing"
	"time"
)

const modelTTL = 3 * time.Second

func scenarios() []*scenario {
	waiter := profile{ttl: modelTTL, wait: true}
	comer := profile{ttl: modelTTL}
	long := profile{ttl: 30 * time.Second, wait: true}
	reader := profile{ttl: modelTTL, wait: true, capacity: Shared}
	longReader := profile{ttl: 30 * time.Second, wait: true, capacity: Shared}
	slot := profile{ttl: modelTTL, wait: true, capacity: 2}
	longSlot := profile{ttl: 30 * time.Second, wait: true, capacity: 2}
	keeper := profile{ttl: modelTTL, wait: true, keep: 5 * time.Second}
	once := profile{ttl: modelTTL, wait: true, once: true}
	quick := profile{ttl: time.Second, wait: true}
	three := []profile{waiter, waiter, waiter}
	faults := []string{"late", "crash", "deaf"}
	return []*scenario{
		{name: "two", profiles: []profile{waiter, waiter}, stops: true},
		{name: "two, one fault", profiles: []profile{waiter, waiter}, faults: 1, kinds: faults, stops: true},
		{name: "two, two faults", profiles: []profile{waiter, waiter}, faults: 2, kinds: faults, stops: true},
		{name: "three", profiles: three, stops: true},
		{name: "three, one is killed", profiles: three, faults: 1, kinds: []string{"crash"}},
		{name: "three, a message is late", profiles: three, faults: 1, kinds: []string{"late"}},
		{name: "three, one is deaf", profiles: three, faults: 1, kinds: []string{"deaf"}, nudges: 1},
		{name: "three, long leases", profiles: []profile{long, long, long}, faults: 1, kinds: []string{"crash"}, horizon: 70_000},
		{name: "three, short leases", profiles: []profile{quick, quick, quick}, faults: 1, kinds: faults},
		{name: "three, one watches", profiles: three, faults: 1, kinds: faults, constant: [2]string{"local watchers = 4", "local watchers = 1"}},
		{name: "newcomer", profiles: []profile{waiter, waiter, comer}, faults: 1, kinds: faults},
		{name: "an outage", profiles: []profile{long, waiter, waiter}, faults: 1, kinds: []string{"outage"}},
		{name: "an outage, and a newcomer", profiles: []profile{long, waiter, comer}, faults: 1, kinds: []string{"outage"}},
		{name: "nobody waits", profiles: []profile{comer, comer, comer}, faults: 2, kinds: faults},
		{name: "readers and a writer", profiles: []profile{reader, longReader, waiter}, faults: 1, kinds: faults},
		{name: "slots", profiles: []profile{slot, slot, slot}, faults: 1, kinds: faults},
		{name: "slots, one is killed", profiles: []profile{slot, longSlot, slot}, faults: 1, kinds: []string{"crash"}},
		{name: "slots, two faults", profiles: []profile{slot, longSlot, slot}, faults: 2, kinds: []string{"late", "crash"}},
		{name: "readers and slots", profiles: []profile{reader, slot, slot}, faults: 1, kinds: []string{"evict"}},
		{name: "min-hold", profiles: []profile{keeper, keeper, comer}, faults: 1, kinds: faults},
		{name: "once", profiles: []profile{once, once, once}, faults: 1, kinds: faults},
		{name: "revoked", profiles: []profile{waiter, waiter, comer}, faults: 1, kinds: faults, revoke: true},
		{name: "readers, revoked", profiles: []profile{reader, longReader, waiter}, revoke: true},
		{name: "foreign", profiles: []profile{waiter, waiter, comer}, foreign: true},
		{name: "deleted", profiles: []profile{waiter, waiter, comer}, faults: 1, kinds: []string{"delete", "restart", "evict"}},
	}
}

func (s *scenario) prepare(t testing.TB, edit func(string) string) *scenario {
	t.Helper()
	var err error
	if s.server, err = newModelServer(); err != nil {
		t.Fatal(err)
	}
	s.edit = edit
	s.words = map[message]command{}
	s.unserved = map[[16]byte]int64{}
	if s.horizon == 0 {
		s.horizon = 40_000
	}
	return s
}

func TestModel(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t, func(source string) string { return source })
			began := time.Now()
			e := explore(s.model(), modelStates(t))
			t.Logf("%d states, %d steps, whole to a depth of %d (no more: %v); %d scripts of %d asked; %v", e.states, e.steps, e.depth, e.whole, s.server.runs, s.server.asked, time.Since(began))
			if e.found != nil {
				t.Error(e.found)
			}
		})
	}
}

// modelStates is how many states of a scenario are looked at.
func modelStates(t testing.TB) int {
	t.Helper()
	text := os.Getenv("REDLOCKRUN_MODEL_STATES")
	switch {
	case text == "" && testing.Short():
		return 300
	case text == "":
		return 3000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
