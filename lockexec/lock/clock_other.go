//go:build !linux

package lock

import (
	"sync"
	"time"
)

// start is read once, at the first use; an Instant is the time since.
var start = sync.OnceValue(time.Now)

func now() Instant {
	begin := start()
	present := time.Now()
	monotonic := present.Sub(begin)
	wall := present.Round(0).Sub(begin.Round(0)) // Round(0) drops the monotonic reading
	return Instant(max(monotonic, wall))
}
