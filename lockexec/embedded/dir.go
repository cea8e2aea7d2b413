package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxSocketPath is what all supported systems take: the smallest sun_path has 104 bytes, the last of them a NUL.
const maxSocketPath = 103

// Dir returns the folder of this user's server on this host. It depends only on what a login shell, a cron job and a
// service of the user have in common, as two folders would be two servers that exclude nobody: not on TMPDIR, and on
// XDG_RUNTIME_DIR only to where it points by default.
//
// Nothing is created or checked but that XDG_RUNTIME_DIR is not another user's; see [Start].
func Dir() (string, error) {
	if xdg := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(xdg) {
		if info, err := os.Stat(xdg); err == nil { //nolint:gosec // the user names a folder of his own
			if problem := foreign(info); problem != "" {
				return "", &DirError{Path: xdg, Reason: "(XDG_RUNTIME_DIR) " + problem, Next: "unset XDG_RUNTIME_DIR or set it to a folder of your own"}
			}
		}
		return filepath.Join(xdg, "redlockrun"), nil
	}
	return defaultDir(), nil
}

// SocketPath returns the path of the socket of the server in dir. It is at most as long as a socket's path can be if
// [Start] accepted dir.
func SocketPath(dir string) string { return filepath.Join(dir, socketName) }

// StatePath returns the path of the file that the server in dir keeps its state in.
func StatePath(dir string) string { return filepath.Join(dir, stateName) }

// makeDir creates dir for its owner alone where it is missing, and checks it as checkDir does.
func makeDir(dir string) error {
	if err := checkSocketPath(dir); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	switch {
	case err == nil || errors.Is(err, fs.ErrExist):
		return checkDir(dir)
	case errors.Is(err, fs.ErrNotExist):
		return &DirError{
			Path:   dir,
			Reason: "cannot be created, as " + filepath.Dir(dir) + " does not exist",
			Next:   "create that folder, or unset XDG_RUNTIME_DIR",
			Err:    err,
		}
	default:
		return &DirError{
			Path:   dir,
			Reason: fmt.Sprintf("cannot be created (%v)", errors.Unwrap(err)),
			Next:   "set XDG_RUNTIME_DIR to a folder of your own",
			Err:    err,
		}
	}
}

// checkDir returns a *DirError unless dir is a real folder that belongs to us alone: who can write there could put a
// server of his own in our place. The error wraps fs.ErrNotExist when there is no dir.
func checkDir(dir string) error {
	if err := checkSocketPath(dir); err != nil {
		return err
	}
	problem := func(reason string, err error) error {
		return &DirError{Path: dir, Reason: reason, Next: "remove it, or set XDG_RUNTIME_DIR to a folder of your own", Err: err}
	}
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &DirError{Path: dir, Reason: "does not exist", Next: "the server makes it when it first starts", Err: err}
	case err != nil:
		return problem(fmt.Sprintf("cannot be looked at (%v)", errors.Unwrap(err)), err)
	case info.Mode()&fs.ModeSymlink != 0:
		return problem("is a symbolic link, not a folder", nil)
	case !info.IsDir():
		return problem("is not a folder", nil)
	}
	if reason := foreign(info); reason != "" {
		return problem(reason, nil)
	}
	if perm := exposed(info); perm != 0 {
		return &DirError{
			Path:   dir,
			Reason: fmt.Sprintf("is open to other users (mode %04o)", perm),
			Next:   "make sure that nobody put files there, then chmod 700 it, or remove it",
		}
	}
	return nil
}

func checkSocketPath(dir string) error {
	next := fmt.Sprintf("set XDG_RUNTIME_DIR to a shorter path, such as a new folder in /tmp (a socket's path has at most %d bytes)", maxSocketPath)
	switch path := SocketPath(dir); {
	case !filepath.IsAbs(path):
		return &DirError{Path: dir, Reason: "is not an absolute path", Next: "name the folder from the root"}
	case len(path) > maxSocketPath:
		return &DirError{Path: path, Reason: fmt.Sprintf("is too long for a socket (%d bytes)", len(path)), Next: next}
	}
	return nil
}
