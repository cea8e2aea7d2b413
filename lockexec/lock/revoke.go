package lock

import (
	"context"
	"errors"
	"time"
)

// Revocation is what [Locker.Revoke] has done.
type Revocation struct {
	Revoked int           // so many have lost the lock
	Others  int           // so many hold it who did not when the snapshot was taken
	FreeIn  time.Duration // the lock is free after that at the latest, unless it has Others
}

// Revoke takes the lock from those who hold it in the snapshot, and from nobody
// else.
//
// It is not free by that: something else stands in it for as long as the leases
// would have lasted. A holder finds out at its next renewal that it has lost the
// lock ([LossRevoked]), and stops what it does before its lease ends; its
// release, or that end, then gives the lock to the next one. So nobody overlaps
// who would not overlap by a holder that died.
//
// With atOnce the lock is free at once, also one without a time to live, and the
// next one may have it while a holder has not yet noticed.
//
// Revoke tries until ctx is done while the server can't be reached, and fails
// like [Locker.Inspect]. A quorum must answer by a majority.
func (l *Locker) Revoke(ctx context.Context, s Snapshot, atOnce bool) (Revocation, error) {
	token, err := NewToken()
	if err != nil {
		return Revocation{}, err
	}
	lease := l.lease(s.Name, token, DefaultTTL)
	args := []any{token, flag(atOnce)}
	holders := s.Holders
	if l.quorum() {
		holders = s.everywhere
	}
	for _, h := range holders {
		args = append(args, h.name)
	}
	unsettled := false // a try may have done it without our knowing
	for retry := (backoff{most: lastBackoff}); ; {
		done, err := lease.ask(ctx, oneTry(ctx), revocation, lease.keys(), args...).revocation(ctx)
		if err == nil {
			if unsettled && done.Others == 0 {
				done.Revoked = len(holders)
			}
			return done, nil
		}
		failure, _ := errors.AsType[*ServerError](err)
		unsettled = unsettled || failure == nil || !failure.Fault.undone()
		if failure == nil || !failure.Fault.passing() || !retry.sleep(ctx, MaxTTL) {
			return Revocation{}, err
		}
	}
}

// revocation is what the answers come to. Of a quorum, those that did not
// answer don't matter: with the others, nobody has a majority any more.
func (v votes) revocation(ctx context.Context) (Revocation, error) {
	var done Revocation
	var failures []error
	others := 0
	for _, vote := range v.got {
		if vote.err != nil {
			failures = append(failures, vote.err)
			continue
		}
		one, err := parseRevocation(vote.reply)
		if err != nil {
			failures = append(failures, v.lease.failure(vote.server, v.op, err, FaultOther))
			continue
		}
		done.Revoked = max(done.Revoked, one.Revoked)
		done.FreeIn = max(done.FreeIn, one.FreeIn)
		if one.Others > 0 {
			done.Others = max(done.Others, one.Others)
			others++
		}
	}
	need := v.lease.locker.majority()
	if len(v.got)-len(failures) < need {
		return Revocation{}, v.failure(ctx, failures)
	}
	if others < need {
		done.Others = 0
	}
	return done, nil
}

func parseRevocation(reply any) (Revocation, error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) != 3 {
		return Revocation{}, badReply("revoke", reply)
	}
	var numbers [3]int64
	for i, field := range fields {
		n, err := parseInt(field)
		if err != nil || n < 0 {
			return Revocation{}, badReply("revoke", reply)
		}
		numbers[i] = n
	}
	return Revocation{Revoked: int(numbers[0]), Others: int(numbers[1]), FreeIn: millis(numbers[2])}, nil
}
