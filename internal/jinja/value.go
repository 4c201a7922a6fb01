package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"unicode/utf8"
)

// Value is a template value. A caller may build one from nil (None), bool,
// int64, float64, string (valid UTF-8), *List and *Dict, or take it from
// FromJSON; other types are refused by Render. Values given to Render are
// never changed.
type Value any

// bigInt is the decimal text of an integer outside 64 bits.
type bigInt string

// undefined is the result of looking up what is not there. It prints as
// nothing and fails when looked into; the fields say what was looked up.
type undefined struct {
	name string
	of   string // Python type of the object that lacks name; "" for a variable
}

func (u undefined) String() string {
	if u.of == "" {
		return fmt.Sprintf("%q is undefined", u.name)
	}
	return fmt.Sprintf("%s object has no attribute %q", u.of, u.name)
}

type seqKind uint8

const (
	kindList seqKind = iota
	kindTuple
	kindRange
	kindKeys // dict.keys(), values(), items(): can be counted, not indexed
	kindValues
	kindItems
	kindGenerator // result of a lazy filter: can be read once, nothing else
)

// List is a sequence: a list, or inside templates also Python's tuples,
// ranges, dict views and generators.
type List struct {
	items []Value
	kind  seqKind
	group bool // tuple made by groupby, with fields grouper and list
}

// NewList returns a list of the given values.
func NewList(items ...Value) *List { return &List{items: items} }

// Len returns the number of items.
func (l *List) Len() int { return len(l.items) }

// At returns item i, 0 <= i < Len.
func (l *List) At(i int) Value { return l.items[i] }

func newTuple(items ...Value) *List { return &List{items: items, kind: kindTuple} }

// take returns the items to visit; reading a generator empties it.
func (l *List) take() []Value {
	items := l.items
	if l.kind == kindGenerator {
		l.items = nil
	}
	return items
}

type entry struct{ key, val Value }

// indexFrom is the size from which a Dict keeps a hash index; below it a scan
// is faster.
const indexFrom = 9

// Dict is a mapping that keeps insertion order. It is not safe for concurrent
// change; concurrent reading is safe.
type Dict struct {
	entries []entry
	index   map[any]int // hash key to position, nil while small
}

// NewDict returns an empty mapping.
func NewDict() *Dict { return &Dict{} }

// Len returns the number of entries.
func (d *Dict) Len() int { return len(d.entries) }

// Set stores v under key, keeping the position of an existing key.
func (d *Dict) Set(key string, v Value) { d.set(key, v) }

// Get returns the value stored under key.
func (d *Dict) Get(key string) (Value, bool) {
	if d.index != nil {
		i, ok := d.index[key]
		if !ok {
			return nil, false
		}
		return d.entries[i].val, true
	}
	for i := range d.entries {
		if k, ok := d.entries[i].key.(string); ok && k == key {
			return d.entries[i].val, true
		}
	}
	return nil, false
}

// Entry returns key and value at position i, 0 <= i < Len.
func (d *Dict) Entry(i int) (key, value Value) { return d.entries[i].key, d.entries[i].val }

func (d *Dict) find(hash any) int {
	if d.index != nil {
		if i, ok := d.index[hash]; ok {
			return i
		}
		return -1
	}
	for i := range d.entries {
		if h, _ := hashKey(d.entries[i].key); h == hash {
			return i
		}
	}
	return -1
}

// set reports whether key can be a key.
func (d *Dict) set(key, v Value) bool {
	hash, ok := hashKey(key)
	if !ok {
		return false
	}
	if i := d.find(hash); i >= 0 {
		d.entries[i].val = v
		return true
	}
	d.entries = append(d.entries, entry{key, v})
	switch {
	case d.index != nil:
		d.index[hash] = len(d.entries) - 1
	case len(d.entries) == indexFrom:
		d.index = make(map[any]int, 2*indexFrom)
		for i := range d.entries {
			h, _ := hashKey(d.entries[i].key)
			d.index[h] = i
		}
	}
	return true
}

type noneKey struct{}

// hashKey maps a key to a comparable Go value such that keys equal in Python
// (1, 1.0, True) map to the same one. Lists, dicts and tuples cannot be keys.
func hashKey(v Value) (any, bool) {
	switch v := v.(type) {
	case nil:
		return noneKey{}, true
	case bool:
		return boolInt(v), true
	case int64, bigInt, string:
		return v, true
	case float64:
		if i := int64(v); float64(i) == v && math.Abs(v) < 1<<63 {
			return i, true
		}
		return v, true
	}
	return nil, false
}

// namespace is the one mutable value: {% set ns.name = ... %}.
type namespace struct{ attrs *Dict }

// builtin is a global function, boundMethod a method taken from its object.
type (
	builtin     string
	boundMethod struct {
		recv Value
		name string
	}
)

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// asInt accepts int and, as Python does, bool.
func asInt(v Value) (int64, bool) {
	switch v := v.(type) {
	case bool:
		return boolInt(v), true
	case int64:
		return v, true
	}
	return 0, false
}

// asFloat accepts every number.
func asFloat(v Value) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case bigInt:
		f, _ := new(big.Float).SetInt(v.big()).Float64()
		return f, true
	}
	i, ok := asInt(v)
	return float64(i), ok
}

func (b bigInt) big() *big.Int {
	n, _ := new(big.Int).SetString(string(b), 10)
	return n
}

// typeName is the Python name of v's type, for messages.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "bool"
	case int64, bigInt:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *List:
		return [...]string{"list", "tuple", "range", "dict_keys", "dict_values", "dict_items", "generator"}[v.kind]
	case *Dict:
		return "dict"
	case undefined:
		return "undefined"
	case *namespace:
		return "namespace"
	case *loopState:
		return "loop"
	}
	return "function"
}

