package cmd

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/guard"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/metrics"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// runOptions are the settings of the root command.
type runOptions struct {
	key     string
	version bool
	lock    lockOptions

	timeout    time.Duration
	killAfter  time.Duration
	stopSignal syscall.Signal
	onLost     onLostWord
	leftovers  leftoversWord

	signalGroup bool
	showArgs    bool
	metricsFile string

	minHold time.Duration
	once    string
	onceTTL time.Duration
}

type onLostWord string

const (
	onLostTerminate onLostWord = "terminate"
	onLostWarn      onLostWord = "warn"
)

type leftoversWord string

const (
	leftoversKill  leftoversWord = "kill"
	leftoversWait  leftoversWord = "wait"
	leftoversLeave leftoversWord = "leave"
)

func (o *runOptions) addFlags(fs *pflag.FlagSet) {
	o.stopSignal = syscall.SIGTERM
	o.onceTTL = lockexec.DefaultOnceTTL

	fs.StringVarP(&o.key, "key", "k", "", "what to lock: any `NAME` (required)")
	o.lock.addFlags(fs)
	fs.Var(durationValue{&o.minHold}, "min-hold", "keep the lock for at least this `DURATION`, also when the command ends sooner")
	fs.StringVar(&o.once, "once", "", "skip the command when a run with this `ID` has succeeded, as in --once \"$(date +%F)\"")
	fs.Var(durationValue{&o.onceTTL}, "once-ttl", "how long a success is remembered (`DURATION`)")

	fs.Var(durationValue{&o.timeout}, "timeout", "stop the command after this `DURATION`, and exit with 124")
	fs.Var(durationValue{&o.killAfter}, "kill-after", "`DURATION` from the stop signal to KILL (default 5s, or a third of the ttl if less)")
	fs.Var(signalValue{&o.stopSignal}, "stop-signal", "`SIGNAL` that asks the command to stop")
	fs.Var(newChoice(&o.onLost, onLostTerminate, onLostTerminate, onLostWarn), "on-lost",
		"what to do when the lock is lost: terminate the command before another can hold the lock, or warn and let it run (`WHAT`)")

	fs.Var(newChoice(&o.leftovers, leftoversKill, leftoversKill, leftoversWait, leftoversLeave), "leftovers",
		"what to do with what the command leaves running: kill it (--kill-after to end by itself, then the stop signal, then KILL), "+
			"wait for it with the lock kept, or leave it running and release the lock (`WHAT`)")
	fs.BoolVarP(&o.signalGroup, "signal-group", "g", false, "pass signals on to the command's whole process group")

	fs.BoolVar(&o.showArgs, "show-args", false, "show those who find the lock busy the command's arguments, not only its name")

	fs.StringVar(&o.metricsFile, "metrics-file", "", "write metrics for Prometheus' node_exporter to this `FILE`, NAME.prom")

	o.lock.addPlaceFlags(fs)
	fs.SortFlags = false
}

