package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// pings is how many round trips are measured; the slowest stands for the 99th
// percentile.
const pings = 20

// latency compares round trips with the time that a renewal has, a sixth of the
// ttl, before it counts as failed.
func (e *exam) latency(ctx context.Context) {
	var took []time.Duration
	for range pings {
		sent := time.Now()
		if err := e.ping(ctx); err != nil {
			e.unknown("latency", err)
			return
		}
		took = append(took, time.Since(sent))
	}
	slices.Sort(took)
	slowest, ttl := took[pings-1], e.subject.TTL
	status, next := judgeLatency(slowest, ttl)
	e.add("latency", status, next, "a round trip takes %s, the slowest of %d took %s; a renewal has %s",
		short(took[pings/2]), pings, short(slowest), short(ttl/6))
}

func judgeLatency(slowest, ttl time.Duration) (status Status, next string) {
	switch {
	case slowest > ttl/6:
		return Fail, fmt.Sprintf("raise --ttl to %s at the least: renewals come too late", (slowest*30 + time.Second).Truncate(time.Second))
	case slowest > ttl/30:
		return Warn, "raise --ttl, or keep locks nearer by"
	default:
		return Pass, ""
	}
}

// clockTolerance is how far a server's clock may be off. Only the fences of a
// lock that moves from one server to another depend on it.
const clockTolerance = time.Second

func (e *exam) clock(ctx context.Context) {
	sent := time.Now()
	theirs, err := e.client.Time(ctx).Result()
	if err != nil {
		e.unknown("clock", err)
		return
	}
	trip := time.Since(sent)
	offset := theirs.Sub(sent.Add(trip / 2))
	off := offset.Abs() - trip/2 // at the least
	if off > clockTolerance {
		e.add("clock", Warn, "set it by NTP", "%s off this machine's: only the order of fences after a failover depends on it",
			offset.Round(10*time.Millisecond))
		return
	}
	e.add("clock", Pass, "", "%s off this machine's, to %s", offset.Round(time.Millisecond), (trip/2 + time.Millisecond).Round(time.Millisecond))
}

// unknown notes that a check could not be made. What it needs beyond the rights
// of a run is no fault.
func (e *exam) unknown(name string, err error) {
	if lock.FaultOf(err) == lock.FaultNoPerm {
		e.add(name, Skip, "", "this user may not ask: %s", err)
		return
	}
	e.add(name, Skip, "", "no answer: %s", err)
}

// told reports whether the server told that of itself; if not, the check is
// skipped.
func (e *exam) told(check, field string) bool {
	switch _, ok := e.info[field]; {
	case ok:
		return true
	case e.denied != nil:
		e.unknown(check, e.denied)
	default:
		e.add(check, Skip, "", "INFO has no %s", field)
	}
	return false
}

// setting asks for one of the server's, and returns "" for one that may not be
// asked for.
func (e *exam) setting(ctx context.Context, name string) string {
	values, err := e.client.ConfigGet(ctx, name).Result()
	if err != nil {
		return ""
	}
	return values[name]
}

func (e *exam) persistence(ctx context.Context) {
	if !e.told("persistence", "aof_enabled") {
		return
	}
	const keep = "set appendonly yes, and appendfsync always"
	fsync := e.setting(ctx, "appendfsync")
	switch {
	case e.info["rdb_last_bgsave_status"] == "err":
		e.add("persistence", Warn, "see its log: is the disk full, or its folder not to be written to?",
			"its last save to disk failed: it refuses writes for it (MISCONF), or soon will")
	case e.info["aof_last_write_status"] == "err":
		e.add("persistence", Warn, "see its log: is the disk full?",
			"its last write to the append-only file failed: it refuses writes for it (MISCONF)")
	case e.info["aof_enabled"] == "0" && e.kind == ofQuorum:
		e.add("persistence", Pass, "", "none; after a restart it gives no vote until it is up for the --ttl")
	case e.info["aof_enabled"] == "0":
		e.add("persistence", Warn, keep, "no append-only file: a restart forgets locks, and another run may get them")
	case fsync == "no":
		e.add("persistence", Warn, keep, "appendonly yes, but appendfsync no: a crash of its host forgets locks of the last half minute")
	case fsync == "everysec":
		e.add("persistence", Pass, "", "appendonly yes, appendfsync everysec: a crash of its host can forget locks of the last second")
	case fsync == "":
		e.add("persistence", Pass, "", "appendonly yes; appendfsync may not be asked for")
	default:
		e.add("persistence", Pass, "", "appendonly yes, appendfsync %s", fsync)
	}
}