func truth(v Value) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *List:
		return v.kind == kindGenerator || len(v.items) > 0
	case *Dict:
		return len(v.entries) > 0
	}
	return true
}

// length implements len(); ok is false for what has none.
func (st *state) length(v Value) (n int, ok bool) {
	switch v := v.(type) {
	case string:
		st.work(len(v))
		return utf8.RuneCountInString(v), true
	case *List:
		return len(v.items), v.kind != kindGenerator
	case *Dict:
		return len(v.entries), true
	case undefined:
		return 0, true
	}
	return 0, false
}

// iterate returns the items a for loop visits.
func (st *state) iterate(v Value) []Value {
	switch v := v.(type) {
	case *List:
		st.work(len(v.items))
		return v.take()
	case *Dict:
		if !st.charge(len(v.entries) * valueBytes) {
			return nil
		}
		items := make([]Value, len(v.entries))
		for i := range v.entries {
			items[i] = v.entries[i].key
		}
		return items
	case string:
		if !st.charge(len(v) * 2 * valueBytes) {
			return nil
		}
		items := make([]Value, 0, len(v))
		for len(v) > 0 {
			_, n := utf8.DecodeRuneInString(v)
			items = append(items, v[:n])
			v = v[n:]
		}
		return items
	case undefined:
		return nil
	}
	st.fail("%s is not iterable; expected a list, dict or string", describe(v))
	return nil
}

// describe names a value in a message: undefined ones by what was looked up.
func describe(v Value) string {
	if u, ok := v.(undefined); ok {
		return u.String()
	}
	return typeName(v)
}

type volume struct{ values, bytes int }

// measure counts the values and string bytes under v and refuses Go types that
// are no Value.
func measure(v Value, depth int) (volume, error) {
	if depth > maxJSONDepth {
		return volume{}, fmt.Errorf("nested deeper than %d levels", maxJSONDepth)
	}
	total := volume{values: 1}
	add := func(v Value) error {
		part, err := measure(v, depth+1)
		total.values += part.values
		total.bytes += part.bytes
		return err
	}
	switch v := v.(type) {
	case nil, bool, int64, float64:
	case string:
		total.bytes = len(v)
	case bigInt:
		total.bytes = len(v)
	case *List:
		for _, item := range v.items {
			if err := add(item); err != nil {
				return total, err
			}
		}
	case *Dict:
		if v == nil {
			return total, nil
		}
		for _, e := range v.entries {
			if err := add(e.val); err != nil {
				return total, fmt.Errorf("%v: %w", e.key, err)
			}
		}
	default:
		return total, fmt.Errorf("a %T is not a template value; use nil, bool, int64, float64, string, *List or *Dict", v)
	}
	return total, nil
}

// equal is Python's ==.
func (st *state) equal(a, b Value) bool {
	if !st.enter() || !st.work(0) {
		return false
	}
	defer st.leave()
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		b, ok := b.(string)
		return ok && len(a) == len(b) && st.work(len(a)) && a == b
	case undefined:
		_, ok := b.(undefined)
		return ok
	case *List:
		b, ok := b.(*List)
		return ok && (a == b || (a.kind == b.kind && a.kind <= kindRange && st.equalItems(a.items, b.items)))
	case *Dict:
		b, ok := b.(*Dict)
		return ok && (a == b || st.equalDicts(a, b))
	}
	if c, ok := compareNumbers(a, b); ok {
		return c == 0
	}
	return a == b
}

func (st *state) equalItems(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !st.equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func (st *state) equalDicts(a, b *Dict) bool {
	if len(a.entries) != len(b.entries) {
		return false
	}
	for _, e := range a.entries {
		hash, _ := hashKey(e.key)
		i := b.find(hash)
		if i < 0 || !st.equal(e.val, b.entries[i].val) {
			return false
		}
	}
	return true
}

// compareNumbers orders two numbers; NaN is reported as greater than
// everything, itself included, which makes == false.
func compareNumbers(a, b Value) (int, bool) {
	i, aInt := asInt(a)
	j, bInt := asInt(b)
	if aInt && bInt {
		switch {
		case i < j:
			return -1, true
		case i > j:
			return 1, true
		}
		return 0, true
	}
	x, xBig := a.(bigInt)
	y, yBig := b.(bigInt)
	switch {
	case xBig && yBig:
		return x.big().Cmp(y.big()), true
	case xBig && bInt:
		return x.big().Sign(), true
	case yBig && aInt:
		return -y.big().Sign(), true
	}
	f, ok1 := asFloat(a)
	g, ok2 := asFloat(b)
	switch {
	case !ok1 || !ok2:
		return 0, false
	case f < g:
		return -1, true
	case f == g:
		return 0, true
	}
	return 1, true
}

// order is Python's three-way comparison: numbers, strings by code point,
// lists and tuples item by item. Other pairs have no order and fail.
func (st *state) order(a, b Value) int {
	if !st.enter() || !st.work(0) {
		return 0
	}
	defer st.leave()
	if c, ok := compareNumbers(a, b); ok {
		return c
	}
	s, ok1 := a.(string)
	t, ok2 := b.(string)
	if ok1 && ok2 {
		st.work(min(len(s), len(t)))
		return strings.Compare(s, t)
	}
	l, ok1 := a.(*List)
	m, ok2 := b.(*List)
	if !ok1 || !ok2 || l.kind != m.kind || l.kind > kindTuple {
		st.fail("cannot order %s and %s", describe(a), describe(b))
		return 0
	}
	for i := range min(len(l.items), len(m.items)) {
		if !st.equal(l.items[i], m.items[i]) {
			return st.order(l.items[i], m.items[i])
		}
	}
	return len(l.items) - len(m.items)
}
