package lock

import (
	"testing"
	"time"
)

func quorumScenarios() []*quorumScenario {
	return []*quorumScenario{
		{name: "three come", clients: 3},
		{name: "a reply or a request is late", clients: 2, faults: 2, kinds: []string{"late"}},
		{name: "one is killed", clients: 2, faults: 1, kinds: []string{"crash"}},
		{name: "servers restart empty", clients: 2, held: true, faults: 2, kinds: []string{"restart"}},
		{name: "servers lose the lock", clients: 2, held: true, faults: 1, kinds: []string{"delete"}},
		{name: "clocks differ", clients: 2, faults: 1, kinds: []string{"late"}, skew: [quorumSize]int64{700, 0, -20}},
		{name: "anything", clients: 2, faults: 2, kinds: []string{"late", "crash", "restart"}},
	}
}

func (s *quorumScenario) prepare(t testing.TB, edit func(string) string) *quorumScenario {
	t.Helper()
	var err error
	if s.server, err = newModelServer(); err != nil {
		t.Fatal(err)
	}
	s.edit, s.words, s.profile = edit, map[ballot]command{}, profile{ttl: modelTTL, wait: true}
	return s
}

func TestModelOfAQuorum(t *testing.T) {
	for _, s := range quorumScenarios() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t, func(source string) string { return source })
			began := time.Now()
			e := explore(s.model(), 5*modelStates(t))
			t.Logf("%d states, %d steps, whole to a depth of %d (no more: %v); %d scripts of %d asked; %v", e.states, e.steps, e.depth, e.whole, s.server.runs, s.server.asked, time.Since(began))
			if e.found != nil {
				t.Error(e.found)
			}
		})
	}
}

func TestModelOfAQuorumFindsMutants(t *testing.T) {
	for _, m := range []struct {
		mutant
		broken string
	}{
		{mutant{"a server that was just started counts", "local young = state ~= 1 and too_young(tonumber(ARGV[6]))", "local young = false", "servers restart empty"}, ""},
		{mutant{"the fence is not made known", "", "", "clocks differ"}, "no raise"},
		{mutant{"the counter is not raised", "if tonumber(ARGV[2]) > (tonumber(value_of(KEYS[2]) or 0) or 0) then", "if false then", "clocks differ"}, ""},
		{mutant{"restore does not compare", "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then", "if redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) then", "servers lose the lock"}, ""},
		{mutant{"restore has no TTL", "redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])", "redis.call('SET', KEYS[1], ARGV[1], 'NX')", "servers lose the lock"}, ""},
		{mutant{"release does not compare", "local record = redis.pcall('HGET', holders, token)\nif type(record) ~= 'string' then\nrecord = ARGV[7]", "state = 1\nlocal record = redis.pcall('HGET', holders, token)\nif type(record) ~= 'string' then\nrecord = ARGV[7]", "three come"}, ""},
	} {
		t.Run(m.name, func(t *testing.T) {
			applied := 0
			for _, s := range quorumScenarios() {
				if s.name != m.scenario {
					continue
				}
				s.prepare(t, func(source string) string { return m.apply(source, &applied) })
				s.broken = m.broken
				judgeMutant(t, m.mutant, explore(s.model(), mutantStates*10), &applied)
			}
		})
	}
}
