package lockexec

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// journal writes to a log without ever waiting for it. Standard error may be a
// pipe that nobody reads from, such as that of a pager: whoever watches over a
// lease must not stand still there. Lines that find the buffer full are
// counted, not kept.
type journal struct {
	*slog.Logger
	writer *journalWriter
}

const (
	journalLines = 256
	journalFlush = time.Second // the most that close waits for the last lines
)

func newJournal(log *slog.Logger) *journal {
	w := &journalWriter{lines: make(chan journalLine, journalLines), done: make(chan struct{})}
	go w.write()
	return &journal{
		Logger: slog.New(&journalHandler{to: log.Handler(), writer: w}),
		writer: w,
	}
}

// close writes what is left, unless the log still blocks. Nothing may be
// logged to the journal afterwards.
func (j *journal) close() {
	close(j.writer.lines)
	select {
	case <-j.writer.done:
	case <-time.After(journalFlush):
	}
}

type journalLine struct {
	to     slog.Handler
	record slog.Record
}

type journalWriter struct {
	lines chan journalLine
	done  chan struct{}

	mu      sync.Mutex
	dropped int
}

func (w *journalWriter) write() {
	defer close(w.done)
	for line := range w.lines {
		_ = line.to.Handle(context.Background(), line.record)
		w.mu.Lock()
		dropped := w.dropped
		w.dropped = 0
		w.mu.Unlock()
		if dropped > 0 {
			slog.New(line.to).Warn("lines of this log were lost, as nobody read it", "event", "log_lost", "lines", dropped)
		}
	}
}

// journalHandler is a slog.Handler in front of another.
type journalHandler struct {
	to     slog.Handler
	writer *journalWriter
}

func (h *journalHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

func (h *journalHandler) Handle(_ context.Context, record slog.Record) error {
	select {
	case h.writer.lines <- journalLine{h.to, record.Clone()}:
	default:
		h.writer.mu.Lock()
		h.writer.dropped++
		h.writer.mu.Unlock()
	}
	return nil
}

func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journalHandler{to: h.to.WithAttrs(attrs), writer: h.writer}
}

func (h *journalHandler) WithGroup(name string) slog.Handler {
	return &journalHandler{to: h.to.WithGroup(name), writer: h.writer}
}
