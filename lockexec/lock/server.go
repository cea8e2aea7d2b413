package lock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is one that keeps locks: a single one, whichever is the master by the
// word of its Sentinels, or a cluster, of which one node has all keys of a lock.
type server struct {
	client processor
	place  string // in messages: the address, never the credentials

	// listen returns a client for one that blocks while it waits to be woken.
	listen func() blocker

	// node returns a client of the one node that has the key.
	node func(ctx context.Context, key string) (*redis.Client, error)

	// masters calls do for each node that has keys of its own, several at once.
	masters func(ctx context.Context, do func(context.Context, *redis.Client) error) error

	// lookAgain, unless nil, is told that a node could not be reached.
	lookAgain func(ctx context.Context)
}

// processor is what the package needs of a client.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// blocker is what a listener needs of one.
type blocker interface {
	BLPop(ctx context.Context, timeout time.Duration, keys ...string) *redis.StringSliceCmd
	Close() error
}

func newServer(client redis.UniversalClient) *server {
	s := &server{client: client, place: "redis"}
	switch client := client.(type) {
	case *redis.Client:
		s.place = place(client)
		s.listen = func() blocker { return newListener(client) }
		s.node = func(context.Context, string) (*redis.Client, error) { return client, nil }
		s.masters = func(ctx context.Context, do func(context.Context, *redis.Client) error) error { return do(ctx, client) }
	case *redis.ClusterClient:
		s.place = strings.Join(client.Options().Addrs, ",")
		s.listen = func() blocker { return NewClusterClient(client.Options()) }
		s.node = client.MasterForKey
		s.masters = client.ForEachMaster
		s.lookAgain = client.ReloadState
	default:
		s.node = func(context.Context, string) (*redis.Client, error) { return nil, errClientKind }
		s.masters = func(context.Context, func(context.Context, *redis.Client) error) error { return errClientKind }
	}
	return s
}

// errClientKind: other kinds of clients don't say where a key is, nor how to
// make another connection to there.
var errClientKind = errors.New("it takes a *redis.Client or a *redis.ClusterClient to wait in line, for replicas, and for lists")

// classify finds the fault behind an error of the client.
func (s *server) classify(ctx context.Context, err error) Fault {
	fault := classify(err)
	if s.lookAgain == nil {
		return fault
	}
	switch fault {
	case FaultMoved: // again and again: the slot is on its way, and not all nodes know
		return FaultTryAgain
	case FaultUnreachable, FaultConnection, FaultTimeout:
		s.lookAgain(ctx) // another may have taken the place of that node
		return fault
	default:
		return fault
	}
}

// operation is a script with its name in errors.
type operation struct {
	name   string
	source func() string

	// enough, unless nil, says that no further vote can change anything; linger
	// is how long those that are still to come are waited for all the same.
	enough func(votes) bool
	linger time.Duration
}

// The operations on a lock.
var (
	acquiring  = operation{name: "acquire", source: whole(prelude, line, acquireScript), enough: votes.acquisitionDecided}
	renewal    = operation{name: "renew", source: whole(prelude, renewScript), enough: votes.ownershipDecided, linger: restoreWait}
	refreshing = operation{name: "refresh", source: whole(prelude, refreshScript), enough: votes.ownershipDecided}
	releasing  = operation{name: "release", source: whole(prelude, line, releaseScript), enough: votes.ownershipDecided, linger: minReleaseTry}
	deletion   = operation{name: "release", source: whole(prelude, deleteScript), enough: votes.ownershipDecided, linger: minReleaseTry}
	restoring  = operation{name: "renew", source: whole(prelude, restoreScript)}
	reading    = operation{name: "read the history of", source: whole(prelude, historyScript)}
	raising    = operation{name: "acquire", source: whole(prelude, raiseScript), enough: votes.ownershipDecided}
	inspection = operation{name: "inspect", source: whole(prelude, holding, inspectScript)}
	marking    = operation{name: "inspect", source: whole(markersScript)}
	revocation = operation{name: "revoke", source: whole(prelude, line, holding, revokeScript)}
)

