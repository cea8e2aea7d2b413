//go:build !linux

package proc

// Only Linux has cgroups.

func delegatedCgroup() string                      { return "" }
func killCgroup(string, func(pid int) bool)        {}
func removeCgroup(string, func(pid int) bool, int) {}
