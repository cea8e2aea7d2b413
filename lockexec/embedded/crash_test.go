//go:build unix

package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
)

const token = "0b7e6d3c-9c1f-4f0a-8a55-1f6d1f6f2f10"

func TestKilledServerComesBackWithItsState(t *testing.T) {
	cfg := newConfig(t)
	start(t, cfg)
	rdb := newClient(t, cfg.Dir)
	do(t, rdb, "SET", "lock:report:live", token, "PX", 3600_000, "NX")
	do(t, rdb, "SET", "lock:report:short", token, "PX", 50, "NX")
	do(t, rdb, "SET", "redlockrun:done:{a}", "yes", "EX", 7200)
	do(t, rdb, "HSET", "redlockrun:holders:{a}", token, `{"host":"web-3"}`, "binary", "\x00\xff\r\n")
	do(t, rdb, "RPUSH", "redlockrun:wake:{a}", "1", "2", "")
	do(t, rdb, "SADD", "set", "x", "y")
	do(t, rdb, "ZADD", "zset", 1764650000123.25, "x", "-inf", "y", "0.1", "z")
	do(t, rdb, "XADD", "stream", "7-1", "code", "0")
	do(t, rdb, "XADD", "stream", "7-2", "code", "1", "why", "")
	do(t, rdb, "SET", "", "the empty key")
	conn := rdb.Conn()
	do(t, rdb, "PING")
	if err := conn.Select(within(t), 15).Err(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Set(within(t), "elsewhere", "15", 0).Err(); err != nil {
		t.Fatal(err)
	}
	before := contents(t, rdb)
	conn.Close()

	kill9(t, cfg.Dir)
	eventually(t, "the short lock expired", func() bool {
		return time.Now().UnixMilli() > before["lock:report:short"].expires
	})
	start(t, cfg)

	after := contents(t, rdb)
	if _, ok := after["lock:report:short"]; ok {
		t.Error("a lock that expired while no server ran came back")
	}
	delete(before, "lock:report:short")
	if diff := cmp.Diff(before, after, cmp.AllowUnexported(value{}), cmp.FilterValues(func(x, y int64) bool {
		return x != y && x-y < 50 && y-x < 50 // ms of an expiry, each read as now + time left
	}, cmp.Comparer(func(int64, int64) bool { return true }))); diff != "" {
		t.Errorf("state before (-) and after (+) the kill:\n%s", diff)
	}
	conn = rdb.Conn()
	defer conn.Close()
	if err := conn.Select(within(t), 15).Err(); err != nil {
		t.Fatal(err)
	}
	if got := conn.Get(within(t), "elsewhere").Val(); got != "15" {
		t.Errorf("database 15: got %q", got)
	}
}

// value is a key's value and, in ms since 1970, when it expires; 0 for never.
type value struct {
	value   any
	expires int64
}

// contents returns what is in database 0.
func contents(t *testing.T, rdb *redis.Client) map[string]value {
	t.Helper()
	all := map[string]value{}
	for _, key := range rdb.Keys(within(t), "*").Val() {
		var v value
		switch kind := rdb.Type(within(t), key).Val(); kind {
		case "string":
			v.value = do(t, rdb, "GET", key)
		case "hash":
			v.value = do(t, rdb, "HGETALL", key)
		case "list":
			v.value = do(t, rdb, "LRANGE", key, 0, -1)
		case "set":
			v.value = do(t, rdb, "SMEMBERS", key)
		case "zset":
			v.value = do(t, rdb, "ZRANGE", key, 0, -1, "WITHSCORES")
		case "stream":
			v.value = do(t, rdb, "XRANGE", key, "-", "+")
		case "none": // expired meanwhile
			continue
		default:
			t.Fatalf("%q: type %q", key, kind)
		}
		if at := rdb.PExpireTime(within(t), key).Val(); at > 0 {
			v.expires = at.Milliseconds()
		}
		all[key] = v
	}
	return all
}

func TestRepliedLockIsInTheStateFile(t *testing.T) {
	cfg := newConfig(t)
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	for i := range rounds {
		start(t, cfg)
		pid := status(t, cfg.Dir).PID
		rdb := newClient(t, cfg.Dir)
		key := fmt.Sprintf("lock:report:%d", i)
		if ok, err := rdb.SetNX(within(t), key, token, time.Hour).Result(); err != nil || !ok {
			t.Fatalf("round %d: SET NX: %v, %v", i, ok, err)
		}
		kill9PID(t, cfg.Dir, pid)
		rdb.Close()
		state, err := os.ReadFile(filepath.Join(cfg.Dir, "state.resp"))
		if err != nil || !strings.Contains(string(state), key+"\r\n") {
			t.Fatalf("round %d: %s is not in the state file (%v):\n%s", i, key, err, state)
		}
	}
	start(t, cfg)
	if got := status(t, cfg.Dir).Locks; got != rounds {
		t.Errorf("after %d kills: got %d locks, want all %d", rounds, got, rounds)
	}
}

// What a client was told, by its own command's reply or by reading what another's did, is there after a kill.
func TestNothingThatWasToldIsLost(t *testing.T) {
	cfg := newConfig(t)
	var told [8]atomic.Int64
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		start(t, cfg)
		pid := status(t, cfg.Dir).PID
		check := newClient(t, cfg.Dir)
		for i := range told {
			if got, err := check.Get(within(t), counter(i)).Int64(); !errors.Is(err, redis.Nil) && err != nil || got < told[i].Load() {
				t.Fatalf("round %d: %s: got %d (%v), want %d at least, which a client was told", round, counter(i), got, err, told[i].Load())
			}
		}
		var clients sync.WaitGroup
		for i := range told {
			clients.Go(func() { untilItDies(t, cfg.Dir, &told[i], "INCR", counter(i)) })
			clients.Go(func() { untilItDies(t, cfg.Dir, &told[i], "GET", counter(i)) })
		}
		before := told[0].Load()
		eventually(t, "clients make progress", func() bool { return told[0].Load() > before+20 })
		kill9PID(t, cfg.Dir, pid)
		clients.Wait()
		check.Close()
	}
}

