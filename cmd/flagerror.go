package cmd

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// explainFlagError words the errors of the flag parser as the rest of ours.
func explainFlagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			return usageErrorf("unknown flag -%s: see %s --help; flags of the command to run come after --", name, cmd.CommandPath())
		}
		return usageErrorf("unknown flag --%s%s See %s --help", name, suggestFlag(cmd, name), cmd.CommandPath())
	case errors.As(err, &missing):
		name := "--" + missing.GetFlag().Name
		return usageErrorf("%s needs a value: is a variable of your shell empty? Quote it (%s \"$NAME\")", name, name)
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		return usageErrorf("--%s: %s", flag.Name, quoteValue(flag, invalid.GetValue(), invalid.Unwrap()))
	default:
		return usageErrorf("%s: see %s --help", err, cmd.CommandPath())
	}
}

// checkShortFlags refuses -k= without a value, of which pflag makes the value
// "=": all jobs whose variable is empty would share that key.
func checkShortFlags(flags *pflag.FlagSet, args []string) error {
	for _, arg := range args {
		letters, ended := strings.CutSuffix(arg, "=")
		if !ended || len(letters) < 2 || letters[0] != '-' || letters[1] == '-' {
			continue
		}
		for i, letter := range letters[1:] {
			flag := flags.ShorthandLookup(string(letter))
			if flag == nil || flag.NoOptDefVal == "" && i < len(letters)-2 {
				break // not ours, or the rest is a value
			}
			if flag.NoOptDefVal == "" {
				return usageErrorf("--%s is empty: is a variable of your shell empty? Quote it (--%s \"$NAME\")", flag.Name, flag.Name)
			}
		}
	}
	return nil
}

// quoteValue puts the value before what is wrong with it, as far as it may be
// shown.
func quoteValue(flag *pflag.Flag, value string, problem error) string {
	if secret(flag.Name) {
		return "its value " + problem.Error()
	}
	if flag.Value.Type() == "bool" { // pflag's own parser says less
		return quoted(value) + " is no true or false"
	}
	return quoted(value) + " " + problem.Error()
}

func suggestFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if best := closest(name, names); best != "" {
		return "; did you mean --" + best + "?"
	}
	return "."
}

func quoted(text string) string { return "\"" + strings.ToValidUTF8(printable(text), "?") + "\"" }
