package grammar

// Look-ahead is no state of an automaton: what (?=a) asks for holds for all of the rest of
// the text. So it becomes an intersection: the rest, as an automaton, with the texts that
// begin with a, or for (?!a) with those that do not. That needs all of the rest, which is
// known everywhere but inside of a repetition.

// ahead is e followed by rest, which goes to the end of the text, without look-ahead.
func (p pattern) ahead(e, rest *expr, budget *budget) (*expr, error) {
	if !e.has(opAhead, opNotAhead) {
		return cat(e, rest), nil
	}
	var err error
	switch e.op {
	case opCat:
		// From the end: what a look-ahead is held to is all that follows it.
		for i := len(e.sub) - 1; i >= 0 && err == nil; i-- {
			rest, err = p.ahead(e.sub[i], rest, budget)
		}
		return rest, err
	case opAlt:
		sub := make([]*expr, len(e.sub))
		for i := 0; i < len(sub) && err == nil; i++ {
			sub[i], err = p.ahead(e.sub[i], rest, budget)
		}
		if err != nil {
			return nil, err
		}
		return alt(sub...), nil
	case opRepeat:
		return p.tempered(e, rest, budget)
	}
	if rest.has(opBegin) || e.sub[0].has(opBegin) {
		return nil, unsupported(p.where, "pattern: ^ in or behind a look-ahead cannot be held to: write it in front")
	}
	return p.meet(rest, cat(e.sub[0], star(class(anyRune...))), e.op == opNotAhead, budget)
}

// meet matches the texts of both whole and condition, or with not, of whole alone.
// Look-ahead of condition is its own.
func (p pattern) meet(whole, condition *expr, not bool, budget *budget) (*expr, error) {
	condition, err := p.ahead(condition, empty, budget)
	if err != nil {
		return nil, err
	}
	left, err := simple(whole, p.quoted, budget)
	if err == errNoMatch {
		return never, nil
	} else if err != nil {
		return nil, err
	}
	right, err := simple(condition, p.quoted, budget)
	switch {
	// A condition that nothing meets denies nothing.
	case err == errNoMatch && not:
		return whole, nil
	case err == nil:
		left, err = product(left, right, not, budget)
	}
	if err == errNoMatch {
		return never, nil
	} else if err != nil {
		return nil, err
	}
	return machine(left), nil
}

// tempered is a repetition with a look-ahead in it. ((?!a).)* up to the end of the text is
// .* of which no part is a; others are refused.
func (p pattern) tempered(e, rest *expr, budget *budget) (*expr, error) {
	body := e.sub[0]
	if e.min == 0 && e.max == 1 {
		once, err := p.ahead(body, rest, budget)
		if err != nil {
			return nil, err
		}
		return alt(once, rest), nil
	}
	ends := rest.op == opEmpty || rest.op == opEnd
	if !ends || body.op != opCat || body.sub[0].op != opNotAhead || body.sub[0].sub[0].nullable() || cat(body.sub[1:]...).op != opClass {
		return nil, unsupported(p.where, "pattern: a look-ahead inside of a repetition cannot be held to: put it in front of the repetition")
	}
	letter := cat(body.sub[1:]...)
	any := star(class(anyRune...))
	return p.meet(cat(repeat(letter, e.min, e.max), rest), cat(any, body.sub[0].sub[0], any), true, budget)
}
