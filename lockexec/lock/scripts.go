package lock

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The scripts go out as plain EVAL: a run sends each a few times at most, so
// that EVALSHA would save nothing, and would cost a second trip on a server
// that does not know the script, and a right of its own.
var (
	//go:embed scripts/prelude.lua
	prelude string
	//go:embed scripts/line.lua
	line string
	//go:embed scripts/acquire.lua
	acquireScript string
	//go:embed scripts/renew.lua
	renewScript string
	//go:embed scripts/release.lua
	releaseScript string
	//go:embed scripts/refresh.lua
	refreshScript string
)

// processor is what the package needs of a client; *redis.Client is one.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// onceCmd is a command that the client does not send a second time by itself:
// only we know what a reply that got lost means for each script.
type onceCmd struct{ *redis.Cmd }

func (onceCmd) NoRetry() bool { return true }

// source is what goes out for a script: with what it shares with others, and
// without the comments, which are half of it.
func source(script string) string {
	parts := prelude
	if script == acquireScript || script == releaseScript {
		parts += line
	}
	var b strings.Builder
	for text := range strings.Lines(parts + script) {
		if code := strings.TrimSpace(text); code != "" && !strings.HasPrefix(code, "--") {
			b.WriteString(code)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func eval(ctx context.Context, client processor, script string, keys []string, args ...any) (any, error) {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, "eval", source(script), len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	words = append(words, args...)
	cmd := onceCmd{redis.NewCmd(ctx, words...)}
	cmd.SetFirstKeyPos(3)
	if err := client.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Result()
}

// acquireReply is what acquire.lua says: acquired with a fence, done, used with
// another capacity, or held.
type acquireReply struct {
	acquired bool
	fence    int64

	done     bool
	spent    bool
	capacity *Capacity

	holder    *Holder
	remaining time.Duration
	heldFor   time.Duration
	ahead     int  // who wait before the caller; all, when that does not wait
	watch     bool // ask every second
}

func parseAcquireReply(reply any) (acquireReply, error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) < 1 {
		return acquireReply{}, badReply("acquire", reply)
	}
	switch fields[0] {
	case int64(2), int64(4):
		if len(fields) != 1 {
			return acquireReply{}, badReply("acquire", reply)
		}
		return acquireReply{done: fields[0] == int64(2), spent: fields[0] == int64(4)}, nil
	case int64(3):
		if len(fields) != 2 {
			return acquireReply{}, badReply("acquire", reply)
		}
		n, err := parseInt(fields[1])
		if err != nil || n < 0 || n > MaxCapacity {
			return acquireReply{}, badReply("acquire", reply)
		}
		capacity := Capacity(n)
		switch n {
		case 0:
			capacity = Shared
		case 1:
			capacity = Exclusive
		}
		return acquireReply{capacity: &capacity}, nil
	case int64(1):
		if len(fields) != 2 {
			return acquireReply{}, badReply("acquire", reply)
		}
		fence, err := parseInt(fields[1])
		if err != nil || fence <= 0 {
			return acquireReply{}, badReply("acquire", reply)
		}
		return acquireReply{acquired: true, fence: fence}, nil
	case int64(0):
		if len(fields) != 6 {
			return acquireReply{}, badReply("acquire", reply)
		}
		pttl, err1 := parseInt(fields[1])
		record, ok := fields[2].(string)
		nowMillis, err2 := parseInt(fields[3])
		ahead, err3 := parseInt(fields[4])
		if err1 != nil || err2 != nil || err3 != nil || !ok {
			return acquireReply{}, badReply("acquire", reply)
		}
		held := acquireReply{
			holder: decodeHolder(record), remaining: NoExpiry, ahead: int(max(0, ahead)), watch: fields[5] == int64(1),
		}
		if pttl >= 0 {
			held.remaining = millis(pttl)
		}
		if held.holder != nil {
			held.heldFor = max(0, millis(nowMillis-held.holder.SinceMillis))
		}
		return held, nil
	default:
		return acquireReply{}, badReply("acquire", reply)
	}
}

// ownership is the answer of a script that acts only on a lock of ours.
type ownership int64

const (
	ours    ownership = 1
	gone    ownership = 0
	another ownership = -1
)

func parseOwnership(op string, reply any) (ownership, error) {
	state, ok := reply.(int64)
	if !ok || state < -1 || state > 1 {
		return 0, badReply(op, reply)
	}
	return ownership(state), nil
}

// millis is a time span that the server gives in milliseconds; more than a
// Duration can hold is the longest there is.
func millis(ms int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}

// parseInt reads a number that the script gave as an integer, or as text where
// an integer reply would pass through a float.
func parseInt(field any) (int64, error) {
	switch v := field.(type) {
	case int64:
		return v, nil
	case string:
		return strconv.ParseInt(v, 10, 64)
	default:
		return 0, fmt.Errorf("%T is no number", field)
	}
}

func badReply(op string, reply any) error {
	return fmt.Errorf("unexpected reply to %s: %.200q", op, fmt.Sprint(reply))
}
