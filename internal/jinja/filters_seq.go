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
	n, ok := st.length(in)
	if !ok {
		return st.fail("%s has no length", describe(in))
	}
	return int64(n)
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
	l, _ := st.listOf(st.iterate(in)).(*List)
	if l == nil {
		return nil
	}
	slices.Reverse(l.items)
	return generator(l.items)
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

func (st *state) path(v Value) path {
	s, ok := v.(string)
	if !ok {
		return path{v}
	}
	var p path
	for _, part := range strings.Split(s, ".") {
		if n, err := strconv.ParseInt(part, 10, 64); err == nil && n >= 0 {
			p = append(p, n)
			continue
		}
		p = append(p, part)
	}
	st.charge(len(p) * 2 * valueBytes)
	return p
}

// follow looks the path up in v; what is missing becomes def unless it is nil.
func (st *state) follow(p path, v, def Value) Value {
	for _, part := range p {
		v = st.item(v, part)
		if _, missing := v.(undefined); missing && def != nil {
			v = def
		}
	}
	return v
}

// keyed returns what the items are compared by: themselves or an attribute,
// without case unless the filter was told otherwise.
func (st *state) keyed(items []Value, attribute Value, sensitive bool, def Value) []Value {
	if !st.charge(len(items) * valueBytes) {
		return nil
	}
	var p path
	if attribute != nil {
		p = st.path(attribute)
	}
	keys := make([]Value, len(items))
	for i, item := range items {
		if !st.work(64) {
			return nil
		}
		keys[i] = st.follow(p, item, def)
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
func sortFilter(st *state, in Value, a args) Value {
	items := st.iterate(in)
	attribute, _ := a.get(2, "attribute")
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
	keys := make([]Value, len(items))
	for i := range keys {
		keys[i] = NewList()
	}
	for _, name := range names {
		for i, key := range st.keyed(items, name, a.bool(1, "case_sensitive"), nil) {
			l := keys[i].(*List)
			l.items = append(l.items, key)
		}
	}
	return st.pick(items, st.sortedBy(keys, a.bool(0, "reverse")))
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

func dictSort(st *state, in Value, a args) Value {
	d, ok := in.(*Dict)
	if !ok {
		return st.fail("dictsort needs a dict, found %s", describe(in))
	}
	by, _ := a.text(1, "by", "key")
	index := int64(0)
	switch by {
	case "key":
	case "value":
		index = 1
	default:
		return st.fail("dictsort sorts by key or value, not %q", by)
	}
	items := st.view(d, kindItems).items
	keys := st.keyed(items, index, a.bool(0, "case_sensitive"), nil)
	return st.pick(items, st.sortedBy(keys, a.bool(2, "reverse")))
}

func groupBy(st *state, in Value, a args) Value {
	items := st.iterate(in)
	attribute, _ := a.get(0, "attribute")
	def, _ := a.get(1, "default")
	keys := st.keyed(items, attribute, a.bool(2, "case_sensitive"), def)
	groups := NewList()
	var group *List
	var current Value
	for _, p := range st.sortedBy(keys, false) {
		if !st.charge(4 * entryBytes) {
			return nil
		}
		if group == nil || !st.equal(keys[p], current) {
			group, current = NewList(), keys[p]
			name := st.follow(st.path(attribute), items[p], def)
			groups.items = append(groups.items, &List{items: []Value{name, group}, kind: kindTuple, group: true})
		}
		group.items = append(group.items, items[p])
	}
	return groups
}

// extreme is min (sign -1) or max (sign 1).
func (st *state) extreme(in Value, a args, sign int) Value {
	items := st.iterate(in)
	attribute, _ := a.get(1, "attribute")
	keys := st.keyed(items, attribute, a.bool(0, "case_sensitive"), nil)
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

func unique(st *state, in Value, a args) Value {
	items := st.iterate(in)
	attribute, _ := a.get(1, "attribute")
	keys := st.keyed(items, attribute, a.bool(0, "case_sensitive"), nil)
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

func sum(st *state, in Value, a args) Value {
	total, ok := a.get(1, "start")
	if !ok {
		total = int64(0)
	}
	attribute, _ := a.get(0, "attribute")
	for _, v := range st.keyed(st.iterate(in), attribute, true, nil) {
		total = st.binary("+", total, v)
	}
	return total
}

func join(st *state, in Value, a args) Value {
	sep, ok := a.get(0, "d")
	if !ok {
		sep = ""
	}
	attribute, _ := a.get(1, "attribute")
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
			s, ok := item.(string)
			if !ok {
				st.fail("str.join needs strings, found %s", describe(item))
			}
			if i > 0 {
				st.emit(sep)
			}
			st.emit(s)
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
func mapFilter(st *state, in Value, a args) Value {
	source := st.lazy(in)
	if !st.charge(len(source) * valueBytes) {
		return nil
	}
	out := make([]Value, len(source))
	if attribute, ok := a.named("attribute"); ok && len(a.pos) == 0 {
		p := st.path(attribute)
		def, _ := a.named("default")
		for i, item := range source {
			if !st.work(64) {
				return nil
			}
			out[i] = st.follow(p, item, def)
		}
		return generator(out)
	}
	if len(a.pos) == 0 {
		return st.fail("map needs a filter name or attribute=")
	}
	name := st.str(a.pos[0])
	for i, item := range source {
		if out[i] = st.filter(name, item, args{a.pos[1:], a.kw}); st.err != nil {
			return nil
		}
	}
	return generator(out)
}

// choose is select, reject, selectattr and rejectattr.
func (st *state) choose(in Value, a args, byAttr, keep bool) Value {
	var p path
	if byAttr {
		if len(a.pos) == 0 {
			return st.fail("selectattr and rejectattr need an attribute name")
		}
		p = st.path(a.pos[0])
		a.pos = a.pos[1:]
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
		v := st.follow(p, item, nil)
		ok := truth(v)
		if len(a.pos) > 0 {
			ok = st.test(st.str(a.pos[0]), v, args{a.pos[1:], a.kw})
		}
		if ok == keep {
			out = append(out, item)
		}
	}
	return generator(out)
}

// batch cuts a sequence into lists of n.
func batch(st *state, in Value, a args) Value {
	n := a.int(0, "linecount", 0)
	fill, _ := a.get(1, "fill_with")
	source := st.iterate(in)
	if n <= 0 {
		return st.fail("batch needs a positive size")
	}
	var out []Value
	for len(source) > 0 && st.err == nil {
		k := min(n, int64(len(source)))
		l, _ := st.listOf(source[:k]).(*List)
		if fill != nil && k < n && st.chargeTimes(valueBytes, n-k) {
			for range n - k {
				l.items = append(l.items, fill)
			}
		}
		out = append(out, l)
		source = source[k:]
	}
	return generator(out)
}
