package grammar

import "slices"

// object matches the objects of f. Members come in the order of the schema. Others
// are only written where additionalProperties or patternProperties ask for them, or
// where the schema says nothing about members at all: a model should not invent what
// nobody will read.
func (c *compiler) object(f flat) *expr {
	o := &object{space: c.space}
	o.min, o.max = span(f.nodes, "minProperties", "maxProperties")
	if o.max >= 0 && o.min > o.max {
		return never
	}
	c.checkUnevaluated(f.nodes)
	names, required := propertyNames(f.nodes)
	keys, ok := c.keys(f.nodes)
	if !ok {
		return never
	}
	patterns := c.patternProperties(f.nodes)
	due := 0
	for _, name := range names {
		nodes, ok := c.property(f.nodes, patterns, name)
		if ok = ok && (keys == nil || keys.matches(quoted(name))); ok {
			key := `"` + quoted(name) + `":`
			o.members = append(o.members, member{key: key, value: cat(c.colon, c.all(nodes)), required: required[name]})
		}
		if required[name] {
			if !ok {
				return never
			}
			due++
		}
		if c.b.spend(8 + len(name)) {
			return never
		}
	}
	if o.min <= due {
		o.min = 0
	}
	if o.max >= len(o.members) && !isOpen(f.nodes) && len(patterns) == 0 {
		o.max = -1
	}
	o.extra = c.extra(f.nodes, patterns, names, keys)
	if o.extra != nil && o.min > len(o.members)+1 {
		c.fail(unsupported(f.path(), "minProperties %d cannot be held to with %d known names, since others may repeat: list the names in properties", o.min, len(o.members)))
	}
	return &expr{op: opObject, object: o}
}

// propertyNames returns the names that nodes know, in order.
func propertyNames(nodes []*value) (names []string, required map[string]bool) {
	known := map[string]bool{}
	required = map[string]bool{}
	add := func(name string) {
		if !known[name] {
			known[name] = true
			names = append(names, name)
		}
	}
	for _, n := range nodes {
		if p := n.get("properties"); p != nil {
			for _, name := range p.keys {
				add(name)
			}
		}
	}
	for _, n := range nodes {
		if r := n.get("required"); r != nil {
			for _, name := range r.vals {
				add(name.text)
				required[name.text] = true
			}
		}
	}
	return names, required
}

