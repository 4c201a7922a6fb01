package chart

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Panel is one pair of axes with what is drawn on them.
type Panel struct {
	Title string
	X, Y  Axis
	Lines []Line
	Notes []Note
}

// A Point is one value of a line, in the units of the axes.
type Point struct{ X, Y float64 }

// Style says how a line is drawn; its bits can be combined.
type Style uint8

// The styles; zero is a plain line.
const (
	Steps  Style = 1 << iota // Y holds until the next X
	Area                     // filled down to the axis, faintly
	Solid                    // filled down to the axis
	Marks                    // a dot at each point
	Dots                     // dots without a line
	Dashed                   // as it says
	Rings                    // marks and dots are hollow, to be told from others without colour
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

// A frame is a panel with its scales and the room that its texts take around it.
type frame struct {
	*Panel
	points                    [][]Point // of each line, without what cannot be drawn
	x, y                      scale
	left, right, above, below vg.Length
}

// newFrame fits the axes of a panel to its data and measures its texts. The place of the
// axes in the figure comes later, when all panels are measured.
func newFrame(panel *Panel) *frame {
	measured := &frame{Panel: panel}
	var xs, ys []float64
	for _, l := range panel.Lines {
		points := finite(l.Points)
		measured.points = append(measured.points, points)
		for _, q := range points {
			xs, ys = append(xs, q.X), append(ys, q.Y)
		}
	}
	measured.x, measured.y = panel.X.scale(xs, false), panel.Y.scale(ys, true)
	numbers := letters(8) // the font of the numbers
	for _, t := range measured.y.ticks {
		measured.left = max(measured.left, numbers.Width(t.label))
	}
	for _, t := range measured.x.ticks { // the last one may stand at the end
		measured.right = max(measured.right, numbers.Width(t.label)/2)
	}
	measured.left += 8
	if panel.Y.Title != "" {
		measured.left += 16
	}
	measured.below = 15
	if panel.X.Title != "" {
		measured.below += 13
	}
	measured.above = 5
	if panel.Title != "" {
		measured.above += 12
	}
	return measured
}

// finite returns the points that can be drawn.
func finite(points []Point) []Point {
	out := make([]Point, 0, len(points))
	for _, q := range points {
		if drawable(q.X) && drawable(q.Y) {
			out = append(out, q)
		}
	}
	return out
}

// draw draws f so that the axes lie around box.
func (f *frame) draw(c canvas, box vg.Rectangle, paint func(string) color.Color) {
	f.x.from, f.x.to, f.y.from, f.y.to = box.Min.X, box.Max.X, box.Min.Y, box.Max.Y
	f.axes(c)
	for i, l := range f.Lines {
		f.line(c, f.points[i], l.Style, paint(l.Name))
	}
	f.notes(c)
}

// axes draws titles, numbers, ticks, and thin lines at those with a number.
func (f *frame) axes(canvas canvas) {
	x0, x1, y0, y1 := f.x.from, f.x.to, f.y.from, f.y.to
	line := draw.LineStyle{Color: axisColour, Width: 0.5}
	thin := draw.LineStyle{Color: gridColour, Width: 0.6}
	length := func(mark tick) vg.Length {
		if mark.label == "" {
			return 2
		}
		return 4
	}
	for _, mark := range f.x.ticks {
		at := f.x.at(mark.value)
		if mark.label != "" {
			canvas.StrokeLine2(thin, at, y0, at, y1)
			canvas.text(letters(8), vg.Point{X: at, Y: y0 - 13}, 0.5, mark.label)
		}
		canvas.StrokeLine2(line, at, y0, at, y0-length(mark))
	}
	for _, mark := range f.y.ticks {
		at := f.y.at(mark.value)
		if mark.label != "" {
			canvas.StrokeLine2(thin, x0, at, x1, at)
			canvas.text(letters(8), vg.Point{X: x0 - 6, Y: at - 3}, 1, mark.label)
		}
		canvas.StrokeLine2(line, x0, at, x0-length(mark), at)
	}
	canvas.StrokeLines(line, []vg.Point{{X: x0, Y: y1}, {X: x0, Y: y0}, {X: x1, Y: y0}})
	// Titles stand in the middle of their side, where newFrame left room.
	middle := vg.Point{X: (x0 + x1) / 2, Y: (y0 + y1) / 2}
	if f.Title != "" {
		canvas.text(bold(10), vg.Point{X: middle.X, Y: y1 + 6}, 0.5, clip(f.Title, 2*maxName))
	}
	if f.X.Title != "" {
		canvas.text(letters(9), vg.Point{X: middle.X, Y: y0 - 26}, 0.5, clip(f.X.Title, 2*maxName))
	}
	if f.Y.Title != "" {
		canvas.upwards(letters(9), vg.Point{X: x0 - f.left + 9, Y: middle.Y}, clip(f.Y.Title, maxName))
	}
}

// at returns where a point stands.
func (f *frame) at(q Point) vg.Point { return vg.Point{X: f.x.at(q.X), Y: f.y.at(q.Y)} }

// maxMarks is how many points of a line are marked; beyond, the marks are the line.
const maxMarks = 200

// line draws one line: filling, then the line, then its marks.
func (f *frame) line(canvas canvas, points []Point, style Style, colour color.Color) {
	if len(points) == 0 {
		return
	}
	// A step needs a corner at each point.
	pts := make([]vg.Point, 0, 2*len(points))
	for i, q := range points {
		at := f.at(q)
		if style&Steps != 0 && i > 0 {
			pts = append(pts, vg.Point{X: at.X, Y: pts[len(pts)-1].Y})
		}
		pts = append(pts, at)
	}
	marks := style&Dots != 0 || (style&Marks != 0 && len(pts) <= maxMarks) || len(pts) == 1
	pts = thin(pts)
	if style&(Area|Solid) != 0 {
		fill := colour
		if r, g, b, _ := colour.RGBA(); style&Solid == 0 {
			fill = color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 0x30}
		}
		outline := append([]vg.Point{{X: pts[0].X, Y: f.y.from}}, pts...)
		canvas.FillPolygon(fill, append(outline, vg.Point{X: pts[len(pts)-1].X, Y: f.y.from}))
	}
	if style&(Dots|Solid) == 0 {
		line := draw.LineStyle{Color: colour, Width: 1.5}
		if style&Dashed != 0 {
			line.Dashes = []vg.Length{5, 3}
		}
		canvas.StrokeLines(line, pts)
	}
	if marks {
		for _, at := range pts {
			canvas.DrawGlyphNoClip(draw.GlyphStyle{Color: colour, Radius: 2.5, Shape: draw.CircleGlyph{}}, at)
			if style&Rings != 0 {
				canvas.DrawGlyphNoClip(draw.GlyphStyle{Color: color.White, Radius: 1.4, Shape: draw.CircleGlyph{}}, at)
			}
		}
	}
}

