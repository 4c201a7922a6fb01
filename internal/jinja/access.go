package jinja

import (
	"strings"
	"unicode/utf8"
)

// Attributes, items and slices.

type attrExpr struct {
	obj  expr
	name string
}

func (e *attrExpr) eval(st *state) Value { return st.attr(st.eval(e.obj), e.name) }

// attr is obj.name: a method if there is one of that name, else an item.
func (st *state) attr(obj Value, name string) Value {
	switch o := obj.(type) {
	case *Dict:
		if dictMethods[name] {
			return boundMethod{o, name}
		}
		if v, ok := o.Get(name); ok {
			return v
		}
	case undefined:
		return st.fail("%s; cannot read its attribute %q", o, name)
	case *namespace:
		if v, ok := o.attrs.Get(name); ok {
			return v
		}
	case *loopState:
		if v, ok := o.attr(name); ok {
			return v
		}
	case string:
		if _, ok := stringMethods[name]; ok {
			return boundMethod{o, name}
		}
	case *List:
		if (o.kind == kindList && listMethods[name]) || (o.kind == kindTuple && (name == "index" || name == "count")) {
			return boundMethod{o, name}
		}
		if o.group && (name == "grouper" || name == "list") {
			return o.items[map[string]int{"grouper": 0, "list": 1}[name]]
		}
	case *closure:
		if name == "name" {
			return o.name
		}
	}
	return undefined{name: name, of: typeName(obj)}
}

type itemExpr struct{ obj, key expr }

func (e *itemExpr) eval(st *state) Value {
	obj := st.eval(e.obj)
	return st.item(obj, st.eval(e.key))
}

// item is obj[key]: an item if there is one, else for text keys an attribute.
func (st *state) item(obj, key Value) Value {
	name, isText := key.(string)
	switch o := obj.(type) {
	case *Dict:
		if isText {
			if v, ok := o.Get(name); ok {
				return v
			}
		} else if hash, ok := hashKey(key); ok {
			if i := o.find(hash); i >= 0 {
				return o.entries[i].val
			}
		}
	case *List:
		if i, ok := asInt(key); ok && o.kind <= kindRange {
			if i < 0 {
				i += int64(len(o.items))
			}
			if 0 <= i && i < int64(len(o.items)) {
				return o.items[i]
			}
		}
	case string:
		if i, ok := asInt(key); ok {
			if c := st.runes(o, i, i+1, 1); c != "" {
				return c
			}
		}
	case undefined:
		if u, ok := key.(undefined); ok {
			return st.fail("%s; cannot look up an undefined key in it: %s", o, u)
		}
		return st.fail("%s; cannot look up %s in it", o, st.short(key))
	}
	if isText {
		return st.attr(obj, name)
	}
	return undefined{name: st.short(key), of: typeName(obj)}
}

type sliceExpr struct {
	obj    expr
	bounds [3]expr // start, stop, step; nil where left out
}

func (e *sliceExpr) eval(st *state) Value {
	obj := st.eval(e.obj)
	var b [3]int64
	var given [3]bool
	for i, x := range e.bounds {
		if x == nil {
			continue
		}
		v := st.eval(x)
		if v == nil {
			continue
		}
		if b[i], given[i] = asInt(v); !given[i] {
			return st.fail("a slice bound must be an integer, found %s", describe(v))
		}
	}
	n, _ := st.length(obj)
	if !given[2] {
		b[2] = 1
	}
	start, count := sliceRange(b, given, int64(n))
	if b[2] == 0 {
		return st.fail("slice step is 0")
	}
	switch o := obj.(type) {
	case string:
		return st.runes(o, start, start+count*b[2], b[2])
	case *List:
		if o.kind > kindRange {
			break
		}
		if !st.charge(entryBytes + int(count)*valueBytes) {
			return nil
		}
		items := make([]Value, count)
		for i := range items {
			items[i] = o.items[start+int64(i)*b[2]]
		}
		return &List{items: items, kind: o.kind}
	}
	return st.fail("cannot slice %s; expected a list or string", describe(obj))
}

// sliceRange clips a slice to a sequence of n items as Python does and returns
// its first index and its length.
func sliceRange(b [3]int64, given [3]bool, n int64) (start, count int64) {
	step := b[2]
	low, high := int64(0), n
	if step < 0 {
		low, high = -1, n-1
	}
	clip := func(i int) int64 {
		v := b[i]
		if v < 0 {
			v += n
		}
		return min(max(v, low), high)
	}
	start, stop := low, high
	if step < 0 {
		start, stop = high, low
	}
	if given[0] {
		start = clip(0)
	}
	if given[1] {
		stop = clip(1)
	}
	switch {
	case step > 0 && start < stop:
		count = (stop-start-1)/step + 1
	case step < 0 && start > stop:
		count = (start-stop-1)/-step + 1
	}
	return start, count
}

// runes returns s[start:stop:step] by characters; negative start counts only
// for step 1 from the end (an index), slices come clipped.
func (st *state) runes(s string, start, stop, step int64) string {
	if !st.work(len(s)) {
		return ""
	}
	n := int64(utf8.RuneCountInString(s))
	if start < 0 && stop == start+1 && step == 1 {
		start, stop = start+n, stop+n
	}
	if start < 0 || start >= n || start == stop {
		return ""
	}
	if step == 1 {
		stop = min(stop, n)
		if n == int64(len(s)) {
			return s[start:stop]
		}
		from := byteOffset(s, start)
		return s[from : from+byteOffset(s[from:], stop-start)]
	}
	if !st.charge(len(s) * 5) {
		return ""
	}
	all := []rune(s)
	var b strings.Builder
	for i := start; i != stop; i += step {
		b.WriteRune(all[i])
	}
	return b.String()
}

// byteOffset returns where character n of s starts, len(s) if there are fewer.
func byteOffset(s string, n int64) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}
