package lock

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePlace(t *testing.T) {
	for text, want := range map[string]Place{
		"embedded":                     {Embedded: true},
		"redis://":                     {Network: "tcp", Addr: "127.0.0.1:6379"},
		"redis://h":                    {Network: "tcp", Addr: "h:6379"},
		"redis://h:1/3":                {Network: "tcp", Addr: "h:1", DB: 3},
		"redis://h?db=3":               {Network: "tcp", Addr: "h:6379", DB: 3},
		"redis:///2":                   {Network: "tcp", Addr: "127.0.0.1:6379", DB: 2},
		"redis://[::1]:7000":           {Network: "tcp", Addr: "[::1]:7000"},
		"redis://[::1]":                {Network: "tcp", Addr: "[::1]:6379"},
		"rediss://h?protocol=2":        {Network: "tcp", Addr: "h:6379", TLS: true, Protocol: 2},
		"redis://:p%23w%2F%40@h":       {Network: "tcp", Addr: "h:6379", Password: "p#w/@"},
		"redis://u:p:w@h":              {Network: "tcp", Addr: "h:6379", Username: "u", Password: "p:w"},
		"redis://u@h":                  {Network: "tcp", Addr: "h:6379", Username: "u"},
		"redis-sentinel://a,[::1]:7/m": {Master: "m", Addrs: []string{"a:26379", "[::1]:7"}},
		"redis-sentinel://u:p@a/m/2?sentinel-username=s&sentinel-password=t%40": {
			Master: "m", Addrs: []string{"a:26379"}, DB: 2, Username: "u", Password: "p", SentinelUsername: "s", SentinelPassword: "t@",
		},
		"rediss-sentinel://a:1/m?db=3":      {Master: "m", Addrs: []string{"a:1"}, DB: 3, TLS: true},
		"redis-cluster://a":                 {Cluster: true, Addrs: []string{"a:6379"}},
		"rediss-cluster://:p@a:1,b:2,c/0":   {Cluster: true, Addrs: []string{"a:1", "b:2", "c:6379"}, Password: "p", TLS: true},
		"unix:///run/r.sock":                {Network: "unix", Addr: "/run/r.sock"},
		"unix://u:p@/run/r.sock?db=1":       {Network: "unix", Addr: "/run/r.sock", Username: "u", Password: "p", DB: 1},
		"unix:///with%20blank?protocol=3":   {Network: "unix", Addr: "/with blank", Protocol: 3},
		"REDIS://h":                         {Network: "tcp", Addr: "h:6379"},
		"redis://h:6379/0?db=&protocol=3&x": {}, // refused below, for db and x
	} {
		got, err := ParsePlace(text)
		if reflect.DeepEqual(want, Place{}) {
			if err == nil {
				t.Errorf("ParsePlace(%q) = %+v, want an error", text, got)
			}
			continue
		}
		if err != nil {
			t.Errorf("ParsePlace(%q): %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ParsePlace(%q): %s", text, diff)
		}
	}
}

func TestParsePlaceRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "no scheme",
		"localhost:6379":           "no scheme",
		"h":                        "no scheme",
		"http://h":                 "unknown scheme",
		"redis-sentinel://h":       "names no master",
		"redis-sentinel:///m":      "empty host",
		"redis-sentinel://h,/m":    "empty host",
		"redis-sentinel://h,u@i/m": "comma",
		"redis-sentinel://h,i/m/x": "number",
		"redis-sentinel://h/m?sentinel-username=u":   "without",
		"redis-cluster://h/3":                        "one alone",
		"redis-cluster://h?db=3":                     "unknown parameter",
		"redis-cluster://h?sentinel-password=SECRET": "unknown parameter",
		"redis-cluster://h:1,i:x":                    "can't be read",
		"redis-cluster://h:1,i:0":                    "ports go",
		"redis-cluster://":                           "empty host",
		"redisss://h":                                "unknown scheme",
		"redis://h?dial_timeout=3":                   "--connect-timeout",
		"rediss-embedded":                            "no scheme",
		"redis://h1,h2":                              "several hosts",
		"redis://h1:1,h2:2":                          "several hosts",
		"redis://h:0":                                "port",
		"redis://h:65536":                            "port",
		"redis://h:":                                 "no port",
		"redis://:6379":                              "no host",
		"redis://h/-1":                               "number",
		"redis://h/x":                                "number",
		"redis://h/1/2":                              "number",
		"redis://h/99999999999":                      "number",
		"redis://h/1?db=1":                           "twice",
		"redis://h?db=1&db=2":                        "more than once",
		"redis://h?db=":                              "number",
		"redis://h?protocol=4":                       "protocol",
		"redis://h?dbb=1":                            "unknown parameter",
		"redis://h?read_timeout=0":                   "unknown parameter",
		"redis://h#1":                                "%23",
		"redis://h#":                                 "%23",
		"redis://h\n":                                "line end",
		"unix://run/r.sock":                          "three slashes",
		"unix:///":                                   "three slashes",
		"unix://":                                    "three slashes",
		"unix:///s/1?db=x":                           "number",
		"redis://u:SECRET#x@h":                       "",
		"redis://u:SECRET/x@h":                       "",
		"redis://u:SECRET?x@h":                       "",
		"redis://u:SECRET%zz@h":                      "percent-encoded",
		"redis://u:SECRET@h:x":                       "",
		"redis://:SECRET@h?x=1":                      "unknown parameter",
		"rediss://u:SECRET@h:70000":                  "port",
		"redis://u:12/SECRET@h":                      "percent-encoded",
		"redis://u:12?SECRET@h":                      "percent-encoded",
		"redis://u:12/x?SECRET@h":                    "percent-encoded",
		"redis://a:1/x?db=SECRET@h":                  "percent-encoded",
		"redis://u:99999/SECRET@h":                   "percent-encoded",
		"redis://h/SECRET":                           "number",
		"redis://h?db=SECRET":                        "number",
		"redis://h?protocol=SECRET":                  "protocol",
	} {
		_, err := ParsePlace(text)
		if err == nil {
			t.Errorf("ParsePlace(%q): no error", text)
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("ParsePlace(%q): %q, want it to say %q", text, err, want)
		}
		if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("ParsePlace(%q) shows the password: %q", text, err)
		}
	}
}

func TestPlaceHidesCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"redis://u:SECRET@h:1/2":    "h:1",
		"unix://u:SECRET@/r?db=1":   "unix:///r",
		"embedded":                  "embedded",
		"rediss://:SECRET@[::1]:80": "[::1]:80",
	} {
		place, err := ParsePlace(text)
		if err != nil || place.String() != want {
			t.Errorf("ParsePlace(%q).String() = %q, %v, want %q", text, place.String(), err, want)
		}
	}
}

func FuzzParsePlace(f *testing.F) {
	for _, text := range []string{
		"embedded", "redis://:SECRET@h:1/2?protocol=3", "unix://u:SECRET@/p?db=1", "rediss://SECRET:SECRET@[::1]/",
		"redis-sentinel://u:SECRET@a:1,[::1]/m/2?sentinel-username=u&sentinel-password=SECRET", "rediss-cluster://a:1,b:2,c",
		"redis://u:SECRET@h#x", "redis://u:SECRET@%zz", "redis://u:SECRET/@h",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		place, err := ParsePlace(text)
		if err != nil {
			return
		}
		if place.Embedded {
			return
		}
		single := (place.Network == "tcp" || place.Network == "unix") && place.Addr != "" && len(place.Addrs) == 0
		several := place.Network == "" && place.Addr == "" && len(place.Addrs) > 0 && place.Cluster == (place.Master == "")
		if single == several || place.DB < 0 {
			t.Errorf("ParsePlace(%q) = %+v", text, place)
		}
		for _, secret := range []string{place.Password, place.SentinelPassword} {
			if len(secret) > 8 && strings.Contains(place.String(), secret) &&
				!strings.Contains(place.Addr+place.Master+strings.Join(place.Addrs, ","), secret) {
				t.Errorf("ParsePlace(%q).String() = %q shows a password", text, place)
			}
		}
	})
}
