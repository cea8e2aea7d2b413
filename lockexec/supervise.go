package lockexec

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// KillMargin is how long before the safe end of a lease the tree of the
// command is killed: the time that a kill takes on a busy machine. The wrapper
// has the last half of it if the supervisor has not begun, and twice as much if
// it sees that the supervisor is stopped.
func KillMargin(ttl time.Duration) time.Duration {
	return min(max(ttl/10, 50*time.Millisecond), 500*time.Millisecond)
}

// watchPause is the longest time between two looks at the clock. Timers stand
// still while the machine sleeps and the lease does not: after a wake-up this
// much may pass before the lease is looked at.
const watchPause = 250 * time.Millisecond

// supervisor watches a command and its lease. Its loop never waits for Redis,
// nor for whoever reads the log: only then does it end the command in time
// whatever else hangs.
type supervisor struct {
	lease   *lock.Lease
	process *proc.Process
	opts    Options
	started lock.Instant // the command was

	keeper  <-chan error // a lost lock, from the goroutine that renews
	resumes sync.WaitGroup
	renewed chan error // the answer of a renewal that a stopped child waits for
	timeout <-chan time.Time

	ended    bool          // the child itself has ended
	stopped  bool          // it is stopped, as a job is
	stopping bool          // what still runs was asked to end
	verdict  error         // why the child was stopped; nil if it ended by itself
	stopAt   lock.Instant  // when leftovers are asked to end, once the child has ended
	killAt   lock.Instant  // when they are killed, once stopping
	killed   chan struct{} // nil until a kill begins, closed when it has finished

	interrupts    int // SIGINTs in a row
	lastInterrupt lock.Instant
}

// run returns when the tree of the command is gone and nothing renews the
// lease any more; with [LeaveLeftovers], when the command itself is gone.
func (s *supervisor) run(ctx context.Context) (proc.Status, error) {
	var stopKeeping func()
	s.keeper, stopKeeping = keep(ctx, s.lease, s.opts.Log)
	defer stopKeeping()
	s.renewed = make(chan error, 1)
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	defer s.resumes.Wait()
	defer stopRenewing()
	if s.opts.Timeout > 0 {
		timer := time.NewTimer(s.opts.Timeout)
		defer timer.Stop()
		s.timeout = timer.C
	}

	exited, cancelled := s.process.Exited(), ctx.Done()
	for {
		// A child that has ended is not stopped for anything.
		select {
		case <-exited:
			exited = nil
			s.childEnded()
		default:
		}
		if s.ended && s.opts.Leftovers == LeaveLeftovers && s.killed == nil {
			s.process.LetLeftoversLive()
			return s.process.Status(), s.verdict
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
		case <-s.lease.Extended():
			s.opts.Observe(Event{Kind: Extended, SafeEnd: s.lease.SafeEnd()})
		case sig := <-s.process.Stops():
			s.childStopped(sig)
		case err := <-s.renewed:
			s.resume(err)
		case <-s.timeout:
			s.timeout = nil
			s.stop(ErrTimeout)
		case <-cancelled:
			cancelled = nil
			if !s.ended && s.verdict == nil {
				s.verdict = context.Cause(ctx)
			}
			s.kill()
		case sig, ok := <-s.opts.Signals:
			if !ok {
				s.opts.Signals = nil
				continue
			}
			s.watch() // once more: the machine may have slept while this waited
			s.forward(renewing, asSignal(sig))
		case <-time.After(s.untilNextLook()):
		}
	}
}

// stopTime is the instant at which a command must be asked to stop if its
// lease is not renewed before.
func stopTime(lease *lock.Lease, killAfter time.Duration) lock.Instant {
	return lease.SafeEnd().Add(-max(killAfter, KillMargin(lease.TTL())))
}

