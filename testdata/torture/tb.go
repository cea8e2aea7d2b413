//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// bench is a test for the helpers that want one, where no test is. What is
// fatal to a test ends the call under attempt.
type bench struct {
	testing.TB

	mu       sync.Mutex
	cleanups []func()
	failed   bool
}

// fatal is what a helper of tests gave up with.
type fatal struct{ error }

// attempt calls do, and returns what it gave up with.
func attempt(do func()) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			gaveUp, ok := reason.(fatal)
			if !ok {
				panic(reason)
			}
			err = gaveUp.error
		}
	}()
	do()
	return nil
}

func (b *bench) Helper()                  {}
func (b *bench) Name() string             { return "torture" }
func (b *bench) Context() context.Context { return context.Background() }
func (b *bench) Log(...any)               {}
func (b *bench) Logf(string, ...any)      {}
func (b *bench) Skip(args ...any)         { b.Fatal(args...) }
func (b *bench) Fatal(args ...any)        { panic(fatal{errors.New(fmt.Sprint(args...))}) }
func (b *bench) Fatalf(format string, args ...any) {
	panic(fatal{fmt.Errorf(format, args...)})
}

func (b *bench) Error(args ...any) { b.Errorf("%s", fmt.Sprint(args...)) }
func (b *bench) Errorf(string, ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = true
}

func (b *bench) Failed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

func (b *bench) Cleanup(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleanups = append(b.cleanups, do)
}

// end does all that was to be done in the end.
func (b *bench) end() {
	b.mu.Lock()
	todo := b.cleanups
	b.cleanups = nil
	b.mu.Unlock()
	for _, do := range slices.Backward(todo) {
		do()
	}
}
