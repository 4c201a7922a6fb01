package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// Filters on sequences and mappings.

// listOf copies items into a new list.
func (st *state) listOf(items []Value) Value {
	if !st.charge(entryBytes + len(items)*valueBytes) {
		return nil
	}
	return &List{items: slices.Clone(items)}
}

// generator wraps the result of a lazy filter.
func generator(items []Value) Value { return &List{items: items, kind: kindGenerator} }

func lengthFilter(st *state, in Value, _ args) Value {
	count, ok := st.length(in)
	if !ok {
		return st.fail("%s has no length", describe(in))
	}
	return int64(count)
}

func first(st *state, in Value, _ args) Value {
	if l, ok := in.(*List); ok && l.kind == kindGenerator && len(l.items) > 0 {
		v := l.items[0]
		l.items = l.items[1:]
		return v
	}
	if items := st.iterate(in); len(items) > 0 {
		return items[0]
	}
	return undefined{name: "first item of an empty sequence"}
}

func last(st *state, in Value, _ args) Value {
	if l, ok := in.(*List); ok && l.kind == kindGenerator {
		return st.fail("last needs a list, found a generator; add |list")
	}
	if items := st.iterate(in); len(items) > 0 {
		return items[len(items)-1]
	}
	return undefined{name: "last item of an empty sequence"}
}

func reverse(st *state, in Value, _ args) Value {
	if s, ok := in.(string); ok {
		n, _ := st.length(s)
		return st.runes(s, int64(n)-1, -1, -1)
	}
	list, _ := st.listOf(st.iterate(in)).(*List)
	if list == nil {
		return nil
	}
	slices.Reverse(list.items)
	return generator(list.items)
}

func items(st *state, in Value, _ args) Value {
	switch d := in.(type) {
	case *Dict:
		return generator(st.view(d, kindItems).items)
	case undefined:
		return generator(nil)
	}
	return st.fail("items needs a mapping, found %s", describe(in))
}

// path is a parsed attribute argument: "a.0.b".
type path []Value

func (st *state) path(value Value) path {
	text, ok := value.(string)
	if !ok {
		return path{value}
	}
	var steps path
	for _, part := range strings.Split(text, ".") {
		if n, err := strconv.ParseInt(part, 10, 64); err == nil && n >= 0 {
			steps = append(steps, n)
			continue
		}
		steps = append(steps, part)
	}
	st.charge(len(steps) * 2 * valueBytes)
	return steps
}

// follow looks the path up in value; what is missing becomes def unless it is nil.
func (st *state) follow(p path, value, def Value) Value {
	for _, part := range p {
		value = st.item(value, part)
		if _, missing := value.(undefined); missing && def != nil {
			value = def
		}
	}
	return value
}

// keyed returns what the items are compared by: themselves or an attribute,
// without case unless the filter was told otherwise.
func (st *state) keyed(items []Value, attribute Value, sensitive bool, def Value) []Value {
	if !st.charge(len(items) * valueBytes) {
		return nil
	}
	var steps path
	if attribute != nil {
		steps = st.path(attribute)
	}
	keys := make([]Value, len(items))
	for i, item := range items {
		if !st.work(64) {
			return nil
		}
		keys[i] = st.follow(steps, item, def)
		if s, ok := keys[i].(string); ok && !sensitive {
			keys[i] = st.convert(s, strings.ToLower)
		}
	}
	return keys
}

// sortedBy returns the positions of keys in stable ascending order.
func (st *state) sortedBy(keys []Value, reverse bool) []int {
	if !st.charge(len(keys) * valueBytes) {
		return nil
	}
	positions := make([]int, len(keys))
	for i := range positions {
		positions[i] = i
	}
	slices.SortStableFunc(positions, func(i, j int) int {
		if st.err != nil {
			return 0
		}
		if reverse {
			return st.order(keys[j], keys[i])
		}
		return st.order(keys[i], keys[j])
	})
	return positions
}

