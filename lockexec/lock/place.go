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

// Place is where locks are kept: one server, the master that Sentinels name, a
// cluster, or the server of this user on this host.
type Place struct {
	Embedded bool // nothing else is set

	Network string // "tcp" or "unix"; "" where there are Addrs
	Addr    string // host:port, or the path of a socket

	Master  string   // the name of the master, with Sentinel
	Cluster bool     // any node of a cluster
	Addrs   []string // of Sentinels, or of nodes of the cluster: some, not all

	TLS bool

	Username string
	Password string
	DB       int
	Protocol int // 2 or 3; 0 is the client's choice

	SentinelUsername string // where Sentinels want their own
	SentinelPassword string
}

// Schemes are the forms of a place that [ParsePlace] reads.
const Schemes = "redis://HOST:PORT/DB, rediss://HOST:PORT/DB (TLS), unix:///PATH?db=DB, " +
	"redis-sentinel://HOST:PORT,HOST:PORT/MASTER?db=DB, redis-cluster://HOST:PORT,HOST:PORT (with rediss-: TLS), or embedded"

// scheme says what the parts of a URL mean.
type scheme struct {
	tls      bool
	port     string // where none is given
	several  bool   // hosts
	parse    func(p *Place, u *url.URL, hosts []string) (db string, err error)
	database bool // there are databases
	sentinel bool
}

func schemeOf(name string) (scheme, bool) {
	s, known := map[string]scheme{
		"redis":          {port: "6379", database: true, parse: parseServer},
		"unix":           {database: true, parse: parseSocket},
		"redis-sentinel": {port: "26379", several: true, database: true, sentinel: true, parse: parseSentinel},
		"redis-cluster":  {port: "6379", several: true, parse: parseCluster},
	}[strings.Replace(name, "rediss", "redis", 1)]
	s.tls = strings.HasPrefix(name, "rediss")
	return s, known
}

// ParsePlace reads a place as it is given with --redis. Its errors are clauses
// that follow the setting's name, and never show any of the text that could
// be a credential.
func ParsePlace(text string) (Place, error) {
	if text == "embedded" {
		return Place{Embedded: true}, nil
	}
	u, hosts, err := splitURL(text)
	if err != nil {
		return Place{}, err
	}
	s, known := schemeOf(u.Scheme)
	switch {
	case !known:
		return Place{}, fmt.Errorf("has the unknown scheme %q: write one of %s", u.Scheme, Schemes)
	case !s.several && len(hosts) > 1:
		return Place{}, fmt.Errorf("names several hosts: name one, or write redis-sentinel:// or redis-cluster://, or --redis for each server of a quorum")
	}
	for i, host := range hosts {
		if s.port == "" {
			break
		}
		if hosts[i], err = hostPort(host, s.port, s.several); err != nil {
			return Place{}, err
		}
	}
	p := Place{TLS: s.tls}
	if u.User != nil {
		p.Username = u.User.Username()
		p.Password, _ = u.User.Password()
	}
	db, err := s.parse(&p, u, hosts)
	if err != nil {
		return Place{}, err
	}
	if err := p.parseQuery(u.RawQuery, s, db); err != nil {
		return Place{}, err
	}
	return p, nil
}

// splitURL parses all but the hosts, of which there may be several.
func splitURL(text string) (u *url.URL, hosts []string, err error) {
	name, rest, found := strings.Cut(text, "://")
	if !found {
		return nil, nil, fmt.Errorf("has no scheme: write one of %s", Schemes)
	}
	authority, path := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, path = rest[:end], rest[end:]
	}
	user, list := "", authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, list = authority[:at+1], authority[at+1:]
	}
	if strings.Contains(user, ",") {
		return nil, nil, fmt.Errorf("has a comma before the @: user and password come before the first host; in a password, write %%2C")
	}
	hosts = strings.Split(list, ",")
	u, err = url.Parse(name + "://" + user + hosts[0] + path)
	if err != nil {
		// The error of url.Parse quotes what it read, password and all.
		return nil, nil, fmt.Errorf("is no valid URL: in user names and passwords, write %s percent-encoded (#: %%23, /: %%2F, ?: %%3F, @: %%40, :: %%3A, %%: %%25); there must be no line end or blank",
			"special characters")
	}
	if u.Fragment != "" || strings.HasSuffix(text, "#") {
		return nil, nil, fmt.Errorf("has a # in it: in a password, write %%23")
	}
	if strings.Contains(u.RawQuery, "@") || u.Scheme != "unix" && strings.Contains(u.Path, "@") {
		return nil, nil, fmt.Errorf("has a /, ? or # in the user name or password: write them percent-encoded, %%2F, %%3F and %%23")
	}
	return u, hosts, nil
}

