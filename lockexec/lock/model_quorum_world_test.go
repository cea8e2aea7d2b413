package lock

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The quorum of the model: three servers, each with a start of its own, and
// clients whose exchanges come to each server at a time of their own. What goes
// out and what the votes come to is the work of the real code here as well.

const quorumSize = 3

// quorumWorld is one state of it.
type quorumWorld struct {
	now     int64
	servers [quorumSize]*dump
	started [quorumSize]int64
	clients []quorumClient
	floats  []ballot
	faults  int
	fence   int64 // the highest that a child was started with
	waived  bool  // a server has lost the lock of one who may have it on no more than most
}

// ballot is what goes to one server.
type ballot struct {
	from, server int
	op           string
	fence        int64
	unsettled    bool
	sent         int64
}

// The operations of a quorum that one server does not have.
const (
	opRaise    = "raise"
	opWithdraw = "withdraw"
	opRestore  = "restore"
)

// quorumClient is one client. In a round it has asked all servers at once.
type quorumClient struct {
	phase phase
	next  int64 // when it acts next, outside of a round

	round   string // the operation, or ""
	asked   int64  // when the round began
	came    [quorumSize]bool
	replies [quorumSize]any // nil: lost, or still to come

	tries     int
	unsettled bool
	began     int64 // the attempt
	sent      int64 // as in Lease
	fence     int64
	lost      bool
}

func (w *quorumWorld) clone() *quorumWorld {
	copied := *w
	copied.clients = slices.Clone(w.clients)
	copied.floats = slices.Clone(w.floats)
	return &copied
}

// quorumScenario is what is explored.
type quorumScenario struct {
	name    string
	clients int
	held    bool // by the first client, on all servers, from the beginning
	faults  int
	kinds   []string          // late, crash, delete, restart
	skew    [quorumSize]int64 // of the servers' clocks, ms
	broken  string            // a rule of the client that is left out
	profile profile
	server  *modelServer
	edit    func(string) string
	words   map[ballot]command
}

// recorder answers with the replies in turn, and keeps what it was sent.
type recorder struct {
	mu      sync.Mutex
	sent    [][]any
	replies []any
}

func (r *recorder) Process(_ context.Context, cmd redis.Cmder) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.sent)
	r.sent = append(r.sent, cmd.Args())
	if n >= len(r.replies) {
		return os.ErrDeadlineExceeded
	}
	cmd.(onceCmd).SetVal(r.replies[n])
	return nil
}

// lease is the real lease of a client of three servers.
func (s *quorumScenario) lease(client int, peers ...*recorder) *Lease {
	locker := &Locker{now: func() Instant { return 0 }}
	for i := range quorumSize {
		one := &server{place: fmt.Sprint(i)}
		if i < len(peers) {
			one.client = peers[i]
		}
		locker.servers = append(locker.servers, one)
	}
	return locker.lease(modelName, modelToken(client), s.profile.ttl)
}

// wordsOf returns what goes out, as the real code makes it.
func (s *quorumScenario) wordsOf(b ballot) command {
	b.sent, b.server = 0, 0
	if known, ok := s.words[b]; ok {
		return known
	}
	var words []string
	for range 100 { // the code does not wait for the last of three
		if words = s.provoke(b); words != nil {
			break
		}
	}
	words[1] = s.edit(words[1])
	s.words[b] = command{words, len(s.words)}
	return s.words[b]
}

