package redistest_test

import (
	"testing"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

func TestSetClock(t *testing.T) {
	redistest.NeedClock(t)
	srv := redistest.Start(t, redistest.WithClock(), redistest.WithPersistence())
	client := srv.Client(t)
	ahead := func() time.Duration {
		t.Helper()
		now, err := client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(now).Round(30 * time.Minute)
	}
	if err := client.Set(t.Context(), "k", "v", 90*time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []time.Duration{0, time.Hour, -2 * time.Hour} {
		if err := srv.SetClock(want); err != nil {
			t.Fatal(err)
		}
		if got := ahead(); got != want {
			t.Errorf("the clock is %v ahead, want %v", got, want)
		}
	}
	srv.Kill()
	if err := srv.Restart(); err != nil {
		t.Fatal(err)
	}
	if got := ahead(); got != -2*time.Hour {
		t.Errorf("after a restart the clock is %v ahead", got)
	}
	if got := client.PTTL(t.Context(), "k").Val().Round(time.Hour / 2); got != 210*time.Minute {
		t.Errorf("two hours before it was set, the key has %v to live", got)
	}
	if err := srv.SetClock(2 * time.Hour); err != nil {
		t.Fatal(err)
	}
	if n := client.Exists(t.Context(), "k").Val(); n != 0 {
		t.Error("two hours later the key is still there")
	}
}
