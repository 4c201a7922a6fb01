package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The colours of the before/after chart (bench.md 5). The second series is hatched besides, so that both
// can be told apart in grey.
var (
	beforeColour = color.NRGBA{0x1f, 0x77, 0xb4, 0xff}
	afterColour  = color.NRGBA{0xff, 0x7f, 0x0e, 0xff}
	betterColour = color.NRGBA{0x1b, 0x7a, 0x2b, 0xff}
	worseColour  = color.NRGBA{0xb3, 0x1d, 0x1d, 0xff}
)

// Bars are pairs of bars, one pair for each category: what was, and what is (bench.md 5).
type Bars struct {
	Name          string // of its file, without extension
	Title         string
	Unit          string // of the values
	Before, After string // names of the series
	Pairs         []Pair
}

// A Pair is one category. NaN stands for a value that is not there.
type Pair struct {
	Label         string
	Before, After float64
	Change        string // above the second bar: "+12.1%"
	Better, Worse bool   // colours of Change; neither: it is not certain
}

// Sizes of bars, in points.
const (
	pairWidth  = 118 * vg.Length(1)
	barWidth   = 42 * vg.Length(1)
	barsHeight = 230 * vg.Length(1)
)

func (b *Bars) width() vg.Length {
	title := bold(12).Width(clip(b.Title, 2*maxName)) + 2*pageMargin
	return max(usualWidth/2, 70+vg.Length(len(b.Pairs))*pairWidth, title)
}

func (b *Bars) height() vg.Length {
	return barsHeight + titleHeight + 2*entryHeight + 2*pageMargin + 26
}

// SVG writes b as an SVG document.
func (b *Bars) SVG(dst io.Writer) error {
	return writeSVG(dst, b.Name, b.width(), b.height(), b.draw)
}

// PNG writes b as a PNG image.
func (b *Bars) PNG(dst io.Writer) error { return writePNG(dst, b.width(), b.height(), b.draw) }

// writeSVG draws on an SVG document.
func writeSVG(dst io.Writer, name string, width, height vg.Length, draws func(canvas)) error {
	drawing := vgsvg.New(width, height)
	draws(canvas{draw.New(drawing)})
	var buffer bytes.Buffer
	if _, err := drawing.WriteTo(&buffer); err != nil {
		return fmt.Errorf("figure %s: %w", name, err)
	}
	_, err := dst.Write(anyFont(buffer.Bytes()))
	return err
}

// writePNG draws on a PNG image, twice as many pixels wide as points.
func writePNG(dst io.Writer, width, height vg.Length, draws func(canvas)) error {
	image := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))
	draws(canvas{draw.New(image)})
	_, err := vgimg.PngCanvas{Canvas: image}.WriteTo(dst)
	return err
}

// background paints the page white and writes the title; it returns the height that is left.
func (c *canvas) background(title string) vg.Length {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	top := c.Max.Y - pageMargin
	if title != "" {
		c.text(bold(12), vg.Point{X: pageMargin, Y: top - 12}, 0, clip(title, 2*maxName))
		top -= titleHeight
	}
	return top
}

func (b *Bars) draw(canvas canvas) {
	top := canvas.background(b.Title)
	b.legend(canvas, top)
	top -= entryHeight + 6
	// The scale leaves room for value and percentage above the highest bar.
	var values []float64
	for _, pair := range b.Pairs {
		values = append(values, pair.Before*1.12, pair.After*1.12)
	}
	axis := (&Axis{}).scale(values, true)
	axis.from, axis.to = canvas.Min.Y+pageMargin+26, top
	left := canvas.Min.X + 62
	dashed := draw.LineStyle{Color: gridColour, Width: 0.6, Dashes: []vg.Length{3, 3}}
	for _, mark := range axis.ticks {
		y := axis.at(mark.value)
		canvas.StrokeLine2(dashed, left, y, canvas.Max.X-pageMargin, y)
		canvas.text(letters(8), vg.Point{X: left - 6, Y: y - 3}, 1, mark.label)
	}
	canvas.upwards(letters(9), vg.Point{X: canvas.Min.X + pageMargin + 8, Y: (axis.from + axis.to) / 2}, clip(b.Unit, maxName))
	for i, pair := range b.Pairs {
		middle := left + (vg.Length(i)+0.5)*pairWidth
		canvas.text(letters(9), vg.Point{X: middle, Y: axis.from - 14}, 0.5, clip(pair.Label, 22))
		canvas.bar(middle-barWidth-1, &axis, pair.Before, beforeColour, false, "", textColour)
		colour := color.Color(textColour)
		if pair.Better {
			colour = betterColour
		} else if pair.Worse {
			colour = worseColour
		}
		canvas.bar(middle+1, &axis, pair.After, afterColour, true, pair.Change, colour)
	}
	canvas.StrokeLine2(draw.LineStyle{Color: axisColour, Width: 0.8}, left, axis.from, canvas.Max.X-pageMargin, axis.from)
}

// legend names the series.
func (b *Bars) legend(c canvas, top vg.Length) {
	x := c.Min.X + pageMargin
	for i, name := range []string{b.Before, b.After} {
		low := vg.Point{X: x, Y: top - entryHeight + 2}
		c.box(low, vg.Point{X: x + swatch, Y: low.Y + 10}, []color.NRGBA{beforeColour, afterColour}[i], i == 1)
		c.text(letters(9), vg.Point{X: x + swatch + 4, Y: low.Y + 2}, 0, label(name))
		x += swatch + 4 + letters(9).Width(label(name)) + panelGap
	}
}

// bar draws one bar with its value and what stands above that.
func (c *canvas) bar(x vg.Length, axis *scale, value float64, colour color.NRGBA, hatched bool, above string, aboveColour color.Color) {
	if math.IsNaN(value) {
		c.text(letters(8), vg.Point{X: x + barWidth/2, Y: axis.from + 4}, 0.5, "none")
		return
	}
	top := axis.at(value)
	c.box(vg.Point{X: x, Y: axis.from}, vg.Point{X: x + barWidth, Y: top}, colour, hatched)
	c.text(letters(8), vg.Point{X: x + barWidth/2, Y: top + 3}, 0.5, barNumber(value))
	if above != "" {
		face := bold(8)
		c.SetColor(aboveColour)
		c.FillString(*face, vg.Point{X: x + barWidth/2 - face.Width(above)/2, Y: top + 13}, above)
	}
}

// barNumber is a value as it stands above a bar: whole, or with three digits.
func barNumber(value float64) string {
	if math.Abs(value) >= 100 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.3g", value)
}

// box fills a rectangle, and hatches it with white lines from bottom left to top right.
func (c *canvas) box(low, high vg.Point, colour color.NRGBA, hatched bool) {
	c.FillPolygon(colour, []vg.Point{low, {X: high.X, Y: low.Y}, high, {X: low.X, Y: high.Y}})
	if !hatched {
		return
	}
	line := draw.LineStyle{Color: color.NRGBA{0xff, 0xff, 0xff, 0x90}, Width: 1}
	width, height := high.X-low.X, high.Y-low.Y
	for offset := -height; offset < width; offset += 6 {
		// The line x = low.X + offset + t, y = low.Y + t, within the rectangle.
		from, to := max(0, -offset), min(height, width-offset)
		if from < to {
			c.StrokeLine2(line, low.X+offset+from, low.Y+from, low.X+offset+to, low.Y+to)
		}
	}
}
