package lock

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Holder is what a holder tells those who find the lock taken. It is kept
// beside the lock, in clear: nothing secret belongs in it.
type Holder struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Command string `json:"command,omitempty"` // the program's name, or with its arguments
	Label   string `json:"label"`             // shown instead of the host name

	// Slots is the capacity that it holds the lock with: 1 alone, 0 shared.
	// Filled in by Acquire.
	Slots int `json:"slots"`

	// Filled in by the server when the lock is taken.
	SinceMillis int64 `json:"since,omitempty"` // by the server's clock, since 1970
	Fence       int64 `json:"fence,omitempty"`
}

// Since is when the lock was taken, by the server's clock: the zero time if that
// is not told, or can't be.
func (h *Holder) Since() time.Time { return instant(h.SinceMillis) }

// maxHolderText is the most of any one text that a record carries, in bytes.
const maxHolderText = 256

// NewHolder describes this process, which runs command. An empty label stands
// for the host's name. Long texts are cut.
func NewHolder(label, command string) Holder {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	if label == "" {
		label = host
	}
	return Holder{
		Host:    clip(host),
		PID:     os.Getpid(),
		Command: clip(command),
		Label:   clip(label),
	}
}

func (h Holder) encode() (string, error) {
	h.SinceMillis, h.Fence = 0, 0
	text, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("encode the holder record: %w", err)
	}
	return string(text), nil
}

// decodeHolder reads a record that any program could have written: one that
// makes no sense is no record, and its texts can't steer a terminal.
func decodeHolder(record string) *Holder {
	var h Holder
	if record == "" || json.Unmarshal([]byte(record), &h) != nil {
		return nil
	}
	h.Host, h.Command, h.Label = printable(h.Host), printable(h.Command), printable(h.Label)
	if h.Label == "" {
		h.Label = h.Host
	}
	return &h
}

func printable(s string) string {
	return clip(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s))
}

func clip(s string) string {
	if len(s) <= maxHolderText {
		return s
	}
	cut := maxHolderText - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
