package lock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// Each state of a real server in which it refuses, what an acquisition makes
// of it, and that no lock is left behind.
func TestRefusals(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	for _, tc := range []struct {
		name      string
		server    []redistest.Option
		opts      redis.Options // beside the address
		arrange   func(t *testing.T, s *redistest.Server)
		fault     lock.Fault
		forbidden bool // ErrNotPermitted, not ErrUnavailable
		since7    bool // servers before 7.0 do not refuse it to scripts
	}{
		{
			name:   "no password given",
			server: []redistest.Option{redistest.WithPassword("pw")},
			fault:  lock.FaultNoAuth, forbidden: true,
		},
		{
			name:   "wrong password",
			server: []redistest.Option{redistest.WithPassword("pw")},
			opts:   redis.Options{Password: "other"},
			fault:  lock.FaultWrongPass, forbidden: true,
		},
		{
			name:   "no right to run scripts",
			server: []redistest.Option{redistest.WithACL("user u on >pw ~* +set +get")},
			opts:   redis.Options{Username: "u", Password: "pw"},
			fault:  lock.FaultNoPerm, forbidden: true,
		},
		{
			name:   "no right to a command in the script",
			server: []redistest.Option{redistest.WithACL("user u on >pw ~* +eval +get +set +time")},
			opts:   redis.Options{Username: "u", Password: "pw"},
			fault:  lock.FaultNoPerm, forbidden: true,
		},
		{
			name:   "no right to the keys beside the lock",
			server: []redistest.Option{redistest.WithACL("user u on >pw ~lock:* +@all")},
			opts:   redis.Options{Username: "u", Password: "pw"},
			fault:  lock.FaultNoPerm, forbidden: true,
		},
		{
			name: "replica",
			arrange: func(t *testing.T, s *redistest.Server) {
				admin(t, s, "replicaof", "127.0.0.1", "1")
				admin(t, s, "config", "set", "replica-serve-stale-data", "yes")
			},
			fault: lock.FaultReadOnly,
		},
		{
			name: "replica that lost its primary",
			arrange: func(t *testing.T, s *redistest.Server) {
				admin(t, s, "config", "set", "replica-serve-stale-data", "no")
				admin(t, s, "replicaof", "127.0.0.1", "1")
			},
			fault: lock.FaultMasterDown,
		},
		{
			name: "maxmemory reached",
			arrange: func(t *testing.T, s *redistest.Server) {
				admin(t, s, "config", "set", "maxmemory-policy", "noeviction")
				admin(t, s, "config", "set", "maxmemory", "1")
			},
			fault: lock.FaultOOM,
		},
		{
			name:    "too few replicas",
			arrange: func(t *testing.T, s *redistest.Server) { admin(t, s, "config", "set", "min-replicas-to-write", "1") },
			fault:   lock.FaultNoReplicas, since7: true,
		},
		{
			name: "can't save",
			arrange: func(t *testing.T, s *redistest.Server) {
				admin(t, s, "config", "set", "save", "3600 1")
				// A folder in the place of the file that it would write.
				if err := os.Mkdir(filepath.Join(filepath.Dir(s.Socket()), "dump.rdb"), 0o700); err != nil {
					t.Fatal(err)
				}
				admin(t, s, "set", "dirty", "1")
				client := s.Client(t)
				redistest.Eventually(t, func() bool {
					_ = client.BgSave(t.Context()).Err()
					err := client.Set(t.Context(), "x", 1, 0).Err()
					return err != nil && strings.HasPrefix(err.Error(), "MISCONF")
				}, "a save has failed")
			},
			fault: lock.FaultMisconf,
		},
		{
			name:    "cluster node without slots",
			server:  []redistest.Option{redistest.WithConfig("cluster-enabled", "yes")},
			arrange: func(*testing.T, *redistest.Server) {},
			fault:   lock.FaultClusterDown,
		},
		{
			name: "busy with a script",
			arrange: func(t *testing.T, s *redistest.Server) {
				admin(t, s, "config", "set", "lua-time-limit", "1")
				blocker := s.Client(t)
				done := make(chan struct{})
				go func() {
					defer close(done)
					blocker.Eval(context.Background(), "while true do end", nil)
				}()
				other := s.Client(t)
				redistest.Eventually(t, func() bool {
					err := other.Ping(t.Context()).Err()
					return err != nil && strings.HasPrefix(err.Error(), "BUSY")
				}, "the server is busy")
				t.Cleanup(func() {
					other.ScriptKill(context.Background())
					<-done
				})
			},
			fault: lock.FaultBusy,
		},
	} {
		forEachVersion(t, tc.name, func(t *testing.T, version redistest.Option) {
			if tc.since7 && strings.Contains(t.Name(), "/redis-6.") {
				t.Skip("not refused to scripts before 7.0")
			}
			s := redistest.Start(t, append([]redistest.Option{version}, tc.server...)...)
			if tc.arrange != nil {
				tc.arrange(t, s)
			}
			opts := tc.opts
			opts.Addr = s.Addr()
			req := request()
			req.ConnectTimeout = 2 * time.Second
			_, err := lock.New(newClient(t, &opts)).Acquire(t.Context(), req)
			var failure *lock.ServerError
			if !errors.As(err, &failure) || failure.Fault != tc.fault {
				t.Fatalf("got %v, want fault %d", err, tc.fault)
			}
			if errors.Is(err, lock.ErrNotPermitted) != tc.forbidden || errors.Is(err, lock.ErrUnavailable) == tc.forbidden {
				t.Errorf("%v: forbidden %v, unavailable %v", err,
					errors.Is(err, lock.ErrNotPermitted), errors.Is(err, lock.ErrUnavailable))
			}
			if errors.Is(err, lock.ErrLocked) || errors.Is(err, lock.ErrLost) {
				t.Errorf("%v counts as held or lost", err)
			}
		})
	}
}