// provoke has the real code send a message of that kind to somebody, or returns
// nil.
func (s *quorumScenario) provoke(b ballot) []string {
	ctx := context.Background()
	peers := []*recorder{{}, {}, {}}
	lease := s.lease(b.from, peers...)
	lease.unsettled = b.unsettled
	record, _ := Holder{Host: "host", PID: b.from, Slots: 1}.encode()
	a := &acquisition{lease: lease, req: Request{Name: modelName, TTL: s.profile.ttl}, record: record}
	var source string
	switch b.op {
	case opAcquire:
		source = acquiring.source()
		_, _ = a.askQuorum(ctx, time.Minute)
	case opRaise:
		source = raising.source()
		for _, p := range peers {
			p.replies = []any{[]any{int64(1), fmt.Sprint(b.fence)}, int64(1)}
		}
		_, _ = a.askQuorum(ctx, time.Minute)
	case opWithdraw:
		source = releasing.source()
		_, _ = a.askQuorum(ctx, time.Minute)
	case opRenew:
		source = renewal.source()
		_ = lease.Renew(ctx)
	case opRestore:
		source = restoring.source()
		for _, p := range peers {
			p.replies = []any{int64(1)}
		}
		peers[0].replies = []any{int64(0)}
		_ = lease.Renew(ctx)
	default:
		source = releasing.source()
		_, _ = lease.releaseOnce(ctx)
	}
	for _, p := range peers {
		if words := p.find(source); words != nil {
			return words
		}
	}
	return nil
}

// find returns what was sent with that source, or nil.
func (r *recorder) find(source string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sent := range r.sent {
		if sent[1] != source {
			continue
		}
		words := make([]string, len(sent))
		for i, word := range sent {
			words[i] = fmt.Sprint(word)
		}
		return words
	}
	return nil
}

// votes are the real ones of a round.
func (s *quorumScenario) votes(client int, c *quorumClient) votes {
	ops := map[string]operation{opAcquire: acquiring, opRaise: raising, opRenew: renewal, opRelease: releasing, opWithdraw: releasing}
	v := votes{op: ops[c.round], lease: s.lease(client)}
	for i, one := range v.lease.locker.servers {
		switch {
		case c.replies[i] != nil:
			v.got = append(v.got, vote{server: one, reply: c.replies[i]})
		case c.came[i]:
			v.got = append(v.got, vote{server: one, err: v.lease.failure(one, v.op, os.ErrDeadlineExceeded, FaultTimeout)})
		}
	}
	return v
}

// clock is that of a server.
func (s *quorumScenario) clock(w *quorumWorld, server int) int64 { return w.now + s.skew[server] }

// deliver has one server do what it is told.
func (s *quorumScenario) deliver(w *quorumWorld, b ballot) (any, error) {
	before := w.servers[b.server]
	up := (w.now - w.started[b.server]) / 1000
	now := s.clock(w, b.server)
	o := s.server.run(before, now, up, s.wordsOf(b))
	w.servers[b.server] = o.after
	if o.err != nil {
		return nil, fmt.Errorf("%w: %w", errScript, o.err)
	}
	for _, e := range o.after.entries {
		if e.ends == 0 {
			return nil, fmt.Errorf("%w: %s has no TTL", errZombie, e.key)
		}
	}
	for _, h := range holders(before, now) {
		if h.token != modelToken(b.from) && !slices.Contains(holders(o.after, now), h) {
			return nil, fmt.Errorf("%w: %s of client %d changed the lock of %s", errOwnership, b.op, b.from, h.token)
		}
	}
	return o.reply, nil
}

// checked judges a state: exclusion above all.
func (s *quorumScenario) checked(name string, w *quorumWorld, err error) quorumStep {
	runs := 0
	for _, c := range w.clients {
		if c.phase == running {
			runs++
		}
	}
	if err == nil && runs > 1 && !w.waived {
		err = fmt.Errorf("%w: %d run", errExclusion, runs)
	}
	return quorumStep{name, w, err}
}

type quorumStep = modelStep[*quorumWorld]

func (s *quorumScenario) describe(w *quorumWorld) string {
	var b strings.Builder
	for i, d := range w.servers {
		fmt.Fprintf(&b, "server %d, up for %d ms, has\n%s", i, w.now-w.started[i], d.describe(s.clock(w, i)))
	}
	for i, c := range w.clients {
		fmt.Fprintf(&b, "client %d: %s %s\n", i, phaseNames[c.phase], c.round)
	}
	return b.String()
}
