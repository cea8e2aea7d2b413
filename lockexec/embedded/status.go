package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/proto"
	"github.com/gofrs/flock"
)

// What Status and Stop ask of the server, and how it refuses to stop: "-LOCKSHELD 3".
const (
	statusCommand = "REDLOCKRUN.STATUS"
	stopCommand   = "REDLOCKRUN.STOP"
	locksHeldCode = "LOCKSHELD"
)

// answerWait bounds each exchange with a server, beside the caller's context.
const answerWait = 10 * time.Second

// Info is what Status tells.
type Info struct {
	Running bool      `json:"running"`
	Socket  string    `json:"socket"`
	PID     int       `json:"pid,omitempty"` // as this process knows it, where the system tells
	Since   time.Time `json:"since,omitzero"`
	Version string    `json:"version,omitempty"`
	Clients int       `json:"clients"` // without the one that asks
	Keys    int       `json:"keys"`    // of all kinds, in all databases
	Locks   int       `json:"locks"`   // live locks: they keep the server from ending
}

func encodeInfo(info Info) string {
	encoded, _ := json.Marshal(info) // cannot fail: numbers, strings and a time of this era
	return string(encoded)
}

// Status tells about the server in dir. It starts none: where none runs, it returns an Info with Running false.
//
// The PID is of the process that owns the socket, now, in the numbering of the caller's PID namespace, on Linux and
// macOS. A supervisor that kills what descends from it must spare it.
func Status(ctx context.Context, dir string) (Info, error) {
	info := Info{Socket: SocketPath(dir)}
	conn, answer, err := exchange(ctx, dir, statusCommand)
	if errors.Is(err, errNotRunning) {
		return info, nil
	} else if err != nil {
		return info, err
	}
	defer conn.Close()
	if answer, err = proto.ReadString(answer); err == nil {
		err = json.Unmarshal([]byte(answer), &info)
	}
	if err != nil {
		return info, noAnswer(info.Socket, conn, err)
	}
	info.Running, info.Socket = true, SocketPath(dir)
	if pid := peerPID(conn); pid > 0 {
		info.PID = pid
	}
	return info, nil
}

// Stop ends the server in dir and returns when it is gone. Its state stays for the next one. It returns false when none
// runs, and a *LocksHeldError, with the server as it was, when locks are live and force is not given.
//
// The server itself decides, between two commands: none that it answered is lost, and no lock can be taken meanwhile.
func Stop(ctx context.Context, dir string, force bool) (stopped bool, err error) {
	request := []string{stopCommand}
	if force {
		request = append(request, "FORCE")
	}
	conn, answer, err := exchange(ctx, dir, request...)
	if errors.Is(err, errNotRunning) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer conn.Close()
	if answer != proto.Inline("OK") {
		if held, ok := strings.CutPrefix(strings.TrimSpace(answer), "-"+locksHeldCode+" "); ok {
			if locks, err := strconv.Atoi(held); err == nil {
				return false, &LocksHeldError{Locks: locks}
			}
		}
		return false, noAnswer(SocketPath(dir), conn, fmt.Errorf("it said %q", answer))
	}
	if err := awaitEnd(ctx, conn); err != nil {
		return false, noAnswer(SocketPath(dir), conn, err)
	}
	return true, nil
}

var errNotRunning = errors.New("no server runs")

// exchange sends one command to the server that runs and returns its reply as it came, and the connection. It returns
// errNotRunning when there is none, also when it ended before it replied.
func exchange(ctx context.Context, dir string, command ...string) (conn net.Conn, reply string, err error) {
	for range 3 {
		if conn, err = dialRunning(ctx, dir); err != nil {
			return nil, "", err
		}
		if reply, err = ask(ctx, conn, command...); err == nil {
			return conn, reply, nil
		}
		err = noAnswer(SocketPath(dir), conn, err)
		conn.Close()
		if !isCut(err) {
			break
		}
	}
	return nil, "", err
}

// dialRunning connects to a server that runs, or returns errNotRunning. A server out of reach may be one that is about to
// come or deciding whether to go: that is waited for.
func dialRunning(ctx context.Context, dir string) (net.Conn, error) {
	for deadline := time.Now().Add(startLockWait); ; {
		conn, err := connect(ctx, dir)
		switch absent := errors.Is(err, fs.ErrNotExist) || isAbsent(err); {
		case err == nil:
			return conn, nil
		case absent && (time.Now().After(deadline) || !serverExists(dir)):
			return nil, errNotRunning
		case !absent && !isBusy(err):
			return nil, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// serverExists reports whether a process has the lock of dir's server.
func serverExists(dir string) bool {
	if checkDir(dir) != nil {
		return false
	}
	lock := flock.New(filepath.Join(dir, serverLockName))
	free, err := lock.TryRLock()
	_ = lock.Unlock()
	return err == nil && !free
}

// ask sends one command and returns the reply as it came.
func ask(ctx context.Context, conn net.Conn, command ...string) (string, error) {
	defer boundBy(ctx, conn)()
	answer, err := proto.NewClient(conn).Do(command...)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return answer, err
}

// awaitEnd returns when the process at the other end of conn, which has sent its last reply, has ended. By then it has
// given up its lock too, which another server may have.
func awaitEnd(ctx context.Context, conn net.Conn) error {
	defer boundBy(ctx, conn)()
	_, err := io.Copy(io.Discard, conn)
	switch {
	case isCut(err):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return err
	}
}

// boundBy makes what is done on conn end with ctx, and after answerWait. The function it returns undoes that.
func boundBy(ctx context.Context, conn net.Conn) func() {
	_ = conn.SetDeadline(time.Now().Add(answerWait))
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

func noAnswer(socket string, conn net.Conn, err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("asking the embedded server at %s: %w", socket, err)
	}
	return fmt.Errorf("the embedded server at %s (pid %d) does not answer; kill -9 would lose no lock: %w", socket, peerPID(conn), err)
}