// sortFilter compares lists of the given attributes, so that equal items need
// no order, as in the reference.
func sortFilter(st *state, in Value, passed args) Value {
	items := st.iterate(in)
	attribute, _ := passed.get(2, "attribute")
	names := []Value{attribute}
	if s, ok := attribute.(string); ok {
		names = nil
		for _, name := range strings.Split(s, ",") {
			names = append(names, name)
		}
	}
	if !st.chargeTimes(entryBytes+2*len(names)*valueBytes, int64(len(items))) {
		return nil
	}
	keys := make([]Value, len(items)) // of each item, a list with a value for each name
	for i := range keys {
		keys[i] = NewList()
	}
	for _, name := range names {
		for i, key := range st.keyed(items, name, passed.bool(1, "case_sensitive"), nil) {
			l := keys[i].(*List)
			l.items = append(l.items, key)
		}
	}
	return st.pick(items, st.sortedBy(keys, passed.bool(0, "reverse")))
}

// pick lists items in the order of positions.
func (st *state) pick(items []Value, positions []int) Value {
	if !st.charge(entryBytes + len(positions)*valueBytes) {
		return nil
	}
	out := make([]Value, len(positions))
	for i, p := range positions {
		out[i] = items[p]
	}
	return &List{items: out}
}

func dictSort(st *state, in Value, passed args) Value {
	dict, ok := in.(*Dict)
	if !ok {
		return st.fail("dictsort needs a dict, found %s", describe(in))
	}
	by, _ := passed.text(1, "by", "key")
	index := int64(0)
	switch by {
	case "key":
	case "value":
		index = 1
	default:
		return st.fail("dictsort sorts by key or value, not %q", by)
	}
	items := st.view(dict, kindItems).items
	keys := st.keyed(items, index, passed.bool(0, "case_sensitive"), nil)
	return st.pick(items, st.sortedBy(keys, passed.bool(2, "reverse")))
}

func groupBy(st *state, in Value, passed args) Value {
	items := st.iterate(in)
	attribute, _ := passed.get(0, "attribute")
	def, _ := passed.get(1, "default")
	keys := st.keyed(items, attribute, passed.bool(2, "case_sensitive"), def)
	// Sorted by key, equal keys are neighbours. The name of a group keeps its case.
	groups := NewList()
	var group *List
	var current Value
	for _, at := range st.sortedBy(keys, false) {
		if !st.charge(4 * entryBytes) {
			return nil
		}
		if group == nil || !st.equal(keys[at], current) {
			group, current = NewList(), keys[at]
			name := st.follow(st.path(attribute), items[at], def)
			groups.items = append(groups.items, &List{items: []Value{name, group}, kind: kindTuple, group: true})
		}
		group.items = append(group.items, items[at])
	}
	return groups
}

// extreme is min (sign -1) or max (sign 1).
func (st *state) extreme(in Value, passed args, sign int) Value {
	items := st.iterate(in)
	attribute, _ := passed.get(1, "attribute")
	keys := st.keyed(items, attribute, passed.bool(0, "case_sensitive"), nil)
	if len(keys) == 0 {
		return undefined{name: "extreme of an empty sequence"}
	}
	best := 0
	for i := range keys {
		if st.order(keys[i], keys[best])*sign > 0 {
			best = i
		}
	}
	return items[best]
}

func unique(st *state, in Value, passed args) Value {
	items := st.iterate(in)
	attribute, _ := passed.get(1, "attribute")
	keys := st.keyed(items, attribute, passed.bool(0, "case_sensitive"), nil)
	seen := NewDict()
	var out []Value
	for i, key := range keys {
		before := seen.Len()
		st.put(seen, key, nil)
		if seen.Len() > before {
			out = append(out, items[i])
		}
	}
	return generator(out)
}

