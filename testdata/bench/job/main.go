// Job is the command that the benchmark has its tools run. It notes in WORK/N
// its process ID, when it started and ended, in nanoseconds since 1970, and
// whether job 0 was still alive when it started:
//
//	job WORK N
//
// Job 0 goes on until WORK/go is there, or WORK is not, and for five minutes
// at most.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"time"
)

func main() {
	start := time.Now()
	if err := job(os.Args[1], os.Args[2], start); err != nil {
		log.Fatal(err)
	}
}

func job(work, number string, start time.Time) error {
	overlaps := false
	if number == "0" {
		if err := note(work, number, start, time.Time{}, false); err != nil {
			return err
		}
		for time.Since(start) < 5*time.Minute {
			_, err := os.Stat(filepath.Join(work, "go"))
			_, gone := os.Stat(work)
			if err == nil || gone != nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
	} else {
		overlaps = firstIsAlive(work)
	}
	if _, err := os.Stat(work); errors.Is(err, fs.ErrNotExist) {
		return nil // nobody wants to know any more
	}
	return note(work, number, start, time.Now(), overlaps)
}

// note writes the file at once, as others look at it all the time.
func note(work, number string, start, end time.Time, overlaps bool) error {
	ended := int64(0)
	if !end.IsZero() {
		ended = end.UnixNano()
	}
	file := filepath.Join(work, number)
	text := fmt.Appendf(nil, "%d %d %d %t\n", os.Getpid(), start.UnixNano(), ended, overlaps)
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// firstIsAlive reports whether job 0 has not ended: neither by itself nor by a
// signal. One whose end nobody has taken note of yet is dead all the same.
func firstIsAlive(work string) bool {
	text, err := os.ReadFile(filepath.Join(work, "0"))
	var pid int
	var start, end int64
	if err != nil {
		return false
	}
	if _, err := fmt.Sscan(string(text), &pid, &start, &end); err != nil || end != 0 {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := stat[bytes.LastIndexByte(stat, ')')+1:]
	return !bytes.HasPrefix(state, []byte(" Z"))
}
