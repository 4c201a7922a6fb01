package grammar

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// check reports keywords of schema n that are not known or not well-formed.
func (c *compiler) check(n *value) {
	if c.checked[n] {
		return
	}
	c.checked[n] = true
	for i, key := range n.keys {
		switch {
		case refused[key] != "":
			c.fail(unsupported(n.path(), "%s is not supported: %s", key, refused[key]))
		case slices.Contains(applied, key):
			if want := malformed(key, n.vals[i]); want != "" {
				c.fail(invalid(n.path(), "%s: %s expected", key, want))
			}
		case !slices.Contains(annotations, key) && !strings.HasPrefix(key, "x-"):
			c.ignored = append(c.ignored, n.path()+"/"+key)
		}
	}
	if c.circular(n) {
		c.fail(invalid(n.path(), "the schema refers back to itself without anything between: give the value a type"))
	}
	if u := n.get("unevaluatedProperties"); u != nil && u.kind == '{' {
		c.fail(unsupported(n.path(), "a schema as unevaluatedProperties is not supported: use additionalProperties, or false"))
	}
}

// circular reports whether n asks for n again, for the same value.
func (c *compiler) circular(n *value) bool {
	if c.rings[n] != 0 {
		return c.rings[n] == 1
	}
	c.rings[n] = 1
	var next []*value
	if r := n.get("$ref"); r != nil && r.kind == '"' {
		next = append(next, c.resolve(r))
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		if l := n.get(key); l != nil {
			next = append(next, l.vals...)
		}
	}
	if slices.ContainsFunc(next, c.circular) {
		return true
	}
	c.rings[n] = 2
	return false
}

// malformed returns what key's value should be, or "".
func malformed(key string, v *value) string {
	each := func(kind byte, ok func(*value) bool) bool {
		return v.kind == kind && !slices.ContainsFunc(v.vals, func(e *value) bool { return !ok(e) })
	}
	text := func(v *value) bool { return v.kind == '"' }
	boolean := func(v *value) bool { return v.kind == 't' || v.kind == 'f' }
	schema := func(v *value) bool { return v.kind == '{' || boolean(v) }
	ok, want := true, ""
	switch key {
	case "type":
		known := func(v *value) bool { return typeNames[v.text] != 0 && v.kind == '"' }
		ok, want = known(v) || each('[', known) && len(v.vals) > 0, "null, boolean, integer, number, string, array, object, or a list of them"
	case "enum":
		ok, want = v.kind == '[' && len(v.vals) > 0, "a list of values"
	case "properties", "patternProperties":
		ok, want = each('{', schema), "an object of schemas"
	case "required":
		ok, want = each('[', text), "a list of names"
	case "items":
		ok, want = schema(v) || each('[', schema), "a schema"
	case "additionalProperties", "additionalItems", "propertyNames", "unevaluatedProperties":
		ok, want = schema(v), "a schema"
	case "prefixItems":
		ok, want = each('[', schema), "a list of schemas"
	case "anyOf", "oneOf", "allOf":
		ok, want = each('[', schema) && len(v.vals) > 0, "a list of schemas"
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		r, isNumber := number(v.text)
		ok, want = v.kind == '0' && isNumber && r.IsInt() && r.Sign() >= 0, "a whole number"
	case "minimum", "maximum", "multipleOf":
		r, isNumber := number(v.text)
		ok, want = v.kind == '0' && isNumber, "a number with a moderate exponent"
		if ok && key == "multipleOf" {
			ok, want = r.Sign() > 0, "a number above 0"
		}
	case "exclusiveMinimum", "exclusiveMaximum":
		_, isNumber := number(v.text)
		ok, want = v.kind == '0' && isNumber || boolean(v), "a number with a moderate exponent"
	case "pattern", "format", "$ref":
		ok, want = text(v), "a text"
	case "nullable", "uniqueItems":
		ok, want = boolean(v), "true or false"
	}
	if ok {
		return ""
	}
	return want
}

// span returns the largest lower and the smallest upper bound of nodes; hi < 0 = none.
func span(nodes []*value, least, most string) (lo, hi int) {
	hi = -1
	for _, n := range nodes {
		if v := n.get(least); v != nil {
			lo = max(lo, count(v))
		}
		if v := n.get(most); v != nil && (hi < 0 || count(v) < hi) {
			hi = count(v)
		}
	}
	return lo, hi
}

