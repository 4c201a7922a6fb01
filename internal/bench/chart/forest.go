package chart

import (
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Forest is a list of effects with their intervals, one below the other, around a line at zero: what
// each option did, and how well that is known.
type Forest struct {
	Name    string // of its file, without extension
	Title   string
	Unit    string  // of the values
	Zone    float64 // half the width of the band of indifference around zero
	Effects []Effect
}

// An Effect is one row. NaN as Low and High: it has no interval.
type Effect struct {
	Label            string
	Value, Low, High float64
	Kept             bool   // drawn filled; else hollow
	Text             string // at the end of the row
}

const effectHeight = 18 * vg.Length(1)

func (f *Forest) width() vg.Length { return usualWidth }

func (f *Forest) height() vg.Length {
	return titleHeight + 2*pageMargin + vg.Length(max(1, len(f.Effects)))*effectHeight + 40
}

// SVG writes f as an SVG document.
func (f *Forest) SVG(dst io.Writer) error {
	return writeSVG(dst, f.Name, f.width(), f.height(), f.draw)
}

// PNG writes f as a PNG image.
func (f *Forest) PNG(dst io.Writer) error { return writePNG(dst, f.width(), f.height(), f.draw) }

func (f *Forest) draw(canvas canvas) {
	top := canvas.background(f.Title) - 4
	// The axis holds 0 and the zone around it whatever the effects are.
	values := []float64{-f.Zone, f.Zone, 0}
	labels := vg.Length(60)
	for _, effect := range f.Effects {
		values = append(values, effect.Value, effect.Low, effect.High)
		labels = max(labels, letters(9).Width(clip(effect.Label, 40)))
	}
	values = slices.DeleteFunc(values, func(value float64) bool { return math.IsNaN(value) })
	axis := (&Axis{}).scale(values, true)
	axis.from, axis.to = canvas.Min.X+pageMargin+labels+10, canvas.Max.X-150
	bottom := canvas.Min.Y + pageMargin + 28
	canvas.band(&axis, f.Zone, bottom, top)
	for _, mark := range axis.ticks {
		x := axis.at(mark.value)
		canvas.StrokeLine2(draw.LineStyle{Color: gridColour, Width: 0.6}, x, bottom, x, top)
		canvas.text(letters(8), vg.Point{X: x, Y: bottom - 11}, 0.5, mark.label)
	}
	canvas.text(letters(9), vg.Point{X: (axis.from + axis.to) / 2, Y: bottom - 24}, 0.5, clip(f.Unit, maxName))
	canvas.StrokeLine2(draw.LineStyle{Color: axisColour, Width: 1}, axis.at(0), bottom, axis.at(0), top)
	for i, effect := range f.Effects {
		y := top - (vg.Length(i)+0.5)*effectHeight
		canvas.text(letters(9), vg.Point{X: axis.from - 10, Y: y - 3}, 1, clip(effect.Label, 40))
		canvas.text(letters(8), vg.Point{X: axis.to + 10, Y: y - 3}, 0, clip(effect.Text, 34))
		canvas.effect(&axis, effect, y)
	}
}

// band is the zone in which nothing is worth keeping.
func (c *canvas) band(axis *scale, zone float64, bottom, top vg.Length) {
	low, high := axis.at(-zone), axis.at(zone)
	c.FillPolygon(color.NRGBA{0xf0, 0xf0, 0xf0, 0xff}, []vg.Point{{X: low, Y: bottom}, {X: high, Y: bottom}, {X: high, Y: top}, {X: low, Y: top}})
}

// effect draws an interval with its ends and its middle.
func (c *canvas) effect(axis *scale, effect Effect, y vg.Length) {
	line := draw.LineStyle{Color: beforeColour, Width: 1.5}
	if !math.IsNaN(effect.Low) && !math.IsNaN(effect.High) {
		low, high := axis.at(effect.Low), axis.at(effect.High)
		c.StrokeLine2(line, low, y, high, y)
		c.StrokeLine2(line, low, y-3, low, y+3)
		c.StrokeLine2(line, high, y-3, high, y+3)
	}
	if math.IsNaN(effect.Value) {
		return
	}
	at := vg.Point{X: axis.at(effect.Value), Y: y}
	glyph := draw.GlyphStyle{Color: beforeColour, Radius: 4, Shape: draw.CircleGlyph{}}
	c.DrawGlyphNoClip(glyph, at)
	if !effect.Kept { // hollow
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: color.White, Radius: 2.6, Shape: draw.CircleGlyph{}}, at)
	}
}
