package grammar

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"ossian/internal/grammar/ecma"
	"ossian/internal/grammar/runes"
)

// A pattern says what a regular expression is for.
type pattern struct {
	search bool   // it may match anywhere in the text, as in JSON Schema
	quoted bool   // the text is spelled as inside a JSON string
	count  int    // the automaton may have counts for repetitions so large; 0 = none
	own    bool   // of this package, of any length
	where  string // in errors

	// Of a pattern with counts that begins with look-ahead, if sized: how many characters
	// texts have, high < 0 = no limit.
	sized     bool
	low, high int
}

// compilePattern compiles a regular expression in the syntax that ECMA-262, Python and
// Go share; \d and \w mean ASCII. What takes more than linear time to match is refused.
func compilePattern(text string, p pattern, budget *budget) (*automaton, error) {
	if len(text) > maxPattern && !p.own {
		return nil, invalid(p.where, "regular expression of %d bytes, at most %d are accepted", len(text), maxPattern)
	}
	body, fault := parsePattern(text, p.search)
	if fault != nil {
		fault.Where = p.where
		return nil, fault
	}
	if !p.search {
		return p.compile(body, budget)
	}
	out, err := p.attempt(search(body), budget)
	// A match that may begin anywhere can take states for each set of places where one may
	// have begun. One that begins the text, or is all of it, is narrower and takes few.
	if err == errTooLarge && budget.err == nil {
		out, err = p.attempt(search(anchor(body, false)), budget)
	}
	if err == errTooLarge && budget.err == nil {
		if out, err = p.compile(search(anchor(body, true)), budget); err == errNoMatch {
			err = errTooLarge // of all of the pattern
		}
	}
	return out, err
}

// attempt is compile with a share of the budget, so that something is left to do otherwise.
func (p pattern) attempt(body *expr, b *budget) (*automaton, error) {
	share := &budget{left: b.left / 4, stop: b.stop}
	whole := share.left
	out, err := p.compile(body, share)
	if b.spend(whole - max(share.left, 0)) {
		return nil, b.err
	}
	return out, err
}

// compile compiles what texts must be as a whole.
func (p pattern) compile(body *expr, budget *budget) (*automaton, error) {
	lo, hi := 0, unlimited
	if p.sized {
		lo, hi = p.low, p.high
	}
	if p.count > 0 {
		if loose, low, high := sized(body, lo, hi); p.sized || max(low, high) >= p.count {
			body, lo, hi = loose, low, high
		}
	}
	body, err := p.ahead(body, empty, budget)
	switch {
	case err != nil:
		return nil, err
	case lo > 0 || hi >= 0:
		return p.counted(body, lo, hi, budget)
	case p.count > 0:
		return countable(body, p.quoted, p.count, budget)
	}
	return simple(body, p.quoted, budget)
}

// anchor is e at the beginning of the text, with whole also at its end.
func anchor(e *expr, whole bool) *expr {
	if e.op == opAlt {
		sub := make([]*expr, len(e.sub))
		for i, part := range e.sub {
			sub[i] = anchor(part, whole)
		}
		return alt(sub...)
	}
	if whole {
		return cat(&expr{op: opBegin}, e, &expr{op: opEnd})
	}
	return cat(&expr{op: opBegin}, e)
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

// parsePattern reads a regular expression, where a dot leaves out what it does in ECMA-262
// if strict is set. It leaves Where empty in its errors.
func parsePattern(text string, strict bool) (*expr, *Error) {
	if !utf8.ValidString(text) {
		return nil, invalid("", "regular expression %.60q is not UTF-8", text)
	}
	goText, looks, err := ecma.Translate(text, strict)
	if fault, ok := errors.AsType[*ecma.Error](err); ok {
		return nil, &Error{Unsupported: fault.Unsupported, What: fault.What}
	}
	ahead := make([]*expr, len(looks))
	for i, look := range looks {
		body, fault := parsePattern(look.Text, strict)
		if fault != nil {
			return nil, fault
		}
		if ahead[i] = (&expr{op: opAhead, sub: []*expr{body}}); look.Negative {
			ahead[i].op = opNotAhead
		}
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
	e, what := fromSyntax(re, ahead)
	if what != "" {
		return nil, unsupported("", "regular expression %.60q uses %s, which cannot be held to: leave it out", text, what)
	}
	return e, nil
}

// fromSyntax returns the expression of re, where ahead are its look-aheads, or what in it is
// not supported. The parser bounds its depth and its repetitions.
func fromSyntax(re *syntax.Regexp, ahead []*expr) (*expr, string) {
	var sub []*expr
	for _, part := range re.Sub {
		body, what := fromSyntax(part, ahead)
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
		return class(runes.Negate([]rune{'\n', '\n'})...), ""
	case syntax.OpAnyChar:
		return class(anyRune...), ""
	case syntax.OpBeginText:
		return &expr{op: opBegin}, ""
	case syntax.OpEndText:
		return &expr{op: opEnd}, ""
	case syntax.OpCapture:
		if number, cut := strings.CutPrefix(re.Name, ecma.LookName); cut {
			if at, err := strconv.Atoi(number); err == nil && at < len(ahead) {
				return ahead[at], ""
			}
		}
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

// folded matches text in any case.
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
