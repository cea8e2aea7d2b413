package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

const slots = 16384

// Cluster is a Redis Cluster, in which a replica takes over when its primary does not answer for two seconds.
type Cluster struct {
	Primaries []*Server // at the start
	Replicas  []*Server // of each primary one, in the same order; none of a single one

	ids map[*Server]string
}

// StartCluster starts so many primaries, and a replica of each unless it is one alone. They end with the test. It
// returns when all serve their slots.
func StartCluster(t testing.TB, primaries int, opts ...Option) *Cluster {
	t.Helper()
	c := &Cluster{ids: map[*Server]string{}}
	all := 2 * primaries
	if primaries == 1 {
		all = 1
	}
	for range all {
		node := Start(t, append(opts,
			WithConfig("cluster-enabled", "yes"), WithConfig("cluster-node-timeout", "2000"))...)
		c.ids[node] = fmt.Sprint(node.ask(t, "cluster", "myid"))
		if len(c.Primaries) < primaries {
			c.Primaries = append(c.Primaries, node)
		} else {
			c.Replicas = append(c.Replicas, node)
		}
	}
	for i, node := range c.nodes() {
		c.must(t, node, "cluster", "set-config-epoch", i+1)
		if i < len(c.Primaries) {
			args := []any{"cluster", "addslots"}
			for slot := i * slots / primaries; slot < (i+1)*slots/primaries; slot++ {
				args = append(args, slot)
			}
			c.must(t, node, args...)
		}
		if i > 0 {
			c.must(t, node, "cluster", "meet", "127.0.0.1", c.Primaries[0].port)
		}
	}
	c.awaitInfo(t, fmt.Sprint("cluster_known_nodes:", all))
	for i, replica := range c.Replicas {
		Eventually(t, func() bool {
			return replica.ask(t, "cluster", "replicate", c.ids[c.Primaries[i]]) == "OK"
		}, "a node becomes a replica")
		if err := replica.awaitLink(); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitInfo(t, "cluster_state:ok")
	return c
}

func (c *Cluster) nodes() []*Server {
	return append(append([]*Server(nil), c.Primaries...), c.Replicas...)
}

func (c *Cluster) awaitInfo(t testing.TB, line string) {
	t.Helper()
	for _, node := range c.nodes() {
		Eventually(t, func() bool { return strings.Contains(fmt.Sprint(node.ask(t, "cluster", "info")), line) }, line)
	}
}

func (c *Cluster) must(t testing.TB, node *Server, args ...any) {
	t.Helper()
	if err, failed := node.ask(t, args...).(error); failed {
		t.Fatalf("%v: %v", args[:2], err)
	}
}

// URL returns "redis-cluster://" with two of the nodes.
func (c *Cluster) URL() string { return "redis-cluster://" + strings.Join(c.Addrs(), ",") }

// Addrs returns the addresses of two of the nodes, if there are.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, node := range c.Primaries[:min(2, len(c.Primaries))] {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// NodeOf returns the node that now serves the key, as the others see it.
func (c *Cluster) NodeOf(t testing.TB, key string) *Server {
	t.Helper()
	var found *Server
	Eventually(t, func() bool {
		found = nil
		for _, node := range c.nodes() {
			if reply := node.ask(t, "exists", key); reply == int64(0) || reply == int64(1) {
				found = node
			}
		}
		return found != nil
	}, "a node serves the key")
	return found
}

// Migration is a slot on its way from one primary to another.
type Migration struct {
	cluster  *Cluster
	slot     int64
	From, To *Server
}

// StartMigration begins to move the slot of the key. Until [Migration.Finish], keys that are not there any more are
// asked for at the other node, and commands with several keys, of which some are, are refused.
func (c *Cluster) StartMigration(t testing.TB, key string) *Migration {
	t.Helper()
	m := &Migration{cluster: c, From: c.NodeOf(t, key)}
	for _, node := range c.Primaries {
		if node != m.From {
			m.To = node
		}
	}
	m.slot, _ = m.From.ask(t, "cluster", "keyslot", key).(int64)
	c.must(t, m.To, "cluster", "setslot", m.slot, "importing", c.ids[m.From])
	c.must(t, m.From, "cluster", "setslot", m.slot, "migrating", c.ids[m.To])
	return m
}

// MoveKeys moves all keys of the slot that there are now.
func (m *Migration) MoveKeys(t testing.TB) {
	t.Helper()
	keys, _ := m.From.ask(t, "cluster", "getkeysinslot", m.slot, 1000).([]any)
	for _, key := range keys {
		m.cluster.must(t, m.From, "migrate", "127.0.0.1", strconv.Itoa(m.To.port), key, 0, 5000,
			"auth2", adminName, adminName)
	}
}

// Finish moves what is left, and tells all primaries that the slot is the other's.
func (m *Migration) Finish(t testing.TB) {
	t.Helper()
	m.MoveKeys(t)
	for _, node := range append([]*Server{m.To, m.From}, m.cluster.Primaries...) {
		m.cluster.must(t, node, "cluster", "setslot", m.slot, "node", m.cluster.ids[m.To])
	}
}

// ReplicaOf returns the replica of a primary.
func (c *Cluster) ReplicaOf(primary *Server) *Server {
	for i, node := range c.Primaries {
		if node == primary {
			return c.Replicas[i]
		}
	}
	return nil
}
