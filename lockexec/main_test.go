package lockexec_test

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// The test binary also plays the command that notes when it runs.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "note-time" {
		noteTime(os.Args[2])
	}
	logging.Disable()
	os.Exit(m.Run())
}

// noteTime writes the present instant of the lease's clock to a file every
// millisecond, and can't be asked to stop.
func noteTime(file string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	f, err := os.Create(file)
	if err != nil {
		panic(err)
	}
	for {
		fmt.Fprintf(f, "%d\n", lock.Now())
		time.Sleep(time.Millisecond)
	}
}

const (
	clientID = "client_123"
	lockName = "lock:report:client_123"
)

// server is one for all tests of a package run that need no faults of their
// own; each test has a key space of its own by emptying it.
func server(t *testing.T) (*redistest.Server, *redis.Client) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	s := redistest.Start(t)
	return s, s.Client(t)
}

// plainClient is a client as any program makes one, with all its defaults.
func plainClient(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
