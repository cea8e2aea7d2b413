package lock_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

const (
	name     = "lock:report:client_123"
	fenceKey = "redlockrun:fence:{lock:report:client_123}"
	holders  = "redlockrun:holders:{lock:report:client_123}"
)

func request() lock.Request {
	return lock.Request{Name: name, TTL: 15 * time.Second, ConnectTimeout: 30 * time.Second, Holder: lock.NewHolder("web-3", "generate-report.sh")}
}

func acquire(t *testing.T, client redis.UniversalClient) *lock.Lease {
	t.Helper()
	lease, err := lock.New(client).Acquire(t.Context(), request())
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return lease
}

func get(t *testing.T, admin *redis.Client, key string) string {
	t.Helper()
	value, err := admin.Get(t.Context(), key).Result()
	if errors.Is(err, redis.Nil) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestAcquireSetsEverythingInOneGo(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		lease := acquire(t, client)
		after := lock.Now()
		if _, err := uuid.Parse(lease.Token()); err != nil {
			t.Errorf("token %q is no UUID: %v", lease.Token(), err)
		}
		if got := get(t, admin, name); got != lease.Token() {
			t.Errorf("the lock holds %q, want the bare token %q", got, lease.Token())
		}
		if lease.Fence() <= 0 || lease.Fence() >= 1<<53 {
			t.Errorf("fence %d is not exact in a float64", lease.Fence())
		}
		var holder lock.Holder
		record := admin.HGet(t.Context(), holders, lease.Token()).Val()
		if err := json.Unmarshal([]byte(record), &holder); err != nil {
			t.Fatalf("holder record %q: %v", record, err)
		}
		if holder.Label != "web-3" || holder.Command != "generate-report.sh" || holder.Fence != lease.Fence() || holder.SinceMillis == 0 {
			t.Errorf("holder record %s", record)
		}
		if left := lease.SafeEnd().Until(after); left > 15*time.Second-150*time.Millisecond {
			t.Errorf("the safe end is %v after the acquire: no room for drift", left)
		}
		everyKeyHasTTL(t, admin, 3)
	})
}

// everyKeyHasTTL fails for a key that could outlive its owner for ever.
func everyKeyHasTTL(t *testing.T, admin *redis.Client, atLeast int) {
	t.Helper()
	keys, err := admin.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if ttl := admin.PTTL(t.Context(), key).Val(); ttl <= 0 {
			t.Errorf("%s has no TTL", key)
		}
	}
	if len(keys) < atLeast {
		t.Errorf("keys %q, want %d at least", keys, atLeast)
	}
}

func TestAcquireOfAHeldLockSaysWhoHoldsIt(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		lease := acquire(t, client)
		_, err := lock.New(client).Acquire(t.Context(), request())
		var held *lock.HeldError
		if !errors.As(err, &held) || !errors.Is(err, lock.ErrLocked) || errors.Is(err, lock.ErrUnavailable) {
			t.Fatalf("got %v, want a HeldError", err)
		}
		if held.Holder == nil || held.Holder.Label != "web-3" || held.Holder.PID == 0 {
			t.Errorf("holder %+v", held.Holder)
		}
		if held.Remaining <= 0 || held.Remaining > 15*time.Second || held.HeldFor < 0 {
			t.Errorf("remaining %v, held for %v", held.Remaining, held.HeldFor)
		}
		if got := get(t, admin, name); got != lease.Token() {
			t.Errorf("the refused one changed the lock to %q", got)
		}
	})
}

func TestAForeignLockIsRespectedAndReported(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		admin.SetNX(t.Context(), name, "someone-else", 10*time.Second)
		_, err := lock.New(client).Acquire(t.Context(), request())
		var held *lock.HeldError
		if !errors.As(err, &held) || held.Holder != nil || held.Remaining <= 0 {
			t.Errorf("got %#v, want a HeldError without a holder", err)
		}
		admin.Set(t.Context(), name, "data", 0)
		_, err = lock.New(client).Acquire(t.Context(), request())
		if !errors.As(err, &held) || held.Remaining != lock.NoExpiry {
			t.Errorf("got %#v, want a HeldError that says there is no expiry", err)
		}
		if got := get(t, admin, name); got != "data" {
			t.Errorf("the foreign value became %q", got)
		}
		admin.Del(t.Context(), name)
		admin.RPush(t.Context(), name, "an", "item")
		_, err = lock.New(client).Acquire(t.Context(), request())
		var server *lock.ServerError
		if !errors.As(err, &server) || server.Fault != lock.FaultWrongType || errors.Is(err, lock.ErrLocked) {
			t.Errorf("got %v, want a WRONGTYPE fault", err)
		}
	})
}

