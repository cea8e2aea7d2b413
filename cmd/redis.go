package cmd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
	"github.com/redlockrun/redlockrun/lockexec/lock"
)

const defaultRedis = "redis://127.0.0.1:6379"

// redisOptions say where the locks are and how to get there.
type redisOptions struct {
	places         []string
	username       string
	passwordFile   string
	tlsCA          string
	tlsCert        string
	tlsKey         string
	tlsServerName  string
	tlsInsecure    bool
	connectTimeout time.Duration
}

func (o *redisOptions) addFlags(fs *pflag.FlagSet) {
	o.connectTimeout = lock.DefaultConnectTimeout
	fs.StringArrayVarP(&o.places, "redis", "r", nil,
		"`PLACE` where locks are kept: "+lock.Schemes+" (a server of this user on this host) (default "+defaultRedis+")")
	fs.StringVar(&o.username, "redis-username", "", "ACL `USER` to log in as")
	fs.StringVar(&o.passwordFile, "redis-password-file", "", "`FILE` that holds the password (or set REDISCLI_AUTH)")
	fs.StringVar(&o.tlsCA, "tls-ca", "", "`FILE` with the CA certificates to trust instead of the system's")
	fs.StringVar(&o.tlsCert, "tls-cert", "", "`FILE` with the client certificate")
	fs.StringVar(&o.tlsKey, "tls-key", "", "`FILE` with the key of the client certificate")
	fs.StringVar(&o.tlsServerName, "tls-server-name", "", "`NAME` that the server's certificate must have, if not the host's")
	fs.BoolVar(&o.tlsInsecure, "tls-insecure", false, "do not verify the server's certificate")
	fs.Var(durationValue{&o.connectTimeout}, "connect-timeout", "give up when Redis can't be reached, or refuses for now, for this `DURATION`")
}

// connection is what the options come to: a place with its credentials, and
// how to speak to it.
type connection struct {
	place   lock.Place
	options *redis.Options
	timeout time.Duration
}

// resolve turns the options into a connection, without connecting. It notes
// what is wrong with them.
func (o *redisOptions) resolve(from sources, environ func(string) (string, bool), wrong *configError) connection {
	c := connection{timeout: o.connectTimeout}
	if o.connectTimeout <= 0 {
		wrong.add(from.of("connect-timeout"), "must be more than 0")
	}
	text := defaultRedis
	switch len(o.places) {
	case 0:
		if _, given := from["redis"]; given {
			wrong.add(from.of("redis"), "is empty: write one of %s", lock.Schemes)
			return c
		}
	case 1:
		text = o.places[0]
	default:
		wrong.add(from.of("redis"), "names %d servers: name one", len(o.places))
		return c
	}
	var err error
	if c.place, err = lock.ParsePlace(text); err != nil {
		wrong.add(from.of("redis"), "%v", err)
		return c
	}
	o.addCredentials(&c.place, from, environ, wrong)
	c.options = c.place.Options()
	c.options.DialTimeout = o.connectTimeout
	c.options.TLSConfig = o.tlsConfig(c.place, from, wrong)
	return c
}

// addCredentials puts user and password into the place. A password comes from
// the file, the URL, or REDISCLI_AUTH, in this order; two of the first kinds
// would leave it open which is meant.
func (o *redisOptions) addCredentials(
	place *lock.Place, from sources, environ func(string) (string, bool), wrong *configError,
) {
	if place.Embedded {
		for name, value := range map[string]string{
			"redis-username": o.username, "redis-password-file": o.passwordFile,
		} {
			if value != "" {
				wrong.add(from.of(name), "is for a real server: embedded has no users")
			}
		}
		return
	}
	if o.username != "" {
		if place.Username != "" && place.Username != o.username {
			wrong.add(from.of("redis-username"), "and the URL name different users: name one")
		}
		place.Username = o.username
	}
	if o.passwordFile != "" {
		if place.Password != "" {
			wrong.add(from.of("redis-password-file"), "and the URL both give a password: give one")
		}
		password, err := readPassword(o.passwordFile)
		if err != nil {
			wrong.add(from.of("redis-password-file"), "%v", err)
			return
		}
		place.Password = password
	}
	if auth, _ := environ("REDISCLI_AUTH"); place.Password == "" {
		place.Password = auth
	}
	if place.Username != "" && place.Password == "" {
		wrong.add(from.of(userSetting(o.username)), "there is a user name but no password: set REDISCLI_AUTH or "+
			"--redis-password-file (a password alone is written redis://:PASSWORD@HOST, with a colon before it)")
	}
}

func userSetting(username string) string {
	if username != "" {
		return "redis-username"
	}
	return "redis"
}

func readPassword(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("can't read the password: %w", err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case password == "":
		return "", fmt.Errorf("%s is empty: it must hold the password", path)
	case strings.ContainsAny(password, "\r\n"):
		return "", fmt.Errorf("%s has more than one line: it must hold the password alone", path)
	}
	return password, nil
}

// tlsConfig is nil for a place without TLS.
func (o *redisOptions) tlsConfig(place lock.Place, from sources, wrong *configError) *tls.Config {
	if !place.TLS {
		for _, name := range []string{"tls-ca", "tls-cert", "tls-key", "tls-server-name", "tls-insecure"} {
			if _, given := from[name]; given {
				wrong.add(from.of(name), "is of use with rediss:// only, but the server is %s", place)
			}
		}
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.tlsServerName, InsecureSkipVerify: o.tlsInsecure} //nolint:gosec // asked for by name
	if o.tlsInsecure && (o.tlsCA != "" || o.tlsServerName != "") {
		wrong.add(from.of("tls-insecure"), "leaves nothing for --tls-ca and --tls-server-name to check: give one or the other")
	}
	if o.tlsCA != "" {
		pem, err := os.ReadFile(o.tlsCA)
		if err != nil {
			wrong.add(from.of("tls-ca"), "%v", err)
		} else if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(pem) {
			wrong.add(from.of("tls-ca"), "%s has no certificate in PEM form", o.tlsCA)
		}
	}
	switch {
	case (o.tlsCert == "") != (o.tlsKey == ""):
		given, missing := "tls-cert", "tls-key"
		if o.tlsCert == "" {
			given, missing = missing, given
		}
		wrong.add(from.of(given), "needs --%s too", missing)
	case o.tlsCert != "":
		pair, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
		if err != nil {
			wrong.add(from.of("tls-cert"), "%v", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// open returns a client of the place, which connects at its first command. An
// embedded server that does not run is started, and is again by the client if
// it ends meanwhile.
func (c connection) open(ctx context.Context) (*redis.Client, error) {
	if c.place.Embedded {
		dir, err := embedded.Dir()
		if err != nil {
			return nil, &placeError{err}
		}
		ctx, cancel := context.WithTimeout(ctx, max(c.timeout, embeddedPatience))
		defer cancel()
		if err := embedded.Start(ctx, embedded.Config{Dir: dir}); err != nil {
			return nil, &placeError{err}
		}
		c.options.Network, c.options.Addr = "unix", embedded.SocketPath(dir)
		c.options.DialTimeout = max(c.timeout, embeddedPatience)
		c.options.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return embedded.Dial(ctx, embedded.Config{Dir: dir})
		}
	}
	return lock.NewClient(c.options), nil
}

// embeddedPatience is the least time that a first run gives the embedded
// server to start.
const embeddedPatience = 10 * time.Second

// placeError is a place that can't be used, without a server to blame.
type placeError struct{ err error }

func (e *placeError) Error() string { return "--redis embedded: " + e.err.Error() }
func (e *placeError) Unwrap() error { return e.err }
