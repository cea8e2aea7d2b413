package lock

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKey is the longest key, and the longest prefix, in bytes.
const MaxKey = 512

// NameError says why a key or a prefix can't be part of a lock's name.
type NameError struct {
	Part   string // "key", "prefix", or "name" for the two joined
	Reason string // a clause that follows the part's name
}

func (e *NameError) Error() string { return e.Part + " " + e.Reason }

// Name joins prefix and key to the full name of a lock. A key has 1 to
// [MaxKey] bytes of UTF-8 without control characters and does not begin with
// a dash; a prefix may be empty. Braces must make a hash tag, as Redis Cluster
// defines it, or the lock and the keys beside it would fall into different
// slots. All errors are [*NameError].
func Name(prefix, key string) (string, error) {
	switch {
	case key == "":
		return "", &NameError{"key", "is empty"}
	case strings.HasPrefix(key, "-"):
		return "", &NameError{"key", fmt.Sprintf("%q begins with a dash, like a flag", key)}
	}
	for _, part := range []struct{ name, text string }{{"prefix", prefix}, {"key", key}} {
		if reason := badText(part.text); reason != "" {
			return "", &NameError{part.name, reason}
		}
	}
	name := prefix + key
	if _, tagged := hashTag(name); !tagged && strings.ContainsAny(name, "{}") {
		return "", &NameError{"name", fmt.Sprintf(
			"%q has braces that make no hash tag: use none, or one {tag} with text inside", name)}
	}
	return name, nil
}

func badText(s string) string {
	if len(s) > MaxKey {
		return fmt.Sprintf("has %d bytes, the limit is %d", len(s), MaxKey)
	}
	if !utf8.ValidString(s) {
		return "is not valid UTF-8"
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		return fmt.Sprintf("has a control character at byte %d", i)
	}
	return ""
}

// hashTag returns what Redis Cluster hashes of name instead of the whole: the
// text between the first brace and the first closing one after it, if there
// is any.
// Source: redis.io/docs, cluster specification, "Hash tags".
func hashTag(name string) (tag string, ok bool) {
	_, rest, found := strings.Cut(name, "{")
	if !found {
		return "", false
	}
	tag, _, found = strings.Cut(rest, "}")
	return tag, found && tag != ""
}

// beside returns the name of a key of the given kind that belongs to the lock:
// in the lock's slot, and outside of any pattern that lists locks. A name that
// has a hash tag goes with its length, or that of the lock {a} would be taken
// for that of a, and what follows it for a part of the name.
func beside(kind, name string) string {
	if _, tagged := hashTag(name); tagged {
		return "redlockrun:" + kind + ":" + strconv.Itoa(len(name)) + ":" + name
	}
	return "redlockrun:" + kind + ":{" + name + "}"
}

// doneKey names the success marker of an ID.
func doneKey(name, id string) string { return beside("done", name) + ":" + id }

// wakeKey names the list that a waiter listens to.
func wakeKey(name, token string) string { return beside("wake", name) + ":" + token }

// KeysBeside returns the names of all keys that may stand beside a lock, for
// who has held it, or waited for it, by these tokens; not those of its success
// markers.
func KeysBeside(name string, tokens ...string) []string {
	keys := []string{beside("fence", name), beside("holders", name), beside("queue", name), beside("waiters", name)}
	for _, token := range tokens {
		keys = append(keys, wakeKey(name, token))
	}
	return keys
}
