//go:build linux

package cmd_test

import (
	"os"
	"regexp"
	"testing"
)

// bashCompletion is where Debian's package of that name is.
const bashCompletion = "/usr/share/bash-completion/bash_completion"

func TestBashCompletesWithTheTabKey(t *testing.T) {
	if _, err := os.Stat(bashCompletion); err != nil {
		t.Skip("needs the package bash-completion")
	}
	s := startShell(t, nil)
	for name, mode := range map[string]os.FileMode{"rlr-tool-of-mine": 0o755, "certificate.pem": 0o644} {
		if err := os.WriteFile(s.dir+"/"+name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	s.types("PATH=$PWD:$PATH; bind 'set bell-style none'; bind 'set enable-bracketed-paste off'")
	s.prompt()
	s.types("source " + bashCompletion + " && source <(redlockrun completion bash); echo loaded=$?")
	s.expect("^loaded=0")
	s.prompt()
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
		s.keys(tc.typed + "\t")
		s.expect(regexp.QuoteMeta(tc.typed+tc.rest) + "$")
		// A key of the line editor, not ^C: a signal can come in the midst of
		// the completion, and is lost there.
		s.keys("\x15")
		s.types("echo erased")
		s.expect("^erased")
		s.prompt()
	}
}
