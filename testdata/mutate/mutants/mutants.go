// Package mutants has the table of guards of this program: what each protects,
// how to take it out, and which test must fail then.
//
// A mutant replaces a text that stands exactly once in its file. So a guard
// that is rewritten takes its mutant along: a test of package cmd looks for
// all of them in every run.
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is the program without one of its guards.
type Mutant struct {
	Name   string // words joined by dashes
	Guards string // what does not hold without it
	File   string // below the root of the module, with slashes
	Old    string // the guard
	New    string // what stands in its place
	Test   string // that fails: PACKAGE PATTERN, as for go test -run
}

// All returns all mutants, in the order in which they are told of. Each has a
// name of its own.
func All() []Mutant {
	return slices.Concat(ownership(), lifetimes(), exclusion(), line(), quorum(), verdicts(), processes(), program())
}

// Package is that of the test, such as ./cmd.
func (m Mutant) Package() string { return strings.Fields(m.Test)[0] }

// Pattern selects the test.
func (m Mutant) Pattern() string { return strings.Fields(m.Test)[1] }

// Apply returns the file of the mutant as it is without the guard. root is
// that of the module. It fails unless the guard is there exactly once.
func (m Mutant) Apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.Old); n != 1 {
		return nil, fmt.Errorf("%s: %s has the text %q %d times, not once", m.Name, m.File, m.Old, n)
	}
	return []byte(strings.Replace(string(text), m.Old, m.New, 1)), nil
}

// WriteOverlay writes what "go build -overlay" reads, into dir: for files, by
// their absolute names, the text that is compiled in their place. A file need not
// be there. It returns the name of the overlay.
func WriteOverlay(dir string, changes map[string]string) (overlay string, err error) {
	replace := map[string]string{}
	for name, text := range changes {
		changed := filepath.Join(dir, "changed-"+filepath.Base(name))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[name] = changed
	}
	config, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, config, 0o600)
}

// Row is the line of the mutant in a table of docs/proof.md.
func (m Mutant) Row() string {
	test := strings.NewReplacer("^", "", "$", "").Replace(m.Pattern())
	return fmt.Sprintf("| %s | `%s` | `%s` |", m.Guards, m.Name, test)
}
