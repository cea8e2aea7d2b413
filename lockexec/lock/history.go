package lock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxHistory is the most runs that a history keeps. They are kept for 90 days
// after the last one was added.
const MaxHistory = 10_000

// How says in a word how a lock was given up.
type How string

// How a lock was given up.
const (
	Exited      How = "exited"      // the command ended by itself: Code
	Signaled    How = "signaled"    // the command died of a signal: Signal
	TimedOut    How = "timed_out"   // the command ran for too long, and was stopped
	Lost        How = "lost"        // the lock was lost, and the command stopped for it: Reason
	Revoked     How = "revoked"     // it was taken away by force, and the command stopped for it
	NotStarted  How = "not_started" // the command could not be started: Reason
	Interrupted How = "interrupted" // a signal came before the command was started: Signal
	Killed      How = "killed"      // what watched over the command died, and the command was killed for it: Reason
	Failed      How = "failed"      // another fault: Reason
	Released    How = "released"    // by its token, by who had acquired it

	// Of these there is no [End] in Redis.
	Unknown How = "unknown" // nobody gave it up: the holder died, or could not reach Redis any more
	Held    How = "held"    // not yet
)

// End is how a lock was given up.
type End struct {
	How    How    `json:"how"`
	Code   int    `json:"code,omitempty"`
	Signal string `json:"signal,omitempty"` // its name, such as SIGTERM
	Reason string `json:"reason,omitempty"`

	// By the clock of the holder; 0 where it does not tell.
	HeldMillis   int64 `json:"held_ms,omitempty"`
	WaitedMillis int64 `json:"waited_ms,omitempty"` // in line
}

// Hold is one time that a lock was held. All instants are by the server's
// clock, and zero where they are not known.
type Hold struct {
	Holder Holder
	End    End
	Since  time.Time
	Until  time.Time // zero also while it is held
	Waited time.Duration

	// Found is when somebody found that an Unknown one had ended.
	Found time.Time

	// LockLost: the lock was gone, or another's, when it was to be released.
	LockLost bool
}

// Length returns for how long the lock was held, or false if that is not known.
func (h Hold) Length() (time.Duration, bool) {
	if h.Since.IsZero() || h.Until.IsZero() {
		return 0, false
	}
	return max(0, h.Until.Sub(h.Since)), true
}

// Record has the release note the end in the history of the lock, in the same
// exchange; of it, size runs are kept, and 0 keeps none. What can't be noted is
// left out: no release fails for it. Record must not be called while Release
// runs.
func (l *Lease) Record(size int, end End) {
	l.history, l.end = size, ""
	if size <= 0 {
		return
	}
	end.Reason = printable(end.Reason)
	if text, err := json.Marshal(end); err == nil {
		l.end = string(text)
	}
}

// historyRecord is the holder record, for a history that finds none in Redis;
// "" where this process has none.
func (l *Lease) historyRecord() string {
	if l.record == "" || l.end == "" {
		return ""
	}
	return fmt.Sprintf(`%s,"fence":%d}`, strings.TrimSuffix(l.record, "}"), l.fence)
}

// History returns the last times that the lock was held, the newest first, as
// far as their holders had [Request.History] set; those who hold it now come
// before all. It tries until ctx is done while the server can't be reached.
func (l *Locker) History(ctx context.Context, name string, budget time.Duration) ([]Hold, error) {
	if l.quorum() {
		return nil, ErrQuorum
	}
	lease := l.lease(name, "", DefaultTTL)
	keys := []string{name, beside("holders", name), beside("history", name)}
	for retry := (backoff{most: lastBackoff}); ; {
		answer := lease.ask(ctx, budget, reading, keys).got[0]
		if answer.err == nil {
			holds, err := parseHistory(answer.reply)
			if err != nil {
				return nil, lease.failure(answer.server, reading, err, FaultOther)
			}
			return holds, nil
		}
		failure, _ := errors.AsType[*ServerError](answer.err)
		if failure == nil || !failure.Fault.passing() || !retry.sleep(ctx, budget) {
			return nil, answer.err
		}
	}
}

