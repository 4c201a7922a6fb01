package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"gonum.org/v1/plot/vg"
)

// Sizes in points, 1/72 inch.
const (
	usualWidth  = 720 * vg.Length(1) // of a figure
	leastWidth  = 260 * vg.Length(1) // of a panel: figures with many beside each other are wider
	panelHeight = 215 * vg.Length(1)
	titleHeight = 20 * vg.Length(1)
	entryHeight = 15 * vg.Length(1) // of a row of the legend
	swatch      = 16 * vg.Length(1) // the line beside a name in the legend
	panelGap    = 14 * vg.Length(1)
	pageMargin  = 8 * vg.Length(1)
	dpi         = 144 // of PNG
	maxName     = 48  // characters of a name in a figure
)

// The colours of text and lines that carry no data.
var (
	textColour = color.NRGBA{R: 0x22, G: 0x22, B: 0x22, A: 0xff}
	axisColour = color.NRGBA{R: 0x80, G: 0x80, B: 0x80, A: 0xff}
	gridColour = color.NRGBA{R: 0xe4, G: 0xe4, B: 0xe4, A: 0xff}
)

// palette are the colours of Okabe and Ito, "Color Universal Design" (2008), which people
// with any kind of colour vision tell apart; yellow, too faint on white, is left out.
var palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff},
}

// A Figure is a grid of panels below one legend.
type Figure struct {
	Name   string // of its file, without extension
	Title  string
	Panels [][]Panel // rows, each with the same number of panels, at least one
	Height float64   // points of a row; 0 = a good height for two panels beside each other
}

// SVG writes f as an SVG document. Its text needs no particular font.
func (f *Figure) SVG(dst io.Writer) error {
	legend := f.legend()
	return writeSVG(dst, f.Name, f.width(), f.height(legend), func(c canvas) { f.draw(c, legend) })
}

// PNG writes f as a PNG image, twice as many pixels wide as points.
func (f *Figure) PNG(dst io.Writer) error {
	legend := f.legend()
	return writePNG(dst, f.width(), f.height(legend), func(c canvas) { f.draw(c, legend) })
}

// Save writes f to a file, in the format that the path ends in: .svg or .png.
func (f *Figure) Save(path string) error {
	var buffer bytes.Buffer
	var err error
	switch strings.ToLower(filepath.Ext(path)) {
	case ".svg":
		err = f.SVG(&buffer)
	case ".png":
		err = f.PNG(&buffer)
	default:
		err = fmt.Errorf("figure %s: cannot write %q: expected a name that ends in .svg or .png", f.Name, path)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, buffer.Bytes(), 0o644)
}

// names returns the names of all lines, in the order in which they come.
func (f *Figure) names() []string {
	var out []string
	for _, panels := range f.Panels {
		for _, p := range panels {
			for _, l := range p.Lines {
				if l.Name != "" && !slices.Contains(out, l.Name) {
					out = append(out, l.Name)
				}
			}
		}
	}
	return out
}

// An entry is a name of the legend, and where it stands.
type entry struct {
	name string
	x    vg.Length
	row  int
}

// legend places the names; a figure with one name or none needs no legend.
func (f *Figure) legend() []entry {
	names := f.names()
	if len(names) < 2 {
		return nil
	}
	var out []entry
	x, row := pageMargin, 0
	for _, name := range names {
		width := swatch + 4 + letters(9).Width(label(name))
		if x+width > f.width()-pageMargin && x > pageMargin {
			x, row = pageMargin, row+1
		}
		out = append(out, entry{name, x, row})
		x += width + panelGap
	}
	return out
}

// width is that of the figure.
func (f *Figure) width() vg.Length {
	return max(usualWidth, vg.Length(len(f.Panels[0]))*leastWidth)
}

// height is that of the figure with its legend.
func (f *Figure) height(legend []entry) vg.Length {
	row := panelHeight
	if f.Height > 0 {
		row = vg.Length(f.Height)
	}
	return f.top(legend) + vg.Length(len(f.Panels))*row + pageMargin
}

// top is the height of title and legend.
func (f *Figure) top(legend []entry) vg.Length {
	height := pageMargin
	if f.Title != "" {
		height += titleHeight
	}
	if n := len(legend); n > 0 {
		height += vg.Length(legend[n-1].row+1)*entryHeight + 4
	}
	return height
}

