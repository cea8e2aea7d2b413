package lock

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Fault is what went wrong in an exchange with the server. Each has a remedy
// of its own, which package cmd puts into words.
type Fault int

// Faults of the way to the server, and refusals by it.
const (
	FaultOther       Fault = iota // an error without a kind of its own
	FaultUnreachable              // no connection was made: refused, no route, or no such host
	FaultConnection               // a connection was cut
	FaultTimeout                  // no answer in time
	FaultTLS                      // the TLS handshake failed
	FaultProtocol                 // what answers is not Redis
	FaultNoAuth                   // NOAUTH: a password is wanted
	FaultWrongPass                // WRONGPASS: user or password is wrong
	FaultNoPerm                   // NOPERM: an ACL rule is missing
	FaultReadOnly                 // READONLY: a replica
	FaultLoading                  // LOADING: it reads its data set
	FaultMisconf                  // MISCONF: it can't save, and refuses writes
	FaultNoReplicas               // NOREPLICAS: too few replicas
	FaultMasterDown               // MASTERDOWN: a replica without its master
	FaultOOM                      // OOM: maxmemory reached
	FaultBusy                     // BUSY: a script of another client runs
	FaultMaxClients               // too many connections
	FaultClusterDown              // CLUSTERDOWN
	FaultTryAgain                 // TRYAGAIN: the slot is being moved
	FaultMoved                    // MOVED or ASK: a node of a cluster
	FaultWrongType                // WRONGTYPE: the key is no lock
	FaultYoung                    // a server of a quorum that was just started
	FaultNoQuorum                 // the servers of a quorum do not agree
	FaultReplicas                 // too few replicas have the lock
)

// permission reports whether other credentials or rights are the remedy.
func (f Fault) permission() bool {
	return f == FaultNoAuth || f == FaultWrongPass || f == FaultNoPerm
}

// passing reports whether the fault may go away by itself, so that trying
// again within the connect time-out makes sense.
func (f Fault) passing() bool {
	switch f {
	case FaultUnreachable, FaultConnection, FaultTimeout, FaultReadOnly, FaultLoading, FaultMisconf, FaultNoReplicas,
		FaultMasterDown, FaultOOM, FaultBusy, FaultMaxClients, FaultClusterDown, FaultTryAgain, FaultYoung, FaultNoQuorum:
		return true
	default:
		return false
	}
}

// undone reports whether the server surely did not do what it was asked.
// Everything else leaves it open, an answer that was cut off above all.
func (f Fault) undone() bool {
	switch f {
	case FaultConnection, FaultTimeout, FaultProtocol, FaultOther, FaultNoQuorum:
		return false
	default:
		return true
	}
}

// replyFaults are the error codes of the server, in the order in which they
// are looked for.
var replyFaults = []struct {
	code  string
	fault Fault
}{
	{"NOAUTH", FaultNoAuth},
	{"WRONGPASS", FaultWrongPass},
	{"NOPERM", FaultNoPerm},
	{"READONLY", FaultReadOnly},
	{"LOADING", FaultLoading},
	{"MISCONF", FaultMisconf},
	{"NOREPLICAS", FaultNoReplicas},
	{"MASTERDOWN", FaultMasterDown},
	{"OOM", FaultOOM},
	{"BUSY", FaultBusy},
	{"CLUSTERDOWN", FaultClusterDown},
	{"TRYAGAIN", FaultTryAgain},
	{"MOVED", FaultMoved},
	{"ASK", FaultMoved},
	{"WRONGTYPE", FaultWrongType},
}

// replyPhrases are error replies that have no code of their own. A command
// that a script may not run is worded differently by each version, none of
// them with NOPERM.
var replyPhrases = []struct {
	phrase string
	fault  Fault
}{
	{"max number of clients reached", FaultMaxClients},
	// To a client that did not log in, the server refuses long commands before
	// it looks at what they are.
	{"unauthenticated multibulk length", FaultNoAuth},
	{"unauthenticated bulk length", FaultNoAuth},
	{"the user executing the script can't", FaultNoPerm},
	{"acl failure in script", FaultNoPerm},
	{"invalid password", FaultWrongPass},
	{"invalid username-password", FaultWrongPass},
	{"without any password configured", FaultWrongPass},
}

