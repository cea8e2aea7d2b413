//go:build unix

package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/embedded"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// errWrapperDied is why a run is cut short.
var errWrapperDied = errors.New("the process that was started by the user is gone")

// supervisor is the process that holds the lock and has the command as its
// child.
type supervisor struct {
	link    *link
	wrapper int // its process ID
	signals chan os.Signal
	cancel  context.CancelCauseFunc

	unignored []os.Signal // see proc.Command

	// CONTs cross between wrapper and command. resuming counts those that were
	// passed on to the command and not yet heard of; echo is set while the
	// wrapper is about to pass on one that this process had sent to it.
	resuming, echo chan struct{}

	stopTold atomic.Bool // the wrapper may stop itself for it
	standing atomic.Bool // the command is stopped, by what was heard of it last
}

// supervise is the supervisor's main function. args are what the wrapper gave
// it: the descriptor of the socket.
func supervise(args []string, newVoice VoiceMaker) error {
	// Another name for ps, and for pkill, which shall reach the wrapper alone.
	proc.SetName("rlr-supervisor")
	if len(args) != 1 {
		return errors.New("this process is started by redlockrun itself, not by hand")
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("%q is no descriptor", args[0])
	}
	unix.CloseOnExec(fd)
	wrapper := os.Getppid()
	continueWhenOrphaned()
	link, err := newLink(fd)
	if err != nil {
		return err
	}
	defer link.close()

	s := &supervisor{
		link:     link,
		wrapper:  wrapper,
		signals:  make(chan os.Signal, 64),
		resuming: make(chan struct{}, 64),
		echo:     make(chan struct{}, 1),
	}
	s.becomeDeaf()
	outliveReader()

	settings, rest, err := receiveSettings(link)
	if settings == nil || err != nil {
		return err
	}
	s.take(rest)
	status, err := s.run(settings, newVoice(settings.Voice))
	link.send(message{Kind: finishedMessage, Outcome: newOutcome(status, err)})
	link.flush(tellPause)
	s.continueWrapper() // whatever it seems to do: a STOP may be on its way to it
	if s.stopTold.Load() {
		s.continueInformed() // and it may be about to stop itself
	}
	link.flush(patience)
	return nil
}

// receiveSettings returns the settings, and what came with them; or nil when the
// wrapper has changed its mind.
func receiveSettings(l *link) (*settings, []message, error) {
	for {
		<-l.ready
		messages, err := l.receive()
		if len(messages) > 0 {
			settings := messages[0].Settings
			if settings == nil {
				return nil, nil, fmt.Errorf("the wrapper said %q, not what to do", messages[0].Kind)
			}
			return settings, messages[1:], nil
		}
		if errors.Is(err, errVersion) {
			return nil, nil, err
		}
		if err != nil {
			return nil, nil, nil //nolint:nilerr // the wrapper is gone, and nothing was begun
		}
	}
}

// becomeDeaf has signals do nothing: see signals.go.
//
// A write to a terminal is tried again and again for a handler of TTOU: where
// there is one, these signals are ignored. But then they are the command's to
// be given back, just when it is waited for.
func (s *supervisor) becomeDeaf() {
	proc.NeglectAlone(proc.DeadlySignals())
	terminal, ok := proc.OpenTerminal()
	if !ok {
		proc.NeglectAlone(terminalStops())
		return
	}
	terminal.Close()
	if s.unignored = terminalStops(); len(s.unignored) > 0 { // none would be all
		signal.Ignore(s.unignored...)
	}
}

// outliveReader has a write to a standard error that nobody reads any more fail
// instead of ending this process: it does so under any other number, says the
// documentation of package os/signal.
func outliveReader() {
	if fd, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 3); err == nil {
		os.Stderr = os.NewFile(uintptr(fd), os.Stderr.Name())
	}
}

func (s *supervisor) run(settings *settings, voice Voice) (proc.Status, error) {
	if settings.OneProcessor {
		_ = os.Unsetenv(processors)
	}
	locker, connections, err := settings.Target.Open()
	if err != nil {
		return proc.Status{}, err
	}
	defer connections.Close()
	opts := settings.options()
	opts.Signals = s.signals
	opts.Unignored = s.unignored
	opts.Adopt = true
	opts.Spare = embedded.IsServer
	if opts.Cgroup != "" && opts.Leftovers != lockexec.LeaveLeftovers {
		defer proc.RemoveCgroup(opts.Cgroup, embedded.IsServer)
	}
	waitEnded := voice.WaitEnded
	if waitEnded == nil {
		waitEnded = func() {}
	}
	defer waitEnded()
	opts.Observe = func(e lockexec.Event) {
		if e.Kind == lockexec.Acquired {
			waitEnded()
		}
		s.tell(e)
	}
	opts.Log = voice.Log
	opts.OnWait = voice.OnWait
	if settings.Terminal {
		opts.Terminal, _ = proc.OpenTerminal()
	}

	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s.cancel = cancel
	go s.listen()
	return lockexec.Run(ctx, locker, opts)
}

