package cmd

import (
	"fmt"
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
	root.Flags().VisitAll(func(f *pflag.Flag) {
		if onlyFlags[f.Name] {
			return
		}
		name := envName(f.Name)
		if foreign := foreignEnv[f.Name]; foreign != "" {
			name += ", or " + foreign
		}
		fmt.Fprintf(&b, "  %-38s --%s\n", name, f.Name)
	})
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
