package lock

import "time"

// Instant is a point in time on a clock of this machine that also counts the
// time it sleeps. Instants of different processes or machines don't compare.
type Instant time.Duration

// Now returns the present instant: CLOCK_BOOTTIME on Linux, as the
// monotonic clock that package time uses stands still while the machine is
// suspended, and the lease does not. Elsewhere the later of the monotonic and
// the wall clock: a jump of the wall clock may end a lease early, never late.
func Now() Instant { return now() }

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Until returns the time from now to i on this clock; negative when i is past.
func (i Instant) Until(now Instant) time.Duration { return time.Duration(i - now) }
