package main

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// panel is one set of bars, on a scale of its own.
type panel struct {
	title string
	bars  []bar
}

// bar is one median. Its label has the figure, and its ratio to another.
type bar struct {
	name   string
	value  float64
	label  string
	remark string
}

// The places of things in the chart, in pixels.
const (
	chartWidth   = 760
	chartMargin  = 16
	nameWidth    = 150
	barsAt       = chartMargin + nameWidth + 8
	longestBar   = 360
	barHeight    = 14
	rowHeight    = 20
	titleHeight  = 30
	panelPadding = 12
	headHeight   = 44
)

// chartStyle has a background of its own, so that the page around it may have
// any color, and another where the reader prefers it dark.
const chartStyle = `
	.page { fill: #ffffff }
	text { font: 12px system-ui, sans-serif; fill: #1f2328 }
	.head { font-size: 16px; font-weight: 600 }
	.title { font-size: 13px; font-weight: 600 }
	.name { text-anchor: end }
	.bar { fill: #8c959f }
	.ours { fill: #0969da }
	@media (prefers-color-scheme: dark) {
		.page { fill: #0d1117 }
		text { fill: #e6edf3 }
		.bar { fill: #6e7681 }
		.ours { fill: #4493f8 }
	}
`

// chart draws the medians as an SVG image, without scripts and links.
func (r *results) chart() string {
	panels := r.panels()
	height := headHeight + chartMargin
	for _, p := range panels {
		height += p.height()
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`+"\n",
		chartWidth, height)
	fmt.Fprintf(&b, "<title>Medians of redlockrun and of what one would use instead</title>\n<style>%s</style>\n", chartStyle)
	fmt.Fprintf(&b, `<rect class="page" width="%d" height="%d"/>`+"\n", chartWidth, height)
	at := chartMargin + 14
	drawText(&b, "head", chartMargin, at, "Medians; shorter is better")
	drawText(&b, "", chartMargin, at+18, fmt.Sprintf("%d processors, %s, %s", r.Machine.Processors, r.Machine.System, r.Machine.Date))
	at = headHeight + 8
	for _, p := range panels {
		p.draw(&b, at)
		at += p.height()
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p panel) height() int { return titleHeight + len(p.bars)*rowHeight + panelPadding }

func (p panel) draw(b *strings.Builder, at int) {
	drawText(b, "title", chartMargin, at+titleHeight-10, p.title)
	most := 0.0
	for _, bar := range p.bars {
		most = max(most, bar.value)
	}
	for i, bar := range p.bars {
		y := at + titleHeight + i*rowHeight
		width := 1.0
		if most > 0 {
			width = max(1, bar.value/most*longestBar)
		}
		class := "bar"
		if bar.name == redlockrun {
			class = "ours"
		}
		drawText(b, "name", chartMargin+nameWidth, y+barHeight-3, bar.name)
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`+"\n", class, barsAt, y, width, barHeight)
		drawText(b, "", barsAt+int(width)+6, y+barHeight-3, bar.label+bar.remark)
	}
}

func drawText(b *strings.Builder, class string, x, y int, text string) {
	fmt.Fprintf(b, `<text class="%s" x="%d" y="%d">`, class, x, y)
	_ = xml.EscapeText(b, []byte(text)) // a builder does not fail
	b.WriteString("</text>\n")
}

// panels are what the chart shows: what there are figures of.
func (r *results) panels() []panel {
	all := []panel{
		{title: "A command that does nothing, start to exit (× " + yardstick + ")"},
		{title: "Its processor time (× " + yardstick + ")"},
		{title: "Memory beside the command (× redlockrun)"},
	}
	for _, run := range r.Runs {
		all[0].bars = append(all[0].bars, bar{name: run.Name, value: run.Wall, label: fmt.Sprintf("%s, %s", ms(run.Wall), times(run.WallRatio))})
		all[1].bars = append(all[1].bars, bar{name: run.Name, value: run.CPU, label: fmt.Sprintf("%s, %s", ms(run.CPU), times(run.CPURatio))})
		if run.Processes > 0 {
			all[2].bars = append(all[2].bars, bar{name: run.Name, value: float64(run.Memory), label: kilobytes(run.Memory)})
		}
	}
	waiters := r.mostCompared()
	p50 := panel{title: fmt.Sprintf("Hand-off with %d waiters, p50 (× redlockrun)", waiters)}
	p99 := panel{title: fmt.Sprintf("Hand-off with %d waiters, p99 (× redlockrun)", waiters)}
	for _, h := range r.HandOffs {
		if h.Waiters == waiters {
			p50.bars = append(p50.bars, bar{name: h.Name, value: h.P50, label: ms(h.P50)})
			p99.bars = append(p99.bars, bar{name: h.Name, value: h.P99, label: ms(h.P99)})
		}
	}
	idle := panel{title: "Processor time of one who waits, per second (× redlockrun)"}
	for _, i := range r.Idle {
		idle.bars = append(idle.bars, bar{name: i.Name, value: i.CPU, label: fmt.Sprintf("%.2f ms", i.CPU)})
	}
	all = append(all, p50, p99, idle, r.takeOverPanel(victimAll), r.takeOverPanel(victimWrapper))
	var drawn []panel
	for i, p := range all {
		if len(p.bars) == 0 {
			continue
		}
		if i > 1 {
			p.compare()
		}
		drawn = append(drawn, p)
	}
	return drawn
}

// takeOverPanel shows the default settings. Where nobody takes over there is no
// bar.
func (r *results) takeOverPanel(victim string) panel {
	p := panel{title: fmt.Sprintf("From kill -9 of %s to the next command (× redlockrun)", victim)}
	for _, o := range r.TakeOver {
		if o.Victim != victim || o.Kept == o.Rounds || o.Custom {
			continue
		}
		b := bar{name: o.Name, value: o.Median, label: ms(o.Median)}
		if o.Overlaps > 0 {
			b.remark = ", two at once"
		}
		p.bars = append(p.bars, b)
	}
	return p
}

// compare adds the ratios to redlockrun's bar.
func (p *panel) compare() {
	for _, base := range p.bars {
		if base.name != redlockrun || base.value == 0 {
			continue
		}
		for i := range p.bars {
			p.bars[i].label += ", " + times(p.bars[i].value/base.value)
		}
		return
	}
}

func times(x float64) string {
	if x > 0 && x < 0.1 {
		return fmt.Sprintf("×%.1g", x)
	}
	return fmt.Sprintf("×%.2f", x)
}

// mostCompared is the largest number of waiters at which as many tools have been
// measured as at any, but for one that may be missing.
func (r *results) mostCompared() int {
	tools, most := map[int]int{}, 0
	for _, h := range r.HandOffs {
		tools[h.Waiters]++
		most = max(most, tools[h.Waiters])
	}
	best := 0
	for waiters, n := range tools {
		if n > 1 && n >= most-1 {
			best = max(best, waiters)
		}
	}
	return best
}
