// Package connect opens the place where locks are kept, as a process was told
// of it by another: by values that travel, not by files and variables that may
// have changed meanwhile.
//
// # What may be touched here
//
// All that it takes to reach a server belongs here, and nothing about locks.
package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// Target is the place of locks and how to reach it. It can be sent, and holds secrets:
// it goes to processes of this program only, and into no log.
type Target struct {
	Places  []lock.Place  // one, or the three or more servers of a quorum
	TLS     *TLS          // for places with TLS; nil is the defaults
	Timeout time.Duration // to connect, see lock.Request.ConnectTimeout
}

// TLS holds certificates and keys in PEM form.
type TLS struct {
	CA         []byte // trusted instead of the system's
	Cert, Key  []byte // the client's
	ServerName string // that the certificate must have, if not the host's
	Insecure   bool   // do not verify the server
}

// The parts of TLS settings that can be wrong, for errors.Is.
var (
	ErrCA   = errors.New("there is no certificate in PEM form")
	ErrCert = errors.New("the client certificate and its key can't be used")
)

// Config returns the settings for package tls, or an error that is [ErrCA] or
// [ErrCert].
func (t *TLS) Config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.Insecure} //nolint:gosec // asked for by name
	if len(t.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(t.CA) {
			return nil, ErrCA
		}
	}
	if len(t.Cert) > 0 {
		pair, err := tls.X509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCert, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// EmbeddedError is an embedded server that can't be used.
type EmbeddedError struct{ Err error }

func (e *EmbeddedError) Error() string { return "--redis embedded: " + e.Err.Error() }
func (e *EmbeddedError) Unwrap() error { return e.Err }

// embeddedPatience is the least time that a first run gives the embedded
// server to start.
const embeddedPatience = 10 * time.Second

// Start makes sure that there is something to connect to: it starts the
// embedded server if the place is that one. It fails with [*EmbeddedError].
func (t Target) Start(ctx context.Context) error {
	if !slices.ContainsFunc(t.Places, func(p lock.Place) bool { return p.Embedded }) {
		return nil
	}
	dir, err := embedded.Dir()
	if err != nil {
		return &EmbeddedError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, max(t.Timeout, embeddedPatience))
	defer cancel()
	if err := embedded.Start(ctx, embedded.Config{Dir: dir}); err != nil {
		return &EmbeddedError{err}
	}
	return nil
}

// Open returns a Locker on the place or, with several, on their quorum, which
// connects at its first command. An embedded server that has ended is started
// again by it. It fails with [*EmbeddedError] or with an error of the TLS
// settings. The Closer closes the connections.
func (t Target) Open() (*lock.Locker, io.Closer, error) {
	var open clients
	for _, place := range t.Places {
		client, err := t.Client(place)
		if err != nil {
			return nil, nil, errors.Join(err, open.Close())
		}
		open = append(open, client)
	}
	if len(open) == 1 {
		return lock.New(open[0]), open, nil
	}
	locker, err := lock.NewQuorum(open...)
	if err != nil {
		return nil, nil, errors.Join(err, open.Close())
	}
	return locker, open, nil
}

// clients are those of a Locker.
type clients []redis.UniversalClient

func (c clients) Close() error {
	var failures []error
	for _, client := range c {
		failures = append(failures, client.Close())
	}
	return errors.Join(failures...)
}

// Client returns a client of one server, or of one cluster, that is reached as
// those of t are: with its TLS settings and its time-out. It connects at its first
// command. It fails as Open does.
func (t Target) Client(place lock.Place) (redis.UniversalClient, error) {
	var config *tls.Config
	if place.TLS {
		var err error
		if config, err = cmp.Or(t.TLS, &TLS{}).Config(); err != nil {
			return nil, err
		}
	}
	if place.Cluster {
		options := place.ClusterOptions()
		options.DialTimeout, options.TLSConfig = t.Timeout, config
		return lock.NewClusterClient(options), nil
	}
	options := place.Options()
	options.DialTimeout, options.TLSConfig = t.Timeout, config
	if place.Master != "" {
		return lock.NewSentinelClient(options, place.Sentinels()), nil
	}
	if place.Embedded {
		dir, err := embedded.Dir()
		if err != nil {
			return nil, &EmbeddedError{err}
		}
		options.Network, options.Addr = "unix", embedded.SocketPath(dir)
		options.DialTimeout = max(t.Timeout, embeddedPatience)
		options.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return embedded.Dial(ctx, embedded.Config{Dir: dir})
		}
	}
	return lock.NewClient(options), nil
}