// nearlyFull is the percentage of maxmemory from which on new locks are at risk.
const nearlyFull = 90

func (e *exam) eviction() {
	if !e.told("eviction", "maxmemory_policy") {
		return
	}
	policy := e.info["maxmemory_policy"]
	most, _ := strconv.ParseFloat(e.info["maxmemory"], 64)
	used, _ := strconv.ParseFloat(e.info["used_memory"], 64)
	const next = "set maxmemory-policy noeviction, or keep locks on a server of their own"
	switch {
	case policy != "noeviction" && most > 0:
		e.add("eviction", Fail, next, "maxmemory-policy %s: when memory is short it evicts locks, and another run gets them", policy)
	case policy != "noeviction":
		e.add("eviction", Warn, next, "maxmemory-policy %s: it would evict locks, if there were a maxmemory", policy)
	case most > 0 && used*100 > most*nearlyFull:
		e.add("eviction", Warn, "raise maxmemory, or keep locks on a server of their own",
			"noeviction, but %.0f%% of maxmemory is used: at 100%% no lock can be taken (OOM)", used*100/most)
	case most > 0:
		e.add("eviction", Pass, "", "noeviction, %.0f%% of maxmemory is used", used*100/most)
	default:
		e.add("eviction", Pass, "", "noeviction, no maxmemory")
	}
}

// replication looks at the replicas of a primary, where a failover can come.
func (e *exam) replication(ctx context.Context) {
	if e.replica() || !e.told("replication", "connected_slaves") {
		return
	}
	n := number(e.info["connected_slaves"])
	failover := e.kind == ofSentinel || e.kind == ofCluster
	least := e.setting(ctx, "min-replicas-to-write")
	switch {
	case n < e.subject.Replicas:
		e.add("replication", Fail, "connect more, or lower --wait-replicas", "%s, but --wait-replicas wants %d", plural(n, "replica"), e.subject.Replicas)
	case number(least) > n:
		e.add("replication", Fail, "connect more, or lower min-replicas-to-write", "%s, but min-replicas-to-write is %s: it refuses locks", plural(n, "replica"), least)
	case failover && n == 0:
		e.add("replication", Warn, "give it a replica", "no replica: nobody takes over when it fails")
	case failover && least == "0":
		e.add("replication", Warn, "set min-replicas-to-write 1", "%s, but min-replicas-to-write is 0: a primary that was cut off goes on to give out locks", plural(n, "replica"))
	case least == "" || least == "0":
		e.add("replication", Pass, "", "%s", plural(n, "replica"))
	default:
		e.add("replication", Pass, "", "%s, min-replicas-to-write %s", plural(n, "replica"), least)
	}
}

// uptime is of weight for a quorum alone.
func (e *exam) uptime() {
	if e.kind != ofQuorum || !e.told("uptime", "uptime_in_seconds") {
		return
	}
	up := time.Duration(number(e.info["uptime_in_seconds"])) * time.Second
	if left := e.subject.TTL + time.Second - up; left > 0 { // it counts in whole seconds
		e.add("uptime", Warn, "wait for "+left.Round(time.Second).String(), "up for %s, less than the --ttl: it gives no vote yet", up)
		return
	}
	e.add("uptime", Pass, "", "up for %s", up)
}

// text is a reply without what a script adds to it.
func text(err error) string {
	failure := &lock.ServerError{Fault: lock.FaultOf(err), Err: err}
	return failure.Reason()
}
