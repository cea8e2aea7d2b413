// Package cmd is the command line of redlockrun: flags, configuration,
// messages and exit codes.
//
// # What may be touched here
//
// Each command stands in a file of its own, with its options, its flags and
// its run function. Every setting is a flag; environment and files only fill
// in flags that were not given (config.go). Errors become words for people
// and exit codes in exit.go, nowhere else. Nothing here knows Redis commands,
// Lua, or how a process is killed: that is lockexec's.
//
// Standard output belongs to the child, or to the answer that a command was
// asked for. What redlockrun itself has to say goes to standard error, and in
// the default setting there is nothing to say about a run that went well.
package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
	"github.com/redlockrun/redlockrun/lockexec/guard"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// Main runs the command line of this process and returns its exit code. It
// does not return when the child died of a signal: this process then dies of
// the same one.
func Main() int {
	logging.Disable() // the client's own words would go to the user's terminal
	// The supervisor and the background server are this same program: their
	// roles come before any flag or configuration is looked at.
	if run, ok := guard.Role(os.Args, newVoice); ok {
		return run()
	}
	if run, ok := embedded.Role(os.Args); ok {
		return run()
	}
	p := &program{
		stdout:  os.Stdout,
		stderr:  os.Stderr,
		environ: os.LookupEnv,
	}
	if slices.Contains(os.Args[1:], "--") && !asksToComplete(os.Args[1:]) { // there is something to run
		p.guard = guard.Launch()
		defer p.guard.Close()
	}
	// A reader of standard error that went away must not end this process in
	// the midst of a run. A handler that does nothing, as the child would
	// inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	end := p.run(os.Args[1:])
	if end.signal != 0 {
		proc.DieOf(end.signal)
	}
	return end.code
}

// program is one call of the command line, with what it takes from its
// surroundings.
type program struct {
	stdout, stderr io.Writer
	environ        func(string) (string, bool)

	// command is what follows the "--", and dashes whether there was one.
	command []string
	dashes  bool

	// guard runs it.
	guard *guard.Guard
}

// run does what args ask for, and says on stderr what went wrong.
func (p *program) run(args []string) ending {
	out := &output{format: presetFormat(args, p.environ), writer: p.stderr}
	root := p.newRootCommand(out)
	args = p.takeCommand(root, args, out)
	root.SetArgs(args)
	help := &watchedWriter{Writer: p.stdout}
	root.SetOut(help)
	root.SetErr(p.stderr)
	var err error
	if p.dashes {
		err = checkShortFlags(root.Flags(), args)
	}
	if err == nil {
		err = cmp.Or(root.Execute(), help.err)
	}
	end := endingOf(err)
	if end.event == "skipped" && (out.format == jsonFormat || isTerminal(os.Stderr)) {
		end.level = slog.LevelWarn // else cron would mail that there was nothing to do
	}
	end.reportWithin(lastWords, out.logger())
	return end
}

// watchedWriter remembers that something could not be written, as cobra does not
// say so; unless it was for a reader that has seen enough.
type watchedWriter struct {
	io.Writer
	err error
}

func (w *watchedWriter) Write(text []byte) (int, error) {
	n, err := w.Writer.Write(text)
	if err != nil && w.err == nil && !errors.Is(err, syscall.EPIPE) {
		w.err = err
	}
	return n, err
}

// lastWords is how long the end waits for whoever should read standard error.
const lastWords = time.Second

// takeCommand cuts the child's command off args. What follows the first "--"
// is the child's, to the letter; no flag parser sees it. Without that a key
// that the shell dropped (--key $UNSET -- cmd) would make "--" the key.
//
// Such a call has no subcommands: cobra would see one in "-nk version", and
// to make them would be in vain. All others get them here.
func (p *program) takeCommand(root *cobra.Command, args []string, out *output) []string {
	if asksToComplete(args) {
		return p.takeCompletion(root, args, out)
	}
	at := slices.Index(args, "--")
	run := at >= 0
	if !run || at > 0 && !strings.HasPrefix(args[0], "-") {
		p.addSubcommands(root, out)
		run = run && !isSubcommand(root, args[0])
	}
	if !run {
		return args
	}
	root.RemoveCommand(root.Commands()...)
	p.command, p.dashes = args[at+1:], true
	return args[:at]
}

func isSubcommand(root *cobra.Command, word string) bool {
	if word == "help" || strings.HasPrefix(word, cobra.ShellCompRequestCmd) {
		return true // cobra adds these when it executes
	}
	return slices.ContainsFunc(root.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word })
}

// addSubcommands adds all commands and help topics but the root.
func (p *program) addSubcommands(root *cobra.Command, out *output) {
	root.AddCommand(
		p.newAcquireCommand(out),
		p.newRenewCommand(out),
		p.newReleaseCommand(out),
		p.newStatusCommand(out),
		p.newListCommand(out),
		p.newHistoryCommand(out),
		p.newDoctorCommand(out),
		p.newEmbeddedCommand(out),
		p.newCompletionCommand(),
		p.newVersionCommand(),
		newExitCodesTopic(),
		newPlacesTopic(),
		newGuaranteesTopic(),
	)
	root.AddCommand(newEnvironmentTopic(root)) // it tells of the flags of all
}

// newRootCommand makes the root command.
func (p *program) newRootCommand(out *output) *cobra.Command {
	root := p.newRunCommand(out)
	root.SetUsageFunc(printUsage)
	root.SilenceUsage = true
	root.SilenceErrors = true
	root.SetFlagErrorFunc(explainFlagError)
	root.SetHelpCommand(newHelpCommand())
	root.CompletionOptions.DisableDefaultCmd = true // there is one of our own
	return root
}

// programName is the base name by which this program was called.
func programName() string {
	if len(os.Args) == 0 || os.Args[0] == "" {
		return "redlockrun"
	}
	return filepath.Base(os.Args[0])
}

// noArguments refuses arguments of a command that takes none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageErrorf("%s takes no arguments, but got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// subcommandRequired is the Args and Run of a command that only groups others.
func subcommandRequired(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageErrorf("%s needs one of: %s", cmd.CommandPath(), strings.Join(subcommands(cmd), ", "))
	}
	return usageErrorf("%s has no subcommand %q%s", cmd.CommandPath(), args[0], didYouMean(closest(args[0], subcommands(cmd))))
}

func subcommands(cmd *cobra.Command) []string {
	var names []string
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	return names
}

func didYouMean(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", name)
}
