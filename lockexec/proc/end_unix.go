//go:build unix && !linux

package proc

// awaitEnd: only Linux tells by a descriptor.
func (p *Process) awaitEnd() <-chan struct{} { return nil }
