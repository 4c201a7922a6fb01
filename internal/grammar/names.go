package grammar

import "slices"

// Names are what the schemas of an object say about names of members. Names are known if
// properties or required list them. Others are written if open, or where a pattern of
// patternProperties matches.
type names struct {
	known    []string // in order: properties, then required
	required map[string]bool
	patterns []namePattern
	open     bool       // names that match no pattern are written, too
	allowed  *automaton // what propertyNames leaves of names; nil = any
	listed   []string   // all names that it leaves, if it lists them
	none     bool       // it leaves none
}

func (c *compiler) memberNames(schemas []*value) *names {
	out := &names{open: isOpen(schemas)}
	if out.known, out.required = propertyNames(schemas); c.sorted {
		slices.Sort(out.known)
	}
	c.readPropertyNames(schemas, out)
	out.patterns = c.patternProperties(schemas)
	return out
}

// widen lets in more names than the schemas ask for, because there are too few. It
// reports whether there are further known ones.
func (n *names) widen(schemas []*value) bool {
	closed := func(schema *value) bool {
		return isClosed(schema) || isFalse(schema.get("additionalProperties"))
	}
	n.open = n.open || !slices.ContainsFunc(schemas, closed)
	known := len(n.known)
	for _, name := range n.listed { // each only once
		if !slices.Contains(n.known, name) && (n.open || len(n.patterns) > 0) {
			n.known = append(n.known, name)
		}
	}
	n.listed = nil
	return len(n.known) > known
}

// propertyNames returns the names that schemas know, in order.
func propertyNames(schemas []*value) (names []string, required map[string]bool) {
	known := map[string]bool{}
	required = map[string]bool{}
	add := func(name string) {
		if !known[name] {
			known[name] = true
			names = append(names, name)
		}
	}
	for _, schema := range schemas {
		if properties := schema.get("properties"); properties != nil {
			for _, name := range properties.keys {
				add(name)
			}
		}
	}
	for _, schema := range schemas {
		if list := schema.get("required"); list != nil {
			for _, name := range list.vals {
				add(name.text)
				required[name.text] = true
			}
		}
	}
	return names, required
}

// readPropertyNames notes what the keyword propertyNames leaves of names.
func (c *compiler) readPropertyNames(schemas []*value, out *names) {
	var all []*value
	for _, schema := range schemas {
		if form := schema.get("propertyNames"); form != nil {
			all = append(all, form)
		}
	}
	if len(all) == 0 {
		return
	}
	// A name is a string: of its schema the keywords for strings count.
	alternatives := c.expand(all)
	if c.err == nil && len(alternatives) > 1 {
		c.fail(unsupported(all[0].path(), "anyOf in propertyNames is not supported: use a pattern"))
	}
	if out.none = c.err != nil || len(alternatives) == 0; out.none {
		return
	}
	flat := c.flatten(alternatives[0])
	if out.none = flat.types&tString == 0; out.none {
		return
	}
	c.naming = true
	defer func() { c.naming = false }()
	ok := true
	if flat.enumOnly { // a list of names, which widen may write one by one
		var sub []*expr
		for _, value := range flat.enum {
			if value.kind == jsonString && c.misfit(flat, value) == "" {
				out.listed = append(out.listed, value.text)
				sub = append(sub, lit(value.text))
			}
		}
		var err error
		if out.allowed, err = simple(alt(sub...), true, c.budget); err != nil && err != errNoMatch {
			c.fail(located(err, flat.path()))
		}
		ok = err == nil
	} else if out.allowed, ok = c.patterns(flat.schemas); ok {
		out.allowed, ok = c.measured(out.allowed, flat.schemas, false)
	}
	out.none = !ok
}

// A namePattern is one entry of patternProperties.
type namePattern struct {
	owner  *value     // the schema with the keyword
	names  *automaton // accepts the names that match, as they are written inside quotes
	schema *value     // what the members' values must meet
}

// maxPatterns bounds patternProperties: each set of them, of 32, is a class of names.
const maxPatterns = 5

