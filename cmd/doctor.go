package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlockrun/redlockrun/lockexec/doctor"
)

// doctorOptions are the settings of the doctor: those of a run, all of which it
// looks at.
type doctorOptions struct {
	runOptions
	asJSON bool
}

func (p *program) newDoctorCommand(out *output) *cobra.Command {
	opts := &doctorOptions{runOptions: runOptions{lock: lockOptions{output: out}}}
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Check that runs can have locks here, and say what to do if not",
		Long: `Connect to Redis as a run with these settings would, take a lock that nobody
else uses, and look at what could cost a lock: a line for each check, which is
pass, warn, fail, or skip where this user may not ask. Then all settings, and
where each comes from. Passwords are not shown.

It takes the flags of a run, and no command. With --key, it uses a lock whose
name begins with that key. It leaves nothing behind in Redis.

EXIT STATUS
  0 when nothing failed, else 1. 64, 78: the settings themselves are wrong.`,
		Example: `  redlockrun doctor
  redlockrun doctor --redis rediss://redis.test --ttl 30s
  redlockrun doctor --json | jq '.checks[] | select(.status != "pass")'`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.runDoctor(cmd, opts)
		},
	}
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print JSON")
	opts.addFlags(cmd.Flags())
	cmd.Flags().Lookup("key").Usage = "check with a lock whose name begins with that of this `KEY`"
	return cmd
}

// diagnosis is what doctor prints with --json. docs/doctor.md tells of it.
type diagnosis struct {
	OK       bool                  `json:"ok"` // nothing failed
	Counts   map[doctor.Status]int `json:"counts"`
	Checks   []doctor.Check        `json:"checks"`
	Settings []effective           `json:"settings"`
}

func (p *program) runDoctor(cmd *cobra.Command, opts *doctorOptions) error {
	from, wrong, err := p.load(cmd)
	if err != nil {
		return err
	}
	key := opts.key
	if _, given := from["key"]; !given {
		key = "k" // the prefix is to be looked at, too
	}
	opts.lock.fullName(key, from, wrong)
	target := opts.lock.check(from, p.environ, wrong)
	opts.check(from, wrong)
	if err := wrong.orNil(); err != nil {
		return err
	}
	subject := doctor.Subject{
		Target: target, Prefix: opts.lock.prefix, Key: opts.key, TTL: opts.lock.ttl,
		Replicas: opts.lock.replicas, Histories: opts.lock.history > 0,
	}
	checks, err := examine(subject)
	if err != nil {
		return err
	}
	d := diagnosis{Checks: checks, Settings: p.effectiveSettings(cmd, &opts.runOptions, from), Counts: map[doctor.Status]int{
		doctor.Pass: 0, doctor.Warn: 0, doctor.Fail: 0, doctor.Skip: 0,
	}}
	for i := range d.Checks {
		c := &d.Checks[i]
		d.Counts[c.Status]++
		if c.Next == "" && c.Err != nil {
			c.Next = strings.TrimPrefix(serverHint(c.Err), ". ")
		}
	}
	d.OK = d.Counts[doctor.Fail] == 0
	if opts.asJSON {
		encoder := json.NewEncoder(p.stdout)
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(d)
	} else {
		_, err = fmt.Fprint(p.stdout, d.text())
	}
	if err == nil && !d.OK {
		err = errNo
	}
	return err
}

// doctorManners is how long a doctor who was told to stop may clean up.
const doctorManners = time.Second

// examine stops at the first signal that asks for it, though a server hangs.
func examine(subject doctor.Subject) ([]doctor.Check, error) {
	ctx, stop := stoppable()
	defer stop()
	done := make(chan []doctor.Check, 1)
	go func() { done <- doctor.Examine(ctx, subject) }()
	select {
	case checks := <-done:
		return checks, nil
	case <-ctx.Done():
	}
	select {
	case <-done:
	case <-time.After(doctorManners):
	}
	return nil, context.Cause(ctx)
}

// text is the diagnosis for people: a line for each check, what they come to,
// and the settings.
func (d *diagnosis) text() string {
	var b strings.Builder
	width := 0
	for _, c := range d.Checks {
		width = max(width, len(c.Name))
	}
	for _, c := range d.Checks {
		fmt.Fprintf(&b, "%s  %-*s  %s: %s", c.Status, width, c.Name, c.Place, printable(c.Found))
		if c.Next != "" {
			fmt.Fprintf(&b, ". %s", strings.ToUpper(c.Next[:1])+printable(c.Next[1:]))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\n%d pass, %d warn, %d fail, %d skip\n",
		d.Counts[doctor.Pass], d.Counts[doctor.Warn], d.Counts[doctor.Fail], d.Counts[doctor.Skip])
	b.WriteString("\nSettings, and where they come from:\n")
	names, values := 0, 0
	for _, s := range d.Settings {
		names, values = max(names, len(s.Setting)), max(values, min(len(s.Value), longValue))
	}
	for _, s := range d.Settings {
		fmt.Fprintf(&b, "  %-*s  %-*s  %s\n", names, s.Setting, values, cmp.Or(printable(s.Value), "-"), s.origin())
	}
	return b.String()
}

// longValue is how wide the column of values gets.
const longValue = 40
