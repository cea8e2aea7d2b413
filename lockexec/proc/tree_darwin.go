package proc

import "golang.org/x/sys/unix"

// descendants lists the children of a process, theirs, and so on, from one
// look at all processes.
func descendants(pid int) []int {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	children := make(map[int][]int)
	for i := range all {
		parent := int(all[i].Eproc.Ppid)
		children[parent] = append(children[parent], int(all[i].Proc.P_pid))
	}
	var found []int
	for next := children[pid]; len(next) > 0; next = next[1:] {
		found = append(found, next[0])
		next = append(next, children[next[0]]...)
	}
	return found
}
