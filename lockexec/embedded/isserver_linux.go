package embedded

import (
	"os"
	"strconv"
	"strings"
)

// IsServer reports whether the process is an embedded server, started by
// whatever program: by its arguments, as it may come up anew at any time. A
// supervisor that kills what descends from it must spare it.
func IsServer(pid int) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return false
	}
	args := strings.Split(string(line), "\x00")
	return len(args) > 1 && args[1] == RoleServe
}
