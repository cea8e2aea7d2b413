package guard

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/connect"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// protocolVersion begins every message. The supervisor is of the same file as the
// wrapper, but for an upgrade in that very moment.
const protocolVersion = "2"

// kind is what a message says.
type kind string

// From the wrapper: first the settings, then signals. From the supervisor: the
// rest, each when it happened.
const (
	settingsMessage kind = "settings"
	signalMessage   kind = "signal"

	heardMessage     kind = "heard"     // a signal was taken
	leaseMessage     kind = "lease"     // acquired or renewed: SafeEnd
	startedMessage   kind = "started"   // PID
	stoppedMessage   kind = "stopped"   // the command, as a job is: Signal
	continuedMessage kind = "continued" // the command
	exitedMessage    kind = "exited"    // the command alone: Status
	goneMessage      kind = "gone"      // and all that it started: Outcome
	finishedMessage  kind = "finished"  // the lock is released, if it was held: Outcome
)

// message is what goes over the socket, in one line: see [encode]. Of the fields
// after the kind it has those that belong to it.
type message struct {
	Kind     kind
	Settings *settings
	Signal   syscall.Signal
	SafeEnd  lock.Instant
	PID      int
	Status   proc.Status
	Outcome  *outcome
}

// settings are all that the supervisor must know. Secrets travel in them, so
// that they are in no argument and no variable.
type settings struct {
	Target connect.Target

	Name           string
	Token          string
	Command        []string
	Capacity       lock.Capacity
	Replicas       int
	Wait           time.Duration
	Once           string
	OnceTTL        time.Duration
	MinHold        time.Duration
	History        int
	TTL            time.Duration
	ConnectTimeout time.Duration
	Timeout        time.Duration
	KillAfter      time.Duration
	StopSignal     syscall.Signal
	OnLost         lockexec.OnLost
	Leftovers      lockexec.Leftovers
	Label          string
	ShowArgs       bool
	SignalGroup    bool

	PID          int    // of the wrapper
	Group        int    // that the command joins, 0 for one of its own
	Terminal     bool   // the command's group gets the terminal
	Cgroup       string // to be made for the command; "" where none may be made
	OneProcessor bool   // processors is set in the supervisor's environment, not in the command's
	Voice        VoiceSettings
}

func newSettings(opts Options, token string) *settings {
	run := opts.Run
	s := &settings{
		Target: opts.Target,

		Name:           run.Name,
		Token:          token,
		Command:        run.Command,
		Capacity:       run.Capacity,
		Replicas:       run.Replicas,
		Wait:           run.Wait,
		Once:           run.Once,
		OnceTTL:        run.OnceTTL,
		MinHold:        run.MinHold,
		History:        run.History,
		TTL:            run.TTL,
		ConnectTimeout: run.ConnectTimeout,
		Timeout:        run.Timeout,
		KillAfter:      run.KillAfter,
		StopSignal:     run.StopSignal,
		OnLost:         run.OnLost,
		Leftovers:      run.Leftovers,
		Label:          run.Label,
		ShowArgs:       run.ShowArgs,
		SignalGroup:    run.SignalGroup,

		Voice: opts.Voice,
	}
	return s
}

// options are those of lockexec.Run, as far as they were sent.
func (s *settings) options() lockexec.Options {
	opts := lockexec.Options{
		Name:           s.Name,
		Token:          s.Token,
		Command:        s.Command,
		Capacity:       s.Capacity,
		Replicas:       s.Replicas,
		Wait:           s.Wait,
		Once:           s.Once,
		OnceTTL:        s.OnceTTL,
		MinHold:        s.MinHold,
		History:        s.History,
		TTL:            s.TTL,
		ConnectTimeout: s.ConnectTimeout,
		Timeout:        s.Timeout,
		KillAfter:      s.KillAfter,
		StopSignal:     s.StopSignal,
		OnLost:         s.OnLost,
		Leftovers:      s.Leftovers,
		Label:          s.Label,
		ShowArgs:       s.ShowArgs,
		SignalGroup:    s.SignalGroup,
		PID:            s.PID,
		Group:          s.Group,
		Cgroup:         s.Cgroup,
	}
	return opts
}

// outcome is what lockexec.Run returned, in a form that travels. At most one
// field beside Status is set.
type outcome struct {
	Status      proc.Status
	Held        *lock.HeldError
	Lost        *lostOutcome
	Server      *serverOutcome
	Start       *startOutcome
	Interrupted syscall.Signal
	Done        bool
	Capacity    *lock.CapacityError
	Timeout     bool
	Unavailable string
	Other       string
}

