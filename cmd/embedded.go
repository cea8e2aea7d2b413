package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlockrun/redlockrun/lockexec/connect"
	"github.com/redlockrun/redlockrun/lockexec/embedded"
)

// newEmbeddedCommand groups what there is to say to the embedded server.
func (p *program) newEmbeddedCommand(out *output) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "embedded",
		Short: "See or stop the embedded server (--redis embedded)",
		Long: `With --redis embedded, locks are kept by a small background server of your own
on this host. The first run starts it; it ends by itself when it was not needed
for five minutes. It excludes runs of the same user on the same host, no others.

EXIT STATUS
  That of status and stop. 64 without one of them.`,
		Example: `  redlockrun embedded status
  redlockrun embedded stop`,
		Args: subcommandRequired,
		RunE: subcommandRequired,
	}
	cmd.AddCommand(p.newEmbeddedStatusCommand(), p.newEmbeddedStopCommand(out))
	return cmd
}

// embeddedTimeout bounds the exchange with a server on this host.
const embeddedTimeout = 15 * time.Second

func (p *program) newEmbeddedStatusCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell whether the embedded server runs",
		Long: `Tell whether the embedded server runs, and since when. This starts none.

EXIT STATUS
  0 when it runs, 1 when it does not, 69 when it does not answer.`,
		Example: "  redlockrun embedded status --json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			ctx, cancel := context.WithTimeout(context.Background(), embeddedTimeout)
			defer cancel()
			return p.runEmbeddedStatus(ctx, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (p *program) runEmbeddedStatus(ctx context.Context, asJSON bool) error {
	dir, err := embedded.Dir()
	if err != nil {
		return &connect.EmbeddedError{Err: err}
	}
	info, err := embedded.Status(ctx, dir)
	if err != nil {
		return &connect.EmbeddedError{Err: err}
	}
	switch {
	case asJSON:
		err = json.NewEncoder(p.stdout).Encode(info)
	case info.Running:
		_, err = fmt.Fprintf(p.stdout, "running at %s since %s (pid %d): %d clients, %d locks, %d keys\n",
			info.Socket, info.Since.Local().Format("2006-01-02 15:04:05"), info.PID, info.Clients, info.Locks, info.Keys)
	default:
		_, err = fmt.Fprintf(p.stdout, "not running; --redis embedded starts it at %s\n", info.Socket)
	}
	if err != nil {
		return err
	}
	if !info.Running {
		return errNo
	}
	return nil
}

func (p *program) newEmbeddedStopCommand(out *output) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop the embedded server",
		Long: `Stop the embedded server. What it remembers is kept for the next start. While
locks are held it is not stopped, as their holders would have to stop their
commands.

EXIT STATUS
  0 when it was stopped or did not run, 75 when locks are held, 69 when it does
  not answer.`,
		Example: "  redlockrun embedded stop",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			ctx, cancel := context.WithTimeout(context.Background(), embeddedTimeout)
			defer cancel()
			return p.runEmbeddedStop(ctx, force)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "stop it also while locks are held; their holders start it again at once if they can")
	out.addFlags(cmd.Flags())
	return cmd
}

func (p *program) runEmbeddedStop(ctx context.Context, force bool) error {
	dir, err := embedded.Dir()
	if err != nil {
		return &connect.EmbeddedError{Err: err}
	}
	stopped, err := embedded.Stop(ctx, dir, force)
	if held := (*embedded.LocksHeldError)(nil); errors.As(err, &held) {
		return &serverBusyError{held}
	}
	if err != nil {
		return &connect.EmbeddedError{Err: err}
	}
	if !stopped {
		_, err = fmt.Fprintln(p.stdout, "the embedded server does not run")
	}
	return err
}

// serverBusyError is an embedded server that is still needed.
type serverBusyError struct{ held *embedded.LocksHeldError }

func (e *serverBusyError) Error() string {
	return fmt.Sprintf("not stopped: %v; wait for their commands to end, or use --force", e.held)
}
