package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// journal keeps the state file ahead of the replies: commit returns nil only when every effect that a client may have
// seen by then is in the file. Savers that come together share one save.
type journal struct {
	folder *os.Root
	copy   func() []byte // the state as it is; called while no command runs that may change it

	// gate is held for reading by each command that may write while it runs, and for writing while the state is copied.
	gate   sync.RWMutex
	closed bool // guarded by gate; no more commands that may write

	begun atomic.Int64 // commands that may write, counted before they do
	saved atomic.Int64 // how many of them the file covers

	saving sync.Mutex // one save at a time; guards the rest
	last   []byte     // what is in the file
	sealed bool       // the file is another server's now
}

// run runs a command that may write and does not block. It returns false, without running it, when the journal was
// closed.
func (j *journal) run(command func()) bool {
	j.gate.RLock()
	defer j.gate.RUnlock()
	if j.closed {
		return false
	}
	j.begun.Add(1)
	command()
	return true
}

// runBlocking runs a command that may wait for others and at its end changes one key at most. Another client may see
// that change a moment before it is in the file.
func (j *journal) runBlocking(command func()) {
	command()
	j.begun.Add(1)
}

// closeIf closes the journal if may, called while no command runs that may write, says so.
func (j *journal) closeIf(may func() bool) bool {
	j.gate.Lock()
	defer j.gate.Unlock()
	if may() {
		j.closed = true
	}
	return j.closed
}

// errSealed says that nothing can be changed any more, as the server ends.
var errSealed = errors.New("the server has ended")

// seal saves what is not in the file and lets nothing be saved after that.
func (j *journal) seal() {
	_ = j.commit() // what could not be saved, no client was told
	j.saving.Lock()
	defer j.saving.Unlock()
	j.sealed = true
}

// commit saves the state unless the file holds it. A command counts before it runs and commit waits for those that
// run, so that a client which saw an effect of another's unfinished command waits for it too.
func (j *journal) commit() error {
	need := j.begun.Load()
	if j.saved.Load() >= need {
		return nil
	}
	j.saving.Lock()
	defer j.saving.Unlock()
	if j.saved.Load() >= need {
		return nil
	}
	if j.sealed {
		return errSealed
	}
	j.gate.Lock()
	covered, state := j.begun.Load(), j.copy()
	j.gate.Unlock()

	if !bytes.Equal(state, j.last) {
		if err := replaceFile(j.folder, stateName, newStateName, state); err != nil {
			return fmt.Errorf("saving the state of the locks in %s: %w", j.folder.Name(), err)
		}
		j.last = state
	}
	j.saved.Store(covered)
	return nil
}

// replaceFile puts data in the place of a file by a rename: a process killed at any instant leaves the old file or the
// new one. It does not sync, as a host that crashes ends all holders of locks too.
func replaceFile(folder *os.Root, name, newName string, data []byte) error {
	err := folder.WriteFile(newName, data, 0o600)
	if err == nil {
		err = folder.Rename(newName, name)
	}
	if err != nil {
		_ = folder.Remove(newName)
	}
	return err
}