// newRunCommand is the root: what redlockrun is for.
func (p *program) newRunCommand(out *output) *cobra.Command {
	opts := &runOptions{lock: lockOptions{output: out}}
	cmd := &cobra.Command{
		Use:   "redlockrun [flags] --key KEY -- COMMAND [ARG...]",
		Short: "Run a command under a distributed lock in Redis",
		Long: `Redlockrun takes a lock in Redis, runs COMMAND while it keeps the lock, and
releases it when the command ends. When another holds the lock, it runs nothing
and exits with 75. So of many machines that start the same job, one does it.

EXIT STATUS
  The command's own. 75: busy. 69: Redis is unavailable. 79: the lock was lost,
  and the command stopped for it. All: redlockrun help exit-codes`,
		Example: `  redlockrun --key client_123 -- ./generate-report.sh client_123
  redlockrun --key deploy --wait 10m -- ./deploy.sh
  redlockrun --key nightly --timeout 1h --redis rediss://redis.test -- backup
  redlockrun --key demo --redis embedded -- sh -c 'echo "I hold it"; sleep 60'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.version {
				_, err := fmt.Fprintln(p.stdout, "redlockrun", version())
				return err
			}
			if cmd.Flags().NFlag() == 0 && len(args) == 0 && !p.dashes {
				return cmd.Help()
			}
			return p.runLocked(cmd, opts, args)
		},
		ValidArgsFunction:     p.completeRun,
		DisableFlagsInUseLine: true,
	}
	opts.addFlags(cmd.Flags())
	p.completeKeyFlag(cmd, &opts.lock)
	cmd.InitDefaultHelpFlag() // else it would come last
	cmd.Flags().BoolVar(&opts.version, "version", false, "version for redlockrun")
	return cmd
}

// runLocked runs the command under the lock.
func (p *program) runLocked(cmd *cobra.Command, opts *runOptions, args []string) error {
	if err := p.checkCommand(cmd, args); err != nil {
		return err
	}
	plan, err := p.plan(cmd, opts)
	if err != nil {
		return err
	}
	err = p.runPlan(plan, opts)
	if opts.metricsFile != "" {
		p.writeMetrics(opts, err)
	}
	return err
}

// runPlan runs what was planned. Its error says how it ended, in every case.
func (p *program) runPlan(plan *guard.Options, opts *runOptions) error {
	// A command that is not there must hold no lock, nor wait for Redis.
	if _, err := proc.LookPath(plan.Run.Command[0]); err != nil {
		return err
	}

	status, err := p.guard.Run(context.Background(), *plan)
	switch held := (*lock.HeldError)(nil); {
	case errors.As(err, &held):
		return &busyError{held, opts.lock.conflictCode, opts.lock.wait}
	case errors.Is(err, lockexec.ErrDone):
		return &doneError{plan.Run.Name, opts.once}
	case errors.Is(err, lockexec.ErrTimeout):
		return &timeoutError{plan.Run.Name, opts.timeout}
	case err != nil:
		return err
	}
	return &childEnding{status}
}

// writeMetrics leaves word of the run. A file that can't be written is no
// reason to end otherwise.
func (p *program) writeMetrics(opts *runOptions, err error) {
	end, times := endingOf(err), p.guard.Times()
	outcome := metrics.Outcome(end.event)
	if child := (*childEnding)(nil); errors.As(err, &child) {
		outcome = metrics.Ran
	}
	failure := metrics.Write(opts.metricsFile, metrics.Attempt{
		Prefix: opts.lock.prefix, Key: opts.key, End: time.Now(), Outcome: outcome, ExitCode: end.code,
		Waited: times.Waited, Started: times.Started, Ran: times.Ran,
	})
	if failure != nil {
		opts.lock.output.logger().Warn("can't write the metrics: "+failure.Error(),
			"event", "metrics_failed", "error", failure.Error())
	}
}

// checkCommand refuses a call without "--", or with nothing after it.
func (p *program) checkCommand(cmd *cobra.Command, args []string) error {
	program := programName()
	switch {
	case !p.dashes && len(args) == 0:
		return usageErrorf("there is no command to run: write it after --, as in\n  %s --key KEY -- COMMAND", program)
	case !p.dashes:
		if name := closest(args[0], append(subcommands(cmd), "help", "completion")); name != "" && len(args[0]) > 2 {
			return usageErrorf("there is no subcommand %q; did you mean %q? A command to run comes after --, as in\n  %s",
				args[0], name, correctedLine(program, args))
		}
		return usageErrorf("the command to run must come after --, as in\n  %s", correctedLine(program, args))
	case len(args) > 0:
		return usageErrorf("%q stands before the --: a command and its arguments come after it, as in\n  %s",
			args[0], correctedLine(program, append(args, p.command...)))
	case len(p.command) == 0:
		return usageErrorf("there is no command after the --, as in\n  %s --key KEY -- COMMAND", program)
	}
	return nil
}

// correctedLine shows where the -- belongs. The flags that were given stand
// for all flags: they may hold secrets.
func correctedLine(program string, command []string) string {
	return program + " --key KEY -- " + shellLine(command)
}

// plan reads all settings and refuses, with all that is wrong at once, what
// can't be meant.
func (p *program) plan(cmd *cobra.Command, opts *runOptions) (*guard.Options, error) {
	from, wrong, err := p.load(cmd)
	if err != nil {
		return nil, err
	}
	name := ""
	if _, given := from["key"]; given {
		name = opts.lock.name(opts.key, from, p.environ, wrong)
	} else {
		wrong.add(from.of("key"), "is required: name what to lock, as in --key client_123")
	}
	target := opts.lock.check(from, p.environ, wrong)
	opts.check(from, wrong)
	if err := wrong.orNil(); err != nil {
		return nil, err
	}

	onLost := map[onLostWord]lockexec.OnLost{
		onLostTerminate: lockexec.Terminate, onLostWarn: lockexec.WarnAndKeep,
	}
	leftovers := map[leftoversWord]lockexec.Leftovers{
		leftoversKill: lockexec.KillLeftovers, leftoversWait: lockexec.AwaitLeftovers, leftoversLeave: lockexec.LeaveLeftovers,
	}
	return &guard.Options{
		Target: target,
		Run: lockexec.Options{
			Name:           name,
			Command:        p.command,
			Capacity:       opts.lock.capacity(),
			Replicas:       opts.lock.replicas,
			Wait:           opts.lock.wait,
			Once:           opts.once,
			OnceTTL:        opts.onceTTL,
			MinHold:        opts.minHold,
			History:        opts.lock.history,
			TTL:            opts.lock.ttl,
			ConnectTimeout: opts.lock.redis.connectTimeout,
			Timeout:        opts.timeout,
			KillAfter:      opts.killAfter,
			StopSignal:     opts.stopSignal,
			OnLost:         onLost[opts.onLost],
			Leftovers:      leftovers[opts.leftovers],
			Label:          opts.lock.label,
			ShowArgs:       opts.showArgs,
			SignalGroup:    opts.signalGroup,
			Log:            opts.lock.output.logger(),
		},
		Voice: voiceSettings(opts.lock.output, opts.lock.progress),
	}, nil
}

// check notes what can't be meant of the settings that only a run has.
func (o *runOptions) check(from sources, wrong *configError) {
	if o.killAfter != 0 && lock.CheckTTL(o.lock.ttl) == nil {
		if err := lockexec.CheckKillAfter(o.killAfter, o.lock.ttl); err != nil {
			wrong.add(from.of("kill-after"), "%v: raise --ttl to %s, or stop faster", err, shortDuration(2*o.killAfter))
		}
	}
	if _, given := from["kill-after"]; given && o.killAfter == 0 {
		wrong.add(from.of("kill-after"), "must be more than 0: to kill at once, use --stop-signal KILL")
	}
	if _, given := from["timeout"]; given && o.timeout == 0 {
		wrong.add(from.of("timeout"), "must be more than 0: leave it out for no time-out")
	}
	if o.minHold > lock.MaxTTL {
		wrong.add(from.of("min-hold"), "is longer than %s", shortDuration(lock.MaxTTL))
	}
	if _, given := from["metrics-file"]; given {
		if err := metrics.Check(o.metricsFile); err != nil {
			wrong.add(from.of("metrics-file"), "%v", err)
		}
	}
	_, once := from["once"]
	switch _, ttl := from["once-ttl"]; {
	case once && o.once == "":
		wrong.add(from.of("once"), "is empty: is a variable of your shell empty?")
	case once && (len(o.once) > maxLabel || o.once != printable(o.once)):
		wrong.add(from.of("once"), "must be printable text of at most %d bytes", maxLabel)
	case ttl && (o.onceTTL < time.Second || o.onceTTL > maxOnceTTL):
		wrong.add(from.of("once-ttl"), "must be from 1s to %s", shortDuration(maxOnceTTL))
	}
}

// maxOnceTTL is ten years.
const maxOnceTTL = 10 * 366 * 24 * time.Hour
