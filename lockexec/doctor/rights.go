package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// probe is a command with which a right is asked for. It changes nothing, as the
// key is not there or, for those that would make it, is of another type.
type probe struct {
	command string
	args    []any
}

// probes ask for each command that the scripts need, and for each key, to read
// and to write it. One that wants a key of another type is given text.
func (e *exam) probes(text string, beside []string) []probe {
	name, holders := e.name, beside[1]
	probes := []probe{
		{"eval", []any{"return 1", 0}},
		{"get", []any{text}},
		{"exists", []any{text}},
		{"pttl", []any{text}},
		{"time", nil},
		{"hget", []any{holders, "f"}},
		{"hdel", []any{holders, "f"}},
		{"hexists", []any{holders, "f"}},
		{"hset", []any{text, "f", "v"}},
		{"zadd", []any{name, "XX", 1, "m"}},
		{"zcard", []any{name}},
		{"zrange", []any{name, 0, 0}},
		{"zrangebyscore", []any{name, 0, 0}},
		{"zrank", []any{name, "m"}},
		{"zrem", []any{name, "m"}},
		{"zscore", []any{name, "m"}},
		{"rpush", []any{text, "v"}},
		{"blpop", []any{text, "1"}},
	}
	if e.subject.Histories {
		probes = append(probes, probe{"hkeys", []any{holders}}, probe{"xrevrange", []any{name, "+", "-"}}, probe{"xadd", []any{text, "*", "f", "v"}})
	}
	if e.kind == ofQuorum { // for how long a server is up
		probes = append(probes, probe{"info", []any{"server"}})
	}
	if e.subject.Replicas > 0 {
		probes = append(probes, probe{"wait", []any{0, 1}})
	}
	for _, key := range append(beside, name) {
		probes = append(probes, probe{"get", []any{key}}, probe{"pexpire", []any{key, 2000}})
	}
	return append(probes, probe{"del", []any{text}})
}

// wantText are the probes that would make the key if no text stood in it.
var wantText = []string{"hset", "rpush", "blpop", "xadd"}

// rights asks for each right that the scripts need, and reports whether all are
// there. Only refusals for a lack of rights count: the scripts show the rest.
func (e *exam) rights(ctx context.Context, token string) bool {
	beside := lock.KeysBeside(e.name, token)
	text := beside[len(beside)-1]
	set := probe{"set", []any{text, "v", "PX", 2000}}
	err := e.client.Do(ctx, append([]any{set.command}, set.args...)...).Err()
	var missing []string
	missing = e.lacks(missing, set, err)
	probes := e.probes(text, beside)
	if err != nil {
		probes = slices.DeleteFunc(probes, func(p probe) bool { return slices.Contains(wantText, p.command) })
	}
	replies := make([]*redis.Cmd, len(probes))
	_, _ = e.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, p := range probes {
			replies[i] = pipe.Do(ctx, append([]any{p.command}, p.args...)...)
		}
		return nil
	})
	for i, p := range probes {
		missing = e.lacks(missing, p, replies[i].Err())
	}
	if len(missing) == 0 {
		e.add("rights", Pass, "", "all that a run needs")
		return true
	}
	user := e.at.Username
	if user == "" {
		user = "default"
	}
	rules := strings.Join(missing, " ")
	e.add("rights", Fail, fmt.Sprintf("redis-cli ACL SETUSER %s %s", user, rules), "the ACL user lacks %s", rules)
	return false
}

// lacks adds the right for which a probe was refused, if it was for one.
func (e *exam) lacks(missing []string, p probe, err error) []string {
	command, key := isNoPerm(err)
	right := "+" + p.command
	if key {
		right = e.pattern(fmt.Sprint(p.args[0]))
	}
	if (command || key) && !slices.Contains(missing, right) {
		return append(missing, right)
	}
	return missing
}

// pattern is the key pattern of an ACL that a key needs.
func (e *exam) pattern(key string) string {
	if key == e.name {
		return "~" + e.subject.Prefix + "*"
	}
	return "~redlockrun:*"
}

// isNoPerm reports whether a reply refuses for a lack of rights, and whether that
// is for the key, not for the command.
func isNoPerm(err error) (command, key bool) {
	if err == nil || lock.FaultOf(err) != lock.FaultNoPerm {
		return false, false
	}
	key = strings.Contains(err.Error(), "access") && strings.Contains(err.Error(), "key")
	return !key, key
}
