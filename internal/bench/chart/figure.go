// Package chart shows what benchmarks measured: figures as SVG and PNG, and reports as
// one HTML file that opens without a network. Callers hand over runs or points; scales,
// colours, sizes and how much detail a file can carry are settled here.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes in points, 1/72 inch.
const (
	width       = 720 * vg.Length(1) // of a figure
	panelHeight = 215 * vg.Length(1)
	entryHeight = 15 * vg.Length(1) // of a row of the legend
	swatch      = 16 * vg.Length(1) // the line beside a name in the legend
	gap         = 14 * vg.Length(1)
	margin      = 8 * vg.Length(1)
	dpi         = 144 // of PNG
	maxName     = 48  // characters of a name in a figure
)

// The colours of text and lines that carry no data.
var (
	ink    = color.NRGBA{R: 0x22, G: 0x22, B: 0x22, A: 0xff}
	axes   = color.NRGBA{R: 0x80, G: 0x80, B: 0x80, A: 0xff}
	dashes = color.NRGBA{R: 0xc4, G: 0xc4, B: 0xc4, A: 0xff}
	grid   = color.NRGBA{R: 0xe4, G: 0xe4, B: 0xe4, A: 0xff}
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

	own map[string]color.NRGBA // colours of names that are not from the palette
}

// SVG writes f as an SVG document. Its text needs no particular font.
func (f *Figure) SVG(w io.Writer) error {
	legend := f.legend()
	c := vgsvg.New(width, f.height(legend))
	f.draw(draw.New(c), legend)
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return fmt.Errorf("figure %s: %w", f.Name, err)
	}
	// Where the font that was measured is missing, those of the same widths take its place.
	svg := bytes.ReplaceAll(b.Bytes(), []byte(`style="font-family:Liberation Sans;`), []byte(`style="font-family:Liberation Sans,Arial,Helvetica,sans-serif;`))
	_, err := w.Write(svg)
	return err
}

// PNG writes f as a PNG image of 1440 pixels width.
func (f *Figure) PNG(w io.Writer) error {
	legend := f.legend()
	c := vgimg.NewWith(vgimg.UseWH(width, f.height(legend)), vgimg.UseDPI(dpi))
	f.draw(draw.New(c), legend)
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

// Save writes f to a file, in the format that the path ends in: .svg or .png.
func (f *Figure) Save(path string) error {
	var b bytes.Buffer
	var err error
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
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

// An entry is a name of the legend, and where it stands.
type entry struct {
	name string
	x    vg.Length
	row  int
}

// legend places the names of all lines; a figure with one name or none needs no legend.
func (f *Figure) legend() []entry {
	style := letters(9, draw.XLeft)
	var out []entry
	seen := map[string]bool{}
	x, row := margin, 0
	for _, panels := range f.Panels {
		for i := range panels {
			for _, name := range panels[i].names() {
				if name == "" || seen[name] {
					continue
				}
				seen[name] = true
				w := swatch + 4 + style.Width(label(name))
				if x+w > width-margin && x > margin {
					x, row = margin, row+1
				}
				out = append(out, entry{name, x, row})
				x += w + gap
			}
		}
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

func (f *Figure) height(legend []entry) vg.Length {
	return f.top(legend) + vg.Length(len(f.Panels))*f.rowHeight() + margin
}

func (f *Figure) rowHeight() vg.Length {
	if f.Height > 0 {
		return vg.Length(f.Height)
	}
	return panelHeight
}

// top is the height of title and legend.
func (f *Figure) top(legend []entry) vg.Length {
	h := margin
	if f.Title != "" {
		h += 20
	}
	if n := len(legend); n > 0 {
		h += vg.Length(legend[n-1].row+1)*entryHeight + 4
	}
	return h
}

func (f *Figure) draw(c draw.Canvas, legend []entry) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	y := c.Max.Y - margin
	if f.Title != "" {
		title := letters(12, draw.XLeft)
		title.Font.Weight = bold
		title.YAlign = draw.YTop
		c.FillText(title, vg.Point{X: margin, Y: y}, clip(f.Title, 2*maxName))
		y -= 20
	}
	paint := f.colours()
	names := letters(9, draw.XLeft)
	names.YAlign = draw.YCenter
	for _, e := range legend {
		at := vg.Point{X: e.x, Y: y - vg.Length(e.row)*entryHeight - entryHeight/2}
		c.FillPolygon(paint(e.name), box(at.X, at.Y-3, at.X+swatch, at.Y+1))
		c.FillText(names, vg.Point{X: at.X + swatch + 4, Y: at.Y}, label(e.name))
	}
	rows := make([][]*plot.Plot, len(f.Panels))
	for i, panels := range f.Panels {
		for k := range panels {
			rows[i] = append(rows[i], panels[k].plot(paint))
		}
	}
	tiles := draw.Tiles{Rows: len(rows), Cols: len(rows[0]), PadX: gap, PadY: gap, PadLeft: margin, PadRight: margin}
	area := draw.Crop(c, 0, 0, margin, -f.top(legend))
	for i, row := range plot.Align(rows, tiles, area) {
		for k := range row {
			rows[i][k].Draw(row[k])
		}
	}
}

// colours gives every name of a line its colour, by the order in which they come.
// Beyond the palette, runs of a sweep as a rule, neighbours get neighbouring colours.
func (f *Figure) colours() func(name string) color.Color {
	index := map[string]int{}
	for _, panels := range f.Panels {
		for i := range panels {
			for _, name := range panels[i].names() {
				if _, ok := index[name]; !ok && name != "" {
					index[name] = len(index)
				}
			}
		}
	}
	return func(name string) color.Color {
		if c, ok := f.own[name]; ok {
			return c
		}
		if len(index) <= len(palette) {
			return palette[index[name]]
		}
		return ramp(float64(index[name]) / float64(len(index)-1))
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

// bold is the weight of golang.org/x/image/font.
const bold = 3

// letters is the style of text: size in points.
func letters(size vg.Length, align draw.XAlignment) text.Style {
	return text.Style{
		Color: ink, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		XAlign: align, YAlign: draw.YBottom, Handler: plot.DefaultTextHandler,
	}
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

// box returns the corners of a rectangle.
func box(x0, y0, x1, y1 vg.Length) []vg.Point {
	return []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}}
}
