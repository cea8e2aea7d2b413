// Package proc starts a command, passes signals to it, and ends it together
// with everything it started.
//
// A [Process] has two ends: its own, after which [Process.Status] says how it
// ended, and that of its tree, when nothing that it started runs any more.
// Between the two are its leftovers: background jobs, daemons, the tee of a
// shell's process substitution.
//
// # What may be touched here
//
// Nothing here knows of locks, Redis or the command line. Documented functions
// stand in files without a platform suffix; what differs by platform is
// unexported and lives in the _linux, _unix and _windows files.
package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Command says what to start. The child gets the standard streams, working
// directory, umask, limits and further inherited descriptors of this process
// as they are.
type Command struct {
	Path string   // the file to run, as from [LookPath]
	Args []string // argv, the program's name first
	Env  []string // the whole environment

	// Group is the process group that the child joins; 0 makes it the first
	// member of a group of its own.
	Group int

	// Terminal, unless nil, gets the child's own group as its foreground, so
	// that the child can read from it and has the keyboard's signals.
	Terminal *Terminal

	// Unignored are signals that this process ignores for itself alone: the
	// child takes them as usual.
	Unignored []os.Signal

	// Thread, unless nil, forks the child. It must not end before that does.
	Thread *Thread

	// Survives lets the child outlive this process, however that dies.
	Survives bool

	// Adopt says that this process has no other children and may take over
	// whatever the child orphans (Linux: as a subreaper that waits for any
	// child). Only then daemons that left the child's group are seen and
	// killed too. A program with children of its own must leave it off: they
	// would be reaped, and killed, as the child's.
	Adopt bool

	// Cgroup, unless empty, is a directory to be made below that of
	// [DelegatedCgroup], under a name that nobody else uses. The child starts
	// in this cgroup, by which [Process.Kill] kills it and what it started at
	// one stroke, before it looks for what has left the cgroup. It is removed
	// when the tree is gone. Where it can't be made or joined, the child starts
	// without it.
	Cgroup string

	// Spare, unless nil, says which processes below this one are nobody's to
	// wait for or to kill, though they were adopted or started in the tree.
	Spare func(pid int) bool
}

// Status is how a process ended.
type Status struct {
	Code   int            // exit code, when Signal is 0
	Signal syscall.Signal // what it died of, or 0

	// Unknown: another part of this process waited for it, as one does that
	// waits for any child, and took its status. It has ended.
	Unknown bool
}

// Shell returns the status as a shell's $?: the exit code, or 128 plus the
// number of the signal.
func (s Status) Shell() int {
	switch {
	case s.Unknown:
		return unknownCode
	case s.Signal != 0:
		return 128 + int(s.Signal)
	}
	return s.Code
}

// unknownCode is no success, and no code that others give a meaning.
const unknownCode = 255

func (s Status) String() string {
	switch {
	case s.Unknown:
		return "has ended, nobody knows how"
	case s.Signal != 0:
		return "died of " + SignalName(s.Signal)
	}
	return fmt.Sprintf("exited with %d", s.Code)
}

// The ways in which a command can't be started, for errors.Is.
var (
	ErrNotFound      = errors.New("command not found")
	ErrNotExecutable = errors.New("command cannot be executed")
)

// StartError says which command could not be started and why. It is
// [ErrNotFound] or [ErrNotExecutable], or neither when the system is at fault
// (out of processes or memory).
type StartError struct {
	Command string
	Kind    error // may be nil
	Err     error
}

func (e *StartError) Error() string { return e.Command + ": " + e.Err.Error() }

// Is reports whether target is the error's kind.
func (e *StartError) Is(target error) bool { return e.Kind != nil && target == e.Kind }

func (e *StartError) Unwrap() error { return e.Err }

// LookPath finds the file that a shell would run for name: name itself when it
// has a slash, else the first executable of that name in the folders of PATH.
// An error is a [*StartError].
func LookPath(name string) (string, error) {
	if name == "" {
		return "", &StartError{Command: `""`, Kind: ErrNotFound, Err: errors.New("the command's name is empty")}
	}
	return lookPath(name)
}

// startError puts the error of an exec in its kind.
func startError(name string, err error) *StartError {
	var kind error
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		kind = ErrNotFound
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOEXEC),
		errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ELOOP), errors.Is(err, errBusyText),
		errors.Is(err, syscall.E2BIG):
		kind = ErrNotExecutable
	}
	return &StartError{Command: name, Kind: kind, Err: err}
}

// Start starts the command. It fails with a [*StartError].
//
// On Linux the child is killed when this process dies, however it dies, unless
// it Survives.
func Start(c Command) (*Process, error) { return start(c) }

// Thread is a thread of this process that forks. The kernel takes the end of
// the thread that forked a child for the death of its parent. To have one
// before it is needed saves the time that it takes to make it.
type Thread struct{ thread }

// NewThread makes a thread for [Command].
func NewThread() *Thread { return &Thread{newThread()} }

// End ends the thread. It must be called once.
func (t *Thread) End() { t.end() }

