//go:build unix

package guard

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/redlockrun/redlockrun/lockexec/embedded"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// guard is a supervisor that was started, or why it could not be.
type guard struct {
	link         *link
	supervisor   *proc.Process
	oneProcessor bool // see newSupervisor
	err          error

	traces func() // undoes what launch did about them
}

// processors is the variable that says on how many processors a Go program runs
// at a time.
const processors = "GOMAXPROCS"

// launch also has QUIT and ABRT end this process without a trace of the runtime,
// until it is ready to pass them on: a password may come from a slow pipe.
func launch() guard {
	traces := proc.DieWithoutTraces()
	g := newSupervisor()
	g.traces = traces
	return g
}

func newSupervisor() guard {
	exe, err := executable()
	if err != nil {
		return guard{err: err}
	}
	ours, theirs, err := newSockets()
	if err != nil {
		return guard{err: err}
	}
	defer unix.Close(theirs)
	// The supervisor waits for one thing after the other: it would lose more by
	// waking threads than it gains by having them. The command gets the
	// variable as it was: see settings.
	env := os.Environ()
	_, given := os.LookupEnv(processors)
	if !given {
		env = append(env, processors+"=1")
	}
	supervisor, err := proc.Start(proc.Command{
		Path:     exe,
		Args:     []string{filepath.Base(os.Args[0]), roleSupervise, strconv.Itoa(theirs)},
		Env:      env,
		Spare:    embedded.IsServer,
		Survives: true,
	})
	if err != nil {
		_ = unix.Close(ours)
		return guard{err: err}
	}
	link, err := newLink(ours)
	return guard{link: link, supervisor: supervisor, oneProcessor: !given, err: err}
}

func (g guard) close() {
	if g.supervisor != nil {
		_ = g.supervisor.Signal(unix.SIGKILL) // it has nothing to lose
		<-g.supervisor.Exited()
		g.link.close()
	}
}
