package lock

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
)

// How a waiter gets the lock is told in scripts/line.lua and docs/waiting.md.
// On this side of the connection it is simple: whoever waits asks for the lock
// by the same script as everybody, again and again: when it is woken, when the
// lock would expire, and every ten seconds or, near the head of the line, every
// second. Being woken is only a reason to ask at once, so that nothing depends
// on it: not on the list, nor on the connection that blocks on it.

// Waiting is how things stand for one who waits.
type Waiting struct {
	Name    string
	Holder  *Holder // as in HeldError
	HeldFor time.Duration

	// Remaining is the time until the lock expires unless it is renewed, or
	// NoExpiry: then it is none, and may be held for good.
	Remaining time.Duration

	Revoked bool // as in HeldError

	Ahead  int           // who wait before this one
	Waited time.Duration // so far
	Left   time.Duration // until the wait is given up; Forever if never
}

// The times between two questions of a waiter.
const (
	watchInterval  = time.Second
	waiterInterval = 10 * time.Second
)

// closeLater is how long the connection of a waiter outlives its wait.
const closeLater = 100 * time.Millisecond

// wait waits in line. Whatever it returns but the lease, it has left the line.
func (a *acquisition) wait(ctx context.Context) (lease *Lease, _ error) {
	l := a.lease.locker
	start := l.now()
	var listener *listener
	defer func() {
		if lease == nil {
			listener.close()
			return
		}
		// It takes the server's time and this process's, which a command that can
		// start now has better use for.
		time.AfterFunc(closeLater, listener.close)
	}()
	for {
		reply, err := a.ask(ctx)
		if err != nil || reply.acquired || reply.done || reply.spent || reply.capacity != nil {
			return a.end(ctx, reply, err)
		}
		a.inLine = true // and may be granted the lock any time
		waited := l.now().Until(start)
		left := Forever
		if a.req.Wait != Forever {
			if left = a.req.Wait - waited; left <= 0 {
				return a.end(ctx, reply, nil)
			}
		}
		if a.req.OnWait != nil {
			a.req.OnWait(Waiting{
				Name: a.req.Name, Holder: reply.holder, HeldFor: reply.heldFor, Remaining: reply.remaining,
				Revoked: reply.revoked(), Ahead: reply.ahead, Waited: waited, Left: left,
			})
		}
		if l.quorum() {
			if err := retryLater(ctx, left); err != nil {
				return a.end(ctx, reply, err)
			}
			continue
		}
		if listener == nil {
			//nolint:contextcheck // it ends by being closed, in every case
			listener = listen(l.servers[0].listen(), wakeKey(a.req.Name, a.lease.token))
		}
		if err := listener.await(ctx, reply, left); err != nil {
			return a.end(ctx, reply, err)
		}
	}
}

// nextQuestion returns the time until a waiter who is not woken asks again.
func nextQuestion(reply acquireReply, left time.Duration) time.Duration {
	next := waiterInterval
	if reply.watch {
		next = watchInterval
		if reply.remaining != NoExpiry {
			// The moment at which the lock would be free; the server deletes
			// what expires when it is looked at.
			next = min(next, reply.remaining+time.Millisecond)
		}
	}
	if left != Forever {
		next = min(next, left)
	}
	return next
}

// listener blocks on a waiter's list, on a connection of its own.
type listener struct {
	client blocker
	ask    chan struct{} // it is time to ask
	watch  chan struct{} // ask every second from now on
	done   chan struct{}
}

// await returns when it is time to ask again after that reply, or with the
// cause of ctx. To be told to watch is no reason to ask at once: it comes with
// every hand-off, to somebody who has nothing to do with it.
func (l *listener) await(ctx context.Context, reply acquireReply, left time.Duration) error {
	since := time.Now()
	for {
		select {
		case <-l.ask:
			return nil
		case <-l.watch:
			reply.watch = true
		case <-time.After(nextQuestion(reply, left) - time.Since(since)):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// blockFor bounds one BLPOP: a connection that is dead without a sign is
// given up after a little more.
const blockFor = 60 * time.Second

func listen(client blocker, list string) *listener {
	l := &listener{client: client, ask: make(chan struct{}, 1), watch: make(chan struct{}, 1), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-l.done
		cancel()
	}()
	go func() {
		for retry := (backoff{most: 2 * time.Second}); ctx.Err() == nil; {
			popped, err := client.BLPop(ctx, blockFor, list).Result()
			switch {
			case err == nil:
				retry.tries = 0
				word := l.ask
				if len(popped) == 2 && popped[1] == "watch" {
					word = l.watch
				}
				select {
				case word <- struct{}{}:
				default:
				}
				runtime.Gosched() // who was told comes first, also on one processor
			case errors.Is(err, redis.Nil): // nothing came
				retry.tries = 0
			default:
				retry.sleep(ctx, time.Hour)
			}
		}
	}()
	return l
}

// close ends the listener. Cancelling a context does not end a read of the
// client; closing its connection does.
func (l *listener) close() {
	if l == nil {
		return
	}
	close(l.done)
	_ = l.client.Close()
}

// newListener returns a client with the way and the credentials of another,
// and one connection.
func newListener(client *redis.Client) *redis.Client {
	opts := *client.Options()
	opts.PoolSize = 1
	opts.MaxActiveConns = 0
	opts.MinIdleConns = 0
	return NewClient(&opts)
}
