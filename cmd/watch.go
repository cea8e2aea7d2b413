package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
)

const (
	watchEvery = time.Second
	watchRows  = 6 // of holders, and of waiters: a small terminal has 24
)

// watch shows how the lock stands, again and again, until a signal ends it, or
// nobody reads it any more. An error ends it only before anything was shown: an outage passes, and what comes
// after it is what one watches for. Success markers are not looked for, which
// would go through all keys each time.
func (p *program) watch(ctx context.Context, l looker) error {
	width := p.width()
	var screen io.StringWriter = plainScreen{p.stdout}
	if width > 0 && !l.opts.asJSON {
		screen = &redrawn{to: p.stdout}
	}
	last := ""
	for first := true; ; first = false {
		seen, err := l.now(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && first {
			return err
		}
		state := watched(seen.snapshot, err)
		if _, redraws := screen.(*redrawn); redraws || state != last {
			if err := p.show(screen, l, seen, err); err != nil {
				return err
			}
		}
		last = state
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(watchEvery):
		}
		if readerGone(p.stdout) {
			return nil
		}
	}
}

// show prints what was seen, or why nothing was.
func (p *program) show(screen io.StringWriter, l looker, seen look, failure error) error {
	var text strings.Builder
	width := p.width()
	switch {
	case failure != nil && (l.opts.asJSON || width == 0):
		l.opts.output.logger().Warn(failure.Error()+"; trying again", "event", "unavailable", "lock", l.name)
		return nil
	case failure != nil:
		text.WriteString(cut(printable(failure.Error()), width) + "\n")
	case l.opts.asJSON:
		if err := printJSON(&text, newLockStatus(seen)); err != nil {
			return err
		}
	default:
		text.WriteString(time.Now().Format(time.DateTime) + "\n" + statusText(seen, width, watchRows))
		if width == 0 {
			text.WriteString("\n")
		}
	}
	_, err := screen.WriteString(text.String())
	return err
}

// watched is what has to change for something to have changed: not the times.
func watched(s lock.Snapshot, failure error) string {
	if failure != nil {
		if server, _ := errors.AsType[*lock.ServerError](failure); server != nil {
			return fmt.Sprint("unavailable ", server.Fault)
		}
		return "unavailable"
	}
	var b strings.Builder
	fmt.Fprint(&b, s.State, s.Held, s.Waiting, s.Remaining == lock.NoExpiry)
	for _, h := range s.Holders {
		fmt.Fprintf(&b, "|%v %+v", h.State, h.Holder)
	}
	for _, w := range s.Waiters {
		fmt.Fprintf(&b, "|%+v", w.Holder)
	}
	for _, server := range s.Servers {
		fmt.Fprintf(&b, "|%v %v %+v %v", server.Agrees, server.State, server.Holder, server.Err != nil)
	}
	return b.String()
}

// plainScreen is no terminal.
type plainScreen struct{ io.Writer }

func (s plainScreen) WriteString(text string) (int, error) { return io.WriteString(s.Writer, text) }

// redrawn is a terminal on which each text takes the place of the last.
type redrawn struct {
	to    io.Writer
	begun bool
}

func (r *redrawn) WriteString(text string) (int, error) {
	begin := "\x1b[H" // the upper left corner
	if !r.begun {
		begin = "\x1b[2J" + begin
		r.begun = true
	}
	// Each line erases what it leaves of the old one, the last all below.
	text = begin + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
	return io.WriteString(r.to, text)
}
