package cmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageWidth is the column at which the descriptions of flags are wrapped.
const usageWidth = 80

// printUsage prints what cobra prints, but with wrapped flags. A template of
// cobra's could say so in one line; but where a program has one, the linker
// must keep every exported method of everything, which templates can call by
// its name: 8 MB of them.
func printUsage(cmd *cobra.Command) error {
	w := &strings.Builder{}
	fmt.Fprint(w, "Usage:")
	if cmd.Runnable() {
		fmt.Fprintf(w, "\n  %s", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n  %s [command]", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(w, "\n\nExamples:\n%s", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(w, "\n\nAvailable Commands:")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(w, "\n  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	printFlags(w, "Flags", cmd.LocalFlags())
	printFlags(w, "Global Flags", cmd.InheritedFlags())
	if cmd.HasHelpSubCommands() {
		fmt.Fprint(w, "\n\nAdditional help topics:")
		for _, sub := range cmd.Commands() {
			if sub.IsAdditionalHelpTopicCommand() {
				fmt.Fprintf(w, "\n  %-*s %s", sub.CommandPathPadding(), sub.CommandPath(), sub.Short)
			}
		}
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n\nUse \"%s [command] --help\" for more information about a command.", cmd.CommandPath())
	}
	_, err := fmt.Fprintln(cmd.OutOrStderr(), w)
	return err
}

func printFlags(w io.Writer, title string, flags *pflag.FlagSet) {
	if flags.HasAvailableFlags() {
		fmt.Fprintf(w, "\n\n%s:\n%s", title, strings.TrimRight(flags.FlagUsagesWrapped(usageWidth), " \n"))
	}
}
