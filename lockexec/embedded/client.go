package embedded

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// serveClient executes a client's commands one after the other, and sends each reply when what it tells is in the
// state file.
func (s *lockServer) serveClient(conn net.Conn) {
	defer conn.Close()
	var reply bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&reply))
	s.peers.Store(peer, nil)
	defer s.peers.Delete(peer)

	commands, done := make(chan []string), make(chan struct{})
	defer close(done)
	go s.readClient(conn, peer, commands, done)

	for args := range commands {
		retired, err := s.execute(peer, args)
		peer.Flush()
		switch {
		case errors.Is(err, errSealed):
			return
		case err != nil:
			fmt.Fprintf(conn, "-MISCONF %s\r\n", oneLine(err))
			return
		}
		_, err = conn.Write(reply.Bytes())
		if retired {
			s.finish()
		}
		if err != nil || peer.Closed() {
			return
		}
		reply.Reset()
		if reply.Cap() > maxKeptReply {
			reply = bytes.Buffer{}
		}
	}
}

// maxKeptReply is how large a buffer is kept for the next reply.
const maxKeptReply = 64 << 10

// readClient reads ahead of the command that runs, so that the end of a client is seen while one waits for another.
func (s *lockServer) readClient(conn net.Conn, peer *server.Peer, commands chan<- []string, done <-chan struct{}) {
	defer s.clients.Add(-1)
	defer close(commands)
	r := bufio.NewReader(conn)
	for {
		args, err := readCommand(r)
		if err != nil {
			peer.Close()
			s.wakeBlocked()
			return
		}
		select {
		case commands <- args:
		case <-done:
			return
		}
	}
}

// execute runs one command and leaves its reply with the peer. The reply may be sent only if there is no error, and is
// the last if the command ended the service.
func (s *lockServer) execute(peer *server.Peer, args []string) (retired bool, err error) {
	command := strings.ToUpper(args[0])
	dispatch := func() { s.redis.Server().Dispatch(peer, args) }
	switch effectOf(s.redis, command) {
	case nothing:
		switch command {
		case statusCommand:
			peer.WriteBulk(s.status())
		case stopCommand:
			return s.stop(peer, args[1:]), nil
		default:
			dispatch()
		}
		return false, nil
	case reads:
		dispatch()
	case blocks:
		s.journal.runBlocking(dispatch)
	case writes:
		if !s.journal.run(dispatch) {
			return false, errSealed
		}
	}
	return false, s.journal.commit()
}

// wakeBlocked lets the commands that wait look whether their client is still there. Any command does that.
func (s *lockServer) wakeBlocked() {
	peer := server.NewPeer(bufio.NewWriter(&bytes.Buffer{}))
	s.redis.Server().Dispatch(peer, []string{"DBSIZE"})
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
