package statement

// Prose: lines joined to paragraphs, paragraphs split into sentences. Tables, result blocks
// and commands are no prose.

import (
	"strings"
	"unicode"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

// A sentence with its figures and where it begins.
type sentence struct {
	text       string
	line       int
	quantities []quantity
}

// A paragraph is the sentences of lines that belong together.
type paragraph struct {
	line      int
	list      bool // one item of a list
	sentences []sentence
}

// maxLength is how long a line or a paragraph may be that is read as prose.
const maxLength = 4 << 10

var (
	listStart  = lazyregexp.New(`^\s*(?:[-*•+]\s+|[0-9]{1,2}[.)]\s+)`)
	ownLine    = lazyregexp.New(`^\s*(?:#{1,6}\s|-{3,}|={3,}|\*{3,}|<|\$ |!\[|\[[0-9^])`)
	quoteStart = lazyregexp.New(`^(?:\s*>)+\s?`)
	tagOnly    = lazyregexp.New(`(?i)<t[dhr][ >]|</table`)
	keyedLine  = lazyregexp.New(`^\s*[A-Za-z][^:=|]{1,60}\s*[:=]\s*[-+0-9.,]+\s*[^.]{0,24}$`)
)

// paragraphsOf are the paragraphs of a document.
func paragraphsOf(doc *document.Document) []paragraph {
	skip := doc.BlockLines()
	for _, table := range doc.Tables {
		for line := table.Line; line <= table.End(); line++ {
			skip[line] = true
		}
	}
	var out []paragraph
	var text strings.Builder
	start, list := 0, false
	flush := func() {
		if strings.ContainsAny(text.String(), "0123456789") {
			out = append(out, newParagraph(text.String(), start, list))
		}
		text.Reset()
	}
	for i, raw := range doc.Lines {
		line := quoteStart.ReplaceAllString(raw, "")
		if skip[i+1] || (doc.Fenced[i] && !strings.ContainsAny(line, "0123456789")) || strings.TrimSpace(line) == "" || len(line) > maxLength || strings.Count(line, "|") > 1 || tagOnly.MatchString(line) {
			flush()
			continue
		}
		// Lines of code, headings, items and keys with values stand for themselves.
		alone := doc.Fenced[i] || ownLine.MatchString(line) || keyedLine.MatchString(line)
		if alone || listStart.MatchString(line) || text.Len()+len(line) > maxLength {
			flush()
		}
		if text.Len() == 0 {
			start, list = i+1, listStart.MatchString(line)
			line = listStart.ReplaceAllString(line, "")
		} else {
			text.WriteString("\n")
		}
		text.WriteString(strings.TrimSpace(line))
		if alone {
			flush()
		}
	}
	flush()
	return out
}

// abbreviated are words before a point that ends no sentence.
var abbreviated = lazyregexp.New(`(?i)(?:\b(?:i\.e|e\.g|vs|approx|ca|etc|cf|fig|no|resp|bzw|z\.B|d\.h|max|min|avg|incl)|^\s*[0-9]{1,2})$`)

// newParagraph splits a text into sentences; line breaks tell the line of each.
func newParagraph(text string, line int, list bool) paragraph {
	out := paragraph{line: line, list: list}
	begin := 0
	add := func(end int) {
		plain := document.Plain(text[begin:end])
		if plain != "" {
			at := line + strings.Count(text[:begin], "\n") + leadingBreaks(text[begin:end])
			out.sentences = append(out.sentences, sentence{plain, at, quantitiesIn(plain)})
		}
		begin = end
	}
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '.', '!', '?', ';':
			rest := text[at+1:]
			if rest == "" || (rest[0] != ' ' && rest[0] != '\n') || (text[at] == '.' && abbreviated.MatchString(text[begin:at])) {
				continue
			}
			// A small letter goes on with the same sentence, but for a semicolon.
			next := []rune(strings.TrimLeft(rest, " \n"))
			if text[at] == ';' || len(next) == 0 || !unicode.IsLower(next[0]) {
				add(at + 1)
			}
		}
	}
	add(len(text))
	return out
}

// leadingBreaks are the line breaks before the first word of a text.
func leadingBreaks(text string) int {
	return strings.Count(text[:len(text)-len(strings.TrimLeft(text, " \n"))], "\n")
}

// joinedBySemicolon are sentences with those that a semicolon parts as one: they are about one
// run. Where that gives more than two, they are a list.
func joinedBySemicolon(all []sentence) []sentence {
	var out []sentence
	for i := 0; i < len(all); i++ {
		list := i > 0 && strings.HasSuffix(all[i-1].text, ";")
		if i+1 < len(all) && strings.HasSuffix(all[i].text, ";") && !list && !strings.HasSuffix(all[i+1].text, ";") {
			text := all[i].text + " " + all[i+1].text
			out = append(out, sentence{text, all[i].line, quantitiesIn(text)})
			i++
			continue
		}
		out = append(out, all[i])
	}
	return out
}
