package guard

import (
	"context"
	"os"
	"os/signal"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// guard has nothing to launch.
type guard struct{}

func launch() guard { return guard{} }

func (guard) close() {}

// run does without a second process: a job object ends the command and all
// that it started when this process is ended, and the lock's time to live ends
// the lock.
func (guard) run(ctx context.Context, opts Options, watch *stopwatch) (proc.Status, error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, proc.Forwardable()...)
	defer signal.Stop(signals)
	if err := opts.Target.Start(ctx); err != nil {
		return proc.Status{}, err
	}
	locker, connections, err := opts.Target.Open()
	if err != nil {
		return proc.Status{}, err
	}
	defer connections.Close()
	opts.Run.Signals = signals
	opts.Run.Adopt = true
	opts.Run.Observe = func(e lockexec.Event) {
		switch e.Kind {
		case lockexec.Acquired:
			note(&watch.acquired)
		case lockexec.Started:
			note(&watch.started)
		case lockexec.Gone:
			note(&watch.ended)
		default:
		}
	}
	note(&watch.asked)
	return lockexec.Run(ctx, locker, opts.Run)
}

func supervise([]string, VoiceMaker) error { return nil }
