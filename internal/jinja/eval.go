package jinja

import (
	"math"
	"strings"
)

// An expr is an expression of the program.
type expr interface{ eval(st *state) Value }

// eval evaluates e within the budget.
func (st *state) eval(e expr) Value {
	value := st.operand(e)
	if m, ok := value.(markup); ok {
		return string(m)
	}
	return value
}

// markup is text marked by safe or escape. It differs from a string only as an
// operand of +, where it makes the other operand be escaped; it does not leave
// the sum it appears in.
type markup string

// operand is eval for the terms of a sum.
func (st *state) operand(e expr) Value {
	if !st.enter() || !st.work(0) {
		return nil
	}
	v := e.eval(st)
	st.leave()
	return v
}

type literal struct{ value Value }

func (e literal) eval(*state) Value { return e.value }

type nameExpr struct {
	name  string
	undef Value // made once: looking up a missing name is common
}

func (e *nameExpr) eval(st *state) Value {
	if v, ok := st.lookup(e.name); ok {
		return v
	}
	return e.undef
}

type listExpr struct {
	items []expr
	kind  seqKind
}

func (e *listExpr) eval(st *state) Value {
	if !st.charge(entryBytes + len(e.items)*valueBytes) {
		return nil
	}
	items := make([]Value, len(e.items))
	for i, item := range e.items {
		items[i] = st.eval(item)
	}
	return &List{items: items, kind: e.kind}
}

type dictExpr struct{ keys, vals []expr }

func (e *dictExpr) eval(st *state) Value {
	dict := NewDict()
	for i := range e.keys {
		st.put(dict, st.eval(e.keys[i]), st.eval(e.vals[i]))
	}
	return dict
}

// put stores an entry made by the template.
func (st *state) put(d *Dict, key, v Value) {
	if st.charge(2*entryBytes) && !d.set(key, v) {
		st.fail("%s cannot be a dict key; use a string or a number", describe(key))
	}
}

// condExpr is then if cond else other.
type condExpr struct{ cond, then, other expr }

func (e *condExpr) eval(st *state) Value {
	switch {
	case truth(st.eval(e.cond)):
		return st.eval(e.then)
	case e.other != nil:
		return st.eval(e.other)
	}
	return undefined{name: "the missing else of a conditional"}
}

// logicExpr is and/or, which return one of their operands.
type logicExpr struct {
	left, right expr
	or          bool
}

func (e *logicExpr) eval(st *state) Value {
	if v := st.eval(e.left); truth(v) == e.or {
		return v
	}
	return st.eval(e.right)
}

type notExpr struct{ operand expr }

func (e *notExpr) eval(st *state) Value { return !truth(st.eval(e.operand)) }

type comparison struct {
	op    string
	right expr
}

// compareExpr is a chain: a < b < c means a < b and b < c.
type compareExpr struct {
	left  expr
	links []comparison
}

func (e *compareExpr) eval(st *state) Value {
	left := st.eval(e.left)
	for _, link := range e.links {
		right := st.eval(link.right)
		if !st.compare(link.op, left, right) {
			return false
		}
		left = right
	}
	return true
}

// compare applies an operator of a comparison, in and not in included.
func (st *state) compare(op string, left, right Value) bool {
	if st.err != nil { // the operands mean nothing
		return false
	}
	switch op {
	case "==":
		return st.equal(left, right)
	case "!=":
		return !st.equal(left, right)
	case "<":
		return st.order(left, right) < 0
	case "<=":
		return st.order(left, right) <= 0
	case ">":
		return st.order(left, right) > 0
	case ">=":
		return st.order(left, right) >= 0
	case "in":
		return st.contains(right, left)
	}
	return !st.contains(right, left)
}

// contains is Python's "item in container".
func (st *state) contains(container, item Value) bool {
	switch container := container.(type) {
	case string:
		text, ok := item.(string)
		if !ok {
			st.fail("'in' on a string needs a string on its left, found %s", describe(item))
			return false
		}
		return st.work(len(container)+len(text)) && strings.Contains(container, text)
	case *Dict:
		hash, ok := hashKey(item)
		if !ok {
			st.fail("%s cannot be a dict key", describe(item))
		}
		return ok && container.find(hash) >= 0
	case *List:
		for _, x := range container.take() {
			if st.equal(x, item) {
				return true
			}
		}
		return false
	case undefined: // lenient, as for loops are
		return false
	}
	st.fail("'in' needs a list, dict or string on its right, found %s", describe(container))
	return false
}

// concatExpr is a ~ b ~ c: everything becomes text.
type concatExpr struct{ parts []expr }

func (e *concatExpr) eval(st *state) Value {
	return st.capture(func() {
		for _, part := range e.parts {
			st.print(st.eval(part))
		}
	})
}

// addExpr is a + b + c from left to right. Adjacent strings are joined at once.
type addExpr struct{ terms []expr }

func (e *addExpr) eval(st *state) Value {
	sum := st.operand(e.terms[0])
	for next := 1; next < len(e.terms); {
		right := st.operand(e.terms[next])
		next++
		start, ok1 := sum.(string)
		more, ok2 := right.(string)
		if !ok1 || !ok2 {
			sum = st.add(sum, right)
			continue
		}
		// A run of strings is written to the output once, not copied at every +.
		var pending Value
		text := st.capture(func() {
			st.emit(start)
			for ok2 {
				st.emit(more)
				if next == len(e.terms) || st.err != nil {
					return
				}
				pending = st.operand(e.terms[next])
				next++
				more, ok2 = pending.(string)
			}
		})
		sum = text
		if !ok2 {
			sum = st.add(sum, pending)
		}
	}
	return sum
}

