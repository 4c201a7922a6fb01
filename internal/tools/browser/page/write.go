package page

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// A form is how an element stands among lines: how many line breaks it wants before and behind
// itself at least, of which two make an empty line, and what it begins and ends with.
type form struct {
	before, behind int
	begin, end     string
}

var (
	paragraph = form{before: 2, behind: 2}
	row       = form{behind: 1}
	item      = form{before: 1, behind: 1}
	struck    = form{begin: "~~", end: "~~"}
	code      = form{begin: "`", end: "`"}
)

// forms are those of elements that have one; what has none is part of its line. The first are as
// pages of the published tool show them. The last it lets run together.
var forms = map[string]form{
	"p": paragraph, "div": paragraph, "pre": paragraph, "dl": {before: 2},
	"h1": heading(1), "h2": heading(2), "h3": heading(3), "h4": heading(4), "h5": heading(5), "h6": heading(6),
	"hr": {before: 2, behind: 2, begin: "* * *"}, "blockquote": paragraph,
	"dt": row, "dd": {behind: 1, begin: "    "}, "tr": row, "li": item,
	"del": struck, "s": struck, "strike": struck, "code": code, "kbd": code, "tt": code,
	"q": {begin: `"`, end: `"`},

	"address": paragraph, "article": paragraph, "aside": paragraph, "details": paragraph, "dialog": paragraph,
	"fieldset": paragraph, "figcaption": paragraph, "figure": paragraph, "footer": paragraph, "form": paragraph,
	"header": paragraph, "hgroup": paragraph, "main": paragraph, "nav": paragraph, "search": paragraph,
	"section": paragraph, "summary": paragraph, "caption": paragraph, "option": item,
}

func heading(level int) form {
	return form{before: 2, behind: 2, begin: strings.Repeat("#", level) + " "}
}

// maxNest is how deep quotations and lists are shown; what is deeper stands with the deepest.
const maxNest = 16

// A writer puts text and the marks of elements into lines. Line breaks and spaces are owed until
// something comes that they stand before, so that elements without text leave nothing.
type writer struct {
	out strings.Builder

	breaks int  // line breaks that are owed
	ends   bool // the first of them ends a row of a table, which two spaces show
	space  bool // a space is owed
	fresh  bool // the page, an item or a quotation begins: what is owed before its text is void

	strike strike
	lists  []list // those that are open
	margin string // as wide as what the lines of the latest item are behind
	quotes int    // quotations that are open
	pre    int    // elements with line breaks of their own that are open
	inPre  bool   // such an element has begun to have text
}

// A strike is where the text is that is struck.
type strike uint8

const (
	unstruck  strike = iota
	strikes          // the mark has come, the text has not
	struckOut        // the text has come
)

// A list is one that is open.
type list struct {
	ordered bool
	number  int // of the last item
}

// begin writes what an element begins with.
func (w *writer) begin(name string, attributes []html.Attribute) {
	form := forms[name]
	w.owe(form.before)
	// Within preformatted text code has no marks of its own.
	if form != code || w.pre == 0 {
		w.put(form.begin)
	}
	switch name {
	case "br":
		w.put("  \n" + w.quotation())
	case "blockquote":
		w.quote()
	case "ol", "ul":
		w.openList(list{ordered: name == "ol", number: numbering(attributes)})
	case "li":
		w.beginItem()
	case "td", "th":
		w.space = w.space || !strings.HasSuffix(w.out.String(), " ")
	case "pre":
		w.pre++
		w.inPre = false
	}
	if form == struck {
		w.strike = strikes
	}
}

// end writes what an element ends with.
func (w *writer) end(name string) {
	form := forms[name]
	if form != code || w.pre == 0 {
		w.put(form.end)
	}
	switch name {
	case "blockquote":
		w.quotes--
	case "ol", "ul":
		w.closeList()
	case "tr":
		w.ends = true
	case "pre":
		w.pre--
	}
	w.owe(form.behind)
}

