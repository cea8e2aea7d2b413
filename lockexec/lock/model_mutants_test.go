package lock

import (
	"strings"
	"testing"
)

// mutant is a fault that the model must find: what is replaced in the scripts,
// as they go out, and where to look for what comes of it.
type mutant struct {
	name     string
	old, new string
	scenario string
}

func mutants() []mutant {
	return []mutant{
		{"release does not compare", "local record = redis.pcall('HGET', holders, token)\nif type(record) ~= 'string' then\nrecord = ARGV[7]", "state = 1\nlocal record = redis.pcall('HGET', holders, token)\nif type(record) ~= 'string' then\nrecord = ARGV[7]", "two, one fault"},
		{"renew does not compare", "if state == 1 then\nset_lease(KEYS[1]", "if true then\nset_lease(KEYS[1]", "two, one fault"},
		{"renew makes the lock again", "if state == 1 then\nset_lease(KEYS[1]", "if state == 0 then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1 end\nif state == 1 then\nset_lease(KEYS[1]", "two, one fault"},
		{"no PX on the lock", "redis.call('SET', lock, token, 'NX', 'PX', ttl)", "redis.call('SET', lock, token, 'NX')", "two"},
		{"no TTL of the fence", "redis.call('SET', fence_counter, fence, 'PX', fence_ttl(lease))", "redis.call('SET', fence_counter, fence)", "two"},
		{"no TTL of the records", "redis.call('PEXPIRE', holders, history and history_ttl or math.max(4 * hour, 10 * lease))", "", "two"},
		{"no TTL of the queue", "redis.call('PEXPIRE', queue, line_ttl)", "", "two"},
		{"no TTL of the waiters", "redis.call('PEXPIRE', waiters, line_ttl)", "", "two"},
		{"no TTL of the wake list", "redis.pcall('PEXPIRE', wake_prefix .. token, wake_ttl)", "", "two"},
		{"no TTL of a spent token", "redis.pcall('SET', wake_list, 'spent', 'PX', spent_ttl)", "redis.pcall('SET', wake_list, 'spent')", "two, one fault"},
		{"no TTL of the success", "redis.call('SET', success, ARGV[3], 'PX', ARGV[4])", "redis.call('SET', success, ARGV[3])", "once"},
		{"no TTL of a kept lock", "redis.call('SET', lock, kept, 'XX', 'PX', keep)", "redis.call('SET', lock, kept, 'XX')", "min-hold"},
		{"a newcomer does not look at the queue", "if not head(now) and has_room(now, capacity)", "if has_room(now, capacity)", "newcomer"},
		{"the last to come is the first", "(last or 0) + 1", "0 - (last or 0)", "three"},
		{"no confirm", "local function confirm()\nset_lease(lock, token, ttl, many)", "local function confirm()", "three, long leases"},
		{"the dead are granted the lock", "if w and now - math.max(w.seen, back) <= (w.watches == 1 and silent_watcher or silent_waiter) then", "if w then", "three, long leases"},
		{"a silent watcher is waited for", "(w.watches == 1 and silent_watcher or silent_waiter)", "silent_waiter", "three, long leases"},
		{"the living are taken for dead", "local silent_watcher = 5000", "local silent_watcher = 500", "three"},
		{"ended leases are not pruned", "for _, token in ipairs(ended) do\nredis.call('ZREM', lock, token)\nredis.call('HDEL', holders, token)\nend", "", "slots, one is killed"},
		{"an ended lease of many counts as ours", "return ends > now_micros() / 1000 and 1 or 0", "return 1", "slots, two faults"},
		{"the fence is the clock", "math.max(last + 1, now_us)", "now_us", "three"},
		{"the fence is a counter", "math.max(last + 1, now_us)", "last + 1", "deleted"},
		{"no limit", "(capacity == 0 or n < capacity)", "true", "slots"},
		{"one more than the limit", "(capacity == 0 or n < capacity)", "(capacity == 0 or n <= capacity)", "slots"},
		{"a writer beside readers", "elseif kind ~= 'many' or capacity == 1 then\nreturn false\nend", "elseif capacity == 1 then return kind ~= 'one' elseif kind ~= 'many' then return false end", "readers and a writer"},
		{"readers beside slots", "return theirs == capacity and (", "return (", "readers and slots"},
		{"a reader ends the lease of others", "redis.call('PEXPIRE', lock, math.max(last[2] - now, 1))", "redis.call('PEXPIRE', lock, ttl)", "readers and a writer"},
		{"release does not pass the lock on", "leave_line(token)\nserve(now_micros())\nend)\nreturn state", "leave_line(token)\nend)\nreturn state", "two"},
		{"release leaves its place in line", "leave_line(token)\nserve(now_micros())\nend)\nreturn state", "serve(now_micros())\nend)\nreturn state", "two"},
		{"the grant does not leave the line", "leave_line(token)\nhold(now_us, token, w.capacity, grant_ttl, w.ttl, w.record)", "hold(now_us, token, w.capacity, grant_ttl, w.ttl, w.record)", "three, one is killed"},
		{"a grant has no end of its own", "local grant_ttl = 2000", "local grant_ttl = 60000", "two"},
		{"nobody is told to watch", "wake(token, 'watch')", "", "three, one watches"},
		{"a spent token is not noted", "redis.pcall('SET', wake_list, 'spent', 'PX', spent_ttl)", "{}", "two, one fault"},
		{"a spent token is good", "if value_of(wake_list) then\nreturn {4}\nend", "", "two, one fault"},
		{"what was done is done again", "if success and redis.call('EXISTS', success) == 1 then", "if false then", "once"},
		{"a success is not noted", "redis.call('SET', success, ARGV[3], 'PX', ARGV[4])", "", "once"},
		{"who finds it done keeps the lock", "if state == 1 then\ndrop(lock, token, many)\nredis.call('HDEL', holders, token)\nend\nserve(now_us)", "serve(now_us)", "once"},
		{"who finds it done passes nothing on", "serve(now_us)\nreturn {2}", "return {2}", "once"},
		{"a kept lock has the name of its holder", "local kept = token .. ':kept'", "local kept = token", "min-hold"},
		{"the lock is not kept", "if keep > 0 then", "if false then", "min-hold"},
		{"a revoked lock is free", "redis.call('SET', lock, tombstone, 'XX', 'KEEPTTL')", "redis.call('DEL', lock)", "revoked"},
		{"a tombstone has no end", "redis.call('SET', lock, tombstone, 'XX', 'KEEPTTL')", "redis.call('SET', lock, tombstone, 'XX')", "revoked"},
		{"a set is empty for a moment", "redis.call('ZADD', lock, now + left, tombstone)\nredis.call('ZREM', lock, value)", "redis.call('ZREM', lock, value)\nredis.call('ZADD', lock, now + left, tombstone)", "readers, revoked"},
		{"a reader's tombstone ends at once", "redis.call('ZADD', lock, now + left, tombstone)", "redis.call('ZADD', lock, now + 1, tombstone)", "readers, revoked"},
	}
}

