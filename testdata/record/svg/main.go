//go:build linux

// Svg records the session of docs/session.svg anew: go run ./testdata/record/svg
package main

import (
	"context"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
	"github.com/redlockrun/redlockrun/testdata/record"
)

func main() {
	if err := draw("docs/session.svg"); err != nil {
		log.Fatal(err) //nolint:forbidigo // this is a main
	}
}

func draw(file string) error {
	dir, err := os.MkdirTemp("", "record")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if out, err := exec.CommandContext(context.Background(), "go", "build", "-o", filepath.Join(dir, "bin", "redlockrun"), ".").CombinedOutput(); err != nil {
		log.Printf("%s", out)
		return err
	}
	server, err := redistest.Launch()
	if err != nil {
		return err
	}
	defer server.Close()
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	terminals, err := record.Session(record.Options{
		PATH:  filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"),
		Redis: server.URL(), Dir: work, Pace: 50 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(record.SVG(terminals)), 0o644) //nolint:gosec // for all to see
}
