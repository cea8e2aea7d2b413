package cmd

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"
)

// logFormat is the form of what redlockrun says on standard error.
type logFormat string

const (
	textFormat logFormat = "text"
	jsonFormat logFormat = "json"
)

// output is where redlockrun's own words go. Its fields are flags.
type output struct {
	writer  io.Writer
	format  logFormat
	quiet   bool
	verbose bool
}

func (o *output) addFlags(fs *pflag.FlagSet) {
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "say nothing but errors, not even that the lock is busy")
	fs.BoolVarP(&o.verbose, "verbose", "v", false, "tell what happens")
	preset := o.format
	if preset == "" {
		preset = textFormat
	}
	fs.Var(newChoice(&o.format, preset, textFormat, jsonFormat), "log-format", "form of messages: text or json (`FORMAT`)")
}

// logger returns the logger for the settings as they now stand.
func (o *output) logger() *slog.Logger { return newLogger(o.writer, o.format, o.level()) }

func (o *output) level() slog.Level {
	switch {
	case o.quiet:
		return slog.LevelError
	case o.verbose:
		return slog.LevelDebug
	default:
		return slog.LevelWarn
	}
}

func newLogger(w io.Writer, format logFormat, level slog.Level) *slog.Logger {
	if format == jsonFormat {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(&textHandler{level: level, writer: w})
}

// presetFormat finds the log format before the flags are parsed, so that an
// error in the flags comes in it too.
func presetFormat(args []string, environ func(string) (string, bool)) logFormat {
	format := textFormat
	if value, ok := environ(envName("log-format")); ok && value == string(jsonFormat) {
		format = jsonFormat
	}
	if at := slices.Index(args, "--"); at >= 0 {
		args = args[:at]
	}
	for i, arg := range args {
		value, found := strings.CutPrefix(arg, "--log-format=")
		if arg == "--log-format" && i+1 < len(args) {
			value, found = args[i+1], true
		}
		if found && (value == string(textFormat) || value == string(jsonFormat)) {
			format = logFormat(value)
		}
	}
	return format
}

// textHandler is a slog.Handler that writes messages as people write them.
// The messages are whole sentences, so that attributes, which are for
// machines, would only say things twice.
type textHandler struct {
	level  slog.Level
	mu     sync.Mutex
	writer io.Writer
}

func (h *textHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *textHandler) Handle(_ context.Context, record slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	// One write per message, so that it stays whole among the child's own.
	_, err := io.WriteString(h.writer, "redlockrun: "+printableLines(record.Message)+"\n")
	return err
}

// printableLines makes a message safe for a terminal, whatever users and files
// brought into it. A message of ours goes on in lines that are indented.
func printableLines(message string) string {
	lines := strings.Split(message, "\n  ")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n  ")
}

func (h *textHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *textHandler) WithGroup(string) slog.Handler      { return h }
