package faultproxy

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestParseCommand(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     []string
		rest     string
	}{
		{name: "nothing"},
		{name: "whole", in: "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", want: []string{"GET", "k"}},
		{name: "next one follows", in: "*1\r\n$4\r\nPING\r\n*1\r\n", want: []string{"PING"}, rest: "*1\r\n"},
		{name: "any bytes", in: "*2\r\n$4\r\nECHO\r\n$6\r\n\r\n$1\r\n\r\n", want: []string{"ECHO", "\r\n$1\r\n"}},
		{name: "empty argument", in: "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", want: []string{"ECHO", ""}},
		{name: "no end of header", in: "*2", rest: "*2"},
		{name: "no end of argument", in: "*1\r\n$4\r\nPING", rest: "*1\r\n$4\r\nPING"},
		{name: "argument missing", in: "*2\r\n$3\r\nGET\r\n", rest: "*2\r\n$3\r\nGET\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd, n, err := parseCommand([]byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, cmd); n > 0 && diff != "" {
				t.Errorf("command (-want +got):\n%s", diff)
			}
			if got := test.in[n:]; got != test.rest {
				t.Errorf("got rest %q, want %q", got, test.rest)
			}
		})
	}
}

func TestParseCommandRefusesOtherProtocols(t *testing.T) {
	for _, in := range []string{
		"PING\r\n",
		"\x16\x03\x01",
		"*x\r\n",
		"*0\r\n",
		"*-1\r\n",
		"*1\n",
		"*99999999\r\n",
		"*1\r\n+PING\r\n",
		"*1\r\n$3\r\nPING\r\n",
		"*1\r\n$9999999999\r\n",
		"*" + strings.Repeat("1", 100),
	} {
		if cmd, n, err := parseCommand([]byte(in)); err == nil {
			t.Errorf("%q: got command %q of %d bytes, want an error", in, cmd, n)
		}
	}
}

func TestReplyLenOfEachType(t *testing.T) {
	for _, reply := range []string{
		"+OK\r\n",
		"-ERR no\r\n",
		":1\r\n",
		"$-1\r\n",
		"$0\r\n\r\n",
		"$5\r\na\r\nbc\r\n",
		"*-1\r\n",
		"*0\r\n",
		"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
		"_\r\n",
		"#t\r\n",
		",1.5\r\n",
		"(123\r\n",
		"!5\r\nERR x\r\n",
		"=7\r\ntxt:abc\r\n",
		"%1\r\n+a\r\n:1\r\n",
		"~1\r\n+a\r\n",
		">2\r\n+a\r\n+b\r\n",
		"|1\r\n+a\r\n+b\r\n:7\r\n",
	} {
		n, err := replyLen([]byte(reply + "+next\r\n"))
		if n != len(reply) || err != nil {
			t.Errorf("%q: got %d, %v; want %d", reply, n, err, len(reply))
		}
		for cut := range len(reply) {
			if n, err := replyLen([]byte(reply[:cut])); n != 0 || err != nil {
				t.Errorf("%q: got %d, %v; want 0 for an incomplete reply", reply[:cut], n, err)
			}
		}
	}
	for _, in := range []string{"HTTP/1.1 400\r\n", "$x\r\n", "$1\r\nabc\r\n", "*1\r\n?\r\n"} {
		if n, err := replyLen([]byte(in)); err == nil {
			t.Errorf("%q: got %d, want an error", in, n)
		}
	}
}

func TestLedgerFindsTheReplyOfARequest(t *testing.T) {
	const (
		message    = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n"
		push       = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n"
		subscribed = ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
		ok         = "+OK\r\n"
		refused    = "-NOPERM no\r\n"
	)
	for _, test := range []struct {
		name     string
		requests string // commands, of which DROP is the one whose reply to drop
		replies  []string
		want     int // index of the reply found to be the dropped one's
	}{
		{"alone", "DROP", []string{ok}, 0},
		{"after others", "GET;GET;DROP;GET", []string{ok, ok, ok, ok}, 2},
		{"after pushes", "DROP", []string{push, push, ok}, 2},
		{"after messages", "SUBSCRIBE c;DROP", []string{"*" + subscribed[1:], message, ok}, 2},
		{"like a message, without a subscription", "DROP", []string{message}, 0},
		{"after several confirmations", "SUBSCRIBE a b c;DROP", []string{subscribed, subscribed, subscribed, ok}, 3},
		{"after a refused subscription", "SUBSCRIBE a b c;DROP", []string{refused, ok}, 1},
		{"after an unsubscription from all", "UNSUBSCRIBE;DROP", []string{subscribed, subscribed, ok}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			var g ledger
			drop := newRule(rule{})
			for line := range strings.SplitSeq(test.requests, ";") {
				cmd := strings.Fields(line)
				if cmd[0] == "DROP" {
					g.sent(cmd, drop)
				} else {
					g.sent(cmd, nil)
				}
			}
			got := -1
			for i, reply := range test.replies {
				if r := g.received([]byte(reply)); r == drop {
					got = i
				} else if r != nil {
					t.Errorf("reply %d has an unknown rule", i)
				}
			}
			if got != test.want {
				t.Errorf("got reply %d, want %d", got, test.want)
			}
		})
	}
}

// Whatever comes, and in whichever pieces, the bytes forwarded are those received.
func FuzzRequestsAreForwardedUnchanged(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n"))
	f.Add([]byte("*1\r\n$4\r\nPING\r\nGET k\r\n"))
	f.Add([]byte("*1\r\n$400000000\r\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		whole, wholeCmds := forward(input, false)
		if !bytes.Equal(whole, input) {
			t.Errorf("got %q, want %q", whole, input)
		}
		pieces, pieceCmds := forward(input, true)
		if !bytes.Equal(pieces, input) {
			t.Errorf("byte by byte: got %q, want %q", pieces, input)
		}
		if diff := cmp.Diff(wholeCmds, pieceCmds); diff != "" {
			t.Errorf("commands differ when they come byte by byte:\n%s", diff)
		}
	})
}

// forward reads input as a link does and returns all bytes and the commands.
func forward(input []byte, byByte bool) (out []byte, cmds [][]string) {
	var s stream
	src := iotest.DataErrReader(bytes.NewReader(input))
	if byByte {
		src = iotest.OneByteReader(src)
	}
	raw := false
	for {
		end := s.fill(src)
		for !raw {
			cmd, n, err := parseCommand(s.buf)
			raw = err != nil
			if n == 0 {
				break
			}
			cmds = append(cmds, cmd)
			out = append(out, s.take(n)...)
		}
		if raw || end != nil {
			out = append(out, s.take(len(s.buf))...)
		}
		if end != nil {
			return out, cmds
		}
	}
}
