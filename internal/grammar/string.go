package grammar

import (
	"fmt"
	"strings"
)

var (
	hexDigit  = class('0', '9', 'A', 'F', 'a', 'f')
	plainChar = class(0x20, 0x21, 0x23, 0x5b, 0x5d, 0xd7ff, 0xe000, 0x10ffff)
	// jsonChar is one character inside a JSON string in any spelling. Half of a
	// surrogate pair is none.
	jsonChar = alt(plainChar,
		cat(lit(`\`), class('"', '"', '/', '/', '\\', '\\', 'b', 'b', 'f', 'f', 'n', 'n', 'r', 'r', 't', 't')),
		cat(lit(`\u`), alt(
			cat(class('0', '9', 'A', 'C', 'E', 'F', 'a', 'c', 'e', 'f'), repeat(hexDigit, 3, 3)),
			cat(class('D', 'D', 'd', 'd'), class('0', '7'), repeat(hexDigit, 2, 2)),
			cat(class('D', 'D', 'd', 'd'), class('8', '9', 'A', 'B', 'a', 'b'), repeat(hexDigit, 2, 2),
				lit(`\u`), class('D', 'D', 'd', 'd'), class('C', 'F', 'c', 'f'), repeat(hexDigit, 2, 2)))))
	quotationMark = lit(`"`)
)

// text matches the strings of flat.
func (c *compiler) text(flat flatSchema) *expr {
	lo, hi := lengthSpan(flat.schemas)
	if hi >= 0 && lo > hi {
		return because(firstKeyword(flat.schemas, "minLength"), "minLength %d is above maxLength %d", lo, hi)
	}
	// The same pattern at many places of a schema is compiled once for each pair of lengths.
	var key strings.Builder
	for _, schema := range flat.schemas {
		for _, name := range []string{"pattern", "format", notPattern, notEnum} {
			if keyword := schema.get(name); keyword != nil {
				key.WriteString(name + keyword.canonical() + "\x00")
			}
		}
	}
	if key.Len() > 0 {
		fmt.Fprint(&key, lo, hi, c.within != nil)
		body := c.texts[key.String()]
		if body == nil {
			body = c.patterned(flat, lo, hi)
			c.texts[key.String()] = body
		}
		return body
	}
	return c.measuredText(lo, hi)
}

// measuredText matches strings of lo to hi characters in any spelling, or in the shortest
// where there may be only one.
func (c *compiler) measuredText(lo, hi int) *expr {
	char := jsonChar
	if c.within != nil {
		short, err := simple(class(anyRune...), true, c.budget)
		if err != nil {
			c.fail(err)
			return never
		}
		char = machine(short)
	}
	plain := c.within != nil
	if lo == 0 && hi < 0 {
		return c.shared(fmt.Sprint("string", plain), func() *expr { return cat(quotationMark, star(char), quotationMark) })
	}
	// The loop is the whole rule, its counts begin with it: the first quote is outside.
	rest := c.shared(fmt.Sprint("string", plain, lo, hi), func() *expr {
		return &expr{op: opLoop, sub: []*expr{char, quotationMark}, min: lo, max: hi}
	})
	return cat(lit(`"`), rest)
}

// patterned is text where a pattern or format counts.
func (c *compiler) patterned(flat flatSchema, lo, hi int) *expr {
	inside, ok := c.single(flat.schemas, lo, hi)
	if !ok {
		inside, ok = c.patterns(flat.schemas)
		if ok && inside != nil {
			if inside, ok = c.measured(inside, flat.schemas, true); !ok {
				return because(firstKeyword(flat.schemas, "minLength", "maxLength"), "no string that pattern or format allow is that long or short")
			}
		}
	}
	switch {
	case !ok:
		return never
	case inside == nil: // a format that is not known
		return c.measuredText(lo, hi)
	case inside.counts():
		return cat(lit(`"`), c.rule("counted", &expr{op: opCounted, machine: inside.quotedEnd()}))
	}
	blamed := firstKeyword(flat.schemas, "pattern", "format")
	return cat(lit(`"`), &expr{op: opMachine, machine: inside, at: blamed}, lit(`"`))
}

// single is patterns and measured where one pattern says everything about strings, if its
// repetitions can be counted. Not ok: it is not so, or an error was noted.
func (c *compiler) single(schemas []*value, lo, hi int) (*automaton, bool) {
	var only *value
	for _, schema := range schemas {
		if keyword := schema.get("pattern"); keyword != nil {
			if only != nil {
				return nil, false
			}
			only = keyword
		}
		format := schema.get("format") // those that are not known are annotations: password
		if (format != nil && isFormat(format.text)) || schema.get(notPattern) != nil || schema.get(notEnum) != nil {
			return nil, false
		}
	}
	if only == nil || c.err != nil {
		return nil, false
	}
	if len(only.text) > maxPattern {
		return nil, false // patterns says so
	}
	if lo == 0 && hi < 0 {
		out := c.compiled(only, only.text, pattern{search: true, quoted: true, count: minCount})
		return out, out != nil
	}
	body, fault := parsePattern(only.text, true)
	if fault != nil {
		return nil, false
	}
	if body = search(body); beginsAhead(body) {
		return c.sized(only, lo, hi)
	}
	// Otherwise a length beside the pattern can be counted with it only if the pattern is one
	// class repeated: then it is another bound of that repetition.
	if body.op != opRepeat || body.sub[0].op != opClass {
		return nil, false
	}
	if most := body.max; hi >= 0 && (most < 0 || most > hi) {
		body = &expr{op: opRepeat, sub: body.sub, min: body.min, max: hi}
	}
	if body = repeat(body.sub[0], max(body.min, lo), body.max); body.max >= 0 && body.min > body.max {
		return nil, false
	}
	out, err := countable(body, true, minCount, c.budget)
	if err != nil {
		c.fail(located(err, only.path()))
	}
	return out, err == nil
}

// sized is single of a pattern that begins with look-ahead.
func (c *compiler) sized(only *value, lo, hi int) (*automaton, bool) {
	out, err := compilePattern(only.text, pattern{search: true, quoted: true, count: minCount, sized: true, low: lo, high: hi, where: only.path()}, c.budget)
	if err != nil && err != errNoMatch {
		c.fail(located(err, only.path()))
	}
	return out, err == nil
}

// patterns returns the automaton of the inside of strings that pattern and format of
// schemas leave, in the shortest spelling, or nil if they say nothing. Not ok: no string
// is left, or an error.
func (c *compiler) patterns(schemas []*value) (out *automaton, ok bool) {
	meet := func(next *automaton, where *value) {
		var err error
		if out != nil && next != nil {
			next, err = product(out, next, false, c.budget)
		}
		if out = next; err != nil {
			c.fail(located(err, where.path()))
		}
	}
	c.eachPattern(schemas, 0, meet)
	return out, c.err == nil
}

// eachPattern calls do with the automata of patterns and formats of schemas, and the
// keywords they come from.
func (c *compiler) eachPattern(schemas []*value, count int, do func(*automaton, *value)) {
	opposite := func(out *automaton, where *value) {
		if all, ok := c.narrow(nil, out, true); ok {
			do(all, where)
		} else {
			c.fail(located(errNoMatch, where.path()))
		}
	}
	if out := c.excludedStrings(schemas); out != nil && c.err == nil {
		opposite(out, schemas[0])
	}
	for _, schema := range schemas {
		if keyword := schema.get("pattern"); keyword != nil && c.err == nil {
			do(c.compiled(keyword, keyword.text, pattern{search: true, quoted: true, count: count}), keyword)
		}
		if keyword := schema.get(notPattern); keyword != nil && c.err == nil {
			if out := c.compiled(keyword, keyword.text, pattern{search: true, quoted: true}); out != nil {
				opposite(out, keyword)
			}
		}
		if keyword := schema.get("format"); keyword != nil && isFormat(keyword.text) && c.err == nil {
			do(c.formatted(keyword, keyword.text, count, c.naming), keyword)
		}
	}
}

// compiled returns the automaton of a pattern at where, or nil.
func (c *compiler) compiled(where *value, text string, use pattern) *automaton {
	key := fmt.Sprintf("%v %s", use, text)
	if out, ok := c.machines[key]; ok {
		return out
	}
	use.where = where.path()
	out, err := compilePattern(text, use, c.budget)
	if err != nil {
		c.fail(located(err, use.where))
		return nil
	}
	c.machines[key] = out
	return out
}

// measured returns what inside accepts of the lengths that schemas allow, with counts or
// without; inside = nil is any text.
func (c *compiler) measured(inside *automaton, schemas []*value, count bool) (*automaton, bool) {
	lo, hi := lengthSpan(schemas)
	if c.naming {
		lo, hi = span(schemas, "minLength", "maxLength")
	}
	chars, err := simple(star(class(anyRune...)), true, c.budget)
	if inside == nil {
		inside = chars
	}
	if err == nil && (lo > 0 || hi >= 0) {
		inside, err = lengths(inside, chars, lo, hi, count, c.budget)
	}
	if err == errNoMatch {
		return nil, false
	}
	if err != nil {
		c.fail(located(err, schemas[0].path()))
	}
	return inside, err == nil
}
