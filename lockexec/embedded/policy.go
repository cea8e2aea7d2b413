package embedded

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// effect is what a command may do to the state, and so what must happen before its reply may leave.
type effect int

const (
	nothing effect = iota // neither read nor write
	reads                 // tell what others did
	blocks                // wait for others, then pop from one list
	writes                // anything, at once
)

// effectOf judges by name. What is not known to be harmless counts as a write: that costs a copy of the state, and no
// more when nothing changed.
func effectOf(s *store, command string) effect {
	switch command {
	case "AUTH", "CLIENT", "COMMAND", "DISCARD", "ECHO", "HELLO", "MULTI", "PING", "QUIT", "SELECT", "TIME", "UNWATCH",
		statusCommand, stopCommand:
		return nothing
	case "INFO", "WAIT", "WATCH", "XREAD":
		return reads
	case "BLPOP", "BRPOP":
		return blocks
	}
	if s.IsReadOnlyCommand(command) {
		return reads
	}
	return writes
}

// refusal returns the error to a command that the server does not execute, or "" for one that it does. Refused is what
// the state file could not hold, what would move two keys after a wait (a copy of the state taken meanwhile could have
// neither), and what would be pushed to a client beside the replies.
//
// fromScript says that a script calls the command: it holds all others up, so that it must not wait.
func refusal(command string, args []string, fromScript bool) string {
	switch command {
	case "PFADD", "PFMERGE", "HEXPIRE", "HSETEX", "XGROUP", "XREADGROUP", "XCLAIM", "XAUTOCLAIM",
		"MOVE", "COPY", "SWAPDB",
		"BLMOVE", "BRPOPLPUSH", "BZPOPMIN", "BZPOPMAX", "BZMPOP",
		"SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE":
		return fmt.Sprintf("ERR the embedded server does not support %s, as it could not keep what that does; use a real Redis server", command)
	case "SELECT":
		if len(args) > 0 {
			if db, err := strconv.Atoi(args[0]); err != nil || db < 0 || db >= databases {
				return "ERR DB index is out of range"
			}
		}
	case "BLPOP", "BRPOP":
		if fromScript {
			return fmt.Sprintf("ERR %s is not allowed from a script", command)
		}
	case "XREAD":
		for _, arg := range args {
			if fromScript && strings.EqualFold(arg, "BLOCK") {
				return "ERR XREAD BLOCK is not allowed from a script"
			}
		}
	}
	return ""
}

// refuse answers refused commands, those that scripts call too.
func (s *lockServer) refuse(peer *server.Peer, command string, args ...string) bool {
	_, direct := s.peers.Load(peer)
	message := refusal(command, args, !direct)
	if message != "" {
		peer.WriteError(message)
	}
	return message != ""
}
