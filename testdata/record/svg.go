//go:build linux

package record

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Sizes of the picture, in pixels. Each line is stretched to the width that its
// characters have here, whatever font there is.
const (
	charWidth  = 7.2
	lineHeight = 18
	margin     = 12
	titleLine  = 26
)

const (
	// step is the least time between two pictures: a few keys share one.
	step = 150 * time.Millisecond
	// rest is how long the end is shown, before all begins anew.
	rest = 6 * time.Second
)

const style = `
svg { color-scheme: light dark }
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; fill: #1f2328 }
rect { fill: #f6f8fa; stroke: #d0d7de }
.name { fill: #59636e }
.prompt { fill: #0550ae }
.says { fill: #953800 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
rect { fill: #0d1117; stroke: #3d444d }
.name { fill: #9198a1 }
.prompt { fill: #79c0ff }
.says { fill: #ffa657 }
}
@media (prefers-reduced-motion: reduce) { text { animation: none !important } }
`

const description = `On web-1 a person runs report.sh under the lock nightly. On web-2 the same line is turned away with exit code 75, ` +
	`redlockrun status tells who holds the lock, and with --wait the same command waits in a line that counts the time, ` +
	`and runs when that of web-1 has ended.`

// SVG draws what the terminals showed: animated, or their last state where
// that is not known or not wanted.
func SVG(terminals []*Terminal) string {
	var end time.Duration
	for _, t := range terminals {
		end = max(end, t.Frames[len(t.Frames)-1].At)
	}
	d := drawing{length: end + rest}
	for _, t := range terminals {
		d.terminal(t)
	}
	width, height := 2*margin+charWidth*Columns, d.y
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img" aria-labelledby="title desc">
<title id="title">Two terminals: one run has the lock, another is turned away, then waits</title>
<desc id="desc">%s</desc>
<style>%s%s</style>
%s</svg>
`, width, height, width, height, description, style, d.keyframes.String(), d.body.String())
}

type drawing struct {
	length          time.Duration
	y               int
	keyframes, body strings.Builder
	animations      int
}

// span is how long a row had a text.
type span struct {
	from, to time.Duration
	text     string
}

func (d *drawing) terminal(t *Terminal) {
	rows := spans(t.Frames, d.length)
	height := titleLine + lineHeight*len(rows) + margin/2
	fmt.Fprintf(&d.body, "<g id=%q>\n<rect x=\"0.5\" y=\"%d.5\" width=\"%.0f\" height=\"%d\" rx=\"6\"/>\n", t.Name, d.y, 2*margin+charWidth*Columns-1, height-1)
	fmt.Fprintf(&d.body, "<text class=\"name\" x=\"%d\" y=\"%d\">%s</text>\n", margin, d.y+lineHeight, t.Name)
	for i, row := range rows {
		for _, s := range row {
			d.line(s, d.y+titleLine+lineHeight*(i+1)-6, t.Name+"$ ")
		}
	}
	d.body.WriteString("</g>\n")
	d.y += height + margin/2
}

func (d *drawing) line(s span, y int, prompt string) {
	if s.text == "" {
		return
	}
	hidden := ""
	if s.to < d.length {
		hidden = ` visibility="hidden"`
	}
	animation := ""
	if s.from > 0 || s.to < d.length {
		d.animations++
		animation = fmt.Sprintf(` style="animation:a%d %.2fs step-end infinite"`, d.animations, d.length.Seconds())
		fmt.Fprintf(&d.keyframes, "@keyframes a%d{", d.animations)
		if s.from > 0 {
			fmt.Fprintf(&d.keyframes, "0%%{visibility:hidden}")
		}
		fmt.Fprintf(&d.keyframes, "%.2f%%{visibility:visible}", d.percent(s.from))
		if s.to < d.length {
			fmt.Fprintf(&d.keyframes, "%.2f%%,100%%{visibility:hidden}", d.percent(s.to))
		} else {
			d.keyframes.WriteString("100%{visibility:visible}")
		}
		d.keyframes.WriteString("}\n")
	}
	text := escape(s.text)
	class := ""
	switch rest, typed := strings.CutPrefix(s.text+" ", prompt); {
	case typed:
		text = `<tspan class="prompt">` + escape(prompt) + `</tspan>` + escape(strings.TrimSuffix(rest, " "))
	case strings.HasPrefix(s.text, "redlockrun: ") || strings.HasPrefix(s.text, "waiting for "):
		class = ` class="says"`
	}
	fmt.Fprintf(&d.body, "<text%s x=\"%d\" y=\"%d\" textLength=\"%.1f\" xml:space=\"preserve\"%s%s>%s</text>\n",
		class, margin, y, charWidth*float64(len([]rune(s.text))), hidden, animation, text)
}

func (d *drawing) percent(at time.Duration) float64 { return 100 * at.Seconds() / d.length.Seconds() }

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes all
	return b.String()
}

// spans turns pictures of a screen into the history of each row.
func spans(frames []Frame, end time.Duration) [][]span {
	var rows [][]span
	for i, frame := range frames {
		if i+1 < len(frames) && frames[i+1].At/step == frame.At/step {
			continue // nobody saw it
		}
		for row := range max(len(rows), len(frame.Lines)) {
			text := ""
			if row < len(frame.Lines) {
				text = strings.TrimRight(frame.Lines[row], " ")
			}
			if row == len(rows) {
				rows = append(rows, []span{{0, end, ""}})
			}
			last := &rows[row][len(rows[row])-1]
			if last.text != text {
				at := frame.At.Truncate(step)
				last.to = at
				rows[row] = append(rows[row], span{at, end, text})
			}
		}
	}
	for i := range rows {
		rows[i] = slices.DeleteFunc(rows[i], func(s span) bool { return s.from == s.to })
	}
	return rows
}
