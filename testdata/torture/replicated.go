//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/faultproxy"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// sentinel is a primary with two replicas and three Sentinels. The Sentinels are
// behind proxies; the servers are not, as their addresses are what Sentinels
// tell: their connections are cut by themselves.
func sentinel(b *bench) *place {
	p := &place{bench: b, keys: keysOf(true), replicated: true}
	s := redistest.StartSentinel(b, 2)
	for _, server := range s.Servers {
		p.direct = append(p.direct, server.Client(b))
	}
	var addrs []string
	for _, addr := range s.Addrs() {
		addrs = append(addrs, p.behindProxy(addr).Addr())
	}
	p.flags = []string{"-r", "redis-sentinel://" + strings.Join(addrs, ",") + "/" + s.Name}
	p.faults = append(networkFaults(func(rng *rand.Rand) *faultproxy.Proxy { return p.proxies[rng.IntN(len(p.proxies))] }),
		p.hangUp(),
		fault{"freeze primary", 3, true, func(ctx context.Context, rng *rand.Rand) {
			primary := s.Primary(b)
			if primary.Stop() == nil {
				pause(ctx, between(rng, 100*time.Millisecond, 800*time.Millisecond))
				_ = primary.Cont()
			}
		}},
		fault{"restart replica", 2, false, func(context.Context, *rand.Rand) {
			primary := s.Primary(b)
			for _, server := range s.Servers {
				if server != primary {
					server.Kill()
					p.must(server.Restart())
					return
				}
			}
		}},
		fault{"kill primary", 2, true, func(context.Context, *rand.Rand) {
			primary := s.Primary(b)
			primary.Kill()
			s.AwaitPrimaryOtherThan(b, primary)
			p.must(primary.Restart())
			p.awaitReplicas(2)
		}},
		fault{"failover", 2, true, func(context.Context, *rand.Rand) {
			s.Failover(b)
			p.awaitReplicas(2)
		}})
	return p
}

// cluster is three primaries with a replica each. Proxies are in front of the
// two nodes whose addresses redlockrun is given.
func cluster(b *bench) *place {
	p := &place{bench: b, keys: keysOf(true), replicated: true}
	c := redistest.StartCluster(b, 3)
	for _, server := range append(c.Primaries, c.Replicas...) {
		p.direct = append(p.direct, server.Client(b))
	}
	var addrs []string
	for _, addr := range c.Addrs() {
		addrs = append(addrs, p.behindProxy(addr).Addr())
	}
	p.flags = []string{"-r", "redis-cluster://" + strings.Join(addrs, ",")}
	anyKey := func(rng *rand.Rand) string { return prefix + p.keys[rng.IntN(len(p.keys))].name }
	p.faults = append(networkFaults(func(rng *rand.Rand) *faultproxy.Proxy { return p.proxies[rng.IntN(len(p.proxies))] }),
		p.hangUp(),
		fault{"freeze primary", 3, true, func(ctx context.Context, rng *rand.Rand) {
			node := c.NodeOf(b, anyKey(rng))
			if node.Stop() == nil {
				pause(ctx, between(rng, 100*time.Millisecond, 1500*time.Millisecond))
				_ = node.Cont()
			}
		}},
		fault{"move slot", 4, false, func(ctx context.Context, rng *rand.Rand) {
			m := c.StartMigration(b, anyKey(rng))
			pause(ctx, between(rng, 0, 500*time.Millisecond))
			m.MoveKeys(b)
			pause(ctx, between(rng, 0, 500*time.Millisecond))
			m.Finish(b)
		}},
		fault{"kill primary", 2, true, func(_ context.Context, rng *rand.Rand) {
			node := c.NodeOf(b, anyKey(rng))
			replica := c.ReplicaOf(node)
			if replica == nil {
				return
			}
			node.Kill()
			p.awaitRole(replica, "master")
			p.must(node.Restart())
			p.awaitRole(node, "slave")
			p.awaitReplicas(3)
			// And back, in good order, so that each is again what it was.
			client := node.Client(b)
			redistest.Eventually(b, func() bool {
				_ = client.ClusterFailover(b.Context()).Err()
				time.Sleep(100 * time.Millisecond)
				return role(client) == "master"
			}, "it is a primary again")
			p.awaitReplicas(3)
		}})
	return p
}

// hangUp closes all connections of clients, at all servers.
func (p *place) hangUp() fault {
	return fault{"cut from servers", 3, false, func(ctx context.Context, _ *rand.Rand) {
		for _, client := range p.direct {
			_ = client.Do(ctx, "client", "kill", "type", "normal", "skipme", "yes").Err()
		}
	}}
}

// role returns "master" or "slave", or "" when the server does not say.
func role(client *redis.Client) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	reply, _ := client.Do(ctx, "role").Slice()
	if len(reply) == 0 {
		return ""
	}
	return fmt.Sprint(reply[0])
}

func (p *place) awaitRole(s *redistest.Server, want string) {
	client := s.Client(p.bench)
	redistest.Eventually(p.bench, func() bool { return role(client) == want }, "it becomes a "+want)
}

// awaitReplicas waits until so many replicas have all that their primaries have.
func (p *place) awaitReplicas(want int) {
	redistest.Eventually(p.bench, func() bool {
		linked := 0
		for _, client := range p.direct {
			text, _ := client.Info(context.Background(), "replication").Result()
			if strings.Contains(text, "role:slave") && strings.Contains(text, "master_link_status:up") {
				linked++
			}
		}
		return linked == want
	}, "the replicas are linked")
}
