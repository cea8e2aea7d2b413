package lock_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// The histories of many users of one lock are checked for linearizability: is
// there an order of all that was taken and given back, each at one instant
// within its call, in which never more hold the lock than may?

// use is a call of a user.
type use struct {
	capacity lock.Capacity
	release  bool
}

// holderCounts is the state of the model: who holds the lock.
type holderCounts struct{ alone, shared, slots int }

// lockModel is the specification. A release takes effect at some instant
// within its call, as a take does.
var lockModel = porcupine.Model{
	Init: func() any { return holderCounts{} },
	Step: func(state, input, output any) (bool, any) {
		s, u := state.(holderCounts), input.(use)
		change := 1
		if u.release {
			change = -1
		}
		switch {
		case !output.(bool): // nothing happened
			return true, s
		case u.capacity == lock.Exclusive:
			s.alone += change
		case u.capacity == lock.Shared:
			s.shared += change
		default:
			s.slots += change
		}
		legal := s.alone >= 0 && s.shared >= 0 && s.slots >= 0 &&
			(s.alone == 0 || s.alone == 1 && s.shared == 0 && s.slots == 0) && s.slots <= slotsInHistory
		return legal, s
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprint(input, output) },
}

const slotsInHistory = 2

func TestHistoriesAreLinearizable(t *testing.T) {
	for what, mix := range map[string][]lock.Capacity{
		"exclusive":           {lock.Exclusive},
		"readers and writers": {lock.Exclusive, lock.Shared, lock.Shared},
		"slots":               {slotsInHistory},
	} {
		t.Run(what, func(t *testing.T) {
			forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
				history := record(t, client, mix)
				if result := porcupine.CheckOperationsTimeout(lockModel, history, time.Minute); result != porcupine.Ok {
					t.Errorf("the history of %d calls is %v", len(history), result)
				}
			})
		})
	}
}

// record has users take and give back the lock, with and without waiting, and
// returns what they saw.
func record(t *testing.T, client redis.UniversalClient, mix []lock.Capacity) []porcupine.Operation {
	t.Helper()
	locker := lock.New(client)
	start := time.Now()
	var clock atomic.Int64 // distinct instants, in the order of their events
	now := func() int64 { return int64(time.Since(start))<<8 + clock.Add(1)&255 }
	var mu sync.Mutex
	var history []porcupine.Operation
	var users sync.WaitGroup
	const userCount, rounds = 8, 12
	for user := range userCount {
		users.Go(func() {
			for round := range rounds {
				req := request()
				req.Capacity = mix[(user+round)%len(mix)]
				if rand.N(3) > 0 {
					req.Wait = lock.Forever
				}
				op := porcupine.Operation{ClientId: user, Input: use{req.Capacity, false}, Call: now()}
				lease, err := locker.Acquire(t.Context(), req)
				op.Return, op.Output = now(), err == nil
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
				if err != nil {
					continue
				}
				op = porcupine.Operation{ClientId: user, Input: use{req.Capacity, true}, Call: now()}
				err = lease.Release(t.Context())
				op.Return, op.Output = now(), true
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	users.Wait()
	return history
}

// A checker that finds nothing wrong with anything proves nothing.
func TestTheCheckerFindsAnOverlap(t *testing.T) {
	overlap := []porcupine.Operation{
		{ClientId: 0, Input: use{lock.Exclusive, false}, Output: true, Call: 1, Return: 2},
		{ClientId: 1, Input: use{lock.Shared, false}, Output: true, Call: 3, Return: 4},
		{ClientId: 0, Input: use{lock.Exclusive, true}, Output: true, Call: 5, Return: 6},
	}
	if porcupine.CheckOperations(lockModel, overlap) {
		t.Error("two holders were found to be in order")
	}
}
