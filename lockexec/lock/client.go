package lock

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// NewClient returns a client with the address, credentials and TLS settings
// of opts and the behaviour that a lock needs; opts itself is left alone.
//
// The client's own defaults suit a cache: it sends a command whose reply got
// lost again, which then meets its own lock; it dials up to 20 times before
// it reports that nobody listens; it ignores a context's deadline while it
// reads; and it introduces itself with three round trips before the first
// command. All of that is off, and each exchange is bounded by the deadline of
// its context.
func NewClient(opts *redis.Options) *redis.Client {
	own := *opts
	own.MaxRetries = -1
	own.DialerRetries = 1
	own.ContextTimeoutEnabled = true
	own.DisableIdentity = true
	own.ClientName = ""
	own.MaintNotificationsConfig = noMaintNotifications()
	own.PipelinePoolSize = -1
	own.Protocol = protocol(own.Protocol)
	own.PoolSize = poolSize
	own.MinIdleConns = 0
	own.ConnMaxIdleTime = -1
	if own.TLSConfig != nil && own.Dialer == nil {
		own.Dialer = tlsDialer(own.TLSConfig, own.DialTimeout)
	}
	return redis.NewClient(&own)
}

// NewClusterClient returns a client of a cluster, as [NewClient] does of a
// server. A slot that moved is followed, and a node that failed is replaced by
// the one that took over.
func NewClusterClient(opts *redis.ClusterOptions) *redis.ClusterClient {
	own := *opts
	own.NewClient = NewClient
	own.MaxRetries = -1
	own.DialerRetries = 1
	own.ContextTimeoutEnabled = true
	own.DisableIdentity = true
	own.ClientName = ""
	own.MaintNotificationsConfig = noMaintNotifications()
	own.Protocol = protocol(own.Protocol)
	own.PoolSize = poolSize
	own.MinIdleConns = 0
	own.ConnMaxIdleTime = -1
	// Where a command goes is known from its first key; the table of all
	// commands would cost a round trip and a right.
	own.DisableRoutingPolicies = true
	if own.Dialer == nil && len(own.Addrs) > 0 {
		own.Dialer = clusterDialer(own.Addrs[0], own.TLSConfig, own.DialTimeout)
	}
	return redis.NewClusterClient(&own)
}

// clusterDialer dials the seed's host for a node without one: a node that has
// met no other does not know by which address it can be reached.
func clusterDialer(seed string, config *tls.Config, timeout time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := (&net.Dialer{Timeout: timeout}).DialContext
	if config != nil {
		dial = tlsDialer(config, timeout)
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
			if host, _, err = net.SplitHostPort(seed); err == nil {
				addr = net.JoinHostPort(host, port)
			}
		}
		return dial(ctx, network, addr)
	}
}

// One connection serves a run; more are there for when it hangs. After as
// many failed dials as the pool is large, the client would no longer dial but
// repeat the last error, for up to a second after the server is back: so the
// pool is larger than a run has time to fail.
const poolSize = 1000

func noMaintNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// protocol is 2 unless asked for: with RESP3 the client looks for pushed
// messages before and after each command, with time-outs of its own; there is
// nothing to push here.
func protocol(asked int) int {
	if asked == 0 {
		return 2
	}
	return asked
}

// tlsDialer takes notice of the context, which the client's own does not.
func tlsDialer(config *tls.Config, timeout time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: timeout}, Config: config}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, addr)
	}
}

// place names the server in messages: its address, never its credentials.
func place(client *redis.Client) string {
	opts := client.Options()
	if opts.Network == "unix" {
		return "unix://" + opts.Addr
	}
	return opts.Addr
}
