package report

import "regexp"

// A document is a report before it is Markdown or HTML: both are written from the same parts, so that
// they cannot say different things.
type document struct {
	parts []part
}

// A part is one block of a document; exactly one of its members is set.
type part struct {
	heading   *heading
	paragraph text
	quote     text // what a reader must see first
	list      []text
	table     *table
	code      *code
	figure    *figure
}

type heading struct {
	level int
	text  string
}

// A table has a row of column names and rows of as many cells.
type table struct {
	columns []string
	numeric []bool // columns set to the right
	rows    [][]cell
}

// A cell may have several lines.
type cell struct {
	lines []text
	tone  tone
}

// A tone is how a cell is to be taken; it is never said by colour alone.
type tone uint8

const (
	plain tone = iota
	better
	worse
)

// code is shown as it is.
type code struct{ language, text string }

// A figure is a picture beside the report, with what it shows in words for those who do not see it.
type figure struct {
	name string // of its files, without extension
	alt  string
	svg  []byte // for the page that needs no file beside it
}

// text is a line of spans.
type text []span

// A span is a stretch of text in one style.
type span struct {
	text  string
	style style
	link  string // a file beside the report; empty: none
}

type style uint8

const (
	regular style = iota
	strong
	literal // names, flags, commands
)

// say is text in one style.
func say(words string) text { return text{{text: words}} }

// and appends text.
func (t text) and(words string) text { return append(t, span{text: words}) }

// bold appends text that stands out.
func (t text) bold(words string) text { return append(t, span{text: words, style: strong}) }

// code appends a name, a flag or a command.
func (t text) code(words string) text { return append(t, span{text: words, style: literal}) }

// besides are the files that a report links to: those that the lab writes, below its directory.
var besides = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)

// file appends a link to a file beside the report; another name in a ledger is shown, and not linked.
func (t text) file(name string) text {
	if !besides.MatchString(name) {
		return t.code(name)
	}
	return append(t, span{text: name, style: literal, link: name})
}

func (d *document) heading(level int, words string) {
	d.parts = append(d.parts, part{heading: &heading{level, words}})
}

func (d *document) paragraph(t text) { d.parts = append(d.parts, part{paragraph: t}) }

func (d *document) quote(t text) { d.parts = append(d.parts, part{quote: t}) }

func (d *document) list(items []text) {
	if len(items) > 0 {
		d.parts = append(d.parts, part{list: items})
	}
}

func (d *document) code(language, words string) {
	d.parts = append(d.parts, part{code: &code{language, words}})
}

func (d *document) figure(f *figure) {
	if f != nil {
		d.parts = append(d.parts, part{figure: f})
	}
}

// table appends one, if it has rows. A column whose name begins with ">" is set to the right.
func (d *document) table(columns []string, rows [][]cell) {
	if len(rows) == 0 {
		return
	}
	t := &table{rows: rows}
	for _, name := range columns {
		right := name != "" && name[0] == '>'
		if right {
			name = name[1:]
		}
		t.columns, t.numeric = append(t.columns, name), append(t.numeric, right)
	}
	d.parts = append(d.parts, part{table: t})
}

// cells makes a row of plain texts.
func cells(words ...string) []cell {
	out := make([]cell, len(words))
	for i, word := range words {
		out[i] = cell{lines: []text{say(word)}}
	}
	return out
}

// of is a cell of one line.
func of(t text) cell { return cell{lines: []text{t}} }
