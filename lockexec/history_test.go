package lockexec_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

func TestHowRunsEnd(t *testing.T) {
	for want, run := range map[lock.How]struct {
		status proc.Status
		err    error
	}{
		lock.Exited:      {proc.Status{Code: 3}, nil},
		lock.Signaled:    {proc.Status{Signal: 9}, nil},
		lock.TimedOut:    {proc.Status{Signal: 15}, lockexec.ErrTimeout},
		lock.Lost:        {proc.Status{Signal: 15}, &lock.LostError{Reason: lock.LossExpired}},
		lock.Revoked:     {proc.Status{Signal: 15}, &lock.LostError{Reason: lock.LossRevoked}},
		lock.NotStarted:  {proc.Status{}, &proc.StartError{Command: "c", Err: errors.New("no")}},
		lock.Interrupted: {proc.Status{}, &lockexec.InterruptedError{Signal: 15}},
		lock.Killed:      {proc.Status{Signal: 9}, context.Canceled},
		lock.Failed:      {proc.Status{}, errors.New("anything")},
	} {
		if got := lockexec.EndOf(run.status, run.err); got.How != want {
			t.Errorf("%v, %v: %q, want %q", run.status, run.err, got.How, want)
		}
	}
}
