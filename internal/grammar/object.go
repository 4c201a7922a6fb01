package grammar

import "slices"

// object matches the objects of f. Members come in the order of the schema. Others
// are only written where additionalProperties or patternProperties ask for them, where
// minProperties needs them, or where the schema says nothing about members at all: a
// model should not invent what nobody will read.
func (c *compiler) object(f flat) *expr {
	o := &object{space: c.space}
	o.min, o.max = span(f.nodes, "minProperties", "maxProperties")
	if o.max >= 0 && o.min > o.max {
		return because(keyword(f.nodes, "minProperties"), "minProperties %d is above maxProperties %d", o.min, o.max)
	}
	c.checkUnevaluated(f.nodes)
	n := c.memberNames(f.nodes)
	if o.min > 0 {
		o.at = keyword(f.nodes, "minProperties")
	}
	due := 0
	for i := 0; i < len(n.known) || (o.min > len(o.members) && n.widen(f.nodes)); i++ {
		name := n.known[i]
		ok := c.member(o, f.nodes, n, name)
		if n.required[name] {
			if !ok {
				return because(keyword(f.nodes, "required"), "the required member %.60q is not allowed by its own schema, additionalProperties, unevaluatedProperties or propertyNames", name)
			}
			due++
		}
		if c.b.spend(8+len(name)) || c.err != nil {
			return never
		}
	}
	if o.max >= 0 && due > o.max {
		return because(keyword(f.nodes, "maxProperties"), "maxProperties is %d, and %d members are required", o.max, due)
	}
	if o.min <= due {
		o.min = 0
	}
	if o.max >= len(o.members) && !n.open && len(n.patterns) == 0 {
		o.max = -1
	}
	o.extra = c.extra(f.nodes, n, nil)
	missing := o.min - len(o.members)
	if missing > 0 && o.extra == nil {
		return because(o.at, "minProperties is %d, and only %d members are allowed", o.min, len(o.members))
	}
	if (missing > 1 || o.min <= maxDiffer) && o.min-due > 1 && o.extra != nil {
		c.differ(o, f.nodes, n, missing)
	}
	return &expr{op: opObject, object: o}
}

// member adds the member name to o, if it is allowed.
func (c *compiler) member(o *object, nodes []*value, n *names, name string) bool {
	schemas, ok := c.property(nodes, n.patterns, name)
	if ok = ok && !n.none && (n.form == nil || n.form.matches(quoted(name))); ok {
		key := `"` + quoted(name) + `":`
		o.members = append(o.members, member{key: key, value: cat(c.colon, c.all(schemas)), required: n.required[name]})
	}
	return ok
}

// names are what schemas say about names of members.
type names struct {
	known    []string // in order
	required map[string]bool
	patterns []named
	open     bool       // others are written
	form     *automaton // what propertyNames leaves of names; nil = any
	listed   []string   // all names that it leaves, if it lists them
	none     bool       // it leaves none
}

func (c *compiler) memberNames(nodes []*value) *names {
	n := &names{open: isOpen(nodes)}
	n.known, n.required = propertyNames(nodes)
	c.keys(nodes, n)
	n.patterns = c.patternProperties(nodes)
	return n
}

