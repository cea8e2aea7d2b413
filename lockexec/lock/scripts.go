package lock

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The parts of what goes out: see operation.
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
	//go:embed scripts/delete.lua
	deleteScript string
	//go:embed scripts/refresh.lua
	refreshScript string
	//go:embed scripts/restore.lua
	restoreScript string
	//go:embed scripts/history.lua
	historyScript string
	//go:embed scripts/raise.lua
	raiseScript string
	//go:embed scripts/holding.lua
	holding string
	//go:embed scripts/inspect.lua
	inspectScript string
	//go:embed scripts/revoke.lua
	revokeScript string
	//go:embed scripts/markers.lua
	markersScript string
)

// acquireReply is what acquire.lua says: acquired with a fence, done, used with
// another capacity, or held.
type acquireReply struct {
	acquired bool
	fence    int64

	done     bool
	spent    bool
	capacity *Capacity
	young    time.Duration // until a server that was just started gives its vote

	// split: of the servers of a quorum, some have it from one, some from
	// another, and nobody from most.
	split bool

	token     string // of the holder, where there is one
	holder    *Holder
	remaining time.Duration
	heldFor   time.Duration
	ahead     int  // who wait before the caller; all, when that does not wait
	watch     bool // ask every second
}

// revoked reports whether what holds the lock is the tombstone of revoke.lua.
func (r *acquireReply) revoked() bool { return strings.HasSuffix(r.token, tombstone) }

const tombstone = ":revoked"

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
		capacity, ok := parseCapacity(n)
		if err != nil || !ok {
			return acquireReply{}, badReply("acquire", reply)
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
	case int64(5):
		if len(fields) != 2 {
			return acquireReply{}, badReply("acquire", reply)
		}
		left, err := parseInt(fields[1])
		if err != nil {
			return acquireReply{}, badReply("acquire", reply)
		}
		return acquireReply{young: max(1, millis(left))}, nil
	case int64(0):
		if len(fields) != 7 {
			return acquireReply{}, badReply("acquire", reply)
		}
		pttl, err1 := parseInt(fields[1])
		record, ok := fields[2].(string)
		nowMillis, err2 := parseInt(fields[3])
		ahead, err3 := parseInt(fields[4])
		token, isText := fields[6].(string)
		if err1 != nil || err2 != nil || err3 != nil || !ok || !isText {
			return acquireReply{}, badReply("acquire", reply)
		}
		held := acquireReply{
			token: token, holder: decodeHolder(record), remaining: NoExpiry, ahead: int(max(0, ahead)), watch: fields[5] == int64(1),
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

// parseCapacity is the inverse of [Capacity.wire].
func parseCapacity(n int64) (Capacity, bool) {
	switch {
	case n == 0:
		return Shared, true
	case n == 1:
		return Exclusive, true
	case n > 1 && n <= MaxCapacity:
		return Capacity(n), true
	default:
		return 0, false
	}
}

// ownership is the answer of a script that acts only on a lock of ours.
type ownership int64

const (
	ours    ownership = 1
	gone    ownership = 0
	another ownership = -1
	revoked ownership = -2
)

func parseOwnership(op string, reply any) (ownership, error) {
	state, ok := reply.(int64)
	if !ok || state < -2 || state > 1 {
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
