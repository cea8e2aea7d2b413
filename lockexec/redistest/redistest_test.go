package redistest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// helperEnv makes the test binary a program that starts a server, prints its socket and waits to be killed.
const helperEnv = "REDISTEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) == "" {
		logging.Disable()
		goleak.VerifyTestMain(m)
		return
	}
	srv, err := redistest.Launch()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(srv.Socket())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestServerAnswersOnPortAndSocket(t *testing.T) {
	srv := redistest.Start(t)
	if err := srv.Client(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{srv.URL(), srv.UnixURL()} {
		opts, err := redis.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(opts)
		defer client.Close()
		if got, err := client.Get(t.Context(), "k").Result(); got != "v" || err != nil {
			t.Errorf("GET over %s: got %q, %v; want v", url, got, err)
		}
	}
	if srv.TLSAddr() != "" || srv.TLSURL() != "" {
		t.Errorf("got TLS address %q and URL %q without TLS", srv.TLSAddr(), srv.TLSURL())
	}
}

func TestDirectoryIsPrivateAndRemovedAtClose(t *testing.T) {
	redistest.Start(t) // skips where there is no server to be had
	srv, err := redistest.Launch()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(srv.Socket())
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("got mode %o of %s, want 700", got, dir)
	}
	for range 2 {
		if err := srv.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for %s after Close, want not exist", err, dir)
	}
	if err := srv.Restart(); err == nil {
		t.Error("a closed server restarted")
	}
}

func TestLaunchSaysHowToGetAMissingServer(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("not supported at all")
	}
	t.Setenv("PATH", t.TempDir())
	_, err := redistest.Launch()
	if !errors.Is(err, redistest.ErrNotFound) {
		t.Errorf("got %v, want %v", err, redistest.ErrNotFound)
	}
}

func TestLaunchQuotesTheLogOfAServerThatDoesNotStart(t *testing.T) {
	redistest.Start(t)
	_, err := redistest.Launch(redistest.WithConfig("no-such-setting", "1"))
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("got %v, want the complaint about no-such-setting", err)
	}
}

// Many servers at once pick ports from one range; those that lose a race must pick again.
func TestServersStartAtOnce(t *testing.T) {
	redistest.Start(t)
	var (
		mu    sync.Mutex
		addrs = map[string]bool{}
		wg    sync.WaitGroup
	)
	const servers = 8
	for range servers {
		wg.Go(func() {
			srv, err := redistest.Launch()
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { srv.Close() })
			mu.Lock()
			defer mu.Unlock()
			addrs[srv.Addr()] = true
		})
	}
	wg.Wait()
	if len(addrs) != servers {
		t.Errorf("got %d different addresses, want %d", len(addrs), servers)
	}
}

// The kernel's order to kill the server with its parent looks at the thread that started it.
func TestServerOutlivesTheThreadsOfTheRuntime(t *testing.T) {
	srv := redistest.Start(t)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(runtime.LockOSThread) // a goroutine that ends while locked takes its thread with it
	}
	wg.Wait()
	if err := srv.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestServerDoesNotOutliveAKilledTestBinary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ties a process to its parent")
	}
	redistest.Start(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	socket := strings.TrimSpace(line)
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(socket)) })

	alive := answers(socket)
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if !filepath.IsAbs(socket) || !alive {
		t.Fatalf("helper did not start a server: it said %q, %v", line, readErr)
	}
	redistest.Eventually(t, func() bool { return !answers(socket) }, "the server ends with the killed binary")
}

// answers reports whether a process listens on the socket.
func answers(socket string) bool {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
