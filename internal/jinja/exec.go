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

// set stores a variable of the current scope. Scopes are lists, because most
// hold a few names; long ones cost steps in proportion.
func (st *state) set(name string, v Value) {
	s := st.scope
	if !st.work(4 * len(s.names)) {
		return
	}
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
		st.work(4 * len(s.names))
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
		st.set(t.name, v)
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

type forStmt struct {
	line   int
	target target
	iter   expr
	cond   expr // nil, or the filter of "for x in y if cond"
	body   []stmt
	other  []stmt // runs when there was nothing to visit
}

// loopState is the variable named loop.
type loopState struct {
	items []Value
	i     int
}

func (s *forStmt) exec(st *state) flow {
	st.line = s.line
	items := st.iterate(st.eval(s.iter))
	if s.cond != nil {
		items = s.selected(st, items)
	}
	if len(items) == 0 {
		return st.exec(s.other)
	}
	outer := st.scope
	loop := &loopState{items: items}
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
		st.set("loop", loop)
		st.assign(&s.target, item)
		if st.exec(s.body) == flowBreak {
			break
		}
	}
	st.scope = outer
	return flowNext
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
	case "previtem":
		if l.i > 0 {
			return l.items[l.i-1], true
		}
	case "nextitem":
		if l.i < n-1 {
			return l.items[l.i+1], true
		}
	case "cycle":
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
	for sc := st.scope; sc != nil && !sc.kept; sc = sc.parent {
		sc.kept = true
	}
	if st.charge(entryBytes) {
		st.set(s.macro.name, &closure{s.macro, st.scope})
	}
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

func (st *state) bind(c *closure, a args) {
	if len(a.pos) > len(c.params) {
		st.fail("macro %q takes at most %d arguments, got %d", c.name, len(c.params), len(a.pos))
	}
	for _, e := range a.kw {
		if !slices.ContainsFunc(c.params, func(prm param) bool { return prm.name == e.key }) {
			st.fail("macro %q has no parameter %q", c.name, e.key)
		}
	}
	for i, prm := range c.params {
		v, given := a.get(i, prm.name)
		switch {
		case given:
		case prm.def != nil:
			v = st.eval(prm.def)
		default:
			v = undefined{name: prm.name}
		}
		st.set(prm.name, v)
	}
}