// patternProperties compiles the name patterns of schemas that some name can match.
func (c *compiler) patternProperties(schemas []*value) []namePattern {
	var out []namePattern
	for _, schema := range schemas {
		patterns := schema.get("patternProperties")
		if patterns == nil {
			continue
		}
		for at, text := range patterns.keys {
			names, err := compilePattern(text, pattern{search: true, quoted: true, where: patterns.vals[at].path()}, c.budget)
			if err == errNoMatch {
				continue
			}
			if err != nil {
				c.fail(located(err, patterns.vals[at].path()))
				return nil
			}
			if out = append(out, namePattern{schema, names, patterns.vals[at]}); len(out) > maxPatterns {
				c.fail(unsupported(patterns.path(), "more than %d patterns hold at once: use fewer", maxPatterns))
				return nil
			}
		}
	}
	return out
}

// property returns what the value of a known name must meet. Not ok: it is forbidden.
func (c *compiler) property(schemas []*value, patterns []namePattern, name string) ([]*value, bool) {
	var out []*value
	for _, schema := range schemas {
		// additionalProperties sees the properties and patterns of its own schema only.
		own := false
		if properties := schema.get("properties"); properties != nil {
			if its := properties.get(name); its != nil {
				out, own = append(out, its), true
			}
		}
		for _, named := range patterns {
			if named.owner == schema && named.names.matches(quoted(name)) {
				out, own = append(out, named.schema), true
			}
		}
		if additional := schema.get("additionalProperties"); additional != nil && !own {
			out = append(out, additional)
		}
	}
	forbidden := len(out) == 0 && slices.ContainsFunc(schemas, isClosed)
	return out, !forbidden && !slices.ContainsFunc(out, isFalse)
}

// values returns what the value of a member must meet whose name is not known and matches
// the chosen patterns, one bit each. A schema's own patterns count, and where none of
// them matches its additionalProperties.
func (n *names) values(schemas []*value, chosen int) []*value {
	var out []*value
	for _, schema := range schemas {
		own := false
		for i, named := range n.patterns {
			if named.owner == schema && chosen>>i&1 == 1 {
				out, own = append(out, named.schema), true
			}
		}
		if additional := schema.get("additionalProperties"); additional != nil && !own {
			out = append(out, additional)
		}
	}
	return out
}

// isClosed reports whether schema leaves out members that none of its parts know.
func isClosed(schema *value) bool {
	return isFalse(schema.get("unevaluatedProperties"))
}

// checkUnevaluated refuses schemas that are closed but for their own parts beside others
// that know members: these would have to be told apart.
func (c *compiler) checkUnevaluated(schemas []*value) {
	for _, schema := range schemas {
		if !isClosed(schema) {
			continue
		}
		// Everything that schema asks for, at any depth, belongs to it.
		parts := []*value{schema}
		for i := 0; i < len(parts) && !c.budget.spend(1); i++ {
			parts = append(parts, c.parts(parts[i])...)
		}
		for _, other := range schemas {
			knowsMembers := other.get("properties") != nil || other.get("patternProperties") != nil || other.get("additionalProperties") != nil
			if knowsMembers && !slices.Contains(parts, other) {
				c.fail(unsupported(schema.path(), "unevaluatedProperties does not see the members of schemas beside it: put it where allOf, anyOf or $ref joins them"))
			}
		}
	}
}

// isOpen reports whether names that match nothing may be written.
func isOpen(schemas []*value) bool {
	silent, asked := true, false
	for _, schema := range schemas {
		additional := schema.get("additionalProperties")
		if isFalse(additional) {
			return false
		}
		asked = asked || additional != nil
		silent = silent && additional == nil && schema.get("properties") == nil && schema.get("patternProperties") == nil && !isClosed(schema)
	}
	return silent || asked
}

// others returns names, nil = any, without the known ones. Not ok: nothing is left.
func (c *compiler) others(names *automaton, known []string) (*automaton, bool) {
	if len(known) == 0 {
		return names, true
	}
	var sub []*expr
	for _, name := range known {
		sub = append(sub, lit(name))
	}
	by, err := simple(alt(sub...), true, c.budget)
	if err == nil {
		return c.narrow(names, by, true)
	}
	c.fail(located(err, "#"))
	return nil, false
}

// narrow returns what of names, nil = any, by accepts too, or with not, does not. Not ok:
// nothing is left, or an error was noted.
func (c *compiler) narrow(names, by *automaton, not bool) (*automaton, bool) {
	var err error
	if names == nil {
		if names, err = simple(star(class(anyRune...)), true, c.budget); err != nil {
			c.fail(err)
			return nil, false
		}
	}
	names, err = product(names, by, not, c.budget)
	if err != nil && err != errNoMatch {
		c.fail(located(err, "#"))
	}
	return names, err == nil
}
