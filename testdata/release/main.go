// Release makes what a release carries beside the program, from the program's
// own words: manual pages, shell completions, and the licenses of all that is
// linked into it. The same source gives the same bytes, on any day.
//
//	go run ./testdata/release -out DIR -version VERSION -date RFC3339
//
// In DIR it writes man/, completions/, licenses.txt, and package/man/, where
// the manual pages are compressed, as packages want them.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlockrun/redlockrun/cmd"
)

func main() {
	out := flag.String("out", "", "`DIR` to write to; what it has is replaced")
	version := flag.String("version", "devel", "version for the foot of the manual pages")
	date := flag.String("date", "", "date for the manual pages, as in 2006-01-02T15:04:05Z")
	flag.Parse()
	if err := run(*out, *version, *date); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(out, version, date string) error {
	day, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return fmt.Errorf("-date: %w", err)
	}
	if out == "" {
		return fmt.Errorf("-out is required")
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	root := cmd.Tree()
	files, err := completions(root)
	if err != nil {
		return err
	}
	for name, page := range manual(root, version, day.UTC().Format(time.DateOnly)) {
		files[filepath.Join("man", name)] = page
		files[filepath.Join("package", "man", name+".gz")] = compressed(page)
	}
	if files["licenses.txt"], err = licenses(); err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// completions are named as the folders want them that shells look into.
func completions(root *cobra.Command) (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, generate := range map[string]func(*bytes.Buffer) error{
		"redlockrun.bash": func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) },
		"_redlockrun":     func(b *bytes.Buffer) error { return root.GenZshCompletion(b) },
		"redlockrun.fish": func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) },
		"redlockrun.ps1":  func(b *bytes.Buffer) error { return root.GenPowerShellCompletionWithDesc(b) },
	} {
		var script bytes.Buffer
		if err := generate(&script); err != nil {
			return nil, err
		}
		files[filepath.Join("completions", name)] = script.Bytes()
	}
	return files, nil
}

// compressed is gzip -9n: without a name or a time.
func compressed(content []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // fails for no level only
	_, _ = w.Write(content)                               // a buffer takes all
	_ = w.Close()
	return b.Bytes()
}
