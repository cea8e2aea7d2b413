//go:build linux

package cmd_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// placeUnderTest is where a lock is kept, with the servers that a fault befalls.
type placeUnderTest struct {
	flags   []string
	servers []*redistest.Server
	others  []*redistest.Server // of a quorum
}

func (p placeUnderTest) each(t *testing.T, do func(s *redistest.Server, admin *redis.Client)) {
	t.Helper()
	for _, s := range p.servers {
		do(s, s.Client(t))
	}
}

// placesUnderTest start the places that there are; of a quorum, one server or
// two of the three.
var placesUnderTest = map[string]func(t *testing.T, opts ...redistest.Option) placeUnderTest{
	"one server": func(t *testing.T, opts ...redistest.Option) placeUnderTest {
		s := redistest.Start(t, opts...)
		return placeUnderTest{flags: []string{"-r", s.URL()}, servers: []*redistest.Server{s}}
	},
	"sentinel": func(t *testing.T, opts ...redistest.Option) placeUnderTest {
		s := redistest.StartSentinel(t, 0, opts...)
		return placeUnderTest{flags: []string{"-r", s.URL()}, servers: s.Servers}
	},
	"cluster": func(t *testing.T, opts ...redistest.Option) placeUnderTest {
		c := redistest.StartCluster(t, 1, opts...)
		return placeUnderTest{flags: []string{"-r", c.URL()}, servers: c.Primaries}
	},
	"quorum, a minority": func(t *testing.T, opts ...redistest.Option) placeUnderTest { return quorumOf(t, 1, opts...) },
	"quorum, a majority": func(t *testing.T, opts ...redistest.Option) placeUnderTest { return quorumOf(t, 2, opts...) },
}

func quorumOf(t *testing.T, faulty int, opts ...redistest.Option) placeUnderTest {
	t.Helper()
	var p placeUnderTest
	for range 3 {
		s := redistest.Start(t, opts...)
		p.servers = append(p.servers, s)
		p.flags = append(p.flags, "-r", s.URL())
	}
	p.servers, p.others = p.servers[:faulty], p.servers[faulty:]
	return p
}

// What a fault of the servers comes to for a command that runs: it goes on, to
// its own end, or it is stopped, as its lock was lost or may have been. A
// minority of a quorum never matters. docs/guarantees.md has this as a table.
func TestEachFaultAtEachPlace(t *testing.T) {
	t.Parallel()
	for fault, tc := range serverFaults {
		for place, start := range placesUnderTest {
			want := tc.at(place)
			t.Run(place+"/"+fault, func(t *testing.T) {
				t.Parallel()
				p := start(t, tc.opts...)
				holder := startJob(t, append(p.flags, "--ttl", tc.ttl, "--connect-timeout", "60s")...)
				holder.fence()
				for _, s := range append(p.others, p.servers...) {
					admin := s.Client(t)
					// Of a quorum, one may lack it until the next renewal.
					eventually(t, "the server has the lock", func() bool { return admin.Exists(t.Context(), guardedLock).Val() == 1 })
				}
				tc.befalls(t, p)
				if want == goesOn {
					awaitRenewal(t, p)
					holder.finish()
				}
				holder.ends(want)
			})
		}
	}
}

// The exit codes of a job that goes on, and of one that is stopped.
const (
	goesOn  = 7
	stopped = 79
)

// serverFault is something that befalls servers.
type serverFault struct {
	opts    []redistest.Option
	want    int // goesOn or stopped
	ttl     string
	befalls func(t *testing.T, p placeUnderTest)
}

// at is what the fault comes to at a place.
func (f serverFault) at(place string) int {
	if place == "quorum, a minority" {
		return goesOn
	}
	return f.want
}

