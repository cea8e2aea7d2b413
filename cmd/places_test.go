//go:build linux

package cmd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func TestAFailoverKeepsTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 2)
	first := s.Primary(t)
	holder := startJob(t, "-r", s.URL(), "--ttl", "30s", "--wait-replicas", "2")
	fence := holder.fence()
	waiter := startJob(t, "-r", s.URL(), "--ttl", "30s", "--wait", "forever", "--connect-timeout", "60s")
	first.Kill()
	second := s.AwaitPrimaryOtherThan(t, first)
	if code := runNow(t, "-r", s.URL(), "--connect-timeout", "60s"); code != 75 {
		t.Errorf("another run: exit code %d, want 75", code)
	}
	holder.passesTo(waiter, fence)
	// The old master, which has the lock of the first holder, comes back.
	if err := first.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is a replica", func() bool {
		return strings.Contains(first.Client(t).Info(t.Context(), "replication").Val(), "role:slave")
	})
	token := second.Client(t).Get(t.Context(), guardedLock).Val()
	if code := runNow(t, "-r", s.URL(), "--connect-timeout", "60s"); code != 75 {
		t.Errorf("another run: exit code %d, want 75", code)
	}
	if now := s.Primary(t).Client(t).Get(t.Context(), guardedLock).Val(); now != token || token == "" {
		t.Errorf("the lock went from %q to %q", token, now)
	}
	waiter.finish()
	waiter.ends(7)
}

// No replica had the lock yet when the master died.
func TestAFailoverThatLosesTheLockStopsTheCommand(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 2)
	first := s.Primary(t)
	for _, replica := range s.Servers {
		if replica == first {
			continue
		}
		client := replica.Client(t)
		if err := client.ConfigSet(t.Context(), "masterauth", "wrong").Err(); err != nil {
			t.Fatal(err)
		}
	}
	first.Client(t).Do(t.Context(), "client", "kill", "type", "replica")
	eventually(t, "no replica is connected", func() bool {
		return strings.Contains(first.Client(t).Info(t.Context(), "replication").Val(), "connected_slaves:0")
	})
	if code := runNow(t, "-r", s.URL(), "--wait-replicas", "1"); code != 69 {
		t.Errorf("with --wait-replicas: exit code %d, want 69", code)
	}
	if n := first.Client(t).Exists(t.Context(), guardedLock).Val(); n != 0 {
		t.Error("the lock that too few replicas have is still there")
	}
	holder := startJob(t, "-r", s.URL(), "--ttl", "30s")
	fence := holder.fence()
	first.Kill()
	holder.ends(79)
	if text := holder.stderr.String(); !strings.Contains(text, "lost") {
		t.Errorf("it says %q", text)
	}
	primary := s.AwaitPrimaryOtherThan(t, first)
	if n := primary.Client(t).Exists(t.Context(), guardedLock).Val(); n != 0 {
		t.Error("the lost lock was made again")
	}
	next := startJob(t, "-r", s.URL(), "--connect-timeout", "60s")
	if got := next.fence(); got <= fence {
		t.Errorf("the fence went from %d to %d, though the counter was lost", fence, got)
	}
	next.finish()
	next.ends(7)
}

// The slot is on its way while the lock is held, waited for, and released.
func TestASlotThatMovesTakesItsLockAlong(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	flags := []string{"-r", c.URL(), "--ttl", "3s", "--connect-timeout", "60s"}
	holder := startJob(t, flags...)
	fence := holder.fence()
	waiter := startJob(t, append(flags, "--wait", "forever")...)
	from := c.NodeOf(t, guardedLock).Client(t)
	eventually(t, "the waiter is in line", func() bool { return from.Exists(t.Context(), "redlockrun:queue:{"+guardedLock+"}").Val() == 1 })
	m := c.StartMigration(t, guardedLock)
	m.MoveKeys(t)
	to := m.To.Client(t)
	seen := int64(3000)
	eventually(t, "the lock is renewed at its new node", func() bool {
		last := seen
		seen = asking(t, to, "pttl", guardedLock)
		return seen > last
	})
	holder.finish()
	holder.ends(7)
	m.Finish(t)
	if next := waiter.fence(); next <= fence {
		t.Errorf("the fence went from %d to %d", fence, next)
	}
	if code := runNow(t, flags...); code != 75 {
		t.Errorf("another run: exit code %d, want 75", code)
	}
	waiter.finish()
	waiter.ends(7)
	if n := to.Exists(t.Context(), guardedLock).Val(); n != 0 {
		t.Error("the lock was not released")
	}
}

// asking runs a command at a node to which the slot is on its way.
func asking(t *testing.T, client *redis.Client, args ...any) int64 {
	t.Helper()
	conn := client.Conn()
	defer conn.Close()
	_ = conn.Do(t.Context(), "asking").Err()
	n, _ := conn.Do(t.Context(), args...).Int64()
	return n
}

func TestTheReplicaOfAClusterNodeKeepsTheLock(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	flags := []string{"-r", c.URL(), "--ttl", "30s", "--connect-timeout", "60s"}
	holder := startJob(t, append(flags, "--wait-replicas", "1")...)
	fence := holder.fence()
	waiter := startJob(t, append(flags, "--wait", "forever")...)
	c.NodeOf(t, guardedLock).Kill()
	if code := runNow(t, flags...); code != 75 {
		t.Errorf("another run: exit code %d, want 75", code)
	}
	holder.passesTo(waiter, fence)
	waiter.finish()
	waiter.ends(7)
}

