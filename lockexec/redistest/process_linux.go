package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// endWithParent has the kernel kill the command when the thread that starts it ends.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// stop sends SIGSTOP and waits until the process is in the state "stopped": a signal takes its time to arrive.
func stop(p *process) error {
	if err := p.os.Signal(syscall.SIGSTOP); err != nil {
		return errors.Join(errNotRunning, err)
	}
	return poll(func() (bool, error) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.os.Pid))
		if err != nil {
			return false, errors.Join(errNotRunning, err)
		}
		// The state follows the command's name, which is in parentheses and may hold any character.
		state := stat[bytes.LastIndexByte(stat, ')')+1:]
		return bytes.HasPrefix(state, []byte(" T")), nil
	})
}
