package jinja

import (
	"strconv"
	"strings"
)

// Expression grammar, lowest precedence first, as in the reference parser:
// conditional, or, and, not, comparison, + -, ~, * / // %, **, unary, postfix.

// tuple parses one expression or a comma-separated tuple without parentheses;
// with conditional, "a if c else b" is allowed at the top.
func (p *parser) tuple(conditional bool) expr {
	one := p.expr
	if !conditional {
		one = p.or
	}
	first := one()
	if !p.isOp(",") {
		return first
	}
	items := []expr{first}
	for p.acceptOp(",") {
		if p.cur().kind == tokEnd || p.isOp("=") || p.isOp(")") {
			break
		}
		items = append(items, one())
	}
	return &listExpr{items, kindTuple}
}

func (p *parser) expr() expr {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	e := p.or()
	for p.acceptName("if") {
		cond := p.or()
		var other expr
		if p.acceptName("else") {
			other = p.expr()
		}
		e = &condExpr{cond, e, other}
	}
	return e
}

func (p *parser) or() expr {
	e := p.and()
	for p.acceptName("or") {
		e = &logicExpr{e, p.and(), true}
	}
	return e
}

func (p *parser) and() expr {
	e := p.not()
	for p.acceptName("and") {
		e = &logicExpr{e, p.not(), false}
	}
	return e
}

func (p *parser) not() expr {
	if !p.isName("not") {
		return p.comparison()
	}
	if !p.enter() {
		return nil
	}
	defer p.leave()
	p.next()
	return &notExpr{p.not()}
}

func (p *parser) comparison() expr {
	e := p.sum()
	var links []comparison
	for {
		op := ""
		switch t := p.cur(); {
		case t.kind == tokOp && (t.text == "==" || t.text == "!=" || t.text == "<" || t.text == "<=" || t.text == ">" || t.text == ">="):
			op = t.text
		case p.isName("in"):
			op = "in"
		case p.isName("not") && p.peek().kind == tokName && p.peek().text == "in":
			op = "not in"
			p.next()
		}
		if op == "" {
			break
		}
		p.next()
		links = append(links, comparison{op, p.sum()})
	}
	if links == nil {
		return e
	}
	return &compareExpr{e, links}
}

// sum parses a chain of + and -. Runs of + become one node, so that joining
// many strings copies each once.
func (p *parser) sum() expr {
	e := p.concat()
	for {
		switch {
		case p.acceptOp("+"):
			right := p.concat()
			if add, ok := e.(*addExpr); ok {
				add.terms = append(add.terms, right)
			} else {
				e = &addExpr{[]expr{e, right}}
			}
		case p.acceptOp("-"):
			e = &binaryExpr{"-", e, p.concat()}
		default:
			return e
		}
	}
}

func (p *parser) concat() expr {
	e := p.product()
	if !p.isOp("~") {
		return e
	}
	parts := []expr{e}
	for p.acceptOp("~") {
		parts = append(parts, p.product())
	}
	return &concatExpr{parts}
}

func (p *parser) product() expr {
	e := p.power()
	for p.isOp("*") || p.isOp("/") || p.isOp("//") || p.isOp("%") {
		op := p.next().text
		e = &binaryExpr{op, e, p.power()}
	}
	return e
}

func (p *parser) power() expr {
	e := p.unary(true)
	for p.acceptOp("**") {
		e = &binaryExpr{"**", e, p.unary(true)}
	}
	return e
}

func (p *parser) unary(filters bool) expr {
	var e expr
	if p.isOp("-") || p.isOp("+") {
		if !p.enter() {
			return nil
		}
		defer p.leave()
		e = &signExpr{p.next().text == "-", p.unary(false)}
	} else {
		e = p.primary()
	}
	e = p.postfix(e)
	if filters {
		e = p.filters(e, false)
	}
	return e
}

func (p *parser) primary() expr {
	t := p.cur()
	switch t.kind {
	case tokName:
		p.next()
		switch t.text {
		case "true", "True":
			return literal{true}
		case "false", "False":
			return literal{false}
		case "none", "None":
			return literal{nil}
		}
		return &nameExpr{t.text, undefined{name: t.text}}
	case tokString:
		return p.stringLiteral()
	case tokInt:
		p.next()
		return literal{parseInt(t.text, 0)}
	case tokFloat:
		p.next()
		f, _ := strconv.ParseFloat(t.text, 64)
		return literal{f}
	}
	switch {
	case p.acceptOp("("):
		if p.acceptOp(")") {
			return &listExpr{nil, kindTuple}
		}
		e := p.tuple(true)
		p.expectOp(")")
		return e
	case p.acceptOp("["):
		return &listExpr{p.list(), kindList}
	case p.acceptOp("{"):
		return p.dict()
	}
	p.fail("expected an expression, found %s", t)
	return nil
}

