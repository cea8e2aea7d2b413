//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// A history is a file to which all that take part add lines, each by a single
// write at its end. The second field of each is an instant of the clock that
// leases are counted on, which is the same for all processes of a machine:
//
//	launch T RUN                                    redlockrun was started
//	enter  T RUN PID KEY CAPACITY FENCE             the guarded work began
//	stamp  T RUN                                    and was seen to go on
//	leave  T RUN                                    and ended by itself
//	end    T RUN HOW                                redlockrun ended
//	lossy  T KIND BEGIN                             a fault, since BEGIN, that may lose locks
//	fault  T KIND BEGIN                             any other
//	wrong  T TEXT                                   what was seen to be wrong meanwhile
//
// Who writes takes the time first and writes then: work that is told of went on
// at that instant at least.
type history struct{ file *os.File }

func openHistory(path string) (*history, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &history{file}, nil
}

func (h *history) close() error { return h.file.Close() }

// add writes a line about this instant.
func (h *history) add(kind string, fields ...any) error { return h.addAt(lock.Now(), kind, fields...) }

func (h *history) addAt(at lock.Instant, kind string, fields ...any) error {
	_, err := h.file.WriteString(kind + " " + fmt.Sprintln(append([]any{int64(at)}, fields...)...))
	return err
}

// run is one call of redlockrun, and the work that it guarded, if it got so far.
type run struct {
	id       string
	key      string
	capacity int // 1 alone, 0 any number of those who share, N at most N
	fence    int64

	launch, enter, last lock.Instant // enter is 0 for work that never began
}

// window is a time in which a fault was played that may lose locks.
type window struct {
	kind       string
	begin, end lock.Instant
}

// readHistory returns the runs that did their work, in the order in which they
// began it, and the faults that may have lost locks.
func readHistory(r io.Reader) ([]*run, []window, error) {
	runs := map[string]*run{}
	var lossy []window
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		if err := readLine(lines.Text(), runs, &lossy); err != nil {
			return nil, nil, fmt.Errorf("line %d, %q: %w", number, lines.Text(), err)
		}
	}
	var entered []*run
	for _, r := range runs {
		if r.enter != 0 {
			entered = append(entered, r)
		}
	}
	slices.SortFunc(entered, byEnter)
	return entered, lossy, lines.Err()
}

func readLine(line string, runs map[string]*run, lossy *[]window) error {
	kind, rest, _ := strings.Cut(line, " ")
	var at lock.Instant
	var name string
	if _, err := fmt.Sscan(rest, &at, &name); err != nil {
		return err
	}
	if kind == "lossy" || kind == "fault" {
		var begin lock.Instant
		_, err := fmt.Sscan(rest, &at, &name, &begin)
		if kind == "lossy" {
			*lossy = append(*lossy, window{name, begin, at})
		}
		return err
	}
	if kind == "wrong" {
		return nil
	}
	r := runs[name]
	if r == nil {
		r = &run{id: name}
		runs[name] = r
	}
	switch kind {
	case "launch":
		r.launch = at
	case "enter":
		r.enter, r.last = at, max(r.last, at)
		var pid int
		_, err := fmt.Sscan(rest, &at, &name, &pid, &r.key, &r.capacity, &r.fence)
		return err
	case "stamp", "leave":
		r.last = max(r.last, at)
	case "end":
	default:
		return fmt.Errorf("there is no such kind")
	}
	return nil
}

func byEnter(a, b *run) int { return int(min(max(a.enter-b.enter, -1), 1)) }
