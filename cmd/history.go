package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// historyOptions are the settings of the history command.
type historyOptions struct {
	lockOptions
	asJSON bool
	plot   bool
}

func (p *program) newHistoryCommand(out *output) *cobra.Command {
	opts := &historyOptions{lockOptions: lockOptions{output: out, slots: 1, ttl: lock.DefaultTTL}}
	cmd := &cobra.Command{
		Use:   "history KEY",
		Short: "Show the last runs of a key",
		Long: `Show who held the lock of KEY, when, for how long, and how it ended; the newest
first, and whoever holds it now before all. Runs are remembered where they ask
for it, with --history N, and for 90 days after the last one.

EXIT STATUS
  0, also when nothing is remembered. 69: Redis is unavailable.`,
		Example: `  redlockrun --key nightly --history 50 -- ./nightly.sh
  redlockrun history nightly
  redlockrun history nightly --plot`,
		Args:              oneKey,
		ValidArgsFunction: p.completeKey(&opts.lockOptions),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runHistory(cmd, opts, args[0])
		},
	}
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&opts.plot, "plot", false, "draw a time line")
	opts.addPrefixFlag(cmd.Flags())
	opts.addPlaceFlags(cmd.Flags())
	cmd.Flags().SortFlags = false
	return cmd
}

func (p *program) runHistory(cmd *cobra.Command, opts *historyOptions, key string) error {
	from, wrong, err := p.load(cmd)
	if err != nil {
		return err
	}
	name, _ := opts.fullName(key, from, wrong)
	if opts.asJSON && opts.plot {
		wrong.add(from.of("plot"), "and --json exclude each other")
	}
	target := opts.check(from, p.environ, wrong)
	if len(target.Places) > 1 {
		wrong.add(from.of("redis"), "is a quorum of servers, which keeps no history: name one server")
	}
	if err := wrong.orNil(); err != nil {
		return err
	}
	return atPlace(target, opts.redis.connectTimeout, func(ctx context.Context, locker *lock.Locker) error {
		holds, err := locker.History(ctx, name, opts.redis.connectTimeout)
		if err != nil {
			return &byTokenError{err}
		}
		return p.printHistory(name, holds, opts)
	})
}

func (p *program) printHistory(name string, holds []lock.Hold, opts *historyOptions) error {
	if opts.asJSON {
		return json.NewEncoder(p.stdout).Encode(newPastRuns(name, holds))
	}
	if len(holds) == 0 {
		opts.output.logger().Warn("nothing is remembered of "+name+": runs are when they ask for it, with --history N",
			"event", "no_history", "lock", name)
		return nil
	}
	text := historyTable(holds, time.Now())
	if opts.plot {
		width, color := 0, false
		if file, ok := p.stdout.(*os.File); ok && isTerminal(file) {
			width, color = columns(file), p.colorful()
		}
		text = plotHistory(name, holds, time.Now(), width, color)
	}
	_, err := fmt.Fprint(p.stdout, text)
	return err
}

// colorful reports whether a terminal is to get colors: see no-color.org.
func (p *program) colorful() bool {
	term, _ := p.environ("TERM")
	no, _ := p.environ("NO_COLOR")
	return no == "" && term != "" && term != "dumb"
}

// pastRuns is what history prints with --json.
type pastRuns struct {
	Key  string    `json:"key"` // the full name of the lock
	Runs []pastRun `json:"runs"`
}

// pastRun has null for what is not known.
type pastRun struct {
	StartedAt *time.Time `json:"started_at"` // by the clock of Redis
	EndedAt   *time.Time `json:"ended_at"`
	FoundAt   *time.Time `json:"found_at,omitempty"` // when it was found to have ended, if that is all that is known
	HeldMS    *int64     `json:"held_ms"`
	WaitedMS  int64      `json:"waited_ms"`
	End       lock.How   `json:"end"`
	ExitCode  *int       `json:"exit_code"` // of a command that ended by itself
	Signal    string     `json:"signal,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	LockLost  bool       `json:"lock_lost"`
	Fence     int64      `json:"fence,omitempty"`
	Host      string     `json:"host"`
	PID       int        `json:"pid"`
	Label     string     `json:"label"`
	Command   string     `json:"command,omitempty"`
}

func newPastRuns(name string, holds []lock.Hold) pastRuns {
	all := pastRuns{Key: name, Runs: []pastRun{}}
	for _, hold := range holds {
		run := pastRun{
			StartedAt: timeOrNull(hold.Since), EndedAt: timeOrNull(hold.Until), FoundAt: timeOrNull(hold.Found),
			WaitedMS: hold.Waited.Milliseconds(), End: hold.End.How, Signal: hold.End.Signal, Reason: hold.End.Reason,
			LockLost: hold.LockLost, Fence: hold.Holder.Fence,
			Host: hold.Holder.Host, PID: hold.Holder.PID, Label: hold.Holder.Label, Command: hold.Holder.Command,
		}
		if length, known := hold.Length(); known {
			run.HeldMS = new(length.Milliseconds())
		}
		if hold.End.How == lock.Exited {
			run.ExitCode = new(hold.End.Code)
		}
		all.Runs = append(all.Runs, run)
	}
	return all
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// endText says in a few words how a lock was given up.
func endText(hold lock.Hold) string {
	var text string
	switch end := hold.End; end.How {
	case lock.Exited:
		text = fmt.Sprintf("exit %d", end.Code)
	case lock.Signaled:
		text = end.Signal
	case lock.TimedOut:
		text = "time-out"
	case lock.Lost:
		return "lock lost"
	case lock.NotStarted:
		text = "not started"
	case lock.Unknown:
		text = "no end known"
	case lock.Held:
		text = "held now"
	case lock.Interrupted, lock.Killed, lock.Failed, lock.Released, lock.Revoked:
		text = string(end.How)
	default: // of a later version
		text = string(end.How)
	}
	if hold.LockLost {
		text += ", lock lost"
	}
	return text
}

// heldText is for how long, by now if it still is.
func heldText(hold lock.Hold, now time.Time) string {
	if hold.End.How == lock.Held && !hold.Since.IsZero() {
		hold.Until = now
	}
	if length, known := hold.Length(); known {
		return rounded(length)
	}
	return "?"
}

// rounded writes a time span in seven columns at most, up to 41 days.
func rounded(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	default:
		return shortDuration(d.Round(time.Minute))
	}
}

// historyTable has a line for each, with columns as wide as they need to be.
func historyTable(holds []lock.Hold, now time.Time) string {
	rows := [][]string{{"STARTED", "HELD", "WAITED", "ENDED", "WHO", "COMMAND"}}
	for _, hold := range holds {
		started, waited := "?", "-"
		if !hold.Since.IsZero() {
			started = hold.Since.Local().Format(time.DateTime)
		}
		if hold.Waited > 0 {
			waited = rounded(hold.Waited)
		}
		rows = append(rows, []string{started, heldText(hold, now), waited, endText(hold), holderText(hold.Holder), hold.Holder.Command})
	}
	return alignedRows(rows)
}

func holderText(h lock.Holder) string {
	if h.Label != h.Host {
		return fmt.Sprintf("%s (pid %d on %s)", h.Label, h.PID, h.Host)
	}
	return fmt.Sprintf("%s (pid %d)", h.Label, h.PID)
}
