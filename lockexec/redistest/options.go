package redistest

import (
	"errors"
	"fmt"
	"strings"
)

// adminName is both name and password of the user this package works as.
const adminName = "redistest"

// Option changes how a server is started.
type Option func(*config)

type config struct {
	lines    []string // lines of redis.conf, later ones win
	password string
	tls      bool
	primary  *Server
	tlsOf    *Server
	sentinel bool
	binary   string
	channels bool // the server knows rights to channels
	clock    bool // it can be set
}

func (c *config) add(format string, args ...any) {
	c.lines = append(c.lines, fmt.Sprintf(format, args...))
}

// WithBinary runs that program instead of the redis-server in PATH, as of another version; see [Versions].
func WithBinary(path string) Option {
	return func(c *config) { c.binary = path }
}

// WithPassword makes the default user need a password (requirepass).
func WithPassword(password string) Option {
	return func(c *config) {
		c.password = password
		c.add("requirepass %s", quote(password))
	}
}

// WithACL adds users. Each line is one as in redis.conf: "user alice on >secret ~app:* +get". The user "default" may be
// restricted or turned off as well; [Server.Client] then has its rights.
func WithACL(lines ...string) Option {
	return func(c *config) { c.lines = append(c.lines, lines...) }
}

// WithTLS adds a TLS port with a throwaway certificate for 127.0.0.1 and localhost. Clients need not show a certificate
// unless WithConfig("tls-auth-clients", "yes") says so.
func WithTLS() Option {
	return func(c *config) { c.tls = true }
}

// WithTLSOf adds a TLS port with the certificates of another server, which must live for as long as this one.
func WithTLSOf(other *Server) Option {
	return func(c *config) { c.tls, c.tlsOf = true, other }
}

// WithConfig adds a line to redis.conf. The value is written as it is, in that file's syntax: text with spaces needs
// quotes where it is one argument. An empty value is written as "".
func WithConfig(key, value string) Option {
	return func(c *config) {
		if value == "" {
			value = `""`
		}
		c.add("%s %s", key, value)
	}
}

// WithPersistence makes every acknowledged write survive Kill and Restart.
func WithPersistence() Option {
	return func(c *config) {
		c.add("appendonly yes")
		c.add("appendfsync always")
	}
}

// WithReplicaOf makes the server a replica; Start and Launch return when it is in sync with primary. Primary must be
// running and should be closed after the replica.
func WithReplicaOf(primary *Server) Option {
	return func(c *config) { c.primary = primary }
}

// configText returns redis.conf. The settings of options come last so that they win.
func (s *Server) configText() string {
	c := config{}
	c.add("bind 127.0.0.1")
	c.add("port %d", s.port)
	c.add("unixsocket %s", quote(s.Socket()))
	c.add("unixsocketperm 700")
	c.add("dir %s", quote(s.dir))
	c.add("daemonize no")
	channels := ""
	if s.conf.channels {
		channels = "&*"
	}
	c.add("user %[1]s on >%[1]s ~* %[2]s +@all", adminName, channels)
	if s.conf.tls {
		c.add("tls-port %d", s.tlsPort)
		c.add("tls-ca-cert-file %s", quote(s.CAFile))
		c.add("tls-cert-file %s", quote(s.certificates().serverCertFile()))
		c.add("tls-key-file %s", quote(s.certificates().serverKeyFile()))
		c.add("tls-auth-clients optional")
	}
	if s.conf.sentinel {
		return strings.Join(append(c.lines, s.conf.lines...), "\n") + "\n"
	}
	c.add(`save ""`)
	c.add("appendonly no")
	c.add("repl-diskless-sync yes")
	c.add("repl-diskless-sync-delay 0")
	// Also for a primary, which may become a replica.
	c.add("masteruser %s", adminName)
	c.add("masterauth %s", adminName)
	if p := s.conf.primary; p != nil {
		c.add("replicaof 127.0.0.1 %d", p.port)
	}
	return strings.Join(append(c.lines, s.conf.lines...), "\n") + "\n"
}

// awaitLink returns when the replica has copied its primary.
func (s *Server) awaitLink() error {
	up := func() (bool, error) {
		text, err := s.admin("INFO", "replication")
		return strings.Contains(text, "master_link_status:up"), err
	}
	if err := poll(up); err != nil {
		return errors.Join(errors.New("replica does not reach its primary; its log:\n"+s.Log()), err)
	}
	return nil
}

// quote returns text as one argument of redis.conf.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\x%02x`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
