package lock

import (
	"context"
	"crypto/tls"
	"net"

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
	own.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	own.PipelinePoolSize = -1
	if own.Protocol == 0 {
		// With RESP3 the client looks for pushed messages before and after each
		// command, with time-outs of its own; there is nothing to push here.
		own.Protocol = 2
	}
	// One connection serves a run; more are there for when it hangs. After as
	// many failed dials as the pool is large, the client would no longer dial
	// but repeat the last error, for up to a second after the server is back:
	// so the pool is larger than a run has time to fail.
	own.PoolSize = 1000
	own.MinIdleConns = 0
	own.ConnMaxIdleTime = -1
	if own.TLSConfig != nil && own.Dialer == nil {
		// The client's own TLS dialer takes no notice of the context.
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: own.DialTimeout}, Config: own.TLSConfig}
		own.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, addr)
		}
	}
	return redis.NewClient(&own)
}

// place names the server in messages: its address, never its credentials.
func place(client *redis.Client) string {
	opts := client.Options()
	if opts.Network == "unix" {
		return "unix://" + opts.Addr
	}
	return opts.Addr
}
