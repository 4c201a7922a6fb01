// Package score takes the answer out of a text that a model wrote, by two rules. Reference is what
// the published evaluation of gpt-oss does (gpt_oss.evals 0.0.9), bit for bit, its oddities
// included: scores that are to be compared with published ones need it. Strict takes the last place
// where the text commits itself, and nothing where it does not. Both are functions of the text.
package score

import (
	"regexp"
	"strings"
	"unicode"

	"ossian/internal/lazyregexp"
)

// The published patterns are Python's, whose classes are Unicode's where Go's are ASCII's. These
// stand for them: \s, \w and the letters that its IGNORECASE takes for i and s besides I and S.
const (
	space  = `[\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]`
	word   = `\pL\pN_`
	anyI   = `[iIİı]`
	anyS   = `[sSſ]`
	answer = `[aA][nN]` + anyS + `[wW][eE][rR]`
	option = `(?:[oO][pP][tT]` + anyI + `[oO][nN]|[cC][hH][oO]` + anyI + `[cC][eE])`
	letter = `([ABCDabcd])`
	mark   = `(?:\*{1,2}|_{1,2})` // what Markdown puts around words
	sep    = `[:\-–]`

	// Go has no look-around and no Unicode \b. What stands before and behind is matched instead: only
	// the first match counts, and only its letter.
	noWordBefore  = `(?:\A|[^` + word + `])`
	noWordBehind  = `(?:[^` + word + `]|\z)`
	noAlnumBefore = `(?:\A|[^A-Za-z0-9])`
	noAlnumBehind = `(?:[^A-Za-z0-9]|\z)`
)

// choices are the published patterns for the letter of an option, in the order of their priority:
// the first that matches anywhere wins.
var choices = []*lazyregexp.Regexp{
	// **Answer:** A
	lazyregexp.New(mark + answer + anyS + `?` + space + `*` + sep + `?` + mark + space + `*` + letter + noWordBehind),
	// Answer: A, at the beginning of a line; of the word that follows the first letter is enough
	lazyregexp.New(`(?m:^)` + space + `*` + mark + `?` + answer + `:?` + mark + `?` + space + `*:?` + space + `*` + mark + `?` + letter),
	// Answer: (C)
	lazyregexp.New(noWordBefore + answer + anyS + `?` + space + `*` + sep + `?` + space + `*\(` + space + `*` + letter + space + `*\)`),
	// Answers – D
	lazyregexp.New(noWordBefore + answer + anyS + `?(?:` + space + `+` + sep + `?|` + sep + `)` + space + `*` + letter + noWordBehind),
	// Option B
	lazyregexp.New(noWordBefore + option + `(?:` + space + `+` + sep + `?|` + sep + `)` + space + `*` + letter + noWordBehind),
	// \boxed{...A...}, and the same within \textbf and \text
	lazyregexp.New(`\\boxed\{[^}]*?([ABCD])[^}]*\}`),
	lazyregexp.New(`\\boxed\{[^}]*?\\textbf\{[^}]*?([ABCD])[^}]*\}[^}]*\}`),
	lazyregexp.New(`\\boxed\{[^}]*?\\text\{[^}]*?([ABCD])[^}]*\}[^}]*\}`),
	// (A) and [B]
	lazyregexp.New(noAlnumBefore + `[\(\[]` + space + `*([ABCD])` + space + `*[\)\]]` + noAlnumBehind),
	// *A*
	lazyregexp.New(noAlnumBefore + mark + `([ABCD])` + mark + noAlnumBehind),
	lazyregexp.New(`\\textbf\{[^}]*?([ABCD])[^}]*\}`),
	// **D) ...**
	lazyregexp.New(noAlnumBefore + mark + space + `*([ABCD])\)[^*_\n]+?` + mark + noAlnumBehind),
	// a line that begins with the letter
	lazyregexp.New(`(?m:^)` + space + `*` + mark + `?([ABCD])`),
}

