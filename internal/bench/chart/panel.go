package chart

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Panel is one pair of axes with what is drawn on them.
type Panel struct {
	Title string
	X, Y  Axis
	Lines []Line
	Notes []Note

	extra  []layer // drawn above the grid and below the lines
	dashed bool    // the grid is dashed and horizontal
}

// A Point is one value of a line, in the units of the axes.
type Point struct{ X, Y float64 }

// Style says how a line is drawn; its bits can be combined.
type Style uint8

// The styles; zero is a plain line.
const (
	Steps  Style = 1 << iota // Y holds until the next X
	Area                     // filled down to the axis
	Marks                    // a dot at each point
	Dots                     // dots without a line
	Dashed                   // as it says
)

// A Line is one series of a panel.
type Line struct {
	Name   string  // in the legend; a name has the same colour in all panels of a figure
	Points []Point // X ascending unless they are Dots; values that are not finite are left out
	Style  Style
}

// A Note is a short text beside a point.
type Note struct {
	At   Point
	Text string
}

// A layer is a drawing with a range of its own.
type layer interface {
	plot.Plotter
	points() []Point // what the axes must hold
	names() []string // for the legend
	paint(func(name string) color.Color)
}

// names returns what the legend has to name.
func (p *Panel) names() []string {
	var out []string
	for _, l := range p.extra {
		out = append(out, l.names()...)
	}
	for i := range p.Lines {
		out = append(out, p.Lines[i].Name)
	}
	return out
}

// plot builds the drawing of p with the colours that paint gives to names.
func (p *Panel) plot(paint func(string) color.Color) *plot.Plot {
	out := plot.New()
	out.Title.Text = clip(p.Title, 2*maxName)
	out.Title.TextStyle = letters(10, draw.XCenter)
	out.Title.TextStyle.Font.Weight = bold
	out.Title.TextStyle.YAlign = draw.YTop
	out.Title.Padding = 5
	lines := make([]*curve, len(p.Lines))
	var xs, ys []float64
	add := func(points []Point) {
		for _, q := range points {
			xs, ys = append(xs, q.X), append(ys, q.Y)
		}
	}
	for i, l := range p.Lines {
		lines[i] = &curve{points: finite(l.Points), style: l.Style, colour: paint(l.Name)}
		add(lines[i].points)
	}
	for _, l := range p.extra {
		l.paint(paint)
		add(finite(l.points()))
	}
	p.X.apply(&out.X, xs, false)
	p.Y.apply(&out.Y, ys, true)
	out.X.Tick.Label.XAlign, out.X.Tick.Label.YAlign = draw.XCenter, draw.YTop
	out.Y.Tick.Label.XAlign, out.Y.Tick.Label.YAlign = draw.XRight, draw.YCenter
	out.Add(gridLines{p.dashed})
	for _, l := range p.extra {
		out.Add(l)
	}
	for _, l := range lines {
		out.Add(l)
	}
	out.Add(notes(p.Notes))
	return out
}

// finite returns the points that can be drawn.
func finite(points []Point) []Point {
	ok := func(v float64) bool { return v > -1e30 && v < 1e30 }
	out := make([]Point, 0, len(points))
	for _, q := range points {
		if ok(q.X) && ok(q.Y) {
			out = append(out, q)
		}
	}
	return out
}

// onto returns the place of a point on the canvas; what lies beyond an axis is put on it.
func onto(c *draw.Canvas, p *plot.Plot, q Point) vg.Point {
	x, y := p.Transforms(c)
	return vg.Point{X: x(min(max(q.X, p.X.Min), p.X.Max)), Y: y(min(max(q.Y, p.Y.Min), p.Y.Max))}
}

// gridLines are thin lines at the labelled ticks.
type gridLines struct{ dashed bool }

