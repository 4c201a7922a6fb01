package jinja

import (
	"strings"
	"unicode"
)

// testFunc answers "value is name(arguments)".
type testFunc struct {
	args int // how many it needs
	fn   func(st *state, v Value, a args) bool
}

// test applies the test called name.
func (st *state) test(name string, value Value, passed args) bool {
	test, ok := st.tmpl.tests[name]
	switch {
	case st.err != nil:
		return false
	case !ok:
		st.fail("there is no test %q", name)
		return false
	case len(passed.pos)+len(passed.kw) != test.args:
		st.fail("test %q takes %d arguments, got %d", name, test.args, len(passed.pos)+len(passed.kw))
		return false
	}
	for _, e := range passed.kw {
		passed.pos = append(passed.pos, e.val)
	}
	return test.fn(st, value, passed)
}

// testTable returns the tests by name.
func testTable() map[string]testFunc {
	kind := func(f func(v Value) bool) testFunc {
		return testFunc{0, func(_ *state, v Value, _ args) bool { return f(v) }}
	}
	compare := func(op string) testFunc {
		return testFunc{1, func(st *state, v Value, a args) bool { return st.compare(op, v, a.pos[0]) }}
	}
	letters := func(want, other func(rune) bool) testFunc {
		return testFunc{0, func(st *state, v Value, _ args) bool { return hasCase(st.str(v), want, other) }}
	}
	isUndefined := func(v Value) bool { _, ok := v.(undefined); return ok }
	table := map[string]testFunc{
		"defined":     kind(func(v Value) bool { return !isUndefined(v) }),
		"undefined":   kind(isUndefined),
		"none":        kind(func(v Value) bool { return v == nil }),
		"boolean":     kind(func(v Value) bool { _, ok := v.(bool); return ok }),
		"true":        kind(func(v Value) bool { return v == true }),
		"false":       kind(func(v Value) bool { return v == false }),
		"integer":     kind(func(v Value) bool { return typeName(v) == "int" }),
		"float":       kind(func(v Value) bool { return typeName(v) == "float" }),
		"number":      kind(func(v Value) bool { _, ok := asFloat(v); return ok }),
		"string":      kind(func(v Value) bool { _, ok := v.(string); return ok }),
		"mapping":     kind(func(v Value) bool { _, ok := v.(*Dict); return ok }),
		"sequence":    kind(isSequence),
		"iterable":    kind(isIterable),
		"callable":    kind(isCallable),
		"escaped":     kind(func(Value) bool { return false }),
		"lower":       letters(unicode.IsLower, unicode.IsUpper),
		"upper":       letters(unicode.IsUpper, unicode.IsLower),
		"odd":         {0, func(st *state, v Value, _ args) bool { return st.equal(st.binary("%", v, int64(2)), int64(1)) }},
		"even":        {0, func(st *state, v Value, _ args) bool { return st.equal(st.binary("%", v, int64(2)), int64(0)) }},
		"divisibleby": {1, func(st *state, v Value, a args) bool { return st.equal(st.binary("%", v, a.pos[0]), int64(0)) }},
		"sameas":      {1, func(st *state, v Value, a args) bool { return typeName(v) == typeName(a.pos[0]) && v == a.pos[0] }},
		"in":          {1, func(st *state, v Value, a args) bool { return st.contains(a.pos[0], v) }},
		"filter":      {0, func(st *state, v Value, _ args) bool { _, ok := st.tmpl.filters[st.str(v)]; return ok }},
		"test":        {0, func(st *state, v Value, _ args) bool { _, ok := st.tmpl.tests[st.str(v)]; return ok }},
	}
	// Comparisons are tests, too, by name and by sign.
	for op, names := range map[string]string{
		"==": "eq equalto", "!=": "ne", "<": "lt lessthan", "<=": "le", ">": "gt greaterthan", ">=": "ge",
	} {
		for _, name := range append(strings.Fields(names), op) {
			table[name] = compare(op)
		}
	}
	return table
}

func isSequence(value Value) bool {
	switch value := value.(type) {
	case string, *Dict, undefined:
		return true
	case *List:
		return value.kind <= kindRange
	}
	return false
}

func isIterable(value Value) bool {
	switch value.(type) {
	case string, *Dict, *List, undefined, *loopState:
		return true
	}
	return false
}

func isCallable(v Value) bool {
	switch v.(type) {
	case *closure, builtin, boundMethod, *loopState, undefined:
		return true
	}
	return false
}
