package cmd

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// listOptions are the settings of the list command.
type listOptions struct {
	lockOptions
	asJSON bool
}

func (p *program) newListCommand(out *output) *cobra.Command {
	opts := &listOptions{lockOptions: newLookOptions(out)}
	cmd := &cobra.Command{
		Use:   "list [PATTERN]",
		Short: "List the locks that are held",
		Long: `List the locks that are held, with their holders and how many wait, of all keys
behind the --prefix or those that match PATTERN: * is any text, ? any character,
[abc] one of these. Quote it, or the shell takes it for files.

A lock that left no record is shown as another program's, of whatever kind that
is; what can be no lock is left out. All keys of the server are looked at, a
thousand at a time, which holds up nobody. An ACL user needs +scan for it.

EXIT STATUS
  0, also when none is held. 69: Redis is unavailable.`,
		Example: `  redlockrun list
  redlockrun list 'client_*' --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageErrorf("%s takes one pattern, but got %q too: did the shell find files for it? Quote it", cmd.CommandPath(), args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runList(cmd, opts, strings.Join(args, ""))
		},
	}
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print JSON")
	opts.addPrefixFlag(cmd.Flags())
	opts.addPlaceFlags(cmd.Flags())
	cmd.Flags().SortFlags = false
	return cmd
}

// lockList is what list prints with --json.
type lockList struct {
	Locks []lockStatus `json:"locks"`
}

func (p *program) runList(cmd *cobra.Command, opts *listOptions, pattern string) error {
	from, wrong, err := p.load(cmd)
	if err != nil {
		return err
	}
	_, _ = opts.fullName("k", from, wrong) // any, for the prefix
	target := opts.check(from, p.environ, wrong)
	if err := wrong.orNil(); err != nil {
		return err
	}
	return atPlace(target, noLimit, func(ctx context.Context, locker *lock.Locker) error {
		return p.listHere(ctx, opts, locker, pattern)
	})
}

func (p *program) listHere(ctx context.Context, opts *listOptions, locker *lock.Locker, pattern string) error {
	locks, err := locker.List(ctx, lock.Listing{Prefix: opts.prefix, Pattern: pattern, Timeout: opts.redis.connectTimeout})
	if err != nil {
		return &byTokenError{err}
	}
	if opts.asJSON {
		all := lockList{Locks: []lockStatus{}}
		for _, s := range locks {
			all.Locks = append(all.Locks, newLockStatus(look{snapshot: s}))
		}
		return printJSON(p.stdout, all)
	}
	if len(locks) == 0 {
		none := "no lock is held"
		if pattern != "" {
			none = "no lock is held whose key matches " + quoted(pattern)
		}
		opts.output.logger().Warn(none, "event", "none_held")
		return nil
	}
	_, err = io.WriteString(p.stdout, cutLines(listText(locks, opts.prefix), p.width()))
	return err
}

// keyWidth is the most columns of a key; a longer one has a line of its own,
// as it is of no use when it is cut.
const keyWidth = 24

// listText has a line for each lock. Their keys come without the prefix, as
// commands take them.
func listText(locks []lock.Snapshot, prefix string) string {
	rows := [][]string{{"KEY", "STATE", "MODE", "LEASE", "WAIT", "HOLDER"}}
	for _, s := range locks {
		mode := "-"
		if s.CapacityKnown {
			mode = s.Capacity.String()
		}
		key := printable(strings.TrimPrefix(s.Name, prefix))
		if textWidth(key) > keyWidth {
			key = ""
		}
		rows = append(rows, []string{key, s.State.String(), mode, listedLease(s), strconv.Itoa(s.Waiting), listedHolder(s)})
	}
	lines := strings.SplitAfter(alignedRows(rows), "\n")
	var b strings.Builder
	b.WriteString(lines[0])
	for i, s := range locks {
		if rows[i+1][0] == "" {
			b.WriteString(printable(strings.TrimPrefix(s.Name, prefix)) + "\n")
		}
		b.WriteString(lines[i+1])
	}
	return b.String()
}

func listedLease(s lock.Snapshot) string {
	if s.State == lock.StateFree {
		return "-"
	}
	return leaseText(s.Remaining)
}

// listedHolder names the first holder, and how many more there are; of a lock
// that nobody has on most servers of a quorum, that.
func listedHolder(s lock.Snapshot) string {
	if s.State == lock.StateFree {
		return "(on some servers only)"
	}
	text := who(s.Holders[0].Holder, s.Holders[0].State)
	if s.Held > 1 {
		text += " +" + strconv.Itoa(s.Held-1)
	}
	return text
}