// parseHistory reads the reply of history.lua. Entries that make no sense are
// passed over: anybody could have written them.
func parseHistory(reply any) ([]Hold, error) {
	parts, ok := reply.([]any)
	if !ok || len(parts) != 2 {
		return nil, badReply("history", reply)
	}
	records, ok := parts[0].([]any)
	entries, ok2 := parts[1].([]any)
	if !ok || !ok2 {
		return nil, badReply("history", reply)
	}
	var holds []Hold
	for _, record := range records {
		text, _ := record.(string)
		if holder := decodeHolder(text); holder != nil {
			holds = append(holds, Hold{Holder: *holder, End: End{How: Held}, Since: holder.Since()})
		}
	}
	for _, entry := range entries {
		if hold, ok := parseHold(entry); ok {
			holds = append(holds, hold)
		}
	}
	return onePerFence(holds), nil
}

func parseHold(entry any) (Hold, bool) {
	pair, ok := entry.([]any)
	if !ok || len(pair) != 2 {
		return Hold{}, false
	}
	id, _ := pair[0].(string)
	words, _ := pair[1].([]any)
	fields := map[string]string{}
	for i := 0; i+1 < len(words); i += 2 {
		name, _ := words[i].(string)
		fields[name], _ = words[i+1].(string)
	}
	millisText, _, _ := strings.Cut(id, "-")
	written, err := strconv.ParseInt(millisText, 10, 64)
	holder := decodeHolder(fields["holder"])
	if err != nil || holder == nil {
		return Hold{}, false
	}
	hold := Hold{Holder: *holder, End: End{How: Unknown}, Since: holder.Since()}
	if fields["end"] == "" {
		hold.Found = instant(written)
		return hold, true
	}
	if json.Unmarshal([]byte(fields["end"]), &hold.End) != nil {
		return Hold{}, false
	}
	end := &hold.End
	end.How, end.Signal, end.Reason = How(printable(string(end.How))), printable(end.Signal), printable(end.Reason)
	hold.Until = instant(written)
	hold.Waited = max(0, millis(end.WaitedMillis))
	hold.LockLost = fields["lock"] != "1"
	if hold.Since.IsZero() && end.HeldMillis > 0 {
		hold.Since = hold.Until.Add(-millis(end.HeldMillis))
	}
	return hold, true
}

// onePerFence leaves one of those that are the same: a release that was sent
// twice, as its reply was lost, and the late word of one who was held for dead.
// What knows an end says more than what does not, and of two ends the first was
// told when it happened.
func onePerFence(holds []Hold) []Hold {
	at := map[int64]int{}
	var kept []Hold
	for _, hold := range holds {
		fence := hold.Holder.Fence
		i, seen := at[fence]
		switch {
		case fence == 0 || !seen:
			at[fence] = len(kept)
			kept = append(kept, hold)
		case hold.End.How != Unknown || kept[i].End.How == Unknown:
			kept[i] = hold
		}
	}
	slices.SortStableFunc(kept, func(a, b Hold) int {
		if (a.End.How == Held) != (b.End.How == Held) {
			return map[bool]int{true: -1, false: 1}[a.End.How == Held]
		}
		return cmp.Compare(b.written().UnixMilli(), a.written().UnixMilli())
	})
	return kept
}

func (h Hold) written() time.Time {
	if h.Until.IsZero() {
		return h.Found
	}
	return h.Until
}

// maxInstant is the year 10000, which RFC 3339 has no times of.
const maxInstant = 253_402_300_800_000

// instant is a time that the server gave in ms since 1970; 0 is none, and so is
// one that can't be told.
func instant(ms int64) time.Time {
	if ms <= 0 || ms >= maxInstant {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
