//go:build unix && !linux && !darwin

package proc

// descendants is known on Linux and macOS only.
func descendants(int) []int { return nil }