// mutantStates is how many states are looked at for a mutant at most.
const mutantStates = 20_000

// apply changes what goes out, and counts how often.
func (m mutant) apply(source string, applied *int) string {
	if m.old == "" {
		return source
	}
	*applied += strings.Count(source, m.old)
	return strings.ReplaceAll(source, m.old, m.new)
}

func judgeMutant(t *testing.T, m mutant, e exploration, applied *int) {
	t.Helper()
	switch {
	case *applied == 0 && m.old != "":
		t.Fatalf("%q is not in any script that was used", m.old)
	case e.found == nil:
		t.Fatalf("not found in %d states, %d steps deep", e.states, e.depth)
	}
	t.Logf("%d states, %d steps deep: %v", e.states, len(e.found.trace), e.found.err)
}

func TestModelFindsMutants(t *testing.T) {
	all := map[string]func() *scenario{}
	for i, s := range scenarios() {
		all[s.name] = func() *scenario { return scenarios()[i] }
	}
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			applied := 0
			s := all[m.scenario]().prepare(t, func(source string) string { return m.apply(source, &applied) })
			judgeMutant(t, m, explore(s.model(), mutantStates), &applied)
		})
	}
}

// Rules of the client that the guarantees need as well.
func TestModelFindsAClientThatBreaksARule(t *testing.T) {
	for _, m := range []mutant{
		{name: "no confirm", scenario: "three, long leases"},
		{name: "counts from the reply", scenario: "two, one fault"},
		{name: "no kill", scenario: "an outage"},
	} {
		t.Run(m.name, func(t *testing.T) {
			for _, s := range scenarios() {
				if s.name == m.scenario {
					s.broken = m.name
					s.prepare(t, func(source string) string { return source })
					judgeMutant(t, m, explore(s.model(), mutantStates), new(int))
				}
			}
		})
	}
}
