package chart

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A stack is the area between two values of each request.
type stack struct {
	name      string
	low, high []float64 // low nil = zero
	colour    color.Color
}

func (s *stack) names() []string { return []string{s.name} }

func (s *stack) paint(paint func(string) color.Color) { s.colour = paint(s.name) }

func (s *stack) points() []Point {
	out := make([]Point, 0, len(s.high)+1)
	for i, v := range s.high {
		out = append(out, Point{float64(i), v})
	}
	return append(out, Point{float64(len(s.high)), 0})
}

// Plot implements plot.Plotter.
func (s *stack) Plot(c draw.Canvas, p *plot.Plot) {
	if len(s.high) == 0 {
		return
	}
	outline := func(values []float64) []vg.Point {
		var out []vg.Point
		for i := range s.high {
			y := 0.0
			if values != nil {
				y = values[i]
			}
			out = append(out, onto(&c, p, Point{float64(i), y}), onto(&c, p, Point{float64(i + 1), y}))
		}
		return thin(out)
	}
	area := outline(s.high)
	low := outline(s.low)
	for i := len(low) - 1; i >= 0; i-- {
		area = append(area, low[i])
	}
	c.FillPolygon(s.colour, area)
}

// A Group is a workload with a value before and after a change.
type Group struct {
	Name          string
	Before, After float64
}

// The names and colours of before and after (bench.md 5).
const (
	baseline  = "Baseline"
	optimized = "Optimized"
)

func beforeAfter() map[string]color.NRGBA {
	return map[string]color.NRGBA{baseline: {0x1f, 0x77, 0xb4, 0xff}, optimized: {0xff, 0x7f, 0x0e, 0xff}}
}

// Bars draws throughput before and after a change, two bars for each workload with their
// values, and the change in percent above the second (bench.md 5).
func Bars(title, y string, groups []Group) *Figure {
	p := Panel{Y: Axis{Title: y}, X: Axis{Names: []string{}}, dashed: true, extra: []layer{bars(groups)}}
	for _, g := range groups {
		p.X.Names = append(p.X.Names, g.Name)
	}
	return &Figure{Name: "before_after", Title: title, Panels: [][]Panel{{p}}, Height: 320, own: beforeAfter()}
}

type bars []Group

func (b bars) names() []string { return []string{baseline, optimized} }

func (b bars) paint(func(string) color.Color) {}

// points leaves room above the bars for two lines of text.
func (b bars) points() []Point {
	var out []Point
	for i, g := range b {
		out = append(out, Point{float64(i), max(g.Before, g.After) * 1.15})
	}
	return append(out, Point{0, 0})
}

// Plot implements plot.Plotter.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	colours := beforeAfter()
	value := letters(8, draw.XCenter)
	for i, g := range b {
		for k, v := range []float64{g.Before, g.After} {
			middle := Point{float64(i) + 0.2*float64(2*k-1), v}
			if len(finite([]Point{middle})) == 0 {
				continue
			}
			base, top := onto(&c, p, Point{middle.X - 0.19, 0}), onto(&c, p, Point{middle.X + 0.19, v})
			c.FillPolygon(colours[b.names()[k]], box(base.X, base.Y, top.X, top.Y))
			at := vg.Point{X: (base.X + top.X) / 2, Y: top.Y + 3}
			c.FillText(value, at, fmt.Sprintf("%.0f", v))
			if k == 1 && g.Before > 0 {
				change := 100 * (v/g.Before - 1)
				style := letters(8, draw.XCenter)
				style.Font.Weight = bold
				style.Color = color.NRGBA{0x1a, 0x7f, 0x37, 0xff}
				if change < 0 {
					style.Color = color.NRGBA{0xc6, 0x28, 0x28, 0xff}
				}
				c.FillText(style, at.Add(vg.Point{Y: 11}), fmt.Sprintf("%+.1f%%", change))
			}
		}
	}
}

// Speedups draws latency before and after a change over batch sizes, the names of the
// groups, with arrows that say how many times faster it is (bench.md 5).
func Speedups(title, x, y string, groups []Group) *Figure {
	p := Panel{X: Axis{Title: x, Names: []string{}}, Y: Axis{Title: y}, dashed: true, extra: []layer{arrows(groups)}}
	before, after := Line{Name: baseline, Style: Marks}, Line{Name: optimized, Style: Marks}
	for i, g := range groups {
		p.X.Names = append(p.X.Names, g.Name)
		before.Points = append(before.Points, Point{float64(i), g.Before})
		after.Points = append(after.Points, Point{float64(i), g.After})
		if factor := g.Before / g.After; g.After > 0 && factor > 1 {
			p.Notes = append(p.Notes, Note{Point{float64(i), (g.Before + g.After) / 2}, fmt.Sprintf("%.1f× faster", factor)})
		}
	}
	p.Lines = []Line{before, after}
	return &Figure{Name: "speedup", Title: title, Panels: [][]Panel{{p}}, Height: 320, own: beforeAfter()}
}

// arrows point from the value before to a lower one after.
type arrows []Group

func (a arrows) names() []string { return nil }

func (a arrows) paint(func(string) color.Color) {}

func (a arrows) points() []Point { return nil }

// Plot implements plot.Plotter.
func (a arrows) Plot(c draw.Canvas, p *plot.Plot) {
	for i, g := range a {
		ends := []Point{{float64(i), g.Before}, {float64(i), g.After}}
		if len(finite(ends)) < 2 || g.After >= g.Before {
			continue
		}
		from, to := onto(&c, p, ends[0]), onto(&c, p, ends[1])
		to.Y += 4 // not into the mark
		if from.Y-to.Y < 10 {
			continue
		}
		c.StrokeLine2(draw.LineStyle{Color: axes, Width: 1}, from.X, from.Y, to.X, to.Y)
		c.FillPolygon(axes, []vg.Point{to, {X: to.X - 3, Y: to.Y + 6}, {X: to.X + 3, Y: to.Y + 6}})
	}
}

// spans are the bars of a timeline.
type spans struct{ t *timeline }

func (s spans) names() []string {
	var out []string
	for _, class := range s.t.legend() {
		out = append(out, s.t.classNames()[class])
	}
	return out
}

func (s spans) paint(func(string) color.Color) {}

func (s spans) points() []Point {
	return []Point{{0, 0}, {s.t.seconds(), -float64(len(s.t.rows))}}
}

// Plot implements plot.Plotter.
func (s spans) Plot(c draw.Canvas, p *plot.Plot) {
	height := c.Y(p.Y.Norm(0)) - c.Y(p.Y.Norm(-1))
	for class, bars := range s.t.bars {
		if len(bars) == 0 {
			continue
		}
		c.SetLineStyle(draw.LineStyle{Color: classColours[class], Width: vg.Length(math.Max(0.8*float64(height), 0.3))})
		var path vg.Path
		for _, b := range bars {
			y := -float64(b.row) - 0.5
			path.Move(onto(&c, p, Point{float64(b.from) / ticks, y}))
			path.Line(onto(&c, p, Point{float64(b.to) / ticks, y}))
		}
		c.Stroke(path)
	}
}
