package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every run starts this program twice, so that what its packages set up before
// main is paid for twice: no table, pattern or list of ours is made there.
func TestOurPackagesMakeLittleBeforeMain(t *testing.T) {
	program := filepath.Join(t.TempDir(), "redlockrun")
	if out, err := exec.Command("go", "build", "-o", program, "..").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "--version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const most = 64 // allocations of one package
	seen := 0
	for _, match := range regexp.MustCompile(`(?m)^init (\S+) .* (\d+) allocs$`).FindAllStringSubmatch(string(out), -1) {
		allocations, err := strconv.Atoi(match[2])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(match[1], "github.com/redlockrun/") {
			continue
		}
		seen++
		if allocations > most {
			t.Errorf("%s makes %d allocations before main, want %d at most", match[1], allocations, most)
		}
	}
	if seen == 0 {
		t.Errorf("no package of ours among\n%s", out)
	}
}
