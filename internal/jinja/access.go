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
	switch obj := obj.(type) {
	case *Dict:
		if dictMethods[name] {
			return boundMethod{obj, name}
		}
		if v, ok := obj.Get(name); ok {
			return v
		}
	case undefined:
		return st.fail("%s; cannot read its attribute %q", obj, name)
	case *namespace:
		if v, ok := obj.attrs.Get(name); ok {
			return v
		}
	case *loopState:
		if v, ok := obj.attr(name); ok {
			return v
		}
	case string:
		if _, ok := stringMethods[name]; ok {
			return boundMethod{obj, name}
		}
	case *List: // items have no names, but for the pairs of groupby
		if (obj.kind == kindList && listMethods[name]) || (obj.kind == kindTuple && (name == "index" || name == "count")) {
			return boundMethod{obj, name}
		}
		if obj.group && (name == "grouper" || name == "list") {
			return obj.items[map[string]int{"grouper": 0, "list": 1}[name]]
		}
	case *closure:
		if name == "name" {
			return obj.name
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
	switch obj := obj.(type) {
	case *Dict:
		if isText {
			if v, ok := obj.Get(name); ok {
				return v
			}
		} else if hash, ok := hashKey(key); ok {
			if index := obj.find(hash); index >= 0 {
				return obj.entries[index].val
			}
		}
	case *List:
		if index, ok := asInt(key); ok && obj.kind <= kindRange {
			if index < 0 { // from the end
				index += int64(len(obj.items))
			}
			if 0 <= index && index < int64(len(obj.items)) {
				return obj.items[index]
			}
		}
	case string:
		if index, ok := asInt(key); ok {
			if c := st.runes(obj, index, index+1, 1); c != "" {
				return c
			}
		}
	case undefined:
		if u, ok := key.(undefined); ok {
			return st.fail("%s; cannot look up an undefined key in it: %s", obj, u)
		}
		return st.fail("%s; cannot look up %s in it", obj, st.short(key))
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
	// None as a bound is one that was left out.
	var bound [3]int64
	var given [3]bool
	for which, limit := range e.bounds {
		if limit == nil {
			continue
		}
		value := st.eval(limit)
		if value == nil {
			continue
		}
		if bound[which], given[which] = asInt(value); !given[which] {
			return st.fail("a slice bound must be an integer, found %s", describe(value))
		}
	}
	size, _ := st.length(obj)
	if !given[2] {
		bound[2] = 1
	}
	start, count := sliceRange(bound, given, int64(size))
	if bound[2] == 0 {
		return st.fail("slice step is 0")
	}
	switch obj := obj.(type) {
	case string:
		return st.runes(obj, start, start+count*bound[2], bound[2])
	case *List:
		if obj.kind > kindRange {
			break
		}
		if !st.charge(entryBytes + int(count)*valueBytes) {
			return nil
		}
		items := make([]Value, count)
		for i := range items {
			items[i] = obj.items[start+int64(i)*bound[2]]
		}
		return &List{items: items, kind: obj.kind}
	}
	return st.fail("cannot slice %s; expected a list or string", describe(obj))
}

// sliceRange clips a slice to a sequence of size items as Python does and returns
// its first index and its length.
func sliceRange(bound [3]int64, given [3]bool, size int64) (start, count int64) {
	step := bound[2]
	// Where bounds may lie; backwards, one before the first is the end.
	low, high := int64(0), size
	if step < 0 {
		low, high = -1, size-1
	}
	clip := func(i int) int64 {
		v := bound[i]
		if v < 0 {
			v += size
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

// runes returns text[start:stop:step] by characters; negative start counts only
// for step 1 from the end (an index), slices come clipped.
func (st *state) runes(text string, start, stop, step int64) string {
	if !st.work(len(text)) {
		return ""
	}
	count := int64(utf8.RuneCountInString(text))
	if start < 0 && stop == start+1 && step == 1 {
		start, stop = start+count, stop+count
	}
	if start < 0 || start >= count || start == stop {
		return ""
	}
	if step == 1 {
		stop = min(stop, count)
		if count == int64(len(text)) { // ASCII
			return text[start:stop]
		}
		from := byteOffset(text, start)
		return text[from : from+byteOffset(text[from:], stop-start)]
	}
	if !st.charge(len(text) * 5) {
		return ""
	}
	all := []rune(text)
	var out strings.Builder
	for i := start; i != stop; i += step {
		out.WriteRune(all[i])
	}
	return out.String()
}

// byteOffset returns where character n of text starts, its length if there are fewer.
func byteOffset(text string, n int64) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}
