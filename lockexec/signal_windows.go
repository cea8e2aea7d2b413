package lockexec

import "syscall"

// sigCont has no like on Windows.
const sigCont = syscall.Signal(-1)