// draw draws title, legend and panels, from the top down.
func (f *Figure) draw(canvas canvas, legend []entry) {
	canvas.SetColor(color.White)
	canvas.Fill(canvas.Rectangle.Path())
	y := canvas.Max.Y - pageMargin
	if f.Title != "" {
		canvas.text(bold(12), vg.Point{X: pageMargin, Y: y - 12}, 0, clip(f.Title, 2*maxName))
		y -= titleHeight
	}
	paint := f.colours()
	for _, entry := range legend {
		at := vg.Point{X: entry.x, Y: y - vg.Length(entry.row)*entryHeight - entryHeight/2}
		canvas.FillPolygon(paint(entry.name), []vg.Point{{X: at.X, Y: at.Y - 2}, {X: at.X + swatch, Y: at.Y - 2}, {X: at.X + swatch, Y: at.Y + 2}, {X: at.X, Y: at.Y + 2}})
		canvas.text(letters(9), vg.Point{X: at.X + swatch + 4, Y: at.Y - 3}, 0, label(entry.name))
	}
	f.panels(canvas, canvas.Max.Y-f.top(legend), paint)
}

// panels draws the panels between the margin at the bottom and top. Those in a column have
// their axes below each other, those in a row beside each other.
func (f *Figure) panels(canvas canvas, top vg.Length, paint func(string) color.Color) {
	// Texts take room first: the most that any panel of a row or a column needs. The axes share
	// what is left evenly.
	rows, columns := len(f.Panels), len(f.Panels[0])
	frames := make([][]*frame, rows)
	left, right := make([]vg.Length, columns), make([]vg.Length, columns)
	above, below := make([]vg.Length, rows), make([]vg.Length, rows)
	width := canvas.Max.X - canvas.Min.X - 2*pageMargin - vg.Length(columns-1)*panelGap
	height := top - canvas.Min.Y - pageMargin - vg.Length(rows-1)*panelGap
	for row, panels := range f.Panels {
		for column := range panels {
			fr := newFrame(&panels[column])
			frames[row] = append(frames[row], fr)
			left[column], right[column] = max(left[column], fr.left), max(right[column], fr.right)
			above[row], below[row] = max(above[row], fr.above), max(below[row], fr.below)
		}
		height -= above[row] + below[row]
	}
	for column := range columns {
		width -= left[column] + right[column]
	}
	width, height = width/vg.Length(columns), height/vg.Length(rows)
	y := top // from the top down, and from left to right
	for row := range frames {
		x := canvas.Min.X + pageMargin
		y -= above[row] + height
		for column, fr := range frames[row] {
			x += left[column]
			fr.draw(canvas, vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + width, Y: y + height}}, paint)
			x += width + right[column] + panelGap
		}
		y -= below[row] + panelGap
	}
}

// colours gives every name its colour, by the order in which they come. Beyond the
// palette, runs of a sweep as a rule, neighbours get neighbouring colours.
func (f *Figure) colours() func(name string) color.Color {
	names := f.names()
	return func(name string) color.Color {
		i := max(slices.Index(names, name), 0) // a line without a name has the first colour
		if len(names) <= len(palette) {
			return palette[i]
		}
		return ramp(float64(i) / float64(len(names)-1))
	}
}

// ramp goes from dark violet over blue and green to orange, ever lighter, as the map
// "viridis" of Smith and van der Walt (2015) does; 0 <= at <= 1.
func ramp(at float64) color.Color {
	stops := []color.NRGBA{{0x44, 0x01, 0x54, 0xff}, {0x3b, 0x52, 0x8b, 0xff}, {0x21, 0x91, 0x8c, 0xff}, {0x4d, 0xb0, 0x5a, 0xff}, {0xe0, 0xa8, 0x00, 0xff}}
	at *= float64(len(stops) - 1)
	i := min(int(at), len(stops)-2)
	mix := func(a, b uint8) uint8 { return uint8(float64(a) + (float64(b)-float64(a))*(at-float64(i)) + 0.5) }
	a, b := stops[i], stops[i+1]
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 0xff}
}

// label is a name as figures show it: one line that is not too long.
func label(name string) string { return clip(name, maxName) }

// clip makes one line of at most so many characters of text.
func clip(s string, most int) string {
	chars := []rune(strings.ReplaceAll(clean(s), "\n", " "))
	if len(chars) > most {
		chars = append(chars[:most-1], '…')
	}
	return string(chars)
}

// clean returns text without what XML cannot hold and what would change the direction of
// writing or steer a terminal.
func clean(text string) string {
	return strings.Map(func(char rune) rune {
		if char != '\n' && !unicode.IsPrint(char) {
			return ' '
		}
		return char
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