// widen lets in more names than the schemas ask for, because there are too few. It
// reports whether there are further known ones.
func (n *names) widen(nodes []*value) bool {
	closed := func(s *value) bool {
		a := s.get("additionalProperties")
		return isClosed(s) || (a != nil && a.kind == 'f')
	}
	n.open = n.open || !slices.ContainsFunc(nodes, closed)
	known := len(n.known)
	for _, name := range n.listed { // each only once
		if !slices.Contains(n.known, name) && (n.open || len(n.patterns) > 0) {
			n.known = append(n.known, name)
		}
	}
	n.listed = nil
	return len(n.known) > known
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

// keys notes what propertyNames leaves of names.
func (c *compiler) keys(nodes []*value, n *names) {
	var all []*value
	for _, s := range nodes {
		if p := s.get("propertyNames"); p != nil {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return
	}
	alternatives := c.expand(all)
	if c.err == nil && len(alternatives) > 1 {
		c.fail(unsupported(all[0].path(), "anyOf in propertyNames is not supported: use a pattern"))
	}
	if n.none = c.err != nil || len(alternatives) == 0; n.none {
		return
	}
	f := c.read(alternatives[0])
	if n.none = f.types&tString == 0; n.none {
		return
	}
	ok := true
	if f.enumOnly {
		var sub []*expr
		for _, v := range f.enum {
			if v.kind == '"' && c.misfit(f, v) == "" {
				n.listed = append(n.listed, v.text)
				sub = append(sub, lit(v.text))
			}
		}
		var err error
		if n.form, err = simple(alt(sub...), true, c.b); err != nil && err != errNoMatch {
			c.fail(located(err, f.path()))
		}
		ok = err == nil
	} else if n.form, ok = c.patterns(f.nodes); ok {
		n.form, ok = c.measured(n.form, f.nodes, false)
	}
	n.none = !ok
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

// extra matches a member with a name that is not known, and that by accepts if there
// is one, or is nil.
func (c *compiler) extra(nodes []*value, n *names, by *automaton) *expr {
	if (len(n.patterns) == 0 && !n.open) || n.none || c.err != nil {
		return nil
	}
	free, ok := c.others(n.form, n.known)
	if ok && by != nil {
		free, ok = c.narrow(free, by, false)
	}
	if !ok {
		return nil
	}
	var out []*expr
	for chosen := range 1 << len(n.patterns) { // which patterns a name matches
		if chosen == 0 && !n.open {
			continue
		}
		a, ok := free, true
		var values []*value
		for _, s := range nodes {
			own := false
			for i, p := range n.patterns {
				if p.owner == s && chosen>>i&1 == 1 {
					values, own = append(values, p.schema), true
				}
			}
			if s := s.get("additionalProperties"); s != nil && !own {
				values = append(values, s)
			}
		}
		if slices.ContainsFunc(values, func(s *value) bool { return s.kind == 'f' }) {
			continue
		}
		for i, p := range n.patterns {
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
	r := c.rule("member", alt(out...))
	c.rules[r.rule].call = by != nil
	return r
}

// rule returns a reference to a new rule.
func (c *compiler) rule(name string, body *expr) *expr {
	c.rules = append(c.rules, rule{name: name, body: body})
	return ref(len(c.rules) - 1)
}

const (
	nameClasses = 8 // of names that are not known, by their first byte: names of two classes differ
	maxDiffer   = 4 // names that are not known, and must differ for minProperties
)

// differ writes how o may have two or more members with names that are not known and
// differ, of which at least missing are needed: as many classes of names must have been
// there. Names of one class may differ too, but do not count.
func (c *compiler) differ(o *object, nodes []*value, n *names, missing int) {
	all := n.form
	if ok := true; !n.open && len(n.patterns) == 1 {
		if all, ok = c.narrow(all, n.patterns[0].names, false); !ok {
			return
		}
	}
	d := &differing{c: c, rules: map[[2]int]*expr{}, again: o.max < 0, comma: cat(lit(","), c.space)}
	found := 0
	for i := range d.member {
		if d.member[i] = c.extra(nodes, n, nameClass(all, i)); d.member[i] != nil {
			found++
		}
	}
	if missing > max(1, min(found, maxDiffer)) {
		c.fail(unsupported(o.at.path(), "minProperties %d asks for %d names that the schema does not list, at most %d of which can be kept apart: list names in properties", o.min, missing, min(found, maxDiffer)))
	}
	o.differ = make([][2]*expr, maxDiffer+1)
	for k := max(missing, 2); k <= min(o.min, maxDiffer) && c.err == nil; k++ {
		o.differ[k] = [2]*expr{d.next(0, k, empty), d.next(0, k, d.comma)}
	}
}

// nameClass accepts the i-th class of names: the first byte that not all have in common
// decides. all accepts the names; nil = any.
func nameClass(all *automaton, i int) *automaton {
	class := &automaton{start: []int32{0}, need: []int32{0}, room: []int32{0}}
	add := func(s state) { class.states = append(class.states, s) }
	if all != nil {
		for s := all.states[all.start[0]]; !s.accept && len(s.edges) == 1 && s.edges[0].lo == s.edges[0].hi; s = all.states[s.edges[0].to] {
			add(state{edges: []edge{{lo: s.edges[0].lo, hi: s.edges[0].lo, to: int32(len(class.states) + 1)}}})
		}
	}
	last := int32(len(class.states) + 1)
	var s state
	for b := i; b < 256; b += nameClasses {
		s.edges = append(s.edges, edge{lo: byte(b), hi: byte(b), to: last})
	}
	add(s)
	add(state{accept: true, edges: []edge{{hi: 255, to: last}}})
	return class
}

// A differing writes the rules of differ.
type differing struct {
	c      *compiler
	member [nameClasses]*expr // nil = no such name
	rules  map[[2]int]*expr
	again  bool // members may be more than are missing
	comma  *expr
}

// next matches members until left classes that are not in seen, a set, were there. The
// first one comes after comma.
func (d *differing) next(seen, left int, comma *expr) *expr {
	if left == 0 {
		return empty
	}
	r, ok := d.rules[[2]int{seen, left}]
	if ok && comma != empty {
		return r
	}
	if r = d.c.rule("differing", never); comma != empty {
		d.rules[[2]int{seen, left}] = r
	}
	var sub []*expr
	for i, m := range d.member {
		switch {
		case m == nil || d.c.b.spend(1):
		case seen>>i&1 == 0:
			sub = append(sub, cat(m, d.next(seen|1<<i, left-1, d.comma)))
		case d.again:
			sub = append(sub, cat(m, d.next(seen, left, d.comma)))
		}
	}
	d.c.rules[r.rule].body = cat(comma, alt(sub...))
	return r
}

// others returns a, nil = any text, without known. Not ok: nothing is left.
func (c *compiler) others(a *automaton, known []string) (*automaton, bool) {
	if len(known) == 0 {
		return a, true
	}
	var sub []*expr
	for _, name := range known {
		sub = append(sub, lit(name))
	}
	by, err := simple(alt(sub...), true, c.b)
	if err == nil {
		return c.narrow(a, by, true)
	}
	c.fail(located(err, "#"))
	return nil, false
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
			f, g := c.read(x), c.read(y)
			if c.err != nil || !c.apart(&f, &g, depth) {
				return false
			}
		}
	}
	return c.err == nil
}

func (c *compiler) apart(x, y *flat, depth int) bool {
	if c.b.spend(32 + 8*(len(x.enum)+len(y.enum))) {
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
func (c *compiler) may(f *flat, v *value) bool {
	if f.enumOnly && !f.lists(v) {
		return false
	}
	if t := typeOf(v); t == tArray || t == tObject {
		return f.types&t != 0
	}
	return c.misfit(*f, v) == ""
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
		if !allowed || (len(a) > 0 && len(b) > 0 && c.disjoint(a, b, depth+1)) {
			return true
		}
	}
	return false
}
