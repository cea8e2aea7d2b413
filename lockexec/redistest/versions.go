package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// defaultBinary is looked up in PATH.
const defaultBinary = "redis-server"

// versionsEnv lists servers of other versions, "name=path,name=path".
const versionsEnv = "REDLOCKRUN_TEST_SERVERS"

// Version is a server for [WithBinary].
type Version struct {
	Name string // such as "redis-6.2.16"
	Path string
}

// Versions returns the servers of other versions that the environment variable REDLOCKRUN_TEST_SERVERS lists, as
// "name=path,name=path", in that order: none when it is empty. An entry of another form is an error.
func Versions() ([]Version, error) {
	var all []Version
	for entry := range strings.SplitSeq(os.Getenv(versionsEnv), ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		name, path, ok := strings.Cut(entry, "=")
		if !ok || name == "" || path == "" {
			return nil, fmt.Errorf("%s: %q is not of the form name=path", versionsEnv, entry)
		}
		all = append(all, Version{Name: name, Path: path})
	}
	return all, nil
}

// knowsChannels reports whether a server is not of 6.0, the last that had no rights to channels.
func knowsChannels(binary string) bool {
	out, err := exec.Command(binary, "--version").Output()
	return err != nil || !strings.Contains(string(out), " v=6.0.")
}
