package doctor

import (
	"context"
	"crypto/tls"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// exam is the look at one server.
type exam struct {
	findings
	subject Subject
	kind    kind
	at      lock.Place // of the server itself
	client  *redis.Client
	locker  *lock.Locker

	// name is that of a lock that would be kept here, and which nobody uses. "" is
	// a node of a cluster that gets no lock with this prefix.
	name string

	// What the server tells of itself, as far as it may be asked.
	hello  map[string]string // the reply to HELLO
	info   map[string]string // the reply to INFO
	denied error             // why there is no info

	connected bool // and logged in
	working   bool // the lock was taken and given back
}

// server looks at a place of one server.
func (s Subject) server(ctx context.Context, place lock.Place, part kind) *exam {
	e := &exam{findings: findings{place: place.String()}, subject: s, kind: part, at: place}
	client, err := s.Target.Client(place)
	if err != nil { // the settings were looked at before
		e.refused("connect", Fail, err)
		return e
	}
	defer client.Close()
	e.client, _ = client.(*redis.Client)
	e.locker = lock.New(client)
	if e.name, err = s.madeUpName(); err != nil {
		e.refused("connect", Fail, err)
		return e
	}
	e.run(ctx)
	return e
}

// run looks at all there is, within the time-out of the target.
func (e *exam) run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.subject.Target.Timeout)
	defer cancel()
	if e.connected = e.connect(ctx); !e.connected {
		return
	}
	if e.kind != ofUser {
		e.identify(ctx)
		e.version()
		e.role()
	}
	e.latency(ctx)
	if e.kind != ofUser {
		e.clock(ctx)
		e.uptime()
		e.persistence(ctx)
		e.eviction()
		e.replication(ctx)
	}
	e.useLock(ctx)
}

// connect reports whether there is a server to go on with.
func (e *exam) connect(ctx context.Context) bool {
	sent := time.Now()
	err := e.ping(ctx)
	if err == nil {
		e.add("connect", Pass, "", "connected in %s", short(time.Since(sent)))
		e.certificate(ctx)
		e.add("login", Pass, "", "%s", e.credentials())
		return true
	}
	switch lock.FaultOf(err) {
	case lock.FaultUnreachable, lock.FaultConnection, lock.FaultTimeout, lock.FaultProtocol, lock.FaultMaxClients:
		e.refused("connect", Fail, err)
		if fault := lock.FaultOf(err); e.at.TLS && (fault == lock.FaultTimeout || fault == lock.FaultConnection) {
			e.checks[0].Next = "does this port speak TLS? If not, write redis:// in the place of rediss://"
		}
		return false
	case lock.FaultTLS:
		e.refused("tls", Fail, err)
		return false
	case lock.FaultNoAuth, lock.FaultWrongPass:
		e.add("connect", Pass, "", "connected")
		e.certificate(ctx)
		e.refused("login", Fail, err)
		return false
	default: // it answers, if not what it should: that is for the checks to come
		e.add("connect", Pass, "", "connected")
		e.certificate(ctx)
		e.add("login", Pass, "", "%s", e.credentials())
		return true
	}
}

// ping is the least that a run asks for: it needs no right but that to EVAL.
func (e *exam) ping(ctx context.Context) error {
	return e.client.Eval(ctx, "return 1", nil).Err()
}

func (e *exam) credentials() string {
	switch {
	case e.at.Embedded:
		return "it has no users: the folder of its socket is open to you alone"
	case e.at.Username != "":
		return fmt.Sprintf("as user %q", e.at.Username)
	case e.at.Password != "":
		return "as the default user, with a password"
	default:
		return "as the default user, without a password"
	}
}

// certificateWarning is how long before its end a certificate is due.
const certificateWarning = 14 * 24 * time.Hour

