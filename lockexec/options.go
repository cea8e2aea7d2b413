package lockexec

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// The variables by which a child learns of the lock that it runs under.
const (
	EnvKey   = "REDLOCKRUN_LOCK_KEY"   // the full name of the lock
	EnvToken = "REDLOCKRUN_LOCK_TOKEN" //nolint:gosec // the name of the variable with the holder's token
	EnvFence = "REDLOCKRUN_LOCK_FENCE" // the fencing number
)

// ErrStatusUnknown is returned by [Run] when the command has ended, and another
// part of this program, such as one that waits for any child, has learned how in
// its place. It counts as no success.
var ErrStatusUnknown = errors.New("the command has ended, but how was told to another part of this program")

// ErrTimeout is returned by [Run] when the command was stopped because
// [Options.Timeout] was over.
var ErrTimeout = errors.New("the command ran for too long and was stopped")

// InterruptedError is returned by [Run] when a signal asked it to stop before
// the command was started. Nothing is left in Redis.
type InterruptedError struct{ Signal syscall.Signal }

func (e *InterruptedError) Error() string {
	return "stopped by " + proc.SignalName(e.Signal) + " before the command was started"
}

// OnLost is what becomes of the command when its lock is lost.
type OnLost int

// What to do when the lock is lost.
const (
	Terminate   OnLost = iota // stop the command before another can hold the lock
	WarnAndKeep               // let it run, knowing that another may run too
)

// Leftovers is what becomes of what the command left running when it ended.
type Leftovers int

// What to do with leftovers. The lock is kept until they have ended, unless
// they are left.
const (
	KillLeftovers  Leftovers = iota // KillAfter to end by themselves, then StopSignal, then KILL
	AwaitLeftovers                  // all the time they want; a signal that asks to stop stops them
	LeaveLeftovers                  // let them run, without the lock
)

// Options say how [Run] locks and runs. Name and Command are required; the
// zero value of all else is the default of the redlockrun tool.
type Options struct {
	// Name is the full name of the lock, as from [lock.Name].
	Name string

	// Command is the program and its arguments. The program is searched for
	// in PATH, before Redis is asked for anything.
	Command []string

	// Env is the environment of the command; nil is that of this process.
	// The variables of the lock are added to it.
	Env []string

	// Capacity, Wait, OnWait and Once: see lock.Request. When it was done
	// already, Run returns ErrDone.
	Capacity lock.Capacity

	// Replicas: see lock.Request.
	Replicas int

	Wait   time.Duration
	OnWait func(lock.Waiting)
	Once   string

	// OnceTTL is how long a success is remembered, a millisecond at least; a
	// week.
	OnceTTL time.Duration

	// MinHold keeps the lock from others for this long since it was taken,
	// also when the command ends sooner. Run does not wait for it.
	MinHold time.Duration

	// History is how many of the last runs of this lock Redis remembers; see
	// [lock.Locker.History].
	History int

	TTL            time.Duration  // of the lease, see lock.Request; 15 s
	ConnectTimeout time.Duration  // see lock.Request; 5 s
	Timeout        time.Duration  // stop the command after this long; 0 is never
	KillAfter      time.Duration  // from the stop signal to KILL; DefaultKillAfter
	StopSignal     syscall.Signal // asks the command to stop; SIGTERM
	OnLost         OnLost
	Leftovers      Leftovers

	// Label is shown to those who find the lock taken; the host's name.
	Label string

	// ShowArgs puts the command's arguments into the holder record, where
	// everyone who can read Redis sees them.
	ShowArgs bool

	// PID is shown with it; that of this process.
	PID int

	// Token: see lock.Request.
	Token string

	// Signals are passed on to the command as they come. One that asks to
	// stop and comes before the command was started ends Run instead. The
	// channel may be closed when no more will come. Use
	// [proc.Forwardable] with signal.Notify. SIGCONT continues the command
	// only after the lease was renewed. The third SIGINT in a row, each within
	// two seconds of the one before, kills it.
	Signals <-chan os.Signal

	// SignalGroup passes them on to all members of the command's own group.
	SignalGroup bool

	// Where the command runs: see proc.Command for all of these. Its default
	// is a group of its own, in which it can't read from a terminal.
	Group     int
	Terminal  *proc.Terminal
	Unignored []os.Signal
	Adopt     bool
	Cgroup    string
	Spare     func(pid int) bool

	// Observe is told what happens, as it happens, on the goroutine that
	// watches over the command: it must not wait for anything.
	Observe func(Event)

	// Log gets what happens, never anything secret: warnings and errors are
	// for people; Info and Debug tell the story of a run. nil is silence.
	Log *slog.Logger
}

// DefaultOnceTTL is how long a success is remembered, see [Options.Once].
const DefaultOnceTTL = 7 * 24 * time.Hour

// DefaultKillAfter is the time from the stop signal to KILL for a given ttl:
// 5 s, or a third of the ttl if that is less.
func DefaultKillAfter(ttl time.Duration) time.Duration { return min(5*time.Second, ttl/3) }

// CheckKillAfter says what is wrong with a kill-after for the ttl, or returns
// nil. Above half of the ttl, the stop of the command would have to begin
// before a renewal, which comes at a third, had its time.
func CheckKillAfter(killAfter, ttl time.Duration) error {
	switch {
	case killAfter < 0:
		return fmt.Errorf("%v is negative", killAfter)
	case killAfter > ttl/2:
		return fmt.Errorf("%v is more than half of the ttl of %v", killAfter, ttl)
	}
	return nil
}

// Event is one thing that happened in a run.
type Event struct {
	Kind    EventKind
	SafeEnd lock.Instant   // Acquired, Extended: of the lease, see lock.Lease.SafeEnd
	PID     int            // Started: of the command
	Signal  syscall.Signal // Stopped: by what
	Status  proc.Status    // Exited, Gone: of the command
	Err     error          // Gone: what [Run] will return
}

// EventKind is what an [Event] tells of.
type EventKind int

// In the order in which they come, each once but for those marked so.
const (
	Acquired  EventKind = iota // the lock
	Started                    // the command
	Extended                   // the lease was renewed; many times
	Stopped                    // the command was stopped as a job is; many times
	Continued                  // and continued; many times
	Exited                     // the command itself has ended
	Gone                       // and all that it started: nothing runs under the lock any more
)

func (o *Options) setDefaults() {
	if o.TTL == 0 {
		o.TTL = lock.DefaultTTL
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = lock.DefaultConnectTimeout
	}
	if o.KillAfter == 0 {
		o.KillAfter = DefaultKillAfter(o.TTL)
	}
	if o.OnceTTL == 0 {
		o.OnceTTL = DefaultOnceTTL
	}
	if o.StopSignal == 0 {
		o.StopSignal = syscall.SIGTERM
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if o.PID == 0 {
		o.PID = os.Getpid()
	}
	if o.Observe == nil {
		o.Observe = func(Event) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}
