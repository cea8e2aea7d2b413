package lockexec_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/redlockrun/redlockrun/"

// A program that imports the library must not pay for a command line, and
// imports point down one list of packages only.
func TestImports(t *testing.T) {
	order := []string{
		"cmd", "lockexec/guard", "lockexec", "lockexec/doctor", "lockexec/connect", "lockexec/lock", "lockexec/proc",
		"lockexec/embedded", "lockexec/metrics",
	}
	testOnly := []string{"lockexec/redistest", "lockexec/faultproxy", "lockexec/proc/cgrouptest", "lockexec/proc/proctest"}

	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for packages := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath    string
			Imports, Deps []string
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours || slices.Contains(testOnly, name) {
			continue
		}
		seen++
		place := slices.Index(order, name)
		if place < 0 {
			t.Errorf("package %s is not in the list of this test", name)
		}
		for _, imported := range p.Imports {
			other, ours := strings.CutPrefix(imported, module)
			switch {
			case !ours:
			case slices.Contains(testOnly, other):
				t.Errorf("%s imports %s, which is for tests", name, other)
			case slices.Index(order, other) <= place:
				t.Errorf("%s imports %s, upwards", name, other)
			}
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, "github.com/prometheus/") || strings.HasPrefix(dep, "google.golang.org/protobuf/") {
				t.Errorf("%s needs %s, which is for tests", name, dep)
			}
		}
		if !strings.HasPrefix(name, "lockexec") {
			continue
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, "github.com/spf13/") {
				t.Errorf("%s needs %s", name, dep)
			}
		}
	}
	if seen != len(order) {
		t.Errorf("%d packages seen, want %d", seen, len(order))
	}
}