func parseServer(p *Place, u *url.URL, hosts []string) (db string, err error) {
	p.Network, p.Addr = "tcp", hosts[0]
	return strings.TrimPrefix(u.Path, "/"), nil
}

func parseSocket(p *Place, u *url.URL, _ []string) (db string, err error) {
	if u.Host != "" || len(u.Path) < 2 {
		return "", fmt.Errorf("needs an absolute path: write unix:///run/redis/redis.sock, with three slashes")
	}
	p.Network, p.Addr = "unix", u.Path
	return "", nil
}

func parseSentinel(p *Place, u *url.URL, hosts []string) (db string, err error) {
	p.Master, db, _ = strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if p.Master == "" {
		return "", fmt.Errorf("names no master: write redis-sentinel://HOST:26379,HOST:26379/MASTER")
	}
	p.Addrs = hosts
	return db, nil
}

func parseCluster(p *Place, u *url.URL, hosts []string) (db string, err error) {
	if path := strings.TrimPrefix(u.Path, "/"); path != "" && path != "0" {
		return "", fmt.Errorf("names a database, but a cluster has one alone")
	}
	p.Cluster, p.Addrs = true, hosts
	return "", nil
}

// parseQuery reads the parameters; db is a database that was named before them.
func (p *Place) parseQuery(text string, s scheme, db string) error {
	query, err := url.ParseQuery(text)
	if err != nil {
		return fmt.Errorf("has a query that can't be read")
	}
	known := []string{"protocol"}
	if s.database {
		known = append(known, "db")
	}
	if s.sentinel {
		known = append(known, "sentinel-username", "sentinel-password")
	}
	for name, values := range query {
		switch {
		case strings.Contains(name, "timeout"):
			return fmt.Errorf("has the unknown parameter %q: use --connect-timeout", name)
		case !slices.Contains(known, name):
			return fmt.Errorf("has the unknown parameter %q: known are %s", name, strings.Join(known, ", "))
		case len(values) > 1:
			return fmt.Errorf("has the parameter %s more than once", name)
		}
	}
	if query.Has("db") {
		if db != "" {
			return fmt.Errorf("names a database twice, in its path and as db=")
		}
		if db = query.Get("db"); db == "" {
			db = "empty"
		}
	}
	if db != "" {
		n, err := strconv.ParseUint(db, 10, 31)
		if err != nil {
			return fmt.Errorf("has a database that is no number")
		}
		p.DB = int(n)
	}
	if query.Has("protocol") {
		n, err := strconv.Atoi(query.Get("protocol"))
		if err != nil || n != 2 && n != 3 {
			return fmt.Errorf("has an unknown protocol: write 2 or 3")
		}
		p.Protocol = n
	}
	p.SentinelUsername, p.SentinelPassword = query.Get("sentinel-username"), query.Get("sentinel-password")
	if p.SentinelUsername != "" && p.SentinelPassword == "" {
		return fmt.Errorf("has a sentinel-username without a sentinel-password")
	}
	return nil
}

// hostPort completes one host of a URL. One of several can't be left out.
func hostPort(text, defaultPort string, several bool) (string, error) {
	u, err := url.Parse("redis://" + text)
	if err != nil || u.Path != "" || u.User != nil {
		return "", fmt.Errorf("has a host or a port that can't be read: write HOST:PORT, and an IPv6 address as [ADDRESS]:PORT")
	}
	host, port := u.Hostname(), u.Port()
	if host == "" {
		switch {
		case text != "":
			return "", fmt.Errorf("has a port but no host")
		case several:
			return "", fmt.Errorf("has an empty host: write HOST:PORT,HOST:PORT")
		}
		host = "127.0.0.1"
	}
	if port == "" {
		if strings.HasSuffix(text, ":") {
			return "", fmt.Errorf("has no port after the colon")
		}
		port = defaultPort
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
	case p.Master != "":
		return p.Sentinels().String()
	case p.Cluster:
		return "cluster " + strings.Join(p.Addrs, ",")
	case p.Network == "unix":
		return "unix://" + p.Addr
	default:
		return p.Addr
	}
}

// Options returns the client options of a place with one server, or of that of
// which [Place.Sentinels] know the address. An embedded place has none before its server was started: set Network and Addr to its socket.
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

// Sentinels are those that know the server of the place, if they do.
func (p Place) Sentinels() Sentinels {
	return Sentinels{Master: p.Master, Addrs: p.Addrs, Username: p.SentinelUsername, Password: p.SentinelPassword}
}

// ClusterOptions returns the client options of a cluster.
func (p Place) ClusterOptions() *redis.ClusterOptions {
	return &redis.ClusterOptions{Addrs: p.Addrs, Username: p.Username, Password: p.Password, Protocol: p.Protocol}
}