func counter(i int) string { return fmt.Sprintf("redlockrun:counter:%d", i) }

// untilItDies repeats a command and raises told to the highest number it got, until the server is gone.
func untilItDies(t *testing.T, dir string, told *atomic.Int64, args ...any) {
	rdb := newClient(t, dir)
	defer rdb.Close()
	for {
		n, err := rdb.Do(within(t), args...).Int64()
		if errors.Is(err, redis.Nil) {
			continue
		} else if err != nil {
			return
		}
		for old := told.Load(); n > old && !told.CompareAndSwap(old, n); old = told.Load() {
		}
	}
}

func TestBlockedPopIsSaved(t *testing.T) {
	cfg := newConfig(t)
	start(t, cfg)
	rdb, waiter := newClient(t, cfg.Dir), newClient(t, cfg.Dir)
	popped := make(chan []string)
	go func() { popped <- waiter.BLPop(within(t), 0, "wake").Val() }()
	eventually(t, "the waiter is connected", func() bool { return status(t, cfg.Dir).Clients >= 1 })
	do(t, rdb, "RPUSH", "wake", "grant", "rest")
	if diff := cmp.Diff([]string{"wake", "grant"}, <-popped); diff != "" {
		t.Fatal(diff)
	}
	kill9(t, cfg.Dir)
	start(t, cfg)
	if diff := cmp.Diff([]string{"rest"}, newClient(t, cfg.Dir).LRange(within(t), "wake", 0, -1).Val()); diff != "" {
		t.Errorf("the list after the kill: %s", diff)
	}
}

func TestUnsavedCommandIsNotASuccess(t *testing.T) {
	cfg := newConfig(t)
	start(t, cfg)
	rdb := newClient(t, cfg.Dir)
	do(t, rdb, "SET", "before", "1")
	// A folder in the place of the new file stands for a full disk.
	obstacle := filepath.Join(cfg.Dir, "state.new")
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(obstacle, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		rdb := newClient(t, cfg.Dir) // its connection is closed with the error
		_, err := rdb.SetNX(within(t), "lock:report:k", token, time.Hour).Result()
		if err == nil || !strings.HasPrefix(err.Error(), "MISCONF ") || !strings.Contains(err.Error(), cfg.Dir) {
			t.Errorf("SET NX: got %v, want MISCONF and the folder's name", err)
		}
		if _, err := rdb.Get(within(t), "lock:report:k").Result(); err == nil {
			t.Error("GET showed a lock that is not in the state file")
		}
	}
	if err := os.RemoveAll(obstacle); err != nil {
		t.Fatal(err)
	}
	do(t, rdb, "SET", "after", "1")
	kill9(t, cfg.Dir)
	start(t, cfg)
	if got := do(t, newClient(t, cfg.Dir), "EXISTS", "before", "after", "lock:report:k"); got != int64(3) {
		t.Errorf("got %v keys, want all 3 once the disk was free again", got)
	}
}

func TestDamagedStateStopsTheStart(t *testing.T) {
	cfg := newConfig(t)
	start(t, cfg)
	do(t, newClient(t, cfg.Dir), "SET", "lock:report:k", token, "EX", 3600)
	kill9(t, cfg.Dir)
	file := filepath.Join(cfg.Dir, "state.resp")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flipped := []byte(strings.Replace(string(whole), token, "1"+token[1:], 1))
	for name, damaged := range map[string][]byte{"empty": {}, "cut": whole[:len(whole)-5], "flipped": flipped} {
		if err := os.WriteFile(file, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		err := embedded.Start(within(t), cfg)
		if _, ok := errors.AsType[*embedded.StartError](err); !ok || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "remove") {
			t.Errorf("%s: got %v, want a StartError that names the file and what to do", name, err)
		}
		if kept, err := os.ReadFile(file); string(kept) != string(damaged) {
			t.Errorf("%s: the file was changed (%v)", name, err)
		}
	}
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
	if got := do(t, newClient(t, cfg.Dir), "GET", "lock:report:k"); got != token {
		t.Errorf("GET: got %v", got)
	}
}

func TestCommandsThatCannotBeKeptAreRefused(t *testing.T) {
	cfg := newConfig(t)
	start(t, cfg)
	rdb := newClient(t, cfg.Dir)
	do(t, rdb, "RPUSH", "l", "v")
	for _, args := range [][]any{
		{"PFADD", "h", "x"},
		{"XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"},
		{"BLMOVE", "l", "m", "LEFT", "RIGHT", "0"},
		{"SUBSCRIBE", "c"},
		{"SELECT", "16"},
		{"EVAL", "return redis.call('PFADD', 'h', 'x')", "0"},
		{"EVAL", "return redis.call('BLPOP', 'none', 0)", "0"},
		{"EVAL", "return redis.call('XREAD', 'BLOCK', 0, 'STREAMS', 'none', '$')", "0"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := rdb.Do(ctx, args...).Err(); err == nil || !strings.Contains(err.Error(), "ERR") {
			t.Errorf("%v: got %v, want an error", args, err)
		}
		cancel()
	}
	if got := do(t, rdb, "KEYS", "*"); len(got.([]any)) != 1 {
		t.Errorf("keys: got %v", got)
	}
}
