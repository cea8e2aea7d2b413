//go:build unix && !linux

package guard

import "os"

func executable() (string, error) { return os.Executable() }

// continueWhenOrphaned: only Linux tells of a parent's death by a signal.
func continueWhenOrphaned() {}
