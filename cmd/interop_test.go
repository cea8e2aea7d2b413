//go:build unix

package cmd_test

import (
	"os"
	"path/filepath"
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
		waiter := startJob(t, "-r", server.URL(), "--wait", "forever", "--progress", "never")
		eventually(t, "ours waits", func() bool { return admin.ZCard(t.Context(), guardedQueue).Val() == 1 })
		if !foreign.releases() {
			t.Error("it lost its lock to one who waits")
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

// Whose lock was taken over, ours or theirs, does not end the other's.
func TestALateReleaseHarmsNobody(t *testing.T) {
	t.Parallel()
	t.Run("ours", func(t *testing.T) {
		forEachForeignLock(t, func(t *testing.T, server *redistest.Server, admin *redis.Client, foreign *foreigner) {
			holder := startJob(t, "-r", server.URL(), "--ttl", "3s")
			holder.fence()
			admin.Del(t.Context(), guardedLock)
			if !foreign.acquires(time.Minute) {
				t.Fatal("it does not get a lock that was deleted")
			}
			holder.ends(79)
			if got := admin.Get(t.Context(), guardedLock).Val(); got != foreign.token {
				t.Errorf("after the end of our run the lock holds %q, want %q", got, foreign.token)
			}
			if !foreign.releases() {
				t.Error("it has lost its lock")
			}
		})
	})
	for kind, flags := range map[string][]string{"theirs": nil, "theirs, to readers": {"--shared"}} {
		t.Run(kind, func(t *testing.T) {
			forEachForeignLock(t, func(t *testing.T, server *redistest.Server, admin *redis.Client, foreign *foreigner) {
				if !foreign.acquires(time.Minute) {
					t.Fatal("it does not get a lock that is free")
				}
				admin.PExpire(t.Context(), guardedLock, time.Millisecond)
				holder := startJob(t, append(flags, "-r", server.URL(), "--wait", "forever", "--progress", "never")...)
				holder.fence()
				if foreign.releases() {
					t.Error("it released what it had lost")
				}
				if admin.Exists(t.Context(), guardedLock).Val() != 1 {
					t.Error("its late release took our lock")
				}
				holder.finish()
				holder.ends(7)
			})
		})
	}
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
	flags = append(flags, "--ttl", "10s", "--connect-timeout", "60s") // no server counts that was just started
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
