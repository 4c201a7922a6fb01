package grammar

import (
	"slices"
	"unicode/utf8"
)

// Lengths behind look-ahead, as in ^(?=.*[a-z])(?=.*\d).{8,64}$. Each look-ahead is a condition
// on all of the text, so what must hold besides may have states for each set of conditions that
// are met so far: with a copy for each number of characters these are too many. But where
// one class of characters repeats and all else is of fixed width, the number is a condition of
// its own: here it is taken out of the expression, and counted (lengths).

// sized is body, what texts must be as a whole, without the numbers of characters that it
// names behind or in look-ahead at its beginning; these and low and high, which hold as well,
// are lo and hi. high and hi < 0 = no limit.
func sized(body *expr, low, high int) (loose *expr, lo, hi int) {
	parts := []*expr{body}
	if body.op == opCat {
		parts = slices.Clone(body.sub)
	}
	// Anchors around all of the text say nothing.
	for len(parts) > 0 && parts[0].op == opBegin {
		parts = parts[1:]
	}
	for len(parts) > 0 && parts[len(parts)-1].op == opEnd {
		parts = parts[:len(parts)-1]
	}
	lo, hi = low, high
	// take takes the number out of the one repetition of parts that are else of fixed width.
	take := func(parts []*expr) {
		fixed, varies := 0, -1
		for i, part := range parts {
			width := part.bound()
			switch {
			case part.op == opClass:
				width = 1
			case part.op == opLit:
				width = utf8.RuneCountInString(part.lit)
			case part.op != opRepeat || part.sub[0].op != opClass || (part.min != part.max && varies >= 0):
				return
			case part.min != part.max:
				varies, width = i, 0
			}
			fixed += width
		}
		if varies < 0 {
			return
		}
		e := parts[varies]
		if lo = max(lo, fixed+e.min); e.max >= 0 && (hi < 0 || hi > fixed+e.max) {
			hi = fixed + e.max
		}
		parts[varies] = star(e.sub[0])
	}
	at := 0 // behind the look-ahead
	for ; at < len(parts) && looksAhead(parts[at]); at++ {
		whole := parts[at].sub[0] // up to the end of the text, as in (?=.{8,64}$)
		if last := len(whole.sub) - 1; parts[at].op == opAhead && whole.op == opCat && whole.sub[last].op == opEnd {
			inside := slices.Clone(whole.sub)
			take(inside[:last])
			parts[at] = &expr{op: opAhead, sub: []*expr{cat(inside...)}}
		}
	}
	if at == 0 {
		return body, low, high
	}
	take(parts[at:])
	return cat(parts...), lo, hi
}

// looksAhead reports whether e is a look-ahead.
func looksAhead(e *expr) bool { return e.op == opAhead || e.op == opNotAhead }

// beginsAhead reports whether e begins with look-ahead.
func beginsAhead(e *expr) bool { return e.op == opCat && looksAhead(e.sub[0]) }

// counted compiles what is left of a body by sized, with lo to hi characters.
func (p pattern) counted(loose *expr, lo, hi int, budget *budget) (*automaton, error) {
	if hi >= 0 && lo > hi {
		return nil, errNoMatch
	}
	chars, err := simple(star(class(anyRune...)), p.quoted, budget)
	if err != nil {
		return nil, err
	}
	inside, err := simple(loose, p.quoted, budget)
	if err != nil {
		return nil, err
	}
	return lengths(inside, chars, lo, hi, true, budget)
}
