// Package lock takes, keeps and releases locks in Redis.
//
// A [Locker] speaks to one server. [Locker.Acquire] returns a [Lease]: the
// right to act until [Lease.SafeEnd], an instant of this machine's clock that
// lies before the server forgets the lock. [Lease.Keep] renews it for as long
// as its owner works; [Lease.Release] ends it.
//
// Three answers are told apart everywhere, as their remedies differ:
//
//   - held: another has the lock ([ErrLocked]);
//   - lost: we had it, and it is gone or another's ([ErrLost]); final;
//   - unknown: the server did not answer, or refused ([ErrUnavailable],
//     [ErrNotPermitted]); the lock may or may not be ours, so the work must
//     not start, and a lease counts until its safe end, no longer.
//
// # What may be touched here
//
// Everything that changes a key is one Lua script under scripts/, which
// compares the token before it acts, sets a TTL in the same script as the
// key, and declares all its keys. All other keys of a lock carry the lock's
// hash tag, so that they share its Cluster slot. Times are compared on one
// clock at a time: Redis's own in scripts, [Now] in this process.
//
// The package knows nothing of processes, flags or exit codes.
package lock