func TestOneOfManyGetsTheLock(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
		const contenders = 20
		results := make(chan error, contenders)
		for range contenders {
			go func() {
				_, err := lock.New(client).Acquire(t.Context(), request())
				results <- err
			}()
		}
		winners := 0
		for range contenders {
			switch err := <-results; {
			case err == nil:
				winners++
			case !errors.Is(err, lock.ErrLocked):
				t.Error(err)
			}
		}
		if winners != 1 {
			t.Errorf("%d of %d got the lock", winners, contenders)
		}
	})
}

func TestRenewStartsTheLeaseAnew(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		lease := acquire(t, client)
		end := lease.SafeEnd()
		admin.PExpire(t.Context(), name, 5*time.Second)
		if err := lease.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ttl := admin.PTTL(t.Context(), name).Val(); ttl <= 5*time.Second {
			t.Errorf("ttl after the renewal: %v", ttl)
		}
		if lease.SafeEnd() <= end {
			t.Error("the safe end did not move")
		}
	})
}

// The trap of a refresh that makes a lock anew which another may have held in
// between.
func TestRenewNeverBringsALockBack(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		lease := acquire(t, client)
		end := lease.SafeEnd()
		admin.Del(t.Context(), name)
		lostFor(t, lease.Renew(t.Context()), lock.LossMissing)
		if got := get(t, admin, name); got != "" {
			t.Errorf("the lock came back, with %q", got)
		}

		admin.Set(t.Context(), name, "another", time.Minute)
		lostFor(t, lease.Renew(t.Context()), lock.LossReplaced)
		if got := get(t, admin, name); got != "another" {
			t.Errorf("another's lock became %q", got)
		}

		admin.Del(t.Context(), name)
		admin.RPush(t.Context(), name, "not a lock at all")
		lostFor(t, lease.Renew(t.Context()), lock.LossReplaced)
		if lease.SafeEnd() != end {
			t.Error("a renewal that failed moved the safe end")
		}
	})
}

func lostFor(t *testing.T, err error, reason lock.LossReason) {
	t.Helper()
	var lost *lock.LostError
	if !errors.As(err, &lost) || lost.Reason != reason || !errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("got %v, want a LostError: %v", err, reason)
	}
}

func TestReleaseLeavesNothingButTheFence(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		lease := acquire(t, client)
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		keys := admin.Keys(t.Context(), "*").Val()
		if !slices.Equal(keys, []string{fenceKey}) {
			t.Errorf("keys after the release: %q", keys)
		}
		everyKeyHasTTL(t, admin, 1)
	})
}

// The trap of the stale unlock: one whose lease ran out deletes the lock of
// the next holder.
func TestReleaseNeverDeletesAnothersLock(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		stale := acquire(t, client)
		admin.Del(t.Context(), name) // as if it had expired
		lostFor(t, stale.Release(t.Context()), lock.LossMissing)

		next := acquire(t, client)
		lostFor(t, stale.Release(t.Context()), lock.LossReplaced)
		if got := get(t, admin, name); got != next.Token() {
			t.Errorf("the next holder's lock became %q", got)
		}
		if n := admin.HLen(t.Context(), holders).Val(); n != 1 {
			t.Errorf("%d holder records, want the next holder's", n)
		}
	})
}

