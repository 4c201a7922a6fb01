package grammar

import (
	"fmt"
	"slices"
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
	anyString = cat(lit(`"`), star(jsonChar), lit(`"`))
)

// text matches the strings of f.
func (c *compiler) text(f flat) *expr {
	lo, hi := span(f.nodes, "minLength", "maxLength")
	if hi >= 0 && lo > hi {
		return because(keyword(f.nodes, "minLength"), "minLength %d is above maxLength %d", lo, hi)
	}
	var key strings.Builder
	for _, n := range f.nodes {
		for _, name := range []string{"pattern", "format"} {
			if p := n.get(name); p != nil {
				key.WriteString(name + p.text + "\x00")
			}
		}
	}
	if key.Len() > 0 {
		fmt.Fprint(&key, lo, hi)
		e := c.texts[key.String()]
		if e == nil {
			e = c.patterned(f, lo, hi)
			c.texts[key.String()] = e
		}
		return e
	}
	return c.measuredText(lo, hi)
}

// measuredText matches strings of lo to hi characters in any spelling.
func (c *compiler) measuredText(lo, hi int) *expr {
	if lo == 0 && hi < 0 {
		return c.shared("string", func() *expr { return anyString })
	}
	// The loop is the whole rule, its counts begin with it: the first quote is outside.
	rest := c.shared(fmt.Sprintf("string %d %d", lo, hi), func() *expr {
		return &expr{op: opLoop, sub: []*expr{jsonChar, lit(`"`)}, min: lo, max: hi}
	})
	return cat(lit(`"`), rest)
}

// patterned is text where a pattern or format counts.
func (c *compiler) patterned(f flat, lo, hi int) *expr {
	a, ok := c.single(f.nodes, lo, hi)
	if !ok {
		a, ok = c.patterns(f.nodes)
		if ok && a != nil {
			if a, ok = c.measured(a, f.nodes, true); !ok {
				return because(keyword(f.nodes, "minLength", "maxLength"), "no string that pattern or format allow is that long or short")
			}
		}
	}
	switch {
	case !ok:
		return never
	case a == nil: // a format that is not known
		return c.measuredText(lo, hi)
	case a.counts():
		return cat(lit(`"`), c.rule("counted", &expr{op: opCounted, machine: a.quotedEnd()}))
	}
	return cat(lit(`"`), machine(a), lit(`"`))
}

// single is patterns and measured where one pattern says everything about strings, if
// its repetitions can be counted. Not ok: it is not so.
func (c *compiler) single(nodes []*value, lo, hi int) (*automaton, bool) {
	var only *value
	for _, n := range nodes {
		if p := n.get("pattern"); p != nil {
			if only != nil {
				return nil, false
			}
			only = p
		}
		if n.get("format") != nil {
			return nil, false
		}
	}
	if only == nil || c.err != nil {
		return nil, false
	}
	e, err := parsePattern(only.text)
	if err != nil {
		return nil, false // patterns says so
	}
	if e = search(e); lo > 0 || hi >= 0 {
		if e.op != opRepeat || e.sub[0].op != opClass {
			return nil, false
		}
		if most := e.max; hi >= 0 && (most < 0 || most > hi) {
			e = &expr{op: opRepeat, sub: e.sub, min: e.min, max: hi}
		}
		if e = repeat(e.sub[0], max(e.min, lo), e.max); e.max >= 0 && e.min > e.max {
			return nil, false
		}
	}
	a, failed := countable(e, true, minCount, c.b)
	if failed != nil {
		c.fail(located(failed, only.path()))
	}
	return a, failed == nil
}

// patterns returns the automaton of the inside of strings that pattern and format of
// nodes leave, in the shortest spelling, or nil if they say nothing. Not ok: no string
// is left, or an error.
func (c *compiler) patterns(nodes []*value) (a *automaton, ok bool) {
	meet := func(next *automaton, where *value) {
		var err error
		if a != nil && next != nil {
			next, err = product(a, next, false, c.b)
		}
		if a = next; err != nil {
			c.fail(located(err, where.path()))
		}
	}
	c.each(nodes, 0, meet)
	return a, c.err == nil
}

// each calls do with the automata of patterns and formats of nodes.
func (c *compiler) each(nodes []*value, count int, do func(*automaton, *value)) {
	for _, n := range nodes {
		if p := n.get("pattern"); p != nil && c.err == nil {
			do(c.compiled(p, p.text, pattern{search: true, quoted: true, count: count}), p)
		}
		if p := n.get("format"); p != nil && formats[p.text] != "" && c.err == nil {
			do(c.compiled(p, formats[p.text], pattern{quoted: true, count: count}), p)
		} else if p != nil && slices.Contains(openFormats, p.text) {
			c.fail(unsupported(n.path(), "format %q is not supported: use a pattern", p.text))
		}
	}
}

