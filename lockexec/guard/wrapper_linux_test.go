package guard

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// The wrapper leaves the kill to the supervisor for as long as it can, but not
// to one that is stopped.
func TestAStoppedSupervisorIsNotLeftTheKill(t *testing.T) {
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	supervisor, err := proc.Start(proc.Command{Path: path, Args: []string{"sleep", "300"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(supervisor.Kill)
	const ttl = 10 * time.Second
	margin := lockexec.KillMargin(ttl)
	const safeEnd = lock.Instant(time.Hour)
	w := &wrapper{
		guard:   guard{supervisor: supervisor},
		opts:    Options{Run: lockexec.Options{TTL: ttl}},
		safeEnd: safeEnd,
	}
	for _, left := range []struct {
		time            time.Duration
		runs, isStopped bool // what is to be if the supervisor runs, and if it is stopped
	}{
		{ttl, false, false},
		{2*margin + time.Millisecond, false, false},
		{2 * margin, false, true},
		{margin/2 + time.Millisecond, false, true},
		{margin / 2, true, true},
		{-time.Second, true, true},
	} {
		now := safeEnd.Add(-left.time)
		if got := w.overdue(now); got != left.runs {
			t.Errorf("%v before the end, with a supervisor that runs: %t", left.time, got)
		}
		_ = supervisor.Signal(unix.SIGSTOP)
		stopped := func() bool { return proc.IsStopped(supervisor.Pid()) }
		for deadline := time.Now().Add(time.Minute); !stopped() && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		if got := w.overdue(now); got != left.isStopped {
			t.Errorf("%v before the end, with a supervisor that is stopped: %t", left.time, got)
		}
		_ = supervisor.Signal(unix.SIGCONT)
		for deadline := time.Now().Add(time.Minute); stopped() && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		if next := w.overdueNext(now); left.time > margin/2 && (next <= now || next > safeEnd.Add(-margin/2)) {
			t.Errorf("%v before the end, the next look is %v before it", left.time, safeEnd.Until(next))
		}
	}
}
