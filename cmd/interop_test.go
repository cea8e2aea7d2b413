//go:build unix

package cmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// Locks of other languages' libraries and ours exclude each other. The programs
// in testdata/interop take and release such a lock when they are told to. Where
// a language or library is missing, its tests are skipped, unless
// REDLOCKRUN_TEST_REQUIRE has the word "interop".

const guardedQueue = "redlockrun:queue:{" + guardedLock + "}"

func TestALockOfAnotherLanguageKeepsOursOut(t *testing.T) {
	t.Parallel()
	forEachForeignLock(t, func(t *testing.T, server *redistest.Server, admin *redis.Client, foreign *foreigner) {
		if !foreign.acquires(time.Minute) {
			t.Fatal("it does not get a lock that is free")
		}
		if got := admin.Get(t.Context(), guardedLock).Val(); got != foreign.token {
			t.Fatalf("its lock holds %q, want %q", got, foreign.token)
		}
		for _, flags := range [][]string{nil, {"--shared"}, {"--slots", "2"}, {"--wait", "1ms"}} {
			if code := runNow(t, append(flags, "-r", server.URL())...); code != 75 {
				t.Errorf("our run with %q: exit code %d, want 75", flags, code)
			}
		}
		refused := startJob(t, "-r", server.URL())
		refused.ends(75)
		if said := refused.stderr.String(); !strings.Contains(said, "is held by a program that leaves no record") {
			t.Errorf("who is turned away is told %q", said)
		}
		waiter := startJob(t, "-r", server.URL(), "--wait", "forever", "--progress", "never")
		eventually(t, "ours waits", func() bool { return admin.ZCard(t.Context(), guardedQueue).Val() == 1 })
		if !foreign.extends(2*time.Minute) || !foreign.releases() {
			t.Error("it lost its lock to one who waits")
		}
		waiter.fence()
		waiter.finish()
		waiter.ends(7)
	})
}

// Whose owner neither prolongs nor releases it: a lock ends all the same.
func TestOursGetsALockThatAnotherLanguageLetExpire(t *testing.T) {
	t.Parallel()
	forEachForeignLock(t, func(t *testing.T, server *redistest.Server, admin *redis.Client, foreign *foreigner) {
		if !foreign.acquires(time.Minute) {
			t.Fatal("it does not get a lock that is free")
		}
		waiter := startJob(t, "-r", server.URL(), "--wait", "forever", "--progress", "never")
		eventually(t, "ours waits", func() bool { return admin.ZCard(t.Context(), guardedQueue).Val() == 1 })
		if !foreign.extends(5 * time.Second) {
			t.Fatal("it can't set when its own lock ends")
		}
		waiter.fence()
		waiter.finish()
		waiter.ends(7)
	})
}

func TestOurLockKeepsAnotherLanguageOut(t *testing.T) {
	t.Parallel()
	for kind, flags := range map[string][]string{"exclusive": nil, "shared": {"--shared"}, "slots": {"--slots", "3"}} {
		t.Run(kind, func(t *testing.T) {
			forEachForeignLock(t, func(t *testing.T, server *redistest.Server, admin *redis.Client, foreign *foreigner) {
				holder := startJob(t, append(flags, "-r", server.URL())...)
				holder.fence()
				if foreign.acquires(time.Minute) {
					t.Fatal("it got a lock that is held")
				}
				holder.finish()
				holder.ends(7)
				if !foreign.acquires(time.Minute) || !foreign.releases() {
					t.Error("it does not get and release the lock that was released")
				}
			})
		})
	}
}

