package chart

import (
	"fmt"
	"html"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// typefaces are Liberation Sans, regular and bold. Package plot would bring ten more, and
// canvases for PDF, TeX and EPS.
var typefaces = sync.OnceValue(func() (out [2]*opentype.Font) {
	for i, ttf := range [][]byte{liberationsansregular.TTF, liberationsansbold.TTF} {
		f, err := opentype.Parse(ttf)
		if err != nil {
			panic("chart: font that is built in: " + err.Error())
		}
		out[i] = f
	}
	return out
})

// letters is the font of figures in a size of points.
func letters(size vg.Length) *font.Face {
	return &font.Face{Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}, Face: typefaces()[0]}
}

// bold is the same font in bold.
func bold(size vg.Length) *font.Face {
	return &font.Face{Font: font.Font{Typeface: "Liberation", Variant: "Sans", Weight: 3, Size: size}, Face: typefaces()[1]} // 3: x/image's bold
}

// Drawable is a text as figures can show it: letters that their font lacks are written as \u4e2d, and not
// left out. What is drawable already stays as it is.
func Drawable(text string) string {
	var out strings.Builder
	var buffer sfnt.Buffer
	for _, letter := range text {
		index, err := typefaces()[0].GlyphIndex(&buffer, letter)
		switch {
		case (err == nil && index != 0) || letter < ' ':
			out.WriteRune(letter)
		case letter > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, letter)
		default:
			fmt.Fprintf(&out, `\u%04x`, letter)
		}
	}
	return out.String()
}

// svgText is a text as vgsvg writes it: its attributes, weight, size and words.
var svgText = regexp.MustCompile(`<text ([^>]*)style="font-family:Liberation Sans;([^"]*font-weight:(\w+);[^"]*font-size:([\d.]+)px[^"]*")>([^<]+)</text>`)

// anyFont makes texts of an SVG keep their widths where the font is missing: others are
// named, and each text says how wide it is.
func anyFont(svg []byte) []byte {
	return svgText.ReplaceAllFunc(svg, func(text []byte) []byte {
		parts := svgText.FindSubmatch(text)
		size, err := strconv.ParseFloat(string(parts[4]), 64)
		if err != nil {
			return text
		}
		face := letters(vg.Length(size))
		if string(parts[3]) == "bold" {
			face = bold(vg.Length(size))
		}
		return fmt.Appendf(nil, `<text textLength="%.1f" lengthAdjust="spacingAndGlyphs" %sstyle="font-family:Liberation Sans,Arial,Helvetica,sans-serif;%s>%s</text>`,
			face.Width(html.UnescapeString(string(parts[5]))), parts[1], parts[2], parts[5])
	})
}

// A canvas is what figures are drawn on.
type canvas struct{ draw.Canvas }

// text writes a line on the base line through at; align is the part of its width that
// stands left of there.
func (c *canvas) text(face *font.Face, at vg.Point, align vg.Length, text string) {
	text = Drawable(text)
	c.SetColor(textColour)
	at.X -= align * face.Width(text)
	c.FillString(*face, at, text)
}

// upwards writes a line that is turned to the left, its middle at a point.
func (c *canvas) upwards(face *font.Face, at vg.Point, text string) {
	c.Push()
	c.Rotate(math.Pi / 2)
	c.text(face, vg.Point{X: at.Y, Y: -at.X}, 0.5, text)
	c.Pop()
}
