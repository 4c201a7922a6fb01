package page

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// skipped are elements that show nothing, or nothing that is text.
var skipped = map[string]bool{
	"head": true, "script": true, "style": true, "math": true, "template": true, "iframe": true,
	"noembed": true, "noframes": true, "object": true, "canvas": true,
}

// parse returns the tree of a document; nil where its elements are nested deeper than 512, so that
// those who walk the tree need not count.
func parse(document string) *html.Node {
	root, err := html.ParseWithOptions(strings.NewReader(document), html.ParseOptionEnableScripting(false))
	if err != nil {
		return nil
	}
	return root
}

// tokens is the text of a document without its structure, one line for each piece.
func tokens(document string) string {
	var out strings.Builder
	hidden := ""
	for lexer := html.NewTokenizer(strings.NewReader(document)); ; {
		switch lexer.Next() {
		case html.ErrorToken:
			return out.String()
		case html.StartTagToken:
			if name, _ := lexer.TagName(); skipped[string(name)] {
				hidden = string(name)
			}
		case html.EndTagToken:
			if name, _ := lexer.TagName(); string(name) == hidden {
				hidden = ""
				// What scripts and styles hold is no text, nor is anything beyond the bound.
			}
		case html.TextToken:
			if text := OneLine(string(lexer.Text())); text != "" && hidden == "" && out.Len() < maxText {
				out.WriteString(text + "\n")
			}
		}
	}
}

// An event is text, or a tag, in document order.
type event struct {
	text       string
	begin, end string // the name of an element; none and no text: what cuts text as a tag does
	attributes []html.Attribute
}

// A walker reads a tree as events. It numbers links and images.
type walker struct {
	events []event
	run    strings.Builder // text behind the events
	base   *url.URL
	title  string // of the first title
	links  []string
	ids    map[string]int // of links
	images int
	bytes  int  // of text so far
	cut    bool // there is more than can be kept
}

// write gives a writer what was read. Words that only tags part, such as cells, get a space between
// them.
func (w *walker) write(out *writer) {
	w.endRun()
	for i := range w.events {
		switch piece := &w.events[i]; {
		case piece.begin != "":
			out.begin(piece.begin, piece.attributes)
		case piece.end != "":
			out.end(piece.end)
		case piece.text != "":
			if last, _ := utf8.DecodeLastRuneInString(piece.text); isWord(last) && w.wordBehind(i) {
				piece.text += " "
			}
			out.text(piece.text)
		}
		if out.out.Len() > maxText {
			w.cut = true
			return
		}
	}
}

// wordBehind reports whether the next text behind an event begins with a word.
func (w *walker) wordBehind(i int) bool {
	for i++; i < len(w.events); i++ {
		if text := w.events[i].text; text != "" {
			first, _ := utf8.DecodeRuneInString(text)
			return isWord(first)
		}
	}
	return false
}

// text adds text to what was read; what no tag parts is one text.
func (w *walker) text(text string) {
	w.bytes += len(text)
	w.run.WriteString(text)
}

// add adds a tag to what was read.
func (w *walker) add(e event) {
	w.endRun()
	w.events = append(w.events, e)
}

func (w *walker) endRun() {
	if w.run.Len() > 0 {
		w.events = append(w.events, event{text: w.run.String()})
		w.run.Reset()
	}
}

func (w *walker) children(n *html.Node) {
	for child := n.FirstChild; child != nil && !w.cut; child = child.NextSibling {
		w.node(child)
		w.cut = w.bytes > maxText
	}
}

func (w *walker) node(n *html.Node) {
	switch n.Type {
	case html.TextNode:
		w.text(clean(n.Data))
	case html.CommentNode:
		w.add(event{})
	case html.ElementNode:
		w.element(n)
	default:
		w.children(n)
	}
}

// element gives what an element shows: a link and an image as text of their own, others as what is
// in them with their tags.
func (w *walker) element(node *html.Node) {
	switch {
	case node.Data == "head":
		w.findTitle(node)
	case node.Data == "title" && node.Namespace == "":
		w.findTitle(node.Parent)
		return
	case node.Data == "img" || node.Data == "image":
		w.text(w.image(node))
		return
	case node.Data == "a":
		if text, ok := w.anchor(node); ok {
			w.text(text)
			return
		}
	case node.Data == "sup" || node.Data == "sub":
		if text, ok := script(node); ok {
			w.text(text)
			return
		}
	}
	if skipped[node.Data] {
		w.add(event{})
		return
	}
	w.add(event{begin: node.Data, attributes: node.Attr})
	w.children(node)
	w.add(event{end: node.Data})
}

