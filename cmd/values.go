package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// The flag values: each says what is wrong in a clause that follows the name
// of the setting, wherever the value came from.

// durationValue is a span of time, as time.ParseDuration reads it.
type durationValue struct{ to *time.Duration }

func (v durationValue) String() string {
	if v.to == nil || *v.to == 0 {
		return ""
	}
	return shortDuration(*v.to)
}

func (durationValue) Type() string { return "duration" }

func (v durationValue) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("is no duration" + durationHint(text))
	}
	if d < 0 {
		return errors.New("is negative")
	}
	*v.to = d
	return nil
}

func durationHint(text string) string {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return fmt.Sprintf(": write the unit, such as %ss or %sms", text, text)
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil {
			return fmt.Sprintf(": there are no days, write %gh", n*24)
		}
	}
	return ": write one like 500ms, 15s, 5m or 1h30m"
}

// shortDuration writes 1h0m0s as 1h.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// choice is one of a few words.
type choice[T ~string] struct {
	to    *T
	words []T
}

func newChoice[T ~string](to *T, preset T, words ...T) choice[T] {
	*to = preset
	return choice[T]{to, words}
}

func (v choice[T]) String() string {
	if v.to == nil {
		return ""
	}
	return string(*v.to)
}

func (choice[T]) Type() string { return "word" }

func (v choice[T]) choices() []string {
	words := make([]string, len(v.words))
	for i, word := range v.words {
		words[i] = string(word)
	}
	return words
}

func (v choice[T]) Set(text string) error {
	if !slices.Contains(v.words, T(text)) {
		words := v.choices()
		return fmt.Errorf("is none of %s%s", strings.Join(words, ", "), didYouMean(closest(text, words)))
	}
	*v.to = T(text)
	return nil
}

// signalValue is a signal by name or number.
type signalValue struct{ to *syscall.Signal }

func (v signalValue) String() string {
	if v.to == nil || *v.to == 0 {
		return ""
	}
	return strings.TrimPrefix(proc.SignalName(*v.to), "SIG")
}

func (signalValue) Type() string { return "signal" }

func (v signalValue) Set(text string) error {
	sig, err := proc.ParseSignal(text)
	if err != nil {
		return errors.New("is no signal: give a name like TERM, INT or USR1, or a number")
	}
	*v.to = sig
	return nil
}

// codeValue is an exit code.
type codeValue struct{ to *int }

func (v codeValue) String() string {
	if v.to == nil {
		return ""
	}
	return strconv.Itoa(*v.to)
}

func (codeValue) Type() string { return "code" }

func (v codeValue) Set(text string) error {
	code, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return errors.New("is no exit code: they go from 0 to 255")
	}
	*v.to = int(code)
	return nil
}

// closest returns the candidate that is likely meant by a mistyped word, or "".
func closest(word string, candidates []string) string {
	best, bestDistance := "", 3 // two slips at most
	for _, candidate := range candidates {
		distance := editDistance(strings.ToLower(word), candidate)
		if len(word) > 2 && strings.HasPrefix(candidate, word) {
			distance = min(distance, 1)
		}
		if distance < bestDistance && distance < len(candidate) {
			best, bestDistance = candidate, distance
		}
	}
	return best
}

// editDistance counts the insertions, deletions, substitutions and swaps of
// neighbours between a and b (optimal string alignment).
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			substitution := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				substitution++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, substitution)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// waitValue is a time to wait: a duration, or forever.
type waitValue struct{ to *time.Duration }

const forever = "forever"

func (v waitValue) String() string {
	switch {
	case v.to == nil || *v.to == 0:
		return ""
	case *v.to == lock.Forever:
		return forever
	default:
		return durationValue(v).String()
	}
}

func (waitValue) Type() string { return "wait" }

func (v waitValue) Set(text string) error {
	if text == forever {
		*v.to = lock.Forever
		return nil
	}
	err := durationValue(v).Set(text)
	if err == nil || strings.HasPrefix(text, "-") {
		return err
	}
	return fmt.Errorf("%w, or forever", err)
}

// slotsValue is a number of holders.
type countValue struct {
	to          *int
	least, most int
}

func (v countValue) String() string {
	if v.to == nil {
		return ""
	}
	return strconv.Itoa(*v.to)
}

func (countValue) Type() string { return "number" }

func (v countValue) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || int(n) < v.least || int(n) > v.most {
		return fmt.Errorf("is no number from %d to %d", v.least, v.most)
	}
	*v.to = int(n)
	return nil
}
