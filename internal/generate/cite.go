package generate

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"ossian/internal/tools"
)

// Citations of displays of the browser in text (api.md 3.7): 【C†Lx】, 【C†Lx-Ly】, and with
// anything behind the dagger, where C is the cursor of the display. Text is held back from its
// bracket on, as long as it may be one: then the mark and what is said of it come together.

// maxCitation is how many characters a citation may have.
const maxCitation = 64

const (
	citeOpen   = "【"
	citeClose  = "】"
	citeDagger = "†"
)

// A citer finds the citations of one answer. All its methods may be called of nil, which is an
// answer without any.
type citer struct {
	find  func(cursor, line int) (tools.Source, bool)
	links bool
	held  []Delta // text from a bracket on
	text  string  // of held
	count int     // code points of the message before held
	items bool    // each message has indices of its own
}

// push takes text of a message.
func (c *citer) push(answer *Answer, next Delta) {
	if c.text == "" && !strings.Contains(next.Text, citeOpen) { // the usual case
		c.count += utf8.RuneCountInString(next.Text)
		answer.Deltas = append(answer.Deltas, next)
		return
	}
	c.held = append(c.held, next)
	c.text += next.Text
	for c.text != "" {
		before := strings.Index(c.text, citeOpen)
		if before < 0 {
			before = len(c.text)
		}
		if c.release(answer, before); c.text == "" {
			return
		}
		switch end, open := citation(c.text); {
		case end > 0:
			c.cite(answer, end)
		case open:
			return
		default: // a bracket like any other
			c.release(answer, len(citeOpen))
		}
	}
}

// citation looks at text that begins with a bracket, and returns where the citation ends, or
// whether it may become one.
func citation(text string) (end int, open bool) {
	text = text[:min(len(text), maxCitation*utf8.UTFMax)]
	rest := text[len(citeOpen):]
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	behind := rest[digits:]
	if digits > 9 || (behind != "" && (digits == 0 || !strings.HasPrefix(behind, citeDagger))) {
		return 0, false
	}
	if at := strings.Index(text, citeClose); at >= 0 {
		end = at + len(citeClose)
		text = text[:end]
	}
	// Another bracket, a line break, or more characters than a citation has: the text is the
	// answer's own.
	bad := utf8.RuneCountInString(text) > maxCitation || strings.Contains(text[len(citeOpen):], citeOpen) || strings.Contains(text, "\n")
	switch {
	case bad:
		return 0, false
	case end == 0:
		return 0, utf8.RuneCountInString(text) < maxCitation
	}
	return end, false
}

// cite gives on the citation that ends at end, and says what it cites where that is known.
func (c *citer) cite(answer *Answer, end int) {
	mark := strings.TrimSuffix(strings.TrimPrefix(c.text[:end], citeOpen), citeClose)
	number, place, _ := strings.Cut(mark, citeDagger)
	cursor, err := strconv.Atoi(number)
	source, ok := c.find(cursor, citedLine(place))
	if err != nil || !ok {
		c.release(answer, end)
		return
	}
	start := c.count
	if c.links {
		c.replace(end, link(source))
		end = len(link(source))
	}
	c.release(answer, end)
	answer.Deltas = append(answer.Deltas, Delta{Field: Cited, Citation: &Citation{Start: start, End: c.count, Source: source}})
}

// citedLine returns the first line that a citation names, -1 = none.
func citedLine(place string) int {
	number, ok := strings.CutPrefix(place, "L")
	digits := len(number) - len(strings.TrimLeft(number, "0123456789"))
	line, err := strconv.Atoi(number[:digits])
	if !ok || err != nil {
		return -1
	}
	return line
}

// link is what stands for a citation where they become links.
func link(source tools.Source) string {
	name := source.URL
	if parsed, err := url.Parse(source.URL); err == nil && parsed.Host != "" {
		name = strings.TrimPrefix(parsed.Hostname(), "www.")
	}
	return " ([" + name + "](" + strings.NewReplacer("(", "%28", ")", "%29", " ", "%20").Replace(source.URL) + ")) "
}

// replace puts text in the place of the first end bytes that are held. Log probabilities stay
// with the tokens that end there.
func (c *citer) replace(end int, text string) {
	c.text = text + c.text[end:]
	put := Delta{Field: Content, Text: text}
	for end > 0 {
		first := &c.held[0]
		if len(first.Text) > end {
			first.Text = first.Text[end:]
			break
		}
		end -= len(first.Text)
		put.Logprobs = append(put.Logprobs, first.Logprobs...)
		c.held = c.held[1:]
	}
	c.held = append([]Delta{put}, c.held...)
}

// release gives on the first bytes that are held.
func (c *citer) release(answer *Answer, bytes int) {
	c.text = c.text[bytes:]
	for bytes > 0 {
		first := &c.held[0]
		part := *first
		if len(first.Text) > bytes { // the token ends in what stays
			part.Text, part.Logprobs = part.Text[:bytes], nil
			first.Text = first.Text[bytes:]
		} else {
			c.held = c.held[1:]
		}
		bytes -= len(part.Text)
		c.count += utf8.RuneCountInString(part.Text)
		answer.Deltas = append(answer.Deltas, part)
	}
	if len(c.held) == 0 {
		c.held = nil
	}
}

// flush gives on what is held: nothing more comes that could complete it.
func (c *citer) flush(a *Answer) {
	if c != nil {
		c.release(a, len(c.text))
	}
}

// end ends a message.
func (c *citer) end(a *Answer) {
	if c == nil {
		return
	}
	c.flush(a)
	if c.items {
		c.count = 0
	}
}
