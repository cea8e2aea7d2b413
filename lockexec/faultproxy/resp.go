package faultproxy

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// errNotRESP says that bytes are not what Redis clients and servers send each other, or of a kind they do not use.
var errNotRESP = errors.New("not the Redis protocol")

// What Redis itself accepts at most.
const (
	maxElements = 1 << 20
	maxBulk     = 512 << 20
)

// stream holds the bytes that were read and not yet forwarded.
type stream struct {
	buf []byte
}

// fill reads more.
func (s *stream) fill(r io.Reader) error {
	s.buf = slices.Grow(s.buf, 16<<10)
	n, err := r.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	return err
}

// take removes the first n bytes and returns them. They stay as they are when the stream goes on.
func (s *stream) take(n int) []byte {
	b := s.buf[:n:n]
	s.buf = s.buf[n:]
	return b
}

// flushTo returns a function that removes all bytes and writes them.
func (s *stream) flushTo(w io.Writer) func() error {
	return func() error {
		_, err := w.Write(s.take(len(s.buf)))
		return err
	}
}

// parseCommand reads the request at the beginning of b, an array of bulk strings, and returns the number of bytes it
// has. Zero without an error means that the request is not complete.
func parseCommand(b []byte) (cmd []string, n int, err error) {
	if len(b) > 0 && b[0] != '*' {
		return nil, 0, errNotRESP
	}
	count, n, err := header(b)
	if n == 0 || err != nil {
		return nil, 0, err
	}
	if count < 1 || count > maxElements {
		return nil, 0, errNotRESP
	}
	for range count {
		if n < len(b) && b[n] != '$' {
			return nil, 0, errNotRESP
		}
		arg, size, err := bulk(b[n:])
		if size == 0 || err != nil {
			return nil, 0, err
		}
		cmd = append(cmd, string(arg))
		n += size
	}
	return cmd, n, nil
}

// replyLen returns the number of bytes of the reply or push message at the beginning of b, in either version of the
// protocol. Zero without an error means that it is not complete.
func replyLen(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	switch b[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		return bytes.IndexByte(b, '\n') + 1, nil
	case '$', '=', '!':
		_, n, err := bulk(b)
		return n, err
	case '*', '~', '>', '%', '|':
		return aggregateLen(b)
	}
	return 0, errNotRESP
}

func aggregateLen(b []byte) (int, error) {
	count, n, err := header(b)
	if n == 0 || err != nil {
		return 0, err
	}
	switch b[0] {
	case '%':
		count *= 2
	case '|': // attributes come before the value they belong to
		count = count*2 + 1
	}
	for range count {
		size, err := replyLen(b[n:])
		if size == 0 || err != nil {
			return 0, err
		}
		n += size
	}
	return n, nil
}

// bulk reads a string with its length in front. A null string is empty.
func bulk(b []byte) (text []byte, n int, err error) {
	size, n, err := header(b)
	if n == 0 || err != nil || size < 0 {
		return nil, n, err
	}
	if size > maxBulk {
		return nil, 0, errNotRESP
	}
	end := n + size + len("\r\n")
	if len(b) < end {
		return nil, 0, nil
	}
	if string(b[end-2:end]) != "\r\n" {
		return nil, 0, errNotRESP
	}
	return b[n : n+size], end, nil
}

// header reads a line of a type and a number, and returns the number of bytes it has. The number is -1 for null.
func header(b []byte) (value, n int, err error) {
	const longest = len("*-2147483648\r\n")
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		if len(b) > longest {
			return 0, 0, errNotRESP
		}
		return 0, 0, nil
	}
	digits, ok := bytes.CutSuffix(b[1:end], []byte("\r"))
	value, err = strconv.Atoi(string(digits))
	if !ok || err != nil || value < -1 || end > longest {
		return 0, 0, errNotRESP
	}
	return value, end + 1, nil
}

// ledger matches replies to requests: Redis answers in order, but also sends messages nobody asked for.
type ledger struct {
	owed       []owed
	subscribed bool // a subscribe command was sent, so arrays may be messages
}

// owed is what the server owes for one request.
type owed struct {
	drop          *rule // nil if the reply passes
	confirmations int   // one for each channel of a subscribe command, else 0
}

// sent notes that a request goes to the server and that drop, if not nil, is what happens to the reply.
func (g *ledger) sent(cmd []string, drop *rule) {
	o := owed{drop: drop}
	if isConfirmation(cmd[0]) {
		g.subscribed = true
		o.confirmations = max(1, len(cmd)-1)
	}
	g.owed = append(g.owed, o)
}

// received notes what came from the server, and returns the rule for it, if any.
func (g *ledger) received(b []byte) *rule {
	if len(g.owed) == 0 {
		return nil
	}
	first := &g.owed[0]
	if b[0] == '>' || b[0] == '*' && g.subscribed {
		switch kind := firstElement(b); {
		case isConfirmation(kind):
			if first.confirmations == 0 {
				return nil
			}
			if first.confirmations--; first.confirmations > 0 {
				return first.dropping()
			}
		case b[0] == '>' || kind == "message" || kind == "pmessage" || kind == "smessage":
			return nil
		}
	}
	drop := first.dropping()
	g.owed = g.owed[1:]
	return drop
}

// dropping returns the rule by which the reply is dropped, if it is still in force.
func (o *owed) dropping() *rule {
	if o.drop != nil {
		select {
		case <-o.drop.lifted:
			return nil
		default:
		}
	}
	return o.drop
}

// isConfirmation reports whether a command is answered once for each channel, by messages with the command's name.
func isConfirmation(name string) bool {
	switch strings.ToLower(name) {
	case "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe":
		return true
	}
	return false
}

// firstElement returns the first string of an array that is complete, or "".
func firstElement(b []byte) string {
	_, n, err := header(b)
	if err != nil || n >= len(b) || b[n] != '$' {
		return ""
	}
	text, _, _ := bulk(b[n:])
	return string(text)
}