// count reads a whole number that malformed has seen; large ones are as good as 2^31-2.
func count(v *value) int {
	r, _ := number(v.text)
	if n := r.Num(); n.IsInt64() && n.Int64() < math.MaxInt32 {
		return int(n.Int64())
	}
	return math.MaxInt32 - 1
}

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
	a, ok := c.patterns(f.nodes)
	if !ok {
		return never
	}
	if a != nil {
		if a, ok = c.measured(a, f.nodes); !ok {
			return never
		}
		return cat(lit(`"`), machine(a), lit(`"`))
	}
	lo, hi := span(f.nodes, "minLength", "maxLength")
	if lo == 0 && hi < 0 {
		return c.shared("string", func() *expr { return anyString })
	}
	if hi >= 0 && lo > hi {
		return never
	}
	// The loop is the whole rule, its counts begin with it: the first quote is outside.
	rest := c.shared(fmt.Sprintf("string %d %d", lo, hi), func() *expr {
		return &expr{op: opLoop, sub: []*expr{jsonChar, lit(`"`)}, min: lo, max: hi}
	})
	return cat(lit(`"`), rest)
}

// patterns returns the automaton of the inside of strings that pattern and format of
// nodes leave, in the shortest spelling, or nil if they say nothing. Not ok: no string
// is left, or an error.
func (c *compiler) patterns(nodes []*value) (a *automaton, ok bool) {
	meet := func(text string, p pattern) {
		next, err := compilePattern(text, p, c.b)
		if a != nil && err == nil {
			next, err = product(a, next, false, c.b)
		}
		a = next
		if err != nil {
			c.fail(located(err, p.where))
		}
	}
	for _, n := range nodes {
		if p := n.get("pattern"); p != nil && c.err == nil {
			meet(p.text, pattern{search: true, quoted: true, where: n.path() + "/pattern"})
		}
		if p := n.get("format"); p != nil && formats[p.text] != "" && c.err == nil {
			meet(formats[p.text], pattern{quoted: true, where: n.path() + "/format"})
		} else if p != nil && slices.Contains(openFormats, p.text) {
			c.fail(unsupported(n.path(), "format %q is not supported: use a pattern", p.text))
		}
	}
	return a, c.err == nil
}

// measured returns what a accepts of the lengths that nodes allow; a = nil is any text.
func (c *compiler) measured(a *automaton, nodes []*value) (*automaton, bool) {
	lo, hi := span(nodes, "minLength", "maxLength")
	chars, err := simple(star(class(anyRune...)), true, c.b)
	if a == nil {
		a = chars
	}
	if err == nil && (lo > 0 || hi >= 0) {
		a, err = lengths(a, chars, lo, hi, c.b)
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
		return unsupported(where, "%v; a pattern together with maxLength takes a state for each length", err)
	case errNoMatch:
		return invalid(where, "no string can match")
	}
	return err
}

// lengths returns what a accepts of lo to hi characters; hi < 0 = no limit. chars
// accepts any text and is at its start between characters.
func lengths(a, chars *automaton, lo, hi int, b *budget) (*automaton, error) {
	type place struct {
		a, char int32
		n       int
	}
	ids := map[place]int32{}
	var todo []place
	out := &automaton{start: []int32{0}, need: []int32{0}, room: []int32{0}}
	id := func(p place) int32 {
		if hi < 0 {
			p.n = min(p.n, lo)
		}
		i, ok := ids[p]
		if !ok {
			i = int32(len(todo))
			ids[p] = i
			todo = append(todo, p)
			out.states = append(out.states, state{accept: a.states[p.a].accept && chars.states[p.char].accept && p.n >= lo})
			b.spend(8)
		}
		return i
	}
	id(place{a.start[0], chars.start[0], 0})
	for i := 0; i < len(todo) && b.err == nil; i++ {
		p := todo[i]
		n := p.n
		if chars.states[p.char].accept {
			if n++; n > hi && hi >= 0 {
				continue
			}
		}
		var edges []edge
		for _, e := range a.states[p.a].edges {
			edges = overlay(edges, e, chars.states[p.char].edges, func(to int32) (int32, bool) {
				if to < 0 {
					return 0, false
				}
				return id(place{e.to, to, n}), true
			})
		}
		out.states[i].edges = edges
		if len(todo) > 2*maxStates {
			return nil, errTooLarge
		}
	}
	if b.err != nil {
		return nil, b.err
	}
	return out, out.trim(b)
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
		return never
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
	c.rules = append(c.rules, rule{name: "elements", body: &expr{op: opLoop, sub: []*expr{more, closing}, min: lo, max: hi}})
	return cat(first, ref(len(c.rules)-1))
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
