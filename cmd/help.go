package cmd

import (
	"strings"

	"github.com/spf13/cobra"
)

// Tree returns all commands and help topics, for what documents them or makes
// completions for them. It is not to be executed.
func Tree() *cobra.Command {
	p := &program{environ: func(string) (string, bool) { return "", false }}
	out := &output{}
	root := p.newRootCommand(out)
	p.addSubcommands(root, out)
	root.InitDefaultHelpCmd()
	var flags func(*cobra.Command)
	flags = func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		cmd.InitDefaultVersionFlag()
		for _, sub := range cmd.Commands() {
			flags(sub)
		}
	}
	flags(root)
	return root
}

// newHelpCommand replaces cobra's, which knows no topics when it completes,
// and says of what is not there that all is well (exit 0).
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Explain a command or a topic",
		Long: `Print what there is to say about a command, as its --help does, or about one of
the topics that redlockrun --help lists at its end.

EXIT STATUS
  0 when it was printed. 64: there is no such command or topic.`,
		Example: `  redlockrun help exit-codes
  redlockrun help embedded stop`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				names := helpNames(cmd.Root())
				return usageErrorf("there is no help on %q%s; there is on %s", strings.Join(args, " "),
					didYouMean(closest(args[0], names)), strings.Join(names, ", "))
			}
			target.InitDefaultHelpFlag()
			target.InitDefaultVersionFlag()
			return target.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			var found []string
			if target, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range target.Commands() {
					if !sub.Hidden && strings.HasPrefix(sub.Name(), word) {
						found = append(found, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

func helpNames(root *cobra.Command) []string {
	var names []string
	for _, name := range subcommands(root) {
		if !strings.HasPrefix(name, cobra.ShellCompRequestCmd) {
			names = append(names, name)
		}
	}
	return names
}
