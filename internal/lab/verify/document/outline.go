package document

// The outline of a text: headings, fences, and what stands above a result block: the label
// that says which load it is, the command or the flags of its server.

import (
	"sort"
	"strings"

	"ossian/internal/lazyregexp"
)

// A Heading is a Markdown heading, or none before the first.
type Heading struct {
	level int
	Text  string
	line  int
}

var (
	headingLine = lazyregexp.New(`^ {0,3}(#{1,6})\s+(.+?)\s*#*\s*$`)
	fenceLine   = lazyregexp.New("^[\\s>]*(?:```|~~~)")
	htmlTag     = lazyregexp.New(`<[^<>]{0,300}>`)
	lineBreak   = lazyregexp.New(`(?i)<br\s*/?>`)
	emphasis    = strings.NewReplacer("**", "", "__", "", "`", "", "&nbsp;", " ", "\u00a0", " ", "&gt;", ">", "&lt;", "<", "&amp;", "&")
	spaces      = lazyregexp.New(`\s+`)
)

// Plain is a piece of Markdown or HTML as a reader sees it.
func Plain(text string) string {
	text = emphasis.Replace(htmlTag.ReplaceAllString(text, " "))
	return strings.TrimSpace(spaces.ReplaceAllString(text, " "))
}

// outline finds headings and fences.
func (d *Document) outline() {
	d.Fenced = make([]bool, len(d.Lines))
	inside := false
	for i, line := range d.Lines {
		if fenceLine.MatchString(line) {
			d.Fenced[i] = true
			inside = !inside
			continue
		}
		d.Fenced[i] = inside
		if match := headingLine.FindStringSubmatch(line); match != nil && !inside {
			d.headings = append(d.headings, Heading{len(match[1]), Plain(match[2]), i + 1})
		}
	}
}

// Title is the first heading of a document, or its first line with words.
func (d *Document) Title() string {
	if len(d.headings) > 0 {
		return d.headings[0].Text
	}
	for _, line := range d.Lines {
		if text := Plain(line); text != "" {
			return text
		}
	}
	return ""
}

// Above are the headings that a line, counted from 1, stands under, the nearest one first.
func (d *Document) Above(line int) []Heading {
	var out []Heading
	level := 7
	last := sort.Search(len(d.headings), func(i int) bool { return d.headings[i].line > line })
	for i := last - 1; i >= max(0, last-maxAbove) && level > 1; i-- {
		if h := d.headings[i]; h.level < level {
			out = append(out, h)
			level = h.level
		}
	}
	return out
}

// maxAbove is how many headings are looked at for those that a line stands under.
const maxAbove = 2_000

// section is the text of the nearest heading above a line, "" above the first.
func (d *Document) section(line int) string {
	if path := d.Above(line); len(path) > 0 {
		return path[0].Text
	}
	return ""
}

// labelReach is how far above its block a label may stand, in lines.
const labelReach = 8

// placeBlocks finds what stands above each block.
func (d *Document) placeBlocks() {
	before := 0 // the last line of the block before
	next := 0   // the first command below
	var server, client *Command
	for _, block := range d.Blocks {
		block.Section = d.section(block.Line)
		block.label = d.labelAbove(block.Line, before)
		for ; next < len(d.Commands) && d.Commands[next].Line < block.Line; next++ {
			if c := &d.Commands[next]; c.Serves {
				server = c
			} else if c.Load != nil {
				client = c
			}
		}
		block.Server, block.client = server, client
		block.Name += " of the document"
		if about := strings.Trim(block.Section+", "+block.label, ", "); about != "" {
			block.Name = "block of " + about
		}
		before = block.end
	}
}

// labelAbove is the comment or the short line that stands right above a block and below
// the block before, if one does.
func (d *Document) labelAbove(line, before int) string {
	for i := line - 2; i >= max(before, line-1-labelReach) && i >= 0; i-- {
		text := strings.TrimSpace(d.Lines[i])
		switch {
		case text == "" || (fenceLine.MatchString(d.Lines[i]) && i == line-2):
			continue
		case strings.HasPrefix(text, "#") && d.Fenced[i]:
			return strings.TrimSpace(strings.Trim(text, "# "))
		}
		return ""
	}
	return ""
}