func sum(st *state, in Value, passed args) Value {
	total, ok := passed.get(1, "start")
	if !ok {
		total = int64(0)
	}
	attribute, _ := passed.get(0, "attribute")
	for _, v := range st.keyed(st.iterate(in), attribute, true, nil) {
		total = st.binary("+", total, v)
	}
	return total
}

func join(st *state, in Value, passed args) Value {
	sep, ok := passed.get(0, "d")
	if !ok {
		sep = ""
	}
	attribute, _ := passed.get(1, "attribute")
	between := st.str(sep)
	items := st.keyed(st.iterate(in), attribute, true, nil)
	return st.capture(func() {
		for i, item := range items {
			if i > 0 {
				st.emit(between)
			}
			st.print(item)
		}
	})
}

// joinStrict is str.join, which takes only strings.
func (st *state) joinStrict(sep string, items []Value) Value {
	return st.capture(func() {
		for i, item := range items {
			text, ok := item.(string)
			if !ok {
				st.fail("str.join needs strings, found %s", describe(item))
			}
			if i > 0 {
				st.emit(sep)
			}
			st.emit(text)
		}
	})
}

// lazy returns the items of the input of map, select and their relatives, for
// which everything false is empty.
func (st *state) lazy(in Value) []Value {
	if !truth(in) {
		return nil
	}
	return st.iterate(in)
}

// mapFilter is map(attribute=...) or map(filter, arguments...).
func mapFilter(st *state, in Value, passed args) Value {
	source := st.lazy(in)
	if !st.charge(len(source) * valueBytes) {
		return nil
	}
	out := make([]Value, len(source))
	if attribute, ok := passed.named("attribute"); ok && len(passed.pos) == 0 {
		steps := st.path(attribute)
		def, _ := passed.named("default")
		for i, item := range source {
			if !st.work(64) {
				return nil
			}
			out[i] = st.follow(steps, item, def)
		}
		return generator(out)
	}
	if len(passed.pos) == 0 {
		return st.fail("map needs a filter name or attribute=")
	}
	name := st.str(passed.pos[0]) // of a filter, whose arguments follow
	for i, item := range source {
		if out[i] = st.filter(name, item, args{passed.pos[1:], passed.kw}); st.err != nil {
			return nil
		}
	}
	return generator(out)
}

// choose is select, reject, selectattr and rejectattr.
func (st *state) choose(in Value, passed args, byAttr, keep bool) Value {
	var steps path
	if byAttr {
		if len(passed.pos) == 0 {
			return st.fail("selectattr and rejectattr need an attribute name")
		}
		steps = st.path(passed.pos[0])
		passed.pos = passed.pos[1:]
	}
	source := st.lazy(in)
	if !st.charge(len(source) * valueBytes) {
		return nil
	}
	out := make([]Value, 0, len(source))
	for _, item := range source {
		if !st.work(64) {
			return nil
		}
		value := st.follow(steps, item, nil)
		ok := truth(value) // unless a test is named
		if len(passed.pos) > 0 {
			ok = st.test(st.str(passed.pos[0]), value, args{passed.pos[1:], passed.kw})
		}
		if ok == keep {
			out = append(out, item)
		}
	}
	return generator(out)
}

// batch cuts a sequence into lists of linecount.
func batch(st *state, in Value, passed args) Value {
	size := passed.int(0, "linecount", 0)
	fill, _ := passed.get(1, "fill_with")
	source := st.iterate(in)
	if size <= 0 {
		return st.fail("batch needs a positive size")
	}
	var out []Value
	for len(source) > 0 && st.err == nil {
		taken := min(size, int64(len(source)))
		chunk, _ := st.listOf(source[:taken]).(*List)
		// The last one may be short.
		if fill != nil && taken < size && st.chargeTimes(valueBytes, size-taken) {
			for range size - taken {
				chunk.items = append(chunk.items, fill)
			}
		}
		out = append(out, chunk)
		source = source[taken:]
	}
	return generator(out)
}
