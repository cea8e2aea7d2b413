package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sentinel is a primary with replicas and Sentinels, which make one of them the primary when the present one does not
// answer for a second. The Sentinels want the user "sentinel" with that password, or none.
type Sentinel struct {
	Name      string    // of the master
	Servers   []*Server // the primary at the start, and its replicas
	Sentinels []*Server
}

// StartSentinel starts a primary with so many replicas and three Sentinels or, without replicas, one Sentinel. They
// end with the test. It returns when they know each other.
func StartSentinel(t testing.TB, replicas int, opts ...Option) *Sentinel {
	t.Helper()
	sentinels := 3
	if replicas == 0 {
		sentinels = 1
	}
	s := &Sentinel{Name: "mymaster"}
	s.Servers = []*Server{Start(t, opts...)}
	for range replicas {
		s.Servers = append(s.Servers, Start(t, append(opts, WithReplicaOf(s.Servers[0]))...))
	}
	for range sentinels {
		s.Sentinels = append(s.Sentinels, Start(t, func(c *config) {
			port := s.Servers[0].port
			if s.Servers[0].conf.tls {
				WithTLSOf(s.Servers[0])(c)
				c.add("tls-replication yes")
				port = s.Servers[0].tlsPort
			}
			c.sentinel = true
			c.add("user sentinel on >sentinel +@all")
			c.add("sentinel monitor %s 127.0.0.1 %d %d", s.Name, port, sentinels/2+1)
			c.add("sentinel auth-user %s %s", s.Name, adminName)
			c.add("sentinel auth-pass %s %s", s.Name, adminName)
			c.add("sentinel down-after-milliseconds %s 1000", s.Name)
			c.add("sentinel failover-timeout %s 5000", s.Name)
		}))
	}
	for _, sentinel := range s.Sentinels {
		Eventually(t, func() bool {
			master, _ := sentinel.ask(t, "sentinel", "master", s.Name).(map[any]any)
			quorum := sentinel.ask(t, "sentinel", "ckquorum", s.Name)
			return master["num-slaves"] == strconv.Itoa(replicas) &&
				master["num-other-sentinels"] == strconv.Itoa(sentinels-1) && strings.HasPrefix(fmt.Sprint(quorum), "OK")
		}, "the Sentinels know each other and the replicas")
	}
	return s
}

// Addrs returns the addresses of the Sentinels.
func (s *Sentinel) Addrs() []string {
	var addrs []string
	for _, sentinel := range s.Sentinels {
		addrs = append(addrs, sentinel.Addr())
	}
	return addrs
}

// TLSURL returns "rediss-sentinel://.../mymaster" of the TLS ports.
func (s *Sentinel) TLSURL() string {
	var addrs []string
	for _, sentinel := range s.Sentinels {
		addrs = append(addrs, sentinel.TLSAddr())
	}
	return "rediss-sentinel://" + strings.Join(addrs, ",") + "/" + s.Name
}

// URL returns "redis-sentinel://.../mymaster".
func (s *Sentinel) URL() string {
	return "redis-sentinel://" + strings.Join(s.Addrs(), ",") + "/" + s.Name
}

// failoverPatience bounds waits for a failover. Sentinels try again a while after one that did not come to an end, and on a
// busy machine that happens.
const failoverPatience = 3 * time.Minute

// Primary returns the server that all Sentinels call the master, when they agree on one.
func (s *Sentinel) Primary(t testing.TB) *Server {
	t.Helper()
	var primary *Server
	within(t, failoverPatience, func() bool {
		names := map[string]bool{}
		for _, sentinel := range s.Sentinels {
			addr, _ := sentinel.ask(t, "sentinel", "get-master-addr-by-name", s.Name).([]any)
			names[fmt.Sprint(addr...)] = true
		}
		primary = nil
		for _, server := range s.Servers {
			if len(names) == 1 && names[fmt.Sprint("127.0.0.1", fmt.Sprint(server.port))] {
				primary = server
			}
		}
		return primary != nil
	}, "the Sentinels agree on a primary")
	return primary
}

// AwaitPrimaryOtherThan returns the primary when it is another than that one, and takes writes.
func (s *Sentinel) AwaitPrimaryOtherThan(t testing.TB, old *Server) *Server {
	t.Helper()
	var primary *Server
	within(t, failoverPatience, func() bool {
		primary = s.Primary(t)
		return primary != old && primary.ask(t, "set", "redistest", "1", "px", "1") == "OK"
	}, "another server is the primary")
	return primary
}

// Failover has the Sentinels make another server the primary, and returns it when it is.
func (s *Sentinel) Failover(t testing.TB) *Server {
	t.Helper()
	old := s.Primary(t)
	var ordered time.Time
	within(t, failoverPatience, func() bool {
		if s.Primary(t) != old {
			return true
		}
		if time.Since(ordered) > orderAgain && s.Sentinels[0].ask(t, "sentinel", "failover", s.Name) == "OK" {
			ordered = time.Now()
		}
		return false
	}, "the Sentinels make another server the primary")
	return s.AwaitPrimaryOtherThan(t, old)
}

// orderAgain is when a failover counts as given up: as long as that, if no replica is seen that would do just then, no
// Sentinel begins another by itself, as the primary is well.
const orderAgain = 20 * time.Second

// ask sends a command as the user of this package, and returns the reply or the error.
func (s *Server) ask(t testing.TB, args ...any) any {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: s.Addr(), Username: adminName, Password: adminName, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: patience}).DialContext(ctx, "unix", s.Socket())
		},
	})
	defer client.Close()
	reply, err := client.Do(context.Background(), args...).Result()
	if err != nil {
		return err
	}
	return reply
}
