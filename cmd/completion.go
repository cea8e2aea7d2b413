package cmd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// Shells ask this program itself what could come next, by a hidden command of
// cobra's (__complete WORD...), which the scripts of "completion" call.

func (p *program) newCompletionCommand() *cobra.Command {
	plain := false
	cmd := &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes command lines in a shell",
		Long: `Print a script by which a shell completes the flags of redlockrun, their
values, keys, and the command after the --. A package of redlockrun has
installed it already. Where it has not, these lines do it for one shell; put
them into its startup file for all:

  bash        source <(redlockrun completion bash)
  zsh         source <(redlockrun completion zsh)
  fish        redlockrun completion fish | source
  powershell  redlockrun completion powershell | Out-String | Invoke-Expression

Bash needs its package bash-completion, and zsh "autoload -U compinit; compinit"
before that line.

Keys are those of the locks that are held, with who holds each, as the flags
before the key, the environment and the configuration file lead there. An answer
that takes longer than a second is not waited for. A key that a shell would want
in quotes, or with an equals sign, is left out. An ACL user needs +scan for it,
as for redlockrun list.

EXIT STATUS
  0 when the script was printed. 64: there is none for that shell.`,
		Example: `  source <(redlockrun completion bash)
  redlockrun completion fish >~/.config/fish/completions/redlockrun.fish`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usageErrorf("%s needs a shell, as in\n  %s bash", cmd.CommandPath(), cmd.CommandPath())
			case len(args) > 1:
				return usageErrorf("%s takes one shell, but got %q too", cmd.CommandPath(), args[1])
			case !slices.Contains(cmd.ValidArgs, args[0]):
				return usageErrorf("there is no completion for %q; the shells are %s%s",
					args[0], strings.Join(cmd.ValidArgs, ", "), didYouMean(closest(args[0], cmd.ValidArgs)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.printCompletion(cmd.Root(), args[0], !plain)
		},
	}
	cmd.Flags().BoolVar(&plain, "no-descriptions", false, "complete words without telling what they mean")
	return cmd
}

func (p *program) printCompletion(root *cobra.Command, shell string, descriptions bool) error {
	switch {
	case shell == "bash":
		return root.GenBashCompletionV2(p.stdout, descriptions)
	case shell == "zsh" && descriptions:
		return root.GenZshCompletion(p.stdout)
	case shell == "zsh":
		return root.GenZshCompletionNoDesc(p.stdout)
	case shell == "fish":
		return root.GenFishCompletion(p.stdout, descriptions)
	case descriptions:
		return root.GenPowerShellCompletionWithDesc(p.stdout)
	default:
		return root.GenPowerShellCompletion(p.stdout)
	}
}

// asksToComplete tells whether a shell wants to know what could come next.
func asksToComplete(args []string) bool {
	return len(args) > 1 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd)
}

// takeCompletion is takeCommand for the question of a shell: the last of args
// is the word that is still being typed.
func (p *program) takeCompletion(root *cobra.Command, args []string, out *output) []string {
	words := args[1 : len(args)-1]
	if at := slices.Index(words, "--"); at == 0 || at > 0 && strings.HasPrefix(words[0], "-") {
		p.command, p.dashes = words[at+1:], true
		// The flags before it, of which one may be wrong, are of no use here.
		return append([]string{args[0]}, args[1+at:]...)
	}
	p.addSubcommands(root, out)
	completeValues(root)
	return args
}

// completeRun completes what is no flag of the root command: after the -- a
// program, then its arguments, of which nothing is known but that files are
// likely.
func (p *program) completeRun(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	switch {
	case p.dashes && len(p.command) == 0 && !strings.ContainsRune(word, filepath.Separator):
		path, _ := p.environ("PATH")
		return programs(path, word), cobra.ShellCompDirectiveDefault
	case p.dashes:
		return nil, cobra.ShellCompDirectiveDefault
	case word == "" && cmd.Flags().NFlag() > 0:
		return []string{cobra.CompletionWithDesc("--", "the command to run comes after it")}, cobra.ShellCompDirectiveNoFileComp
	default:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// programs lists the executable files in the folders of path that begin so,
// each once.
func programs(path, prefix string) []string {
	var found []string
	for _, dir := range filepath.SplitList(path) {
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), prefix) {
				continue
			}
			info, err := os.Stat(filepath.Join(dir, entry.Name()))
			if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				found = append(found, entry.Name())
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// completeValues tells cobra what the values of all flags can be: words where
// there are some, files for those that take a FILE. All else is known to the user
// alone, but for keys (completionkeys.go); without this cobra would offer files.
func completeValues(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		completion := cobra.FixedCompletions(valueWords(f), cobra.ShellCompDirectiveNoFileComp)
		placeholder, usage := pflag.UnquoteUsage(f)
		f.Usage = usage // shells show it
		switch {
		case f.Name == "config":
			completion = cobra.FixedCompletions([]string{"yaml", "yml", "toml", "json"}, cobra.ShellCompDirectiveFilterFileExt)
		case placeholder == "FILE":
			return
		case f.Name == "redis": // an address goes on after these
			completion = cobra.FixedCompletions(valueWords(f), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, completion) // fails only for a flag that is not there, or that has one
	})
	for _, sub := range cmd.Commands() {
		completeValues(sub)
	}
}

// valueWords are values that a flag is likely to get.
func valueWords(f *pflag.Flag) []string {
	switch value := f.Value.(type) {
	case interface{ choices() []string }:
		return value.choices()
	case signalValue:
		names := []string{"TERM", "INT", "QUIT", "HUP", "USR1", "USR2", "KILL"}
		return slices.DeleteFunc(names, func(name string) bool {
			_, err := proc.ParseSignal(name)
			return err != nil
		})
	case waitValue:
		return []string{forever}
	}
	if f.Name == "redis" {
		return []string{"redis://", "rediss://", "unix:///", "redis-sentinel://", "redis-cluster://", "embedded"}
	}
	return nil
}
