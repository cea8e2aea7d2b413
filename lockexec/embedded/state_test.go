package embedded

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// newRedis returns a server without a listener, and what executes a command on it.
func newRedis(t testing.TB) (*store, func(args ...string) string) {
	t.Helper()
	s, err := newStore()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	var reply bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&reply))
	return s, func(args ...string) string {
		reply.Reset()
		s.Server().Dispatch(peer, args)
		peer.Flush()
		return reply.String()
	}
}

func TestExpiryIsNeverEarly(t *testing.T) {
	now := time.UnixMilli(1000).Add(400 * time.Microsecond)
	for ttl, want := range map[time.Duration]int64{
		600 * time.Microsecond: 1001, 601 * time.Microsecond: 1002, time.Nanosecond: 1001, 10 * time.Second: 11001,
	} {
		if got := expiryMillis(now, ttl); got != want {
			t.Errorf("%v: got %d ms, want %d", ttl, got, want)
		}
	}
}

// The same state must always be the same bytes, or each command that changes nothing would cost a write.
func TestStateOfNoChangeIsTheSame(t *testing.T) {
	s, do := newRedis(t)
	for i := range 50 {
		do("HSET", "hash", fmt.Sprint("field", i), "v")
		do("SADD", "set", fmt.Sprint("member", i))
		do("ZADD", "zset", "1", fmt.Sprint("member", i))
	}
	first := s.encode()
	if again := s.encode(); !bytes.Equal(first, again) {
		t.Errorf("got\n%q, want\n%q", again, first)
	}
}

func TestStateOfAnotherVersionIsNotTouched(t *testing.T) {
	s, _ := newRedis(t)
	state := appendCommand(nil, stateCommand, "2")
	state = appendCommand(state, endCommand, checksum(state))
	if err := s.restore(state); err == nil || errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "another version") {
		t.Errorf("got %v", err)
	}
}

func FuzzRestoreOfEncodedString(f *testing.F) {
	f.Add("key", "value")
	f.Add("", "")
	f.Add("\r\n$1\r\n", "\x00\xff")
	f.Fuzz(func(t *testing.T, key, value string) {
		s, do := newRedis(t)
		do("SET", key, value)
		do("HSET", key+"h", value, key)
		do("RPUSH", key+"l", value, key)
		state := s.encode()
		restored, _ := newRedis(t)
		if err := restored.restore(state); err != nil {
			t.Fatal(err)
		}
		if again := restored.encode(); !bytes.Equal(again, state) {
			t.Errorf("got %q, want %q", again, state)
		}
	})
}

// sealedState is a state of commands, with the checksum that it must have.
func sealedState(commands []byte) []byte {
	state := append(appendCommand(nil, stateCommand, stateVersion), commands...)
	return appendCommand(state, endCommand, checksum(state))
}

// A state file is no script: what is in it only sets keys.
func TestAStateOfOtherCommandsIsRefused(t *testing.T) {
	for _, command := range [][]string{
		{"EVAL", "return 1", "0"}, {"FLUSHALL"}, {"DBSIZE"}, {"MULTI"}, {"set", "k", "v"},
	} {
		s, _ := newRedis(t)
		if err := s.restore(sealedState(appendCommand(nil, command[0], command[1:]...))); !errors.Is(err, errDamaged) {
			t.Errorf("%q: got %v, want that it is damaged", command, err)
		}
	}
}

// FuzzRestore: a state that is taken is the same when it is written again, and
// no other has any effect but an error.
func FuzzRestore(f *testing.F) {
	s, do := newRedis(f)
	do("SET", "lock:report:k", "token")
	do("PEXPIRE", "lock:report:k", "1000000000")
	do("HSET", "h", "f", "v")
	do("ZADD", "z", "1.5", "m")
	do("RPUSH", "l", "a", "b")
	do("SADD", "s", "a")
	do("XADD", "x", "5-1", "f", "v")
	begin, end := len(appendCommand(nil, stateCommand, stateVersion)), len(appendCommand(nil, endCommand, checksum(nil)))
	whole := s.encode()
	f.Add(whole[begin : len(whole)-end])
	f.Add([]byte{})
	f.Add(appendCommand(nil, "SELECT", "99"))
	f.Add(appendCommand(nil, "PEXPIREAT", "k", "-1"))
	f.Add(appendCommand(nil, "BLPOP", "k", "0"))
	f.Add(append(appendCommand(nil, "SET", "k", "v"), appendCommand(nil, "RPUSH", "k", "v")...))
	f.Add([]byte("*2\r\n$3\r\nSET\r\n"))
	f.Fuzz(func(t *testing.T, commands []byte) {
		s, _ := newRedis(t)
		if err := s.restore(sealedState(commands)); err != nil {
			return
		}
		state := s.encode()
		again, _ := newRedis(t)
		if err := again.restore(state); err != nil {
			t.Fatalf("%q was taken, but not %q: %v", commands, state, err)
		}
		forgetExpiries(s) // which are rounded, each time
		forgetExpiries(again)
		if state, written := s.encode(), again.encode(); !bytes.Equal(written, state) {
			t.Errorf("%q became %q", state, written)
		}
	})
}

func forgetExpiries(s *store) {
	for _, db := range s.dbs {
		for _, key := range db.Keys() {
			db.SetTTL(key, 0)
		}
	}
}

func FuzzReadCommand(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"))
	f.Add([]byte("*0\r\n*-1\r\n"))
	f.Add([]byte("*1\r\n$99999999999\r\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		r := bufio.NewReader(bytes.NewReader(input))
		for {
			args, err := readCommand(r)
			if err != nil {
				return
			}
			if len(args) == 0 {
				t.Fatal("a command without a name")
			}
			again, err := readCommand(bufio.NewReader(bytes.NewReader(appendCommand(nil, args[0], args[1:]...))))
			if err != nil || !slices.Equal(again, args) {
				t.Fatalf("got %q (%v), want %q", again, err, args)
			}
		}
	})
}

func TestReadCommandTellsAnEndFromACut(t *testing.T) {
	for input, want := range map[string]error{
		"":                       io.EOF,
		"*0\r\n":                 io.EOF,
		"*1\r\n":                 io.ErrUnexpectedEOF,
		"*1\r\n$4\r\nPI":         io.ErrUnexpectedEOF,
		"*1":                     io.ErrUnexpectedEOF,
		"PING\r\n":               errProtocol,
		"*1\r\n$-1\r\n":          errProtocol,
		"*1\r\n$4\r\nPINGPONG\r": errProtocol,
	} {
		if args, err := readCommand(bufio.NewReader(strings.NewReader(input))); !errors.Is(err, want) {
			t.Errorf("%q: got %q, %v; want %v", input, args, err, want)
		}
	}
}

// BenchmarkSave is what a command that changes something costs beside its execution, with so many keys that expire.
func BenchmarkSave(b *testing.B) {
	for _, keys := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			s, do := newRedis(b)
			for i := range keys {
				do("SET", fmt.Sprintf("lock:report:client_%d", i), "0b7e6d3c-9c1f-4f0a-8a55-1f6d1f6f2f10", "EX", "3600")
			}
			folder, err := os.OpenRoot(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			defer folder.Close()
			j := journal{folder: folder, copy: s.encode}
			b.ReportAllocs()
			for i := range b.N {
				do("SET", "counter", fmt.Sprint(i))
				j.begun.Add(1)
				if err := j.commit(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(j.last)), "bytes")
		})
	}
}
