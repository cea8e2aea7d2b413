// Redlockrun runs a command while it holds a lock in Redis.
package main

import (
	"os"

	"github.com/redlockrun/redlockrun/cmd"
)

func main() { os.Exit(cmd.Main()) }