// Plot implements plot.Plotter.
func (g gridLines) Plot(c draw.Canvas, p *plot.Plot) {
	style := draw.LineStyle{Color: grid, Width: 0.6}
	x, y := p.Transforms(&c)
	vertical := p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max)
	if g.dashed {
		vertical, style.Color, style.Dashes = nil, dashes, []vg.Length{4, 4}
	}
	for _, t := range vertical {
		if at := x(t.Value); !t.IsMinor() && c.ContainsX(at) {
			c.StrokeLine2(style, at, c.Min.Y, at, c.Max.Y)
		}
	}
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if at := y(t.Value); !t.IsMinor() && c.ContainsY(at) {
			c.StrokeLine2(style, c.Min.X, at, c.Max.X, at)
		}
	}
}

// A curve is a line ready to be drawn.
type curve struct {
	points []Point
	style  Style
	colour color.Color
}

// maxMarks is how many points of a line are marked; beyond, the marks are the line.
const maxMarks = 200

// Plot implements plot.Plotter.
func (l *curve) Plot(c draw.Canvas, p *plot.Plot) {
	if len(l.points) == 0 {
		return
	}
	pts := make([]vg.Point, 0, len(l.points))
	for i, q := range l.points {
		at := onto(&c, p, q)
		if l.style&Steps != 0 && i > 0 {
			pts = append(pts, vg.Point{X: at.X, Y: pts[len(pts)-1].Y})
		}
		pts = append(pts, at)
	}
	marks := l.style&Dots != 0 || l.style&Marks != 0 && len(pts) <= maxMarks || len(pts) == 1
	pts = thin(pts)
	if l.style&Area != 0 {
		r, g, b, _ := l.colour.RGBA()
		pale := color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 0x30}
		base := []vg.Point{{X: pts[0].X, Y: c.Min.Y}}
		c.FillPolygon(pale, append(append(base, pts...), vg.Point{X: pts[len(pts)-1].X, Y: c.Min.Y}))
	}
	if l.style&Dots == 0 {
		line := draw.LineStyle{Color: l.colour, Width: 1.5}
		if l.style&Dashed != 0 {
			line.Dashes = []vg.Length{5, 3}
		}
		c.StrokeLines(line, pts)
	}
	if marks {
		for _, at := range pts {
			c.DrawGlyphNoClip(draw.GlyphStyle{Color: l.colour, Radius: 2.5, Shape: draw.CircleGlyph{}}, at)
		}
	}
}

// thin keeps, of the points in one column of the picture, half a point wide, the first, the
// lowest, the highest and the last: a line of any length looks the same and takes little room.
func thin(pts []vg.Point) []vg.Point {
	column := func(i int) vg.Length { return vg.Length(math.Floor(2 * float64(pts[i].X))) }
	out := make([]vg.Point, 0, min(len(pts), 4096))
	for i := 0; i < len(pts); {
		low, high, end := i, i, i
		for ; end < len(pts) && column(end) == column(i); end++ {
			if pts[end].Y < pts[low].Y {
				low = end
			}
			if pts[end].Y > pts[high].Y {
				high = end
			}
		}
		last := -1
		for _, k := range []int{i, min(low, high), max(low, high), end - 1} {
			if k > last {
				out = append(out, pts[k])
				last = k
			}
		}
		i = end
	}
	return out
}

// notes are texts, each drawn where it covers no other.
type notes []Note

// Plot implements plot.Plotter.
func (n notes) Plot(c draw.Canvas, p *plot.Plot) {
	var taken []vg.Rectangle
	for _, note := range n {
		if len(finite([]Point{note.At})) == 0 {
			continue
		}
		style := letters(8, draw.XLeft)
		at := onto(&c, p, note.At).Add(vg.Point{X: 4, Y: 3})
		text := label(note.Text)
		if w := style.Width(text); at.X+w > c.Max.X {
			at.X -= w + 8
		}
		r := style.Rectangle(text).Add(at)
		free := true
		for _, t := range taken {
			free = free && (r.Max.X < t.Min.X || t.Max.X < r.Min.X || r.Max.Y < t.Min.Y || t.Max.Y < r.Min.Y)
		}
		if free {
			taken = append(taken, r)
			c.FillText(style, at, text)
		}
	}
}
