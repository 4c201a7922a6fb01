package grammar

// array matches the arrays of flat: elements with schemas of their own one by one, then
// the others as a loop. It is put together from the end, since after each element the
// array may end or not depending on how many there were.
func (c *compiler) array(flat flatSchema) *expr {
	lo, hi := span(flat.schemas, "minItems", "maxItems")
	fixed := 0 // elements with schemas of their own
	for _, schema := range flat.schemas {
		prefix, rest := tuple(schema)
		fixed = max(fixed, len(prefix))
		if rest.is(jsonFalse) && (hi < 0 || len(prefix) < hi) {
			hi = len(prefix)
		}
	}
	if hi >= 0 && lo > hi {
		return because(firstKeyword(flat.schemas, "minItems"), "minItems is %d, and at most %d elements are allowed", lo, hi)
	}
	var differing *uniqueList
	if keyword := unique(flat); keyword != nil && (hi < 0 || hi > 1) {
		differing = &uniqueList{keyword: keyword, schemas: flat.schemas, tuple: fixed > 0}
		defer func(within *value) { c.within = within }(c.within)
		c.within = keyword
	}
	// Bounds are checked; what is beyond the upper one need not be written.
	if hi >= 0 {
		fixed = min(fixed, hi)
	}
	comma := cat(lit(","), c.space)
	closing := cat(c.space, lit("]"))
	// The others, each behind a comma: as many as minItems lacks, to what maxItems leaves.
	rest, from := closing, fixed // what follows the first elements, and how many these are
	if hi < 0 || hi > fixed {
		from = max(fixed, 1) // the very first element has no comma
		more := cat(comma, c.element(flat, fixed, differing, lo))
		most := -1
		if hi >= 0 {
			most = hi - from
		}
		rest = c.elements(more, closing, max(lo-from, 0), most)
	}
	// Before element i: the element and what follows it, or the end if minItems is met.
	for i := from - 1; i >= 0; i-- {
		part, end := cat(c.element(flat, i, differing, min(i+1, lo)), rest), closing
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
	body := cat(lit("["), c.space, rest)
	if differing != nil {
		return c.uniqueArray(differing, body)
	}
	return body
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

// element matches the element with number at, which in a list of elements that differ has to
// have so many values.
func (c *compiler) element(flat flatSchema, at int, differing *uniqueList, needed int) *expr {
	var schemas []*value
	for _, schema := range flat.schemas {
		prefix, rest := tuple(schema)
		if at < len(prefix) {
			schemas = append(schemas, prefix[at])
		} else if rest != nil {
			schemas = append(schemas, rest)
		}
	}
	c.budget.spend(16)
	out := c.all(schemas)
	if differing != nil {
		out.element = true
		differing.elements = append(differing.elements, elementCount{out, needed})
	}
	return out
}

// tuple returns the schemas of the first elements and that of the others, nil = any.
// A list as items is how tuples were written before 2020-12.
func tuple(schema *value) (prefix []*value, rest *value) {
	if list := schema.get("prefixItems"); list != nil {
		prefix = list.vals
	}
	rest = schema.get("items")
	if rest.is(jsonArray) {
		return rest.vals, schema.get("additionalItems")
	}
	return prefix, rest
}
