package proc_test

import (
	"testing"

	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// A signal that was understood has a name by which it is understood again.
func FuzzParseSignal(f *testing.F) {
	for _, name := range []string{"TERM", "sigint", "9", "0", "-1", "64", "RTMIN", "rtmin+1", "RTMAX-2", "RTMIN+", "RTMAX-99", "SIG", "", "15 ", "+15", "0x9"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		sig, err := proc.ParseSignal(name)
		if err != nil {
			return
		}
		if again, err := proc.ParseSignal(proc.SignalName(sig)); sig <= 0 || again != sig || err != nil {
			t.Errorf("%q is %d, and its name %q is %d (%v)", name, sig, proc.SignalName(sig), again, err)
		}
	})
}
