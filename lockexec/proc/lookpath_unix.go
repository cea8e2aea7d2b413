//go:build unix

package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

var errBusyText = syscall.ETXTBSY

// defaultPath is searched when there is no PATH, as execvp does.
const defaultPath = "/bin:/usr/bin"

func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", startError(name, err)
		}
		return name, nil
	}
	path, set := os.LookupEnv("PATH")
	if !set {
		path = defaultPath
	}
	// A file that can't be executed does not end the search, but is a better
	// answer than "not found" at its end.
	var refused error
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "." // POSIX: an empty entry is the working directory
		}
		file := filepath.Join(dir, name)
		if !strings.Contains(file, "/") {
			file = "./" + file
		}
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if refused == nil && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTDIR) {
			refused = startError(file, err)
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", &StartError{Command: name, Kind: ErrNotFound, Err: errors.New("command not found in PATH")}
}

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return errors.Unwrap(err) // less "stat FILE: ", which the caller says
	case info.IsDir():
		return syscall.EISDIR
	default:
		return unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
	}
}
