package grammar

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// A pattern says what a regular expression is for.
type pattern struct {
	search bool   // it may match anywhere in the text, as in JSON Schema
	quoted bool   // the text is spelled as inside a JSON string
	count  int    // the automaton may have counts for repetitions so large; 0 = none
	where  string // in errors
}

// compilePattern compiles a regular expression in the syntax that ECMA-262, Python and
// Go share; \d, \s and \w mean ASCII. What takes more than linear time to match is
// refused: look-around and back-references.
func compilePattern(text string, p pattern, b *budget) (*automaton, error) {
	body, err := parsePattern(text)
	if err != nil {
		err.Where = p.where
		return nil, err
	}
	if p.search {
		body = search(body)
	}
	if p.count > 0 {
		return countable(body, p.quoted, p.count, b)
	}
	return simple(body, p.quoted, b)
}

// search matches the texts that hold a match of e. Where e begins or ends at an anchor
// there is nothing else, and a repetition without one may as well be as short as can be.
func search(e *expr) *expr {
	if e.op == opAlt {
		sub := make([]*expr, len(e.sub))
		for i, part := range e.sub {
			sub[i] = search(part)
		}
		return alt(sub...)
	}
	// Where no anchor holds the match, any text may stand before or behind.
	parts := []*expr{e}
	if e.op == opCat {
		parts = slices.Clone(e.sub)
	}
	rest := star(class(anyRune...))
	before, after := rest, rest
	for len(parts) > 0 && parts[0].op == opBegin {
		before, parts = empty, parts[1:]
	}
	for len(parts) > 0 && parts[len(parts)-1].op == opEnd {
		after, parts = empty, parts[:len(parts)-1]
	}
	// a{2,5} with any text around it allows the same as a{2}.
	shortest := func(i int) {
		if edge := parts[i]; edge.op == opRepeat {
			parts[i] = repeat(edge.sub[0], edge.min, edge.min)
		}
	}
	if len(parts) > 0 && before == rest {
		shortest(0)
	}
	if len(parts) > 0 && after == rest {
		shortest(len(parts) - 1)
	}
	return cat(before, cat(parts...), after)
}

// parsePattern reads a regular expression. It leaves Where empty in its errors.
func parsePattern(text string) (*expr, *Error) {
	if len(text) > maxPattern {
		return nil, invalid("", "regular expression of %d bytes, at most %d are accepted", len(text), maxPattern)
	}
	if !utf8.ValidString(text) {
		return nil, invalid("", "regular expression %.60q is not UTF-8", text)
	}
	goText, err := translate(text)
	if err != nil {
		return nil, err
	}
	re, perr := syntax.Parse(goText, syntax.Perl)
	// The parser's own limit is ours (maxRepeat); its message says nothing of what to do.
	if bad, ok := errors.AsType[*syntax.Error](perr); ok && bad.Code == syntax.ErrInvalidRepeatSize {
		lo, hi := 0, 0
		if n, _ := fmt.Sscanf(bad.Expr, "{%d,%d}", &lo, &hi); n == 2 && lo > hi {
			return nil, invalid("", "regular expression %.60q: %s has the larger number first", text, bad.Expr)
		}
		return nil, unsupported("", "regular expression %.60q: %s, with the repetitions around it, repeats more than %d times, the most of a pattern: use a smaller bound, or no upper one ({1,}) and for strings in JSON maxLength, which has no limit", text, bad.Expr, maxRepeat)
	}
	if perr != nil {
		return nil, invalid("", "regular expression %.60q: %v", text, perr)
	}
	e, what := fromSyntax(re)
	if what != "" {
		return nil, unsupported("", "regular expression %.60q uses %s, which cannot be held to: leave it out", text, what)
	}
	return e, nil
}

