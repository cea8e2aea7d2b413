package lockexec

import (
	"context"
	"syscall"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// killMargin is how long before the safe end of the lease the tree of the
// command is killed: the time that a kill takes, with much to spare.
const killMargin = 50 * time.Millisecond

// watchPause is the longest time between two looks at the clock. Timers stand
// still while the machine sleeps and the lease does not: after a wake-up this
// much may pass before the lease is looked at.
const watchPause = 250 * time.Millisecond

// supervisor watches a command and its lease. Its loop never waits for Redis,
// nor for whoever reads the log: only then does it end the command in time
// whatever else hangs.
type supervisor struct {
	lease    *lock.Lease
	process  *proc.Process
	terminal bool
	opts     Options

	keeper  <-chan error // a lost lock, from the goroutine that renews
	timeout <-chan time.Time

	ended    bool          // the child itself has ended
	stopping bool          // what still runs was asked to end
	verdict  error         // why the child was stopped; nil if it ended by itself
	stopAt   lock.Instant  // when leftovers are asked to end, once the child has ended
	killAt   lock.Instant  // when they are killed, once stopping
	killed   chan struct{} // nil until a kill begins, closed when it has finished
}

// run returns when the tree of the command is gone and nothing renews the
// lease any more.
func (s *supervisor) run(ctx context.Context) (proc.Status, error) {
	var stopKeeping func()
	s.keeper, stopKeeping = keep(ctx, s.lease, s.opts.Log)
	defer stopKeeping()
	if s.opts.Timeout > 0 {
		timer := time.NewTimer(s.opts.Timeout)
		defer timer.Stop()
		s.timeout = timer.C
	}

	exited := s.process.Exited()
	for {
		// A child that has ended is not stopped for anything.
		select {
		case <-exited:
			exited = nil
			s.childEnded()
		default:
		}
		// Then the clock, as the loop may just have been woken from a stop or
		// a sleep: nothing is passed on to a child that must not run.
		s.watch()
		select {
		case <-exited: // seen to before anything else
		case <-s.process.Gone():
			if !s.ended {
				s.childEnded()
			}
			if s.killed != nil {
				<-s.killed
			}
			return s.process.Status(), s.verdict
		case err := <-s.keeper:
			s.keeper = nil
			s.lost(err)
		case <-s.timeout:
			s.timeout = nil
			s.stop(ErrTimeout)
		case sig := <-s.opts.Signals:
			s.watch() // once more: the machine may have slept while this waited
			s.forward(asSignal(sig))
		case <-time.After(s.untilNextLook()):
		}
	}
}

// stopTime is the instant at which a command must be asked to stop if its
// lease is not renewed before.
func stopTime(lease *lock.Lease, killAfter time.Duration) lock.Instant {
	return lease.SafeEnd().Add(-max(killAfter, killMargin))
}

func (s *supervisor) killTime() lock.Instant { return s.lease.SafeEnd().Add(-killMargin) }

// guarded reports whether the command must end before the lease does.
func (s *supervisor) guarded() bool { return s.opts.OnLost == Terminate }

// deadlines returns what is due next, and when.
func (s *supervisor) deadlines() []deadline {
	var due []deadline
	add := func(at lock.Instant, act func()) { due = append(due, deadline{at, act}) }
	switch {
	case s.killed != nil:
		return nil
	case s.stopping:
		add(s.killAt, s.kill)
	case s.ended:
		add(s.stopAt, s.stopLeftovers)
	}
	if s.guarded() {
		if !s.stopping {
			add(stopTime(s.lease, s.opts.KillAfter), func() { s.lost(s.lease.Overdue()) })
		}
		add(s.killTime(), s.kill)
	}
	return due
}

type deadline struct {
	at  lock.Instant
	act func()
}

// watch compares the clock with all that is due, and acts.
func (s *supervisor) watch() {
	now := lock.Now()
	for _, d := range s.deadlines() {
		if now >= d.at {
			d.act()
		}
	}
}

// untilNextLook returns the time until something is due, or watchPause.
func (s *supervisor) untilNextLook() time.Duration {
	now := lock.Now()
	next := now.Add(watchPause)
	for _, d := range s.deadlines() {
		next = min(next, d.at)
	}
	return max(0, next.Until(now))
}

// lost deals with a lock that is gone, or about to run out.
func (s *supervisor) lost(err error) {
	switch {
	case err == nil:
	case s.guarded():
		s.stop(err)
	default:
		s.opts.Log.Warn(err.Error()+"; the command goes on, as it was told to",
			"event", "lost", "lock", s.lease.Name(), "error", err.Error())
	}
}

// stop asks the command to stop for reason; KILL follows after KillAfter, or
// earlier where the lease does not last that long. Where it is over by now, as
// after a sleep of the machine, there is no signal and no CONT: a child that
// was stopped would run for an instant.
func (s *supervisor) stop(reason error) {
	if s.stopping || s.killed != nil {
		return
	}
	if !s.ended {
		s.verdict = reason
	}
	s.stopping = true
	s.killAt = lock.Now().Add(s.opts.KillAfter)
	if s.guarded() && lock.Now() >= s.killTime() {
		s.kill()
	} else if s.ended {
		s.process.StopLeftovers(s.opts.StopSignal)
	} else {
		_ = s.process.Stop(s.opts.StopSignal) // KILL comes, whatever this says
	}
	s.opts.Log.Info("stopping the command: "+reason.Error(),
		"event", "stopping", "lock", s.lease.Name(), "error", reason.Error())
}

// childEnded sees to what the child left running: it may end by itself for
// KillAfter, unless the child was stopped.
func (s *supervisor) childEnded() {
	s.ended = true
	s.timeout = nil
	status := s.process.Status()
	s.opts.Log.Info("the command "+status.String(),
		"event", "child_exit", "lock", s.lease.Name(), "exit_code", status.Shell())
	if s.stopping {
		s.process.StopLeftovers(s.opts.StopSignal)
		return
	}
	s.stopAt = lock.Now().Add(s.opts.KillAfter)
}

func (s *supervisor) stopLeftovers() {
	s.stopping = true
	s.killAt = lock.Now().Add(s.opts.KillAfter)
	s.process.StopLeftovers(s.opts.StopSignal)
	s.opts.Log.Info("stopping what the command left running",
		"event", "leftovers", "lock", s.lease.Name())
}

// kill begins to kill the whole tree; Gone tells when it is dead.
func (s *supervisor) kill() {
	if s.killed != nil {
		return
	}
	s.killed = make(chan struct{})
	go func() {
		defer close(s.killed)
		s.process.Kill()
	}()
}

// forward passes a signal on to the child, unless the terminal has sent it
// there already.
func (s *supervisor) forward(sig syscall.Signal) {
	if s.ended {
		// There is no child any more to pass it on to, only what it left.
		if proc.StopSignal(sig) && !s.stopping {
			s.stopLeftovers()
		}
		return
	}
	if s.terminal && proc.KeyboardSignal(sig) {
		return
	}
	if err := s.process.Signal(sig); err != nil {
		s.opts.Log.Warn("could not pass on "+proc.SignalName(sig)+": "+err.Error(),
			"event", "forward_failed", "lock", s.lease.Name(), "error", err.Error())
	}
}
