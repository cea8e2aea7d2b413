package embedded

import (
	"io/fs"
	"os"
	"path/filepath"
)

// defaultDir is in the folder for temporary files, which on Windows is each user's own.
func defaultDir() string { return filepath.Join(os.TempDir(), "redlockrun") }

// Owner and access rights are those of the user's folder around it, and are not checked on Windows.
func foreign(fs.FileInfo) string { return "" }

func exposed(fs.FileInfo) fs.FileMode { return 0 }
