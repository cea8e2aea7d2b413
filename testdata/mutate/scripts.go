//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/redlockrun/redlockrun/testdata/mutate/mutants"
)

// Half of the mutants are of scripts. The test program that they are for gets
// one more file, by which it takes a script from where it is told, so that it
// need not be built for each.

const (
	scriptPackage = "lockexec/lock"
	scriptName    = "MUTANT_SCRIPT_NAME" // variables of the test program
	scriptFile    = "MUTANT_SCRIPT_FILE"
)

// isScript reports whether m can do without a build.
func isScript(m mutants.Mutant) bool {
	return filepath.Ext(m.File) == ".lua" && m.Package() == "./"+scriptPackage
}

var embedded = regexp.MustCompile(`//go:embed (scripts/\w+\.lua)\n\t(\w+) string`)

// scriptLoader returns the file that is added, and the name that it is to have:
// the first of its package, as variables are made in that order.
func (l *lab) scriptLoader() (name string, text string, err error) {
	source, err := os.ReadFile(filepath.Join(l.root, scriptPackage, "scripts.go"))
	if err != nil {
		return "", "", err
	}
	var cases strings.Builder
	for _, match := range embedded.FindAllStringSubmatch(string(source), -1) {
		fmt.Fprintf(&cases, "\tcase %q:\n\t\t%s = string(text)\n", match[1], match[2])
	}
	text = fmt.Sprintf(`package lock

import "os"

var _ = loadMutant()

func loadMutant() bool {
	name := os.Getenv(%q)
	if name == "" {
		return false
	}
	text, err := os.ReadFile(os.Getenv(%q))
	if err != nil {
		panic(err)
	}
	switch name {
%s	default:
		panic("there is no script " + name)
	}
	return true
}
`, scriptName, scriptFile, &cases)
	return filepath.Join(l.root, scriptPackage, "a_mutant.go"), text, nil
}

// scriptEnv has the test program load the script of m.
func (l *lab) scriptEnv(m mutants.Mutant) ([]string, error) {
	text, err := m.Apply(l.root)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(l.dir, "changed.lua")
	script := strings.TrimPrefix(m.File, scriptPackage+"/")
	return []string{scriptName + "=" + script, scriptFile + "=" + file}, os.WriteFile(file, text, 0o600)
}
