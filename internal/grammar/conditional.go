package grammar

// Keywords that ask for something under a condition become anyOf: the condition fails, or
// what is asked for holds. Where alternatives of a oneOf may both match, each is taken
// without the others. The opposites of conditions are those of not (complement).

// choices returns what schema's conditional keywords say as anyOf, each a list of schemas.
func (c *compiler) choices(schema *value) []*value {
	if made, ok := c.conditions[schema]; ok {
		return made
	}
	var out []*value
	for i, key := range schema.keys {
		keyword := schema.vals[i]
		switch key {
		case "dependencies", "dependentRequired", "dependentSchemas":
			for at, name := range keyword.keys {
				asked := keyword.vals[at]
				if asked.kind == jsonArray {
					asked = made("required", asked)
				}
				without := made("properties", made(name, &value{kind: jsonFalse}))
				out = append(out, within(keyword, list(without, asked)))
			}
		case "if":
			met, failed := []*value{keyword}, []*value{made("not", keyword)}
			if then := schema.get("then"); then != nil {
				met = append(met, then)
			}
			if other := schema.get("else"); other != nil {
				failed = append(failed, other)
			}
			if len(met)+len(failed) == 2 { // neither, so if alone says nothing
				continue
			}
			out = append(out, within(keyword, list(made("allOf", list(met...)), made("allOf", list(failed...)))))
		}
	}
	c.conditions[schema] = out
	return out
}

// within gives made the place of keyword in errors.
func within(keyword, made *value) *value {
	made.parent, made.name = keyword.parent, keyword.name
	return made
}

// apartFrom returns the alternatives of a oneOf, those that others may match too without
// these, or nil if that cannot be said.
func (c *compiler) apartFrom(group *value, overlaps map[int][]int) *value {
	out := &value{kind: jsonArray, parent: group.parent, name: group.name}
	for i, alternative := range group.vals {
		if len(overlaps[i]) == 0 {
			out.vals = append(out.vals, alternative)
			continue
		}
		all := []*value{alternative}
		for _, other := range overlaps[i] {
			if !c.deniable(group.vals[other], 0) {
				return nil
			}
			all = append(all, made("not", group.vals[other]))
		}
		out.vals = append(out.vals, within(alternative, made("allOf", list(all...))))
	}
	return out
}
