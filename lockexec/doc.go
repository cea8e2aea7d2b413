// Package lockexec runs work under a distributed lock in Redis, so that of
// many machines that start the same work at the same time one does it.
//
// [PerformLockedWork] runs a function; [Run] runs a command, and is what the
// redlockrun tool does. Both take the lock with one atomic command, keep it
// while the work runs, and release it by comparing its token first:
//
//   - a lock is never looked at first and then set: SET NX decides;
//   - a lock always has a TTL, set together with it, so that a crash frees it;
//   - a release never deletes a lock that is another's by now.
//
// [ErrLocked] says that another has the lock; that is the usual answer to all
// workers but one, and no failure.
//
// # What may be touched here
//
// This package joins lock (the lease) and proc (the process) and knows both.
// Neither knows the other. Words for people and exit codes are package cmd's.
package lockexec

import "github.com/redlockrun/redlockrun/lockexec/lock"

// The kinds of failure of this package, for errors.Is. See package lock for
// the types behind the first four.
var (
	ErrLocked       = lock.ErrLocked
	ErrDone         = lock.ErrDone
	ErrLost         = lock.ErrLost
	ErrUnavailable  = lock.ErrUnavailable
	ErrNotPermitted = lock.ErrNotPermitted
)