type binaryExpr struct {
	op          string
	left, right expr
}

func (e *binaryExpr) eval(st *state) Value {
	left := st.eval(e.left)
	right := st.eval(e.right)
	if st.err != nil {
		return nil
	}
	return st.binary(e.op, left, right)
}

type signExpr struct {
	negative bool
	operand  expr
}

func (e *signExpr) eval(st *state) Value {
	value := st.eval(e.operand)
	switch number := value.(type) {
	case float64:
		if e.negative {
			return -number
		}
		return number
	case bigInt:
		if e.negative {
			return normalInt(number.big().Neg(number.big()))
		}
		return number
	}
	number, ok := asInt(value)
	switch {
	case !ok:
		return st.fail("a sign needs a number, found %s", describe(value))
	case e.negative && number == math.MinInt64: // its negative has no int64
		return bigInt("9223372036854775808")
	case e.negative:
		return -number
	}
	return number
}

// callExpr is a call, or the arguments of a filter or test.
type callExpr struct {
	fn               expr // nil in the arguments of filters and tests
	args             []expr
	kwNames          []string
	kwArgs           []expr
	spread, kwSpread expr // *args and **kwargs
}

// args are evaluated arguments.
type args struct {
	pos []Value
	kw  []entry
}

// named returns a keyword argument.
func (a args) named(name string) (Value, bool) {
	for _, e := range a.kw {
		if e.key == name {
			return e.val, true
		}
	}
	return nil, false
}

// get returns the argument at position i or called name.
func (a args) get(i int, name string) (Value, bool) {
	if i < len(a.pos) {
		return a.pos[i], true
	}
	return a.named(name)
}

// arguments evaluates the arguments of a call, those it spreads behind the others.
func (st *state) arguments(call *callExpr) (passed args) {
	if call == nil || !st.charge((len(call.args)+3*len(call.kwArgs))*valueBytes) {
		return passed
	}
	if len(call.args) > 0 {
		passed.pos = make([]Value, len(call.args))
	}
	for i, e := range call.args {
		passed.pos[i] = st.eval(e)
	}
	for i, e := range call.kwArgs {
		passed.kw = append(passed.kw, entry{call.kwNames[i], st.eval(e)})
	}
	if call.spread != nil {
		more := st.iterate(st.eval(call.spread))
		if st.charge(len(more) * 2 * valueBytes) {
			passed.pos = append(passed.pos, more...)
		}
	}
	if call.kwSpread != nil {
		value := st.eval(call.kwSpread)
		dict, ok := value.(*Dict)
		if !ok {
			st.fail("'**' needs a dict, found %s", describe(value))
		} else if st.charge(len(dict.entries) * entryBytes) {
			passed.kw = append(passed.kw, dict.entries...)
		}
	}
	return passed
}

func (e *callExpr) eval(st *state) Value {
	// Calling a method needs no bound method value.
	if attribute, ok := e.fn.(*attrExpr); ok {
		obj := st.eval(attribute.obj)
		if s, ok := obj.(string); ok {
			if method, ok := stringMethods[attribute.name]; ok {
				return st.callString(method, s, attribute.name, st.arguments(e))
			}
		}
		fn := st.attr(obj, attribute.name)
		return st.callValue(fn, st.arguments(e))
	}
	fn := st.eval(e.fn)
	return st.callValue(fn, st.arguments(e))
}

// callValue calls a macro, a global or a method.
func (st *state) callValue(fn Value, passed args) Value {
	if st.err != nil || !st.enter() {
		return nil
	}
	defer st.leave()
	switch fn := fn.(type) {
	case *closure:
		return st.callMacro(fn, passed)
	case builtin:
		return st.callBuiltin(string(fn), passed)
	case boundMethod:
		switch recv := fn.recv.(type) {
		case string:
			return st.callString(stringMethods[fn.name], recv, fn.name, passed)
		case *Dict:
			return st.callDict(recv, fn.name, passed)
		case *List:
			return st.callList(recv, fn.name, passed)
		case *loopState: // loop.cycle
			if len(passed.pos) > 0 {
				return passed.pos[recv.index%len(passed.pos)]
			}
		}
	case undefined:
		return st.fail("%s; cannot call it", fn)
	}
	return st.fail("%s cannot be called", typeName(fn))
}

type filterExpr struct {
	in   expr // nil: the captured text of a block
	name string
	call *callExpr
}

func (e *filterExpr) eval(st *state) Value {
	var in Value = st.captured
	if e.in != nil {
		in = st.eval(e.in)
	}
	value := st.filter(e.name, in, st.arguments(e.call))
	if s, ok := value.(string); ok && (e.name == "safe" || e.name == "e" || e.name == "escape") {
		return markup(s)
	}
	return value
}

type testExpr struct {
	in     expr
	name   string
	negate bool
	call   *callExpr
}

func (e *testExpr) eval(st *state) Value {
	in := st.eval(e.in)
	return st.test(e.name, in, st.arguments(e.call)) != e.negate
}
