//go:build unix && !linux

package proc

import (
	"os"
	"syscall"
)

// rareSignals: only Linux has them.
func rareSignals() []os.Signal { return nil }

func realTimeName(syscall.Signal) string   { return "" }
func realTimeNumber(string) syscall.Signal { return 0 }
