package faultproxy_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/redlockrun/redlockrun/lockexec/faultproxy"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

func TestProxyPassesCommandsAndSeesThem(t *testing.T) {
	srv := redistest.Start(t)
	for _, target := range []string{srv.Addr(), srv.Socket()} {
		p := faultproxy.New(t, target)
		opts, err := redis.ParseURL(p.URL())
		if err != nil {
			t.Fatal(err)
		}
		opts.DisableIdentity = true
		client := redis.NewClient(opts)
		defer client.Close()
		if err := client.Set(t.Context(), "k", "a\r\nb", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if got, err := client.Get(t.Context(), "k").Result(); got != "a\r\nb" || err != nil {
			t.Errorf("got %q, %v; want the value set", got, err)
		}
		cmds := p.Commands()
		want := [][]string{{"set", "k", "a\r\nb"}, {"get", "k"}}
		if diff := cmp.Diff(want, cmds[max(0, len(cmds)-2):]); diff != "" {
			t.Errorf("last commands (-want +got):\n%s", diff)
		}
		if got := p.Accepted(); got != 1 {
			t.Errorf("got %d connections, want 1", got)
		}
	}
}

func TestSplitAndPipelinedRequestsAreSeenWhole(t *testing.T) {
	p := faultproxy.New(t, redistest.Start(t).Addr())
	c := dial(t, p)
	const text = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
	for _, b := range []byte(text) {
		c.write(string(b))
	}
	c.write(text + text)
	for range 3 {
		c.want("+OK\r\n", "$1\r\n", "v\r\n")
	}
	var want [][]string
	for range 3 {
		want = append(want, []string{"SET", "k", "v"}, []string{"GET", "k"})
	}
	if diff := cmp.Diff(want, p.Commands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func TestOnRequestSeesARequestBeforeTheServer(t *testing.T) {
	srv := redistest.Start(t)
	direct := srv.Client(t)
	p := faultproxy.New(t, srv.Addr())
	seen := make(chan int64, 1)
	p.OnRequest(func(cmd []string) {
		if cmd[0] == "SET" {
			seen <- direct.Exists(t.Context(), cmd[1]).Val()
		}
	})
	c := dial(t, p)
	c.send("SET", "k", "v")
	if got := <-seen; got != 0 {
		t.Error("the server had the key before the hook returned")
	}
	c.want("+OK\r\n")
	p.OnRequest(nil)
	c.send("SET", "k", "v")
	c.want("+OK\r\n")
	if len(seen) > 0 {
		t.Error("a hook that was taken away was called")
	}
}

func TestHooksMaySwitchFaults(t *testing.T) {
	srv := redistest.Start(t)
	for name, fault := range map[string]func(*faultproxy.Proxy){
		"Cut":       (*faultproxy.Proxy).Cut,
		"Refuse":    (*faultproxy.Proxy).Refuse,
		"BlackHole": (*faultproxy.Proxy).BlackHole,
	} {
		t.Run(name, func(t *testing.T) {
			p := faultproxy.New(t, srv.Addr())
			done := make(chan struct{})
			p.OnRequest(func([]string) {
				fault(p)
				close(done)
			})
			c := dial(t, p)
			c.send("SET", name, "v")
			<-done
			if name == "BlackHole" {
				c.wantSilence()
			} else {
				c.wantReset()
			}
			if got := srv.Client(t).Exists(t.Context(), name).Val(); got != 0 {
				t.Error("the request passed in spite of the fault")
			}
		})
	}
}

func TestConnectionToNobodyIsCut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	p := faultproxy.New(t, l.Addr().String())
	p.BlackHole() // else the reset could come while we dial
	c := dial(t, p)
	p.Pass()
	c.wantReset()
}

func TestTLSPassesUnread(t *testing.T) {
	srv := redistest.Start(t, redistest.WithTLS())
	p := faultproxy.New(t, srv.TLSAddr())
	raw, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(t, tls.Client(raw, &tls.Config{InsecureSkipVerify: true}))
	c.send("PING")
	c.want("+PONG\r\n")
	if got := p.Commands(); len(got) != 0 {
		t.Errorf("got commands %q, want none", got)
	}
	p.Cut()
	c.wantReset()
}

func TestInlineCommandsPassUnread(t *testing.T) {
	p := faultproxy.New(t, redistest.Start(t).Addr())
	c := dial(t, p)
	c.send("PING")
	c.want("+PONG\r\n")
	c.write("ECHO hello\r\n")
	c.want("$5\r\n", "hello\r\n")
	if diff := cmp.Diff([][]string{{"PING"}}, p.Commands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func TestServersEndReachesTheClient(t *testing.T) {
	srv := redistest.Start(t)
	c := dial(t, faultproxy.New(t, srv.Addr()))
	c.send("QUIT")
	c.want("+OK\r\n")
	if _, err := c.line(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want EOF", err)
	}
}

// conn is a client that sees each byte.
type conn struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, p *faultproxy.Proxy) *conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return newConn(t, c)
}

func newConn(t *testing.T, c net.Conn) *conn {
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &conn{t: t, Conn: c, r: bufio.NewReader(c)}
}

func (c *conn) write(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *conn) send(args ...string) {
	c.t.Helper()
	c.write(encode(args...))
}

func (c *conn) line() (string, error) { return c.r.ReadString('\n') }

func (c *conn) want(lines ...string) {
	c.t.Helper()
	for _, want := range lines {
		if got, err := c.line(); got != want || err != nil {
			c.t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
}

// wantSilence checks that nothing comes, for a moment, and not even the connection's end.
func (c *conn) wantSilence() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if got, err := c.line(); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("got %q, %v; want silence", got, err)
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
}

// wantReset checks that the connection ends, and not in an orderly way.
func (c *conn) wantReset() {
	c.t.Helper()
	if got, err := c.line(); !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("got %q, %v; want a reset", got, err)
	}
}

// encode returns a request's bytes.
func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}
