//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/redlockrun/redlockrun/testdata/mutate/mutants"
)

// broken are programs that break a promise: the judge must find each out, and
// docs/proof.md has what it found. Those of the tests are beside testdata/mutate.
func broken() []mutants.Mutant {
	const scripts = "lockexec/lock/scripts/"
	return []mutants.Mutant{
		{Name: "release-anybodys", File: scripts + "prelude.lua", Old: "if value == token then", New: "if value then"},
		{Name: "take-anybodys", File: scripts + "line.lua", Old: "if kind == 'free' then\n    return true", New: "if true then\n    return true"},
		{Name: "late-kill", File: "lockexec/lock/lease.go", Old: "return l.sent.Add(l.ttl - drift)", New: "return l.sent.Add(2*l.ttl - drift)"},
		{Name: "forgotten-tree", File: "lockexec/guard/ends_unix.go", Old: "err := w.end(ctx)\n", New: "err := w.release(ctx)\n"},
		{Name: "fence-from-one", File: scripts + "line.lua", Old: "math.max(last + 1, now_us)", New: "last + 1"},
		{
			Name: "no-ttl", File: scripts + "line.lua",
			Old: "redis.call('SET', fence_counter, fence, 'PX', fence_ttl(lease))", New: "redis.call('SET', fence_counter, fence)",
		},
	}
}

func mutantNames() []string {
	var names []string
	for _, m := range broken() {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

// build makes the program, or a mutant of it.
func build(binary, mutant string) error {
	args := []string{"build", "-trimpath", "-o", binary}
	if mutant != "" {
		overlay, err := mutate(filepath.Dir(binary), mutant)
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// mutate returns the overlay by which a mutant is built.
func mutate(dir, name string) (overlay string, err error) {
	i := slices.IndexFunc(broken(), func(m mutants.Mutant) bool { return m.Name == name })
	if i < 0 {
		return "", fmt.Errorf("there is no mutant %q; there are %s", name, strings.Join(mutantNames(), ", "))
	}
	m := broken()[i]
	text, err := m.Apply(".")
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.File)
	if err != nil {
		return "", err
	}
	return mutants.WriteOverlay(dir, map[string]string{original: string(text)})
}
