package cmd

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/connect"
	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// lockOptions are the settings of all that take a lock.
type lockOptions struct {
	prefix       string
	ttl          time.Duration
	noWait       bool
	wait         time.Duration
	conflictCode int
	shared       bool
	slots        int
	label        string
	replicas     int
	history      int
	progress     progressMode

	redis  redisOptions
	output *output
	config string
}

// addFlags adds what says how to take the lock.
func (o *lockOptions) addFlags(fs *pflag.FlagSet) {
	o.conflictCode = exitBusy
	o.slots = 1
	o.addPrefixFlag(fs)
	o.addTTLFlag(fs)
	fs.BoolVarP(&o.noWait, "no-wait", "n", false, "give up at once when the lock is busy (the default)")
	fs.VarP(waitValue{&o.wait}, "wait", "w", "wait in line for up to this `DURATION`, or forever")
	fs.VarP(codeValue{&o.conflictCode}, "conflict-exit-code", "E", "exit `CODE` when the lock is busy, or the wait ran out")
	fs.BoolVarP(&o.shared, "shared", "s", false, "share the lock with others who do: many readers, or one who does not share")
	fs.Var(countValue{&o.slots, 1, lock.MaxCapacity}, "slots", "let `N` hold the lock at once; all who use the key must say the same")
	fs.Var(countValue{&o.replicas, 0, maxReplicas}, "wait-replicas", "start only when `N` replicas of the Redis server have the lock")
	fs.StringVar(&o.label, "holder-label", "", "`NAME` that those who find the lock busy are shown (default the host's)")
	o.addHistoryFlag(fs)
	fs.Var(newChoice(&o.progress, progressAuto, progressAuto, progressAlways, progressNever), "progress",
		"show on standard error what is waited for: auto is on a terminal line, or else in a message at times (`WHEN`)")
}

func (o *lockOptions) addPrefixFlag(fs *pflag.FlagSet) {
	fs.StringVar(&o.prefix, "prefix", lockexec.KeyPrefix, "`TEXT` put before the key to make the lock's name; may be empty")
}

func (o *lockOptions) addTTLFlag(fs *pflag.FlagSet) {
	o.ttl = lock.DefaultTTL
	fs.VarP(durationValue{&o.ttl}, "ttl", "t", "lease: how long a lock outlives a crash; it is renewed every third of this `DURATION`")
}

func (o *lockOptions) addHistoryFlag(fs *pflag.FlagSet) {
	fs.Var(countValue{&o.history, 0, lock.MaxHistory}, "history", "remember the last `N` runs of this key in Redis, for redlockrun history")
}

// addPlaceFlags adds what all have that talk to Redis.
func (o *lockOptions) addPlaceFlags(fs *pflag.FlagSet) {
	o.redis.addFlags(fs)
	o.output.addFlags(fs)
	fs.StringVar(&o.config, "config", "", "configuration `FILE` (see redlockrun help environment for where one is looked for)")
}

// capacity is how many may hold the lock.
func (o *lockOptions) capacity() lock.Capacity {
	switch {
	case o.shared:
		return lock.Shared
	case o.slots > 1:
		return lock.Capacity(o.slots)
	default:
		return lock.Exclusive
	}
}

// load fills the flags of a command from the environment and the file. What is
// wrong with that is in the second result, for more to be added.
func (p *program) load(cmd *cobra.Command) (sources, *configError, error) {
	from, err := loadConfig(cmd.Flags(), cmd.Root().Flags(), p.environ)
	wrong := &configError{}
	if err != nil && !errors.As(err, &wrong) {
		return nil, nil, err
	}
	return from, wrong, nil
}

// Limits of settings that have none of their own.
const (
	maxLabel    = 128
	maxReplicas = 1000
)

// check notes what can't be meant, and returns where the lock is kept.
func (o *lockOptions) check(from sources, environ func(string) (string, bool), wrong *configError) connect.Target {
	switch {
	case !o.output.quiet || !o.output.verbose:
	case from.beats("quiet", "verbose"):
		o.output.verbose = false
	case from.beats("verbose", "quiet"):
		o.output.quiet = false
	default:
		wrong.add(from.of("quiet"), "and %s exclude each other", from.of("verbose").text)
	}
	if o.noWait && !from.beats("wait", "no-wait") {
		if wait := from.of("wait"); o.wait != 0 && wait.rank == asFlag && from.of("no-wait").rank == asFlag {
			wrong.add(from.of("no-wait"), "and %s exclude each other", wait.text)
		}
		o.wait = 0 // also one that is configured
	}
	if err := lock.CheckTTL(o.ttl); err != nil {
		wrong.add(from.of("ttl"), "%v", err)
	}
	if o.shared && o.slots != 1 {
		wrong.add(from.of("shared"), "and %s exclude each other", from.of("slots").text)
	}
	if text := o.label; text != printable(text) || len(text) > maxLabel {
		wrong.add(from.of("holder-label"), "must be printable text of at most %d bytes", maxLabel)
	}
	target := o.redis.resolve(from, environ, wrong)
	o.checkPlaces(target.Places, from, wrong)
	return target
}

// checkPlaces notes what the place can't do.
func (o *lockOptions) checkPlaces(places []lock.Place, from sources, wrong *configError) {
	if len(places) > 1 {
		for name, given := range map[string]bool{
			"shared": o.shared, "slots": o.slots != 1, "wait-replicas": o.replicas != 0, "history": o.history != 0,
		} {
			if given {
				wrong.add(from.of(name), "is not offered by a quorum of servers: give one --redis, or leave it out")
			}
		}
	}
	if len(places) == 1 && places[0].Embedded && o.replicas != 0 {
		wrong.add(from.of("wait-replicas"), "is for a real server: embedded has no replicas")
	}
}

// name makes the full name of the lock, and refuses one that this run is
// inside of already.
func (o *lockOptions) name(key string, from sources, environ func(string) (string, bool), wrong *configError) string {
	name, ok := o.fullName(key, from, wrong)
	if outer, _ := environ(lockexec.EnvKey); ok && outer == name {
		wrong.add(from.of("key"), "%s is held already by the redlockrun that runs this one (%s says so), which waits for this to end: "+
			"use another key, or lock once, outside", name, lockexec.EnvKey)
	}
	return name
}

// fullName joins prefix and key.
func (o *lockOptions) fullName(key string, from sources, wrong *configError) (string, bool) {
	name, err := lock.Name(o.prefix, key)
	if err == nil {
		return name, true
	}
	setting, reason := "key", err.Error()
	if bad := (*lock.NameError)(nil); errors.As(err, &bad) {
		reason = bad.Reason
		switch {
		case bad.Part == "prefix":
			setting = "prefix"
		case bad.Part == "name":
			reason = "the name " + reason
		case key == "":
			reason += ": is a variable of your shell empty?"
		}
	}
	wrong.add(from.of(setting), "%s", printable(reason))
	return "", false
}
