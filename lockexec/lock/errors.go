package lock

import (
	"errors"
	"fmt"
	"time"
)

// The kinds of failure, for errors.Is.
var (
	// ErrLocked: another holder has the lock. As a [*HeldError].
	ErrLocked = errors.New("the lock is held by another")

	// ErrDone: what the lock is for was done already. See Request.Once.
	ErrDone = errors.New("it was done already")

	// ErrLost: we had the lock, and it is gone, another's, or no longer
	// certain. As a [*LostError].
	ErrLost = errors.New("the lock was lost")

	// ErrUnavailable: the server could not be reached, or refused for now.
	// As a [*ServerError].
	ErrUnavailable = errors.New("redis is unavailable")

	// ErrNotPermitted: the server wants other credentials or rights.
	// As a [*ServerError].
	ErrNotPermitted = errors.New("redis does not permit it")
)

// HeldError is the refusal of a lock that another holds.
type HeldError struct {
	Name string

	// Holder is what the holder said of itself, or nil for a lock that was
	// set by another program, which leaves no record.
	Holder *Holder

	// HeldFor is the time since the lock was taken, by the server's clock;
	// zero without a holder record.
	HeldFor time.Duration

	// Remaining is the time until the lock expires unless it is renewed.
	// NoExpiry when it has no TTL: no lock client left it so.
	Remaining time.Duration

	// Waiting is how many others wait in line for it.
	Waiting int

	// Revoked: nobody has it any more, but its last holder may still be about
	// to stop, for Remaining at most.
	Revoked bool
}

// NoExpiry stands for the remaining time of a key without TTL.
const NoExpiry time.Duration = -1

func (e *HeldError) Error() string {
	if e.Revoked {
		return e.Name + " was revoked, and is free as soon as its holder has stopped"
	}
	if e.Holder == nil {
		return fmt.Sprintf("%s is held by another program", e.Name)
	}
	return fmt.Sprintf("%s is held by %s (pid %d)", e.Name, e.Holder.Label, e.Holder.PID)
}

// Is reports whether target is [ErrLocked].
func (e *HeldError) Is(target error) bool { return target == ErrLocked }

// CapacityError is a lock that others use with another capacity.
type CapacityError struct {
	Name         string
	Wanted, Used Capacity
}

func (e *CapacityError) Error() string {
	return fmt.Sprintf("%s is used by others as %s, not as %s", e.Name, e.Used, e.Wanted)
}

// LossReason says how a lease ended before its owner did.
type LossReason int

// How a lock is lost.
const (
	LossMissing  LossReason = iota // the key is gone: expired, deleted, or lost by the server
	LossReplaced                   // another's value stands in it
	LossExpired                    // no renewal succeeded in time
	LossRevoked                    // somebody took it away: see Locker.Revoke
)

func (r LossReason) String() string {
	switch r {
	case LossMissing:
		return "its key is gone from Redis"
	case LossReplaced:
		return "its key holds another's value"
	case LossExpired:
		return "it could not be renewed in time"
	case LossRevoked:
		return "it was revoked (release --force)"
	default:
		return fmt.Sprintf("LossReason(%d)", int(r))
	}
}

// LostError says how a lease was lost.
type LostError struct {
	Name   string
	Reason LossReason
	Cause  error // the last failure to renew, for LossExpired; may be nil
}

func (e *LostError) Error() string {
	text := fmt.Sprintf("%s was lost: %s", e.Name, e.Reason)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Is reports whether target is [ErrLost].
func (e *LostError) Is(target error) bool { return target == ErrLost }

// The cause is told but not unwrapped: an error is lost or unavailable, never
// both.

// ServerError is a failed exchange with the server: what was asked for is
// unknown or did not happen.
type ServerError struct {
	Op    string // "acquire", "renew", "release", "refresh", "inspect", "revoke"
	Name  string // of the lock
	Place string // the server's address, without credentials
	Fault Fault
	Err   error // as the client or the server put it

	partly bool // some servers of a quorum did what was asked
}

func (e *ServerError) Error() string {
	return fmt.Sprintf("%s %s at %s: %s", e.Op, e.Name, e.Place, e.Reason())
}

// Reason is what went wrong, without what was asked of whom.
func (e *ServerError) Reason() string { return faultText(e.Fault, e.Err) }

// Is reports whether target is the kind of this fault: [ErrNotPermitted] or
// [ErrUnavailable].
func (e *ServerError) Is(target error) bool {
	if e.Fault.permission() {
		return target == ErrNotPermitted
	}
	return target == ErrUnavailable
}

func (e *ServerError) Unwrap() error { return e.Err }