type lostOutcome struct {
	Name   string
	Reason lock.LossReason
	Cause  string
}

type serverOutcome struct {
	Op, Name, Place string
	Fault           lock.Fault
	Text            string
}

type startOutcome struct {
	Command string
	Kind    startKind
	Text    string
}

type startKind int

const (
	otherStart startKind = iota
	notFound
	notExecutable
)

func newOutcome(status proc.Status, err error) *outcome {
	o := &outcome{Status: status}
	if err == nil {
		return o
	}
	// The kinds exclude each other, and this asks for the outermost first.
	if interrupted, ok := errors.AsType[*lockexec.InterruptedError](err); ok {
		o.Interrupted = interrupted.Signal
	} else if lost, ok := errors.AsType[*lock.LostError](err); ok {
		o.Lost = &lostOutcome{Name: lost.Name, Reason: lost.Reason}
		if lost.Cause != nil {
			o.Lost.Cause = lost.Cause.Error()
		}
	} else if held, ok := errors.AsType[*lock.HeldError](err); ok {
		o.Held = held
	} else if server, ok := errors.AsType[*lock.ServerError](err); ok {
		o.Server = &serverOutcome{server.Op, server.Name, server.Place, server.Fault, server.Err.Error()}
	} else if start, ok := errors.AsType[*proc.StartError](err); ok {
		o.Start = &startOutcome{start.Command, otherStart, start.Err.Error()}
		switch {
		case errors.Is(err, proc.ErrNotFound):
			o.Start.Kind = notFound
		case errors.Is(err, proc.ErrNotExecutable):
			o.Start.Kind = notExecutable
		}
	} else if capacity, ok := errors.AsType[*lock.CapacityError](err); ok {
		o.Capacity = capacity
	} else if errors.Is(err, lock.ErrDone) {
		o.Done = true
	} else if errors.Is(err, lockexec.ErrTimeout) {
		o.Timeout = true
	} else if errors.Is(err, lock.ErrUnavailable) {
		o.Unavailable = err.Error()
	} else {
		o.Other = err.Error()
	}
	return o
}

// result is the reverse of newOutcome.
func (o *outcome) result() (proc.Status, error) {
	switch {
	case o.Interrupted != 0:
		return o.Status, &lockexec.InterruptedError{Signal: o.Interrupted}
	case o.Lost != nil:
		lost := &lock.LostError{Name: o.Lost.Name, Reason: o.Lost.Reason}
		if o.Lost.Cause != "" {
			lost.Cause = errors.New(o.Lost.Cause)
		}
		return o.Status, lost
	case o.Held != nil:
		return o.Status, o.Held
	case o.Server != nil:
		return o.Status, &lock.ServerError{
			Op: o.Server.Op, Name: o.Server.Name, Place: o.Server.Place, Fault: o.Server.Fault, Err: errors.New(o.Server.Text),
		}
	case o.Start != nil:
		kinds := map[startKind]error{notFound: proc.ErrNotFound, notExecutable: proc.ErrNotExecutable}
		return o.Status, &proc.StartError{Command: o.Start.Command, Kind: kinds[o.Start.Kind], Err: errors.New(o.Start.Text)}
	case o.Capacity != nil:
		return o.Status, o.Capacity
	case o.Done:
		return o.Status, lock.ErrDone
	case o.Timeout:
		return o.Status, lockexec.ErrTimeout
	case o.Unavailable != "":
		return o.Status, &remoteError{o.Unavailable, lock.ErrUnavailable}
	case o.Other != "":
		return o.Status, &remoteError{o.Other, nil}
	default:
		return o.Status, nil
	}
}

// remoteError is an error of the other process, of which text and kind are
// left.
type remoteError struct {
	text string
	kind error
}

func (e *remoteError) Error() string        { return e.text }
func (e *remoteError) Is(target error) bool { return e.kind != nil && target == e.kind }

// encode writes a message as a line: the version, and the words of plain.go.
func encode(m message) []byte {
	return append(appendPlain([]byte(protocolVersion), reflect.ValueOf(m)), '\n')
}

// errVersion is a message of another version of this program.
var errVersion = errors.New("the program was replaced by another version just now: start it again")

// decode reads what encode wrote, without the line's end.
func decode(line []byte) (message, error) {
	version, words, _ := strings.Cut(string(line), " ")
	if version != protocolVersion {
		return message{}, errVersion
	}
	var m message
	if err := parsePlain(" "+words, reflect.ValueOf(&m).Elem()); err != nil {
		return message{}, fmt.Errorf("a message that makes no sense: %w", err)
	}
	return m, nil
}
