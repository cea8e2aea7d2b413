//go:build unix

package embedded

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"syscall"
)

// defaultDir is the folder when XDG_RUNTIME_DIR does not say. On Linux it is where that variable points in a login
// session, so that a cron job, which lacks it, meets the same server.
func defaultDir() string {
	uid := strconv.Itoa(os.Geteuid())
	if runtime.GOOS == "linux" {
		runtimeDir := "/run/user/" + uid
		if info, err := os.Lstat(runtimeDir); err == nil && info.IsDir() && foreign(info) == "" {
			return runtimeDir + "/redlockrun"
		}
	}
	return "/tmp/redlockrun-" + uid
}

// foreign says in words that a file is not ours, or "".
func foreign(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "has no known owner"
	}
	if uid := os.Geteuid(); int(stat.Uid) != uid {
		return fmt.Sprintf("belongs to uid %d, not to you (uid %d)", stat.Uid, uid)
	}
	return ""
}

// exposed returns the permission bits of a folder that others can use, or 0 when there are none.
func exposed(info fs.FileInfo) fs.FileMode {
	if info.Mode().Perm()&0o077 == 0 {
		return 0
	}
	return info.Mode().Perm()
}
