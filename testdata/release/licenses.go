package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// platforms are those that a release is built for, as far as they differ in
// what is linked in.
var platforms = []string{"linux", "darwin", "windows"}

// licenses has the licenses of Go and of all modules that are linked into the
// program on any platform, which they want to be passed on with it.
func licenses() ([]byte, error) {
	modules := map[string]string{} // folder by name and version
	for _, platform := range platforms {
		list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", ".")
		list.Env = append(os.Environ(), "GOOS="+platform, "GOARCH=amd64", "CGO_ENABLED=0")
		list.Stderr = os.Stderr
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		for line := range strings.Lines(string(out)) {
			if name, dir, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); found {
				modules[name] = dir
			}
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	modules["Go"] = strings.TrimSpace(string(root))

	var b bytes.Buffer
	b.WriteString("Redlockrun has in it, under the licenses that follow:\n\n")
	names := make([]string, 0, len(modules))
	for name := range modules {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "  %s\n", name)
	}
	for _, name := range names {
		if err := appendLicense(&b, name, modules[name]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func appendLicense(b *bytes.Buffer, name, dir string) error {
	found := false
	for _, pattern := range []string{"LICENSE*", "COPYING*", "NOTICE*"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern)) // fails for a bad pattern only
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			found = true
			fmt.Fprintf(b, "\n%s\n%s, %s\n\n%s\n", strings.Repeat("=", 78), name, filepath.Base(file), bytes.TrimSpace(text))
		}
	}
	if !found {
		if name == "Go" { // of a distribution, which has licenses elsewhere
			fmt.Fprintf(b, "\n%s\nGo, BSD-3-Clause, The Go Authors\n", strings.Repeat("=", 78))
			return nil
		}
		return fmt.Errorf("%s has no license in %s", name, dir)
	}
	return nil
}