// translate writes the spellings of ECMA-262 that Go does not know in Go's way.
func translate(text string) (string, *Error) {
	var out strings.Builder
	refuse := func(what string) (string, *Error) {
		return "", unsupported("", "regular expression %.60q uses %s, which takes more than linear time: write it without", text, what)
	}
	inClass := false
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case rest[0] == '\\' && len(rest) > 1:
			// Escapes, two bytes and what belongs to them; those that Go knows stay.
			switch escaped := rest[1]; {
			case (escaped >= '1' && escaped <= '9' && !inClass) || strings.HasPrefix(rest, `\k<`):
				return refuse("a back-reference")
			case escaped == 'u':
				char, length, ok := unicodeEscape(rest)
				if !ok {
					return "", invalid("", `regular expression %.60q: \u at byte %d needs four hexadecimal digits`, text, i)
				}
				fmt.Fprintf(&out, `\x{%x}`, char)
				i += length - 1
			case escaped == 'c' && len(rest) > 2:
				fmt.Fprintf(&out, `\x{%x}`, rest[2]&0x1f)
				i += 2
			case escaped == 'Z':
				out.WriteString(`\z`)
				i++
			default:
				out.WriteString(rest[:2])
				i++
			}
		// Go wants a [ in a class escaped, but for [:alpha:].
		case inClass:
			inClass = rest[0] != ']'
			if rest[0] == '[' && !strings.HasPrefix(rest, "[:") {
				out.WriteByte('\\')
			}
			out.WriteByte(rest[0])
		case strings.HasPrefix(rest, "[^]"):
			out.WriteString(`[\x{0}-\x{10ffff}]`)
			i += 2
		case rest[0] == '[':
			inClass = true
			out.WriteByte('[')
			if strings.HasPrefix(rest, "[^") {
				out.WriteByte('^')
				i++
			}
		case slices.ContainsFunc([]string{"(?=", "(?!", "(?<=", "(?<!"}, func(s string) bool { return strings.HasPrefix(rest, s) }):
			return refuse("look-around")
		default:
			out.WriteByte(rest[0])
		}
	}
	return out.String(), nil
}

// unicodeEscape reads \uXXXX, a pair of them, or \u{X}, and returns its length.
func unicodeEscape(text string) (char rune, length int, ok bool) {
	if strings.HasPrefix(text, `\u{`) {
		end := strings.IndexByte(text, '}')
		if end < 0 {
			return 0, 0, false
		}
		char, ok = hex(text[3:end])
		return char, end + 1, ok && char <= unicode.MaxRune
	}
	if len(text) < 6 {
		return 0, 0, false
	}
	if char, ok = hex(text[2:6]); !ok || !utf16.IsSurrogate(char) {
		return char, 6, ok
	}
	if len(text) < 12 || text[6:8] != `\u` {
		return 0, 0, false
	}
	low, ok := hex(text[8:12])
	char = utf16.DecodeRune(char, low)
	return char, 12, ok && char != utf8.RuneError
}

// hex reads hexadecimal digits; a number above the last character is none.
func hex(text string) (rune, bool) {
	var r rune
	for _, c := range []byte(text) {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 || c < '0' || r > unicode.MaxRune {
			return 0, false
		}
		r = r<<4 | rune(digit)
	}
	return r, text != ""
}

// fromSyntax returns the expression of re, or what in it is not supported. The
// parser bounds its depth and its repetitions.
func fromSyntax(re *syntax.Regexp) (*expr, string) {
	var sub []*expr
	for _, part := range re.Sub {
		body, what := fromSyntax(part)
		if what != "" {
			return nil, what
		}
		sub = append(sub, body)
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return never, ""
	case syntax.OpEmptyMatch:
		return empty, ""
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return lit(string(re.Rune)), ""
		}
		return folded(string(re.Rune)), ""
	case syntax.OpCharClass:
		return class(re.Rune...), ""
	case syntax.OpAnyCharNotNL:
		return class(negate([]rune{'\n', '\n'})...), ""
	case syntax.OpAnyChar:
		return class(anyRune...), ""
	case syntax.OpBeginText:
		return &expr{op: opBegin}, ""
	case syntax.OpEndText:
		return &expr{op: opEnd}, ""
	case syntax.OpCapture:
		return sub[0], ""
	case syntax.OpStar:
		return star(sub[0]), ""
	case syntax.OpPlus:
		return repeat(sub[0], 1, -1), ""
	case syntax.OpQuest:
		return opt(sub[0]), ""
	case syntax.OpRepeat:
		return repeat(sub[0], re.Min, re.Max), ""
	case syntax.OpConcat:
		return cat(sub...), ""
	case syntax.OpAlternate:
		return alt(sub...), ""
	case syntax.OpBeginLine, syntax.OpEndLine:
		return nil, "^ or $ with the flag m"
	case syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return nil, `\b or \B`
	}
	return nil, re.Op.String()
}

// folded matches s in any case.
func folded(text string) *expr {
	var out []*expr
	for _, char := range text {
		pairs := []rune{char, char}
		for other := unicode.SimpleFold(char); other != char; other = unicode.SimpleFold(other) {
			pairs = append(pairs, other, other)
		}
		slices.Sort(pairs)
		out = append(out, class(pairs...))
	}
	return cat(out...)
}

// located says where a source is too large, or nothing can match.
func located(err error, where string) error {
	switch err {
	case errTooLarge:
		return unsupported(where, "%v; a repetition that the text does not count by itself, and lengths beside a pattern that leaves some out, take states for each number", err)
	case errNoMatch:
		return invalid(where, "no string can match")
	}
	return err
}