func (s *supervisor) killTime() lock.Instant {
	return s.lease.SafeEnd().Add(-KillMargin(s.lease.TTL()))
}

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
	case s.ended && s.opts.Leftovers == KillLeftovers:
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
// was stopped would run for an instant. Nor where a stopped child has lost its
// lock: another may have it.
func (s *supervisor) stop(reason error) {
	if s.stopping || s.killed != nil {
		return
	}
	if !s.ended || errors.Is(reason, ErrLost) { // leftovers count as the work: it was not done
		s.verdict = reason
	}
	s.stopping = true
	s.killAt = lock.Now().Add(s.opts.KillAfter)
	switch {
	case s.guarded() && lock.Now() >= s.killTime(), s.stopped && errors.Is(reason, ErrLost):
		s.kill()
	case s.ended:
		s.process.StopLeftovers(s.opts.StopSignal)
	default:
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
	if status.Unknown && s.verdict == nil {
		s.verdict = ErrStatusUnknown
	}
	s.opts.Observe(Event{Kind: Exited, Status: status})
	attrs := []any{
		"event", "exited", "lock", s.lease.Name(), "exit_code", status.Shell(), "ran_ms", lock.Now().Until(s.started).Milliseconds(),
	}
	if status.Signal != 0 {
		attrs = append(attrs, "signal", proc.SignalName(status.Signal))
	}
	s.opts.Log.Info("the command "+status.String(), attrs...)
	switch {
	case s.verdict != nil && s.opts.Leftovers == LeaveLeftovers:
		s.kill() // what was stopped is stopped as a whole
	case s.stopping:
		s.process.StopLeftovers(s.opts.StopSignal)
	default:
		s.stopAt = lock.Now().Add(s.opts.KillAfter)
	}
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

// childStopped notes that the child was stopped by sig, or continued.
func (s *supervisor) childStopped(sig syscall.Signal) {
	s.stopped = sig != sigCont
	if s.stopped {
		s.opts.Observe(Event{Kind: Stopped, Signal: sig})
	} else {
		s.opts.Observe(Event{Kind: Continued})
	}
}

// forward passes a signal on to the child.
func (s *supervisor) forward(ctx context.Context, sig syscall.Signal) {
	if s.ended {
		// There is no child any more to pass it on to, only what it left.
		switch {
		case !proc.StopSignal(sig):
		case s.stopping:
			s.kill()
		default:
			s.stopLeftovers()
		}
		return
	}
	switch {
	case sig == sigCont:
		s.askToResume(ctx)
	case sig == syscall.SIGINT && s.hammered():
		s.opts.Log.Warn("interrupted three times: killing the command", "event", "killing", "lock", s.lease.Name())
		s.kill()
	case s.opts.SignalGroup:
		s.send(sig, s.process.SignalGroup)
	default:
		s.send(sig, s.process.Signal)
	}
}

func (s *supervisor) send(sig syscall.Signal, send func(syscall.Signal) error) {
	if err := send(sig); err != nil {
		s.opts.Log.Warn("could not pass on "+proc.SignalName(sig)+": "+err.Error(),
			"event", "forward_failed", "lock", s.lease.Name(), "signal", proc.SignalName(sig), "error", err.Error())
	}
}

// hammered counts SIGINTs, and reports whether somebody insists.
func (s *supervisor) hammered() bool {
	now := lock.Now()
	if s.lastInterrupt.Add(hammerPause) < now {
		s.interrupts = 0
	}
	s.interrupts++
	s.lastInterrupt = now
	return s.interrupts >= 3
}

const hammerPause = 2 * time.Second

// askToResume renews the lease before a stopped child runs on: it may have
// been stopped together with what watches over it, or with the machine.
func (s *supervisor) askToResume(ctx context.Context) {
	s.resumes.Go(func() {
		err := s.lease.Renew(ctx)
		select {
		case s.renewed <- err:
		default: // another answer is waiting to be seen, and as good
		}
	})
}

// resume continues the child, unless its lock turned out to be lost. When that
// could not be learned, the lease as it stands decides.
func (s *supervisor) resume(err error) {
	switch {
	case s.ended || s.killed != nil:
	case errors.Is(err, ErrLost) && s.guarded():
		s.lost(err)
	default:
		// All that was stopped by the terminal, or by a shell, was so as a group.
		s.send(sigCont, s.process.SignalGroup)
	}
}

// asSignal returns the signal's number; a signal that has none here is the
// keyboard's.
func asSignal(sig os.Signal) syscall.Signal {
	if number, ok := sig.(syscall.Signal); ok {
		return number
	}
	return syscall.SIGINT
}