var serverFaults = map[string]serverFault{
	"killed, and back with its data": {
		opts: []redistest.Option{redistest.WithPersistence()}, want: goesOn, ttl: "15s",
		befalls: func(t *testing.T, p placeUnderTest) {
			p.each(t, func(s *redistest.Server, _ *redis.Client) { s.Kill(); restart(t, s) })
		},
	},
	"killed, and back without its data": {
		want: stopped, ttl: "3s",
		befalls: func(t *testing.T, p placeUnderTest) {
			p.each(t, func(s *redistest.Server, _ *redis.Client) { s.Kill(); restart(t, s) })
		},
	},
	"killed for good": {
		want: stopped, ttl: "3s",
		befalls: func(t *testing.T, p placeUnderTest) {
			p.each(t, func(s *redistest.Server, _ *redis.Client) { s.Kill() })
		},
	},
	"silent for 3 s": {
		want: goesOn, ttl: "15s",
		befalls: func(t *testing.T, p placeUnderTest) {
			p.each(t, func(s *redistest.Server, _ *redis.Client) { _ = s.Stop() })
			time.Sleep(3 * time.Second) // the fault itself
			p.each(t, func(s *redistest.Server, _ *redis.Client) { _ = s.Cont() })
		},
	},
	"silent for good": {
		want: stopped, ttl: "3s",
		befalls: func(t *testing.T, p placeUnderTest) {
			p.each(t, func(s *redistest.Server, _ *redis.Client) { _ = s.Stop() })
		},
	},
	"the lock is evicted or deleted": {
		want: stopped, ttl: "3s",
		befalls: func(t *testing.T, p placeUnderTest) {
			p.each(t, func(_ *redistest.Server, admin *redis.Client) { admin.Del(t.Context(), guardedLock) })
		},
	},
	"flushed": {
		want: stopped, ttl: "3s",
		befalls: func(t *testing.T, p placeUnderTest) {
			p.each(t, func(_ *redistest.Server, admin *redis.Client) { admin.FlushAll(t.Context()) })
		},
	},
	"out of memory": {
		want: goesOn, ttl: "3s",
		befalls: func(t *testing.T, p placeUnderTest) {
			p.each(t, func(_ *redistest.Server, admin *redis.Client) {
				admin.ConfigSet(t.Context(), "maxmemory-policy", "noeviction")
				admin.ConfigSet(t.Context(), "maxmemory", "1")
			})
		},
	},
	"refuses writes for good": {
		want: stopped, ttl: "3s",
		befalls: func(t *testing.T, p placeUnderTest) {
			p.each(t, func(_ *redistest.Server, admin *redis.Client) {
				admin.ConfigSet(t.Context(), "min-replicas-to-write", "3")
			})
		},
	},
}

func restart(t *testing.T, s *redistest.Server) {
	t.Helper()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
}

// awaitRenewal waits until the lock was renewed where the fault was, or, where
// nobody answers or the lock can't be, has been renewed elsewhere for a while.
func awaitRenewal(t *testing.T, p placeUnderTest) {
	t.Helper()
	last := time.Duration(1 << 62)
	for deadline := time.Now().Add(8 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		left := p.servers[0].Client(t).PTTL(t.Context(), guardedLock).Val()
		if left > last {
			return
		}
		if left > 0 {
			last = left
		}
	}
}

// The page has a row for each fault, a column for each place, and says in each
// cell what is tested.
func TestTheGuaranteesPageSaysWhatIsTested(t *testing.T) {
	page, err := os.ReadFile("../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	cells := map[string]map[string]string{} // fault, place
	var places []string
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "|") {
			if len(cells) > 0 {
				break
			}
			continue
		}
		var row []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|\n"), "|") {
			row = append(row, strings.Trim(cell, "* "))
		}
		switch {
		case places == nil:
			places = row[1:]
		case !strings.HasPrefix(line, "|---"):
			cells[row[0]] = map[string]string{}
			for i, place := range places {
				cells[row[0]][place] = row[i+1]
			}
		}
	}
	if len(cells) != len(serverFaults) || len(places) != len(placesUnderTest) {
		t.Errorf("%d faults at %d places, want %d at %d", len(cells), len(places), len(serverFaults), len(placesUnderTest))
	}
	for fault, tc := range serverFaults {
		for place := range placesUnderTest {
			want := map[int]string{goesOn: "goes on", stopped: "stopped"}[tc.at(place)]
			if got := cells[fault][place]; got != want {
				t.Errorf("%s, %s: the page says %q, the test %q", place, fault, got, want)
			}
		}
	}
	tests, err := exec.Command("grep", "-rhoE", "^func Test[A-Za-z]+", "--include=*_test.go", "..").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsFuncSeq(string(page), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if strings.HasPrefix(name, "Test") && !strings.Contains(string(tests), "func "+name+"\n") {
			t.Errorf("there is no test %s", name)
		}
	}
}
