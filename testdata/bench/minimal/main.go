// Minimal is the least that a Go program can do to run a command under a Redis
// lock: SET NX, os/exec, compare-and-delete. It renews nothing, forwards
// nothing and supervises nothing. It is the yardstick of the benchmark.
package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

const release = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`

func main() { os.Exit(run()) }

// run takes the place of the server, the key, and the command.
func run() int {
	ctx := context.Background()
	opts, err := redis.ParseURL(os.Args[1])
	if err != nil {
		return 64
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	key, token := os.Args[2], uuid.NewString()
	got, err := rdb.SetNX(ctx, key, token, 15*time.Second).Result()
	if err != nil {
		return 69
	}
	if !got {
		return 75
	}
	defer rdb.Eval(ctx, release, []string{key}, token)
	cmd := exec.Command(os.Args[3], os.Args[4:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return 127
	}
	return 0
}
