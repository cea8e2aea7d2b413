package lock

import (
	"encoding/json"
	"errors"
	"path"
	"strings"
	"testing"
	"time"
	"unicode"
)

// Anybody who may write to Redis has a hand in what scripts reply. Whatever
// that is, it must be refused or come to something that can be told.

// FuzzScriptReplies has the parser of each script read each reply; in JSON,
// which has the kinds that replies have.
func FuzzScriptReplies(f *testing.F) {
	for _, reply := range []string{
		`1`, `-2`, `null`, `"OK"`, `[]`, `[1, "1790000000000000"]`, `[2]`, `[3, 4]`, `[4]`, `[5, 1500]`,
		`[0, 14000, "{\"host\":\"h\",\"pid\":1,\"label\":\"l\",\"slots\":1,\"since\":5,\"fence\":6}", "1790000000000", 2, 1, "token"]`,
		`[0, -1, "", "1790000000000", 0, 0, "token:revoked"]`,
		`[1, "1790000000000", "7", 1, ["token", 0, 14000, "{\"host\":\"h\",\"pid\":1}"], 2, ["1790000000000 1 1 15000 {\"host\":\"h\"}", ""]]`,
		`[2, "1790000000000", "", 2, ["a", 1, -1, "", "b", 2, 3, ""], 0, []]`,
		`[["{\"host\":\"h\",\"pid\":1,\"fence\":3}"], [["1790000000000-0", ["holder", "{\"fence\":2}", "end", "{\"how\":\"exited\",\"code\":3}", "lock", "1"]]]]`,
		`[[], [["1790000000000-0", ["holder", "{\"fence\":2}", "end", "", "lock", "0"]]]]`,
		`[1, 0, 14000]`, `[1, "2", -3]`,
	} {
		f.Add(reply)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var reply any
		if json.Unmarshal([]byte(text), &reply) != nil {
			return
		}
		reply = withIntegers(reply)
		if r, err := parseAcquireReply(reply); err == nil {
			if r.acquired && r.fence <= 0 || r.ahead < 0 {
				t.Errorf("%s: %+v", text, r)
			}
			checkHolder(t, r.holder)
			checkSpans(t, r.heldFor, r.remaining, r.young)
		}
		if s, err := parseSnapshot("n", reply); err == nil {
			checkSnapshot(t, s)
		}
		if holds, err := parseHistory(reply); err == nil {
			checkHistory(t, holds)
		}
		if r, err := parseRevocation(reply); err == nil {
			checkSpans(t, r.FreeIn)
		}
		if state, err := parseOwnership("renew", reply); err == nil && (state < revoked || state > ours) {
			t.Errorf("%s: %d", text, state)
		}
	})
}

// withIntegers has the whole numbers of JSON as replies have them.
func withIntegers(value any) any {
	switch v := value.(type) {
	case float64:
		return int64(v)
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = withIntegers(element)
		}
		return list
	}
	return value
}

func checkHolder(t *testing.T, h *Holder) {
	t.Helper()
	if h == nil {
		return
	}
	for _, text := range []string{h.Host, h.Command, h.Label} {
		if len(text) > maxHolderText || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("a terminal would get %q", text)
		}
	}
	if _, err := json.Marshal(h); err != nil {
		t.Error(err)
	}
}

func checkSpans(t *testing.T, spans ...time.Duration) {
	t.Helper()
	for _, span := range spans {
		if span < 0 && span != NoExpiry {
			t.Errorf("a time span of %v", span)
		}
	}
}

func checkSnapshot(t *testing.T, s Snapshot) {
	t.Helper()
	if s.Fence < 0 || s.State < StateFree || s.State > StateRevoked {
		t.Errorf("%+v", s)
	}
	checkSpans(t, s.Remaining)
	for _, h := range s.Holders {
		checkHolder(t, h.Holder)
		checkSpans(t, h.HeldFor, h.Remaining)
	}
	for _, w := range s.Waiters {
		checkHolder(t, w.Holder)
		checkSpans(t, w.Silent)
	}
}

func checkHistory(t *testing.T, holds []Hold) {
	t.Helper()
	for _, hold := range holds {
		checkHolder(t, &hold.Holder)
		checkHolder(t, &Holder{Host: hold.End.Signal, Command: hold.End.Reason, Label: string(hold.End.How)})
		length, _ := hold.Length()
		checkSpans(t, length, hold.Waited)
		for _, at := range []time.Time{hold.Since, hold.Until, hold.Found} {
			if _, err := json.Marshal(at); err != nil {
				t.Errorf("%v: %v", at, err)
			}
		}
	}
}

