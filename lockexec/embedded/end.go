package embedded

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2/proto"
	"github.com/alicebob/miniredis/v2/server"
)

// startLockWait is how long a server that was told to end waits for a process that is about to connect. It ends then
// all the same; what keeps two servers apart is the other lock.
const startLockWait = 2 * time.Second

// watch returns when the server is to end: told by a signal or a client, unused for long enough, or out of reach as
// somebody removed its socket.
func (s *lockServer) watch(term <-chan os.Signal) {
	ticker := time.NewTicker(min(max(s.idle/10, 10*time.Millisecond), time.Second))
	defer ticker.Stop()
	unusedSince, accepted := time.Now(), int64(-1)
	for {
		select {
		case <-s.finished:
			return
		case <-term:
			s.retire(startLockWait, func() bool { return true })
			return
		case <-ticker.C:
		}
		if !s.inService() {
			return
		}
		if before := accepted; before != s.accepted.Load() || s.inUse(0) {
			unusedSince, accepted = time.Now(), s.accepted.Load()
			continue
		}
		if time.Since(unusedSince) >= s.idle && s.retire(0, func() bool { return !s.inUse(1) }) {
			return
		}
	}
}

// inService reports whether clients can find the server, or it is deciding whether they shall.
func (s *lockServer) inService() bool {
	s.retiring.Lock()
	defer s.retiring.Unlock()
	return s.retired || s.reachable(socketName)
}

// inUse reports whether there is a live lock or a client other than a number of our own.
func (s *lockServer) inUse(own int64) bool {
	if s.clients.Load() != own {
		return true
	}
	_, locks := s.redis.count()
	return locks > 0
}

// retire ends the service, if may says so when nobody new can come: then it returns true, and no command that may
// write is executed any more. It takes the lock that starters take, for which it waits for patience, moves the socket
// away, and lets those in who connected before that. When may says no, all goes on as if nothing had been.
func (s *lockServer) retire(patience time.Duration, may func() bool) bool {
	s.retiring.Lock()
	defer s.retiring.Unlock()
	if s.retired {
		return true
	}
	if !s.lockStart(patience) && patience == 0 {
		return false // somebody is on the way here
	}
	_ = s.folder.Rename(socketName, aloneSocketName)
	if own, err := s.lastInLine(); err == nil {
		defer own.Close()
	}
	s.retired = s.journal.closeIf(may)
	if !s.retired {
		_ = s.folder.Rename(aloneSocketName, socketName)
		_ = s.startLock.Unlock()
	}
	return s.retired
}

func (s *lockServer) lockStart(patience time.Duration) bool {
	if got, _ := s.startLock.TryLock(); got || patience == 0 {
		return got
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	got, _ := s.startLock.TryLockContext(ctx, retryDelay)
	return got
}

// lastInLine connects to our own socket, away from its place, and returns the connection when it is served: so are then
// all that were made before.
func (s *lockServer) lastInLine() (net.Conn, error) {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(context.Background(), "unix", filepath.Join(s.dir, aloneSocketName))
	if err != nil {
		return nil, err
	}
	if err = conn.SetDeadline(time.Now().Add(time.Second)); err == nil {
		_, err = proto.NewClient(conn).Do("PING")
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// stop is the command that [Stop] sends. It reports whether the server is to end once the client has the reply.
func (s *lockServer) stop(peer *server.Peer, args []string) bool {
	force := len(args) > 0 && args[0] == "FORCE"
	var locks int
	if !s.retire(startLockWait, func() bool { _, locks = s.redis.count(); return force || locks == 0 }) {
		peer.WriteError(fmt.Sprintf("%s %d", locksHeldCode, locks))
		return false
	}
	peer.WriteOK()
	return true
}

// status is the reply to [Status].
func (s *lockServer) status() string {
	keys, locks := s.redis.count()
	return encodeInfo(Info{
		PID:     os.Getpid(),
		Since:   s.started,
		Version: version(),
		Clients: int(s.clients.Load()) - 1,
		Keys:    keys,
		Locks:   locks,
	})
}
