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

// String says what was looked up, for messages.
func (u undefined) String() string {
	if u.of == "" {
		return fmt.Sprintf("%q is undefined", u.name)
	}
	return fmt.Sprintf("%s object has no attribute %q", u.of, u.name)
}

// A seqKind is which of Python's sequences a List is. The order counts: those up to
// kindTuple can be added and ordered, those up to kindRange compared and indexed.
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

// newTuple returns a tuple of the given values.
func newTuple(items ...Value) *List { return &List{items: items, kind: kindTuple} }

// take returns the items to visit; reading a generator empties it.
func (l *List) take() []Value {
	items := l.items
	if l.kind == kindGenerator {
		l.items = nil
	}
	return items
}

// An entry is one key of a Dict with its value.
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

// find returns the position of the key with a hash of hashKey, or -1.
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
func (d *Dict) set(key, value Value) bool {
	hash, ok := hashKey(key)
	if !ok {
		return false
	}
	if i := d.find(hash); i >= 0 {
		d.entries[i].val = value
		return true
	}
	d.entries = append(d.entries, entry{key, value})
	switch {
	case d.index != nil:
		d.index[hash] = len(d.entries) - 1
	case len(d.entries) == indexFrom: // no longer small
		d.index = make(map[any]int, 2*indexFrom)
		for i := range d.entries {
			h, _ := hashKey(d.entries[i].key)
			d.index[h] = i
		}
	}
	return true
}

// noneKey is the hash of None.
type noneKey struct{}

