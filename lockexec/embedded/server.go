package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// serverLockWait is how long a new server waits for the one before it to end.
const serverLockWait = 10 * time.Second

// lockServer is the server in its own process.
type lockServer struct {
	dir     string
	folder  *os.Root // dir by descriptor: after a removal of dir, nothing is written to one that took its place
	idle    time.Duration
	started time.Time

	redis    *store
	journal  *journal
	listener *net.UnixListener
	socket   fs.FileInfo // of the socket file, to see that it is still ours

	peers    sync.Map     // the *server.Peer of each client; those that scripts use are not in it
	clients  atomic.Int64 // connected now
	accepted atomic.Int64 // connected ever

	startLock *flock.Flock
	retiring  sync.Mutex // one decision to end at a time; guards retired
	retired   bool
	finish    func() // makes serve return; may be called more than once
	finished  <-chan struct{}
}

// serve is the server's process: it returns when the server has ended. Before it is ready it returns an error for what
// is wrong, and serves nobody.
func serve(dir string, idle time.Duration) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)

	if err := checkDir(dir); err != nil {
		return err
	}
	serverLock, err := lockFolder(dir)
	if err != nil {
		return err
	} else if serverLock == nil {
		return announceReady()
	}
	defer func() { _ = serverLock.Unlock() }()

	s, err := newLockServer(dir, idle)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.listen(); err != nil {
		return err
	}
	go s.accept()
	if err := announceReady(); err != nil {
		return err
	}
	s.watch(term)
	return nil
}

// lockFolder makes this process the one server of dir, until it ends. It returns nil when another one serves dir: who
// started that was killed before it was ready.
func lockFolder(dir string) (*flock.Flock, error) {
	lock := flock.New(filepath.Join(dir, serverLockName))
	ctx, cancel := context.WithTimeout(context.Background(), serverLockWait)
	defer cancel()
	for {
		if got, err := lock.TryLock(); err != nil {
			return nil, fmt.Errorf("locking %s: %w", lock.Path(), err)
		} else if got {
			return lock, nil
		}
		if conn, err := connect(ctx, dir); err == nil {
			return nil, conn.Close()
		}
		if pause(ctx) != nil {
			return nil, fmt.Errorf("another server holds %s and does not accept connections: end it with kill -9, which loses no lock (%s has its pid)",
				lock.Path(), filepath.Join(dir, infoName))
		}
	}
}

// newLockServer returns a server that has the state of the one before it. The caller must hold the folder's lock.
func newLockServer(dir string, idle time.Duration) (*lockServer, error) {
	folder, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	// Standard error will be /dev/null. Without the file, a crash leaves no trace, and that is all.
	if crash, err := folder.OpenFile(crashName, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err == nil {
		_ = debug.SetCrashOutput(crash, debug.CrashOptions{})
		crash.Close()
	}
	redis, err := newStore()
	if err != nil {
		return nil, err
	}
	s := &lockServer{
		dir:       dir,
		folder:    folder,
		idle:      idle,
		started:   time.Now(),
		redis:     redis,
		journal:   &journal{folder: folder, copy: redis.encode},
		startLock: flock.New(filepath.Join(dir, startLockName)),
	}
	finished, finish := context.WithCancel(context.Background())
	s.finish, s.finished = finish, finished.Done()
	if err := s.restore(); err != nil {
		return nil, err
	}
	s.redis.Server().SetPreHook(s.refuse)
	return s, nil
}

// restore reads the state file. One that cannot be read stops the start: a holder whose lock is in it may live.
func (s *lockServer) restore() error {
	state, err := s.folder.ReadFile(stateName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = s.redis.restore(state)
	}
	if err != nil {
		return fmt.Errorf("the state of the locks in %s cannot be used: %w; make sure that nothing runs that was started under one of these locks, then remove the file",
			filepath.Join(s.dir, stateName), err)
	}
	s.journal.last = state
	return nil
}

// listen puts a socket that is listened on in the place of whatever has its name.
func (s *lockServer) listen() error {
	for _, name := range []string{newSocketName, aloneSocketName} {
		if err := s.folder.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	path := filepath.Join(s.dir, newSocketName)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false) // the name will be another
	s.listener = listener
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	if s.socket, err = s.folder.Lstat(newSocketName); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"pid": os.Getpid(), "started": s.started, "version": version()})
	if err != nil {
		return err
	}
	if err := replaceFile(s.folder, infoName, newInfoName, append(info, '\n')); err != nil {
		return err
	}
	return s.folder.Rename(newSocketName, socketName)
}

// accept serves clients until the listener is closed. A client counts from before the next one is accepted.
func (s *lockServer) accept() {
	for {
		conn, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as no descriptors left: those of others will be free again
			time.Sleep(retryDelay)
			continue
		}
		s.accepted.Add(1)
		s.clients.Add(1)
		go s.serveClient(conn)
	}
}

// close ends what serve began. The process ends next, and with it the clients' connections.
func (s *lockServer) close() {
	if s.listener != nil {
		s.listener.Close()
	}
	if s.reachable(aloneSocketName) {
		_ = s.folder.Remove(aloneSocketName)
	}
	if s.reachable(socketName) {
		_ = s.folder.Remove(socketName)
	}
	_ = s.folder.Remove(infoName)
	s.journal.seal()
	_ = s.startLock.Unlock()
}

// reachable reports whether a name in the folder is that of our socket.
func (s *lockServer) reachable(name string) bool {
	info, err := s.folder.Lstat(name)
	return err == nil && s.socket != nil && os.SameFile(info, s.socket)
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}
