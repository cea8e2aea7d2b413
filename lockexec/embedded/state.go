package embedded

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// The state file holds the commands that make the state, in Redis's own protocol: first one that names the version of
// the format, then for each database SELECT and for each key one command (a stream: one for each entry) that writes its
// value and a PEXPIREAT when it expires, last the checksum of all before.
//
// Strings, hashes, lists, sets, sorted sets and streams come back as they were, but for these: a stream forgets the
// highest ID that it ever had when the entry with that ID was deleted, and an empty stream is gone. What the
// file could not hold, such as consumer groups, the server refuses to make; see refusal.
const (
	stateCommand = "REDLOCKRUN.STATE"
	stateVersion = "1"
	endCommand   = "REDLOCKRUN.END"
)

// stateCommands are those between the first and the last.
func stateCommands() []string {
	return []string{"SELECT", "SET", "HSET", "RPUSH", "SADD", "ZADD", "XADD", "PEXPIREAT"}
}

// databases is how many numbered databases there are.
const databases = 16

// store is an in-memory Redis whose keys expire with the clock.
type store struct {
	*miniredis.Miniredis
	dbs [databases]*miniredis.RedisDB // constant, as SWAPDB is refused
}

func newStore() (*store, error) {
	s := &store{Miniredis: miniredis.NewMiniRedis()}
	// The first connection is what starts a server without a listener of its own.
	first, err := s.Dial()
	if err != nil {
		return nil, err
	}
	if err := first.Close(); err != nil {
		return nil, err
	}
	s.ClockTTL(true)
	for i := range s.dbs {
		s.dbs[i] = s.DB(i)
	}
	return s, nil
}

// expire removes the keys whose time has come, in all databases.
func (s *store) expire() { s.DB(0) }

// encode returns the state. No command that may write may run meanwhile, but for one that pops from a list.
func (s *store) encode() []byte {
	s.expire()
	state := appendCommand(nil, stateCommand, stateVersion)
	for i, db := range s.dbs {
		keys := db.Keys()
		if len(keys) > 0 {
			state = appendCommand(state, "SELECT", strconv.Itoa(i))
		}
		for _, key := range keys {
			state = appendKey(state, db, key)
		}
	}
	return appendCommand(state, endCommand, checksum(state))
}

// appendKey appends the commands that make one key, or none when the key went away (or became empty) meanwhile.
func appendKey(state []byte, db *miniredis.RedisDB, key string) []byte {
	before := len(state)
	switch db.Type(key) {
	case "string":
		if value, err := db.Get(key); err == nil {
			state = appendCommand(state, "SET", key, value)
		}
	case "hash":
		fields, _ := db.HKeys(key)
		state = appendMany(state, "HSET", key, len(fields), func(i int) []string { return []string{fields[i], db.HGet(key, fields[i])} })
	case "list":
		values, _ := db.List(key)
		state = appendMany(state, "RPUSH", key, len(values), func(i int) []string { return values[i : i+1] })
	case "set":
		members, _ := db.Members(key)
		state = appendMany(state, "SADD", key, len(members), func(i int) []string { return members[i : i+1] })
	case "zset":
		scores, _ := db.SortedSet(key)
		members := make([]string, 0, len(scores))
		for member := range scores {
			members = append(members, member)
		}
		slices.Sort(members)
		state = appendMany(state, "ZADD", key, len(members), func(i int) []string {
			return []string{strconv.FormatFloat(scores[members[i]], 'g', -1, 64), members[i]}
		})
	case "stream":
		entries, _ := db.Stream(key)
		for _, entry := range entries {
			state = appendCommand(state, "XADD", append([]string{key, entry.ID}, entry.Values...)...)
		}
	}
	if ttl := db.TTL(key); ttl > 0 && len(state) > before {
		state = appendCommand(state, "PEXPIREAT", key, strconv.FormatInt(expiryMillis(time.Now(), ttl), 10))
	}
	return state
}

// expiryMillis returns when a key expires, in ms since 1970 by the wall clock, rounded up: a lock must not end early.
func expiryMillis(now time.Time, ttl time.Duration) int64 {
	at := now.Add(ttl)
	if millis := at.UnixMilli(); at.Equal(time.UnixMilli(millis)) {
		return millis
	}
	return at.UnixMilli() + 1
}

// appendMany appends one command with the arguments of n elements, or nothing when n is 0.
func appendMany(state []byte, command, key string, n int, element func(i int) []string) []byte {
	if n == 0 {
		return state
	}
	args := append(make([]string, 0, 1+2*n), key)
	for i := range n {
		args = append(args, element(i)...)
	}
	return appendCommand(state, command, args...)
}

func appendCommand(b []byte, command string, args ...string) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(len(args)+1), 10)
	b = append(b, "\r\n"...)
	b = appendBulk(b, command)
	for _, arg := range args {
		b = appendBulk(b, arg)
	}
	return b
}

func appendBulk(b []byte, s string) []byte {
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, "\r\n"...)
	b = append(b, s...)
	return append(b, "\r\n"...)
}

func checksum(state []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(state, crc32.MakeTable(crc32.Castagnoli)))
}

var errDamaged = errors.New("it is damaged")

// restore gives s, which must be empty, the state that was encoded, without what has expired since. It returns an
// error that wraps errDamaged when the state is not whole.
func (s *store) restore(state []byte) error {
	body := len(state) - len(appendCommand(nil, endCommand, checksum(nil)))
	if body < 0 || !bytes.Equal(state[body:], appendCommand(nil, endCommand, checksum(state[:body]))) {
		return fmt.Errorf("%w: its checksum does not fit", errDamaged)
	}
	commands := bufio.NewReader(bytes.NewReader(state[:body]))
	if first, err := readCommand(commands); err != nil || !slices.Equal(first, []string{stateCommand, stateVersion}) {
		return fmt.Errorf("it was written by another version of this program (it begins with %q)", strings.Join(first, " "))
	}
	var reply bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&reply))
	for {
		args, err := readCommand(commands)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
		if !slices.Contains(stateCommands(), args[0]) {
			return fmt.Errorf("%w: it has the command %.20q", errDamaged, args[0])
		}
		reply.Reset()
		s.Server().Dispatch(peer, args)
		peer.Flush()
		if reply.Len() == 0 || reply.Bytes()[0] == '-' {
			return fmt.Errorf("%w: %s: %s", errDamaged, args[0], bytes.TrimSpace(reply.Bytes()))
		}
	}
}

// count returns the number of keys, and of the locks that are held: the keys, but for the tool's own records, that have
// a time to live.
func (s *store) count() (keys, locks int) {
	s.expire()
	for _, db := range s.dbs {
		for _, key := range db.Keys() {
			keys++
			if !strings.HasPrefix(key, ownPrefix) && db.TTL(key) > 0 {
				locks++
			}
		}
	}
	return keys, locks
}
