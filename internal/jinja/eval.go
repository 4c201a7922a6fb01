package jinja

import (
	"math"
	"strings"
)

type expr interface{ eval(st *state) Value }

// eval evaluates e within the budget.
func (st *state) eval(e expr) Value {
	v := st.operand(e)
	if m, ok := v.(markup); ok {
		return string(m)
	}
	return v
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

type literal struct{ v Value }

func (e literal) eval(*state) Value { return e.v }

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
	d := NewDict()
	for i := range e.keys {
		st.put(d, st.eval(e.keys[i]), st.eval(e.vals[i]))
	}
	return d
}

// put stores an entry made by the template.
func (st *state) put(d *Dict, key, v Value) {
	if st.charge(2*entryBytes) && !d.set(key, v) {
		st.fail("%s cannot be a dict key; use a string or a number", describe(key))
	}
}

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

type notExpr struct{ e expr }

func (e *notExpr) eval(st *state) Value { return !truth(st.eval(e.e)) }

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

func (st *state) compare(op string, a, b Value) bool {
	if st.err != nil {
		return false
	}
	switch op {
	case "==":
		return st.equal(a, b)
	case "!=":
		return !st.equal(a, b)
	case "<":
		return st.order(a, b) < 0
	case "<=":
		return st.order(a, b) <= 0
	case ">":
		return st.order(a, b) > 0
	case ">=":
		return st.order(a, b) >= 0
	case "in":
		return st.contains(b, a)
	}
	return !st.contains(b, a)
}

// contains is Python's "item in container".
func (st *state) contains(container, item Value) bool {
	switch c := container.(type) {
	case string:
		s, ok := item.(string)
		if !ok {
			st.fail("'in' on a string needs a string on its left, found %s", describe(item))
			return false
		}
		return st.work(len(c)+len(s)) && strings.Contains(c, s)
	case *Dict:
		hash, ok := hashKey(item)
		if !ok {
			st.fail("%s cannot be a dict key", describe(item))
		}
		return ok && c.find(hash) >= 0
	case *List:
		for _, x := range c.take() {
			if st.equal(x, item) {
				return true
			}
		}
		return false
	case undefined:
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
	for i := 1; i < len(e.terms); {
		right := st.operand(e.terms[i])
		i++
		s, ok1 := sum.(string)
		t, ok2 := right.(string)
		if !ok1 || !ok2 {
			sum = st.add(sum, right)
			continue
		}
		var pending Value
		text := st.capture(func() {
			st.emit(s)
			for ok2 {
				st.emit(t)
				if i == len(e.terms) || st.err != nil {
					return
				}
				pending = st.operand(e.terms[i])
				i++
				t, ok2 = pending.(string)
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
	e        expr
}

func (e *signExpr) eval(st *state) Value {
	v := st.eval(e.e)
	switch n := v.(type) {
	case float64:
		if e.negative {
			return -n
		}
		return n
	case bigInt:
		if e.negative {
			return normalInt(n.big().Neg(n.big()))
		}
		return n
	}
	n, ok := asInt(v)
	switch {
	case !ok:
		return st.fail("a sign needs a number, found %s", describe(v))
	case e.negative && n == math.MinInt64:
		return bigInt("9223372036854775808")
	case e.negative:
		return -n
	}
	return n
}

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

func (st *state) arguments(c *callExpr) (a args) {
	if c == nil || !st.charge((len(c.args)+3*len(c.kwArgs))*valueBytes) {
		return a
	}
	if len(c.args) > 0 {
		a.pos = make([]Value, len(c.args))
	}
	for i, e := range c.args {
		a.pos[i] = st.eval(e)
	}
	for i, e := range c.kwArgs {
		a.kw = append(a.kw, entry{c.kwNames[i], st.eval(e)})
	}
	if c.spread != nil {
		more := st.iterate(st.eval(c.spread))
		if st.charge(len(more) * 2 * valueBytes) {
			a.pos = append(a.pos, more...)
		}
	}
	if c.kwSpread != nil {
		v := st.eval(c.kwSpread)
		d, ok := v.(*Dict)
		if !ok {
			st.fail("'**' needs a dict, found %s", describe(v))
		} else if st.charge(len(d.entries) * entryBytes) {
			a.kw = append(a.kw, d.entries...)
		}
	}
	return a
}

func (e *callExpr) eval(st *state) Value {
	// Calling a method needs no bound method value.
	if m, ok := e.fn.(*attrExpr); ok {
		obj := st.eval(m.obj)
		if s, ok := obj.(string); ok {
			if method, ok := stringMethods[m.name]; ok {
				return st.callString(method, s, m.name, st.arguments(e))
			}
		}
		fn := st.attr(obj, m.name)
		return st.callValue(fn, st.arguments(e))
	}
	fn := st.eval(e.fn)
	return st.callValue(fn, st.arguments(e))
}

func (st *state) callValue(fn Value, a args) Value {
	if st.err != nil || !st.enter() {
		return nil
	}
	defer st.leave()
	switch f := fn.(type) {
	case *closure:
		return st.callMacro(f, a)
	case builtin:
		return st.callBuiltin(string(f), a)
	case boundMethod:
		switch recv := f.recv.(type) {
		case string:
			return st.callString(stringMethods[f.name], recv, f.name, a)
		case *Dict:
			return st.callDict(recv, f.name, a)
		case *List:
			return st.callList(recv, f.name, a)
		case *loopState: // loop.cycle
			if len(a.pos) > 0 {
				return a.pos[recv.i%len(a.pos)]
			}
		}
	case undefined:
		return st.fail("%s; cannot call it", f)
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
	v := st.filter(e.name, in, st.arguments(e.call))
	if s, ok := v.(string); ok && (e.name == "safe" || e.name == "e" || e.name == "escape") {
		return markup(s)
	}
	return v
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
