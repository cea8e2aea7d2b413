//go:build unix

package cmd

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// checkCall reports what is wrong with a call of redlockrun, by the same code
// that would run it. Nothing is run, and nothing connected to. Files that the
// call names need not exist.
func checkCall(args []string, environ map[string]string) error {
	lookup := func(name string) (string, bool) {
		value, ok := environ[name]
		return value, ok
	}
	out := &output{format: presetFormat(args, lookup), writer: io.Discard}
	p := &program{stdout: io.Discard, stderr: io.Discard, environ: lookup}
	root := p.newRootCommand(out)
	rest := p.takeCommand(root, args, out)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()

	sub, subArgs, err := root.Find(rest)
	if err != nil {
		return err
	}
	if sub.Flags().Lookup("connect-timeout") == nil {
		return checkOther(root, sub, subArgs)
	}
	// All settings are looked at before this one is refused, which nobody can
	// mean, and so nothing is done.
	root.SetArgs(append(rest, "--connect-timeout=0s"))
	err = root.Execute()
	wrong := (*configError)(nil)
	if !errors.As(err, &wrong) {
		return err // nil where help was asked for
	}
	var problems []string
	for _, problem := range wrong.problems {
		text := problem.source.text + ": " + problem.text
		if text != "--connect-timeout: must be more than 0" && !strings.HasSuffix(text, "no such file or directory") {
			problems = append(problems, text)
		}
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "\n"))
	}
	return nil
}

// checkOther is for commands that hold no lock.
func checkOther(root, sub *cobra.Command, args []string) error {
	if sub.Name() == "help" && len(args) > 0 {
		if topic, _, err := root.Find(args); err != nil || topic == root {
			return fmt.Errorf("there is no help on %q", args)
		}
		return nil
	}
	if err := sub.ParseFlags(args); err != nil {
		return err
	}
	return sub.ValidateArgs(sub.Flags().Args())
}

// checkEnvironment reports a variable of ours that there is not.
func checkEnvironment(environ map[string]string) error {
	root := (&program{}).newRootCommand(&output{writer: io.Discard})
	for name := range environ {
		flag, ok := strings.CutPrefix(name, "REDLOCKRUN_")
		flag = strings.ToLower(strings.ReplaceAll(flag, "_", "-"))
		if ok && (root.Flags().Lookup(flag) == nil || onlyFlags[flag]) {
			return fmt.Errorf("%s sets no flag", name)
		}
	}
	return nil
}
