//go:build linux

package cmd_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// says runs the program and returns all that it says, with its exit code.
func says(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command("redlockrun", args...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// allAgree waits until all servers have the lock from the same run: it starts
// with most of them, and its first renewal tells the others.
func allAgree(t *testing.T, servers []*redistest.Server) {
	t.Helper()
	eventually(t, "all servers agree on the holder", func() bool {
		tokens := map[string]bool{}
		for _, s := range servers {
			tokens[s.Client(t).Get(t.Context(), guardedLock).Val()] = true
		}
		return len(tokens) == 1 && !tokens[""]
	})
}

func TestForceOnAQuorum(t *testing.T) {
	t.Parallel()
	var place []string
	var servers []*redistest.Server
	for range 3 {
		s := redistest.Start(t)
		servers = append(servers, s)
		place = append(place, "-r", s.URL())
	}
	flags := append([]string{"--ttl", "8s", "--connect-timeout", "60s"}, place...)
	holder := startJob(t, flags...)
	fence := holder.fence()
	waiter := startJob(t, append(flags, "--wait", "forever")...)
	allAgree(t, servers)
	if text, code := says(t, append(place, "status", "k")...); code != 0 || strings.Contains(text, "differs") {
		t.Errorf("status: %d\n%s", code, text)
	}
	servers[1].Client(t).Set(t.Context(), guardedLock, "another", time.Minute)
	if text, code := says(t, append(place, "status", "k")...); code != 0 ||
		!strings.Contains(text, servers[1].Addr()+" differs: held by another program\n") || strings.Count(text, "differs") != 1 {
		t.Errorf("status: %d\n%s", code, text)
	}
	if text, code := says(t, append(place, "list")...); code != 0 || strings.Count(text, "\nk ") != 1 {
		t.Errorf("list: %d\n%s", code, text)
	}
	servers[1].Client(t).Del(t.Context(), guardedLock)
	if text, code := says(t, append(place, "release", "k", "--force", "--yes")...); code != 0 || !strings.Contains(text, "was revoked") {
		t.Errorf("release: %d\n%s", code, text)
	}
	holder.ends(79)
	if next := waiter.fence(); next <= fence {
		t.Errorf("the fence went from %d to %d", fence, next)
	}
	allAgree(t, servers)
	servers[2].Kill()
	if text, code := says(t, append(place, "status", "k")...); code != 0 || !strings.Contains(text, servers[2].Addr()+" differs: ") {
		t.Errorf("status without one server: %d\n%s", code, text)
	}
	servers[0].Kill()
	if text, code := says(t, append(place, "status", "k", "--connect-timeout", "500ms")...); code != 69 {
		t.Errorf("status with one server of three: %d\n%s", code, text)
	}
	waiter.finish()
}

// With the rights of a run, status lacks the markers of --once alone.
func TestStatusWithTheRightsOfARun(t *testing.T) {
	t.Parallel()
	const rights = "user locker on >secret-locker ~lock:report:* ~redlockrun:* -@all +eval +get +set +del +exists +pexpire +pttl +time " +
		"+hget +hset +hdel +hexists +zadd +zcard +zrange +zrangebyscore +zrank +zrem +zscore +rpush +blpop"
	s := redistest.Start(t, redistest.WithACL(rights))
	place := []string{"-r", "redis://locker:secret-locker@" + s.Addr()}
	holder := startJob(t, place...)
	holder.fence()
	if text, code := says(t, append(place, "status", "k")...); code != 0 || !strings.Contains(text, "done with --once: the ACL user lacks +scan\n") {
		t.Errorf("status: %d\n%s", code, text)
	}
	if text, code := says(t, append(place, "status", "k", "--json")...); code != 0 || !strings.Contains(text, `"done":null}`) {
		t.Errorf("status: %d\n%s", code, text)
	}
	if text, code := says(t, append(place, "list")...); code != 69 || !strings.Contains(text, "for list, +scan") {
		t.Errorf("list: %d\n%s", code, text)
	}
	if text, code := says(t, append(place, "release", "k", "--force", "--yes")...); code != 0 {
		t.Errorf("release: %d\n%s", code, text)
	}
	holder.ends(79)
}
