package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/doctor"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func TestAGoodSentinelPasses(t *testing.T) {
	place := redistest.StartSentinel(t, 1, redistest.WithPersistence())
	primary := place.Primary(t)
	checks := doctor.Examine(t.Context(), subject(t, place.URL()))
	want(t, checks, "", "replication", doctor.Warn, "set min-replicas-to-write 1")
	primary.ConfigSet(t, "min-replicas-to-write", "1")
	redistest.Eventually(t, func() bool { return infoOf(t, primary, "replication", "min_slaves_good_slaves") == "1" }, "the replica counts")
	checks = doctor.Examine(t.Context(), subject(t, place.URL()))
	wantOnly(t, checks, doctor.Pass)
	want(t, checks, "", "sentinels", doctor.Pass, "3 of 3 name "+primary.Addr())
	want(t, checks, primary.Addr(), "scripts", doctor.Pass, "")
	wantEmpty(t, primary)

	place.Sentinels[2].Kill()
	checks = doctor.Examine(t.Context(), subject(t, place.URL()))
	want(t, checks, "Sentinel "+place.Sentinels[2].Addr(), "sentinel", doctor.Warn, "connection refused")
	want(t, checks, "", "sentinels", doctor.Pass, "2 of 3")
	place.Sentinels[1].Kill()
	checks = doctor.Examine(t.Context(), subject(t, place.URL()))
	want(t, checks, "", "sentinels", doctor.Warn, "not most of them")
	place.Sentinels[0].Kill()
	checks = doctor.Examine(t.Context(), subject(t, place.URL()))
	want(t, checks, "", "sentinels", doctor.Fail, "none of 3 names a master")
}

func TestSentinelsThatDoNotAgreeFail(t *testing.T) {
	one, other := redistest.StartSentinel(t, 0), redistest.StartSentinel(t, 0)
	url := "redis-sentinel://" + one.Addrs()[0] + "," + other.Addrs()[0] + "/" + one.Name
	checks := doctor.Examine(t.Context(), subject(t, url))
	want(t, checks, "", "sentinels", doctor.Fail, "they do not agree: 1 of 2 name")
	checks = doctor.Examine(t.Context(), subject(t, strings.Replace(one.URL(), one.Name, "another", 1)))
	want(t, checks, "", "sentinel", doctor.Fail, `it knows no master named "another"`)
	checks = doctor.Examine(t.Context(), subject(t, one.URL()))
	want(t, checks, "", "replication", doctor.Warn, "nobody takes over")
}

func TestAGoodClusterPasses(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, redistest.WithPersistence())
	for _, primary := range cluster.Primaries {
		primary.ConfigSet(t, "min-replicas-to-write", "1")
		redistest.Eventually(t, func() bool { return infoOf(t, primary, "replication", "min_slaves_good_slaves") == "1" }, "the replica counts")
	}
	s := subject(t, cluster.URL())
	s.Replicas = 1
	checks := doctor.Examine(t.Context(), s)
	wantOnly(t, checks, doctor.Pass)
	want(t, checks, "", "cluster", doctor.Pass, "3 primary nodes")
	for _, primary := range cluster.Primaries {
		want(t, checks, primary.Addr(), "scripts", doctor.Pass, "")
		wantEmpty(t, primary)
	}

	// All locks in one slot.
	s.Prefix = "{one}:"
	checks = doctor.Examine(t.Context(), s)
	wantOnly(t, checks, doctor.Pass, doctor.Skip)
	want(t, checks, cluster.NodeOf(t, "{one}:").Addr(), "scripts", doctor.Pass, "")

	s = subject(t, cluster.URL()+",127.0.0.1:1")
	want(t, doctor.Examine(t.Context(), s), "127.0.0.1:1", "node", doctor.Warn, "connection refused")
}

func TestAClusterThatLacksSlotsFails(t *testing.T) {
	cluster := redistest.StartCluster(t, 1)
	node := cluster.Primaries[0]
	if err := node.Client(t).Do(t.Context(), "cluster", "delslots", 1, 2).Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, func() bool { // it takes notice after a moment
		text, err := node.Client(t).ClusterInfo(t.Context()).Result()
		return err == nil && strings.Contains(text, "cluster_state:fail")
	}, "the cluster fails")
	checks := doctor.Examine(t.Context(), subject(t, cluster.URL()))
	want(t, checks, "", "cluster", doctor.Fail, "cluster_state is fail, 16382 of 16384")
	node.ConfigSet(t, "cluster-require-full-coverage", "no")
	redistest.Eventually(t, func() bool {
		text, err := node.Client(t).ClusterInfo(t.Context()).Result()
		return err == nil && strings.Contains(text, "cluster_state:ok")
	}, "the cluster is up again")
	checks = doctor.Examine(t.Context(), subject(t, cluster.URL()))
	want(t, checks, "", "cluster", doctor.Fail, "only 16382 of 16384")
	node.Kill()
	s := subject(t, cluster.URL())
	s.Target.Timeout = time.Second
	want(t, doctor.Examine(t.Context(), s), "", "cluster", doctor.Fail, "connection refused")
}

func TestAQuorumIsLookedAtAsAWhole(t *testing.T) {
	var servers []*redistest.Server
	var urls []string
	for range 4 {
		server := redistest.Start(t, redistest.WithACL(
			"user few on >pw -@all "+strings.Join(fewRights, " ")))
		servers, urls = append(servers, server), append(urls, server.URL())
	}
	three := subject(t, urls[:3]...)
	three.TTL = 24 * time.Hour
	checks := doctor.Examine(t.Context(), three)
	want(t, checks, servers[0].Addr(), "uptime", doctor.Warn, "less than the --ttl")

	three.TTL = time.Second
	for _, server := range servers {
		redistest.Eventually(t, func() bool {
			return len(infoOf(t, server, "server", "uptime_in_seconds")) > 1 ||
				infoOf(t, server, "server", "uptime_in_seconds") >= "3"
		}, "the server is up for longer than the ttl")
	}
	checks = doctor.Examine(t.Context(), three)
	wantOnly(t, checks, doctor.Pass)
	want(t, checks, "3 servers", "quorum", doctor.Pass, "3 of 3 work, 2 must")
	for _, server := range servers[:3] {
		wantEmpty(t, server)
	}

	want(t, doctor.Examine(t.Context(), subject(t, urls...)), "4 servers", "quorum", doctor.Warn, "no more can fail than of 3")
	twice := subject(t, urls[0], urls[1], strings.Replace(urls[0], "127.0.0.1", "localhost", 1))
	want(t, doctor.Examine(t.Context(), twice), "3 servers", "quorum", doctor.Fail, "are the same server")

	few := subject(t, urls[:3]...)
	for i := range few.Target.Places {
		few.Target.Places[i].Username, few.Target.Places[i].Password = "few", "pw"
	}
	checks = doctor.Examine(t.Context(), few)
	want(t, checks, servers[0].Addr(), "rights", doctor.Fail, "the ACL user lacks +info")

	servers[0].Kill()
	checks = doctor.Examine(t.Context(), three)
	want(t, checks, servers[0].Addr(), "connect", doctor.Fail, "")
	want(t, checks, "3 servers", "quorum", doctor.Warn, "2 of 3 work, 2 must")
	servers[1].Kill()
	want(t, doctor.Examine(t.Context(), three), "3 servers", "quorum", doctor.Fail, "1 of 3 work, 2 must")
}
