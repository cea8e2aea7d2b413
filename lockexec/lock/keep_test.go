package lock

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// fakeServer answers one script after the other, in the fake time of a
// synctest bubble, and notes when each came.
type fakeServer struct {
	mu     sync.Mutex
	start  time.Time
	asked  []time.Duration
	answer func(n int) (any, error) // n counts from 0
	delay  func(n int) time.Duration
}

func (f *fakeServer) Process(ctx context.Context, cmd redis.Cmder) error {
	f.mu.Lock()
	n := len(f.asked)
	f.asked = append(f.asked, time.Since(f.start))
	f.mu.Unlock()
	if f.delay != nil {
		select {
		case <-time.After(f.delay(n)):
		case <-ctx.Done():
			cmd.SetErr(ctx.Err())
			return ctx.Err()
		}
	}
	value, err := f.answer(n)
	cmd.SetErr(err)
	if err == nil {
		cmd.(onceCmd).SetVal(value)
	}
	return err
}

func (f *fakeServer) times() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Duration(nil), f.asked...)
}

// fakeLease is a lease that was taken now.
func fakeLease(f *fakeServer, ttl time.Duration) *Lease {
	f.start = time.Now()
	clock := func() Instant { return Instant(time.Since(f.start)) }
	lease := &Lease{
		locker: &Locker{servers: []*server{{client: f, place: "fake"}}, now: clock},
		name:   "n", token: "t", ttl: ttl,
	}
	lease.extend(clock())
	return lease
}

func keepFor(lease *Lease, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	err := lease.Keep(ctx, slog.New(slog.DiscardHandler))
	lease.calls.Wait()
	return err
}

func TestKeepRenewsEveryThirdOfTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{answer: func(int) (any, error) { return int64(1), nil }}
		lease := fakeLease(f, 15*time.Second)
		if err := keepFor(lease, 16*time.Second); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{5 * time.Second, 10 * time.Second, 15 * time.Second}
		got := f.times()
		if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
			t.Errorf("renewed at %v, want %v", got, want)
		}
		if end := lease.SafeEnd(); end != Instant(30*time.Second-152*time.Millisecond) {
			t.Errorf("safe end %v, want 15 s + ttl - 1 %% - 2 ms", time.Duration(end))
		}
	})
}

// The acquisition did not wait for all servers of a quorum. Until those that
// lack the lock have it, one failure more is one too many.
func TestKeepRenewsAQuorumAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fakes []*fakeServer
		var lease *Lease
		for range 3 {
			f := &fakeServer{answer: func(int) (any, error) { return int64(1), nil }}
			one := fakeLease(f, 15*time.Second)
			if fakes = append(fakes, f); lease == nil {
				lease = one
				continue
			}
			lease.locker.servers = append(lease.locker.servers, one.locker.servers...)
		}
		if err := keepFor(lease, 11*time.Second); err != nil {
			t.Fatal(err)
		}
		for _, f := range fakes {
			want := []time.Duration{0, 5 * time.Second, 10 * time.Second}
			if got := f.times(); !slices.Equal(got, want) {
				t.Errorf("renewed at %v, want %v", got, want)
			}
		}
	})
}

func TestKeepRidesOutAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{answer: func(n int) (any, error) {
			if n < 10 {
				return nil, replyError("LOADING Redis is loading the dataset in memory")
			}
			return int64(1), nil
		}}
		lease := fakeLease(f, 15*time.Second)
		if err := keepFor(lease, 14*time.Second); err != nil {
			t.Fatal(err)
		}
		got := f.times()
		if len(got) < 11 {
			t.Fatalf("tries at %v", got)
		}
		if got[1] != got[0] {
			t.Errorf("second try at %v, want at once after %v", got[1], got[0])
		}
		for i := 2; i < 11; i++ {
			if pause := got[i] - got[i-1]; pause <= 0 || pause > 500*time.Millisecond {
				t.Errorf("pause %v before try %d", pause, i)
			}
		}
		if lease.Expired() != nil {
			t.Error("the lease ran out, though a renewal succeeded")
		}
	})
}

func TestKeepDoesNotWaitForAServerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{
			answer: func(int) (any, error) { return int64(1), nil },
			delay: func(n int) time.Duration {
				if n == 0 {
					return time.Hour
				}
				return 0
			},
		}
		lease := fakeLease(f, 6*time.Second)
		if err := keepFor(lease, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		got := f.times()
		if len(got) < 2 || got[0] != 2*time.Second || got[1] != 3*time.Second {
			t.Errorf("tries at %v, want a second one a sixth of the ttl after the first at 2s", got)
		}
	})
}

func TestKeepReportsALossOnceAndForAll(t *testing.T) {
	for answer, reason := range map[int64]LossReason{0: LossMissing, -1: LossReplaced} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeServer{answer: func(int) (any, error) { return answer, nil }}
			err := keepFor(fakeLease(f, 15*time.Second), time.Hour)
			var lost *LostError
			if !errors.As(err, &lost) || lost.Reason != reason {
				t.Errorf("got %v, want %v", err, reason)
			}
			if n := len(f.times()); n != 1 {
				t.Errorf("asked %d times, want once", n)
			}
		})
	}
}

func TestALateReplyDoesNotMoveTheSafeEndPastItsSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{
			answer: func(int) (any, error) { return int64(1), nil },
			delay:  func(int) time.Duration { return 2 * time.Second },
		}
		lease := fakeLease(f, 15*time.Second)
		if err := lease.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if end := lease.SafeEnd(); end != Instant(15*time.Second-152*time.Millisecond) {
			t.Errorf("safe end %v, want counted from when the renewal was sent, 0s", time.Duration(end))
		}
	})
}

