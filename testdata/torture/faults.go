//go:build linux

package main

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlockrun/redlockrun/lockexec/faultproxy"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

const (
	stopSignal     = unix.SIGSTOP
	continueSignal = unix.SIGCONT
)

// freeze stops a server for a while; who waits for it gets its answers late.
func freeze(which func(*rand.Rand) *redistest.Server) fault {
	return fault{"freeze server", 2, false, func(ctx context.Context, rng *rand.Rand) {
		s := which(rng)
		if s.Stop() == nil {
			pause(ctx, between(rng, 100*time.Millisecond, 4*time.Second))
			_ = s.Cont()
		}
	}}
}

// networkFaults are those that a proxy plays. None of them may lose a lock.
func networkFaults(which func(*rand.Rand) *faultproxy.Proxy) []fault {
	scripts := faultproxy.Command("EVAL")
	until := func(most time.Duration, begin func(rng *rand.Rand, p *faultproxy.Proxy)) func(context.Context, *rand.Rand) {
		return func(ctx context.Context, rng *rand.Rand) {
			p := which(rng)
			begin(rng, p)
			pause(ctx, between(rng, 100*time.Millisecond, most))
			if rng.IntN(2) == 0 {
				p.Cut() // what waited is lost; else it arrives late
			}
			p.Pass()
		}
	}
	return []fault{
		{"cut", 3, false, func(_ context.Context, rng *rand.Rand) { which(rng).Cut() }},
		{"refuse", 2, false, until(1500*time.Millisecond, func(_ *rand.Rand, p *faultproxy.Proxy) { p.Refuse() })},
		{"black hole", 3, false, until(4*time.Second, func(_ *rand.Rand, p *faultproxy.Proxy) { p.BlackHole() })},
		{"delay requests", 2, false, until(2*time.Second, func(rng *rand.Rand, p *faultproxy.Proxy) {
			p.DelayRequests(nil, between(rng, time.Millisecond, 200*time.Millisecond))
		})},
		{"delay replies", 2, false, until(2*time.Second, func(rng *rand.Rand, p *faultproxy.Proxy) {
			p.DelayReplies(between(rng, time.Millisecond, 200*time.Millisecond))
		})},
		{"hold requests", 2, false, until(4*time.Second, func(_ *rand.Rand, p *faultproxy.Proxy) { p.HoldRequests(scripts) })},
		{"drop replies", 4, false, func(ctx context.Context, rng *rand.Rand) {
			p := which(rng)
			for range 1 + rng.IntN(5) {
				p.DropReply(scripts, faultproxy.Action(rng.IntN(2)))
			}
			pause(ctx, 500*time.Millisecond)
			p.Pass()
		}},
	}
}