// restoreWait is how long a renewal that is decided waits for word of servers
// that lack the lock.
const restoreWait = 50 * time.Millisecond

// whole returns what goes out for a script: with what it shares with others,
// and without the comments, which are half of it.
func whole(parts ...string) func() string {
	return sync.OnceValue(func() string {
		joined := strings.Join(parts, "")
		var b strings.Builder
		b.Grow(len(joined))
		for text := range strings.Lines(joined) {
			if code := strings.TrimSpace(text); code != "" && !strings.HasPrefix(code, "--") {
				b.WriteString(code)
				b.WriteByte('\n')
			}
		}
		return b.String()
	})
}

// vote is the answer of one server to a script: a reply, or a [*ServerError],
// or the cause of the context.
type vote struct {
	server *server
	reply  any
	err    error
}

// votes are the answers of the servers of a lock, as far as they have come.
type votes struct {
	op    operation
	lease *Lease
	got   []vote
}

// ask sends one script to all servers at once, and returns their answers when
// there are enough. Those that are not waited for go on in the background, no
// longer than the budget.
func (l *Lease) ask(ctx context.Context, budget time.Duration, op operation, keys []string, args ...any) votes {
	all := votes{op: op, lease: l}
	servers := l.locker.servers
	if len(servers) == 1 {
		all.got = []vote{l.askServer(ctx, servers[0], budget, op, keys, args)}
		return all
	}
	answers := make(chan vote, len(servers))
	for _, s := range servers {
		go func() { answers <- l.askServer(ctx, s, budget, op, keys, args) }()
	}
	var late <-chan time.Time
	for range servers {
		select {
		case answer := <-answers:
			all.got = append(all.got, answer)
		case <-late:
			return all
		}
		if op.enough != nil && late == nil && op.enough(all) {
			if op.linger == 0 {
				return all
			}
			late = time.After(op.linger)
		}
	}
	return all
}

// askServer returns as soon as ctx is done or the budget is over, whatever the
// client does: that looks at deadlines only, and at none while it shakes hands
// by TLS.
func (l *Lease) askServer(ctx context.Context, s *server, budget time.Duration, op operation, keys []string, args []any) vote {
	type result struct {
		reply any
		err   error
	}
	done := make(chan result, 1)
	bounded, cancel := context.WithTimeout(ctx, budget)
	l.calls.Go(func() {
		defer cancel()
		reply, err := eval(bounded, s.client, op.source(), keys, args...)
		done <- result{reply, err}
	})
	var r result
	select {
	case r = <-done:
	case <-bounded.Done():
		select {
		case r = <-done: // the exchange ended, and with it its context
		default:
			r.err = context.DeadlineExceeded
		}
	}
	switch {
	case r.err == nil:
		return vote{server: s, reply: r.reply}
	case ctx.Err() != nil:
		return vote{server: s, err: context.Cause(ctx)}
	default:
		fault := s.classify(ctx, r.err)
		if fault == FaultNoPerm {
			r.err = nameRight(op.source(), r.err)
		}
		return vote{server: s, err: l.failure(s, op, r.err, fault)}
	}
}

func (l *Lease) failure(s *server, op operation, err error, fault Fault) *ServerError {
	return &ServerError{Op: op.name, Name: l.name, Place: s.place, Fault: fault, Err: err}
}

// eval sends a script as plain EVAL: a run sends each a few times at most, so
// that EVALSHA would save nothing, and would cost a second trip on a server
// that does not know the script, and a right of its own.
func eval(ctx context.Context, client processor, source string, keys []string, args ...any) (any, error) {
	cmd := newEval(ctx, source, keys, args...)
	if err := client.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Result()
}

func newEval(ctx context.Context, source string, keys []string, args ...any) onceCmd {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, "eval", source, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := onceCmd{redis.NewCmd(ctx, append(words, args...)...)}
	cmd.SetFirstKeyPos(3)
	return cmd
}

// onceCmd is a command that the client does not send a second time by itself:
// only we know what a reply that got lost means for each script.
type onceCmd struct{ *redis.Cmd }

func (onceCmd) NoRetry() bool { return true }
