package faultproxy_test

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/faultproxy"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// setup returns a proxy in front of a server, a connection through it, and a client that goes around it.
func setup(t *testing.T) (*faultproxy.Proxy, *conn, *redis.Client) {
	t.Helper()
	srv := redistest.Start(t)
	p := faultproxy.New(t, srv.Addr())
	c := dial(t, p)
	c.send("PING")
	c.want("+PONG\r\n")
	return p, c, srv.Client(t)
}

// seen waits until the proxy has read a request.
func seen(t *testing.T, p *faultproxy.Proxy, cmd ...string) {
	t.Helper()
	redistest.Eventually(t, func() bool {
		return slices.ContainsFunc(p.Commands(), func(got []string) bool { return slices.Equal(got, cmd) })
	}, "the request reaches the proxy")
}

// stored waits until the server has the value.
func stored(t *testing.T, direct *redis.Client, key, value string) {
	t.Helper()
	redistest.Eventually(t, func() bool { return direct.Get(t.Context(), key).Val() == value },
		"the request is run by the server")
}

// absent checks that the server has no such key.
func absent(t *testing.T, direct *redis.Client, key string) {
	t.Helper()
	if got, err := direct.Exists(t.Context(), key).Result(); got != 0 || err != nil {
		t.Errorf("key %s: got %d, %v; want none on the server", key, got, err)
	}
}

func TestBlackHoleHangsAndPassDeliversLate(t *testing.T) {
	p, present, direct := setup(t)
	p.BlackHole()
	later := dial(t, p)
	present.send("SET", "present", "1")
	later.send("SET", "later", "2")
	seen(t, p, "SET", "present", "1")
	present.wantSilence()
	later.wantSilence()
	absent(t, direct, "present")
	absent(t, direct, "later")
	p.Pass()
	present.want("+OK\r\n")
	later.want("+OK\r\n")
	stored(t, direct, "present", "1")
	stored(t, direct, "later", "2")
}

func TestBlackHoleKeepsRepliesBack(t *testing.T) {
	p, c, direct := setup(t)
	release := p.HoldRequests(faultproxy.Command("BLPOP"))
	c.send("BLPOP", "list", "0")
	seen(t, p, "BLPOP", "list", "0")
	release()
	redistest.Eventually(t, func() bool {
		return direct.InfoMap(t.Context(), "clients").Item("Clients", "blocked_clients") == "1"
	}, "the server has the request")
	p.BlackHole()
	if err := direct.RPush(t.Context(), "list", "x").Err(); err != nil {
		t.Fatal(err)
	}
	c.wantSilence()
	p.Pass()
	c.want("*2\r\n", "$4\r\n", "list\r\n", "$1\r\n", "x\r\n")
}

func TestBlackHoleHidesTheServersEnd(t *testing.T) {
	srv := redistest.Start(t)
	p := faultproxy.New(t, srv.Addr())
	c := dial(t, p)
	c.send("PING")
	c.want("+PONG\r\n")
	p.BlackHole()
	srv.Kill()
	c.wantSilence()
	p.Pass()
	if _, err := c.line(); err == nil {
		t.Error("the server's end did not come through afterwards")
	}
}

func TestBlackHoleDeliversForClientsThatHungUp(t *testing.T) {
	p, c, direct := setup(t)
	p.BlackHole()
	c.send("SET", "k", "v")
	c.Close()
	p.Pass()
	stored(t, direct, "k", "v")
}

func TestCutInABlackHoleLosesWhatWaited(t *testing.T) {
	p, c, direct := setup(t)
	p.BlackHole()
	c.send("SET", "k", "v")
	seen(t, p, "SET", "k", "v")
	p.Cut()
	c.wantReset()
	p.Pass()
	other := dial(t, p)
	other.send("PING")
	other.want("+PONG\r\n")
	absent(t, direct, "k")
}

func TestRefuse(t *testing.T) {
	p, c, _ := setup(t)
	p.Refuse()
	p.Refuse()
	c.wantReset()
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: got %v, want refused", err)
	}
	for _, reopen := range []func(){p.Pass, p.BlackHole} {
		p.Refuse()
		reopen()
		c = dial(t, p)
	}
	c.send("PING")
	c.wantSilence()
	p.Pass()
	c.want("+PONG\r\n")
	if got := p.Accepted(); got != 3 && got != 2 { // Refuse may come before the second one is accepted
		t.Errorf("got %d connections, want 3", got)
	}
}

func TestRefuseLosesWhatABlackHoleKept(t *testing.T) {
	p, c, direct := setup(t)
	p.BlackHole()
	c.send("SET", "k", "v")
	seen(t, p, "SET", "k", "v")
	p.Refuse()
	c.wantReset()
	p.Pass()
	absent(t, direct, "k")
}

func TestCut(t *testing.T) {
	p, c, _ := setup(t)
	p.Cut()
	c.wantReset()
	c = dial(t, p)
	c.send("PING")
	c.want("+PONG\r\n")
}

func TestDropReplyThenCut(t *testing.T) {
	p, c, direct := setup(t)
	p.DropReply(faultproxy.Command("set"), faultproxy.ThenCut)
	c.send("SET", "k", "v")
	c.wantReset()
	stored(t, direct, "k", "v")

	c = dial(t, p)
	c.send("SET", "k", "w")
	c.want("+OK\r\n")
}

