package jinja

import (
	"math"
	"strings"
	"unicode/utf8"
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
		if o.kind == kindList && listMethods[name] || o.kind == kindTuple && (name == "index" || name == "count") {
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

type callExpr struct {
	fn               expr // nil in the arguments of filters and tests
	args             []expr
	kwNames          []string
	kwArgs           []expr
	spread, kwSpread expr // *args and **kwargs
	line             int
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
		case *loopState:
			return st.callLoop(recv, f.name, a)
		}
	case *loopState:
		return st.recurse(f, a)
	case undefined:
		return st.fail("%s; cannot call it", f)
	}
	return st.fail("%s cannot be called", typeName(fn))
}

// recurse is loop(items) inside a recursive for.
func (st *state) recurse(l *loopState, a args) Value {
	if !l.stmt.recursive || len(a.pos) != 1 {
		return st.fail("loop() needs 'recursive' on the for tag and one argument")
	}
	outer := st.scope
	st.scope = l.scope
	text := st.capture(func() { l.stmt.run(st, a.pos[0], l.depth+1) })
	st.scope = outer
	return text
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
	if s, ok := v.(string); ok && (e.name == "safe" || e.name == "e" || e.name == "escape" || e.name == "forceescape") {
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