func TestARunOnAQuorum(t *testing.T) {
	t.Parallel()
	var flags []string
	var servers []*redistest.Server
	for range 3 {
		s := redistest.Start(t)
		servers = append(servers, s)
		flags = append(flags, "-r", s.URL())
	}
	flags = append(flags, "--ttl", "3s", "--connect-timeout", "60s")
	value := func(s *redistest.Server) string { return s.Client(t).Get(t.Context(), guardedLock).Val() }

	holder := startJob(t, flags...)
	fence := holder.fence()
	if code := runNow(t, flags...); code != 75 {
		t.Errorf("another run: exit code %d, want 75", code)
	}
	waiter := startJob(t, append(flags, "--wait", "forever")...)
	eventually(t, "all servers have the lock", func() bool {
		return value(servers[0]) != "" && value(servers[0]) == value(servers[1]) && value(servers[1]) == value(servers[2])
	})
	servers[1].Kill()
	if code := runNow(t, flags...); code != 75 {
		t.Errorf("another run without one server: exit code %d, want 75", code)
	}
	next := holder.passesTo(waiter, fence)
	// Whoever dies without a word leaves nothing on any server.
	_ = waiter.cmd.Process.Kill()
	eventually(t, "the lock is released on all servers", func() bool { return value(servers[0])+value(servers[2]) == "" })

	last := startJob(t, flags...)
	if got := last.fence(); got <= next {
		t.Errorf("the fence went from %d to %d", next, got)
	}
	servers[0].Kill()
	last.ends(79)
	if text := last.stderr.String(); !strings.Contains(text, "2 must agree") {
		t.Errorf("it says %q", text)
	}
	if code := runNow(t, append(flags, "--connect-timeout", "1s")...); code != 69 {
		t.Errorf("with one server of three: exit code %d, want 69", code)
	}
	for _, flag := range [][]string{{"--shared"}, {"--slots", "2"}, {"--wait-replicas", "1"}} {
		if code := runNow(t, append(flags, flag...)...); code != 64 {
			t.Errorf("%v: exit code %d, want 64", flag, code)
		}
	}
	for name, places := range map[string][]string{
		"two servers":  {"-r", servers[0].URL(), "-r", servers[1].URL()},
		"one of them":  {"-r", servers[0].URL(), "-r", servers[1].URL(), "-r", servers[0].URL()},
		"a cluster":    {"-r", servers[0].URL(), "-r", servers[1].URL(), "-r", "redis-cluster://h"},
		"the embedded": {"-r", servers[0].URL(), "-r", servers[1].URL(), "-r", "embedded"},
	} {
		if code := runNow(t, places...); code != 64 {
			t.Errorf("%s: %v: exit code %d, want 64", name, fmt.Sprint(places), code)
		}
	}
}

// Nobody renews a lock that is held by its token: it is set at once also where
// a server gave no vote.
func TestALockByTokenIsOnAllServersOfAQuorum(t *testing.T) {
	t.Parallel()
	var flags []string
	var servers []*redistest.Server
	for range 3 {
		s := redistest.Start(t)
		servers = append(servers, s)
		flags = append(flags, "-r", s.URL())
	}
	value := func(s *redistest.Server) string { return s.Client(t).Get(t.Context(), guardedLock).Val() }
	flags = append(flags, "--ttl", "4s", "--connect-timeout", "60s")
	runNow(t, flags...) // from here on they count
	servers[2].Kill()
	restart(t, servers[2]) // but for this one
	token, err := exec.Command("redlockrun", append([]string{"acquire", "k"}, flags...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range servers {
		if got := value(s); got != strings.TrimSpace(string(token)) {
			t.Errorf("server %d has %q, want %s", i, got, token)
		}
	}
}

// With the rights that README names, and not one more.
func TestRunsWithTLSAndFewRights(t *testing.T) {
	t.Parallel()
	const rights = "user locker on >secret-locker ~lock:report:* ~redlockrun:* -@all " +
		"+eval +get +set +del +exists +pexpire +pttl +time +hget +hset +hdel +hexists " +
		"+zadd +zcard +zrange +zrangebyscore +zrank +zrem +zscore +rpush +blpop "
	run := func(t *testing.T, ca *redistest.Server, flags ...string) {
		t.Helper()
		flags = append(flags, "--redis-username", "locker", "--tls-ca", ca.CAFile, "--ttl", "3s", "--connect-timeout", "60s")
		password := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(password, []byte("secret-locker\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--redis-password-file", password)
		holder := startJob(t, flags...)
		holder.fence()
		waiter := startJob(t, append(flags, "--wait", "forever")...)
		if code := runNow(t, flags...); code != 75 {
			t.Errorf("another run: exit code %d, want 75", code)
		}
		holder.finish()
		holder.ends(7)
		waiter.fence()
		waiter.finish()
		waiter.ends(7)
		for _, j := range []*job{holder, waiter} {
			if text := j.stderr.String(); strings.Contains(text, "secret") || strings.Contains(text, "NOPERM") {
				t.Errorf("it says %q", text)
			}
		}
	}
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartSentinel(t, 0, redistest.WithTLS(), redistest.WithACL(rights))
		run(t, s.Servers[0], "-r", s.TLSURL()+"?sentinel-username=sentinel&sentinel-password=sentinel")
	})
	t.Run("Cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t, 1, redistest.WithTLS(), redistest.WithConfig("tls-cluster", "yes"),
			redistest.WithACL(rights+"+cluster|slots"))
		run(t, c.Primaries[0], "-r", "rediss-cluster://"+c.Primaries[0].TLSAddr())
	})
	t.Run("quorum", func(t *testing.T) {
		t.Parallel()
		acl := redistest.WithACL(rights + "+info")
		first := redistest.Start(t, redistest.WithTLS(), acl)
		flags := []string{"-r", first.TLSURL()}
		for range 2 {
			flags = append(flags, "-r", redistest.Start(t, redistest.WithTLSOf(first), acl).TLSURL())
		}
		run(t, first, flags...)
	})
}
