//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
	"github.com/redlockrun/redlockrun/lockexec/faultproxy"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// place is where locks are kept, with the faults that may befall it.
type place struct {
	*bench
	flags   []string // of redlockrun
	environ []string
	faults  []fault
	keys    []key
	direct  []*redis.Client     // to each server, beside the proxies
	proxies []*faultproxy.Proxy // which keep what they saw, until told to forget

	replicated bool // a server may become another's replica, or its primary
}

// fault is something that befalls servers or the way to them. Play returns
// when it is over and undone, and soon when the context ends.
type fault struct {
	kind   string
	weight int
	lossy  bool // locks may be lost by it: see docs/guarantees.md
	play   func(ctx context.Context, rng *rand.Rand)
}

// key is what locks are taken of. All who use it agree on these settings.
type key struct {
	name  string
	ttl   time.Duration
	slots int  // 0: it may be shared
	alone bool // always by one
}

// longestTTL bounds the leases of all keys.
const longestTTL = 3 * time.Second

// keysOf returns the keys for a place where locks can be shared, or not. The
// first is the one for long work.
func keysOf(shareable bool) []key {
	keys := []key{
		{name: "slow", ttl: 1500 * time.Millisecond, alone: true},
		{name: "quick", ttl: 3 * time.Second, alone: true},
	}
	if shareable {
		keys = append(keys,
			key{name: "readers", ttl: 2 * time.Second},
			key{name: "slots", ttl: 2 * time.Second, slots: 3})
	}
	return keys
}

// placeNames are the places that there are, in the order of the report.
var placeNames = []string{"server", "clock", "embedded", "sentinel", "cluster", "quorum"}

var places = map[string]func(b *bench) *place{
	"server":   oneServer,
	"clock":    clockServer,
	"embedded": embeddedServer,
	"sentinel": sentinel,
	"cluster":  cluster,
	"quorum":   quorum,
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// between returns a random time.
func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rng.Int64N(int64(most-least)))
}

func (p *place) must(err error) {
	if err != nil {
		p.Fatal(err)
	}
}

// behindProxy puts a proxy in front of an address.
func (p *place) behindProxy(addr string) *faultproxy.Proxy {
	proxy := faultproxy.New(p.bench, addr)
	p.proxies = append(p.proxies, proxy)
	return proxy
}

// oneServer keeps its data when it is killed, unless it is told to lose it.
func oneServer(b *bench) *place {
	p := &place{bench: b, keys: keysOf(true)}
	s := redistest.Start(b, redistest.WithPersistence())
	p.direct = []*redis.Client{s.Client(b)}
	proxy := p.behindProxy(s.Addr())
	p.flags = []string{"-r", proxy.URL()}
	p.faults = append(networkFaults(func(*rand.Rand) *faultproxy.Proxy { return proxy }),
		killServer(p, s),
		freeze(func(*rand.Rand) *redistest.Server { return s }),
		fault{"restart empty", 1, true, func(ctx context.Context, rng *rand.Rand) {
			_ = p.direct[0].FlushAll(ctx).Err()
			s.Kill()
			pause(ctx, between(rng, 0, 1500*time.Millisecond))
			p.must(s.Restart())
		}})
	return p
}

// killServer has one back, with its data.
func killServer(p *place, s *redistest.Server) fault {
	return fault{"kill server", 2, false, func(ctx context.Context, rng *rand.Rand) {
		s.Kill()
		pause(ctx, between(rng, 0, 1500*time.Millisecond))
		p.must(s.Restart())
	}}
}

