//go:build unix

package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// releaseFiles makes what a release carries, on some date.
func releaseFiles(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	generate := exec.Command("go", "run", "./testdata/release", "-out", dir, "-version", "1.2.3", "-date", "2026-01-02T03:04:05+09:00")
	generate.Dir = ".."
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func TestTheManualHasAPageForAllThatHelpHas(t *testing.T) {
	dir := releaseFiles(t)
	for name, wants := range map[string][]string{
		"redlockrun.1": {
			`.TH REDLOCKRUN 1 2026-01-01 "redlockrun 1.2.3"`, `.SH "SYNOPSIS"`, `.SH "OPTIONS"`, `.SH "EXIT STATUS"`,
			`\fB\-k\fR, \fB\-\-key\fR \fINAME\fR`, `.SH "EXAMPLES"`, `\fBredlockrun\-acquire\fR(1)`,
		},
		"redlockrun-acquire.1":       {`\fBredlockrun acquire\fR \fIKEY\fR [flags]`, `.SH "EXIT STATUS"`},
		"redlockrun-embedded-stop.1": {`\fB\-\-force\fR`},
		"redlockrun-exit-codes.7":    {"\\fB75\\fR\nbusy: another holds the lock"},
		"redlockrun-environment.7":   {"\\fBREDLOCKRUN_TTL\\fR\n\\-\\-ttl"},
	} {
		page, err := os.ReadFile(filepath.Join(dir, "man", name))
		if err != nil {
			t.Error(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(page), want) {
				t.Errorf("%s has no %q", name, want)
			}
		}
	}

	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("needs groff for the rest")
	}
	pages, _ := filepath.Glob(filepath.Join(dir, "man", "*"))
	for _, page := range pages {
		out, err := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z", page).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("groff on %s: %v\n%s", filepath.Base(page), err, out)
		}
	}
}

func TestAReleaseTellsTheLicensesOfAllThatIsInIt(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(releaseFiles(t), "licenses.txt"))
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", ".")
	list.Dir = ".."
	modules, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for module := range strings.FieldsSeq(string(modules)) {
		if !strings.Contains(string(text), "\n"+module+" v") {
			t.Errorf("the license of %s is not told", module)
		}
	}
}
