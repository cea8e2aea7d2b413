package lock

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Place is where locks are kept.
type Place struct {
	Embedded bool // the server of this user on this host; nothing else is set

	Network string // "tcp" or "unix"
	Addr    string // host:port, or the path of a socket
	TLS     bool

	Username string
	Password string
	DB       int
	Protocol int // 2 or 3; 0 is the client's choice
}

// Schemes are the forms of a place that [ParsePlace] reads.
const Schemes = "redis://HOST:PORT/DB, rediss://HOST:PORT/DB (TLS), unix:///PATH?db=DB, or embedded"

// placeParameters are the query parameters that a place may have.
var placeParameters = []string{"db", "protocol"}

// ParsePlace reads a place as it is given with --redis. Its errors are clauses
// that follow the setting's name, and never show any of the text that could
// be a credential.
func ParsePlace(text string) (Place, error) {
	if text == "embedded" {
		return Place{Embedded: true}, nil
	}
	if !strings.Contains(text, "://") {
		return Place{}, fmt.Errorf("has no scheme: write one of %s", Schemes)
	}
	u, err := url.Parse(text)
	if err != nil {
		// The error of url.Parse quotes what it read, password and all.
		return Place{}, fmt.Errorf("is no valid URL: in user names and passwords, write %s percent-encoded (#: %%23, /: %%2F, ?: %%3F, @: %%40, :: %%3A, %%: %%25); there must be no line end or blank",
			"special characters")
	}
	if u.Fragment != "" || strings.HasSuffix(text, "#") {
		return Place{}, fmt.Errorf("has a # in it: in a password, write %%23")
	}
	if strings.Contains(u.RawQuery, "@") || u.Scheme != "unix" && strings.Contains(u.Path, "@") {
		return Place{}, fmt.Errorf("has a /, ? or # in the user name or password: write them percent-encoded, %%2F, %%3F and %%23")
	}
	p := Place{Network: "tcp"}
	if u.User != nil {
		p.Username = u.User.Username()
		p.Password, _ = u.User.Password()
	}
	dbText := strings.TrimPrefix(u.Path, "/")
	switch u.Scheme {
	case "redis", "rediss":
		p.TLS = u.Scheme == "rediss"
		if p.Addr, err = hostPort(u); err != nil {
			return Place{}, err
		}
	case "unix":
		if u.Host != "" || len(u.Path) < 2 {
			return Place{}, fmt.Errorf("needs an absolute path: write unix:///run/redis/redis.sock, with three slashes")
		}
		p.Network, p.Addr, dbText = "unix", u.Path, ""
	default:
		return Place{}, fmt.Errorf("has the unknown scheme %q: write one of %s", u.Scheme, Schemes)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Place{}, fmt.Errorf("has a query that can't be read")
	}
	for name, values := range query {
		if !slices.Contains(placeParameters, name) {
			return Place{}, fmt.Errorf("has the unknown parameter %q: known are %s", name, strings.Join(placeParameters, " and "))
		}
		if len(values) > 1 {
			return Place{}, fmt.Errorf("has the parameter %s more than once", name)
		}
	}
	if query.Has("db") {
		if dbText != "" {
			return Place{}, fmt.Errorf("names a database twice, in its path and as db=")
		}
		dbText = query.Get("db")
		if dbText == "" {
			dbText = "empty"
		}
	}
	if dbText != "" {
		db, err := strconv.ParseUint(dbText, 10, 31)
		if err != nil {
			return Place{}, fmt.Errorf("has a database that is no number")
		}
		p.DB = int(db)
	}
	if query.Has("protocol") {
		switch query.Get("protocol") {
		case "2":
			p.Protocol = 2
		case "3":
			p.Protocol = 3
		default:
			return Place{}, fmt.Errorf("has an unknown protocol: write 2 or 3")
		}
	}
	return p, nil
}

func hostPort(u *url.URL) (string, error) {
	host, port := u.Hostname(), u.Port()
	if strings.Contains(u.Host, ",") {
		return "", fmt.Errorf("names several hosts: name one")
	}
	if host == "" {
		if port != "" || u.Host != "" {
			return "", fmt.Errorf("has a port but no host")
		}
		host = "127.0.0.1"
	}
	if port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return "", fmt.Errorf("has no port after the colon")
		}
		port = "6379"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("has no valid port: ports go from 1 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}

// String names the place without its credentials.
func (p Place) String() string {
	switch {
	case p.Embedded:
		return "embedded"
	case p.Network == "unix":
		return "unix://" + p.Addr
	default:
		return p.Addr
	}
}

// Options returns the client options of the place. An embedded place has
// none before its server was started: set Network and Addr to its socket.
func (p Place) Options() *redis.Options {
	return &redis.Options{
		Network:  p.Network,
		Addr:     p.Addr,
		Username: p.Username,
		Password: p.Password,
		DB:       p.DB,
		Protocol: p.Protocol,
	}
}