// hashKey maps a key to a comparable Go value such that keys equal in Python
// (1, 1.0, True) map to the same one. Lists, dicts and tuples cannot be keys.
func hashKey(value Value) (any, bool) {
	switch value := value.(type) {
	case nil:
		return noneKey{}, true
	case bool:
		return boolInt(value), true
	case int64, bigInt, string:
		return value, true
	case float64:
		if i := int64(value); float64(i) == value && math.Abs(value) < 1<<63 {
			return i, true
		}
		return value, true
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

// boolInt is a bool as the integer that Python takes it for.
func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// asInt accepts int and, as Python does, bool.
func asInt(value Value) (int64, bool) {
	switch value := value.(type) {
	case bool:
		return boolInt(value), true
	case int64:
		return value, true
	}
	return 0, false
}

// asFloat accepts every number.
func asFloat(value Value) (float64, bool) {
	switch value := value.(type) {
	case float64:
		return value, true
	case bigInt:
		float, _ := new(big.Float).SetInt(value.big()).Float64()
		return float, true
	}
	i, ok := asInt(value)
	return float64(i), ok
}

// big is the integer itself.
func (b bigInt) big() *big.Int {
	n, _ := new(big.Int).SetString(string(b), 10)
	return n
}

// typeName is the Python name of value's type, for messages.
func typeName(value Value) string {
	switch value := value.(type) {
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
		return [...]string{"list", "tuple", "range", "dict_keys", "dict_values", "dict_items", "generator"}[value.kind]
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

// truth is Python's bool(value): what is empty or zero is false.
func truth(value Value) bool {
	switch value := value.(type) {
	case nil, undefined:
		return false
	case bool:
		return value
	case int64:
		return value != 0
	case float64:
		return value != 0
	case string:
		return value != ""
	case *List:
		return value.kind == kindGenerator || len(value.items) > 0
	case *Dict:
		return len(value.entries) > 0
	}
	return true
}

// length implements len(); ok is false for what has none.
func (st *state) length(value Value) (n int, ok bool) {
	switch value := value.(type) {
	case string:
		st.work(len(value))
		return utf8.RuneCountInString(value), true
	case *List:
		return len(value.items), value.kind != kindGenerator
	case *Dict:
		return len(value.entries), true
	case undefined:
		return 0, true
	}
	return 0, false
}

// iterate returns the items a for loop visits.
func (st *state) iterate(value Value) []Value {
	switch value := value.(type) {
	case *List:
		st.work(len(value.items))
		return value.take()
	case *Dict:
		if !st.charge(len(value.entries) * valueBytes) {
			return nil
		}
		items := make([]Value, len(value.entries))
		for i := range value.entries {
			items[i] = value.entries[i].key
		}
		return items
	case string:
		if !st.charge(len(value) * 2 * valueBytes) {
			return nil
		}
		items := make([]Value, 0, len(value))
		for len(value) > 0 {
			_, size := utf8.DecodeRuneInString(value)
			items = append(items, value[:size])
			value = value[size:]
		}
		return items
	case undefined: // lenient
		return nil
	}
	st.fail("%s is not iterable; expected a list, dict or string", describe(value))
	return nil
}

// describe names a value in a message: undefined ones by what was looked up.
func describe(value Value) string {
	if u, ok := value.(undefined); ok {
		return u.String()
	}
	return typeName(value)
}

// A volume is how much there is of a value, itself included.
type volume struct{ values, bytes int }

// measure counts the values and string bytes under value and refuses Go types that
// are no Value.
func measure(value Value, depth int) (volume, error) {
	if depth > maxJSONDepth {
		return volume{}, fmt.Errorf("nested deeper than %d levels", maxJSONDepth)
	}
	total := volume{values: 1}
	add := func(value Value) error {
		part, err := measure(value, depth+1)
		total.values += part.values
		total.bytes += part.bytes
		return err
	}
	switch value := value.(type) {
	case nil, bool, int64, float64:
	case string:
		total.bytes = len(value)
	case bigInt:
		total.bytes = len(value)
	case *List:
		for _, item := range value.items {
			if err := add(item); err != nil {
				return total, err
			}
		}
	case *Dict:
		if value == nil {
			return total, nil
		}
		for _, e := range value.entries {
			if err := add(e.val); err != nil {
				return total, fmt.Errorf("%v: %w", e.key, err)
			}
		}
	default:
		return total, fmt.Errorf("a %T is not a template value; use nil, bool, int64, float64, string, *List or *Dict", value)
	}
	return total, nil
}

// equal is Python's ==.
func (st *state) equal(left, right Value) bool {
	if !st.enter() || !st.work(0) {
		return false
	}
	defer st.leave()
	switch left := left.(type) { // numbers of all types are compared below
	case nil:
		return right == nil
	case string:
		right, ok := right.(string)
		return ok && len(left) == len(right) && st.work(len(left)) && left == right
	case undefined:
		_, ok := right.(undefined)
		return ok
	case *List:
		right, ok := right.(*List)
		return ok && (left == right || (left.kind == right.kind && left.kind <= kindRange && st.equalItems(left.items, right.items)))
	case *Dict:
		right, ok := right.(*Dict)
		return ok && (left == right || st.equalDicts(left, right))
	}
	if order, ok := compareNumbers(left, right); ok {
		return order == 0
	}
	return left == right
}

// equalItems compares lists item by item.
func (st *state) equalItems(left, right []Value) bool {
	if len(left) != len(right) {
		return false
	}
	for i := range left {
		if !st.equal(left[i], right[i]) {
			return false
		}
	}
	return true
}

// equalDicts compares dicts, whose order does not count.
func (st *state) equalDicts(left, right *Dict) bool {
	if len(left.entries) != len(right.entries) {
		return false
	}
	for _, e := range left.entries {
		hash, _ := hashKey(e.key)
		i := right.find(hash)
		if i < 0 || !st.equal(e.val, right.entries[i].val) {
			return false
		}
	}
	return true
}

// compareNumbers orders two numbers; NaN is reported as greater than
// everything, itself included, which makes == false.
func compareNumbers(left, right Value) (int, bool) {
	leftInt, isLeftInt := asInt(left)
	rightInt, isRightInt := asInt(right)
	if isLeftInt && isRightInt {
		switch {
		case leftInt < rightInt:
			return -1, true
		case leftInt > rightInt:
			return 1, true
		}
		return 0, true
	}
	leftBig, isLeftBig := left.(bigInt)
	rightBig, isRightBig := right.(bigInt)
	switch {
	case isLeftBig && isRightBig:
		return leftBig.big().Cmp(rightBig.big()), true
	case isLeftBig && isRightInt: // outside 64 bits: the sign decides
		return leftBig.big().Sign(), true
	case isRightBig && isLeftInt:
		return -rightBig.big().Sign(), true
	}
	leftFloat, ok1 := asFloat(left)
	rightFloat, ok2 := asFloat(right)
	switch {
	case !ok1 || !ok2:
		return 0, false
	case leftFloat < rightFloat:
		return -1, true
	case leftFloat == rightFloat:
		return 0, true
	}
	return 1, true
}

// order is Python's three-way comparison: numbers, strings by code point,
// lists and tuples item by item. Other pairs have no order and fail.
func (st *state) order(left, right Value) int {
	if !st.enter() || !st.work(0) {
		return 0
	}
	defer st.leave()
	if order, ok := compareNumbers(left, right); ok {
		return order
	}
	leftText, ok1 := left.(string)
	rightText, ok2 := right.(string)
	if ok1 && ok2 {
		st.work(min(len(leftText), len(rightText)))
		return strings.Compare(leftText, rightText)
	}
	leftList, ok1 := left.(*List)
	rightList, ok2 := right.(*List)
	if !ok1 || !ok2 || leftList.kind != rightList.kind || leftList.kind > kindTuple {
		st.fail("cannot order %s and %s", describe(left), describe(right))
		return 0
	}
	for i := range min(len(leftList.items), len(rightList.items)) { // the first difference decides
		if !st.equal(leftList.items[i], rightList.items[i]) {
			return st.order(leftList.items[i], rightList.items[i])
		}
	}
	return len(leftList.items) - len(rightList.items)
}
