package lock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

const historyKey = "redlockrun:history:{" + name + "}"

func remembered(n int) lock.Request {
	req := request()
	req.History = n
	return req
}

func history(t *testing.T, client redis.UniversalClient) []lock.Hold {
	t.Helper()
	holds, err := lock.New(client).History(t.Context(), name, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return holds
}

func TestTheLastRunsAreRemembered(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		if got := history(t, client); len(got) != 0 {
			t.Errorf("at first: %+v", got)
		}
		for code := range 5 {
			lease, err := lock.New(client).Acquire(t.Context(), remembered(3))
			if err != nil {
				t.Fatal(err)
			}
			if got := history(t, client); got[0].End.How != lock.Held || got[0].Holder.Fence != lease.Fence() {
				t.Errorf("the holder is not told first: %+v", got)
			}
			lease.Record(3, lock.End{How: lock.Exited, Code: code, HeldMillis: 7, WaitedMillis: 2000})
			release(t, lease)
		}
		got := history(t, client)
		if len(got) != 3 {
			t.Fatalf("%d runs, want 3", len(got))
		}
		for i, hold := range got {
			length, known := hold.Length()
			if hold.End.Code != 4-i || hold.End.How != lock.Exited || !known || length > time.Minute ||
				hold.Waited != 2*time.Second || hold.Holder.Label == "" || hold.LockLost {
				t.Errorf("%d: %+v", i, hold)
			}
		}
		if ttl := admin.TTL(t.Context(), historyKey).Val(); ttl < 80*24*time.Hour {
			t.Errorf("a ttl of %v", ttl)
		}
	})
}

func TestWithoutAHistoryNothingIsRemembered(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		release(t, acquire(t, client))
		if admin.Exists(t.Context(), historyKey).Val() != 0 {
			t.Error("there is a history that nobody asked for")
		}
		if ttl := admin.TTL(t.Context(), "redlockrun:holders:{"+name+"}").Val(); ttl > 5*time.Hour {
			t.Errorf("the records live for %v", ttl)
		}
	})
}

// Who comes after a holder that died says so, for it can't.
func TestTheDeadAreRemembered(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		dead, err := lock.New(client).Acquire(t.Context(), remembered(9))
		if err != nil {
			t.Fatal(err)
		}
		admin.Del(t.Context(), name)
		next, err := lock.New(client).Acquire(t.Context(), remembered(9))
		if err != nil {
			t.Fatal(err)
		}
		next.Record(9, lock.End{How: lock.Exited})
		release(t, next)
		got := history(t, client)
		if len(got) != 2 || got[1].End.How != lock.Unknown || got[1].Holder.Fence != dead.Fence() || got[1].Found.IsZero() || !got[1].Until.IsZero() {
			t.Fatalf("%+v", got)
		}
		// It was not dead after all, and tells how it ended.
		dead.Record(9, lock.End{How: lock.Lost, Reason: "gone", HeldMillis: 100})
		_ = dead.Release(t.Context())
		got = history(t, client)
		if len(got) != 2 || got[0].End.How != lock.Lost || got[0].Holder.Fence != dead.Fence() || !got[0].LockLost {
			t.Errorf("%+v", got)
		}
		if length, known := got[0].Length(); !known || length != 100*time.Millisecond {
			t.Errorf("it was held for %v", length)
		}
	})
}

func TestADeadReaderIsRemembered(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		shared := remembered(9)
		shared.Capacity = lock.Shared
		first, err := lock.New(client).Acquire(t.Context(), shared)
		if err != nil {
			t.Fatal(err)
		}
		shared.TTL = lock.MinTTL
		dead, err := lock.New(client).Acquire(t.Context(), shared)
		if err != nil {
			t.Fatal(err)
		}
		end := admin.ZScore(t.Context(), name, dead.Token()).Val()
		for float64(admin.Time(t.Context()).Val().UnixMilli()) <= end {
			time.Sleep(10 * time.Millisecond)
		}
		third, err := lock.New(client).Acquire(t.Context(), shared)
		if err != nil {
			t.Fatal(err)
		}
		got := history(t, client)
		if len(got) != 3 || got[2].End.How != lock.Unknown || got[2].Holder.Fence != dead.Fence() {
			t.Errorf("%+v", got)
		}
		release(t, first)
		_ = third.Release(t.Context())
	})
}

// A lock that is only kept for a while was released: nobody died.
func TestAKeptLockIsNoDeath(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		lease, err := lock.New(client).Acquire(t.Context(), remembered(9))
		if err != nil {
			t.Fatal(err)
		}
		lease.KeepFor(time.Minute)
		lease.Record(9, lock.End{How: lock.Exited})
		release(t, lease)
		admin.Del(t.Context(), name)
		next, err := lock.New(client).Acquire(t.Context(), remembered(9))
		if err != nil {
			t.Fatal(err)
		}
		release(t, next)
		if got := history(t, client); len(got) != 1 || got[0].End.How != lock.Exited {
			t.Errorf("%+v", got)
		}
	})
}

// No release fails for its history: not when something else is in its place.
func TestAHistoryThatCantBeWrittenFailsNothing(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		admin.Set(t.Context(), historyKey, "data", time.Hour)
		lease, err := lock.New(client).Acquire(t.Context(), remembered(9))
		if err != nil {
			t.Fatal(err)
		}
		lease.Record(9, lock.End{How: lock.Exited})
		release(t, lease)
		if got := admin.Get(t.Context(), historyKey).Val(); got != "data" {
			t.Errorf("it has %q", got)
		}
	})
}

// Anybody can write to a stream.
func TestNonsenseInAHistoryIsPassedOver(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		for i, values := range [][]any{
			{"a", "b"},
			{"holder", "{", "end", "{}"},
			{"holder", `{"host":"h"}`, "end", "nonsense"},
			{"holder", "{\"label\":\"l\x1b[31m\",\"pid\":7}", "end", "{\"how\":\"failed\",\"reason\":\"\x1b]0;\"}", "lock", "1"},
		} {
			admin.XAdd(t.Context(), &redis.XAddArgs{Stream: historyKey, ID: fmt.Sprint(i+1, "-1"), Values: values})
		}
		for _, hold := range history(t, client) {
			if text := fmt.Sprintf("%+v", hold); hold.End.How != "failed" || !isPrintable(text) {
				t.Errorf("%q", text)
			}
		}
	})
}

func isPrintable(text string) bool {
	for _, r := range text {
		if r < ' ' {
			return false
		}
	}
	return true
}
