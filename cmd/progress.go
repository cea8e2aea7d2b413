package cmd

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/guard"
	"github.com/redlockrun/redlockrun/lockexec/lock"
)

// progressMode is when the waiting line is shown.
type progressMode string

const (
	progressAuto   progressMode = "auto"
	progressAlways progressMode = "always"
	progressNever  progressMode = "never"
)

// voiceSettings are what the supervisor, a process of its own, must know to
// speak as this one would.
func voiceSettings(out *output, progress progressMode) guard.VoiceSettings {
	return guard.VoiceSettings{Format: string(out.format), Level: out.level(), Progress: string(progress)}
}

// newVoice is a guard.VoiceMaker.
func newVoice(settings guard.VoiceSettings) guard.Voice {
	log := newLogger(os.Stderr, logFormat(settings.Format), settings.Level)
	w := newWaitingLine(os.Stderr, log, progressMode(settings.Progress), logFormat(settings.Format) == jsonFormat || settings.Level > slog.LevelWarn)
	return guard.Voice{Log: log, OnWait: w.update, WaitEnded: w.end}
}

// waitingLine tells those who wait how things stand: on a terminal by one line
// that is redrawn every second, elsewhere by a message at first and then every
// minute. It is safe for concurrent use.
type waitingLine struct {
	to      *os.File
	log     *slog.Logger
	redrawn bool
	silent  bool

	mu     sync.Mutex
	latest lock.Waiting
	asOf   time.Time
	logged time.Time
	stop   chan struct{} // of the redrawing, nil while there is none
}

// newWaitingLine returns a line for a writer. plain is for machines, or for
// nobody: then nothing is redrawn.
func newWaitingLine(to *os.File, log *slog.Logger, mode progressMode, plain bool) *waitingLine {
	return &waitingLine{
		to: to, log: log,
		redrawn: !plain && (mode == progressAlways || mode == progressAuto && isTerminal(to)),
		silent:  mode == progressNever,
	}
}

// isTerminal reports whether the file is a character device that is no null
// device: there is none but terminals that people look at.
func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

const logEvery = time.Minute

// update tells how things stand now.
func (l *waitingLine) update(w lock.Waiting) {
	if l.silent {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest, l.asOf = w, time.Now()
	if !l.redrawn {
		if l.logged.IsZero() || time.Since(l.logged) >= logEvery {
			l.logged = time.Now()
			l.log.Warn(waitingText(w), waitingAttrs(w)...)
		}
		return
	}
	l.draw()
	if l.stop == nil {
		l.stop = make(chan struct{})
		go l.redraw(l.stop)
	}
}

func (l *waitingLine) redraw(stop chan struct{}) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			l.mu.Lock()
			if l.stop == stop {
				l.draw()
			}
			l.mu.Unlock()
		}
	}
}

// draw writes the line over itself, with the times as they are by now.
func (l *waitingLine) draw() {
	w, passed := l.latest, time.Since(l.asOf)
	w.HeldFor += passed
	w.Waited += passed
	if w.Left != lock.Forever {
		w.Left = max(0, w.Left-passed)
	}
	fmt.Fprint(l.to, "\r\x1b[K"+waitingLineText(w, columns(l.to)))
}

// waitingLineText is the text for one line of a terminal, whose last column it
// leaves free: a line that wraps can't be redrawn. Where there is no room for
// all, what the holder runs goes first, then who it is.
func waitingLineText(w lock.Waiting, columns int) string {
	if columns < 2 {
		columns = 80
	}
	text := waitingText(w)
	if w.Holder != nil && textWidth(text) >= columns {
		holder := *w.Holder
		holder.Command = ""
		w.Holder = &holder
		text = waitingText(w)
	}
	if textWidth(text) >= columns {
		text = "waiting for " + printable(w.Name) + waitingPlace(w)
	}
	if textWidth(text) >= columns {
		text = clipped(text, columns-2) + "…"
	}
	return text
}

// end erases the line.
func (l *waitingLine) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		close(l.stop)
		l.stop = nil
		fmt.Fprint(l.to, "\r\x1b[K")
	}
}

// waitingText is the line.
func waitingText(w lock.Waiting) string {
	var b strings.Builder
	b.WriteString("waiting for " + printable(w.Name))
	switch h := w.Holder; {
	case h != nil:
		fmt.Fprintf(&b, ": held by %s (pid %d", h.Label, h.PID)
		if h.Command != "" {
			b.WriteString(", " + h.Command)
		}
		fmt.Fprintf(&b, ") for %s", seconds(w.HeldFor))
	case w.Revoked:
		fmt.Fprintf(&b, ": it was revoked, and is free in %s at the latest", seconds(w.Remaining))
	case w.Remaining == lock.NoExpiry:
		b.WriteString(": it holds a value without a time to live, which no lock client leaves behind")
	default:
		b.WriteString(": held by a program that leaves no record")
	}
	return b.String() + waitingPlace(w)
}

// waitingPlace is what of it is about the one who waits.
func waitingPlace(w lock.Waiting) string {
	text := ""
	if w.Ahead > 0 {
		text = fmt.Sprintf("; %d ahead of you", w.Ahead)
	}
	if w.Left != lock.Forever {
		text += "; giving up in " + seconds(w.Left)
	}
	return text
}

func waitingAttrs(w lock.Waiting) []any {
	attrs := []any{"event", "waiting", "lock", w.Name, "ahead", w.Ahead, "waited_ms", w.Waited.Milliseconds()}
	if w.Left != lock.Forever {
		attrs = append(attrs, "left_ms", w.Left.Milliseconds())
	}
	return append(attrs, holderAttrs(w.Holder, w.HeldFor)...)
}

func seconds(d time.Duration) string { return d.Round(time.Second).String() }
