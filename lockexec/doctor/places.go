package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// embedded starts the server of this user, as a run would, and looks at it.
func (s Subject) embedded(ctx context.Context) []Check {
	all := findings{place: "embedded"}
	if err := s.Target.Start(ctx); err != nil {
		all.add("embedded", Fail, "", "%s", err)
		return all.checks
	}
	dir, err := embedded.Dir()
	if err != nil {
		all.add("embedded", Fail, "", "%s", err)
		return all.checks
	}
	info, err := embedded.Status(ctx, dir)
	if err != nil {
		all.add("embedded", Fail, "", "%s", err)
		return all.checks
	}
	e := s.server(ctx, s.Target.Places[0], ofUser)
	state := embedded.StatePath(dir)
	if _, err := os.Stat(state); e.working && err != nil {
		all.add("embedded", Fail, "redlockrun embedded stop, and try again", "pid %d at %s, but its state file is gone: %v", info.PID, info.Socket, err)
	} else {
		all.add("embedded", Pass, "", "pid %d at %s, state in %s", info.PID, info.Socket, state)
	}
	return append(all.checks, e.checks...)
}

// quorum looks at each server, and at what they are together.
func (s Subject) quorum(ctx context.Context) []Check {
	exams := inParallel(s.Target.Places, func(place lock.Place) *exam { return s.server(ctx, place, ofQuorum) })
	all := findings{place: fmt.Sprintf("%d servers", len(exams))}
	var checks []Check
	working := 0
	for _, e := range exams {
		checks = append(checks, e.checks...)
		if e.working {
			working++
		}
	}
	need := len(exams)/2 + 1
	a, b, same := sameTwice(exams, func(e *exam) string { return e.info["run_id"] })
	switch {
	case same:
		all.add("quorum", Fail, "name servers that are independent of each other", "%s and %s are the same server, which would vote twice", a.place, b.place)
	case working < need:
		all.add("quorum", Fail, "see the lines above", "%d of %d work, %d must", working, len(exams), need)
	case working < len(exams):
		all.add("quorum", Warn, "see the lines above", "%d of %d work, %d must", working, len(exams), need)
	case len(exams)%2 == 0:
		all.add("quorum", Warn, "leave one out, or add one", "of %d servers no more can fail than of %d", len(exams), len(exams)-1)
	default:
		all.add("quorum", Pass, "", "%d of %d work, %d must", working, len(exams), need)
	}
	return append(checks, all.checks...)
}

// word is what one Sentinel says.
type word struct {
	findings
	master string // its address, or "" when there was no answer
}

// sentinel asks each Sentinel, and looks at the master that most of them name.
func (s Subject) sentinel(ctx context.Context) []Check {
	place := s.Target.Places[0]
	words := inParallel(place.Addrs, func(addr string) *word { return s.askSentinel(ctx, addr) })
	all := findings{place: place.Sentinels().String()}
	var checks []Check
	votes := map[string]int{}
	best, answered := "", 0
	for _, w := range words {
		checks = append(checks, w.checks...)
		if w.master == "" {
			continue
		}
		answered++
		if votes[w.master]++; votes[w.master] > votes[best] {
			best = w.master
		}
	}
	n := len(words)
	switch {
	case best == "":
		all.add("sentinels", Fail, "", "none of %d names a master", n)
		return append(checks, all.checks...)
	case votes[best] < answered:
		all.add("sentinels", Fail, "wait for the failover to end, or see which of them was cut off", "they do not agree: %d of %d name %s", votes[best], answered, best)
	case answered <= n/2:
		all.add("sentinels", Warn, "see the lines above", "%d of %d answer, not most of them; they name %s", answered, n, best)
	default:
		all.add("sentinels", Pass, "", "%d of %d name %s", answered, n, best)
	}
	checks = append(checks, all.checks...)
	master := lock.Place{
		Network: "tcp", Addr: best, TLS: place.TLS,
		Username: place.Username, Password: place.Password, DB: place.DB, Protocol: place.Protocol,
	}
	return append(checks, s.server(ctx, master, ofSentinel).checks...)
}