func TestDropReplyThenHang(t *testing.T) {
	p, c, direct := setup(t)
	p.DropReply(func(cmd []string) bool { return cmd[len(cmd)-1] == "v" }, faultproxy.ThenHang)
	c.write(encode("GET", "k") + encode("SET", "k", "v") + encode("SET", "other", "w"))
	c.want("$-1\r\n")
	c.wantSilence()
	stored(t, direct, "k", "v")
	stored(t, direct, "other", "w")
	p.Pass()
	c.send("SET", "other", "x")
	stored(t, direct, "other", "x")
	c.wantSilence()
}

func TestDropReplyHidesTheServersEnd(t *testing.T) {
	srv := redistest.Start(t)
	p := faultproxy.New(t, srv.Addr())
	c := dial(t, p)
	p.DropReply(nil, faultproxy.ThenHang)
	c.send("SET", "k", "v")
	stored(t, srv.Client(t), "k", "v")
	srv.Kill()
	c.send("PING")
	c.wantSilence()
}

func TestDropReplyOfTwoRulesDropsTwo(t *testing.T) {
	p, _, _ := setup(t)
	p.DropReply(faultproxy.Command("PING"), faultproxy.ThenCut)
	p.DropReply(faultproxy.Command("PING"), faultproxy.ThenCut)
	for range 2 {
		c := dial(t, p)
		c.send("PING")
		c.wantReset()
	}
	c := dial(t, p)
	c.send("PING")
	c.want("+PONG\r\n")
}

func TestDropRepliesUntilPass(t *testing.T) {
	p, _, direct := setup(t)
	p.DropReplies(faultproxy.Command("INCR"), faultproxy.ThenCut)
	for range 3 {
		c := dial(t, p)
		c.send("PING")
		c.want("+PONG\r\n")
		c.send("INCR", "n")
		c.wantReset()
	}
	p.Pass()
	c := dial(t, p)
	c.send("INCR", "n")
	c.want(":4\r\n")
	stored(t, direct, "n", "4")
}

func TestDropReplyPassesMessages(t *testing.T) {
	p, c, direct := setup(t)
	c.send("SUBSCRIBE", "ch")
	c.want("*3\r\n", "$9\r\n", "subscribe\r\n", "$2\r\n", "ch\r\n", ":1\r\n")
	p.DropReply(faultproxy.Command("PING"), faultproxy.ThenCut)
	if err := direct.Publish(t.Context(), "ch", "m").Err(); err != nil {
		t.Fatal(err)
	}
	c.want("*3\r\n", "$7\r\n", "message\r\n", "$2\r\n", "ch\r\n", "$1\r\n", "m\r\n")
	c.send("PING")
	c.wantReset()
}

func TestDelayRequestsKeepsTheOrder(t *testing.T) {
	p, c, direct := setup(t)
	p.DelayRequests(faultproxy.Command("SET"), time.Hour)
	c.send("SET", "k", "v")
	c.send("GET", "k")
	seen(t, p, "SET", "k", "v")
	c.wantSilence()
	absent(t, direct, "k")
	p.Pass()
	c.want("+OK\r\n", "$1\r\n", "v\r\n")

	p.DelayRequests(nil, time.Millisecond)
	c.send("GET", "k")
	c.want("$1\r\n", "v\r\n")
}

func TestDelayReplies(t *testing.T) {
	p, c, direct := setup(t)
	p.DelayReplies(time.Hour)
	c.send("SET", "k", "v")
	stored(t, direct, "k", "v")
	c.wantSilence()
	p.DelayReplies(0)
	c.want("+OK\r\n")

	p.DelayReplies(time.Millisecond)
	c.send("PING")
	c.want("+PONG\r\n")
}

func TestHeldRequestComesLate(t *testing.T) {
	p, c, direct := setup(t)
	release := p.HoldRequests(faultproxy.Command("SET"))
	c.send("SET", "k", "late")
	seen(t, p, "SET", "k", "late")
	c.Close()
	other := dial(t, p)
	other.send("GET", "k")
	other.want("$-1\r\n")
	release()
	release()
	stored(t, direct, "k", "late")
	other.send("SET", "k", "later")
	other.want("+OK\r\n")
}

func TestHeldRequestIsLostByCut(t *testing.T) {
	p, c, direct := setup(t)
	release := p.HoldRequests(nil)
	c.send("SET", "k", "v")
	seen(t, p, "SET", "k", "v")
	p.Cut()
	release()
	c.wantReset()
	absent(t, direct, "k")
}

func TestPassReleasesHeldRequests(t *testing.T) {
	p, c, _ := setup(t)
	p.HoldRequests(nil)
	c.send("PING")
	seen(t, p, "PING")
	c.wantSilence()
	p.Pass()
	c.want("+PONG\r\n")
}

func TestFaultsSwitchUnderTraffic(t *testing.T) {
	p, _, direct := setup(t)
	client := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1, DialerRetries: 1, ReadTimeout: time.Second})
	defer client.Close()
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = client.Incr(t.Context(), "n").Err()
			}
		}
	}()
	for range 20 {
		p.BlackHole()
		p.Cut()
		p.Refuse()
		p.HoldRequests(faultproxy.Command("INCR"))
		p.DropReply(nil, faultproxy.ThenHang)
		p.DelayReplies(time.Millisecond)
		p.Pass()
	}
	before := direct.Get(t.Context(), "n").Val()
	redistest.Eventually(t, func() bool { return direct.Get(t.Context(), "n").Val() != before }, "traffic goes on")
	close(stop)
	p.Cut()
	<-done
}
