package lock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// masterDialer connects to whichever server is the master by the word of the
// Sentinels, at each dial anew. A connection to a master that was demoted is
// given up by the client at its first refusal to write.
//
// Source: redis.io/docs, "Guidelines for Redis clients with support for Redis
// Sentinel". Where that takes the first answer, this one takes what most of
// the Sentinels say, if so many can be reached: one that was cut off with an old
// master goes on to name that.
type masterDialer struct {
	sentinels Sentinels
	ask       func(ctx context.Context, sentinel string) (addr string, err error)
	dial      func(ctx context.Context, network, addr string) (net.Conn, error)
}

// stragglers is how long Sentinels are waited for that could change what those
// before them said.
const stragglers = 500 * time.Millisecond

func (d *masterDialer) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	addr, err := d.master(ctx)
	if err != nil {
		return nil, err
	}
	return d.dial(ctx, network, addr)
}

// master returns the address that most of the Sentinels name, or at least most
// of those that answer.
func (d *masterDialer) master(ctx context.Context) (string, error) {
	type answer struct {
		addr string
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(d.sentinels.Addrs))
	for _, sentinel := range d.sentinels.Addrs {
		go func() {
			addr, err := d.ask(ctx, sentinel)
			answers <- answer{addr, err}
		}()
	}
	votes := map[string]int{}
	best := ""
	var failures []error
	var enough <-chan time.Time
	for range d.sentinels.Addrs {
		select {
		case a := <-answers:
			if a.err != nil {
				failures = append(failures, a.err)
				continue
			}
			votes[a.addr]++
			if votes[a.addr] > votes[best] {
				best = a.addr
			}
			if votes[best] > len(d.sentinels.Addrs)/2 {
				return best, nil
			}
			if enough == nil {
				enough = time.After(stragglers)
			}
		case <-enough:
			return best, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	if best == "" {
		return "", errors.Join(failures...)
	}
	return best, nil
}

// sentinelError is a Sentinel that does not name a master.
type sentinelError struct {
	sentinel string
	err      error
}

func (e *sentinelError) Error() string { return fmt.Sprintf("Sentinel %s: %v", e.sentinel, e.err) }
func (e *sentinelError) Unwrap() error { return e.err }

// Sentinels are those that watch over a master.
type Sentinels struct {
	Master             string   // its name
	Addrs              []string // of some of them
	Username, Password string   // where they want any; those of the servers are in the options
}

func (s Sentinels) String() string { return s.Master + " by Sentinel " + strings.Join(s.Addrs, ",") }

// NewSentinelClient returns a client, as [NewClient] does, of whichever server
// is the master by the word of the Sentinels, whatever Network and Addr of opts
// are. Each dial asks on connections of its own: a run dials
// once, and Sentinels come and go.
func NewSentinelClient(opts *redis.Options, sentinels Sentinels) *redis.Client {
	plain := &net.Dialer{Timeout: opts.DialTimeout}
	d := &masterDialer{sentinels: sentinels, dial: plain.DialContext}
	if opts.TLSConfig != nil {
		d.dial = (&tls.Dialer{NetDialer: plain, Config: opts.TLSConfig}).DialContext
	}
	d.ask = func(ctx context.Context, addr string) (string, error) {
		own := *opts
		own.Network, own.Addr, own.DB = "tcp", addr, 0
		own.Username, own.Password = sentinels.Username, sentinels.Password
		client := NewClient(&own)
		defer client.Close()
		reply, err := client.Do(ctx, "sentinel", "get-master-addr-by-name", sentinels.Master).StringSlice()
		switch {
		case errors.Is(err, redis.Nil):
			err = fmt.Errorf("it knows no master named %q", sentinels.Master)
		case err == nil && len(reply) != 2:
			err = fmt.Errorf("unexpected reply %q", reply)
		}
		if err != nil {
			return "", &sentinelError{addr, err}
		}
		return net.JoinHostPort(reply[0], reply[1]), nil
	}
	own := *opts
	own.Network, own.Addr = "tcp", sentinels.String() // for messages
	own.Dialer = d.DialContext
	return NewClient(&own)
}
