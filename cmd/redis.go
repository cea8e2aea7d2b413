package cmd

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/redlockrun/redlockrun/lockexec/connect"
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
		"`PLACE` where locks are kept: the URL of a Redis server, or embedded, for this host alone; "+
			"more than one server: see redlockrun help places (default "+defaultRedis+")")
	fs.StringVar(&o.username, "redis-username", "", "ACL `USER` to log in as")
	fs.StringVar(&o.passwordFile, "redis-password-file", "", "`FILE` that holds the password (or set REDISCLI_AUTH)")
	fs.StringVar(&o.tlsCA, "tls-ca", "", "`FILE` with the CA certificates to trust instead of the system's")
	fs.StringVar(&o.tlsCert, "tls-cert", "", "`FILE` with the client certificate")
	fs.StringVar(&o.tlsKey, "tls-key", "", "`FILE` with the key of the client certificate")
	fs.StringVar(&o.tlsServerName, "tls-server-name", "", "`NAME` that the server's certificate must have, if not the host's")
	fs.BoolVar(&o.tlsInsecure, "tls-insecure", false, "do not verify the server's certificate")
	fs.Var(durationValue{&o.connectTimeout}, "connect-timeout", "give up when Redis can't be reached, or refuses for now, for this `DURATION`")
}

// resolve turns the options into a target, without connecting. It notes what
// is wrong with them.
func (o *redisOptions) resolve(from sources, environ func(string) (string, bool), wrong *configError) connect.Target {
	t := connect.Target{Timeout: o.connectTimeout}
	if o.connectTimeout <= 0 {
		wrong.add(from.of("connect-timeout"), "must be more than 0")
	}
	places := o.places
	if len(places) == 0 {
		if _, given := from["redis"]; given {
			wrong.add(from.of("redis"), "is empty: write one of %s", lock.Schemes)
			return t
		}
		places = []string{defaultRedis}
	}
	for _, text := range places {
		place, err := lock.ParsePlace(text)
		if err != nil {
			wrong.add(from.of("redis"), "%v", err)
			return t
		}
		t.Places = append(t.Places, place)
	}
	if !checkQuorum(t.Places, from, wrong) {
		return t
	}
	before := len(wrong.problems)
	for i := range t.Places {
		o.addCredentials(&t.Places[i], from, environ, wrong)
		if len(wrong.problems) > before { // the same is wrong with all
			return t
		}
	}
	t.TLS = o.tls(t.Places, from, wrong)
	return t
}

// checkQuorum notes what is wrong with several servers.
func checkQuorum(places []lock.Place, from sources, wrong *configError) bool {
	if len(places) == 1 {
		return true
	}
	if len(places) == 2 {
		wrong.add(from.of("redis"), "names 2 servers: name one, or three or more that are a quorum (of two, none could fail)")
		return false
	}
	seen := map[string]bool{}
	for _, place := range places {
		switch {
		case place.Addr == "":
			wrong.add(from.of("redis"), "names %s as one of several: a quorum is of single servers, redis://, rediss:// or unix://", place)
			return false
		case seen[place.String()]:
			wrong.add(from.of("redis"), "names %s twice: a quorum is of servers that are independent of each other", place)
			return false
		}
		seen[place.String()] = true
	}
	return true
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

// tls is nil for places without TLS.
func (o *redisOptions) tls(places []lock.Place, from sources, wrong *configError) *connect.TLS {
	if !slices.ContainsFunc(places, func(p lock.Place) bool { return p.TLS }) {
		for _, name := range []string{"tls-ca", "tls-cert", "tls-key", "tls-server-name", "tls-insecure"} {
			if _, given := from[name]; given {
				wrong.add(from.of(name), "is of use with rediss:// only, but the server is %s", places[0])
			}
		}
		return nil
	}
	before := len(wrong.problems)
	if o.tlsInsecure && (o.tlsCA != "" || o.tlsServerName != "") {
		wrong.add(from.of("tls-insecure"), "leaves nothing for --tls-ca and --tls-server-name to check: give one or the other")
	}
	if (o.tlsCert == "") != (o.tlsKey == "") {
		given, missing := "tls-cert", "tls-key"
		if o.tlsCert == "" {
			given, missing = missing, given
		}
		wrong.add(from.of(given), "needs --%s too", missing)
	}
	settings := &connect.TLS{
		CA:         readPEM("tls-ca", o.tlsCA, from, wrong),
		Cert:       readPEM("tls-cert", o.tlsCert, from, wrong),
		Key:        readPEM("tls-key", o.tlsKey, from, wrong),
		ServerName: o.tlsServerName,
		Insecure:   o.tlsInsecure,
	}
	if len(wrong.problems) > before {
		return settings
	}
	switch _, err := settings.Config(); {
	case errors.Is(err, connect.ErrCA):
		wrong.add(from.of("tls-ca"), "%s has no certificate in PEM form", o.tlsCA)
	case err != nil:
		wrong.add(from.of("tls-cert"), "%v", err)
	}
	return settings
}

func readPEM(setting, path string, from sources, wrong *configError) []byte {
	if path == "" {
		return nil
	}
	pem, err := os.ReadFile(path)
	switch {
	case err != nil:
		wrong.add(from.of(setting), "%v", err)
	case len(pem) == 0:
		wrong.add(from.of(setting), "%s is empty", path)
	}
	return pem
}
