package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// replicasWait bounds a WAIT; the client's own time-out is longer.
const replicasWait = 2 * time.Second

// awaitReplicas returns nil once so many replicas have the lock. WAIT tells of
// what its connection has written, so that a renewal goes before it: that
// shows, too, that the server which answers has the lock.
//
// It is no consensus: a replica that lacks the lock may be elected all the same.
// Source: redis.io/docs, command WAIT, "Consistency and WAIT".
func (l *Lease) awaitReplicas(ctx context.Context, n int, patience time.Duration) error {
	s := l.locker.servers[0]
	fail := func(err error, fault Fault) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return l.failure(s, acquiring, err, fault)
	}
	wait := min(patience, l.ttl/3, replicasWait)
	bounded, cancel := context.WithTimeout(ctx, wait+l.ttl/6)
	defer cancel()
	node, err := s.node(bounded, l.name)
	if err != nil {
		return fail(err, s.classify(ctx, err))
	}
	sent := l.locker.now()
	pipeline := node.Pipeline()
	renewed := newEval(bounded, renewal.source(), []string{l.name}, l.token, l.ttl.Milliseconds())
	_ = pipeline.Process(bounded, renewed)
	waited := redis.NewIntCmd(bounded, "wait", n, wait.Milliseconds())
	_ = pipeline.Process(bounded, waited)
	if _, err := pipeline.Exec(bounded); err != nil {
		return fail(err, s.classify(ctx, err))
	}
	state, err := parseOwnership(renewal.name, renewed.Val())
	switch {
	case err != nil:
		return fail(err, FaultOther)
	case state != ours:
		return fail(l.lost(state), FaultOther)
	case waited.Val() < int64(n):
		return fail(fmt.Errorf("%d of %d replicas have the lock", waited.Val(), n), FaultReplicas)
	}
	l.extend(sent)
	return nil
}