// Whose lock was taken over, ours or theirs, neither ends nor prolongs the
// other's.
func TestALateReleaseHarmsNobody(t *testing.T) {
	t.Parallel()
	for kind, ends := range map[string]struct {
		ttl  string
		code int
	}{
		"ours, after a renewal found out": {"3s", 79},
		"ours, when none was due":         {"1h", 7}, // the command has ended by itself
	} {
		t.Run(kind, func(t *testing.T) {
			forEachForeignLock(t, func(t *testing.T, server *redistest.Server, admin *redis.Client, foreign *foreigner) {
				holder := startJob(t, "-r", server.URL(), "--ttl", ends.ttl)
				holder.fence()
				admin.Del(t.Context(), guardedLock)
				if !foreign.acquires(time.Minute) {
					t.Fatal("it does not get a lock that was deleted")
				}
				if ends.code == 7 {
					holder.finish()
				}
				holder.ends(ends.code)
				if said := holder.stderr.String(); !strings.Contains(said, "lock:report:k was lost: ") {
					t.Errorf("of the loss it says %q", said)
				}
				if got := admin.Get(t.Context(), guardedLock).Val(); got != foreign.token {
					t.Errorf("after the end of our run the lock holds %q, want %q", got, foreign.token)
				}
				if left := admin.PTTL(t.Context(), guardedLock).Val(); left > time.Minute {
					t.Errorf("our run made it last for %v", left)
				}
				if !foreign.releases() {
					t.Error("it has lost its lock")
				}
			})
		})
	}
	for kind, flags := range map[string][]string{
		"theirs": nil, "theirs, to readers": {"--shared"}, "theirs, to slots": {"--slots", "3"},
	} {
		t.Run(kind, func(t *testing.T) {
			forEachForeignLock(t, func(t *testing.T, server *redistest.Server, admin *redis.Client, foreign *foreigner) {
				if !foreign.acquires(time.Minute) {
					t.Fatal("it does not get a lock that is free")
				}
				admin.PExpire(t.Context(), guardedLock, time.Millisecond)
				holder := startJob(t, append(flags, "-r", server.URL(), "--wait", "forever", "--progress", "never")...)
				holder.fence()
				want := holdersOf(t, admin)
				if foreign.extends(time.Hour) || foreign.releases() {
					t.Error("it extended or released what it had lost")
				}
				if got := holdersOf(t, admin); got != want {
					t.Errorf("the lock holds %q now, want %q as before", got, want)
				}
				if left := admin.PTTL(t.Context(), guardedLock).Val(); left > time.Minute {
					t.Errorf("it made our lock last for %v", left)
				}
				holder.finish()
				holder.ends(7)
			})
		})
	}
}

// holdersOf returns the tokens in the lock "k", whatever its kind.
func holdersOf(t *testing.T, admin *redis.Client) string {
	t.Helper()
	var tokens []string
	var err error
	if kind := admin.Type(t.Context(), guardedLock).Val(); kind == "zset" {
		tokens, err = admin.ZRange(t.Context(), guardedLock, 0, -1).Result()
	} else {
		tokens = make([]string, 1)
		tokens[0], err = admin.Get(t.Context(), guardedLock).Result()
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(tokens, " ")
}

// From one of ours to the next in line there is no gap for others.
func TestAHandOffLeavesAnotherLanguageNoGap(t *testing.T) {
	t.Parallel()
	forEachForeignLock(t, func(t *testing.T, server *redistest.Server, admin *redis.Client, foreign *foreigner) {
		holder := startJob(t, "-r", server.URL())
		holder.fence()
		var waiters []*job
		for n := range 3 {
			waiters = append(waiters, startJob(t, "-r", server.URL(), "--wait", "forever", "--progress", "never"))
			eventually(t, "ours waits", func() bool { return admin.ZCard(t.Context(), guardedQueue).Val() == int64(n+1) })
		}
		for _, next := range waiters {
			holder.finish()
			eventually(t, "the next one runs", func() bool {
				if foreign.acquires(time.Minute) {
					t.Fatal("it got the lock between two of ours")
				}
				_, err := os.Stat(filepath.Join(next.dir, "fence"))
				return err == nil
			})
			holder.ends(7)
			holder = next
		}
		holder.finish()
		holder.ends(7)
		if !foreign.acquires(time.Minute) || !foreign.releases() {
			t.Error("it does not get the lock when nobody is left in line")
		}
	})
}

// A quorum is the same to the library that the algorithm is named after.
func TestTheQuorumOfAnotherLanguageIsOurs(t *testing.T) {
	t.Parallel()
	node := foreignLocks["node"]
	interpreter := node.find(t)
	var addrs, flags []string
	for range 3 {
		server := redistest.Start(t)
		addrs = append(addrs, server.Addr())
		flags = append(flags, "-r", server.URL())
	}
	// No server counts that was up for less than the ttl, which a busy machine
	// needs to renew in time.
	flags = append(flags, "--ttl", "10s", "--connect-timeout", "60s")
	foreign := startForeigner(t, interpreter, node.program, addrs...)
	holder := startJob(t, flags...)
	holder.fence()
	if foreign.acquires(time.Minute) {
		t.Error("it got a lock that is held")
	}
	holder.finish()
	holder.ends(7)
	if !foreign.acquires(time.Minute) {
		t.Fatal("it does not get a lock that is free")
	}
	if code := runNow(t, flags...); code != 75 {
		t.Errorf("our run: exit code %d, want 75", code)
	}
	if !foreign.releases() {
		t.Error("it has lost its lock")
	}
	if code := runNow(t, flags...); code != 0 {
		t.Errorf("our run after its release: exit code %d, want 0", code)
	}
}
