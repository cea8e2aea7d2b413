//go:build unix

package lockexec

import "syscall"

const sigCont = syscall.SIGCONT
