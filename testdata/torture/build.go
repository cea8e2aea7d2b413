//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// mutants are changes to the sources that break a promise. The judge must find
// each out; docs/proof.md has what it found.
var mutants = map[string]struct{ file, from, to string }{
	"release-anybodys": {"lockexec/lock/scripts/prelude.lua", "if value == token then", "if value then"},
	"take-anybodys":    {"lockexec/lock/scripts/line.lua", "if kind == 'free' then\n    return true", "if true then\n    return true"},
	"late-kill":        {"lockexec/lock/lease.go", "return l.sent.Add(l.ttl - drift)", "return l.sent.Add(2*l.ttl - drift)"},
	"forgotten-tree":   {"lockexec/guard/wrapper_unix.go", "err := w.end(ctx)\n", "err := w.release(ctx)\n"},
	"fence-from-one":   {"lockexec/lock/scripts/line.lua", "math.max(last + 1, now_us)", "last + 1"},
	"no-ttl":           {"lockexec/lock/scripts/line.lua", "redis.call('SET', fence_counter, fence, 'PX', fence_ttl(lease))", "redis.call('SET', fence_counter, fence)"},
}

func mutantNames() []string { return slices.Sorted(maps.Keys(mutants)) }

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

// mutate writes the changed file, and the overlay by which it is built in.
func mutate(dir, name string) (overlay string, err error) {
	m, ok := mutants[name]
	if !ok {
		return "", fmt.Errorf("there is no mutant %q; there are %s", name, strings.Join(mutantNames(), ", "))
	}
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if !strings.Contains(string(text), m.from) {
		return "", fmt.Errorf("%s has no %q any more", m.file, m.from)
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, "mutant"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return "", err
	}
	return overlay, os.WriteFile(changed, []byte(strings.ReplaceAll(string(text), m.from, m.to)), 0o600)
}
