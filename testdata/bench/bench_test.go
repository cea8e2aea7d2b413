package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
)

// given are figures as a run may have them.
func given() *results {
	return &results{
		Machine: machine{Date: "2026-12-02", Processors: 2, System: "Debian <12>"},
		Runs: []runResult{
			{Name: yardstick, Wall: 4.25, CPU: 3.5, WallRatio: 1, CPURatio: 1, Memory: 7000, Processes: 1},
			{Name: redlockrun, Wall: 9.75, CPU: 8.5, WallRatio: 2.25, CPURatio: 2.5, Memory: 14000, Processes: 2},
			{Name: "command alone", Wall: 1.25, CPU: 1, WallRatio: 0.3125, CPURatio: 0.2},
		},
		HandOffs: []handOffResult{
			{Name: redlockrun, Waiters: 10, P50: 5.5, P99: 21.5, HandOffs: 20},
			{Name: "flock", Waiters: 10, P50: 2.75, P99: 43, HandOffs: 20, Inversions: 3},
			{Name: redlockrun, Waiters: 1000, P50: 6.5, P99: 22.5, HandOffs: 1000},
		},
		Idle: []idleResult{{Name: redlockrun, Waiters: 50, Commands: 0.125, CPU: 0.5}, {Name: "flock", Waiters: 50, Commands: -1}},
		TakeOver: []takeOverResult{
			{Name: redlockrun, Victim: victimWrapper, Rounds: 5, Median: 20},
			{Name: redlockrun, Victim: victimWrapper, Rounds: 5, Median: 19, Custom: true},
			{Name: "etcdctl lock", Victim: victimWrapper, Rounds: 5, Median: 8800, Overlaps: 5},
			{Name: "flock", Victim: victimWrapper, Rounds: 5, Kept: 5},
		},
	}
}

func TestTheChartIsWellFormedAndHasTheFigures(t *testing.T) {
	texts := textsOf(t, given().chart())
	for _, want := range []string{
		"2 processors, Debian <12>, 2026-12-02",
		"4.25 ms, ×1.00", "9.75 ms, ×2.25", "1.25 ms, ×0.31", // start to exit
		"8.50 ms, ×2.50",                  // processor time
		"6.8 MB, ×0.50", "13.7 MB, ×1.00", // memory
		"5.50 ms, ×1.00", "2.75 ms, ×0.50", "43.0 ms, ×2.00", // hand-offs of the largest number that two have
		"0.50 ms, ×1.00", "0.00 ms, ×0.00", // idle
		"20.0 ms, ×1.00", "8.80 s, ×440.00, two at once",
	} {
		if !texts[want] {
			t.Errorf("the chart does not say %q", want)
		}
	}
	for _, not := range []string{"6.50 ms, ×1.00", "19.0 ms, ×0.95"} {
		if texts[not] {
			t.Errorf("the chart says %q, which is not compared with anything", not)
		}
	}
}

func TestTheChartOfNoFiguresIsWellFormed(t *testing.T) {
	textsOf(t, (&results{}).chart())
}

// textsOf parses an image, and returns what its text elements say. All that it
// draws must be within it, and it must hold nothing that a page would refuse.
func textsOf(t *testing.T, image string) map[string]bool {
	t.Helper()
	texts := map[string]bool{}
	decoder := xml.NewDecoder(strings.NewReader(image))
	width, height, inText := 0.0, 0.0, false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, image)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
			switch token.Name.Local {
			case "svg":
				width, height = number(t, token, "width"), number(t, token, "height")
			case "rect":
				right, bottom := number(t, token, "x")+number(t, token, "width"), number(t, token, "y")+number(t, token, "height")
				if right > width || bottom > height {
					t.Errorf("a bar ends at %v, %v, outside of the image", right, bottom)
				}
			case "title", "style", "text":
			default:
				t.Errorf("the image has an element %s", token.Name.Local)
			}
		case xml.CharData:
			if inText {
				texts[string(token)] = true
			}
		case xml.EndElement:
			inText = false
		}
	}
}

func number(t *testing.T, element xml.StartElement, name string) float64 {
	t.Helper()
	for _, attribute := range element.Attr {
		if attribute.Name.Local == name {
			n, err := strconv.ParseFloat(attribute.Value, 64)
			if err != nil || n < 0 {
				t.Errorf("%s of %s is %q", name, element.Name.Local, attribute.Value)
			}
			return n
		}
	}
	return 0
}

func TestTheFiguresGoBetweenTheMarksOfThePage(t *testing.T) {
	const page = "before\n<!-- bench: runs -->\n\nold\n<!-- end -->\nafter\n"
	want := "before\n<!-- bench: runs -->\n\nnew\n\n<!-- end -->\nafter\n"
	got, err := rewritePage(page, map[string]string{"runs": "new\n"})
	if err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	again, err := rewritePage(got, map[string]string{"runs": "new\n"})
	if err != nil || again != want {
		t.Errorf("the second time: got %q, %v, want %q", again, err, want)
	}
	for _, places := range []map[string]string{{}, {"runs": "", "other": ""}} {
		if got, err := rewritePage(page, places); err == nil {
			t.Errorf("places %v: got %q, want an error", places, got)
		}
	}
}

func TestMediansAndPercentiles(t *testing.T) {
	times := []time.Duration{4, 1, 3, 2}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("the median of %v is %v, want 2.5", times, got)
	}
	for p, want := range map[int]time.Duration{1: 1, 50: 2, 75: 3, 76: 4, 99: 4, 100: 4} {
		if got := percentile(times, p); got != want {
			t.Errorf("percentile %d of %v is %v, want %v", p, times, got, want)
		}
	}
}