func (s Subject) askSentinel(ctx context.Context, addr string) *word {
	ctx, cancel := context.WithTimeout(ctx, s.Target.Timeout)
	defer cancel()
	place := s.Target.Places[0]
	w := &word{findings: findings{place: "Sentinel " + addr}}
	client, err := s.Target.Client(lock.Place{
		Network: "tcp", Addr: addr, TLS: place.TLS, Username: place.SentinelUsername, Password: place.SentinelPassword,
	})
	if err != nil {
		w.refused("sentinel", Warn, err)
		return w
	}
	defer client.Close()
	reply, err := client.Do(ctx, "sentinel", "get-master-addr-by-name", place.Master).StringSlice()
	switch {
	case errors.Is(err, redis.Nil):
		w.add("sentinel", Fail, "check the name after the last / of the URL", "it knows no master named %q", place.Master)
		return w
	case err != nil:
		w.refused("sentinel", Warn, err)
		return w
	case len(reply) != 2:
		w.add("sentinel", Fail, "", "an unexpected reply: %q", reply)
		return w
	}
	w.master = net.JoinHostPort(reply[0], reply[1])
	switch said, err := client.Do(ctx, "sentinel", "ckquorum", place.Master).Text(); {
	case err == nil:
		w.add("sentinel", Pass, "", "names %s; %s", w.master, strings.TrimPrefix(said, "OK "))
	case lock.FaultOf(err) == lock.FaultNoPerm:
		w.add("sentinel", Pass, "", "names %s; whether enough of them are there for a failover may not be asked", w.master)
	default:
		w.add("sentinel", Warn, "start more Sentinels: without them nobody takes over", "names %s, but: %s", w.master, text(err))
	}
	return w
}

// cluster looks at each primary, at the nodes of the URL, and at the whole.
func (s Subject) cluster(ctx context.Context) []Check {
	place := s.Target.Places[0]
	all := findings{place: place.String()}
	universal, err := s.Target.Client(place)
	if err != nil {
		all.refused("connect", Fail, err)
		return all.checks
	}
	defer universal.Close()
	client, ok := universal.(*redis.ClusterClient)
	if !ok {
		return all.checks
	}
	bounded, cancel := context.WithTimeout(ctx, s.Target.Timeout)
	defer cancel()
	var mu sync.Mutex
	var nodes []*redis.Client
	err = client.ForEachMaster(bounded, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	seeds := inParallel(place.Addrs, func(addr string) Check { return s.askNode(bounded, addr) })
	all.checks = append(all.checks, seeds...)
	if err != nil {
		all.refused("cluster", Fail, err)
		return all.checks
	}
	slices.SortFunc(nodes, func(a, b *redis.Client) int { return strings.Compare(a.Options().Addr, b.Options().Addr) })
	all.cluster(bounded, nodes)
	for _, checks := range inParallel(nodes, func(node *redis.Client) []Check { return s.primary(ctx, client, node) }) {
		all.checks = append(all.checks, checks...)
	}
	return all.checks
}

// askNode looks whether a node of the URL is there. One that is not does no harm
// while others are.
func (s Subject) askNode(ctx context.Context, addr string) Check {
	f := findings{place: addr}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		f.refused("node", Warn, err)
		return f.checks[0]
	}
	_ = conn.Close()
	f.add("node", Pass, "", "can be reached")
	return f.checks[0]
}

const slots = 16384

// cluster adds what the nodes say of the whole.
func (f *findings) cluster(ctx context.Context, nodes []*redis.Client) {
	var info map[string]string
	var last error
	for _, node := range nodes {
		text, err := node.ClusterInfo(ctx).Result()
		if err == nil {
			info = fields(text)
			break
		}
		last = err
	}
	switch covered := number(info["cluster_slots_ok"]); {
	case info == nil && last != nil && lock.FaultOf(last) == lock.FaultNoPerm:
		f.add("cluster", Skip, "", "this user may not ask: %s", last)
	case info == nil && last != nil:
		f.refused("cluster", Fail, last)
	case info["cluster_state"] != "ok":
		f.add("cluster", Fail, "redis-cli --cluster check HOST:PORT", "cluster_state is %s, %d of %d slots are served", info["cluster_state"], covered, slots)
	case covered < slots:
		f.add("cluster", Fail, "redis-cli --cluster check HOST:PORT", "only %d of %d slots are served: locks in the others can't be taken", covered, slots)
	default:
		f.add("cluster", Pass, "", "cluster_state ok, all slots served by %s", plural(len(nodes), "primary node"))
	}
}

// primary looks at one node, as the one that has the slot of a made-up lock.
func (s Subject) primary(ctx context.Context, cluster *redis.ClusterClient, node *redis.Client) []Check {
	place := s.Target.Places[0]
	at := lock.Place{
		Network: "tcp", Addr: node.Options().Addr, TLS: place.TLS,
		Username: place.Username, Password: place.Password, Protocol: place.Protocol,
	}
	if host, port, err := net.SplitHostPort(at.Addr); err == nil && host == "" { // it has met no other node
		seed, _, _ := net.SplitHostPort(place.Addrs[0])
		at.Addr = net.JoinHostPort(seed, port)
	}
	e := &exam{findings: findings{place: at.Addr}, subject: s, kind: ofCluster, at: at, client: node, locker: lock.New(cluster)}
	const tries = 10_000 // enough for a node with few slots; none is sent
	for range tries {
		name, err := s.madeUpName()
		if err != nil {
			break
		}
		owner, err := cluster.MasterForKey(ctx, name)
		if err != nil {
			break
		}
		if owner == node {
			e.name = name
			break
		}
	}
	e.run(ctx)
	return e.checks
}
