//go:build unix

package cmd_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/redlockrun/redlockrun/cmd"
	"github.com/redlockrun/redlockrun/lockexec/embedded"
	"github.com/redlockrun/redlockrun/lockexec/proc/proctest"
	"github.com/redlockrun/redlockrun/lockexec/redistest"
	"github.com/redlockrun/redlockrun/testdata/child"
)

// The scripts under testdata/script say what users do and what they see. They
// drive the real program, as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){
		"redlockrun": func() { os.Exit(cmd.Main()) },
		"child":      func() { os.Exit(child.Main()) },
	})
}

// suite prepares the process of the tests alone, not those of the programs that
// they start, which come through TestMain as well.
type suite struct{ *testing.M }

func (s suite) Run() int {
	logging.Disable() // servers are killed here
	// With the race detector each process of ours would sleep for a second
	// before it ends, which the tests of thousands of them can't afford.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	proctest.HeedSignals()
	// Most of the time tests wait, for servers to fail and leases to end.
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		if err := parallel.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	return s.M.Run()
}

// TestScriptsOnRedis runs the scripts against a real server.
func TestScriptsOnRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-server")
	}
	const databases = 512
	server := redistest.Start(t, redistest.WithConfig("databases", strconv.Itoa(databases)))
	var next atomic.Int32
	runScripts(t, func(env *testscript.Env) (string, error) {
		return fmt.Sprintf("%s/%d", server.URL(), next.Add(1)%databases), nil
	}, "server")
}

// TestScriptsOnEmbedded runs those that make sense there against the embedded
// server, one for each script.
func TestScriptsOnEmbedded(t *testing.T) {
	runScripts(t, func(env *testscript.Env) (string, error) {
		return "embedded", nil
	}, "embedded")
}

// runScripts gives each script a place of its own in REDIS_URL. The condition
// [server] or [embedded] tells a script which kind it has.
func runScripts(t *testing.T, place func(*testscript.Env) (string, error), kind string) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Sockets have short names, the work folder has a long one.
			dir, err := os.MkdirTemp("", "rlr") //nolint:usetesting // see above: t.TempDir has a long name
			if err != nil {
				return err
			}
			env.Defer(func() {
				stopEmbedded(filepath.Join(dir, "redlockrun"))
				_ = os.RemoveAll(dir)
			})
			url, err := place(env)
			if err != nil {
				return err
			}
			env.Setenv("XDG_RUNTIME_DIR", dir)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("REDIS_URL", url)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			repo, err := filepath.Abs("..")
			if err != nil {
				return err
			}
			env.Setenv("REPO", repo)
			env.Values[processesKey{}] = &processes{byName: map[string]*process{}}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "server", "embedded":
				return cond == kind, nil
			case "root":
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":  cmdStatus,
			"start":   cmdStart,
			"signal":  cmdSignal,
			"ended":   cmdEnded,
			"waitfor": cmdWaitFor,
			"redis":   cmdRedis,

			"redis-server": cmdRedisServer,
		},
	})
}

// cmdRedisServer gives the script a server of its own in the place of the
// shared one, or does something to that: "redis-server [stop|cont|kill]".
func cmdRedisServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: redis-server [stop|cont|kill]")
	}
	all := ts.Value(processesKey{}).(*processes)
	if len(args) == 0 {
		server, err := redistest.Launch()
		ts.Check(err)
		ts.Defer(func() { _ = server.Close() })
		all.server = server
		ts.Setenv("REDIS_URL", server.URL())
		return
	}
	switch args[0] {
	case "stop":
		ts.Check(all.server.Stop())
	case "cont":
		ts.Check(all.server.Cont())
	case "kill":
		all.server.Kill()
	default:
		ts.Fatalf("unknown: redis-server %s", args[0])
	}
}

// stopEmbedded ends the embedded server of a script, whatever it holds.
func stopEmbedded(dir string) {
	if _, err := os.Stat(dir); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, _ = embedded.Stop(ctx, dir, true)
}
