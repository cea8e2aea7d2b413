package lockexec_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec"
	"github.com/redlockrun/redlockrun/lockexec/faultproxy"
	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

func lockClient(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := lock.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestRunReturnsTheCommandsStatus(t *testing.T) {
	s, admin := server(t)
	for script, want := range map[string]proc.Status{
		"exit 0":       {},
		"exit 42":      {Code: 42},
		"kill -TERM $": {Signal: syscall.SIGTERM},
	} {
		status, err := lockexec.Run(t.Context(), lock.New(lockClient(t, s.Addr())), lockexec.Options{
			Name: lockName, Command: []string{"sh", "-c", strings.ReplaceAll(script, "$", "$$")},
		})
		if err != nil || status != want {
			t.Errorf("%q: %v, %v, want %v", script, status, err, want)
		}
		if n := admin.Exists(t.Context(), lockName).Val(); n != 0 {
			t.Errorf("%q: the lock was not released", script)
		}
	}
}

func TestRunTellsTheCommandOfItsLock(t *testing.T) {
	s, admin := server(t)
	out := filepath.Join(t.TempDir(), "out")
	_, err := lockexec.Run(t.Context(), lock.New(lockClient(t, s.Addr())), lockexec.Options{
		Name: lockName,
		Env:  append(os.Environ(), "REDLOCKRUN_LOCK_KEY=outer", "REDLOCKRUN_LOCK_TOKEN=outer", "OUT="+out, "REDIS="+s.Addr()),
		Command: []string{"sh", "-c", `redis-cli -p ${REDIS##*:} get "$REDLOCKRUN_LOCK_KEY" >"$OUT"
			echo "$REDLOCKRUN_LOCK_TOKEN" >>"$OUT"; echo "$REDLOCKRUN_LOCK_FENCE" >>"$OUT"
			{ tr '\0' '\n' </proc/$$/environ || env; } | grep -c ^REDLOCKRUN_LOCK_ >>"$OUT"`}, // a shell hides what stands there twice
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 4 || lines[0] != lines[1] || lines[0] == "" || lines[3] != "3" {
		t.Errorf("the command saw %q, want token twice, fence, and 3 variables", lines)
	}
	fence := admin.Get(t.Context(), "redlockrun:fence:{"+lockName+"}").Val()
	if lines[2] != fence {
		t.Errorf("fence %q, want %q", lines[2], fence)
	}
}

func TestRunDoesNotStartTheCommandWithoutTheLock(t *testing.T) {
	s, admin := server(t)
	mark := filepath.Join(t.TempDir(), "ran")
	opts := lockexec.Options{Name: lockName, Command: []string{"touch", mark}, ConnectTimeout: 200 * time.Millisecond}
	admin.Set(t.Context(), lockName, "another", time.Minute)
	if _, err := lockexec.Run(t.Context(), lock.New(lockClient(t, s.Addr())), opts); !errors.Is(err, lockexec.ErrLocked) {
		t.Errorf("busy: %v", err)
	}
	s.Kill()
	if _, err := lockexec.Run(t.Context(), lock.New(lockClient(t, s.Addr())), opts); !errors.Is(err, lockexec.ErrUnavailable) {
		t.Errorf("no server: %v", err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran without the lock")
	}
}

func TestRunLooksForTheCommandBeforeItAsksForTheLock(t *testing.T) {
	client := lockClient(t, "127.0.0.1:1") // nobody there: asking would fail
	_, err := lockexec.Run(t.Context(), lock.New(client), lockexec.Options{Name: lockName, Command: []string{"no-such-command"}})
	if !errors.Is(err, proc.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func TestRunReleasesWhenTheCommandCannotBeStarted(t *testing.T) {
	s, admin := server(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := lockexec.Run(t.Context(), lock.New(lockClient(t, s.Addr())), lockexec.Options{Name: lockName, Command: []string{script}})
	if !errors.Is(err, proc.ErrNotExecutable) {
		t.Errorf("got %v", err)
	}
	if n := admin.Exists(t.Context(), lockName).Val(); n != 0 {
		t.Error("the lock was not released at once")
	}
}

func TestRunStopsTheCommandWhenTheLockIsLost(t *testing.T) {
	for what, lose := range map[lock.LossReason]func(admin *redis.Client){
		lock.LossMissing:  func(admin *redis.Client) { admin.Del(t.Context(), lockName) },
		lock.LossReplaced: func(admin *redis.Client) { admin.Set(t.Context(), lockName, "another", time.Minute) },
	} {
		t.Run(what.String(), func(t *testing.T) {
			s, admin := server(t)
			dir := t.TempDir()
			go func() {
				waitForFile(dir + "/started")
				lose(admin)
			}()
			_, err := lockexec.Run(t.Context(), lock.New(lockClient(t, s.Addr())), lockexec.Options{
				Name: lockName, TTL: 3 * time.Second,
				Command: []string{"sh", "-c", `trap 'touch "$0/asked"; exit 0' TERM; touch "$0/started"; sleep 1000 & wait`, dir},
			})
			// Not that it could not be renewed: the renewal said more.
			if lost := (*lock.LostError)(nil); !errors.As(err, &lost) || lost.Reason != what {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(dir + "/asked"); err != nil {
				t.Error("the command was not asked to stop first")
			}
			left := map[lock.LossReason]string{lock.LossReplaced: "another"}[what]
			if got := admin.Get(t.Context(), lockName).Val(); got != left {
				t.Errorf("the lock holds %q, want %q", got, left)
			}
		})
	}
}

// Also when it is stopped only because Redis is silent.
func TestACommandIsAskedToStopBeforeItIsKilled(t *testing.T) {
	s, _ := server(t)
	proxy := faultproxy.New(t, s.Addr())
	dir := t.TempDir()
	go func() {
		waitForFile(dir + "/started")
		proxy.BlackHole()
	}()
	_, err := lockexec.Run(t.Context(), lock.New(lockClient(t, proxy.Addr())), lockexec.Options{
		Name: lockName, TTL: 6 * time.Second,
		Command: []string{"sh", "-c", `trap 'touch "$0/asked"; exit 0' TERM; touch "$0/started"; sleep 1000 & wait`, dir},
	})
	if !errors.Is(err, lockexec.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
	if _, err := os.Stat(dir + "/asked"); err != nil {
		t.Error("the command was not asked to stop first")
	}
}

func waitForFile(path string) {
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// The heart of it: whatever becomes of the connection, the whole tree of the
// command is dead before the server could give the lock to another.
func TestTheCommandIsDeadBeforeItsLeaseEnds(t *testing.T) {
	const ttl = 3 * time.Second
	for what, fault := range map[string]func(p *faultproxy.Proxy){
		"nobody listens":           (*faultproxy.Proxy).Refuse,
		"black hole":               (*faultproxy.Proxy).BlackHole,
		"renewals are not heard":   func(p *faultproxy.Proxy) { p.HoldRequests(faultproxy.Command("eval")) },
		"replies do not come back": func(p *faultproxy.Proxy) { p.DropReplies(faultproxy.Command("eval"), faultproxy.ThenHang) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, admin := server(t)
			proxy := faultproxy.New(t, s.Addr())
			stamps := filepath.Join(t.TempDir(), "stamps")
			gone := make(chan lock.Instant, 1)
			go func() {
				waitForFile(stamps)
				fault(proxy)
				for admin.Exists(t.Context(), lockName).Val() != 0 {
					time.Sleep(time.Millisecond)
				}
				gone <- lock.Now()
			}()
			exe, _ := os.Executable()
			var safeEnd lock.Instant
			_, err := lockexec.Run(t.Context(), lock.New(lockClient(t, proxy.Addr())), lockexec.Options{
				Name: lockName, TTL: ttl,
				Observe: func(e lockexec.Event) { safeEnd = max(safeEnd, e.SafeEnd) },
				// A grandchild in a session of its own; both ignore TERM.
				Command: []string{"sh", "-c", `trap "" TERM; "$0" note-time "$1"; true`, exe, stamps},
			})
			if !errors.Is(err, lockexec.ErrLost) {
				t.Errorf("got %v, want ErrLost", err)
			}
			free := <-gone
			if last := lastStamp(t, stamps); last >= free {
				t.Errorf("the command ran at %v, but the lock was free at %v", last, free)
			} else if last >= safeEnd.Add(-lockexec.KillMargin(ttl)/4) {
				t.Errorf("the command ran at %v, too near to the safe end at %v", last, safeEnd)
			}
		})
	}
}

func lastStamp(t *testing.T, file string) lock.Instant {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	stamp, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return lock.Instant(stamp)
}

func TestAShortOutageIsRiddenOut(t *testing.T) {
	s, admin := server(t)
	proxy := faultproxy.New(t, s.Addr())
	dir := t.TempDir()
	log := logFile(t, dir)
	go func() {
		waitForFile(dir + "/started")
		proxy.Refuse()
		admin.PExpire(t.Context(), lockName, 20*time.Second) // what is tested is our patience, not the server's clock
		for strings.Count(readFile(dir+"/log"), "renew_failed") < 2 {
			time.Sleep(time.Millisecond)
		}
		proxy.Pass()
		seen := len(proxy.Commands())
		for len(proxy.Commands()) < seen+2 {
			time.Sleep(time.Millisecond)
		}
		_ = os.WriteFile(dir+"/finish", nil, 0o600)
	}()
	status, err := lockexec.Run(t.Context(), lock.New(lockClient(t, proxy.Addr())), lockexec.Options{
		Name: lockName, TTL: 6 * time.Second, Log: log,
		Command: []string{"sh", "-c", `touch "$0/started"; until [ -e "$0/finish" ]; do sleep 0.02; done; exit 5`, dir},
	})
	if err != nil || status.Code != 5 {
		t.Errorf("%v, %v, want the command's own end\n%s", status, err, readFile(dir+"/log"))
	}
	if !strings.Contains(readFile(dir+"/log"), "renew_failed") {
		t.Errorf("the failed renewal is not in the log:\n%s", readFile(dir+"/log"))
	}
}

// logFile is a log that can be read while a run writes it, as dir/log.
func logFile(t *testing.T, dir string) *slog.Logger {
	t.Helper()
	file, err := os.Create(dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return slog.New(slog.NewTextHandler(file, nil))
}

func TestRunWithOnLostWarnLetsTheCommandFinish(t *testing.T) {
	s, admin := server(t)
	dir := t.TempDir()
	log := logFile(t, dir)
	go func() {
		waitForFile(dir + "/started")
		admin.Set(t.Context(), lockName, "another", time.Minute)
		for !strings.Contains(readFile(dir+"/log"), "lost") {
			time.Sleep(time.Millisecond)
		}
		_ = os.WriteFile(dir+"/finish", nil, 0o600)
	}()
	status, err := lockexec.Run(t.Context(), lock.New(lockClient(t, s.Addr())), lockexec.Options{
		Name: lockName, TTL: time.Second, OnLost: lockexec.WarnAndKeep, Log: log,
		Command: []string{"sh", "-c", `touch "$0/started"; until [ -e "$0/finish" ]; do sleep 0.02; done; exit 5`, dir},
	})
	if err != nil || status.Code != 5 {
		t.Errorf("%v, %v, want the command's own end", status, err)
	}
	if got := admin.Get(t.Context(), lockName).Val(); got != "another" {
		t.Errorf("another's lock became %q", got)
	}
}

func readFile(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

func TestTimeoutStopsThenKills(t *testing.T) {
	s, admin := server(t)
	dir := t.TempDir()
	_, err := lockexec.Run(t.Context(), lock.New(lockClient(t, s.Addr())), lockexec.Options{
		Name: lockName, Timeout: 300 * time.Millisecond, KillAfter: 200 * time.Millisecond,
		Command: []string{"sh", "-c", `trap 'echo asked >>"$0/log"' TERM; while :; do sleep 0.05; done`, dir},
	})
	if !errors.Is(err, lockexec.ErrTimeout) {
		t.Errorf("got %v", err)
	}
	if got := readFile(dir + "/log"); got != "asked\n" {
		t.Errorf("the command was asked %q, want once", got)
	}
	if n := admin.Exists(t.Context(), lockName).Val(); n != 0 {
		t.Error("the lock was not released")
	}
}

// Release comes after the end of everything that the command started, as the
// lock covers that too.
func TestTheLockIsHeldUntilTheLeftoversHaveEnded(t *testing.T) {
	s, admin := server(t)
	dir := t.TempDir()
	checked := make(chan string, 1)
	go func() {
		waitForFile(dir + "/exited")
		checked <- admin.Get(t.Context(), lockName).Val()
		_ = os.WriteFile(dir+"/finish", nil, 0o600)
	}()
	status, err := lockexec.Run(t.Context(), lock.New(lockClient(t, s.Addr())), lockexec.Options{
		Name:    lockName,
		Command: []string{"sh", "-c", `(until [ -e "$0/finish" ]; do sleep 0.02; done; echo done >"$0/log") & (sleep 0.1; touch "$0/exited") & exit 4`, dir},
	})
	if err != nil || status.Code != 4 {
		t.Errorf("%v, %v", status, err)
	}
	if <-checked == "" {
		t.Error("the lock was released while a job of the command ran")
	}
	if got := readFile(dir + "/log"); got != "done\n" {
		t.Errorf("the job that ended by itself was cut short: %q", got)
	}
}

func TestASignalBeforeTheStartLeavesNothingBehind(t *testing.T) {
	s, admin := server(t)
	proxy := faultproxy.New(t, s.Addr())
	signals := make(chan os.Signal, 1)
	mark := filepath.Join(t.TempDir(), "ran")
	proxy.DelayReplies(200 * time.Millisecond)
	go func() {
		for admin.Exists(t.Context(), lockName).Val() == 0 {
			time.Sleep(time.Millisecond)
		}
		signals <- syscall.SIGTERM // the lock is taken, the reply on its way
	}()
	_, err := lockexec.Run(t.Context(), lock.New(lockClient(t, proxy.Addr())), lockexec.Options{
		Name: lockName, Command: []string{"touch", mark}, Signals: signals,
	})
	var interrupted *lockexec.InterruptedError
	if !errors.As(err, &interrupted) || interrupted.Signal != syscall.SIGTERM {
		t.Errorf("got %v", err)
	}
	if n := admin.Exists(t.Context(), lockName).Val(); n != 0 {
		t.Error("the lock stayed")
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran")
	}
}

// Standard error may be the pipe of a pager that nobody scrolls.
func TestALogThatBlocksDoesNotStopTheClock(t *testing.T) {
	s, _ := server(t)
	proxy := faultproxy.New(t, s.Addr())
	dir := t.TempDir()
	go func() {
		waitForFile(dir + "/started")
		proxy.Refuse()
	}()
	blocked := make(chan struct{})
	defer close(blocked)
	_, err := lockexec.Run(t.Context(), lock.New(lockClient(t, proxy.Addr())), lockexec.Options{
		Name: lockName, TTL: time.Second, Log: slog.New(slog.NewTextHandler(blockingWriter{blocked}, nil)),
		Command: []string{"sh", "-c", `touch "$0/started"; sleep 1000`, dir},
	})
	if !errors.Is(err, lockexec.ErrLost) {
		t.Errorf("got %v", err)
	}
}

type blockingWriter struct{ until chan struct{} }

func (w blockingWriter) Write(p []byte) (int, error) {
	<-w.until
	return len(p), nil
}

func TestRunRefusesOptionsThatContradict(t *testing.T) {
	client := lockClient(t, "127.0.0.1:1")
	for what, opts := range map[string]lockexec.Options{
		"no command":     {Name: lockName},
		"no name":        {Command: []string{"true"}},
		"long kill":      {Name: lockName, Command: []string{"true"}, TTL: time.Second, KillAfter: 501 * time.Millisecond},
		"a lease of 1ms": {Name: lockName, Command: []string{"true"}, TTL: time.Millisecond},
		"once for 1us":   {Name: lockName, Command: []string{"true"}, Once: "id", OnceTTL: time.Microsecond},
		"once for -1s":   {Name: lockName, Command: []string{"true"}, Once: "id", OnceTTL: -time.Second},
	} {
		if _, err := lockexec.Run(t.Context(), lock.New(client), opts); err == nil || errors.Is(err, lockexec.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A signal may come at any moment around the grant: it ends the attempt, or it
// reaches the command, but it is never lost.
func TestASignalAtTheGrantIsNotLost(t *testing.T) {
	s, _ := server(t)
	for range 100 {
		signals := make(chan os.Signal, 1)
		client := lock.NewClient(&redis.Options{Addr: s.Addr()})
		client.AddHook(onceAnswered{sync.OnceFunc(func() { go func() { signals <- syscall.SIGTERM }() })})
		status, err := lockexec.Run(t.Context(), lock.New(client), lockexec.Options{
			Name: lockName, Command: []string{"sleep", "60"}, Signals: signals,
		})
		var interrupted *lockexec.InterruptedError
		if !errors.As(err, &interrupted) && (err != nil || status.Signal != syscall.SIGTERM) {
			t.Fatalf("%v, %v: the signal was lost", status, err)
		}
		_ = client.Close()
	}
}

// onceAnswered is a hook that does something when a script was answered.
type onceAnswered struct{ act func() }

func (onceAnswered) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h onceAnswered) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "eval" {
			defer h.act()
		}
		return next(ctx, cmd)
	}
}

func (onceAnswered) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A lease that is over when the command is about to start starts nothing, and is
// no loss of a lock that the command had.
func TestALeaseThatIsOverBeforeTheStart(t *testing.T) {
	s, admin := server(t)
	mark := filepath.Join(t.TempDir(), "ran")
	_, err := lockexec.Run(t.Context(), lock.New(lockClient(t, s.Addr())), lockexec.Options{
		Name: lockName, TTL: 200 * time.Millisecond, ConnectTimeout: 20 * time.Second, Command: []string{"touch", mark},
		Observe: func(e lockexec.Event) {
			for e.Kind == lockexec.Acquired && admin.Exists(t.Context(), lockName).Val() != 0 {
				time.Sleep(time.Millisecond)
			}
		},
	})
	if !errors.Is(err, lockexec.ErrUnavailable) || errors.Is(err, lockexec.ErrLost) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran")
	}
}

// A channel of signals that is closed has no more of them.
func TestAClosedChannelOfSignals(t *testing.T) {
	_, admin := server(t)
	t.Run("before", func(t *testing.T) {
		signals := make(chan os.Signal)
		close(signals)
		status, err := lockexec.Run(t.Context(), lock.New(admin), lockexec.Options{Name: lockName, Command: []string{"true"}, Signals: signals})
		if err != nil || status != (proc.Status{}) {
			t.Errorf("got %v, %v", status, err)
		}
	})
	t.Run("meanwhile", func(t *testing.T) {
		signals := make(chan os.Signal)
		status, err := lockexec.Run(t.Context(), lock.New(admin), lockexec.Options{
			Name: lockName, Command: []string{"sleep", "0.3"}, Signals: signals,
			Observe: func(e lockexec.Event) {
				if e.Kind == lockexec.Started {
					close(signals)
				}
			},
		})
		if err != nil || status != (proc.Status{}) {
			t.Errorf("got %v, %v", status, err)
		}
	})
}
