package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/connect"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// protocolVersion goes with the settings. The supervisor is of the same file
// as the wrapper, but for an upgrade in that very moment.
const protocolVersion = 1

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

// message is what goes over the socket, in one line: see [encode].
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
	Version int
	Target  connect.Target

	Name           string
	Token          string
	Command        [][]byte // not text: arguments may be any bytes
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
	Cgroup       string // the name of one for the command, where that may be made
	OneProcessor bool   // processors is set in the supervisor's environment, not in the command's
	Voice        VoiceSettings
}

func newSettings(opts Options, token string) *settings {
	run := opts.Run
	s := &settings{
		Version: protocolVersion,
		Target:  opts.Target,

		Name:           run.Name,
		Token:          token,
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
	for _, arg := range run.Command {
		s.Command = append(s.Command, []byte(arg))
	}
	return s
}

// options are those of lockexec.Run, as far as they were sent.
func (s *settings) options() lockexec.Options {
	opts := lockexec.Options{
		Name:           s.Name,
		Token:          s.Token,
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
	}
	for _, arg := range s.Command {
		opts.Command = append(opts.Command, string(arg))
	}
	return opts
}

// outcome is what lockexec.Run returned, in a form that travels. At most one
// field beside Status is set.
type outcome struct {
	Status      proc.Status         `json:",omitzero"`
	Held        *lock.HeldError     `json:",omitempty"`
	Lost        *lostOutcome        `json:",omitempty"`
	Server      *serverOutcome      `json:",omitempty"`
	Start       *startOutcome       `json:",omitempty"`
	Interrupted syscall.Signal      `json:",omitempty"`
	Done        bool                `json:",omitempty"`
	Capacity    *lock.CapacityError `json:",omitempty"`
	Timeout     bool                `json:",omitempty"`
	Unavailable string              `json:",omitempty"`
	Other       string              `json:",omitempty"`
}

type lostOutcome struct {
	Name   string
	Reason lock.LossReason
	Cause  string `json:",omitempty"`
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

// encode writes a line of the kind and what belongs to it: numbers, and JSON
// where it is more. A run that goes well needs JSON for the settings alone: its
// first use for a type costs as much as a trip to the server.
func encode(m message) ([]byte, error) {
	line := append([]byte(m.Kind), ' ')
	var err error
	switch m.Kind {
	case settingsMessage:
		line, err = appendJSON(line, m.Settings)
	case signalMessage, stoppedMessage:
		line = strconv.AppendInt(line, int64(m.Signal), 10)
	case leaseMessage:
		line = strconv.AppendInt(line, int64(m.SafeEnd), 10)
	case startedMessage:
		line = strconv.AppendInt(line, int64(m.PID), 10)
	case exitedMessage:
		line = appendStatus(line, m.Status)
	case goneMessage, finishedMessage:
		switch {
		case m.Outcome == nil:
		case *m.Outcome == outcome{Status: m.Outcome.Status}:
			line = appendStatus(line, m.Outcome.Status)
		default:
			line, err = appendJSON(line, m.Outcome)
		}
	case heardMessage, continuedMessage: // say it all
	}
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.Kind, err)
	}
	return append(line, '\n'), nil
}

func appendJSON(line []byte, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	return append(line, text...), err
}

func appendStatus(line []byte, status proc.Status) []byte {
	line = append(strconv.AppendInt(line, int64(status.Code), 10), ' ')
	return strconv.AppendInt(line, int64(status.Signal), 10)
}

// decode reads what encode wrote.
func decode(line []byte) (message, error) {
	word, rest, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	m := message{Kind: kind(word)}
	var number int64
	var err error
	switch m.Kind {
	case settingsMessage:
		err = json.Unmarshal(rest, &m.Settings)
	case signalMessage, stoppedMessage:
		number, err = strconv.ParseInt(string(rest), 10, 64)
		m.Signal = syscall.Signal(number)
	case leaseMessage:
		number, err = strconv.ParseInt(string(rest), 10, 64)
		m.SafeEnd = lock.Instant(number)
	case startedMessage:
		m.PID, err = strconv.Atoi(string(rest))
	case exitedMessage:
		m.Status, err = parseStatus(rest)
	case goneMessage, finishedMessage:
		switch {
		case len(rest) == 0:
		case rest[0] == '{':
			err = json.Unmarshal(rest, &m.Outcome)
		default:
			m.Outcome = &outcome{}
			m.Outcome.Status, err = parseStatus(rest)
		}
	case heardMessage, continuedMessage:
	default:
		err = fmt.Errorf("of an unknown kind: %.20q", word)
	}
	if err != nil {
		return message{}, fmt.Errorf("a message that makes no sense: %w", err)
	}
	return m, nil
}

func parseStatus(text []byte) (proc.Status, error) {
	code, sig, _ := bytes.Cut(text, []byte(" "))
	exit, codeErr := strconv.Atoi(string(code))
	number, sigErr := strconv.Atoi(string(sig))
	return proc.Status{Code: exit, Signal: syscall.Signal(number)}, errors.Join(codeErr, sigErr)
}
