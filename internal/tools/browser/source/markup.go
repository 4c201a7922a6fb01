package source

import (
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// A reading is what an index needs of a page.
type reading struct {
	title   string
	address string // that it states; "" = none
	text    string // to search in: no markup
}

// titleRunes bounds a title.
const titleRunes = 300

// inline are the elements that end no word; all others do.
var inline = map[atom.Atom]bool{
	atom.A: true, atom.Abbr: true, atom.B: true, atom.Bdi: true, atom.Bdo: true, atom.Cite: true, atom.Code: true, atom.Data: true,
	atom.Dfn: true, atom.Em: true, atom.Font: true, atom.I: true, atom.Ins: true, atom.Del: true, atom.Kbd: true, atom.Mark: true, atom.Q: true,
	atom.S: true, atom.Samp: true, atom.Small: true, atom.Span: true, atom.Strong: true, atom.Sub: true, atom.Sup: true, atom.Time: true,
	atom.Tt: true, atom.U: true, atom.Var: true, atom.Wbr: true,
}

// silent are the elements of which nothing is read.
var silent = map[atom.Atom]bool{atom.Script: true, atom.Style: true, atom.Noscript: true, atom.Template: true, atom.Svg: true, atom.Math: true, atom.Iframe: true}

// A reader goes through the tokens of HTML once; it builds no tree.
type reader struct {
	reading
	out     strings.Builder // of the text
	heading strings.Builder // the first one
	head    strings.Builder // of the title
	in      atom.Atom       // title or h1 while one is read
	mute    atom.Atom       // the outermost silent element; 0 = none
	depth   int             // of elements of that name within it
}

// readHTML reads a page.
func readHTML(content string) reading {
	page := &reader{}
	tokens := html.NewTokenizer(strings.NewReader(content))
	for {
		switch tokens.Next() {
		case html.ErrorToken: // the end
			page.title = clip(line(first(page.head.String(), page.heading.String())), titleRunes)
			page.text = page.out.String()
			return page.reading
		case html.TextToken:
			page.words(tokens.Text())
		case html.StartTagToken:
			page.open(tokens)
		case html.SelfClosingTagToken:
			name, more := tokens.TagName()
			page.link(tokens, atom.Lookup(name), more)
		case html.EndTagToken:
			name, _ := tokens.TagName()
			page.close(atom.Lookup(name))
		}
	}
}

// first returns the first text that says something.
func first(all ...string) string {
	for _, one := range all {
		if strings.TrimSpace(one) != "" {
			return one
		}
	}
	return ""
}

// words takes text.
func (r *reader) words(raw []byte) {
	if r.mute != 0 {
		return
	}
	text := string(raw)
	switch r.in {
	case atom.Title:
		r.head.WriteString(text)
		return
	case atom.H1:
		r.heading.WriteString(text)
	}
	r.out.WriteString(text)
}

// open takes a start tag.
func (r *reader) open(tokens *html.Tokenizer) {
	raw, more := tokens.TagName()
	name := atom.Lookup(raw)
	switch {
	case r.mute != 0:
		if name == r.mute {
			r.depth++
		}
		return
	case silent[name]:
		r.mute, r.depth = name, 1
		return
	case name == atom.Title && r.head.Len() == 0, name == atom.H1 && r.heading.Len() == 0:
		r.in = name
	}
	if !inline[name] {
		r.out.WriteByte('\n')
	}
	r.link(tokens, name, more)
}

// close takes an end tag.
func (r *reader) close(name atom.Atom) {
	if r.mute != 0 {
		if name == r.mute {
			if r.depth--; r.depth == 0 {
				r.mute = 0
			}
		}
		return
	}
	if name == r.in {
		r.in = 0
	}
	if !inline[name] {
		r.out.WriteByte('\n')
	}
}

// link takes <link rel="canonical" href="…">.
func (r *reader) link(tokens *html.Tokenizer, name atom.Atom, more bool) {
	if name != atom.Link || r.address != "" || r.mute != 0 {
		return
	}
	rel, href := "", ""
	for more {
		var key, value []byte
		key, value, more = tokens.TagAttr()
		switch string(key) {
		case "rel":
			rel = string(value)
		case "href":
			href = string(value)
		}
	}
	// rel has several words; which of them says canonical makes no difference.
	for _, one := range strings.Fields(rel) {
		if strings.EqualFold(one, "canonical") {
			r.address = stated(href)
		}
	}
}

// stated returns an address that a page states, "" if none of the web is in it.
func stated(address string) string {
	parsed, err := url.Parse(strings.TrimSpace(address))
	if err != nil || parsed.Hostname() == "" || parsed.User != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return ""
	}
	parsed.Fragment, parsed.RawFragment = "", ""
	return parsed.String()
}

// readText reads text or Markdown. Its first lines may say "URL: …" and "Title: …"; they are no
// part of the text. Without a title it is the first heading of Markdown, if one comes first.
func readText(content string) reading {
	var out reading
	rest := content
	for out.address == "" || out.title == "" {
		// The head ends with the first line that is no part of it, or repeats one.
		head, below, _ := strings.Cut(rest, "\n")
		name, value, found := strings.Cut(head, ":")
		value = strings.TrimSpace(value)
		switch {
		case found && strings.EqualFold(name, "URL") && out.address == "" && stated(value) != "":
			out.address = stated(value)
		case found && strings.EqualFold(name, "Title") && out.title == "" && value != "":
			out.title = clip(line(value), titleRunes)
		default:
			found = false
		}
		if !found {
			break
		}
		rest = below
	}
	if len(rest) < len(content) {
		rest = strings.TrimLeft(rest, "\r\n")
	}
	out.text = rest
	if head, _, _ := strings.Cut(strings.TrimSpace(rest), "\n"); out.title == "" && strings.HasPrefix(head, "#") {
		out.title = clip(line(strings.Trim(head, "# \t\r")), titleRunes)
	}
	return out
}