// clockServer has a clock that is set again and again. It loses no data: who
// has lost the fence counter, and is set back, gives lower fences.
func clockServer(b *bench) *place {
	p := &place{bench: b, keys: keysOf(true)}
	s := redistest.Start(b, redistest.WithPersistence(), redistest.WithClock())
	p.direct = []*redis.Client{s.Client(b)}
	proxy := p.behindProxy(s.Addr())
	p.flags = []string{"-r", proxy.URL()}
	ahead := time.Duration(0)
	set := func(least, most time.Duration) func(context.Context, *rand.Rand) {
		return func(_ context.Context, rng *rand.Rand) {
			ahead += between(rng, least, most)
			p.must(s.SetClock(ahead))
		}
	}
	p.faults = []fault{
		{"clock set forward", 2, true, set(0, 10*time.Second)},
		{"clock set back", 2, false, set(-10*time.Second, 0)},
		{"cut", 1, false, func(context.Context, *rand.Rand) { proxy.Cut() }},
		killServer(p, s),
	}
	return p
}

// embeddedServer has no network, and so no proxy.
func embeddedServer(b *bench) *place {
	dir, err := os.MkdirTemp("", "rlr")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &place{bench: b, keys: keysOf(true), flags: []string{"-r", "embedded"}, environ: []string{"XDG_RUNTIME_DIR=" + dir}}
	home := filepath.Join(dir, "redlockrun")
	client := redis.NewClient(&redis.Options{
		MaxRetries: -1,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", embedded.SocketPath(home))
		},
	})
	b.Cleanup(func() { _ = client.Close() })
	p.direct = []*redis.Client{client}
	server := func() *os.Process {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		info, err := embedded.Status(ctx, home)
		if err != nil || info.PID <= 1 {
			return nil
		}
		process, err := os.FindProcess(info.PID)
		if err != nil {
			return nil
		}
		return process
	}
	b.Cleanup(func() {
		if process := server(); process != nil {
			_ = process.Kill()
		}
	})
	p.faults = []fault{
		{"kill server", 1, false, func(context.Context, *rand.Rand) {
			if process := server(); process != nil {
				_ = process.Kill()
			}
		}},
		{"freeze server", 1, false, func(ctx context.Context, rng *rand.Rand) {
			if process := server(); process != nil {
				_ = process.Signal(stopSignal)
				pause(ctx, between(rng, 100*time.Millisecond, 4*time.Second))
				_ = process.Signal(continueSignal)
			}
		}},
	}
	return p
}

// quorum is three servers that keep nothing. A majority fails together at
// times, which may stop work, but lose no lock.
func quorum(b *bench) *place {
	p := &place{bench: b, keys: keysOf(false)}
	var servers []*redistest.Server
	for range 3 {
		s := redistest.Start(b)
		servers = append(servers, s)
		p.direct = append(p.direct, s.Client(b))
		p.flags = append(p.flags, "-r", p.behindProxy(s.Addr()).URL())
	}
	restart := func(some []*redistest.Server) func(context.Context, *rand.Rand) {
		return func(ctx context.Context, rng *rand.Rand) {
			first := rng.IntN(len(servers))
			for i := range some {
				some[i] = servers[(first+i)%len(servers)]
				some[i].Kill()
			}
			pause(ctx, between(rng, 0, 1500*time.Millisecond))
			for _, s := range some {
				p.must(s.Restart())
			}
		}
	}
	p.faults = append(networkFaults(func(rng *rand.Rand) *faultproxy.Proxy { return p.proxies[rng.IntN(len(p.proxies))] }),
		freeze(func(rng *rand.Rand) *redistest.Server { return servers[rng.IntN(len(servers))] }),
		fault{"restart one empty", 3, false, restart(make([]*redistest.Server, 1))},
		fault{"restart two empty", 1, false, restart(make([]*redistest.Server, 2))},
		fault{"black hole of two", 1, false, func(ctx context.Context, rng *rand.Rand) {
			first := rng.IntN(len(p.proxies))
			two := []*faultproxy.Proxy{p.proxies[first], p.proxies[(first+1)%len(p.proxies)]}
			for _, proxy := range two {
				proxy.BlackHole()
			}
			pause(ctx, between(rng, 200*time.Millisecond, 4*time.Second))
			for _, proxy := range two {
				proxy.Pass()
			}
		}})
	return p
}

// String says where it is, for a person who looks.
func (p *place) String() string { return fmt.Sprint(strings.Join(p.flags, " ")) }
