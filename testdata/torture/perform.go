//go:build linux

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"
)

// perform starts a place, tortures it, and judges what happened there.
func perform(ctx context.Context, s settings, name, file string) (r result, err error) {
	h, err := openHistory(file)
	if err != nil {
		return r, err
	}
	defer h.close()
	b := &bench{}
	defer b.end()
	var p *place
	if err := attempt(func() { p = places[name](b) }); err != nil {
		return r, err
	}
	scene := newScene(name, p, s.binary, strings.Fields(s.flags), h)
	if err := scene.act(ctx, s); err != nil {
		return r, err
	}
	text, err := os.Open(file)
	if err != nil {
		return r, err
	}
	defer text.Close()
	runs, lossy, err := readHistory(text)
	if err != nil {
		return r, err
	}
	v := judge(runs, lossy, longestTTL)
	return result{place: name, verdict: v, scene: scene}, nil
}

// act plays the whole: workers and faults together, then no more faults, until
// each worker has had each lock once more.
func (s *scene) act(ctx context.Context, given settings) error {
	random := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(given.seed, stream)) }
	watching, endWatch := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { s.watch(watching) })
	defer watch.Wait()
	defer endWatch()

	ctx, cancel := context.WithTimeout(ctx, given.time)
	defer cancel()
	var errs troubles
	var nemesis, workers sync.WaitGroup
	nemesis.Go(func() { s.strikeAll(ctx, random(1)) })
	nemesis.Go(func() {
		errs.add(s.play(ctx, random(2), given.lossless))
		cancel()
	})
	if given.sabotage {
		nemesis.Go(func() { s.sabotage(ctx, random(3)) })
	}
	var all []*worker
	for i := range given.workers {
		all = append(all, &worker{scene: s, number: i, rng: random(uint64(100 + i))})
	}
	for _, w := range all {
		workers.Go(func() { errs.add(w.loop(ctx)) })
	}
	nemesis.Wait()
	for _, proxy := range s.place.proxies {
		proxy.Pass()
	}
	workers.Wait()
	for _, w := range all {
		workers.Go(func() { errs.add(w.last()) })
	}
	workers.Wait()
	pause(watching, orphanGrace+time.Second) // what should have ended by now has
	return errs.joined()
}

// troubles are those of several goroutines.
type troubles struct {
	mu   sync.Mutex
	list []error
}

func (e *troubles) add(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, err)
}

func (e *troubles) joined() error { return errors.Join(e.list...) }
