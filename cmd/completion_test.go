//go:build linux

package cmd_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// bashCompletion is where Debian's package of that name is.
const bashCompletion = "/usr/share/bash-completion/bash_completion"

func TestBashCompletesWithTheTabKey(t *testing.T) {
	s := startCompletingShell(t, nil)
	for name, mode := range map[string]os.FileMode{"rlr-tool-of-mine": 0o755, "certificate.pem": 0o644} {
		if err := os.WriteFile(s.dir+"/"+name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ typed, rest string }{
		{"redlockrun rele", "ase "},
		{"redlockrun --key k --on-lost w", "arn "},
		{"redlockrun --key k --on-lost=w", "arn "},
		{"redlockrun --key k --lefto", "vers "},
		{"redlockrun --key k --redis redis:", "//"},
		{"redlockrun --key k --tls-ca cert", "ificate.pem "},
		{"redlockrun --key k -- rlr-to", "ol-of-mine "},
		{"redlockrun --key k -- cat --number cert", "ificate.pem "},
	} {
		s.completes(tc.typed, tc.rest)
	}
}

// A colon ends a word for bash, unless it is told otherwise.
func TestBashCompletesKeysOfLocks(t *testing.T) {
	server := terminalServer(t)
	s := startCompletingShell(t, server)
	s.types("for k in client_123 build:linux:arm build:darwin; do redlockrun acquire $k --ttl 1h; done >tokens; echo took=$?")
	s.expect("^took=0")
	s.prompt()
	for name, value := range map[string]string{"a=b": "v", "cost $(touch ran)": "v", "cost $HOME": "v", "cost `touch ran`": "v", "-x": "v"} {
		server.Client(t).Set(t.Context(), "lock:report:"+name, value, 0)
	}
	s.types("REDIS=$REDIS_URL; unset REDIS_URL")
	s.prompt()
	for _, tc := range []struct{ typed, rest string }{
		{"redlockrun -r $REDIS --key cli", "ent_123 "},
		{"redlockrun -r $REDIS --key=cli", "ent_123 "},
		{"redlockrun -r $REDIS -k bu", "ild:"},
		{"redlockrun -r $REDIS -k build:l", "inux:arm "},
		{"redlockrun status -r $REDIS build:linux:", "arm "},
		{"redlockrun status -r $REDIS build:", ""},
		{"redlockrun release -r $REDIS --force bu", "ild:"},
		{"redlockrun -r $REDIS --key=build:d", "arwin "},
		{"redlockrun status -r $REDIS cost", ""},
		{"redlockrun status --redis=$REDIS cli", "ent_123 "},
		{"redlockrun status cli", ""}, // nothing listens there
	} {
		s.completes(tc.typed, tc.rest)
	}
	if _, err := os.Stat(s.dir + "/ran"); err == nil {
		t.Error("the shell has run the name of a lock")
	}
}

func startCompletingShell(t *testing.T, server *redistest.Server) *shell {
	t.Helper()
	if _, err := os.Stat(bashCompletion); err != nil {
		t.Skip("needs the package bash-completion")
	}
	s := startShell(t, server)
	s.types("PATH=$PWD:$PATH; bind 'set bell-style none'; bind 'set enable-bracketed-paste off'")
	s.prompt()
	s.types("source " + bashCompletion + " && source <(redlockrun completion bash); echo loaded=$?")
	s.expect("^loaded=0")
	s.prompt()
	return s
}

// completes types something and the tab key, and expects the rest of it to
// appear, and then nothing but what is typed next.
func (s *shell) completes(typed, rest string) {
	s.t.Helper()
	s.keys(typed + "\t#")
	s.expect(regexp.QuoteMeta(typed+rest+"#") + "$")
	// A key of the line editor, not ^C: a signal can come in the midst of
	// the completion, and is lost there.
	s.keys("\x15")
	s.types("echo erased")
	s.expect("^erased")
	s.prompt()
}
