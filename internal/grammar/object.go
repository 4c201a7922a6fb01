package grammar

import "slices"

// object matches the objects of f. Members come in the order of the schema. Others
// are only written where additionalProperties or patternProperties ask for them, where
// minProperties needs them, or where the schema says nothing about members at all: a
// model should not invent what nobody will read.
func (c *compiler) object(flat flatSchema) *expr {
	out := &object{space: c.space}
	out.min, out.max = span(flat.schemas, "minProperties", "maxProperties")
	if out.max >= 0 && out.min > out.max {
		return because(firstKeyword(flat.schemas, "minProperties"), "minProperties %d is above maxProperties %d", out.min, out.max)
	}
	c.checkUnevaluated(flat.schemas)
	names := c.memberNames(flat.schemas)
	if out.min > 0 {
		out.at = firstKeyword(flat.schemas, "minProperties")
	}
	due, dead := c.knownMembers(out, flat.schemas, names)
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
	if out.max >= len(out.members) && !names.open && len(names.patterns) == 0 {
		out.max = -1
	}
	out.extra = c.extra(flat.schemas, names, nil)
	missing := out.min - len(out.members)
	if missing > 0 && out.extra == nil {
		return because(out.at, "minProperties is %d, and only %d members are allowed", out.min, len(out.members))
	}
	if (missing > 1 || out.min <= maxDiffer) && out.min-due > 1 && out.extra != nil {
		c.differ(out, flat.schemas, names, missing)
	}
	return &expr{op: opObject, object: out}
}

// knownMembers adds the members with known names in order, and returns how many of them
// are required. dead, if it is not nil, says why no object can match.
func (c *compiler) knownMembers(out *object, schemas []*value, known *names) (required int, dead *expr) {
	for at := 0; ; at++ {
		if at == len(known.known) {
			tooFew := out.min > len(out.members)
			if !tooFew || !known.widen(schemas) {
				return required, nil
			}
		}
		name := known.known[at]
		ok := c.member(out, schemas, known, name)
		if known.required[name] {
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

// member adds the member name to o, if it is allowed.
func (c *compiler) member(out *object, schemas []*value, known *names, name string) bool {
	met, ok := c.property(schemas, known.patterns, name)
	if ok = ok && !known.none && (known.allowed == nil || known.allowed.matches(quoted(name))); ok {
		key := `"` + quoted(name) + `":`
		out.members = append(out.members, member{key: key, value: cat(c.colon, c.all(met)), required: known.required[name]})
	}
	return ok
}

// extra matches a member with a name that is not known, and that by accepts if there
// is one, or is nil.
func (c *compiler) extra(schemas []*value, known *names, by *automaton) *expr {
	if (len(known.patterns) == 0 && !known.open) || known.none || c.err != nil {
		return nil
	}
	free, ok := c.others(known.allowed, known.known)
	if ok && by != nil {
		free, ok = c.narrow(free, by, false)
	}
	if !ok {
		return nil
	}
	var out []*expr
	for chosen := range 1 << len(known.patterns) { // a bit for each pattern that a name matches
		if chosen == 0 && !known.open {
			continue
		}
		values := known.values(schemas, chosen)
		if slices.ContainsFunc(values, isFalse) {
			continue
		}
		names, ok := free, true // those that match the chosen patterns and no other
		for i, named := range known.patterns {
			if names, ok = c.narrow(names, named.names, chosen>>i&1 == 0); !ok {
				break
			}
		}
		if !ok {
			continue
		}
		key := c.shared("string", func() *expr { return anyString })
		if names != nil {
			key = cat(lit(`"`), machine(names), lit(`"`))
		}
		out = append(out, cat(key, lit(":"), c.colon, c.all(values)))
	}
	if len(out) == 0 {
		return nil
	}
	rule := c.rule("member", alt(out...))
	c.rules[rule.rule].call = by != nil
	return rule
}
