package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/connect"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// Exit codes. Those below 80 are of sysexits.h where it has one that fits,
// those from 124 on are what timeout, env and the shells use.
const (
	exitUsage         = 64
	exitUnavailable   = 69
	exitBusy          = 75
	exitConfig        = 78
	exitLost          = 79
	exitTimeout       = 124
	exitFault         = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

// exitCodes are told by "help exit-codes", in this order.
var exitCodes = []struct{ code, meaning string }{
	{"the command's", "it ran and ended by itself, also on a signal that was passed on to it"},
	{"128+N", "the command died of signal N: redlockrun dies of the same signal (as process 1 of a container it exits with 128+N)"},
	{"64", "wrong usage: an unknown flag, a bad value, no command"},
	{"69", "Redis is unavailable, refused, or did not permit it; the command was not started"},
	{"75", "busy: another holds the lock, or the wait for it ran out; the command was not started (-E chooses another code)"},
	{"78", "bad configuration: a value in the environment or in a file"},
	{"79", "the lock was lost, and the command was stopped for it; renew, release: it is not held with that token"},
	{"124", "the command ran for longer than --timeout and was stopped"},
	{"125", "a fault of redlockrun itself"},
	{"126", "the command was found but cannot be executed"},
	{"127", "the command was not found"},
}

// ending is how a call ends: with a code, or by a signal, and with one last
// line unless text is empty.
type ending struct {
	code   int
	signal syscall.Signal // to die of, instead of code, where that is possible

	level slog.Level
	event string
	text  string
	attrs []any
}

func (e *ending) report(log *slog.Logger) {
	if e.text != "" {
		attrs := append([]any{"event", e.event, "exit_code", e.code}, e.attrs...)
		log.Log(context.Background(), e.level, e.text, attrs...)
	}
}

// reportWithin is report, given up after that time: a pipe that nobody reads
// from must not keep this process from ending.
func (e *ending) reportWithin(patience time.Duration, log *slog.Logger) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.report(log)
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

// usageError is a call that can't be meant as it stands.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usageErrorf(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// childEnding carries the end of a child through cobra, which knows errors
// only.
type childEnding struct{ status proc.Status }

func (e *childEnding) Error() string { return "the command " + e.status.String() }

// busyError is a lock that another holds, with the code that the user wants
// for it.
type busyError struct {
	held *lock.HeldError
	code int
	wait time.Duration // how long it was waited for
}

func (e *busyError) Error() string { return e.held.Error() }
func (e *busyError) Unwrap() error { return e.held }

// byTokenError is what came of a lock that is not held for one command.
type byTokenError struct{ err error }

func (e *byTokenError) Error() string { return e.err.Error() }
func (e *byTokenError) Unwrap() error { return e.err }

// doneError is a command that was skipped, as a run with that ID had succeeded.
type doneError struct{ name, id string }

func (e *doneError) Error() string {
	return fmt.Sprintf("%s: skipped, as %q was done already", e.name, e.id)
}

// timeoutError is a command that was stopped for --timeout.
type timeoutError struct {
	name  string // of the lock
	after time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("the command ran for longer than %s (--timeout) and was stopped", shortDuration(e.after))
}

// errNo is the answer "no" of a command that was asked a question, and has
// printed it.
var errNo = errors.New("no")

// endingOf puts an error into words for people and an exit code.
func endingOf(err error) ending {
	end := ending{code: exitFault, level: slog.LevelError, event: "error"}
	if err != nil {
		end.text = err.Error()
	}
	var (
		child       *childEnding
		usage       *usageError
		config      *configError
		busy        *busyError
		timeout     *timeoutError
		done        *doneError
		capacity    *lock.CapacityError
		notOurs     *notOursError
		changed     *changedError
		byToken     *byTokenError
		lost        *lock.LostError
		server      *lock.ServerError
		place       *connect.EmbeddedError
		serverBusy  *serverBusyError
		start       *proc.StartError
		interrupted *lockexec.InterruptedError
	)
	notStarted := "; the command was not started"
	if errors.As(err, &byToken) {
		notStarted = "" // there is none
	}
	switch {
	case err == nil:
		return ending{}
	case errors.Is(err, errNo):
		return ending{code: 1}
	case errors.As(err, &child):
		return ending{code: child.status.Shell(), signal: child.status.Signal}
	case errors.As(err, &usage):
		end.code = exitUsage
	case errors.As(err, &config):
		end.code = config.code()
	case errors.As(err, &interrupted):
		end.code, end.signal = 128+int(interrupted.Signal), interrupted.Signal
		end.level, end.event = slog.LevelInfo, "interrupted"
		end.attrs = []any{"signal", proc.SignalName(interrupted.Signal)}
	case errors.As(err, &busy):
		end.code, end.level, end.event = busy.code, slog.LevelWarn, "busy"
		end.text = busyText(busy.held, busy.wait) + notStarted
		end.attrs = busyAttrs(busy.held)
	case errors.As(err, &done):
		end.code, end.level, end.event = 0, slog.LevelInfo, "skipped"
		end.attrs = []any{"lock", done.name, "once", done.id}
	case errors.As(err, &capacity):
		end.code, end.event = exitUsage, "capacity"
		end.attrs = []any{"lock", capacity.Name}
		end.text += "; all who use a key must agree on --slots and --shared"
	case errors.Is(err, errDeclined):
		end.code, end.level, end.event = 1, slog.LevelWarn, "declined"
	case errors.As(err, &changed):
		end.code, end.event = exitBusy, "busy"
		end.attrs = []any{"lock", changed.name}
	case errors.As(err, &timeout):
		end.code, end.event = exitTimeout, "timeout"
		end.attrs = []any{"lock", timeout.name, "after_ms", timeout.after.Milliseconds()}
	case errors.As(err, &notOurs):
		end.code, end.event = exitLost, "lost"
		end.attrs = []any{"lock", notOurs.lost.Name}
	case errors.As(err, &lost):
		end.code, end.event = exitLost, "lost"
		end.text += "; the command was stopped"
		end.attrs = []any{"lock", lost.Name}
	case errors.As(err, &server):
		end.code, end.event = exitUnavailable, "unavailable"
		end.text += notStarted + serverHint(server)
		end.attrs = []any{"lock", server.Name}
	case errors.Is(err, lockexec.ErrUnavailable):
		end.code, end.event = exitUnavailable, "unavailable"
	case errors.As(err, &place):
		end.code, end.event = exitUnavailable, "unavailable"
	case errors.As(err, &serverBusy):
		end.code, end.event = exitBusy, "busy"
	case errors.As(err, &start):
		end.code, end.event = startCode(start), "not_started"
	}
	return end
}

func startCode(err *proc.StartError) int {
	switch {
	case errors.Is(err, proc.ErrNotFound):
		return exitNotFound
	case errors.Is(err, proc.ErrNotExecutable):
		return exitNotExecutable
	default:
		return exitFault
	}
}

// busyText says who has the lock, as far as that is known.
func busyText(held *lock.HeldError, waited time.Duration) string {
	var b strings.Builder
	b.WriteString(held.Name)
	switch h := held.Holder; {
	case held.Revoked:
		fmt.Fprintf(&b, " was revoked (release --force); it is free as soon as its holder has stopped, in %s at the latest", about(held.Remaining))
	case held.Remaining == lock.NoExpiry:
		fmt.Fprintf(&b, " holds a value without a time to live, which no lock client leaves behind: it may be data, or a lock whose owner died. "+
			"Look at it with \"redis-cli GET\", and delete it if nobody needs it")
	case h == nil:
		fmt.Fprintf(&b, " is held by a program that leaves no record; it expires in %s unless renewed", about(held.Remaining))
	default:
		fmt.Fprintf(&b, " is held by %s (pid %d", h.Label, h.PID)
		if h.Label != h.Host {
			fmt.Fprintf(&b, " on %s", h.Host)
		}
		if h.Command != "" {
			fmt.Fprintf(&b, ", %s", h.Command)
		}
		fmt.Fprintf(&b, ") for %s", about(held.HeldFor))
	}
	if waited > 0 {
		fmt.Fprintf(&b, "; given up after %s", about(waited))
	} else if held.Waiting > 0 {
		fmt.Fprintf(&b, "; in line for it: %d", held.Waiting)
	}
	return b.String()
}

func busyAttrs(held *lock.HeldError) []any {
	attrs := []any{"lock", held.Name}
	if held.Remaining != lock.NoExpiry {
		attrs = append(attrs, "remaining_ms", held.Remaining.Milliseconds())
	}
	return append(attrs, holderAttrs(held.Holder, held.HeldFor)...)
}

func holderAttrs(h *lock.Holder, heldFor time.Duration) []any {
	if h == nil {
		return nil
	}
	return []any{slog.Group("holder",
		"host", h.Host, "pid", h.PID, "command", h.Command, "label", h.Label, "held_ms", heldFor.Milliseconds())}
}

// about rounds a time span for people: 3 s are not 3.141592653s.
func about(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}

// serverHints say what to do about each fault. %[1]s is the place, %[2]s the
// name of the lock.
var serverHints = map[lock.Fault]string{
	lock.FaultUnreachable: "Is Redis running there? Give its address with --redis redis://HOST:PORT, " +
		"or use --redis embedded to lock on this host alone",
	lock.FaultConnection: "The connection was made but cut: does the server want TLS (rediss://), " +
		"or was it just restarted?",
	lock.FaultTimeout: "The server or the way to it is too slow or gone; --connect-timeout gives it more time",
	lock.FaultTLS: "Check --tls-ca, --tls-cert, --tls-key and --tls-server-name, " +
		"and that the port speaks TLS",
	lock.FaultProtocol: "What listens at %[1]s does not speak the Redis protocol: check host and port",
	lock.FaultNoAuth: "The server wants a password: set REDISCLI_AUTH, --redis-password-file, " +
		"or redis://USER:PASSWORD@HOST",
	lock.FaultWrongPass: "Check user (--redis-username) and password (REDISCLI_AUTH, --redis-password-file, or the URL)",
	lock.FaultNoPerm: "The ACL user lacks a right: it needs +eval +get +set +del +exists +pexpire +pttl +time +hget +hset +hdel +hexists " +
		"+zadd +zcard +zrange +zrangebyscore +zrank +zrem +zscore +rpush +blpop on the lock's name and on the pattern ~redlockrun:*; for list, +scan too " +
		"(in a cluster also +cluster|slots, in a quorum +info, for --wait-replicas +wait, for --history +hkeys +xadd +xrevrange)",
	lock.FaultReadOnly: "%[1]s is a replica: give the address of its primary, or use redis-sentinel://",
	lock.FaultLoading:  "The server is reading its data from disk: try again later, or raise --connect-timeout",
	lock.FaultMisconf: "The server can't save to disk and refuses writes: see its log and " +
		"\"redis-cli INFO persistence\"",
	lock.FaultNoReplicas: "The server has fewer replicas than min-replicas-to-write demands: " +
		"see \"redis-cli INFO replication\"",
	lock.FaultMasterDown: "%[1]s is a replica that has lost its primary: give the primary's address",
	lock.FaultOOM: "The server is at its maxmemory limit: raise it, or keep locks on a server of their own " +
		"(one that evicts could evict locks)",
	lock.FaultBusy: "A script of another client blocks the server: see \"redis-cli SCRIPT KILL\"",
	lock.FaultMaxClients: "The server has no connection left: raise its maxclients, " +
		"or find the client that leaks them with \"redis-cli CLIENT LIST\"",
	lock.FaultClusterDown: "The cluster does not serve this lock's slot: see \"redis-cli CLUSTER INFO\"",
	lock.FaultTryAgain:    "The cluster is moving this lock's slot: try again later",
	lock.FaultMoved:       "%[1]s is a node of a Redis Cluster, and the lock's slot is on another: write redis-cluster://%[1]s",
	lock.FaultWrongType: "%[2]s exists and is no lock: choose another --key or --prefix, " +
		"or look at it with \"redis-cli TYPE\"",
	lock.FaultYoung:    "A server of a quorum counts once it is up for as long as the --ttl of those who may have had locks on it",
	lock.FaultNoQuorum: "Each server has the lock from somebody else, or had it and lost it: try again later",
	lock.FaultReplicas: "The lock was given back. Are the replicas connected (\"redis-cli INFO replication\")? --wait-replicas says how many must be",
}

func serverHint(err *lock.ServerError) string {
	hint, ok := serverHints[err.Fault]
	if !ok {
		return ""
	}
	hint = strings.NewReplacer("%[1]s", err.Place, "%[2]s", err.Name).Replace(hint)
	return ". " + hint
}