func FuzzParseSnapshot(f *testing.F) {
	f.Add(int64(1), "1790000000000", "7", "token", int64(0), int64(14000), `{"host":"h","pid":1,"slots":3,"since":5}`, `1790000000000 1 1 15000 {"host":"h"}`)
	f.Add(int64(2), "0", "", "sha1:00", int64(2), int64(-1), "", "")
	f.Add(int64(0), "x", "-1", "", int64(-1), int64(-9), "{}", "999999999999999 9 999999999999999 1 \x00")
	f.Fuzz(func(t *testing.T, kind int64, now, fence, name string, state, left int64, record, waiter string) {
		s, err := parseSnapshot("n", []any{kind, now, fence, int64(1), []any{name, state, left, record}, int64(1), []any{waiter}})
		if err != nil {
			return
		}
		checkSnapshot(t, s)
		if len(s.Holders) != 1 || len(s.Waiters) != 1 {
			t.Errorf("%d holders and %d waiters, want one of each", len(s.Holders), len(s.Waiters))
		}
	})
}

func FuzzParseHistory(f *testing.F) {
	const record = `{"host":"h","pid":1,"label":"l","slots":1,"since":1790000000000,"fence":7}`
	f.Add("1790000000000-0", record, `{"how":"exited","code":3,"held_ms":5,"waited_ms":6}`, "1")
	f.Add("1790000000000-1", record, "", "0")
	f.Add("9223372036854775807-0", `{"since":9223372036854775807}`, `{"how":"lost","reason":"\u001b[31m","held_ms":-1,"waited_ms":-1}`, "-1")
	f.Fuzz(func(t *testing.T, id, record, end, state string) {
		entry := []any{id, []any{"holder", record, "end", end, "lock", state}}
		holds, err := parseHistory([]any{[]any{record}, []any{entry, entry}})
		if err != nil {
			t.Fatal(err)
		}
		checkHistory(t, holds)
	})
}

func FuzzDecodeHolder(f *testing.F) {
	for _, record := range []string{
		`{"host":"h","pid":1,"command":"c","label":"l","slots":1,"since":5,"fence":6}`,
		`{"host":"h\u001b[31m","label":"\u202e\u0000"}`, `{"label":"` + strings.Repeat("é", 300) + `"}`, `{"pid":1e3}`, `[]`, `null`, `{`, "{\"host\":\"\xff\"}",
	} {
		f.Add(record)
	}
	f.Fuzz(func(t *testing.T, record string) {
		h := decodeHolder(record)
		checkHolder(t, h)
		if h == nil {
			return
		}
		text, err := h.encode()
		if err != nil {
			t.Fatal(err)
		}
		if len(text) < 2 || text[0] != '{' || text[len(text)-1] != '}' || text == "{}" {
			t.Errorf("the scripts can't add to the record %s", text)
		}
		again := decodeHolder(text)
		h.SinceMillis, h.Fence = 0, 0
		if again == nil || *again != *h {
			t.Errorf("%s: got %+v, want %+v", text, again, h)
		}
	})
}

// FuzzErrorReplies: a server, and each version of it, has words of its own.
func FuzzErrorReplies(f *testing.F) {
	for _, text := range []string{
		"NOPERM this user has no permissions", "ERR The user executing the script can't run this command or subcommand script: 0a, on @user_script:3.",
		"ERR Error running script (call to f_0a): @user_script:12: @user_script: 12: -READONLY You can't write", "OOM", "@user_script:99999999999999999999",
		"ERR x script: @user_script:1", "ASK 1 h:1", "",
	} {
		f.Add(text)
	}
	source := renewal.source()
	f.Fuzz(func(t *testing.T, text string) {
		reply := replyError(text)
		fault := classify(reply)
		if fault < FaultOther || fault > FaultReplicas {
			t.Errorf("%q is the fault %d", text, fault)
		}
		named := nameRight(source, reply)
		if !errors.Is(named, reply) {
			t.Errorf("%q: %v hides its cause", text, named)
		}
		if len(faultText(fault, named)) > len(named.Error())+len("no answer in time") {
			t.Errorf("%q grew to %q", text, faultText(fault, named))
		}
	})
}

// FuzzEscapeGlob: a prefix is no pattern. The syntax of patterns is that of
// path.Match, but for slashes.
func FuzzEscapeGlob(f *testing.F) {
	for _, text := range []string{"lock:report:", `a\b*c?d[e]f^`, "é", ""} {
		f.Add(text, text+"x")
	}
	f.Fuzz(func(t *testing.T, text, other string) {
		for _, name := range []string{text, other} {
			got, err := path.Match(escapeGlob(text), name)
			if err != nil || got != (name == text) {
				t.Errorf("%q matches %q: %v, %v", escapeGlob(text), name, got, err)
			}
		}
	})
}
