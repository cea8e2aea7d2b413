package cmd_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/testdata/mutate/mutants"
)

// Every guard that testdata/mutate takes out is still there, and what is left
// is a program. Whether a test notices is found by its runs, which are too dear
// for here.
func TestEveryMutantApplies(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	seen := map[string]bool{}
	for _, m := range mutants.All() {
		if seen[m.Name] {
			t.Errorf("there are two mutants %s", m.Name)
		}
		seen[m.Name] = true
		text, err := m.Apply("..")
		switch {
		case err != nil:
		case filepath.Ext(m.File) == ".lua":
			err = client.ScriptLoad(t.Context(), string(text)).Err()
		default:
			_, err = parser.ParseFile(token.NewFileSet(), m.File, text, parser.SkipObjectResolution)
		}
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

// The tests that are to notice exist.
func TestEveryMutantHasItsTest(t *testing.T) {
	name := regexp.MustCompile(`\^(Test\w+)\$`)
	for _, m := range mutants.All() {
		match := name.FindStringSubmatch(m.Pattern())
		if match == nil {
			t.Errorf("%s: the pattern %q names no test", m.Name, m.Pattern())
			continue
		}
		files, _ := filepath.Glob(filepath.Join("..", m.Package(), "*_test.go"))
		found := false
		for _, file := range files {
			found = found || strings.Contains(readText(t, file), "func "+match[1]+"(t *testing.T)")
		}
		if !found {
			t.Errorf("%s: %s has no %s", m.Name, m.Package(), match[1])
		}
	}
}

// What the documentation says of them is what the table says.
func TestEveryMutantIsToldOf(t *testing.T) {
	page := readText(t, "../docs/proof.md")
	for _, m := range mutants.All() {
		if !strings.Contains(page, "\n"+m.Row()+"\n") {
			t.Errorf("docs/proof.md lacks the line\n%s", m.Row())
		}
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
