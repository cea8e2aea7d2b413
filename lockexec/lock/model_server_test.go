package lock

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	resp "github.com/alicebob/miniredis/v2/server"
)

// The server of the model is the embedded one, with a clock that stands still.
// It has no state of its own between two steps: each begins with a dump that is
// put in and ends with one that is taken out.

// epoch is when every run of the model begins, ms: a number of 13 digits, so
// that all times that a script writes can be told from other numbers.
const epoch = int64(1_700_000_000_000)

// dump is all that a server has. It is not changed once it is made.
type dump struct {
	entries []dumpEntry
	sum     [16]byte // of all of it, times as they are
}

type dumpEntry struct {
	key, kind string
	fields    []string // of a sorted set: member and score in turn
	ends      int64    // ms, 0 never
}

// present reports whether the entry still exists at that time.
func (e dumpEntry) present(now int64) bool { return e.ends == 0 || e.ends > now }

func (d *dump) find(key string, now int64) (dumpEntry, bool) {
	for _, e := range d.entries {
		if e.key == key && e.present(now) {
			return e, true
		}
	}
	return dumpEntry{}, false
}

// without returns the dump less one key.
func (d *dump) without(key string) *dump {
	return newDump(slices.DeleteFunc(slices.Clone(d.entries), func(e dumpEntry) bool { return e.key == key }))
}

// with returns the dump with one entry more, or another one.
func (d *dump) with(entry dumpEntry) *dump {
	entries := append(d.without(entry.key).entries, entry)
	slices.SortFunc(entries, func(a, b dumpEntry) int { return strings.Compare(a.key, b.key) })
	return newDump(entries)
}

func newDump(entries []dumpEntry) *dump {
	var b bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&b, "%s\x00%s\x00%d\x00%s\x00", e.key, e.kind, e.ends, strings.Join(e.fields, "\x00"))
	}
	sum := sha256.Sum256(b.Bytes())
	return &dump{entries: entries, sum: [16]byte(sum[:16])}
}

func (d *dump) describe(now int64) string {
	var b strings.Builder
	for _, e := range d.entries {
		if e.present(now) {
			fmt.Fprintf(&b, "    %s %s %q ends in %d\n", e.key, e.kind, e.fields, e.ends-now)
		}
	}
	return b.String()
}

// modelServer runs scripts on dumps, and remembers what came of it.
type modelServer struct {
	redis *miniredis.Miniredis
	reply bytes.Buffer
	peer  *resp.Peer
	up    int64 // seconds that INFO tells
	known map[question]outcome
	runs  int // that the server has made
	asked int // those that were known included
}

type outcome struct {
	after *dump
	reply any
	err   error
}

func newModelServer() (*modelServer, error) {
	s := &modelServer{redis: miniredis.NewMiniRedis(), known: map[question]outcome{}}
	conn, err := s.redis.Dial() // starts it, without a listener
	if err != nil {
		return nil, err
	}
	if err := conn.Close(); err != nil {
		return nil, err
	}
	s.peer = resp.NewPeer(bufio.NewWriter(&s.reply))
	// It does not know that section of INFO.
	s.redis.Server().SetPreHook(func(peer *resp.Peer, cmd string, args ...string) bool {
		if cmd != "INFO" {
			return false
		}
		peer.WriteBulk(fmt.Sprintf("# Server\r\nuptime_in_seconds:%d\r\n", s.up))
		return true
	})
	return s, nil
}

// command is what a server is sent, with a name of its own.
type command struct {
	words []string
	id    int
}

// question is all that an outcome depends on.
type question struct {
	before  [16]byte
	now, up int64
	command int
}

// run lets the server that has before execute one command at that time.
func (s *modelServer) run(before *dump, now, up int64, c command) outcome {
	s.asked++
	key := question{before.sum, now, up, c.id}
	if known, ok := s.known[key]; ok {
		return known
	}
	s.runs++
	s.up = up
	s.load(before, now)
	var o outcome
	o.reply, o.err = s.do(c.words...)
	o.after = s.dump(now)
	s.known[key] = o
	return o
}

func (s *modelServer) do(words ...string) (any, error) {
	s.reply.Reset()
	s.redis.Server().Dispatch(s.peer, words)
	s.peer.Flush()
	return parseReply(bufio.NewReader(&s.reply))
}

// parseReply returns a reply as the client of package redis would.
func parseReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	text := strings.TrimRight(line[1:], "\r\n")
	switch line[0] {
	case '-':
		return nil, fmt.Errorf("the server replies %s", text)
	case ':':
		return strconv.ParseInt(text, 10, 64)
	case '$', '*':
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, err
		}
		if line[0] == '$' {
			bulk := make([]byte, n+2)
			for read := 0; read < len(bulk); {
				more, err := r.Read(bulk[read:])
				if err != nil {
					return nil, err
				}
				read += more
			}
			return string(bulk[:n]), nil
		}
		list := make([]any, n)
		for i := range list {
			if list[i], err = parseReply(r); err != nil {
				return nil, err
			}
		}
		return list, nil
	default:
		return text, nil
	}
}

func (s *modelServer) load(d *dump, now int64) {
	s.redis.FlushAll()
	s.redis.SetTime(time.UnixMilli(now))
	db := s.redis.DB(0)
	for _, e := range d.entries {
		if !e.present(now) {
			continue
		}
		switch e.kind {
		case "string":
			_ = db.Set(e.key, e.fields[0])
		case "hash":
			db.HSet(e.key, e.fields...)
		case "list":
			_, _ = db.Push(e.key, e.fields...)
		case "zset":
			for i := 0; i < len(e.fields); i += 2 {
				score, _ := strconv.ParseFloat(e.fields[i+1], 64)
				_, _ = db.ZAdd(e.key, score, e.fields[i])
			}
		}
		if e.ends != 0 {
			db.SetTTL(e.key, time.Duration(e.ends-now)*time.Millisecond)
		}
	}
}

func (s *modelServer) dump(now int64) *dump {
	db := s.redis.DB(0)
	var entries []dumpEntry
	for _, key := range db.Keys() {
		e := dumpEntry{key: key, kind: db.Type(key)}
		switch e.kind {
		case "string":
			value, _ := db.Get(key)
			e.fields = []string{value}
		case "hash":
			fields, _ := db.HKeys(key)
			for _, field := range fields {
				e.fields = append(e.fields, field, db.HGet(key, field))
			}
		case "list":
			e.fields, _ = db.List(key)
		case "zset":
			members, _ := db.ZMembers(key)
			for _, member := range members {
				score, _ := db.ZScore(key, member)
				e.fields = append(e.fields, member, strconv.FormatFloat(score, 'f', -1, 64))
			}
		default:
			panic("a " + e.kind + " is not expected of any script")
		}
		if ttl := db.TTL(key); ttl != 0 {
			e.ends = now + ttl.Milliseconds()
		}
		entries = append(entries, e)
	}
	return newDump(entries)
}
