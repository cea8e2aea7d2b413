package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// lockStatus is what status prints with --json, and list of each lock. Its
// fields are told in docs/status.md and stay as they are. What is not known is
// null.
type lockStatus struct {
	Key         string         `json:"key"` // the full name of the lock
	State       string         `json:"state"`
	Mode        *string        `json:"mode"`
	Slots       *int           `json:"slots"`
	RemainingMS *int64         `json:"remaining_ms"`
	LastFence   *int64         `json:"last_fence"`
	HolderCount int            `json:"holder_count"`
	Holders     []holdStatus   `json:"holders"`
	WaiterCount int            `json:"waiter_count"`
	Waiters     []waiterStatus `json:"waiters"`
	Done        []doneStatus   `json:"done"`
	Servers     []serverStatus `json:"servers,omitempty"` // of a quorum
}

type holdStatus struct {
	State       string        `json:"state"`
	RemainingMS *int64        `json:"remaining_ms"`
	HeldMS      *int64        `json:"held_ms"`
	Holder      *holderStatus `json:"holder"`
}

type holderStatus struct {
	Host    string     `json:"host"`
	PID     int        `json:"pid"`
	Label   string     `json:"label"`
	Command string     `json:"command"`
	Since   *time.Time `json:"since"`
	Fence   *int64     `json:"fence"`
}

type waiterStatus struct {
	Position  int           `json:"position"`
	Mode      *string       `json:"mode"`
	Slots     *int          `json:"slots"`
	HeardOfMS int64         `json:"heard_of_ms"`
	Waiter    *holderStatus `json:"waiter"`
}

type doneStatus struct {
	ID          string `json:"id"`
	RemainingMS int64  `json:"remaining_ms"`
}

type serverStatus struct {
	Server string        `json:"server"`
	Agrees bool          `json:"agrees"`
	State  *string       `json:"state"`
	Holder *holderStatus `json:"holder"`
	Error  string        `json:"error,omitempty"`
}

func newLockStatus(seen look) lockStatus {
	s := seen.snapshot
	status := lockStatus{
		Key: s.Name, State: s.State.String(), HolderCount: s.Held, WaiterCount: s.Waiting,
		Holders: []holdStatus{}, Waiters: []waiterStatus{},
	}
	status.Mode, status.Slots = modeStatus(s.Capacity, s.CapacityKnown)
	if s.State != lock.StateFree {
		status.RemainingMS = millisOrNull(s.Remaining)
	}
	if s.Fence > 0 {
		status.LastFence = &s.Fence
	}
	for _, h := range s.Holders {
		hold := holdStatus{State: h.State.String(), RemainingMS: millisOrNull(h.Remaining), Holder: newHolderStatus(h.Holder)}
		if h.Holder != nil {
			hold.HeldMS = millisOrNull(h.HeldFor)
		}
		status.Holders = append(status.Holders, hold)
	}
	for i, w := range s.Waiters {
		waiter := waiterStatus{Position: i + 1, HeardOfMS: w.Silent.Milliseconds(), Waiter: newHolderStatus(w.Holder)}
		waiter.Mode, waiter.Slots = modeStatus(w.Capacity, w.CapacityKnown)
		status.Waiters = append(status.Waiters, waiter)
	}
	if seen.looked {
		status.Done = []doneStatus{}
	}
	for _, m := range seen.markers {
		status.Done = append(status.Done, doneStatus{m.ID, m.Remaining.Milliseconds()})
	}
	for _, server := range s.Servers {
		status.Servers = append(status.Servers, newServerStatus(server))
	}
	return status
}

func newServerStatus(server lock.ServerView) serverStatus {
	s := serverStatus{Server: server.Place, Agrees: server.Agrees}
	if server.Err != nil {
		s.Error = printable(server.Err.Error())
		return s
	}
	s.State = new(server.State.String())
	s.Holder = newHolderStatus(server.Holder)
	return s
}

func newHolderStatus(h *lock.Holder) *holderStatus {
	if h == nil {
		return nil
	}
	s := &holderStatus{Host: h.Host, PID: h.PID, Label: h.Label, Command: h.Command, Since: timeOrNull(h.Since())}
	if h.Fence > 0 {
		s.Fence = &h.Fence
	}
	return s
}

// modeStatus is the mode in a word, and of slots their number.
func modeStatus(capacity lock.Capacity, known bool) (mode *string, slots *int) {
	switch {
	case !known:
		return nil, nil
	case capacity == lock.Exclusive, capacity == lock.Shared:
		return new(capacity.String()), nil
	default:
		return new("slots"), new(int(capacity))
	}
}

func millisOrNull(d time.Duration) *int64 {
	if d == lock.NoExpiry {
		return nil
	}
	return new(d.Milliseconds())
}

// printJSON writes a value as a line in which nothing can steer a terminal: a
// key can have any name, an ID any text.
func printJSON(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	for _, r := range string(text) {
		switch {
		case unicode.IsPrint(r):
			line.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&line, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&line, `\u%04x`, r)
		}
	}
	line.WriteByte('\n')
	_, err = w.Write(line.Bytes())
	return err
}
