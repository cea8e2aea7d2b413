package cmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlockrun/redlockrun/lockexec"
)

// Help topics are commands without a run function: cobra lists them apart.

func newExitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Exit codes of redlockrun:\n\n")
	for _, line := range exitCodes {
		fmt.Fprintf(&b, "  %-14s %s\n", line.code, wrap(line.meaning, 17, 79))
	}
	b.WriteString(`
A script can tell them apart:

  redlockrun --key client_123 -- ./generate-report.sh
  case $? in
    0)  echo "report made" ;;
    75) echo "another worker is on it" ;;
    69) echo "no Redis, nothing was run" >&2 ;;
    *)  echo "the report failed" >&2 ;;
  esac

A command may itself exit with one of these codes. Where that matters, choose
another code for busy with -E, or read the "event" field of --log-format json.`)
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What each exit code means",
		Long:  b.String(),
	}
}

func newEnvironmentTopic(root *cobra.Command) *cobra.Command {
	var b strings.Builder
	b.WriteString(`A setting comes from its flag, or else from its environment variable, or else
from the configuration file, or else it has its default.

Variables that set flags:

`)
	users := map[string][]string{} // of flags that the root does not have
	root.Flags().VisitAll(func(f *pflag.Flag) { listVariable(&b, f, nil) })
	for _, sub := range root.Commands() {
		if sub.Flags().Lookup("config") == nil {
			continue // it reads no settings
		}
		sub.Flags().VisitAll(func(f *pflag.Flag) {
			if root.Flags().Lookup(f.Name) == nil {
				users[f.Name] = append(users[f.Name], sub.Name())
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		listVariable(&b, &pflag.Flag{Name: name}, users[name])
	}
	fmt.Fprintf(&b, `
A list, as of several places, is separated by blanks. Password, where neither
the URL nor a file gives it:

  REDISCLI_AUTH            as for redis-cli

Variables that the command finds set:

  %-24s full name of the lock
  %-24s value that stands for this holder in the lock
  %-24s number that rises with each holder: a resource
                           that remembers the highest can refuse older ones

Files, the first that exists (or the one that --config names):

  $XDG_CONFIG_HOME/redlockrun/config.yaml (or .yml, .toml, .json)
  ~/.config/redlockrun/config.yaml, where XDG_CONFIG_HOME is not set
  /etc/redlockrun/config.yaml

A file has the flags' names as keys, such as

  ttl: "30s"
  redis: "rediss://redis.example.com"
  redis-password-file: "/run/secrets/redis-password"`,
		lockexec.EnvKey, lockexec.EnvToken, lockexec.EnvFence)
	return &cobra.Command{
		Use:   "environment",
		Short: "Environment variables and configuration files",
		Long:  b.String(),
	}
}

// listVariable writes the line of a flag's variable, with the commands that
// have the flag if the root does not.
func listVariable(b *strings.Builder, f *pflag.Flag, users []string) {
	if onlyFlags[f.Name] {
		return
	}
	name, of := envName(f.Name), ""
	if foreign := foreignEnv[f.Name]; foreign != "" {
		name += ", or " + foreign
	}
	if len(users) > 0 {
		of = " (" + strings.Join(users, ", ") + ")"
	}
	fmt.Fprintf(b, "  %-38s --%s%s\n", name, f.Name, of)
}

func newPlacesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "places",
		Short: "Where locks can be kept, and what --redis takes",
		Long: `Locks are kept where --redis says, or REDIS_URL. All who share a lock must name
the same place.

  redis://HOST:PORT/DB      a Redis or Valkey server, from 6.2 on
  rediss://HOST:PORT/DB     the same by TLS; see the --tls-... flags
  unix:///PATH?db=DB        the same by a socket
  redis-sentinel://HOST:PORT,HOST:PORT/MASTER?db=DB
                            the master of that name, by the word of most of
                            these Sentinels
  redis-cluster://HOST:PORT,HOST:PORT
                            a cluster, by any of its nodes
  rediss-sentinel://..., rediss-cluster://...
                            the same by TLS, Sentinels too
  embedded                  a server of this user on this host, started when it
                            is needed

Three or more --redis, each of one server, are a quorum: a lock is held by who
has it on most of them. In the environment, they stand with blanks between.

User and password stand before the host, redis://USER:PASSWORD@HOST, or come
from --redis-username and --redis-password-file or REDISCLI_AUTH; with several
servers they are for all of them. Sentinels have their own, if they want any:
?sentinel-username=USER&sentinel-password=PASSWORD. A parameter protocol=3 asks
for RESP3.

What each place promises when servers fail: redlockrun help guarantees.`,
	}
}

func newGuaranteesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "guarantees",
		Short: "What holds when something fails, for each place",
		Long: `Always: the command never starts on an error of Redis. A lock is changed only by
who holds its token. Every key has a time to live. When the lock can't be
renewed, or is found to be another's, the command and all that it started are
dead before the lease ends, by this machine's clock.

So two commands overlap only when a lock is lost in Redis while its lease still
runs. That depends on the place:

  one server     Never, while it keeps its data. A restart that loses data
                 (no appendonly with appendfsync always), FLUSHALL, a DEL by
                 hand, or an eviction can give the lock to another. The first
                 holder finds out at its next renewal, a third of the --ttl
                 later at most, and stops its command.
  Sentinel       As one server; and a failover to a replica that had not yet
  or Cluster     got the lock loses it. --wait-replicas N starts the command
                 only when N replicas have it, which makes that rare, not
                 impossible. A master that was cut off can go on to serve
                 those who reach it: set min-replicas-to-write there.
  quorum         Never, while fewer than half of the servers fail at a time,
                 and their clocks run at the same speed (to 1 %). A server that
                 was just started gives no vote before it is up for the --ttl:
                 all who use a key should have the same. FLUSHALL or eviction
                 count as failures. Nobody keeps an order among those who wait.
  embedded       As one server that loses nothing when it is killed; it is for
                 one user on one host.

Where an overlap would do harm, let the guarded resource refuse: each holder
gets a higher number than all before, in REDLOCKRUN_LOCK_FENCE, whatever was
lost. A resource that remembers the highest refuses who comes with a lower one.`,
	}
}

// wrap breaks text into lines of at most width columns, all but the first
// indented.
func wrap(text string, indent, width int) string {
	var b strings.Builder
	column := indent
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