// keys returns what propertyNames leaves of names, nil = any.
func (c *compiler) keys(nodes []*value) (*automaton, bool) {
	var all []*value
	for _, n := range nodes {
		if p := n.get("propertyNames"); p != nil {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, true
	}
	alternatives := c.expand(all)
	if c.err == nil && len(alternatives) > 1 {
		c.fail(unsupported(all[0].path(), "anyOf in propertyNames is not supported: use a pattern"))
	}
	if c.err != nil || len(alternatives) == 0 {
		return nil, false
	}
	f := c.read(alternatives[0])
	if f.types&tString == 0 {
		return nil, false
	}
	if f.enumOnly {
		var sub []*expr
		for _, v := range f.enum {
			if v.kind == '"' && c.admits(f, v) {
				sub = append(sub, lit(v.text))
			}
		}
		a, err := simple(alt(sub...), true, c.b)
		if err != nil && err != errNoMatch {
			c.fail(located(err, f.path()))
		}
		return a, err == nil
	}
	a, ok := c.patterns(f.nodes)
	if !ok {
		return nil, false
	}
	return c.measured(a, f.nodes)
}

// A named is one entry of patternProperties.
type named struct {
	owner  *value
	names  *automaton
	schema *value
}

// maxPatterns bounds patternProperties: each set of them is a class of names.
const maxPatterns = 5

func (c *compiler) patternProperties(nodes []*value) []named {
	var out []named
	for _, n := range nodes {
		p := n.get("patternProperties")
		if p == nil {
			continue
		}
		for i, text := range p.keys {
			a, err := compilePattern(text, pattern{search: true, quoted: true, where: p.vals[i].path()}, c.b)
			if err == errNoMatch {
				continue
			}
			if err != nil {
				c.fail(located(err, p.vals[i].path()))
				return nil
			}
			if out = append(out, named{n, a, p.vals[i]}); len(out) > maxPatterns {
				c.fail(unsupported(p.path(), "more than %d patterns hold at once: use fewer", maxPatterns))
				return nil
			}
		}
	}
	return out
}

// property returns what the value of a known name must meet. Not ok: the name is
// forbidden.
func (c *compiler) property(nodes []*value, patterns []named, name string) ([]*value, bool) {
	var out []*value
	for _, n := range nodes {
		own := false
		if p := n.get("properties"); p != nil {
			if s := p.get(name); s != nil {
				out, own = append(out, s), true
			}
		}
		for _, p := range patterns {
			if p.owner == n && p.names.matches(quoted(name)) {
				out, own = append(out, p.schema), true
			}
		}
		if a := n.get("additionalProperties"); a != nil && !own {
			out = append(out, a)
		}
	}
	forbidden := len(out) == 0 && slices.ContainsFunc(nodes, isClosed)
	return out, !forbidden && !slices.ContainsFunc(out, func(s *value) bool { return s.kind == 'f' })
}

// isClosed reports whether n leaves out members that none of its parts know.
func isClosed(n *value) bool {
	u := n.get("unevaluatedProperties")
	return u != nil && u.kind == 'f'
}

// checkUnevaluated refuses schemas that are closed but for their own parts beside others
// that know members: these would have to be told apart.
func (c *compiler) checkUnevaluated(nodes []*value) {
	for _, n := range nodes {
		parts := []*value{n}
		for i := 0; i < len(parts) && isClosed(n) && !c.b.spend(1); i++ {
			parts = append(parts, c.parts(parts[i])...)
		}
		for _, o := range nodes {
			if isClosed(n) && !slices.Contains(parts, o) && (o.get("properties") != nil || o.get("patternProperties") != nil || o.get("additionalProperties") != nil) {
				c.fail(unsupported(n.path(), "unevaluatedProperties does not see the members of schemas beside it: put it where allOf, anyOf or $ref joins them"))
			}
		}
	}
}

// isOpen reports whether names that match nothing may be written.
func isOpen(nodes []*value) bool {
	silent, asked := true, false
	for _, n := range nodes {
		a := n.get("additionalProperties")
		if a != nil && a.kind == 'f' {
			return false
		}
		asked = asked || a != nil
		silent = silent && a == nil && n.get("properties") == nil && n.get("patternProperties") == nil && !isClosed(n)
	}
	return silent || asked
}

// extra matches a member whose name is none of names, or is nil.
func (c *compiler) extra(nodes []*value, patterns []named, names []string, keys *automaton) *expr {
	if len(patterns) == 0 && !isOpen(nodes) || c.err != nil {
		return nil
	}
	free := keys // names that are not known
	if len(names) > 0 {
		var sub []*expr
		for _, name := range names {
			sub = append(sub, lit(name))
		}
		if free = c.others(free, alt(sub...)); free == nil {
			return nil
		}
	}
	var out []*expr
	for chosen := range 1 << len(patterns) { // which patterns a name matches
		if chosen == 0 && !isOpen(nodes) {
			continue
		}
		a, ok := free, true
		var values []*value
		for _, n := range nodes {
			own := false
			for i, p := range patterns {
				if p.owner == n && chosen>>i&1 == 1 {
					values, own = append(values, p.schema), true
				}
			}
			if s := n.get("additionalProperties"); s != nil && !own {
				values = append(values, s)
			}
		}
		if slices.ContainsFunc(values, func(s *value) bool { return s.kind == 'f' }) {
			continue
		}
		for i, p := range patterns {
			if a, ok = c.narrow(a, p.names, chosen>>i&1 == 0); !ok {
				break
			}
		}
		if !ok {
			continue
		}
		key := c.shared("string", func() *expr { return anyString })
		if a != nil {
			key = cat(lit(`"`), machine(a), lit(`"`))
		}
		out = append(out, cat(key, lit(":"), c.colon, c.all(values)))
	}
	if len(out) == 0 {
		return nil
	}
	i := len(c.rules)
	c.rules = append(c.rules, rule{name: "member", body: alt(out...)})
	return ref(i)
}

// others returns a, nil = any text, without what e matches; nil when nothing is left.
func (c *compiler) others(a *automaton, e *expr) *automaton {
	known, err := simple(e, true, c.b)
	if err == nil {
		a, _ = c.narrow(a, known, true)
		return a
	}
	c.fail(located(err, "#"))
	return nil
}

// narrow returns what of a, nil = any text, by accepts too, or with not, does not.
func (c *compiler) narrow(a, by *automaton, not bool) (*automaton, bool) {
	var err error
	if a == nil {
		if a, err = simple(star(class(anyRune...)), true, c.b); err != nil {
			c.fail(err)
			return nil, false
		}
	}
	a, err = product(a, by, not, c.b)
	if err != nil && err != errNoMatch {
		c.fail(located(err, "#"))
	}
	return a, err == nil
}

// exclusive checks that no value meets two alternatives of a oneOf, which then says
// the same as anyOf.
func (c *compiler) exclusive(group *value) {
	if c.checked[group] {
		return
	}
	c.checked[group] = true
	for i, a := range group.vals {
		for j, b := range group.vals[:i] {
			if c.err == nil && !c.disjoint([]*value{a}, []*value{b}, 0) && c.b.err == nil {
				c.fail(unsupported(group.path(), "alternatives %d and %d may both match: use anyOf, or give both a required property with different constants", j, i))
			}
		}
	}
}

// maxCompare is how deep disjoint looks into properties.
const maxCompare = 3

// disjoint reports whether it is certain that no value meets both a and b.
func (c *compiler) disjoint(a, b []*value, depth int) bool {
	if depth > maxCompare || c.b.spend(8) {
		return false
	}
	for _, x := range c.expand(a) {
		for _, y := range c.expand(b) {
			if c.err != nil || !c.apart(c.read(x), c.read(y), depth) {
				return false
			}
		}
	}
	return c.err == nil
}

func (c *compiler) apart(x, y flat, depth int) bool {
	if c.b.spend(32) {
		return false
	}
	if !x.enumOnly {
		x, y = y, x
	}
	if x.enumOnly {
		for _, v := range x.enum {
			if c.may(x, v) && c.may(y, v) {
				return false
			}
		}
		return true
	}
	both := x.types & y.types
	if both&(tNull|tBool|tArray) != 0 {
		return false
	}
	if both&tNumber != 0 && x.numeric.overlaps(y.numeric) {
		return false
	}
	if both&tString != 0 && !c.stringsApart(x.nodes, y.nodes) {
		return false
	}
	return both&tObject == 0 || c.objectsApart(x.nodes, y.nodes, depth) || c.objectsApart(y.nodes, x.nodes, depth)
}

// may reports whether v may meet f; it errs on the side of yes.
func (c *compiler) may(f flat, v *value) bool {
	if f.enumOnly && len(common(f.enum, []*value{v})) == 0 {
		return false
	}
	if t := typeOf(v); t == tArray || t == tObject {
		return f.types&t != 0
	}
	return c.admits(f, v)
}

func (c *compiler) stringsApart(x, y []*value) bool {
	lo, hi := span(append(slices.Clone(x), y...), "minLength", "maxLength")
	if hi >= 0 && lo > hi {
		return true
	}
	a, aok := c.patterns(x)
	b, bok := c.patterns(y)
	if !aok || !bok || a == nil || b == nil {
		return false
	}
	_, err := product(a, b, false, c.b)
	return err == errNoMatch
}

// objectsApart looks for a property that x requires and y forbids, or holds to
// something else.
func (c *compiler) objectsApart(x, y []*value, depth int) bool {
	names, required := propertyNames(x)
	px, py := c.patternProperties(x), c.patternProperties(y)
	for _, name := range names {
		if !required[name] {
			continue
		}
		a, _ := c.property(x, px, name)
		b, allowed := c.property(y, py, name)
		if !allowed || len(a) > 0 && len(b) > 0 && c.disjoint(a, b, depth+1) {
			return true
		}
	}
	return false
}