// stringLiteral joins adjacent strings, as Python does.
func (p *parser) stringLiteral() expr {
	var parts []string
	for p.cur().kind == tokString {
		parts = append(parts, p.next().text)
	}
	return literal{strings.Join(parts, "")}
}

// parseInt converts literal text in the given base (0: by prefix).
func parseInt(text string, base int) Value {
	if n, err := strconv.ParseInt(text, base, 64); err == nil {
		return n
	}
	return bigFromText(text, base)
}

func (p *parser) list() (items []expr) {
	for !p.acceptOp("]") && p.err == nil {
		if len(items) > 0 {
			p.expectOp(",")
			if p.acceptOp("]") {
				break
			}
		}
		items = append(items, p.expr())
	}
	return items
}

func (p *parser) dict() expr {
	d := &dictExpr{}
	for !p.acceptOp("}") && p.err == nil {
		if len(d.keys) > 0 {
			p.expectOp(",")
			if p.acceptOp("}") {
				break
			}
		}
		d.keys = append(d.keys, p.expr())
		p.expectOp(":")
		d.vals = append(d.vals, p.expr())
	}
	return d
}

func (p *parser) postfix(e expr) expr {
	for {
		switch {
		case p.acceptOp("."):
			t := p.next()
			switch t.kind {
			case tokName:
				e = &attrExpr{e, t.text}
			case tokInt:
				e = &itemExpr{e, literal{parseInt(t.text, 0)}}
			default:
				p.pos--
				p.fail("expected an attribute name or number after '.', found %s", t)
			}
		case p.acceptOp("["):
			e = p.subscript(e)
		case p.isOp("("):
			e = p.call(e)
		default:
			return e
		}
	}
}

func (p *parser) subscript(e expr) expr {
	var bounds [3]expr
	n := 0
	slice := false
	for p.err == nil && !p.isOp("]") {
		switch {
		case n < 2 && p.acceptOp(":"):
			slice = true
			n++
		case bounds[n] == nil:
			bounds[n] = p.expr()
		default:
			p.fail("expected ']', found %s", p.cur())
		}
	}
	p.expectOp("]")
	if slice {
		return &sliceExpr{e, bounds}
	}
	if bounds[0] == nil {
		p.pos--
		p.fail("expected an index before ']'")
	}
	return &itemExpr{e, bounds[0]}
}

// call parses the arguments of a call to fn.
func (p *parser) call(fn expr) *callExpr {
	c := &callExpr{fn: fn}
	p.expectOp("(")
	for first := true; !p.acceptOp(")") && p.err == nil; first = false {
		if !first {
			p.expectOp(",")
			if p.acceptOp(")") {
				break
			}
		}
		if p.cur().kind == tokName && p.peek().kind == tokOp && p.peek().text == "=" {
			c.kwNames = append(c.kwNames, p.next().text)
			p.next()
			c.kwArgs = append(c.kwArgs, p.expr())
			p.limitArgs(len(c.kwArgs))
			continue
		}
		if p.acceptOp("**") {
			c.kwSpread = p.expr()
			continue
		}
		if p.acceptOp("*") {
			c.spread = p.expr()
			continue
		}
		if c.kwNames != nil || c.spread != nil || c.kwSpread != nil {
			p.fail("positional argument after a keyword argument")
		}
		c.args = append(c.args, p.expr())
		p.limitArgs(len(c.args))
	}
	return c
}

// filters parses "|name(...)", "is test" and calls after e. With inline, the
// first filter comes without its bar ({% filter name %}); e is then nil and
// stands for the captured text.
func (p *parser) filters(e expr, inline bool) expr {
	for p.err == nil {
		switch {
		case inline || p.acceptOp("|"):
			inline = false
			f := &filterExpr{in: e, name: p.dotted("a filter name")}
			if p.isOp("(") {
				f.call = p.call(nil)
			}
			e = f
		case e != nil && p.acceptName("is"):
			e = p.test(e)
		case e != nil && p.isOp("("):
			e = p.call(e)
		default:
			return e
		}
	}
	return e
}

func (p *parser) dotted(what string) string {
	name := p.name(what)
	for p.acceptOp(".") {
		name += "." + p.name(what)
	}
	return name
}

func (p *parser) test(e expr) expr {
	t := &testExpr{in: e, negate: p.acceptName("not")}
	t.name = p.dotted("a test name")
	switch c := p.cur(); {
	case p.isOp("("):
		t.call = p.call(nil)
	case p.isName("is"):
		p.fail("tests cannot be chained with 'is'")
	case c.kind == tokName && !p.isName("else", "or", "and", "if", "in", "not", "recursive"),
		c.kind == tokString, c.kind == tokInt, c.kind == tokFloat, p.isOp("["), p.isOp("{"):
		t.call = &callExpr{args: []expr{p.postfix(p.primary())}}
	}
	return t
}
