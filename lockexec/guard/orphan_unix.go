//go:build unix && !linux

package guard

// continueWhenOrphaned: only Linux tells of a parent's death by a signal.
func continueWhenOrphaned() {}