func admin(t *testing.T, s *redistest.Server, args ...any) {
	t.Helper()
	if err := s.Client(t).Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// A refusal that may pass is waited out within the connect time-out.
func TestAcquireWaitsOutARefusalThatPasses(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	s := redistest.Start(t)
	admin(t, s, "config", "set", "min-replicas-to-write", "1")
	monitor := s.Monitor(t)
	go func() {
		for len(monitor.Lines()) < 3 { // HELLO, the first try and the second
			time.Sleep(time.Millisecond)
		}
		s.Client(t).ConfigSet(context.Background(), "min-replicas-to-write", "0")
	}()
	req := request()
	req.ConnectTimeout = 30 * time.Second
	if _, err := lock.New(newClient(t, &redis.Options{Addr: s.Addr()})).Acquire(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

// One that does not pass by itself is told at once, however much time there is.
func TestAFaultThatDoesNotPassIsNotTriedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	closed := redistest.Start(t, redistest.WithPassword("pw"))
	foreign := redistest.Start(t)
	admin(t, foreign, "rpush", name, "an item")
	for what, s := range map[string]*redistest.Server{"no password": closed, "a list": foreign} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		req := request()
		req.ConnectTimeout = time.Hour
		_, err := lock.New(newClient(t, &redis.Options{Addr: s.Addr()})).Acquire(ctx, req)
		if failure := (*lock.ServerError)(nil); !errors.As(err, &failure) {
			t.Errorf("%s: got %v", what, err)
		}
		cancel()
	}
}

func TestNobodyListens(t *testing.T) {
	req := request()
	req.ConnectTimeout = 200 * time.Millisecond
	_, err := lock.New(newClient(t, &redis.Options{Addr: freeAddr(t)})).Acquire(t.Context(), req)
	var failure *lock.ServerError
	if !errors.As(err, &failure) || failure.Fault != lock.FaultUnreachable || !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("got %v, want an unreachable server", err)
	}
}

func TestWhatListensIsNotRedis(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 1<<16))
			}()
		}
	}()
	_, err = lock.New(newClient(t, &redis.Options{Addr: listener.Addr().String()})).Acquire(t.Context(), request())
	var failure *lock.ServerError
	if !errors.As(err, &failure) || failure.Fault != lock.FaultProtocol {
		t.Errorf("got %v, want a protocol fault at once", err)
	}
}

