package grammar

import "slices"

// Lengths behind look-ahead, as in ^(?=.*[a-z])(?=.*\d).{8,64}$. Each look-ahead is a condition
// on all of the text, so what must hold besides may have states for each set of conditions that
// are met so far: with a copy for each number of characters these are too many. But where all
// of the text is of characters of one class, its number is a condition of its own: here it is
// taken out of the expression, and counted (lengths).

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
	take := func(e *expr) *expr {
		if e.op != opRepeat || e.sub[0].op != opClass {
			return e
		}
		if lo = max(lo, e.min); e.max >= 0 && (hi < 0 || hi > e.max) {
			hi = e.max
		}
		return star(e.sub[0])
	}
	at := 0 // behind the look-ahead
	for ; at < len(parts) && looksAhead(parts[at]); at++ {
		whole := parts[at].sub[0] // up to the end of the text, as in (?=.{8,64}$)
		if parts[at].op == opAhead && whole.op == opCat && len(whole.sub) == 2 && whole.sub[1].op == opEnd {
			parts[at] = &expr{op: opAhead, sub: []*expr{cat(take(whole.sub[0]), whole.sub[1])}}
		}
	}
	if at == 0 {
		return body, low, high
	}
	if len(parts) == at+1 {
		parts[at] = take(parts[at])
	}
	return cat(parts...), lo, hi
}

// looksAhead reports whether e is a look-ahead.
func looksAhead(e *expr) bool { return e.op == opAhead || e.op == opNotAhead }

// beginsAhead reports whether e begins with look-ahead.
func beginsAhead(e *expr) bool { return e.op == opCat && looksAhead(e.sub[0]) }

// counted compiles what is left of a body by sized, with lo to hi characters.
func (p pattern) counted(loose *expr, lo, hi int, b *budget) (*automaton, error) {
	if hi >= 0 && lo > hi {
		return nil, errNoMatch
	}
	chars, err := simple(star(class(anyRune...)), p.quoted, b)
	if err != nil {
		return nil, err
	}
	inside, err := simple(loose, p.quoted, b)
	if err != nil {
		return nil, err
	}
	return lengths(inside, chars, lo, hi, true, b)
}
