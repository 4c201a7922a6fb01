package jinja

import "slices"

// Statements. exec runs one and reports whether a break or continue is on its
// way to the enclosing loop.

// A flow says what comes after a statement.
type flow uint8

const (
	flowNext flow = iota
	flowBreak
	flowContinue
)

// A stmt is a statement of the program.
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
func (st *state) set(name string, value Value) {
	scope := st.scope
	if !st.work(4 * len(scope.names)) {
		return
	}
	for i, n := range scope.names {
		if n == name {
			scope.vals[i] = value
			return
		}
	}
	scope.names = append(scope.names, name)
	scope.vals = append(scope.vals, value)
}

// lookup resolves a name: scopes, then the caller's variables, then globals.
func (st *state) lookup(name string) (Value, bool) {
	for scope := st.scope; scope != nil; scope = scope.parent {
		st.work(4 * len(scope.names))
		for i, n := range scope.names {
			if n == name {
				return scope.vals[i], true
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

// exec runs a body up to its end or a jump.
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
	expr expr
}

func (s *printStmt) exec(st *state) flow {
	st.line = s.line
	st.print(st.eval(s.expr))
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
		branch := &s.branches[i]
		st.line = branch.line
		if truth(st.eval(branch.cond)) {
			return st.exec(branch.body)
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

// assign stores value in a target, its items one by one in those of a tuple.
func (st *state) assign(to *target, value Value) {
	if to.items != nil {
		items := st.iterate(value)
		if len(items) != len(to.items) {
			st.fail("cannot unpack %d values of %s into %d variables", len(items), describe(value), len(to.items))
			return
		}
		for i := range to.items {
			st.assign(&to.items[i], items[i])
		}
		return
	}
	if to.attr == "" { // a plain name; else the attribute of a namespace
		st.set(to.name, value)
		return
	}
	obj, _ := st.lookup(to.name)
	ns, ok := obj.(*namespace)
	if !ok {
		st.fail("cannot set attribute %q of %q: it is no namespace", to.attr, to.name)
		return
	}
	st.setAttr(ns, to.attr, value)
}

// setAttr stores a namespace attribute. The reference refuses names that begin
// with an underscore.
func (st *state) setAttr(ns *namespace, name string, value Value) {
	if len(name) > 0 && name[0] == '_' {
		st.fail("namespace attribute %q begins with an underscore; rename it", name)
		return
	}
	if st.charge(entryBytes) {
		ns.attrs.Set(name, value)
	}
}

type setStmt struct {
	line   int
	target target
	expr   expr
}

func (s *setStmt) exec(st *state) flow {
	st.line = s.line
	st.assign(&s.target, st.eval(s.expr))
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

// captureScoped runs a body whose text and assignments do not leave it.
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
	index int
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
	// One scope serves all rounds, emptied before each, unless a macro keeps it.
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
		loop.index = i
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
	size := len(l.items)
	switch name {
	case "index":
		return int64(l.index + 1), true
	case "index0":
		return int64(l.index), true
	case "revindex":
		return int64(size - l.index), true
	case "revindex0":
		return int64(size - l.index - 1), true
	case "first":
		return l.index == 0, true
	case "last":
		return l.index == size-1, true
	case "length":
		return int64(size), true
	case "previtem":
		if l.index > 0 {
			return l.items[l.index-1], true
		}
	case "nextitem":
		if l.index < size-1 {
			return l.items[l.index+1], true
		}
	case "cycle":
		return boundMethod{l, name}, true
	}
	return nil, false
}

// A param is a parameter of a macro.
type param struct {
	name string
	def  expr // nil if required
}

// A macro is the text of a definition.
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
	// The macro may outlive its scopes: loops must not empty them.
	for sc := st.scope; sc != nil && !sc.kept; sc = sc.parent {
		sc.kept = true
	}
	if st.charge(entryBytes) {
		st.set(s.macro.name, &closure{s.macro, st.scope})
	}
	return flowNext
}

// callMacro binds arguments as Python does and returns the text of the body.
func (st *state) callMacro(macro *closure, passed args) Value {
	line := st.line
	text := st.capture(func() {
		st.scoped(macro.scope, func() {
			st.bind(macro, passed)
			st.exec(macro.body)
		})
	})
	st.line = line
	return text
}

// bind stores the arguments of a call as variables of the scope.
func (st *state) bind(macro *closure, passed args) {
	if len(passed.pos) > len(macro.params) {
		st.fail("macro %q takes at most %d arguments, got %d", macro.name, len(macro.params), len(passed.pos))
	}
	for _, e := range passed.kw {
		if !slices.ContainsFunc(macro.params, func(prm param) bool { return prm.name == e.key }) {
			st.fail("macro %q has no parameter %q", macro.name, e.key)
		}
	}
	for i, prm := range macro.params { // defaults may use the parameters before them
		value, given := passed.get(i, prm.name)
		switch {
		case given:
		case prm.def != nil:
			value = st.eval(prm.def)
		default:
			value = undefined{name: prm.name}
		}
		st.set(prm.name, value)
	}
}