// compiled returns the automaton of a pattern at where, or nil.
func (c *compiler) compiled(where *value, text string, p pattern) *automaton {
	key := fmt.Sprintf("%v %s", p, text)
	if a, ok := c.machines[key]; ok {
		return a
	}
	p.where = where.path()
	a, err := compilePattern(text, p, c.b)
	if err != nil {
		c.fail(located(err, p.where))
		return nil
	}
	c.machines[key] = a
	return a
}

// measured returns what a accepts of the lengths that nodes allow, with counts or
// without; a = nil is any text.
func (c *compiler) measured(a *automaton, nodes []*value, count bool) (*automaton, bool) {
	lo, hi := span(nodes, "minLength", "maxLength")
	chars, err := simple(star(class(anyRune...)), true, c.b)
	if a == nil {
		a = chars
	}
	if err == nil && (lo > 0 || hi >= 0) {
		a, err = lengths(a, chars, lo, hi, count, c.b)
	}
	if err == errNoMatch {
		return nil, false
	}
	if err != nil {
		c.fail(located(err, nodes[0].path()))
	}
	return a, err == nil
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

// array matches the arrays of f.
func (c *compiler) array(f flat) *expr {
	lo, hi := span(f.nodes, "minItems", "maxItems")
	fixed := 0 // elements with schemas of their own
	for _, n := range f.nodes {
		prefix, rest := tuple(n)
		fixed = max(fixed, len(prefix))
		if rest != nil && rest.kind == 'f' && (hi < 0 || len(prefix) < hi) {
			hi = len(prefix)
		}
	}
	for _, n := range f.nodes {
		if u := n.get("uniqueItems"); u != nil && u.kind == 't' && (hi < 0 || hi > 1) {
			c.fail(unsupported(n.path(), "uniqueItems is not supported: leave it out, or use an object with a boolean for each value"))
		}
	}
	if hi >= 0 && lo > hi {
		return because(keyword(f.nodes, "minItems"), "minItems is %d, and at most %d elements are allowed", lo, hi)
	}
	if hi >= 0 {
		fixed = min(fixed, hi)
	}
	comma := cat(lit(","), c.space)
	closing := cat(c.space, lit("]"))
	rest, from := closing, fixed // what follows the first elements, and how many these are
	if hi < 0 || hi > fixed {
		from = max(fixed, 1) // the very first element has no comma
		more := cat(comma, c.element(f, fixed))
		most := -1
		if hi >= 0 {
			most = hi - from
		}
		rest = c.elements(more, closing, max(lo-from, 0), most)
	}
	for i := from - 1; i >= 0; i-- {
		part, end := cat(c.element(f, i), rest), closing
		if i == 0 {
			end = lit("]")
		} else {
			part = cat(comma, part)
		}
		if rest = part; i >= lo {
			rest = alt(part, end)
		}
	}
	if from == 0 {
		rest = lit("]")
	}
	return cat(lit("["), c.space, rest)
}

// elements matches more lo to hi times and then closing.
func (c *compiler) elements(more, closing *expr, lo, hi int) *expr {
	first := empty
	if lo > 0 { // outside the loop, which takes for granted that it can go on
		first = more
		lo--
		hi = max(hi-1, -1)
	}
	switch {
	case hi == 0:
		return cat(first, closing)
	case lo == 0 && hi < 0:
		return cat(first, star(more), closing)
	}
	return cat(first, c.rule("elements", &expr{op: opLoop, sub: []*expr{more, closing}, min: lo, max: hi}))
}

// element matches element i of f.
func (c *compiler) element(f flat, i int) *expr {
	var nodes []*value
	for _, n := range f.nodes {
		prefix, rest := tuple(n)
		if i < len(prefix) {
			nodes = append(nodes, prefix[i])
		} else if rest != nil {
			nodes = append(nodes, rest)
		}
	}
	c.b.spend(16)
	return c.all(nodes)
}

// tuple returns the schemas of the first elements and that of the others, nil = any.
// A list as items is how tuples were written before 2020-12.
func tuple(n *value) (prefix []*value, rest *value) {
	if p := n.get("prefixItems"); p != nil {
		prefix = p.vals
	}
	rest = n.get("items")
	if rest != nil && rest.kind == '[' {
		return rest.vals, n.get("additionalItems")
	}
	return prefix, rest
}
