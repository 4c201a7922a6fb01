package jinja

import "slices"

// Statements. exec runs a body and reports whether a break or continue is on
// its way to the enclosing loop.

type flow uint8

const (
	flowNext flow = iota
	flowBreak
	flowContinue
)

type stmt interface{ exec(st *state) flow }

// scope holds the variables one template, loop iteration, macro call or block
// assigned. Reads go outwards, assignments stay.
type scope struct {
	parent *scope
	names  []string
	vals   []Value
	kept   bool // a macro defined here refers to it
}

func (s *scope) set(name string, v Value) {
	for i, n := range s.names {
		if n == name {
			s.vals[i] = v
			return
		}
	}
	s.names = append(s.names, name)
	s.vals = append(s.vals, v)
}

// lookup resolves a name: scopes, then the caller's variables, then globals.
func (st *state) lookup(name string) (Value, bool) {
	for s := st.scope; s != nil; s = s.parent {
		for i, n := range s.names {
			if n == name {
				return s.vals[i], true
			}
		}
	}
	if st.vars != nil {
		if v, ok := st.vars.Get(name); ok {
			return v, true
		}
	}
	switch name {
	case "range", "dict", "namespace", "raise_exception", "strftime_now":
		return builtin(name), true
	}
	return nil, false
}

// scoped runs f in a new scope inside parent.
func (st *state) scoped(parent *scope, f func()) {
	outer := st.scope
	st.scope = &scope{parent: parent}
	if st.charge(2 * entryBytes) {
		f()
	}
	st.scope = outer
}

func (st *state) exec(body []stmt) flow {
	if !st.enter() {
		return flowNext
	}
	defer st.leave()
	for _, s := range body {
		if !st.work(0) {
			break
		}
		if f := s.exec(st); f != flowNext {
			return f
		}
	}
	return flowNext
}

type textStmt struct{ text string }

func (s *textStmt) exec(st *state) flow {
	st.emit(s.text)
	return flowNext
}

type printStmt struct {
	line int
	e    expr
}

func (s *printStmt) exec(st *state) flow {
	st.line = s.line
	st.print(st.eval(s.e))
	return flowNext
}

type branch struct {
	line int
	cond expr
	body []stmt
}

type ifStmt struct {
	branches []branch
	other    []stmt
}

func (s *ifStmt) exec(st *state) flow {
	for i := range s.branches {
		b := &s.branches[i]
		st.line = b.line
		if truth(st.eval(b.cond)) {
			return st.exec(b.body)
		}
	}
	return st.exec(s.other)
}

type jumpStmt struct{ to flow }

func (s *jumpStmt) exec(*state) flow { return s.to }

// target is a name, a namespace attribute or, if items is set, a tuple.
type target struct {
	name, attr string
	items      []target
}

func (st *state) assign(t *target, v Value) {
	if t.items != nil {
		items := st.iterate(v)
		if len(items) != len(t.items) {
			st.fail("cannot unpack %d values of %s into %d variables", len(items), describe(v), len(t.items))
			return
		}
		for i := range t.items {
			st.assign(&t.items[i], items[i])
		}
		return
	}
	if t.attr == "" {
		st.scope.set(t.name, v)
		return
	}
	obj, _ := st.lookup(t.name)
	ns, ok := obj.(*namespace)
	if !ok {
		st.fail("cannot set attribute %q of %q: it is no namespace", t.attr, t.name)
		return
	}
	st.setAttr(ns, t.attr, v)
}

// setAttr stores a namespace attribute. The reference refuses names that begin
// with an underscore.
func (st *state) setAttr(ns *namespace, name string, v Value) {
	if len(name) > 0 && name[0] == '_' {
		st.fail("namespace attribute %q begins with an underscore; rename it", name)
		return
	}
	if st.charge(entryBytes) {
		ns.attrs.Set(name, v)
	}
}

type setStmt struct {
	line   int
	target target
	e      expr
}

func (s *setStmt) exec(st *state) flow {
	st.line = s.line
	st.assign(&s.target, st.eval(s.e))
	return flowNext
}

type setBlockStmt struct {
	line   int
	target target
	filter expr // nil, or filters to apply to the captured text
	body   []stmt
}

func (s *setBlockStmt) exec(st *state) flow {
	text := st.captureScoped(s.body)
	st.line = s.line
	st.assign(&s.target, st.evalCaptured(s.filter, text))
	return flowNext
}

func (st *state) captureScoped(body []stmt) string {
	return st.capture(func() { st.scoped(st.scope, func() { st.exec(body) }) })
}

// evalCaptured applies a chain of filters whose innermost input is text.
func (st *state) evalCaptured(filter expr, text string) Value {
	if filter == nil {
		return text
	}
	outer := st.captured
	st.captured = text
	v := st.eval(filter)
	st.captured = outer
	return v
}

type filterStmt struct {
	line   int
	filter expr
	body   []stmt
}

func (s *filterStmt) exec(st *state) flow {
	text := st.captureScoped(s.body)
	st.line = s.line
	st.print(st.evalCaptured(s.filter, text))
	return flowNext
}

// scopeStmt runs a body whose assignments stay inside: {% generation %}.
type scopeStmt struct{ body []stmt }

func (s *scopeStmt) exec(st *state) flow {
	st.scoped(st.scope, func() { st.exec(s.body) })
	return flowNext
}

type withStmt struct {
	line    int
	targets []target
	values  []expr
	body    []stmt
}

