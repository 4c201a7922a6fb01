// Package page turns documents into the pages that a model reads: text with numbered links, as
// gpt-oss was trained to browse (tools.md 3.4). Who uses it knows nothing of HTML.
//
// The published tool of gpt-oss says what pages look like, where lines break and what they begin
// with: testdata/reference.json is what it prints of testdata/pages.html. What is different on
// purpose is in testdata/pages.golden, with the reason for each.
package page

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
)

// maxText is how much text of a page is kept, in bytes. A model reads some 4 KiB at a time.
const maxText = 1 << 20

// A Page is a document as text.
type Page struct {
	Title string   // one line; "" = there is none
	Text  string   // valid UTF-8, no more than 1 MiB
	Links []string // by the number that the text has for them: 【0†text】
}

// FromHTML reads a document of an address, "" for one that was made here. The title, if it is not
// empty, is better than the document's own. Whatever the document is, there is a page.
func FromHTML(document, address, title string) Page {
	base, err := url.Parse(address)
	if err != nil {
		base = &url.URL{}
	}
	root := parse(document)
	if root == nil {
		return FromText(tokens(document), address, cmp.Or(title, base.Host))
	}
	walk := walker{base: base, ids: map[string]int{}}
	walk.children(root)
	out := &writer{fresh: true}
	walk.write(out)
	return Page{
		Title: cmp.Or(OneLine(title), OneLine(walk.title), OneLine(base.Host)),
		Text:  top(address) + limited(paragraphs(out.out.String()), walk.cut),
		Links: walk.links,
	}
}

// FromText is the page of a document that is text, or whose source is shown.
func FromText(text, address, title string) Page {
	text = strings.TrimRightFunc(strings.ReplaceAll(clean(text), "\r\n", "\n"), isSpace)
	return Page{Title: OneLine(title), Text: top(address) + limited(text, false)}
}

// top is what every page begins with.
func top(address string) string { return "\nURL: " + OneLine(address) + "\n" }

// limited cuts a text behind the last whole line that is kept, and says so; more = it was cut before.
func limited(text string, more bool) string {
	if len(text) > maxText {
		cut := strings.LastIndexByte(text[:maxText], '\n')
		if cut < 0 {
			cut = maxText
		}
		text, more = strings.ToValidUTF8(text[:cut], ""), true
	}
	if more {
		text += "\n\n[The page goes on; the rest of it is not shown.]"
	}
	return text
}

// marks are the characters that links are marked with, and what stands for them, so that no page
// makes a link of its own; some without width are dropped.
var marks = strings.NewReplacer("【", "〖", "】", "〗", "◼", "◾", "\u200b", "")

// clean is text as pages have it: without marks, invalid UTF-8 and control characters.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if (r < ' ' && !isSpace(r)) || r == 0x7f {
			return '\ufffd'
		}
		return r
	}, marks.Replace(strings.ToValidUTF8(text, "\ufffd")))
}

// OneLine is a title or a name as displays have it.
func OneLine(text string) string {
	return strings.TrimFunc(collapse(clean(text)), isSpace)
}

// paragraphs leaves one empty line of several, and none at the ends.
func paragraphs(text string) string {
	var out strings.Builder
	empty := false
	for line := range strings.SplitSeq(strings.TrimFunc(text, isSpace), "\n") {
		if strings.TrimFunc(line, isSpace) == "" {
			empty = true
			continue
		}
		if empty {
			out.WriteByte('\n')
		}
		out.WriteString(line)
		out.WriteByte('\n')
		empty = false
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// WithoutLinks leaves of every link in the text its words: 【3†words†host】 is words. Line breaks
// within what is dropped stay, so that lines keep their numbers.
func WithoutLinks(text string) string {
	var out strings.Builder
	for {
		before, behind, found := strings.Cut(text, "【")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		link, rest, _ := strings.Cut(behind, "】")
		id, words, isLink := strings.Cut(link, "†")
		// A bracket without a dagger is text of the page.
		if !isLink {
			out.WriteString("【")
			text = behind
			continue
		}
		words, host, _ := strings.Cut(words, "†")
		out.WriteString(words)
		out.WriteString(strings.Repeat("\n", strings.Count(id, "\n")+strings.Count(host, "\n")))
		text = rest
	}
}

// mark is a link in a text.
func mark(id int, words, host string) string {
	if host != "" {
		host = "†" + host
	}
	return "【" + strconv.Itoa(id) + "†" + words + host + "】"
}
