package doctor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redlockrun/redlockrun/lockexec/doctor"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func infoOf(t *testing.T, server *redistest.Server, section, field string) string {
	t.Helper()
	text, err := server.Client(t).Info(t.Context(), section).Result()
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^` + field + `:(.*?)\r?$`).FindStringSubmatch(text)
	if match == nil {
		t.Fatalf("no %s in\n%s", field, text)
	}
	return match[1]
}

func TestAServerThatForgetsLocksIsWarnedOf(t *testing.T) {
	server := redistest.Start(t)
	look := func(status doctor.Status, text string) {
		t.Helper()
		want(t, doctor.Examine(t.Context(), subject(t, server.URL())), "", "persistence", status, text)
	}
	look(doctor.Warn, "no append-only file")
	server.ConfigSet(t, "appendonly", "yes")
	look(doctor.Pass, "the last second")
	server.ConfigSet(t, "appendfsync", "no")
	look(doctor.Warn, "appendfsync no")
	server.ConfigSet(t, "appendfsync", "always")
	look(doctor.Pass, "appendfsync always")
}

func TestASaveThatFailsIsWarnedOf(t *testing.T) {
	server := redistest.Start(t, redistest.WithConfig("save", "3600 1"))
	client := server.Client(t)
	dir := client.ConfigGet(t.Context(), "dir").Val()["dir"]
	if err := os.MkdirAll(filepath.Join(dir, "dump.rdb", "in-the-way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := client.BgSave(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, func() bool { return infoOf(t, server, "persistence", "rdb_last_bgsave_status") == "err" }, "the save fails")
	s := subject(t, server.URL())
	s.Target.Timeout /= 30
	checks := doctor.Examine(t.Context(), s)
	want(t, checks, "", "persistence", doctor.Warn, "MISCONF")
	want(t, checks, "", "scripts", doctor.Fail, "MISCONF")
}

func TestAServerThatEvictsLocksFails(t *testing.T) {
	server := redistest.Start(t)
	look := func(status doctor.Status, text string) {
		t.Helper()
		want(t, doctor.Examine(t.Context(), subject(t, server.URL())), "", "eviction", status, text)
	}
	look(doctor.Pass, "no maxmemory")
	server.ConfigSet(t, "maxmemory", "1gb")
	look(doctor.Pass, "noeviction, 0%")
	for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
		server.ConfigSet(t, "maxmemory-policy", policy)
		look(doctor.Fail, policy)
	}
	server.ConfigSet(t, "maxmemory", "0")
	look(doctor.Warn, "if there were a maxmemory")
}

func TestAServerThatIsNearlyFullIsWarnedOf(t *testing.T) {
	server := redistest.Start(t)
	if err := server.Client(t).Set(t.Context(), "big", strings.Repeat("x", 50<<20), 0).Err(); err != nil {
		t.Fatal(err)
	}
	used, err := strconv.Atoi(infoOf(t, server, "memory", "used_memory"))
	if err != nil {
		t.Fatal(err)
	}
	server.ConfigSet(t, "maxmemory", fmt.Sprint(used*100/95))
	checks := doctor.Examine(t.Context(), subject(t, server.URL()))
	want(t, checks, "", "eviction", doctor.Warn, "% of maxmemory is used: at 100%")
	server.ConfigSet(t, "maxmemory", fmt.Sprint(used/2))
	s := subject(t, server.URL())
	s.Target.Timeout /= 30
	want(t, doctor.Examine(t.Context(), s), "", "scripts", doctor.Fail, "OOM")
}

func TestReplicasThatAreMissingFail(t *testing.T) {
	primary := redistest.Start(t)
	s := subject(t, primary.URL())
	s.Replicas = 1
	s.Target.Timeout /= 10
	checks := doctor.Examine(t.Context(), s)
	want(t, checks, "", "replication", doctor.Fail, "0 replicas, but --wait-replicas wants 1")
	want(t, checks, "", "wait-replicas", doctor.Fail, "0 of 1 replicas have the lock")
	wantEmpty(t, primary)
	primary.ConfigSet(t, "min-replicas-to-write", "1")
	checks = doctor.Examine(t.Context(), subject(t, primary.URL()))
	want(t, checks, "", "replication", doctor.Fail, "min-replicas-to-write is 1")
	want(t, checks, "", "scripts", doctor.Fail, "NOREPLICAS")

	redistest.Start(t, redistest.WithReplicaOf(primary))
	redistest.Eventually(t, func() bool { return infoOf(t, primary, "replication", "min_slaves_good_slaves") == "1" }, "the replica counts")
	s.Target.Timeout *= 10
	checks = doctor.Examine(t.Context(), s)
	want(t, checks, "", "replication", doctor.Pass, "1 replica, min-replicas-to-write 1")
	want(t, checks, "", "wait-replicas", doctor.Pass, "1 replica had the lock")
	wantEmpty(t, primary)
}

// fewRights are those that the documentation names.
var fewRights = strings.Fields("~lock:report:* ~redlockrun:* +eval +get +set +del +exists +pexpire +pttl +time +hget +hset +hdel +hexists " +
	"+zadd +zcard +zrange +zrangebyscore +zrank +zrem +zscore +rpush +blpop")

func TestFewRightsAreEnough(t *testing.T) {
	server := redistest.Start(t, redistest.WithACL("user few on >pw -@all "+strings.Join(fewRights, " ")))
	checks := doctor.Examine(t.Context(), subject(t, strings.Replace(server.URL(), "//", "//few:pw@", 1)))
	wantOnly(t, checks, doctor.Pass, doctor.Skip)
	want(t, checks, "", "role", doctor.Pass, "primary")
	want(t, checks, "", "version", doctor.Pass, "redis")
	want(t, checks, "", "scripts", doctor.Pass, "")
	want(t, checks, "", "eviction", doctor.Skip, "may not ask")
	wantEmpty(t, server)
}

func TestEachRightThatIsMissingIsNamed(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	for i, right := range fewRights {
		rules := []any{"acl", "setuser", "few", "reset", "on", ">pw", "-@all"}
		for _, other := range append(append([]string{}, fewRights[:i]...), fewRights[i+1:]...) {
			rules = append(rules, other)
		}
		if err := client.Do(t.Context(), rules...).Err(); err != nil {
			t.Fatal(err)
		}
		checks := doctor.Examine(t.Context(), subject(t, strings.Replace(server.URL(), "//", "//few:pw@", 1)))
		want(t, checks, "", "rights", doctor.Fail, "the ACL user lacks "+right+". redis-cli ACL SETUSER few "+right)
		want(t, checks, "", "scripts", doctor.Skip, "rights are missing")
	}
	// What could not be deleted for want of a right expires.
	redistest.Eventually(t, func() bool { return client.DBSize(t.Context()).Val() == 0 }, "nothing is left")
}

func TestTheRightsOfWhatIsAskedForAreNamed(t *testing.T) {
	server := redistest.Start(t, redistest.WithACL("user few on >pw -@all "+strings.Join(fewRights, " ")))
	s := subject(t, strings.Replace(server.URL(), "//", "//few:pw@", 1))
	s.Histories, s.Replicas = true, 1
	want(t, doctor.Examine(t.Context(), s), "", "rights", doctor.Fail, "lacks +hkeys +xrevrange +xadd +wait")
}

func TestAPrefixThatTheUserMayNotUseIsNamed(t *testing.T) {
	server := redistest.Start(t, redistest.WithACL("user few on >pw -@all "+strings.Join(fewRights, " ")))
	s := subject(t, strings.Replace(server.URL(), "//", "//few:pw@", 1))
	s.Prefix = "app:"
	want(t, doctor.Examine(t.Context(), s), "", "rights", doctor.Fail, "the ACL user lacks ~app:*. redis-cli ACL SETUSER few ~app:*")
	s.Prefix, s.Key = "lock:report:", "k"
	want(t, doctor.Examine(t.Context(), s), "", "rights", doctor.Pass, "")
}