func TestTLSThatIsNotTrusted(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	s := redistest.Start(t, redistest.WithTLS())
	config := tlsConfig(t, s)
	config.RootCAs = nil // the system's, which do not know this one
	_, err := lock.New(newClient(t, &redis.Options{Addr: s.TLSAddr(), TLSConfig: config})).Acquire(t.Context(), request())
	var failure *lock.ServerError
	if !errors.As(err, &failure) || failure.Fault != lock.FaultTLS {
		t.Errorf("unknown CA: got %v, want a TLS fault", err)
	}
	config = tlsConfig(t, s)
	_, err = lock.New(newClient(t, &redis.Options{Addr: s.Addr(), TLSConfig: config})).Acquire(t.Context(), lock.Request{
		Name: name, TTL: time.Second, ConnectTimeout: 300 * time.Millisecond,
	})
	if !errors.As(err, &failure) || !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("TLS to a plain port: got %v", err)
	}
}

// What a run costs, in commands: HELLO, which the client always sends, and
// one more before the work starts; one to release.
func TestRoundTrips(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	s := redistest.Start(t)
	s.ResetStats(t)
	client := newClient(t, &redis.Options{Addr: s.Addr()})
	lease := acquire(t, client)
	stats := s.CommandStats(t)
	if stats["hello"] != 1 || stats["eval"] != 1 || len(directCommands(stats)) != 2 {
		t.Errorf("before the work: %v, want one hello and one eval", directCommands(stats))
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	stats = s.CommandStats(t)
	if stats["hello"] != 1 || stats["eval"] != 2 || len(directCommands(stats)) != 2 {
		t.Errorf("all in all: %v, want one hello and two evals", directCommands(stats))
	}
	if conns := client.PoolStats().TotalConns; conns != 1 {
		t.Errorf("%d connections, want 1", conns)
	}
}

// directCommands leaves out what scripts called, and the test's own questions.
func directCommands(stats map[string]int64) map[string]int64 {
	direct := map[string]int64{}
	for command, calls := range stats {
		switch command {
		case "get", "set", "del", "pexpire", "pttl", "time", "hget", "hset", "hdel", "hexists",
			"exists", "zadd", "zcard", "zrange", "zrangebyscore", "zrank", "zrem", "zscore", "rpush":
		case "info", "config|resetstat", "config|get", "ping", "auth":
		default:
			direct[command] = calls
		}
	}
	return direct
}

func BenchmarkAcquireRelease(b *testing.B) {
	s := redistest.Start(b)
	client := lock.NewClient(&redis.Options{Addr: s.Addr()})
	defer client.Close()
	locker := lock.New(client)
	for b.Loop() {
		lease, err := locker.Acquire(b.Context(), request())
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// A replica answers questions from data that may be old, and so does not say
// that a lock is held, or gone.
func TestAReplicaProvesNothing(t *testing.T) {
	t.Parallel()
	forEachVersion(t, "version", testAReplicaProvesNothing)
}

func testAReplicaProvesNothing(t *testing.T, version redistest.Option) {
	primary := redistest.Start(t, version)
	client := newClient(t, &redis.Options{Addr: primary.Addr()})
	lease := acquire(t, client)
	replica := redistest.Start(t, version, redistest.WithReplicaOf(primary))
	asked := lock.New(newClient(t, &redis.Options{Addr: replica.Addr()}))
	isReadOnly := func(what string, err error) {
		t.Helper()
		var failure *lock.ServerError
		if !errors.As(err, &failure) || failure.Fault != lock.FaultReadOnly {
			t.Errorf("%s: got %v, want READONLY", what, err)
		}
	}
	req := request()
	req.ConnectTimeout = 2 * time.Second
	_, err := asked.Acquire(t.Context(), req)
	isReadOnly("a lock that another holds", err)
	isReadOnly("the renewal of another's lock", asked.Resume(name, "not the token", time.Minute).Renew(t.Context()))
	isReadOnly("the renewal of our lock", asked.Resume(name, lease.Token(), time.Minute).Renew(t.Context()))
	gone := asked.Resume(name+"-gone", lease.Token(), time.Minute)
	isReadOnly("the renewal of a lock that is gone", gone.Renew(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	isReadOnly("the release of a lock that is gone", gone.Release(ctx))
}

// Whatever right is missing, the error names it, or nothing needs it.
func TestAMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	forEachVersion(t, "version", testAMissingRightIsNamed)
}

func testAMissingRightIsNamed(t *testing.T, version redistest.Option) {
	s := redistest.Start(t, version, redistest.WithACL(aclUser))
	client := newClient(t, &redis.Options{Addr: s.Addr(), Username: "locker", Password: "pw-locker"})
	named := map[string]bool{}
	for _, capacity := range []lock.Capacity{lock.Exclusive, 2} {
		for right := range strings.FieldsSeq(aclUser[strings.Index(aclUser, "+"):]) {
			admin(t, s, "flushall")
			admin(t, s, "acl", "setuser", "locker", strings.Replace(right, "+", "-", 1))
			err := errors.Join(useAll(t, client, capacity)...)
			if err != nil && !strings.Contains(err.Error(), strings.TrimPrefix(right, "+")) {
				t.Errorf("without %s: %v", right, err)
			}
			named[right] = named[right] || err != nil
			admin(t, s, "acl", "setuser", "locker", right)
		}
	}
	for _, right := range []string{"+eval", "+get", "+set", "+del", "+hset", "+pexpire", "+time", "+zadd", "+zrange", "+zrem"} {
		if !named[right] {
			t.Errorf("nothing misses %s", right)
		}
	}
}

// useAll takes a lock, waits for it with others, renews and releases it, and
// returns what went wrong.
func useAll(t *testing.T, client *redis.Client, capacity lock.Capacity) (failures []error) {
	t.Helper()
	req := request()
	req.Capacity = capacity
	req.TTL = time.Second
	req.ConnectTimeout = patience
	note := func(err error) bool {
		if err != nil && !errors.Is(err, lock.ErrLocked) && !errors.Is(err, lock.ErrLost) {
			failures = append(failures, err)
		}
		return err == nil
	}
	for range 2 {
		lease, err := lock.New(client).Acquire(t.Context(), req)
		if note(err) {
			note(lease.Renew(t.Context()))
			defer func() { note(lease.Release(t.Context())) }()
		}
	}
	req.Wait = 100 * time.Millisecond
	lease, err := lock.New(client).Acquire(t.Context(), req)
	if note(err) {
		note(lease.Release(t.Context()))
	}
	return failures
}

// Without memory for a mark, the lock can be given back all the same: so it can
// by who does not know what became of its holder.
func TestALockIsReleasedWithoutMemory(t *testing.T) {
	forEachVersion(t, "no memory", func(t *testing.T, version redistest.Option) {
		s := redistest.Start(t, version)
		client := newClient(t, &redis.Options{Addr: s.Addr()})
		lease := acquire(t, client)
		readers := request()
		readers.Name, readers.Capacity = name+"_shared", lock.Shared
		shared, err := lock.New(client).Acquire(t.Context(), readers)
		if err != nil {
			t.Fatal(err)
		}
		admin(t, s, "config", "set", "maxmemory-policy", "noeviction")
		admin(t, s, "config", "set", "maxmemory", "1")
		if err := lease.Renew(t.Context()); err != nil {
			t.Errorf("it is not renewed: %v", err)
		}
		if err := shared.Renew(t.Context()); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("renewing a shared lock: %v, want ErrUnavailable", err)
		}
		if err := lock.New(client).ReleaseToken(t.Context(), name, lease.Token(), lease.TTL(), 0, lock.End{}); err != nil {
			t.Error(err)
		}
		if got := get(t, s.Client(t), name); got != "" {
			t.Errorf("the lock still holds %q", got)
		}
	})
}

func TestAClientThatWasClosedIsNotAskedAgain(t *testing.T) {
	client := newClient(t, &redis.Options{Addr: redistest.Start(t).Addr()})
	client.Close()
	req := request()
	req.ConnectTimeout = time.Hour
	if _, err := lock.New(client).Acquire(t.Context(), req); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("got %v, want that of a closed client", err)
	}
}

// What another kind of client can't do is an error.
func TestOtherKindsOfClients(t *testing.T) {
	s := redistest.Start(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": s.Addr()}})
	defer ring.Close()
	locker := lock.New(ring)
	lease := acquire(t, ring)
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	req := request()
	req.Wait = time.Second
	if _, err := locker.Acquire(t.Context(), req); err == nil {
		t.Error("it waits")
	}
	req = request()
	req.Replicas = 1
	if _, err := locker.Acquire(t.Context(), req); err == nil {
		t.Error("it asks for replicas")
	}
	if _, err := locker.List(t.Context(), lock.Listing{}); err == nil {
		t.Error("it lists locks")
	}
}