// Two renewals may be under way, and the first be answered last.
func TestARenewalThatIsOvertakenDoesNotMoveTheSafeEndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{
			answer: func(int) (any, error) { return int64(1), nil },
			delay:  func(n int) time.Duration { return []time.Duration{2 * time.Second, 0}[n] },
		}
		lease := fakeLease(f, 15*time.Second)
		first := make(chan error, 1)
		go func() { first <- lease.Renew(t.Context()) }()
		time.Sleep(time.Second)
		if err := lease.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		if end := lease.SafeEnd(); end != Instant(16*time.Second-152*time.Millisecond) {
			t.Errorf("safe end %v, want counted from the later renewal, at 1s", time.Duration(end))
		}
	})
}

func TestTheHolderRecordOfALongRunIsRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{answer: func(int) (any, error) { return int64(1), nil }}
		lease := fakeLease(f, 24*time.Hour)
		if err := keepFor(lease, 23*time.Hour); err != nil { // two renewals fall into it
			t.Fatal(err)
		}
		if n := len(f.times()); n != 2 {
			t.Errorf("%d commands at %v, want 2: records live for 10 ttls there", n, f.times())
		}
		f = &fakeServer{answer: func(int) (any, error) { return int64(1), nil }}
		lease = fakeLease(f, time.Hour)
		if err := keepFor(lease, 9*time.Hour); err != nil {
			t.Fatal(err)
		}
		renewals := 9 * 3
		if n := len(f.times()); n < renewals+1 || n > renewals+3 {
			t.Errorf("%d commands in 9 h, want about %d renewals and 2 refreshes", n, renewals)
		}
	})
}

func TestOddRepliesAreFaults(t *testing.T) {
	for _, reply := range []any{
		nil, "OK", int64(7),
		[]any{},
		[]any{int64(1)},
		[]any{int64(1), "x"},
		[]any{int64(1), "-5"},
		[]any{int64(2), "1"},
		[]any{int64(0), int64(1)},
		[]any{int64(0), "x", "", "1"},
		[]any{int64(0), int64(1), int64(3), "1"},
		[]any{int64(0), int64(1), "", "x"},
		[]any{"1", "5"},
	} {
		if got, err := parseAcquireReply(reply); err == nil {
			t.Errorf("parseAcquireReply(%v) = %+v", reply, got)
		}
	}
	for _, reply := range []any{nil, "1", int64(2), int64(-3), []any{int64(1)}} {
		if got, err := parseOwnership("renew", reply); err == nil {
			t.Errorf("parseOwnership(%v) = %v", reply, got)
		}
	}
}

func FuzzParseAcquireReply(f *testing.F) {
	f.Add(int64(0), int64(100), `{"host":"h","pid":1,"since":5}`, "10")
	f.Add(int64(0), int64(-1), "", "9223372036854775807")
	f.Add(int64(1), int64(5), "", "")
	f.Fuzz(func(t *testing.T, kind, number int64, record, now string) {
		reply, err := parseAcquireReply([]any{kind, number, record, now, number, number, record}[:map[int64]int{0: 7, 1: 2, 3: 2, 5: 2}[kind]])
		if err != nil {
			return
		}
		if reply.acquired && reply.fence <= 0 {
			t.Errorf("fence %d", reply.fence)
		}
		if !reply.acquired && (reply.heldFor < 0 || reply.remaining < 0 && reply.remaining != NoExpiry) {
			t.Errorf("held for %v, remaining %v", reply.heldFor, reply.remaining)
		}
	})
}

// The end of an exchange and its answer come together; the answer counts.
func TestAnAnswerIsNeverTakenForATimeout(t *testing.T) {
	f := &fakeServer{answer: func(int) (any, error) { return int64(1), nil }}
	lease := fakeLease(f, 15*time.Second)
	for range 20_000 {
		if err := lease.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// An answer that comes when the lease is over grants nothing, unless the lock is
// still there.
func TestAnAnswerThatComesTooLateIsAskedForAgain(t *testing.T) {
	for what, state := range map[string]int64{"there": 1, "gone": 0, "another's": -1} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeServer{
					answer: func(n int) (any, error) {
						if n == 0 {
							return []any{int64(1), "7"}, nil
						}
						return state, nil
					},
					delay: func(n int) time.Duration {
						if n == 0 {
							return time.Second
						}
						return 0
					},
				}
				locker := fakeLease(f, time.Second).locker
				time.Sleep(time.Second) // 0 is no instant
				lease, err := locker.Acquire(t.Context(), Request{Name: "n", TTL: 500 * time.Millisecond})
				switch {
				case state == 1 && err != nil:
					t.Error(err)
				case state == 1 && lease.Expired() != nil:
					t.Error("it has a lease that is over")
				case state != 1 && (!errors.Is(err, ErrUnavailable) || errors.Is(err, ErrLost)):
					t.Errorf("got %v, want ErrUnavailable", err)
				}
			})
		})
	}
}

// A try that released some servers of a quorum may have been the one that freed
// the lock: then it was not lost.
func TestAReleaseOfAQuorumInPartsIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		reachableFrom := func(from int) *fakeServer {
			return &fakeServer{start: time.Now(), answer: func(n int) (any, error) {
				switch {
				case n < from:
					return nil, refused
				case n == from:
					return int64(1), nil
				default:
					return int64(0), nil
				}
			}}
		}
		lease := fakeLease(reachableFrom(0), time.Minute)
		for _, from := range []int{1, 1000} {
			lease.locker.servers = append(lease.locker.servers, &server{client: reachableFrom(from), place: "fake"})
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
