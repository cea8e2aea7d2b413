//go:build linux

package cmd_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Many processes and a resource that counts: never more inside than there are
// slots.
func TestTwoHundredProcessesAndSevenSlots(t *testing.T) {
	server, admin := guardServer(t)
	const processes, slots = 200, 7
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	var all []*exec.Cmd
	for range processes {
		cmd := exec.Command("redlockrun", "--key", "k", "--slots", fmt.Sprint(slots), "--wait", "forever", "--progress", "never",
			"--redis", server.URL(), "--connect-timeout", "60s", "--",
			"sh", "-c", "touch in/$$; ls in | wc -l >>counts; sleep 0.02; rm in/$$")
		cmd.Dir = dir
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "counts"))
	if err != nil {
		t.Fatal(err)
	}
	counts := strings.Fields(string(text))
	if len(counts) != processes {
		t.Errorf("%d of %d ran", len(counts), processes)
	}
	most := 0
	for _, count := range counts {
		var n int
		_, _ = fmt.Sscan(count, &n)
		most = max(most, n)
	}
	if most > slots {
		t.Errorf("%d were inside at once", most)
	}
	if most < 2 {
		t.Error("nobody shared the slots: this proves nothing")
	}
	if keys := admin.Keys(t.Context(), "lock:*").Val(); len(keys) > 0 {
		t.Errorf("left: %q", keys)
	}
}

// A waiter that is stopped is passed over; when it runs again, it queues anew.
func TestAStoppedWaiterIsPassedOver(t *testing.T) {
	server, admin := guardServer(t)
	dir := t.TempDir()
	wait := func(name string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command("redlockrun", "--key", "k", "--wait", "forever", "--redis", server.URL(), "--", "sh", "-c", "echo "+name+" >>order")
		cmd.Dir = dir
		stderr := new(bytes.Buffer)
		cmd.Stderr = stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGCONT)
			_ = cmd.Process.Kill()
		})
		return cmd, stderr
	}
	admin.Set(t.Context(), guardedLock, "foreign", 0)
	queue := func(n int64) {
		eventually(t, fmt.Sprintf("%d wait", n), func() bool {
			return admin.ZCard(t.Context(), "redlockrun:queue:{"+guardedLock+"}").Val() == n
		})
	}
	stopped, _ := wait("stopped")
	queue(1)
	second, _ := wait("second")
	queue(2)
	supervisor := childrenOf(stopped.Process.Pid)[0]
	_ = syscall.Kill(supervisor, syscall.SIGSTOP)
	_ = stopped.Process.Signal(syscall.SIGSTOP)
	admin.Del(t.Context(), guardedLock)
	if err := second.Wait(); err != nil {
		t.Error(err)
	}
	_ = syscall.Kill(supervisor, syscall.SIGCONT)
	_ = stopped.Process.Signal(syscall.SIGCONT)
	if err := stopped.Wait(); err != nil {
		t.Error(err)
	}
	order, _ := os.ReadFile(filepath.Join(dir, "order"))
	if string(order) != "second\nstopped\n" {
		t.Errorf("the order was %q", order)
	}
}