// findTitle remembers the first title among the children of a node.
func (w *walker) findTitle(n *html.Node) {
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		if child.Type == html.ElementNode && child.Data == "title" && child.FirstChild != nil && w.title == "" {
			w.title = child.FirstChild.Data
		}
	}
}

// image is what stands for an image.
func (w *walker) image(n *html.Node) string {
	alt, ok := attribute(n, "alt")
	if !ok {
		alt, _ = attribute(n, "title")
	}
	text := "[Image " + strconv.Itoa(w.images)
	w.images++
	if alt = OneLine(alt); alt != "" {
		text += ": " + alt
	}
	return text + "]"
}

// anchor is what stands for a link; not ok = its content does.
func (w *walker) anchor(n *html.Node) (text string, ok bool) {
	href, ok := attribute(n, "href")
	if !ok {
		return "", false
	}
	words := strings.ReplaceAll(collapse(clean(strings.Join(pieces(n, nil), " "))), "†", "‡")
	if strings.TrimSpace(words) == "" {
		return "", false // often an image
	}
	if strings.HasPrefix(href, "#") {
		return words, true
	}
	address, host := w.resolve(href)
	if host == "" {
		return "", false
	}
	id, known := w.ids[address]
	if !known {
		id = len(w.links)
		w.ids[address] = id
		w.links = append(w.links, address)
	}
	if host == w.base.Host {
		host = ""
	}
	return mark(id, words, strings.ReplaceAll(clean(host), "†", "‡")), true
}

// resolve returns the address that a link leads to, and its host as the page has it; no host = no
// page of the web.
func (w *walker) resolve(href string) (address, host string) {
	link, err := url.Parse(escaped(href))
	if err != nil {
		return "", ""
	}
	link = w.base.ResolveReference(link)
	if (link.Scheme != "http" && link.Scheme != "https") || link.Host == "" {
		return "", ""
	}
	host = link.Host
	// Papers as HTML, which the backends can show; of the original only a summary is.
	if host == "arxiv.org" || host == "www.arxiv.org" {
		link.Host = "ar5iv.org"
	}
	return link.String(), host
}

// escaped is an address as browsers read it: white space around it and line breaks in it do not
// count, and a percent sign may stand for itself.
func escaped(href string) string {
	href = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' {
			return -1
		}
		return r
	}, strings.TrimFunc(href, func(r rune) bool { return r <= ' ' }))
	var out strings.Builder
	for i := range len(href) {
		out.WriteByte(href[i])
		if _, err := url.PathUnescape(href[i:min(i+3, len(href))]); err != nil && href[i] == '%' {
			out.WriteString("25")
		}
	}
	return out.String()
}

// pieces appends the text nodes below a node.
func pieces(n *html.Node, all []string) []string {
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		switch {
		case child.Type == html.TextNode:
			all = append(all, child.Data)
		case child.Type == html.ElementNode && !skipped[child.Data]:
			all = pieces(child, all)
		}
	}
	return all
}

// script is what stands for a superscript or a subscript of one word: ^{2}. A link to a place on the
// same page counts as its text.
func script(node *html.Node) (text string, ok bool) {
	for child := node.FirstChild; child != nil; child = child.NextSibling {
		href, _ := attribute(child, "href")
		switch {
		case child.Type == html.TextNode:
			text += child.Data
		case child.Type == html.ElementNode && child.Data == "a" && strings.HasPrefix(href, "#"):
			text += collapse(strings.Join(pieces(child, nil), " "))
		default:
			return "", false
		}
	}
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r != '-' && !isWord(r) }) {
		return "", false
	}
	if node.Data == "sup" {
		return "^{" + text + "}", true
	}
	return "_{" + text + "}", true
}

func attribute(n *html.Node, name string) (value string, ok bool) {
	for i := range n.Attr {
		if n.Attr[i].Key == name && n.Attr[i].Namespace == "" {
			return n.Attr[i].Val, true
		}
	}
	return "", false
}