// FaultOf finds the fault behind an error of a client from this package.
func FaultOf(err error) Fault { return classify(err) }

// classify finds the fault behind an error of the client.
func classify(err error) Fault {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return classifyReply(reply.Error())
	}
	var (
		unknownAuthority x509.UnknownAuthorityError
		hostname         x509.HostnameError
		invalid          x509.CertificateInvalidError
		verification     *tls.CertificateVerificationError
		record           tls.RecordHeaderError
		alert            tls.AlertError
		netErr           net.Error
		opErr            *net.OpError
	)
	switch {
	case errors.Is(err, redis.ErrClosed): // by its owner, for good
		return FaultOther
	case errors.As(err, &opErr) && opErr.Op == "dial":
		return FaultUnreachable
	case errors.As(err, &unknownAuthority), errors.As(err, &hostname), errors.As(err, &invalid),
		errors.As(err, &verification), errors.As(err, &record), errors.As(err, &alert):
		return FaultTLS
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return FaultConnection
	case errors.Is(err, context.DeadlineExceeded):
		return FaultTimeout
	case strings.Contains(err.Error(), "max number of clients reached"):
		return FaultMaxClients
	case strings.HasPrefix(err.Error(), "redis: can't parse"):
		return FaultProtocol
	case strings.HasPrefix(err.Error(), "tls: "), strings.HasPrefix(err.Error(), "remote error: tls: "):
		return FaultTLS
	case errors.As(err, &netErr) && netErr.Timeout():
		return FaultTimeout
	default:
		return FaultConnection
	}
}

func classifyReply(text string) Fault {
	code, _, _ := strings.Cut(text, " ")
	inScript := strings.Contains(text, "user_script") || strings.HasPrefix(text, "ERR Error running script")
	for _, known := range replyFaults {
		// Before 7.0 a command's error in a script comes as
		// "ERR Error running script (...): @user_script:1: -READONLY ...".
		if code == known.code || inScript && strings.Contains(text, known.code+" ") {
			return known.fault
		}
	}
	lower := strings.ToLower(text)
	for _, known := range replyPhrases {
		if strings.Contains(lower, known.phrase) {
			return known.fault
		}
	}
	return FaultOther
}

// faultText is the error without what the server adds to one in a script:
// where in our text it happened, which helps nobody who reads it.
func faultText(fault Fault, err error) string {
	if fault == FaultTimeout {
		return "no answer in time"
	}
	text := err.Error()
	if at := strings.LastIndex(text, " script: "); at > 0 && strings.Contains(text[at:], "@user_script") {
		text = text[:at]
	}
	return text
}

// nameRight adds to the refusal of a command in a script which one it was, where
// the server tells only the line.
func nameRight(source string, err error) error {
	_, at, found := strings.Cut(err.Error(), "@user_script:")
	if !found {
		return err
	}
	line, convErr := strconv.Atoi(at[:len(at)-len(strings.TrimLeft(at, "0123456789"))])
	lines := strings.Split(source, "\n")
	if convErr != nil || line < 1 || line > len(lines) {
		return err
	}
	_, call, found := strings.Cut(lines[line-1], "call('")
	command, _, _ := strings.Cut(call, "'")
	if !found || command == "" {
		return err
	}
	return fmt.Errorf("NOPERM the right +%s is missing, or one to its keys%w", strings.ToLower(command), silentCause{err})
}

// silentCause is a cause that has been put into other words.
type silentCause struct{ error }

func (silentCause) Error() string   { return "" }
func (c silentCause) Unwrap() error { return c.error }
