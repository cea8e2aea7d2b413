package lockexec

import (
	"errors"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// EndOf puts what [Run] returns into the words of a history.
func EndOf(status proc.Status, err error) lock.End {
	var (
		interrupted *InterruptedError
		start       *proc.StartError
		lost        *lock.LostError
	)
	end := lock.End{Code: status.Code}
	if status.Signal != 0 {
		end.Signal = proc.SignalName(status.Signal)
	}
	switch {
	case err == nil && status.Signal != 0:
		end.How = lock.Signaled
	case err == nil:
		end.How = lock.Exited
	case errors.Is(err, ErrTimeout):
		end.How = lock.TimedOut
	case errors.As(err, &lost):
		end.How, end.Reason = lock.Lost, lost.Reason.String()
		if lost.Reason == lock.LossRevoked {
			end.How = lock.Revoked
		}
	case errors.As(err, &interrupted):
		end.How, end.Signal = lock.Interrupted, proc.SignalName(interrupted.Signal)
	case errors.As(err, &start):
		end.How, end.Reason = lock.NotStarted, start.Error()
	default:
		end.How, end.Reason = lock.Killed, err.Error()
		if status == (proc.Status{}) || status.Unknown {
			end.How = lock.Failed
		}
	}
	return end
}

// briefly rounds a time span for people.
func briefly(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
