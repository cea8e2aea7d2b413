package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// madeUpName is the name of a lock that nobody uses. It begins as that of the
// runs' locks does, so that the same rights are asked for.
func (s Subject) madeUpName() (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", fmt.Errorf("make up a name: %w", err)
	}
	key := "redlockrun-doctor-" + id.String()
	if whole := s.Key + ":" + key; s.Key != "" && len(whole) <= lock.MaxKey {
		key = whole
	}
	return lock.Name(s.Prefix, key)
}

// cleanUpTime is what there is after the end of an exam to delete what it wrote.
const cleanUpTime = time.Second

// Limits of the ttl of the made-up lock: long enough for a slow machine, and
// short enough to be forgotten.
const (
	leastTTL = 2 * time.Second
	mostTTL  = lock.DefaultTTL
)

// patience is how long a server may refuse the made-up lock for a reason that may
// pass: there are other checks to make.
const patience = 4 * time.Second

// useLock takes the made-up lock, renews it, waits for it and gives it back.
func (e *exam) useLock(ctx context.Context) {
	switch {
	case e.name == "":
		e.add("rights", Skip, "", "no lock with this prefix is kept here")
		e.add("scripts", Skip, "", "no lock with this prefix is kept here")
		return
	case e.replica():
		e.add("rights", Skip, "", "it takes no writes")
		e.add("scripts", Skip, "", "it takes no writes")
		return
	}
	tokens := []string{uuid.NewString(), uuid.NewString(), uuid.NewString()}
	defer e.cleanUp(ctx, tokens)
	if !e.rights(ctx, tokens[0]) {
		e.add("scripts", Skip, "", "not run, as rights are missing")
		return
	}
	ttl := min(max(e.subject.TTL, leastTTL), mostTTL)
	request := lock.Request{
		Name: e.name, TTL: ttl, ConnectTimeout: min(e.subject.Target.Timeout/2, patience), Token: tokens[0],
		Holder: lock.NewHolder("", "doctor"),
	}
	sent := time.Now()
	if err := e.takeTurns(ctx, request, tokens[1]); err != nil {
		e.refused("scripts", Fail, err)
		return
	}
	e.working = true
	e.add("scripts", Pass, "", "acquired, renewed, queued for and released a lock of its own in %s", short(time.Since(sent)))
	if e.kind != ofQuorum {
		e.waking(ctx, lock.KeysBeside(e.name, tokens[2])[4])
	}
	if e.subject.Replicas > 0 {
		request.Token, request.Replicas = tokens[2], e.subject.Replicas
		e.awaitReplicas(ctx, request)
	}
}

// takeTurns has one holder, and another in line behind it, which gets the lock.
// Of a quorum, where there is no line, it has the one holder.
func (e *exam) takeTurns(ctx context.Context, first lock.Request, second string) error {
	lease, err := e.locker.Acquire(ctx, first)
	if err != nil {
		return err
	}
	if err := lease.RenewWithin(ctx); err != nil {
		return err
	}
	if e.kind == ofQuorum {
		return lease.Release(ctx)
	}
	inLine, over := make(chan struct{}), make(chan struct{})
	var last *lock.Lease
	var waitErr error
	go func() {
		defer close(over)
		request := first
		request.Token, request.Wait = second, e.subject.Target.Timeout
		once := false
		request.OnWait = func(lock.Waiting) {
			if !once {
				close(inLine)
			}
			once = true
		}
		last, waitErr = e.locker.Acquire(ctx, request)
	}()
	select {
	case <-inLine:
	case <-over: // without waiting: it failed
	}
	err = lease.Release(ctx)
	<-over
	if err != nil || waitErr != nil {
		return errors.Join(waitErr, err)
	}
	return last.Release(ctx)
}

// awaitReplicas takes the lock as a run with --wait-replicas does.
func (e *exam) awaitReplicas(ctx context.Context, request lock.Request) {
	lease, err := e.locker.Acquire(ctx, request)
	if err == nil {
		err = lease.Release(ctx)
	}
	if err != nil {
		e.refused("wait-replicas", Fail, err)
		return
	}
	e.add("wait-replicas", Pass, "", "%s had the lock in time", plural(request.Replicas, "replica"))
}

// waking looks whether BLPOP finds what a script pushed, as it must to wake who
// waits. It does not where a proxy refuses it, or has several servers behind it.
func (e *exam) waking(ctx context.Context, list string) {
	const late = "who waits for a lock gets it up to a second late, from the fifth in line on up to ten"
	const next = "where this is a proxy, name the server behind it"
	const push = "local n = redis.call('RPUSH', KEYS[1], 'ask') redis.call('PEXPIRE', KEYS[1], 2000) return n"
	err := e.client.Eval(ctx, push, []string{list}).Err()
	if err == nil {
		err = e.client.BLPop(ctx, time.Second, list).Err()
	}
	switch {
	case err == nil:
		e.add("waking", Pass, "", "BLPOP finds what a script pushed")
	case errors.Is(err, redis.Nil):
		e.add("waking", Warn, next, "BLPOP does not find what a script pushed: %s", late)
	default:
		e.add("waking", Warn, next, "BLPOP is refused (%s): %s", text(err), late)
	}
}

// cleanUp deletes what may be left. It deletes nothing but what was made up here.
func (e *exam) cleanUp(ctx context.Context, tokens []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	_ = e.client.Del(ctx, append(lock.KeysBeside(e.name, tokens...), e.name)...).Err()
}