// thin keeps, of the points in one column of the picture, half a point wide, the first, the
// lowest, the highest and the last: a line of any length looks the same and takes little room.
func thin(pts []vg.Point) []vg.Point {
	column := func(i int) vg.Length { return vg.Length(math.Floor(2 * float64(pts[i].X))) }
	out := make([]vg.Point, 0, min(len(pts), 4096))
	for i := 0; i < len(pts); {
		low, high, end := i, i, i // all points up to end are in one column
		for ; end < len(pts) && column(end) == column(i); end++ {
			if pts[end].Y < pts[low].Y {
				low = end
			}
			if pts[end].Y > pts[high].Y {
				high = end
			}
		}
		last := -1
		for _, kept := range []int{i, min(low, high), max(low, high), end - 1} {
			if kept > last {
				out = append(out, pts[kept])
				last = kept
			}
		}
		i = end
	}
	return out
}

// notes writes the texts, each where it covers no other.
func (f *frame) notes(canvas canvas) {
	const height = 11
	face := letters(8)
	var taken []vg.Rectangle
	for _, note := range f.Notes {
		if len(finite([]Point{note.At})) == 0 {
			continue
		}
		at := f.at(note.At).Add(vg.Point{X: 4, Y: 3})
		text := label(note.Text)
		width := face.Width(text)
		if at.X+width > f.x.to { // above the line that comes from there
			at = at.Add(vg.Point{X: -width, Y: 6})
		}
		free := true
		for _, t := range taken {
			free = free && (at.X+width < t.Min.X || t.Max.X < at.X || at.Y+height < t.Min.Y || t.Max.Y < at.Y)
		}
		if free {
			taken = append(taken, vg.Rectangle{Min: at, Max: at.Add(vg.Point{X: width, Y: height})})
			canvas.text(face, at, 0, text)
		}
	}
}
