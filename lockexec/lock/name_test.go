package lock

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNameJoinsPrefixAndKey(t *testing.T) {
	for _, tc := range []struct{ prefix, key, want string }{
		{"lock:report:", "client_123", "lock:report:client_123"},
		{"", "k", "k"},
		{"p:", strings.Repeat("k", MaxKey), "p:" + strings.Repeat("k", MaxKey)},
		{"p:", "naïve ключ 鍵", "p:naïve ключ 鍵"},
		{"p:", "with {tag} inside", "p:with {tag} inside"},
		{"{app}:", "k", "{app}:k"},
		{"p:", "a{b}c}d", "p:a{b}c}d"}, // the first tag counts
	} {
		got, err := Name(tc.prefix, tc.key)
		if err != nil || got != tc.want {
			t.Errorf("Name(%q, %q) = %q, %v, want %q", tc.prefix, tc.key, got, err, tc.want)
		}
	}
}

func TestNameRefusesWhatCannotBeALock(t *testing.T) {
	for _, tc := range []struct{ prefix, key, part string }{
		{"p:", "", "key"},
		{"p:", "-k", "key"},
		{"p:", "--", "key"},
		{"p:", strings.Repeat("k", MaxKey+1), "key"},
		{strings.Repeat("p", MaxKey+1), "k", "prefix"},
		{"p:", "line\nbreak", "key"},
		{"p:", "nul\x00", "key"},
		{"p:", "escape\x1b[31m", "key"},
		{"p:", "c1\u0085", "key"},
		{"p\t", "k", "prefix"},
		{"p:", "bad\xff", "key"},
		{"p:", "{}", "name"},
		{"p:", "a}b{c", "name"},
		{"p:", "a{b", "name"},
		{"p:", "a}", "name"},
		{"p{", "}", "name"}, // an empty tag, made of two parts
	} {
		_, err := Name(tc.prefix, tc.key)
		bad, ok := errors.AsType[*NameError](err)
		if !ok || bad.Part != tc.part {
			t.Errorf("Name(%q, %q) = %v, want a *NameError about the %s", tc.prefix, tc.key, err, tc.part)
		}
	}
}

func TestKeysBesideALockShareItsHashTag(t *testing.T) {
	got := []string{
		beside("fence", "lock:report:client_123"),
		beside("fence", "lock:{tag}:x"),
	}
	want := []string{
		"redlockrun:fence:{lock:report:client_123}",
		"redlockrun:fence:12:lock:{tag}:x",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// hashed is what Redis Cluster takes the slot of.
func hashed(key string) string {
	if tag, ok := hashTag(key); ok {
		return tag
	}
	return key
}

func FuzzName(f *testing.F) {
	for _, key := range []string{"client_123", "{a}", "a{b}c", "{}", "}{", "a{}{b}", "-x", "\x7f", "é"} {
		f.Add("lock:report:", key)
		f.Add("", key)
	}
	f.Fuzz(func(t *testing.T, prefix, key string) {
		name, err := Name(prefix, key)
		if err != nil {
			return
		}
		if name != prefix+key {
			t.Errorf("Name(%q, %q) = %q", prefix, key, name)
		}
		for _, kind := range []string{"fence", "holders"} {
			if b := beside(kind, name); hashed(b) != hashed(name) {
				t.Errorf("%q hashes %q, but %q hashes %q", name, hashed(name), b, hashed(b))
			}
		}
	})
}

// FuzzKeysBeside: what stands beside a lock is listed by no pattern for locks,
// and belongs to no other lock.
func FuzzKeysBeside(f *testing.F) {
	f.Add("lock:report:a", "lock:report:b", "id")
	f.Add("{a}", "{{a}", ":id")
	f.Add("a", "{a}", "")
	f.Add("{a}", "{a}:x", "i")
	f.Add("{a}:x", "a", "i")
	f.Fuzz(func(t *testing.T, a, b, id string) {
		first, err1 := Name("", a)
		second, err2 := Name("", b)
		if err1 != nil || err2 != nil || first == second {
			return
		}
		theirs := append(KeysBeside(second, id), doneKey(second, id), beside("history", second))
		for _, key := range append(KeysBeside(first, id), doneKey(first, id), beside("history", first)) {
			if !strings.HasPrefix(key, "redlockrun:") {
				t.Errorf("%q is listed with the locks", key)
			}
			if slices.Contains(theirs, key) {
				t.Errorf("%q belongs to both %q and %q", key, first, second)
			}
		}
		// Those of the success markers are found by what they begin with.
		if strings.HasPrefix(doneKey(second, id), doneKey(first, "")) {
			t.Errorf("%q would be listed with the success markers of %q", doneKey(second, id), first)
		}
	})
}