func (s *withStmt) exec(st *state) (f flow) {
	st.line = s.line
	values := make([]Value, len(s.values))
	for i, e := range s.values {
		values[i] = st.eval(e)
	}
	st.scoped(st.scope, func() {
		for i := range s.targets {
			st.assign(&s.targets[i], values[i])
		}
		f = st.exec(s.body)
	})
	return f
}

type forStmt struct {
	line      int
	target    target
	iter      expr
	cond      expr // nil, or the filter of "for x in y if cond"
	recursive bool
	body      []stmt
	other     []stmt // runs when there was nothing to visit
}

// loopState is the variable named loop.
type loopState struct {
	stmt  *forStmt
	scope *scope // around the loop, for recursive calls
	items []Value
	i     int
	depth int
	last  []Value // arguments of the previous loop.changed call
}

func (s *forStmt) exec(st *state) flow {
	st.line = s.line
	s.run(st, st.eval(s.iter), 0)
	return flowNext
}

func (s *forStmt) run(st *state, over Value, depth int) {
	items := st.iterate(over)
	if s.cond != nil {
		items = s.selected(st, items)
	}
	if len(items) == 0 {
		st.scoped(st.scope, func() { st.exec(s.other) })
		return
	}
	outer := st.scope
	loop := &loopState{stmt: s, scope: outer, items: items, depth: depth}
	inner := &scope{parent: outer}
	for i, item := range items {
		if !st.work(0) {
			break
		}
		if inner.kept {
			inner = &scope{parent: outer}
			st.charge(entryBytes)
		}
		inner.names, inner.vals = inner.names[:0], inner.vals[:0]
		loop.i = i
		st.scope = inner
		inner.set("loop", loop)
		st.assign(&s.target, item)
		if st.exec(s.body) == flowBreak {
			break
		}
	}
	st.scope = outer
}

// selected returns the items for which the loop's condition holds.
func (s *forStmt) selected(st *state, items []Value) []Value {
	if !st.charge(len(items) * valueBytes) {
		return nil
	}
	kept := make([]Value, 0, len(items))
	st.scoped(st.scope, func() {
		for _, item := range items {
			st.assign(&s.target, item)
			if truth(st.eval(s.cond)) {
				kept = append(kept, item)
			}
		}
	})
	return kept
}

// attr implements loop.name.
func (l *loopState) attr(name string) (Value, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.i + 1), true
	case "index0":
		return int64(l.i), true
	case "revindex":
		return int64(n - l.i), true
	case "revindex0":
		return int64(n - l.i - 1), true
	case "first":
		return l.i == 0, true
	case "last":
		return l.i == n-1, true
	case "length":
		return int64(n), true
	case "depth":
		return int64(l.depth + 1), true
	case "depth0":
		return int64(l.depth), true
	case "previtem":
		if l.i > 0 {
			return l.items[l.i-1], true
		}
	case "nextitem":
		if l.i < n-1 {
			return l.items[l.i+1], true
		}
	case "cycle", "changed":
		return boundMethod{l, name}, true
	}
	return nil, false
}

type param struct {
	name string
	def  expr // nil if required
}

type macro struct {
	name   string
	params []param
	body   []stmt
	// whether the body mentions these names and so accepts extra arguments
	varargs, kwargs bool
}

// closure is a macro with the scope it was defined in.
type closure struct {
	*macro
	scope *scope
}

type macroStmt struct {
	line  int
	macro *macro
}

func (s *macroStmt) exec(st *state) flow {
	st.line = s.line
	st.assign(&target{name: s.macro.name}, st.closure(s.macro))
	return flowNext
}

func (st *state) closure(m *macro) *closure {
	for s := st.scope; s != nil && !s.kept; s = s.parent {
		s.kept = true
	}
	st.charge(entryBytes)
	return &closure{m, st.scope}
}

type callStmt struct {
	line   int
	call   *callExpr
	caller *macro
}

func (s *callStmt) exec(st *state) flow {
	st.line = s.line
	fn := st.eval(s.call.fn)
	a := st.arguments(s.call)
	a.kw = append(a.kw, entry{"caller", st.closure(s.caller)})
	st.print(st.callValue(fn, a))
	return flowNext
}

// callMacro binds arguments as Python does and returns the text of the body.
func (st *state) callMacro(c *closure, a args) Value {
	line := st.line
	text := st.capture(func() {
		st.scoped(c.scope, func() {
			st.bind(c, a)
			st.exec(c.body)
		})
	})
	st.line = line
	return text
}

// bind assigns parameters and, where the body mentions them, varargs, kwargs
// and caller.
func (st *state) bind(c *closure, a args) {
	for i, prm := range c.params {
		v, named := a.named(prm.name)
		switch {
		case i < len(a.pos):
			v = a.pos[i]
		case named:
		case prm.def != nil:
			v = st.eval(prm.def)
		default:
			v = undefined{name: prm.name}
		}
		st.assign(&target{name: prm.name}, v)
	}
	if len(a.pos) > len(c.params) && !c.varargs {
		st.fail("macro %q takes at most %d arguments, got %d", c.name, len(c.params), len(a.pos))
	}
	rest := NewDict()
	for _, e := range a.kw {
		switch {
		case e.key == "caller":
			st.assign(&target{name: "caller"}, e.val)
		case slices.ContainsFunc(c.params, func(prm param) bool { return prm.name == e.key }):
		case c.kwargs:
			rest.set(e.key, e.val)
		default:
			st.fail("macro %q has no parameter %q", c.name, e.key)
		}
	}
	if c.varargs {
		st.assign(&target{name: "varargs"}, newTuple(a.pos[min(len(c.params), len(a.pos)):]...))
	}
	if c.kwargs {
		st.assign(&target{name: "kwargs"}, rest)
	}
}
