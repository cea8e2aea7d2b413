package cmd

import (
	"testing"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

func TestAPlaceIsShownWithoutWhatIsSecret(t *testing.T) {
	for text, want := range map[string]string{
		"redis://h:1/2":                 "redis://h:1/2",
		"redis://u:PW@h":                "redis://u:***@h",
		"redis://:PW@h/1?protocol=3":    "redis://:***@h/1?protocol=3",
		"redis://PW@h":                  "redis://***@h",
		"redis://u:P@W:PW@h":            "redis://u:***@h",
		"rediss://u:P%2FW@h":            "rediss://u:***@h",
		"unix://u:PW@/run/a@b/redis.s":  "unix://u:***@/run/a@b/redis.s",
		"unix://u:PW@/run/redis.s?db=1": "unix://u:***@/run/redis.s?db=1",
		"redis-cluster://u:PW@a,b:2":    "redis-cluster://u:***@a,b:2",
		"embedded":                      "embedded",
		"redis-sentinel://u:PW@a,b/m/2?sentinel-username=v&sentinel-password=PW":  "redis-sentinel://u:***@a,b/m/2?sentinel-username=v&sentinel-password=***",
		"rediss-sentinel://a/m?db=1&sentinel-pass%77ord=PW&sentinel%2Dusername=v": "rediss-sentinel://a/m?db=1&sentinel-pass%77ord=***&sentinel%2Dusername=v",
	} {
		if _, err := lock.ParsePlace(text); err != nil {
			t.Errorf("%s %v", text, err)
		}
		if got := maskedPlace(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}