// certificate looks at the server's, by a handshake of its own.
func (e *exam) certificate(ctx context.Context) {
	if !e.at.TLS || e.subject.Target.TLS == nil {
		return
	}
	config, err := e.subject.Target.TLS.Config()
	if err != nil {
		e.refused("tls", Fail, err)
		return
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, e.at.Network, e.at.Addr)
	if err != nil {
		e.refused("tls", Fail, err)
		return
	}
	defer conn.Close()
	state := conn.(*tls.Conn).ConnectionState() //nolint:forcetypeassert // what tls.Dialer says it returns
	leaf := state.PeerCertificates[0]
	ends := leaf.NotAfter
	for _, chain := range state.VerifiedChains {
		for _, link := range chain {
			if link.NotAfter.Before(ends) {
				ends = link.NotAfter
			}
		}
	}
	found := fmt.Sprintf("%s; the certificate ends on %s", tls.VersionName(state.Version), ends.UTC().Format("2006-01-02 15:04 MST"))
	switch left := time.Until(ends); {
	case config.InsecureSkipVerify:
		e.add("tls", Warn, "give --tls-ca in the place of --tls-insecure", "%s, but was not verified: anybody could be at the other end", found)
	case left < certificateWarning:
		e.add("tls", Warn, "renew it", "%s, in %s", found, left.Round(time.Hour))
	default:
		e.add("tls", Pass, "", "%s", found)
	}
}

// identify asks the server who it is. HELLO is allowed to every user.
func (e *exam) identify(ctx context.Context) {
	reply, err := e.client.Do(ctx, "hello").Result()
	if err == nil {
		e.hello = pairs(reply)
		e.add("protocol", Pass, "", "HELLO is known")
	} else {
		e.add("protocol", Warn, "where this is a proxy, name the server behind it; where not, update it",
			"HELLO is refused (%s): a server before 6.0, or a proxy; RESP2 is used", err)
	}
	text, err := e.client.Info(ctx).Result()
	if e.denied = err; err == nil {
		e.info = fields(text)
	}
}

// pairs reads what RESP2 gives as a list, and RESP3 as a map.
func pairs(reply any) map[string]string {
	m := map[string]string{}
	switch reply := reply.(type) {
	case []any:
		for i := 0; i+1 < len(reply); i += 2 {
			m[fmt.Sprint(reply[i])] = fmt.Sprint(reply[i+1])
		}
	case map[any]any:
		for name, value := range reply {
			m[fmt.Sprint(name)] = fmt.Sprint(value)
		}
	}
	return m
}

// fields reads the lines of INFO, and of CLUSTER INFO.
func fields(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}

// The oldest release that is promised to do, see docs/places.md.
const leastMajor, leastMinor = 6, 2

func (e *exam) version() {
	name, version := e.hello["server"], e.hello["version"]
	if name == "" {
		name, version = "redis", e.info["redis_version"]
	}
	if valkey := e.info["valkey_version"]; valkey != "" {
		name, version = "valkey", valkey
	}
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	switch m, n := number(major), number(minor); {
	case version == "":
		e.add("version", Skip, "", "it tells no version")
	case m < leastMajor || m == leastMajor && n < leastMinor:
		e.add("version", Warn, "update it", "%s %s is older than %d.%d, the oldest that locks are promised on", name, version, leastMajor, leastMinor)
	default:
		e.add("version", Pass, "", "%s %s", name, version)
	}
}

// role looks whether this server takes writes, and is what its URL says.
func (e *exam) role() {
	role, mode := e.hello["role"], e.hello["mode"]
	if role == "" {
		role, mode = e.info["role"], e.info["redis_mode"]
	}
	primary := e.info["master_host"] + ":" + e.info["master_port"]
	if primary == ":" {
		primary = "another"
	}
	switch {
	case mode == "sentinel":
		e.add("role", Fail, fmt.Sprintf("write redis-sentinel://%s/MASTER", e.at.Addr), "it is a Sentinel, and keeps no locks")
	case role == "replica" || role == "slave":
		e.add("role", Fail, "give the address of its primary, or use redis-sentinel://", "it is a replica of %s, and takes no locks", primary)
	case mode == "cluster" && e.kind != ofCluster:
		e.add("role", Fail, "write redis-cluster://"+e.at.Addr, "it is a node of a Redis Cluster: it refuses locks of which another node has the slot")
	case role == "":
		e.add("role", Skip, "", "it does not tell whether it is a primary or a replica")
	default:
		e.add("role", Pass, "", "primary")
	}
}

// replica reports whether the role says that no lock can be kept here.
func (e *exam) replica() bool {
	role := e.hello["role"]
	return role == "replica" || role == "slave" || e.info["role"] == "slave" || e.hello["mode"] == "sentinel"
}

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// short rounds a time span of a network.
func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
