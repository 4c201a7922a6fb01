package grammar

import "slices"

// object matches the objects of flat. Members come in the order of the schema. Others are
// only written where additionalProperties or patternProperties ask for them, where
// minProperties needs them, or where the schema says nothing about members at all: a model
// should not invent what nobody will read.
func (c *compiler) object(flat flatSchema) *expr {
	out := &object{space: c.space}
	out.min, out.max = span(flat.schemas, "minProperties", "maxProperties")
	if out.max >= 0 && out.min > out.max {
		return because(firstKeyword(flat.schemas, "minProperties"), "minProperties %d is above maxProperties %d", out.min, out.max)
	}
	c.checkUnevaluated(flat.schemas)
	said := c.memberNames(flat.schemas)
	if out.min > 0 {
		out.at = firstKeyword(flat.schemas, "minProperties")
	}
	due, dead := c.knownMembers(out, flat.schemas, said)
	switch {
	case dead != nil:
		return dead
	case out.max >= 0 && due > out.max:
		return because(firstKeyword(flat.schemas, "maxProperties"), "maxProperties is %d, and %d members are required", out.max, due)
	}
	// Bounds that hold anyway go: with them the automaton has states for each number.
	if out.min <= due {
		out.min = 0
	}
	if out.max >= len(out.members) && !said.open && len(said.patterns) == 0 {
		out.max = -1
	}
	if out.extra = c.extra(flat.schemas, said, nil); out.extra != nil && c.within != nil {
		c.ignore(c.within, "uniqueItems cannot be held to for objects whose members may have any names, since they may come in any order: list them in properties, with additionalProperties false")
	}
	// Members with other names must make up for what is missing. JSON allows a name once, so
	// two or more of them must differ.
	missing := out.min - len(out.members)
	if missing > 0 && out.extra == nil {
		return because(out.at, "minProperties is %d, and only %d members are allowed", out.min, len(out.members))
	}
	// Two names can only be equal where two members are not known by name. Where known members
	// may be left out, what is missing is not known either; then few are told apart in any case.
	severalUnknown := out.min-due > 1 && out.extra != nil
	if severalUnknown && (missing > 1 || out.min <= maxDiffer) {
		c.differ(out, flat.schemas, said, missing)
	}
	return &expr{op: opObject, object: out}
}

// knownMembers adds the members with known names in order, and returns how many of them
// are required. dead, if it is not nil, says why no object can match.
func (c *compiler) knownMembers(out *object, schemas []*value, said *names) (required int, dead *expr) {
	for at := 0; ; at++ {
		if at == len(said.known) {
			// If they are needed, widen appends names that no schema asks for to known.
			tooFew := out.min > len(out.members)
			if !tooFew || !said.widen(schemas) {
				return required, nil
			}
		}
		name := said.known[at]
		ok := c.member(out, schemas, said, name)
		if said.required[name] {
			if !ok {
				return 0, because(firstKeyword(schemas, "required"), "the required member %.60q is not allowed by its own schema, additionalProperties, unevaluatedProperties or propertyNames", name)
			}
			required++
		}
		if c.budget.spend(8+len(name)) || c.err != nil {
			return 0, never
		}
	}
}

// member adds the member name to out, if it is allowed.
func (c *compiler) member(out *object, schemas []*value, said *names, name string) bool {
	asked, ok := c.property(schemas, said.patterns, name)
	if ok = ok && !said.none && (said.allowed == nil || said.allowed.matches(quoted(name))); ok {
		key := `"` + quoted(name) + `":`
		out.members = append(out.members, member{key: key, value: cat(c.colon, c.all(asked)), required: said.required[name]})
	}
	return ok
}

// extra matches a member with a name that is not known, and that by accepts if there
// is one, or is nil.
func (c *compiler) extra(schemas []*value, said *names, by *automaton) *expr {
	if (len(said.patterns) == 0 && !said.open) || said.none || c.err != nil {
		return nil
	}
	// Names that no keyword lists, of the class that is asked for.
	free, ok := c.others(said.allowed, said.known)
	if ok && by != nil {
		free, ok = c.narrow(free, by, false)
	}
	if !ok {
		return nil
	}
	var out []*expr
	// One alternative for each set of patterns: who matches several is held to all of them.
	for chosen := range 1 << len(said.patterns) { // a bit for each pattern that a name matches
		if chosen == 0 && !said.open {
			continue
		}
		values := said.values(schemas, chosen)
		if slices.ContainsFunc(values, isFalse) {
			continue
		}
		names, ok := free, true // those that match the chosen patterns and no other
		for i, named := range said.patterns {
			if names, ok = c.narrow(names, named.names, chosen>>i&1 == 0); !ok {
				break
			}
		}
		if !ok {
			continue
		}
		key := c.measuredText(0, -1)
		if names != nil {
			key = cat(lit(`"`), machine(names), lit(`"`))
		}
		out = append(out, cat(key, lit(":"), c.colon, c.all(values)))
	}
	if len(out) == 0 {
		return nil
	}
	// differ puts many such rules side by side; one automaton for all would be large.
	rule := c.rule("member", alt(out...))
	c.rules[rule.rule].call = by != nil
	return rule
}
