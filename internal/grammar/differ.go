package grammar

// An automaton cannot remember names, so it cannot tell whether two members have the same
// one. It can remember classes of names: two names of different classes differ. Where
// minProperties needs two or more members with names of their own, it asks for as many
// classes, 8 of them by one byte of the name, and keeps the set of those seen in rules.

const (
	nameClasses = 8 // of names that are not known, by their first byte: names of two classes differ
	maxDiffer   = 4 // names that are not known, and must differ for minProperties
)

// differ writes how out may have two or more members with names that are not known and
// differ, of which at least missing are needed: as many classes of names must have been
// there. Names of one class may differ too, but do not count.
func (c *compiler) differ(out *object, schemas []*value, said *names, missing int) {
	// With one pattern alone names have its beginning in common: the byte behind it counts.
	all := said.allowed
	if ok := true; !said.open && len(said.patterns) == 1 {
		if all, ok = c.narrow(all, said.patterns[0].names, false); !ok {
			return
		}
	}
	differing := &differing{compiler: c, rules: map[[2]int]*expr{}, again: out.max < 0, comma: cat(lit(","), c.space)}
	found := 0
	for i := range differing.member {
		if differing.member[i] = c.extra(schemas, said, nameClass(all, i)); differing.member[i] != nil {
			found++
		}
	}
	if missing > max(1, min(found, maxDiffer)) {
		c.fail(unsupported(out.at.path(), "minProperties %d asks for %d names that the schema does not list, at most %d of which can be kept apart: list names in properties", out.min, missing, min(found, maxDiffer)))
	}
	// How many are needed depends on how many known members were there: an entry for each
	// number, at the beginning of the object and behind a member.
	out.differ = make([][2]*expr, maxDiffer+1)
	for least := max(missing, 2); least <= min(out.min, maxDiffer) && c.err == nil; least++ {
		out.differ[least] = [2]*expr{differing.next(0, least, empty), differing.next(0, least, differing.comma)}
	}
}

// nameClass accepts the i-th class of names: the first byte that not all have in common
// decides. all accepts the names; nil = any.
func nameClass(all *automaton, i int) *automaton {
	class := &automaton{start: []int32{0}, need: []int32{0}, room: []int32{0}}
	add := func(from state) { class.states = append(class.states, from) }
	// Bytes that all names begin with say nothing: they are read first.
	if all != nil {
		for from := all.states[all.start[0]]; !from.accept && len(from.edges) == 1 && from.edges[0].lo == from.edges[0].hi; from = all.states[from.edges[0].to] {
			add(state{edges: []edge{{lo: from.edges[0].lo, hi: from.edges[0].lo, to: int32(len(class.states) + 1)}}})
		}
	}
	last := int32(len(class.states) + 1)
	var from state
	for b := i; b < 256; b += nameClasses {
		from.edges = append(from.edges, edge{lo: byte(b), hi: byte(b), to: last})
	}
	add(from)
	add(state{accept: true, edges: []edge{{hi: 255, to: last}}})
	return class
}

// A differing writes the rules of differ, one for each set of classes seen and number of
// classes to come.
type differing struct {
	compiler *compiler
	member   [nameClasses]*expr // by class: a member with such a name; nil = there is none
	rules    map[[2]int]*expr   // by seen and left, those that begin with a comma
	again    bool               // members may be more than are missing
	comma    *expr
}

// next matches members until left classes that are not in seen, a set of bits, were there.
// The first one comes after comma.
func (d *differing) next(seen, left int, comma *expr) *expr {
	if left == 0 {
		return empty
	}
	rule, ok := d.rules[[2]int{seen, left}]
	if ok && comma != empty {
		return rule
	}
	if rule = d.compiler.rule("differing", never); comma != empty {
		d.rules[[2]int{seen, left}] = rule
	}
	var sub []*expr
	for class, member := range d.member {
		// A class seen before may come again, as long as nothing bounds the members above.
		switch {
		case member == nil || d.compiler.budget.spend(1):
		case seen>>class&1 == 0:
			sub = append(sub, cat(member, d.next(seen|1<<class, left-1, d.comma)))
		case d.again:
			sub = append(sub, cat(member, d.next(seen, left, d.comma)))
		}
	}
	d.compiler.rules[rule.rule].body = cat(comma, alt(sub...))
	return rule
}
