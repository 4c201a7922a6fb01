package grammar

import "math/big"

// An automaton cannot remember elements, so it cannot tell whether one comes twice. Where the
// elements are a few values it can remember which of them were there: with each set of them
// as a state, in any order; with more values, in the order of the schema. Elements without
// number may come twice: then the keyword counts as ignored, which is told.

const (
	maxSets     = 256 // of values that may have been there, in any order
	maxDistinct = 512 // values, in their order, times the number of those that may have been
)

// unique returns the keyword of flat's schemas that asks for elements that differ, or nil.
func unique(flat flatSchema) *value {
	for _, schema := range flat.schemas {
		if keyword := schema.get("uniqueItems"); keyword.is(jsonTrue) {
			return keyword
		}
	}
	return nil
}

// finite returns the values that elements may have, if they can be listed.
func (c *compiler) finite(schemas []*value) (all []*value, ok bool) {
	known := map[string]bool{}
	add := func(one *value) {
		if text := one.canonical(); !known[text] {
			known[text] = true
			all = append(all, one)
		}
	}
	for _, alternative := range c.expand(schemas) {
		flat := c.flatten(alternative)
		switch {
		case c.err != nil:
			return nil, false
		case flat.enumOnly:
			for _, one := range flat.enum {
				if c.misfit(flat, one) == "" {
					add(one)
				}
			}
			continue
		case flat.types&^(tNull|tBool|tInteger) != 0 || flat.open != nil:
			return nil, false
		}
		if flat.types&tNull != 0 {
			add(&value{kind: jsonNull})
		}
		for _, kind := range []byte{jsonTrue, jsonFalse} {
			if one := (&value{kind: kind}); flat.types&tBool != 0 && !flat.excludes(one) {
				add(one)
			}
		}
		if flat.types&tInteger != 0 && !flat.integers(add) {
			return nil, false
		}
	}
	return all, len(all) <= maxDistinct
}

// integers calls add with the whole numbers that f allows, or reports that they are many.
func (f *flatSchema) integers(add func(*value)) bool {
	low, up := f.numeric.low.value, f.numeric.up.value
	if low == nil || up == nil || new(big.Rat).Sub(up, low).Cmp(big.NewRat(maxDistinct, 1)) > 0 {
		return false
	}
	// The first is the bound itself, rounded up.
	first := new(big.Int).Neg(new(big.Int).Div(new(big.Int).Neg(low.Num()), low.Denom()))
	for at := new(big.Rat).SetInt(first); at.Cmp(up) <= 0; at = new(big.Rat).Add(at, big.NewRat(1, 1)) {
		one := &value{kind: jsonNumber, text: at.Num().String()}
		if f.numeric.holds(at) && !f.excludes(one) {
			add(one)
		}
	}
	return true
}

// distinct matches arrays of lo to hi of values, each at most once; hi is at most their number.
func (c *compiler) distinct(values []*value, lo, hi int) (*expr, bool) {
	written := make([]*expr, len(values))
	for i, one := range values {
		written[i] = one.expr(c.space, c.colon)
	}
	d := &differentElements{compiler: c, values: written, lo: lo, hi: hi, rules: map[[2]int]*expr{}}
	switch {
	case sets(len(values), hi) <= maxSets:
		d.next = d.anyOrder
	case len(values)*hi <= maxDistinct:
		d.next = d.inOrder
	default:
		return nil, false
	}
	first := d.after(0, 0)
	if hi > 0 {
		first = d.next(0, 0)
	}
	if lo == 0 {
		return cat(lit("["), c.space, alt(lit("]"), first)), true
	}
	return cat(lit("["), c.space, first), true
}

// sets is how many sets of at most most of n values there are, or many.
func sets(n, most int) int {
	total, these := 0, 1 // these: sets of size values
	for size := 0; size <= most && total <= maxSets; size++ {
		total += these
		these = these * (n - size) / (size + 1)
	}
	return total
}

// A differentElements writes the rules of distinct. seen says what may not come again: a bit
// for each value, or in order the number of values that are behind.
type differentElements struct {
	compiler *compiler
	values   []*expr
	lo, hi   int
	rules    map[[2]int]*expr // by seen and count: an element and what follows it
	next     func(seen, count int) *expr
}

// after is what may follow count elements: the end, or a comma and a further one.
func (d *differentElements) after(seen, count int) *expr {
	var sub []*expr
	if count >= d.lo {
		sub = append(sub, cat(d.compiler.space, lit("]")))
	}
	if count < d.hi {
		sub = append(sub, cat(lit(","), d.compiler.space, d.next(seen, count)))
	}
	return alt(sub...)
}

// rule returns the rule for seen and count, made when it is first asked for.
func (d *differentElements) rule(seen, count int, body func() *expr) *expr {
	key := [2]int{seen, count}
	made, ok := d.rules[key]
	if !ok {
		made = d.compiler.rule("different", never)
		d.rules[key] = made
		d.compiler.rules[made.rule].body = body()
	}
	return made
}

// anyOrder matches one of the values whose bits are not in seen, and what follows.
func (d *differentElements) anyOrder(seen, count int) *expr {
	return d.rule(seen, count, func() *expr {
		var sub []*expr
		for i, one := range d.values {
			if seen>>i&1 == 0 && !d.compiler.budget.spend(4) {
				sub = append(sub, cat(one, d.after(seen|1<<i, count+1)))
			}
		}
		return alt(sub...)
	})
}

// inOrder matches one of the values behind the first seen ones, and what follows.
func (d *differentElements) inOrder(seen, count int) *expr {
	if seen == len(d.values) || d.compiler.budget.spend(4) {
		return never
	}
	return d.rule(seen, count, func() *expr {
		return alt(cat(d.values[seen], d.after(seen+1, count+1)), d.inOrder(seen+1, count))
	})
}
