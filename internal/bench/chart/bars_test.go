package chart

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// TestBars draws pairs, one without its second value, and looks for what must be readable.
func TestBars(t *testing.T) {
	b := &Bars{Name: "b", Title: "A title that is a good deal wider than a single pair of bars can be <&>", Unit: "tok/s", Before: "Baseline", After: "Optimized",
		Pairs: []Pair{{Label: "chat", Before: 1000, After: 1120, Change: "+12.0%", Better: true}, {Label: "long", Before: 0.5, After: math.NaN()}}}
	var svg, png bytes.Buffer
	if err := b.SVG(&svg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">Baseline<", ">Optimized<", ">chat<", ">1120<", ">+12.0%<", ">0.5<", ">none<", "&lt;&amp;&gt;"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("%s is missing", want)
		}
	}
	if err := b.PNG(&png); err != nil || !bytes.HasPrefix(png.Bytes(), []byte("\x89PNG")) {
		t.Errorf("%v, %d bytes", err, png.Len())
	}
}

// TestForest draws effects with and without intervals, and none.
func TestForest(t *testing.T) {
	f := &Forest{Name: "f", Title: "Effects", Unit: "%", Zone: 1, Effects: []Effect{
		{Label: "kept", Value: 12, Low: 9, High: 15, Kept: true, Text: "+12.0%"},
		{Label: "unknown", Value: math.NaN(), Low: math.NaN(), High: math.NaN(), Text: "not measured"},
	}}
	var svg bytes.Buffer
	if err := f.SVG(&svg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">kept<", ">+12.0%<", ">not measured<"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("%s is missing", want)
		}
	}
	if err := (&Forest{Name: "f"}).PNG(new(bytes.Buffer)); err != nil {
		t.Error(err)
	}
}
