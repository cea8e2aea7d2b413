package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
)

// replyError is an error reply as go-redis types it.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func TestClassifyReplies(t *testing.T) {
	// As measured on Redis 7.0 and 8, and as Redis 6 words errors in scripts.
	for text, want := range map[string]Fault{
		"NOAUTH Authentication required.":                                                                                            FaultNoAuth,
		"WRONGPASS invalid username-password pair or user is disabled.":                                                              FaultWrongPass,
		"ERR invalid password":                                                                                                       FaultWrongPass,
		"NOPERM this user has no permissions to run the 'eval' command":                                                              FaultNoPerm,
		"ERR The user executing the script can't run this command or subcommand script: 0, on @user_script:3.":                       FaultNoPerm,
		"ERR ACL failure in script: User u has no permissions to run the 'get' command script: 1, on @user_script:3.":                FaultNoPerm,
		"READONLY You can't write against a read only replica. script: 9f, on @user_script:1.":                                       FaultReadOnly,
		"ERR Error running script (call to f_9f): @user_script:1: -READONLY You can't write against a read only replica. ":           FaultReadOnly,
		"ERR Error running script (call to f_9f): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'max": FaultOOM,
		"LOADING Redis is loading the dataset in memory":                                                                             FaultLoading,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.":                           FaultMisconf,
		"NOREPLICAS Not enough good replicas to write.":                                                                              FaultNoReplicas,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                                           FaultMasterDown,
		"OOM command not allowed when used memory > 'maxmemory'.":                                                                    FaultOOM,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":                                     FaultBusy,
		"ERR Protocol error: unauthenticated multibulk length":                                                                       FaultNoAuth,
		"ERR max number of clients reached":                                                                                          FaultMaxClients,
		"CLUSTERDOWN Hash slot not served":                                                                                           FaultClusterDown,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                                                    FaultTryAgain,
		"MOVED 3999 127.0.0.1:6381":                                                                                                  FaultMoved,
		"ASK 3999 127.0.0.1:6381":                                                                                                    FaultMoved,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                                          FaultWrongType,
		"ERR unknown command 'eval'":                                                                                                 FaultOther,
		"ERR value is not an integer or out of range":                                                                                FaultOther,
	} {
		if got := classify(fmt.Errorf("wrapped: %w", replyError(text))); got != want {
			t.Errorf("classify(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestClassifyConnections(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	read := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	for _, tc := range []struct {
		err  error
		want Fault
	}{
		{dial, FaultUnreachable},
		{fmt.Errorf("pool: %w", dial), FaultUnreachable},
		{read, FaultConnection},
		{io.EOF, FaultConnection},
		{net.ErrClosed, FaultConnection},
		{context.DeadlineExceeded, FaultTimeout},
		{errors.New("redis: can't parse map reply: \"HTTP/1.1 400 Bad Request\""), FaultProtocol},
		{errors.New("tls: first record does not look like a TLS handshake"), FaultTLS},
	} {
		if got := classify(tc.err); got != tc.want {
			t.Errorf("classify(%v) = %d, want %d", tc.err, got, tc.want)
		}
	}
}

func TestOnlyAnAnswerProvesThatNothingWasDone(t *testing.T) {
	for _, fault := range []Fault{FaultConnection, FaultTimeout, FaultProtocol, FaultOther} {
		if fault.undone() {
			t.Errorf("fault %d counts as undone, though the server may have acted", fault)
		}
	}
	if !FaultUnreachable.undone() {
		t.Error("without a connection nothing can have been done")
	}
}