// The trap of the lock that outlives a crashed owner.
func TestALockWhoseOwnerDiedIsFreedByItsTTL(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, _ *redis.Client) {
		req := request()
		req.TTL = 200 * time.Millisecond
		dead, err := lock.New(client).Acquire(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		var next *lock.Lease
		eventually(t, "the lock is free", func() bool {
			next, err = lock.New(client).Acquire(t.Context(), request())
			return err == nil
		})
		if lock.Now() < dead.SafeEnd() {
			t.Error("the next one got the lock before the safe end of the first")
		}
		if next.Fence() <= dead.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), dead.Fence())
		}
		if dead.Expired() == nil {
			t.Error("the first lease does not know that it is over")
		}
	})
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func TestTheFenceRisesThroughEverything(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		var last int64
		next := func(after string) {
			t.Helper()
			lease := acquire(t, client)
			if lease.Fence() <= last {
				t.Errorf("after %s: fence %d, not above %d", after, lease.Fence(), last)
			}
			last = lease.Fence()
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		next("nothing")
		next("a release")
		admin.FlushAll(t.Context())
		next("FLUSHALL")
		ahead := last + 1e12 // a server clock that was ahead, and was set back
		admin.Set(t.Context(), fenceKey, ahead, time.Hour)
		last = ahead
		next("a clock set back")
		if last != ahead+1 {
			t.Errorf("fence %d, want %d: one above the last, to the digit", last, ahead+1)
		}
		admin.Set(t.Context(), fenceKey, "no number", time.Hour)
		last = 0
		next("a counter that is no number")
		for _, odd := range []string{"inf", "-inf", "nan", "1e300", "-5", "9007199254740992"} {
			admin.Set(t.Context(), fenceKey, odd, time.Hour)
			next("the counter " + odd)
		}
		admin.Del(t.Context(), fenceKey)
		admin.RPush(t.Context(), fenceKey, "a list")
		next("a list for a counter")
	})
}

func TestRecordsOfTheDeadDoNotPileUp(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		for range 5 {
			acquire(t, client)
			admin.Del(t.Context(), name) // expired, never released
		}
		acquire(t, client)
		if n := admin.HLen(t.Context(), holders).Val(); n != 1 {
			t.Errorf("%d holder records, want 1", n)
		}
	})
}

func TestRecordsOfTheWrongTypeDoNotMatter(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		admin.Set(t.Context(), holders, "no hash", time.Minute)
		lease := acquire(t, client)
		admin.Del(t.Context(), holders)
		admin.Set(t.Context(), holders, "no hash", time.Minute)
		if _, err := lock.New(client).Acquire(t.Context(), request()); !errors.Is(err, lock.ErrLocked) {
			t.Errorf("got %v, want ErrLocked", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAHolderRecordCannotSteerATerminal(t *testing.T) {
	forEachPlace(t, func(t *testing.T, client redis.UniversalClient, admin *redis.Client) {
		admin.Set(t.Context(), name, "tok", time.Minute)
		for _, record := range []string{
			`{"host":"h\u001b[31m","pid":1,"label":"l\u0007\r\n","command":"c\u202e","since":1}`,
			`not json`, `[]`, `{"pid":"text"}`, `{"label":"` + strings.Repeat("x", 5000) + `"}`,
		} {
			admin.HSet(t.Context(), holders, "tok", record)
			_, err := lock.New(client).Acquire(t.Context(), request())
			var held *lock.HeldError
			if !errors.As(err, &held) {
				t.Fatalf("record %q: %v", record, err)
			}
			if h := held.Holder; h != nil {
				if text := h.Host + h.Label + h.Command; strings.ContainsAny(text, "\x1b\x07\r\n\u202e") || len(text) > 1000 {
					t.Errorf("record %q became %q", record, text)
				}
			}
		}
	})
}

func TestAcquireRefusesALeaseThatCannotBe(t *testing.T) {
	client := newClient(t, &redis.Options{Addr: freeAddr(t)})
	for _, ttl := range []time.Duration{
		0, -time.Second, time.Nanosecond, 99 * time.Millisecond, 24*time.Hour + time.Millisecond, 100*time.Millisecond + 1,
	} {
		req := request()
		req.TTL = ttl
		if _, err := lock.New(client).Acquire(t.Context(), req); err == nil || errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("ttl %v: %v, want a refusal before any connection", ttl, err)
		}
	}
	if _, err := lock.New(client).Acquire(context.Background(), lock.Request{TTL: time.Second}); err == nil {
		t.Error("a lock without a name was accepted")
	}
}