// Group returns the process group of this process.
func Group() int { return group() }

// DropInherited closes what this process was given and uses no more once its
// child has it too: standard input and output, and all that it inherited
// beyond standard error. Otherwise the reader of a pipe would see its end only
// when this process ends, not when the child does.
func DropInherited() { dropInherited() }

// KillOrphanedGroup kills the members of a process group whose first member
// was the child of a process that died, where this process could not adopt
// them.
func KillOrphanedGroup(group int) { killOrphanedGroup(group) }

// DelegatedCgroup returns the directory of this process's cgroup if that was
// delegated (a systemd unit with Delegate=yes), so that cgroups may be made
// below it; else "". Linux only.
func DelegatedCgroup() string { return delegatedCgroup() }

// KillCgroup kills all that is in the cgroup of a tree (see Command.Cgroup)
// whose parent died, but for those who are spared; the spared are moved out of
// it. It does nothing where there is none, and does not wait for the deaths.
func KillCgroup(dir string, spare func(pid int) bool) { killCgroup(dir, spare) }

// RemoveCgroup removes the cgroup of a tree that is gone, if the tree's own end
// has not. It waits up to a quarter of a second for who was killed in there and
// is still dying; a cgroup in which somebody lives stays.
func RemoveCgroup(dir string, spare func(pid int) bool) { removeCgroup(dir, spare, 250) }

// IsStopped reports whether a process is stopped, as a job is. It reports false
// where that can't be told.
func IsStopped(pid int) bool { return isStopped(pid) }

// IsContinued reports whether a process that was stopped runs again, or has
// ended. It reports false where that can't be told.
func IsContinued(pid int) bool { return isContinued(pid) }

// SetName sets the name by which ps and pkill know this process, where the
// system lets it.
func SetName(name string) { setName(name) }

// Ignored reports whether this process was told to ignore sig when it was
// started. It must be asked before anything is done about sig here, and knows
// of HUP, INT and the job control signals only: of all others the runtime
// forgets it.
func Ignored(sig syscall.Signal) bool { return ignored(sig) }

// JobSignals returns those by which a terminal or a shell stops and continues
// a job, TSTP and CONT, as far as this process was not told to ignore them.
func JobSignals() []os.Signal { return jobSignals() }

// DieWithoutTraces has QUIT and ABRT end this process as they end others: the Go
// runtime would print its goroutines, and exit with 2. A signal.Notify has no
// effect on the two until the function that it returns was called.
func DieWithoutTraces() (undo func()) { return dieWithoutTraces() }

// StopSelf does to this process what a job control signal does by default: it
// is stopped when StopSelf is called, and continued when that returns. The
// system does not stop it, though, where nobody is there to continue it: in a
// group that no shell looks after (an orphaned process group, by POSIX). A
// signal.Notify for sig has no effect meanwhile.
func StopSelf(sig syscall.Signal) { stopSelf(sig) }

// Forwardable returns the signals that a wrapper passes on to its child, less
// those that this process was told to ignore, as under nohup: a handler here
// would make the child take them. Not among them are signals about this
// process alone (CHLD, PIPE, URG and the like), the [JobSignals], and the
// [RareSignals].
func Forwardable() []os.Signal { return forwardable() }

// RareSignals returns more signals to be forwarded: the real-time signals, as
// far as the runtime leaves them to programs, and PWR. They are many, and to
// ask for one costs some 20 µs.
func RareSignals() []os.Signal { return rareSignals() }

// DeadlySignals returns those of the signals above that would end or stop a
// process which does not ask for them, less those that it ignores.
func DeadlySignals() []os.Signal {
	return slices.DeleteFunc(append(forwardable(), jobSignals()...), func(sig os.Signal) bool {
		return !deadlySignal(sig)
	})
}

// NeglectAlone has these signals do nothing to this process; those that it
// starts take them as usual. Nothing may ask package os/signal for them
// afterwards.
func NeglectAlone(signals []os.Signal) { neglectAlone(signals) }

// KeyboardSignal reports whether the terminal sends sig by itself to every
// process of its foreground group: a wrapper that shares the group with its
// child must not send it once more.
func KeyboardSignal(sig os.Signal) bool { return keyboardSignal(sig) }

// StopSignal reports whether sig asks a process to end.
func StopSignal(sig os.Signal) bool { return stopSignal(sig) }

// ParseSignal reads a signal's name, with or without SIG, in any case, or its
// number.
func ParseSignal(name string) (syscall.Signal, error) {
	if sig := signalNumber(strings.ToUpper(name)); sig != 0 {
		return sig, nil
	}
	return 0, fmt.Errorf("%q is no signal here: give a name like TERM, INT or USR1, or a number", name)
}

// SignalName returns the name of a signal, like SIGTERM.
func SignalName(sig syscall.Signal) string { return signalName(sig) }

// DieOf makes this process die of sig, as its child did, so that the caller's
// shell sees the same. It leaves no core of its own. It returns when the
// signal does nothing here: for process 1 of a PID namespace, and on Windows.
func DieOf(sig syscall.Signal) { dieOf(sig) }