// ReferenceChoice is the letter that the published rules take from an answer to a question with
// options: A to D by the first of the patterns that matches, else the first character of the text,
// whatever it is; "" for an empty text.
func ReferenceChoice(text string) string {
	for _, pattern := range choices {
		if found := pattern.FindStringSubmatch(text); found != nil {
			return strings.ToUpper(found[1])
		}
	}
	for _, char := range strings.TrimPrefix(text, "**") {
		return string(char)
	}
	return ""
}

var (
	boxes  = lazyregexp.New(`(?s)boxed\{(.*?)\}|framebox\{(.*?)\}`)
	digits = lazyregexp.New(`\p{Nd}+`)
)

// ReferenceInteger is the integer that the published rules take from an answer to a problem of
// AIME, in plain digits; "" where they find none. It is what stands behind the last comma of the
// last box that is not empty, else the last digits of the text, read as Python's int reads them.
func ReferenceInteger(text string) string {
	found := boxes.FindAllStringSubmatch(text, -1)
	for i := len(found) - 1; i >= 0; i-- {
		if inside := found[i][1] + found[i][2]; inside != "" { // one of them is there
			return Integer(inside[strings.LastIndexByte(inside, ',')+1:])
		}
	}
	last := ""
	for _, run := range digits.FindAllString(text, -1) {
		last = run
	}
	return Integer(last)
}

// mostDigits is how many digits Python's int takes of a text.
const mostDigits = 4300

// Integer is a whole number as Python's int reads it, in plain digits, "" where it does not: white
// space around, a sign, digits of any script, single underscores between them.
func Integer(text string) string {
	text = strings.TrimFunc(text, isPythonSpace)
	negative := strings.HasPrefix(text, "-")
	if negative || strings.HasPrefix(text, "+") {
		text = text[1:]
	}
	var plain strings.Builder
	count, underscore := 0, true // one may not come first, nor behind another
	for _, char := range text {
		if char == '_' && !underscore {
			underscore = true
			continue
		}
		value := decimal(char)
		if value < 0 {
			return ""
		}
		underscore = false
		if count++; count > mostDigits {
			return ""
		}
		plain.WriteByte(byte('0' + value))
	}
	if underscore { // at the end, or nothing at all
		return ""
	}
	return signed(negative, plain.String())
}

// signed writes an integer without leading zeros.
func signed(negative bool, digits string) string {
	digits = strings.TrimLeft(digits, "0")
	switch {
	case digits == "":
		return "0"
	case negative:
		return "-" + digits
	}
	return digits
}

// decimal is the value of a digit of any script, -1 for other characters. Unicode keeps the ten
// digits of a script together, in order, and begins a range of the class with a zero.
func decimal(char rune) int {
	if char < 0x80 {
		if char >= '0' && char <= '9' {
			return int(char - '0')
		}
		return -1
	}
	for _, span := range unicode.Nd.R16 {
		if rune(span.Lo) <= char && char <= rune(span.Hi) {
			return int(char-rune(span.Lo)) % 10
		}
	}
	for _, span := range unicode.Nd.R32 {
		if rune(span.Lo) <= char && char <= rune(span.Hi) {
			return int(char-rune(span.Lo)) % 10
		}
	}
	return -1
}

// spaces is what Python's \s and strip take for white space.
var spaces = lazyregexp.New(`^` + space + `$`)

func isPythonSpace(char rune) bool { return spaces.MatchString(string(char)) }

// LeadingDigits is what the published rules make of an answer that a data file has as text: the
// digits that it begins with; "" where there are none.
func LeadingDigits(answer string) string {
	end := strings.IndexFunc(answer, func(char rune) bool { return decimal(char) < 0 })
	if end < 0 {
		end = len(answer)
	}
	return Integer(answer[:end])
}

// Last is the first group of the last match of pattern in text, all of that where it has none, and
// "" where there is no match.
func Last(pattern *regexp.Regexp, text string) string {
	found := pattern.FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		return ""
	}
	last := found[len(found)-1]
	if len(last) > 1 {
		return last[1]
	}
	return last[0]
}
