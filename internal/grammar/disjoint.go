package grammar

// oneOf is compiled as anyOf, which allows the same if no value meets two alternatives.
// Here that is proved, or the schema refused: nothing is assumed to be disjoint.

import "slices"

// exclusive returns alternatives that say as anyOf what those of a oneOf say: these
// themselves if no value meets two of them, otherwise each without the others.
func (c *compiler) exclusive(group *value) *value {
	if made, ok := c.groups[group]; ok {
		return made
	}
	c.groups[group] = group // while it is looked at
	overlaps := map[int][]int{}
	first := [2]int{-1, -1}
	for i, later := range group.vals {
		for j, earlier := range group.vals[:i] {
			if len(group.vals) == 2 && c.print(later) == c.print(earlier) {
				c.fail(invalid(group.path(), "no value can match: both alternatives say the same, and exactly one has to hold: leave one out"))
			}
			if c.err == nil && !c.disjoint([]*value{later}, []*value{earlier}, 0) && c.budget.err == nil {
				overlaps[i], overlaps[j] = append(overlaps[i], j), append(overlaps[j], i)
				if first[0] < 0 {
					first = [2]int{j, i}
				}
			}
		}
	}
	if len(overlaps) == 0 || c.err != nil {
		return group
	}
	made := c.apartFrom(group, overlaps)
	if made == nil {
		c.fail(unsupported(group.path(), "alternatives %d and %d may both match: use anyOf, or give both a required property with different constants", first[0], first[1]))
		return group
	}
	c.groups[group] = made
	return made
}

// maxCompare is how deep disjoint looks into properties.
const maxCompare = 3

// disjoint reports whether it is certain that no value meets both a and b.
func (c *compiler) disjoint(a, b []*value, depth int) bool {
	if depth > maxCompare || c.budget.spend(8) {
		return false
	}
	// Every alternative of a must exclude every one of b.
	for _, x := range c.expand(a) {
		for _, y := range c.expand(b) {
			left, right := c.flatten(x), c.flatten(y)
			if c.err != nil || !c.apart(&left, &right, depth) {
				return false
			}
		}
	}
	return c.err == nil
}

// apart reports whether it is certain that no value meets both x and y.
func (c *compiler) apart(x, y *flatSchema, depth int) bool {
	if c.budget.spend(32 + 8*(len(x.enum)+len(y.enum))) {
		return false
	}
	// Of a list of values each can be tried.
	if !x.enumOnly {
		x, y = y, x
	}
	if x.enumOnly {
		return !slices.ContainsFunc(x.enum, func(value *value) bool { return c.may(x, value) && c.may(y, value) })
	}
	// Otherwise every type that both allow must be excluded by its own keywords. Nothing can
	// exclude null, and arrays are not looked into.
	both := x.types & y.types
	if both&(tNull|tBool|tArray) != 0 {
		return false
	}
	if both&tNumber != 0 && x.numeric.overlaps(y.numeric) {
		return false
	}
	if both&tString != 0 && !c.stringsApart(x.schemas, y.schemas) {
		return false
	}
	return both&tObject == 0 || c.objectsApart(x.schemas, y.schemas, depth) || c.objectsApart(y.schemas, x.schemas, depth)
}

// may reports whether value may meet flat; it errs on the side of yes.
func (c *compiler) may(flat *flatSchema, value *value) bool {
	if flat.enumOnly && !flat.lists(value) {
		return false
	}
	if t := typeOf(value); t == tArray || t == tObject {
		return flat.types&t != 0
	}
	return c.misfit(*flat, value) == ""
}

// stringsApart reports whether lengths or patterns exclude each other.
func (c *compiler) stringsApart(x, y []*value) bool {
	lo, hi := lengthSpan(append(slices.Clone(x), y...))
	if hi >= 0 && lo > hi {
		return true
	}
	left, leftOK := c.patterns(x)
	right, rightOK := c.patterns(y)
	if !leftOK || !rightOK || left == nil || right == nil {
		return false
	}
	_, err := product(left, right, false, c.budget)
	return err == errNoMatch
}

// objectsApart looks for a property that x requires and y forbids, or holds to
// something else.
func (c *compiler) objectsApart(x, y []*value, depth int) bool {
	names, required := propertyNames(x)
	patternsX, patternsY := c.patternProperties(x), c.patternProperties(y)
	for _, name := range names {
		if !required[name] {
			continue
		}
		first, _ := c.property(x, patternsX, name)
		second, allowed := c.property(y, patternsY, name)
		if !allowed || (len(first) > 0 && len(second) > 0 && c.disjoint(first, second, depth+1)) {
			return true
		}
	}
	return false
}
