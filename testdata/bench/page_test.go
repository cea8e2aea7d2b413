package main

import (
	"os"
	"testing"
)

// No figure is typed by hand.
func TestThePageAndItsChartHaveTheFiguresOfTheRun(t *testing.T) {
	r, err := readResults("../../docs/performance.json")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := rewritePage(string(page), r.places())
	if err != nil || string(page) != want {
		t.Errorf("docs/performance.md differs from what its figures make (%v): "+
			"go run ./testdata/bench -from docs/performance.json -doc docs/performance.md", err)
	}
	chart, err := os.ReadFile("../../docs/performance.svg")
	if err != nil || string(chart) != r.chart() {
		t.Errorf("docs/performance.svg differs from what its figures make (%v)", err)
	}
	textsOf(t, string(chart))
}
