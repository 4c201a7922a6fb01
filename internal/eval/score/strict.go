package score

import (
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lazyregexp"
)

// inBox is what may stand in a box beside the letter: LaTeX for text and bold, and what a letter of
// an option is written with.
const inBox = `(?:\s|\*|\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|boldsymbol)\s*\{|[(\[{])*([A-D])[)\]}\s.*]*`

// ends is what stands behind a letter that is a commitment: the end, a mark, or why. "Option A is
// wrong" names an option and does not choose it.
const ends = `(?:[*_)\]}]|\$|\\\)|\\\])*(?:\s*$|\s*[.,;:!?)(\n—–]|\s+-\s|\s+(?:because|since|as)\b)`

// The places where an answer with options commits itself, anywhere in the text; each has a letter.
var commitments = []*lazyregexp.Regexp{
	// the answer is X, Answer: X, with Markdown and brackets around the letter
	lazyregexp.New(`(?i:(?:\b|_)answers?)[*_]*\s*(?i:(?:is|would be|must be|should be)\b)?\s*[:\-–]?[*_:]*\s*(?i:(?:option|choice)\b)?\s*(?:[*_(\[{]|\$|\\\(|\\\[|\\(?:text|textbf|mathrm|mathbf)\{)*([A-D])` + ends),
	// option X, the correct option is X
	lazyregexp.New(`(?i:(?:\b|_)(?:option|choice))[*_]*\s*(?i:(?:is|would be|must be|should be)\b)?\s*[:\-–]?[*_:]*\s*(?:[*_(\[{]|\$|\\\(|\\(?:text|textbf|mathrm|mathbf)\{)*([A-D])` + ends),
}

// Of the last line that is not empty: (X) anywhere in it, or a line that is the letter and nothing
// else but marks. What follows (X) does not matter: "(B) carbon".
var (
	bracketed = lazyregexp.New(`(?:^|[^A-Za-z0-9])\(\s*([A-D])\s*\)`)
	lone      = lazyregexp.New(`^[\s*_>#$(\[]*([A-D])[)\].:*_$\s]*$`)
	headed    = lazyregexp.New(`^[\s*_>#]*([A-D])\s*[).:]\s*\S`) // "B) carbon", an option written out
)

// StrictChoice is the letter of the last place where a text chooses an option, A to D: a box, "the
// answer is X", "option X" anywhere; (X), or X alone, on the last line that is not empty. "" where
// it chooses none.
func StrictChoice(text string) string {
	chosen, at := "", -1
	// The last place counts; where two rules read the same place, the later one does.
	take := func(letter string, from int) {
		if from >= at {
			chosen, at = letter, from
		}
	}
	for _, box := range boxed(text) {
		if found := boxLetter.FindStringSubmatchIndex(box.inside); found != nil && !otherLetter.MatchString(box.inside[found[3]:]) {
			take(box.inside[found[2]:found[3]], box.at)
		}
	}
	for _, pattern := range commitments {
		for _, found := range pattern.FindAllStringSubmatchIndex(text, -1) {
			take(text[found[2]:found[3]], found[2])
		}
	}
	line, from := lastLine(text)
	if all := bracketed.FindAllStringSubmatchIndex(line, -1); len(all) > 0 {
		last := all[len(all)-1]
		take(line[last[2]:last[3]], from+last[2])
	}
	for _, pattern := range []*lazyregexp.Regexp{lone, headed} {
		if found := pattern.FindStringSubmatchIndex(line); found != nil {
			take(line[found[2]:found[3]], from+found[2])
		}
	}
	return chosen
}

// A box with two letters chooses none.
var (
	boxLetter   = lazyregexp.New(`^` + inBox + `(?:$|[^A-Za-z0-9])`)
	otherLetter = lazyregexp.New(`(?:^|[^A-Za-z0-9])[A-D](?:$|[^A-Za-z0-9])`)
)

// lastLine is the last line of a text that is not empty, and where it begins.
func lastLine(text string) (line string, from int) {
	text = strings.TrimRight(text, " \t\r\n")
	from = strings.LastIndexByte(text, '\n') + 1
	return text[from:], from
}

// A box is a \boxed{...} whose braces are balanced.
type box struct {
	inside string
	at     int // of its first byte in the text
}

// boxed returns the boxes of a text that are not empty, by where they begin, those within others
// too. A brace behind a backslash is text. It takes one pass: models that loop open boxes without end.
func boxed(text string) (all []box) {
	const begin = `\boxed{`
	const plain = -1
	var open []int // braces: where the inside of a box begins, or plain
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if strings.HasPrefix(text[i:], begin) {
				i += len(begin) - 1
				open = append(open, i+1)
			} else if !strings.HasPrefix(text[i+1:], begin) {
				i++
			}
		case '{':
			open = append(open, plain)
		case '}':
			if len(open) == 0 {
				continue
			}
			from := open[len(open)-1]
			open = open[:len(open)-1]
			if from != plain && strings.TrimSpace(text[from:i]) != "" {
				all = append(all, box{text[from:i], from})
			}
		}
	}
	slices.SortFunc(all, func(a, b box) int { return a.at - b.at })
	return all
}

// mostInside is how many bytes a box with an integer has.
const mostInside = 2 * mostDigits

// Largest is the greatest answer of a problem of AIME.
const Largest = 999

var (
	wrappers  = lazyregexp.New(`\\(?:text|textbf|textit|textrm|textnormal|mathrm|mathbf|mathit|boldsymbol)\s*\{([^{}]*)\}`)
	degrees   = lazyregexp.New(`\^\s*(?:\{\s*\\circ\s*\}|\\circ)|\\degree|°`)
	spacing   = lazyregexp.New(`\\[,;:! ]|\\q?quad\b|~|\s|\$`)
	thousands = lazyregexp.New(`^([+-]?\d{1,3})((?:(?:,|\{,\})\d{3})+)$`)
	whole     = lazyregexp.New(`^[+-]?\d+$`)
)

// StrictInteger is the integer in the last balanced \boxed{...} of a text that is not empty, in
// plain digits, without what LaTeX puts around and between them; "" where there is none, or one
// outside low to high. Where high < low any integer is taken.
func StrictInteger(text string, low, high int64) string {
	all := boxed(text)
	if len(all) == 0 {
		return ""
	}
	inside := all[len(all)-1].inside
	if len(inside) > mostInside {
		return ""
	}
	// Wrappers stand within each other, as in \text{\textbf{7}}.
	for wrappers.MatchString(inside) {
		inside = wrappers.ReplaceAllString(inside, "$1")
	}
	inside = spacing.ReplaceAllString(degrees.ReplaceAllString(inside, ""), "")
	if found := thousands.FindStringSubmatch(inside); found != nil {
		inside = found[1] + strings.NewReplacer(",", "", "{", "", "}", "").Replace(found[2])
	}
	if !whole.MatchString(inside) || len(inside) > mostDigits {
		return ""
	}
	number := signed(inside[0] == '-', strings.TrimLeft(inside, "+-"))
	if high >= low && !within(number, low, high) {
		return ""
	}
	return number
}

// within reports whether an integer of any length is low to high.
func within(number string, low, high int64) bool {
	value, err := strconv.ParseInt(number, 10, 64)
	return err == nil && low <= value && value <= high
}

// Exact is a text as exact answers are compared: without white space around it.
func Exact(text string) string { return strings.TrimSpace(text) }
