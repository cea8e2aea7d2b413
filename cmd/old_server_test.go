//go:build unix

package cmd_test

import (
	"testing"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// Servers, services and proxies that know less than a Redis of today will do.
func TestARunNeedsFewCommands(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		unknown []string
		opts    []redistest.Option
		auth    string
	}{
		"no HELLO and no CLIENT":    {unknown: []string{"HELLO", "CLIENT"}},
		"those, and a password":     {unknown: []string{"HELLO", "CLIENT"}, opts: []redistest.Option{redistest.WithPassword("pw")}, auth: "pw"},
		"no EVALSHA and no SCRIPT":  {unknown: []string{"EVALSHA", "SCRIPT"}},
		"no COMMAND, INFO and PING": {unknown: []string{"COMMAND", "INFO", "PING"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, command := range tc.unknown {
				tc.opts = append(tc.opts, redistest.WithConfig("rename-command", command+` ""`))
			}
			server := redistest.Start(t, tc.opts...)
			url := server.URL()
			if tc.auth != "" {
				url = "redis://:" + tc.auth + "@" + server.Addr()
			}
			holder := startJob(t, "-r", url)
			fence := holder.fence()
			if code := runNow(t, "-r", url); code != 75 {
				t.Errorf("another run: exit code %d, want 75", code)
			}
			waiter := startJob(t, "-r", url, "--wait", "forever", "--progress", "never")
			holder.passesTo(waiter, fence)
			waiter.finish()
			waiter.ends(7)
		})
	}
}