// listen takes the wrapper's signals, and its death.
func (s *supervisor) listen() {
	for range s.link.ready {
		messages, err := s.link.receive()
		s.take(messages)
		if err != nil {
			s.cancel(errWrapperDied)
			return
		}
	}
}

// take passes on signals to the run.
func (s *supervisor) take(messages []message) {
	for _, m := range messages {
		if m.Kind != signalMessage {
			continue
		}
		s.link.send(message{Kind: heardMessage})
		if m.Signal == unix.SIGCONT && !s.passOnCont() {
			continue
		}
		select {
		case s.signals <- m.Signal:
		default: // nobody has taken the last 64 of them
		}
	}
}

// tell passes on to the wrapper what happens in the run.
func (s *supervisor) tell(e lockexec.Event) {
	switch e.Kind {
	case lockexec.Acquired:
		// Before the command is started: the wrapper must know the end of the
		// lease, whatever happens to this process.
		s.link.send(message{Kind: leaseMessage, SafeEnd: e.SafeEnd})
		s.link.flush(time.Second)
	case lockexec.Extended:
		s.link.send(message{Kind: leaseMessage, SafeEnd: e.SafeEnd})
	case lockexec.Started:
		proc.DropInherited()
		s.link.send(message{Kind: startedMessage, PID: e.PID})
	case lockexec.Stopped:
		s.stopTold.Store(true)
		s.standing.Store(true)
		forget(s.resuming)
		forget(s.echo)
		s.link.send(message{Kind: stoppedMessage, Signal: e.Signal})
	case lockexec.Continued:
		s.standing.Store(false)
		s.link.send(message{Kind: continuedMessage})
		s.wasContinued()
	case lockexec.Exited:
		s.standing.Store(false)
		s.link.send(message{Kind: exitedMessage, Status: e.Status})
		go s.continueInformed()
	case lockexec.Gone:
		s.link.send(message{Kind: goneMessage, Outcome: newOutcome(e.Status, e.Err)})
	}
}

// passOnCont reports whether the command is to get a CONT of the wrapper: not
// if that has it from here. But to a command that was stopped once more while
// the CONT was on its way: else it would be stopped, and the wrapper not.
func (s *supervisor) passOnCont() bool {
	select {
	case <-s.echo:
		if !s.standing.Load() {
			return false
		}
	default:
	}
	select {
	case s.resuming <- struct{}{}:
	default:
	}
	return true
}

func forget(marks chan struct{}) {
	for len(marks) > 0 {
		<-marks
	}
}

// wasContinued continues the wrapper with a command that was continued by
// others.
func (s *supervisor) wasContinued() {
	select {
	case <-s.resuming:
		return
	default:
	}
	go s.continueInformed()
}

// tellPause is how long the wrapper may take to be told, and to be continued.
const tellPause = 100 * time.Millisecond

// continueInformed continues the wrapper once it can read why: else it would
// see an older message, stop itself for that, and nobody would continue it. One
// that was about to stop itself just then is continued once more; but not one
// whose command was stopped again meanwhile.
func (s *supervisor) continueInformed() {
	s.link.flush(tellPause)
	for range 3 {
		if s.standing.Load() || !s.wrapperMayStand() {
			return
		}
		select {
		case s.echo <- struct{}{}:
		default:
		}
		s.continueWrapper()
		time.Sleep(tellPause)
		if !proc.IsStopped(s.wrapper) {
			return
		}
	}
}

// wrapperMayStand reports whether the wrapper is stopped, or about to stop itself
// as the command was. All others need no signal, which costs a short run time,
// but for the last one.
func (s *supervisor) wrapperMayStand() bool {
	return s.stopTold.Load() || proc.IsStopped(s.wrapper)
}

// continueWrapper lets the wrapper see what has become of the command, should
// it be stopped.
func (s *supervisor) continueWrapper() {
	if os.Getppid() == s.wrapper { // else the number may be another's by now
		_ = unix.Kill(s.wrapper, unix.SIGCONT)
	}
}