// text writes text that stands between two tags.
func (w *writer) text(text string) {
	if w.pre > 0 {
		w.preformatted(text)
		return
	}
	// What follows struck text is parted from it, but for punctuation.
	first, _ := utf8.DecodeRuneInString(text)
	switch {
	case w.strike == strikes:
		text = strings.TrimFunc(text, isSpace)
		w.strike = struckOut
	case w.strike == struckOut && !strings.ContainsRune("][(){}.!?", first):
		text = " " + text
		w.strike = unstruck
	default:
		w.strike = unstruck
	}
	text = collapse(text)
	if rest, ok := strings.CutPrefix(text, " "); ok {
		w.space, text = true, rest
	}
	w.put(text)
}

// preformatted writes text whose lines stay, four characters behind the others.
func (w *writer) preformatted(text string) {
	margin := "    "
	if len(w.lists) > 0 {
		margin += w.margin
	}
	first := margin
	if w.inPre || w.fresh {
		first = ""
	}
	w.inPre = true
	w.put(first + strings.ReplaceAll(text, "\n", "\n"+w.quotation()+margin))
}

// owe makes sure that line breaks stand before what comes.
func (w *writer) owe(breaks int) { w.breaks = max(w.breaks, breaks) }

// put writes text behind what is owed.
func (w *writer) put(text string) {
	if text != "" {
		w.pay(w.quotation())
		w.out.WriteString(text)
	}
}

// pay writes the line breaks that are owed, each with what lines begin with, or the space.
func (w *writer) pay(prefix string) {
	switch {
	case w.fresh:
	case w.breaks > 0 && w.ends:
		w.out.WriteString(strings.Repeat("  \n"+prefix, w.breaks))
	case w.breaks > 0:
		w.out.WriteString(strings.Repeat("\n"+prefix, w.breaks))
	case w.space && !strings.HasSuffix(w.out.String(), "\n"):
		w.out.WriteByte(' ')
	}
	w.fresh, w.breaks, w.ends, w.space = false, 0, false, false
}

// quotation is what lines begin with where they are quoted.
func (w *writer) quotation() string {
	if w.quotes == 0 {
		return ""
	}
	return strings.Repeat(">", min(w.quotes, maxNest)) + " "
}

// quote begins a quotation, whose mark stands close to that of the one around it.
func (w *writer) quote() {
	w.pay(strings.TrimSuffix(w.quotation(), " "))
	if w.quotes++; w.quotes <= maxNest {
		w.out.WriteString("> ")
	}
	w.fresh = true
}

// openList begins a list: one in no other stands alone.
func (w *writer) openList(l list) {
	if len(w.lists) == 0 {
		w.owe(2)
	}
	w.lists = append(w.lists, l)
}

func (w *writer) closeList() {
	w.lists = w.lists[:len(w.lists)-1]
	if len(w.lists) == 0 {
		w.owe(2)
	}
}

// beginItem writes the mark of an item, two columns further in for each list, three where the list
// around it has numbers.
func (w *writer) beginItem() {
	w.margin = ""
	mark, width := "* ", "  "
	for i := range w.lists[:min(len(w.lists), maxNest)] {
		w.margin += "  "
		if i > 0 && w.lists[i-1].ordered {
			w.margin += " "
		}
	}
	if n := len(w.lists); n > 0 && w.lists[n-1].ordered {
		w.lists[n-1].number++
		mark, width = strconv.Itoa(w.lists[n-1].number)+". ", "   "
	}
	w.put(w.margin + mark)
	w.margin += width
	w.fresh = true
}

// numbering is the number before that of the first item.
func numbering(attributes []html.Attribute) int {
	for i := range attributes {
		if n, err := strconv.Atoi(attributes[i].Val); err == nil && attributes[i].Key == "start" {
			return n - 1
		}
	}
	return 0
}
