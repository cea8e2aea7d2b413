package lockexec_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// Of many workers that start the report of the same client, one makes it.
func ExamplePerformLockedWork() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer rdb.Close()

	err := lockexec.PerformLockedWork(context.Background(), rdb, "client_123", func() {
		fmt.Println("making the report")
	})
	switch {
	case errors.Is(err, lockexec.ErrLocked):
		// Another worker is on it.
	case errors.Is(err, lockexec.ErrLost), errors.Is(err, lockexec.ErrNotReleased):
		log.Print("the report was made, but: ", err)
	case err != nil:
		log.Fatal("the report was not made: ", err)
	}
}

// A command can be stopped when its lock is lost; a function can't.
func ExampleRun() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer rdb.Close()

	signals := make(chan os.Signal, 16)
	signal.Notify(signals, proc.Forwardable()...)
	status, err := lockexec.Run(context.Background(), lock.New(rdb), lockexec.Options{
		Name:    lockexec.KeyPrefix + "client_123",
		Command: []string{"./generate-report.sh", "client_123"},
		Signals: signals,
	})
	if err != nil {
		log.Print(err)
		return
	}
	log.Printf("the command %v", status)
}
