// Package chart shows what benchmarks measured: figures as SVG and PNG, and reports as
// one HTML file that opens without a network. Callers hand over runs, or the results of a
// sweep; scales, colours, sizes and how much detail a file can carry are settled here.
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
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes in points, 1/72 inch.
const (
	usualWidth  = 720 * vg.Length(1) // of a figure
	leastWidth  = 260 * vg.Length(1) // of a panel: figures with many beside each other are wider
	panelHeight = 215 * vg.Length(1)
	titleHeight = 20 * vg.Length(1)
	entryHeight = 15 * vg.Length(1) // of a row of the legend
	swatch      = 16 * vg.Length(1) // the line beside a name in the legend
	gap         = 14 * vg.Length(1)
	margin      = 8 * vg.Length(1)
	dpi         = 144 // of PNG
	maxName     = 48  // characters of a name in a figure
)

// The colours of text and lines that carry no data.
var (
	ink  = color.NRGBA{R: 0x22, G: 0x22, B: 0x22, A: 0xff}
	axes = color.NRGBA{R: 0x80, G: 0x80, B: 0x80, A: 0xff}
	grid = color.NRGBA{R: 0xe4, G: 0xe4, B: 0xe4, A: 0xff}
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
func (f *Figure) SVG(w io.Writer) error {
	legend := f.legend()
	c := vgsvg.New(f.width(), f.height(legend))
	f.draw(canvas{draw.New(c)}, legend)
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return fmt.Errorf("figure %s: %w", f.Name, err)
	}
	_, err := w.Write(anyFont(b.Bytes()))
	return err
}

// PNG writes f as a PNG image, twice as many pixels wide as points.
func (f *Figure) PNG(w io.Writer) error {
	legend := f.legend()
	c := vgimg.NewWith(vgimg.UseWH(f.width(), f.height(legend)), vgimg.UseDPI(dpi))
	f.draw(canvas{draw.New(c)}, legend)
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

// Save writes f to a file, in the format that the path ends in: .svg or .png.
func (f *Figure) Save(path string) error {
	var b bytes.Buffer
	var err error
	switch strings.ToLower(filepath.Ext(path)) {
	case ".svg":
		err = f.SVG(&b)
	case ".png":
		err = f.PNG(&b)
	default:
		err = fmt.Errorf("figure %s: cannot write %q: expected a name that ends in .svg or .png", f.Name, path)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
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
	x, row := margin, 0
	for _, name := range names {
		w := swatch + 4 + letters(9).Width(label(name))
		if x+w > f.width()-margin && x > margin {
			x, row = margin, row+1
		}
		out = append(out, entry{name, x, row})
		x += w + gap
	}
	return out
}

func (f *Figure) width() vg.Length {
	return max(usualWidth, vg.Length(len(f.Panels[0]))*leastWidth)
}

func (f *Figure) height(legend []entry) vg.Length {
	row := panelHeight
	if f.Height > 0 {
		row = vg.Length(f.Height)
	}
	return f.top(legend) + vg.Length(len(f.Panels))*row + margin
}

// top is the height of title and legend.
func (f *Figure) top(legend []entry) vg.Length {
	h := margin
	if f.Title != "" {
		h += titleHeight
	}
	if n := len(legend); n > 0 {
		h += vg.Length(legend[n-1].row+1)*entryHeight + 4
	}
	return h
}

func (f *Figure) draw(c canvas, legend []entry) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	y := c.Max.Y - margin
	if f.Title != "" {
		c.text(bold(12), vg.Point{X: margin, Y: y - 12}, 0, clip(f.Title, 2*maxName))
		y -= titleHeight
	}
	paint := f.colours()
	for _, e := range legend {
		at := vg.Point{X: e.x, Y: y - vg.Length(e.row)*entryHeight - entryHeight/2}
		c.FillPolygon(paint(e.name), []vg.Point{{X: at.X, Y: at.Y - 2}, {X: at.X + swatch, Y: at.Y - 2}, {X: at.X + swatch, Y: at.Y + 2}, {X: at.X, Y: at.Y + 2}})
		c.text(letters(9), vg.Point{X: at.X + swatch + 4, Y: at.Y - 3}, 0, label(e.name))
	}
	f.panels(c, c.Max.Y-f.top(legend), paint)
}

// panels draws the panels between the margin at the bottom and top. Those in a column have
// their axes below each other, those in a row beside each other.
func (f *Figure) panels(c canvas, top vg.Length, paint func(string) color.Color) {
	rows, columns := len(f.Panels), len(f.Panels[0])
	frames := make([][]*frame, rows)
	left, right := make([]vg.Length, columns), make([]vg.Length, columns)
	above, below := make([]vg.Length, rows), make([]vg.Length, rows)
	w := c.Max.X - c.Min.X - 2*margin - vg.Length(columns-1)*gap
	h := top - c.Min.Y - margin - vg.Length(rows-1)*gap
	for i, panels := range f.Panels {
		for k := range panels {
			fr := newFrame(&panels[k])
			frames[i] = append(frames[i], fr)
			left[k], right[k] = max(left[k], fr.left), max(right[k], fr.right)
			above[i], below[i] = max(above[i], fr.above), max(below[i], fr.below)
		}
		h -= above[i] + below[i]
	}
	for k := range columns {
		w -= left[k] + right[k]
	}
	w, h = w/vg.Length(columns), h/vg.Length(rows)
	y := top
	for i := range frames {
		x := c.Min.X + margin
		y -= above[i] + h
		for k, fr := range frames[i] {
			x += left[k]
			fr.draw(c, vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + w, Y: y + h}}, paint)
			x += w + right[k] + gap
		}
		y -= below[i] + gap
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

// clip makes one line of at most n characters of text.
func clip(s string, n int) string {
	r := []rune(strings.ReplaceAll(clean(s), "\n", " "))
	if len(r) > n {
		r = append(r[:n-1], '…')
	}
	return string(r)
}

// clean returns text without what XML cannot hold and what would change the direction of
// writing or steer a terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
