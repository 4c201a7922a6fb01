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
	then := p.or()
	for p.acceptName("if") {
		cond := p.or()
		var other expr
		if p.acceptName("else") {
			other = p.expr()
		}
		then = &condExpr{cond, then, other}
	}
	return then
}

func (p *parser) or() expr {
	left := p.and()
	for p.acceptName("or") {
		left = &logicExpr{left, p.and(), true}
	}
	return left
}

func (p *parser) and() expr {
	left := p.not()
	for p.acceptName("and") {
		left = &logicExpr{left, p.not(), false}
	}
	return left
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
	left := p.sum()
	var links []comparison // a < b < c is one chain
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
		return left
	}
	return &compareExpr{left, links}
}

// sum parses a chain of + and -. Runs of + become one node, so that joining
// many strings copies each once.
func (p *parser) sum() expr {
	left := p.concat()
	for {
		switch {
		case p.acceptOp("+"):
			right := p.concat()
			if add, ok := left.(*addExpr); ok {
				add.terms = append(add.terms, right)
			} else {
				left = &addExpr{[]expr{left, right}}
			}
		case p.acceptOp("-"):
			left = &binaryExpr{"-", left, p.concat()}
		default:
			return left
		}
	}
}

func (p *parser) concat() expr {
	first := p.product()
	if !p.isOp("~") {
		return first
	}
	parts := []expr{first}
	for p.acceptOp("~") {
		parts = append(parts, p.product())
	}
	return &concatExpr{parts}
}

func (p *parser) product() expr {
	left := p.power()
	for p.isOp("*") || p.isOp("/") || p.isOp("//") || p.isOp("%") {
		op := p.next().text
		left = &binaryExpr{op, left, p.power()}
	}
	return left
}

func (p *parser) power() expr {
	left := p.unary(true)
	for p.acceptOp("**") {
		left = &binaryExpr{"**", left, p.unary(true)}
	}
	return left
}

func (p *parser) unary(filters bool) expr {
	var operand expr
	if p.isOp("-") || p.isOp("+") {
		if !p.enter() {
			return nil
		}
		defer p.leave()
		operand = &signExpr{p.next().text == "-", p.unary(false)}
	} else {
		operand = p.primary()
	}
	operand = p.postfix(operand)
	if filters {
		operand = p.filters(operand, false)
	}
	return operand
}

func (p *parser) primary() expr {
	tok := p.cur()
	switch tok.kind {
	case tokName:
		p.next()
		switch tok.text {
		case "true", "True":
			return literal{true}
		case "false", "False":
			return literal{false}
		case "none", "None":
			return literal{nil}
		}
		return &nameExpr{tok.text, undefined{name: tok.text}}
	case tokString:
		return p.stringLiteral()
	case tokInt:
		p.next()
		return literal{parseInt(tok.text, 0)}
	case tokFloat:
		p.next()
		f, _ := strconv.ParseFloat(tok.text, 64)
		return literal{f}
	}
	switch { // brackets
	case p.acceptOp("("):
		if p.acceptOp(")") {
			return &listExpr{nil, kindTuple}
		}
		inner := p.tuple(true)
		p.expectOp(")")
		return inner
	case p.acceptOp("["):
		return &listExpr{p.list(), kindList}
	case p.acceptOp("{"):
		return p.dict()
	}
	p.fail("expected an expression, found %s", tok)
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

// list parses items up to "]".
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

// dict parses entries up to "}".
func (p *parser) dict() expr {
	made := &dictExpr{}
	for !p.acceptOp("}") && p.err == nil {
		if len(made.keys) > 0 {
			p.expectOp(",")
			if p.acceptOp("}") {
				break
			}
		}
		made.keys = append(made.keys, p.expr())
		p.expectOp(":")
		made.vals = append(made.vals, p.expr())
	}
	return made
}

// postfix parses attributes, items, slices and calls behind operand.
func (p *parser) postfix(operand expr) expr {
	for {
		switch {
		case p.acceptOp("."):
			tok := p.next()
			switch tok.kind {
			case tokName:
				operand = &attrExpr{operand, tok.text}
			case tokInt:
				operand = &itemExpr{operand, literal{parseInt(tok.text, 0)}}
			default:
				p.pos--
				p.fail("expected an attribute name or number after '.', found %s", tok)
			}
		case p.acceptOp("["):
			operand = p.subscript(operand)
		case p.isOp("("):
			operand = p.call(operand)
		default:
			return operand
		}
	}
}

// subscript parses an index or a slice of operand.
func (p *parser) subscript(operand expr) expr {
	var bounds [3]expr
	given := 0 // colons so far: which bound comes next
	slice := false
	for p.err == nil && !p.isOp("]") {
		switch {
		case given < 2 && p.acceptOp(":"):
			slice = true
			given++
		case bounds[given] == nil:
			bounds[given] = p.expr()
		default:
			p.fail("expected ']', found %s", p.cur())
		}
	}
	p.expectOp("]")
	if slice {
		return &sliceExpr{operand, bounds}
	}
	if bounds[0] == nil {
		p.pos--
		p.fail("expected an index before ']'")
	}
	return &itemExpr{operand, bounds[0]}
}

// call parses the arguments of a call to fn.
func (p *parser) call(fn expr) *callExpr {
	made := &callExpr{fn: fn}
	p.expectOp("(")
	for first := true; !p.acceptOp(")") && p.err == nil; first = false {
		if !first {
			p.expectOp(",")
			if p.acceptOp(")") {
				break
			}
		}
		// name=value, **dict, *list, then what is positional
		if p.cur().kind == tokName && p.peek().kind == tokOp && p.peek().text == "=" {
			made.kwNames = append(made.kwNames, p.next().text)
			p.next()
			made.kwArgs = append(made.kwArgs, p.expr())
			p.limitArgs(len(made.kwArgs))
			continue
		}
		if p.acceptOp("**") {
			made.kwSpread = p.expr()
			continue
		}
		if p.acceptOp("*") {
			made.spread = p.expr()
			continue
		}
		if made.kwNames != nil || made.spread != nil || made.kwSpread != nil {
			p.fail("positional argument after a keyword argument")
		}
		made.args = append(made.args, p.expr())
		p.limitArgs(len(made.args))
	}
	return made
}

// filters parses "|name(...)", "is test" and calls after operand. With inline, the
// first filter comes without its bar ({% filter name %}); operand is then nil and
// stands for the captured text.
func (p *parser) filters(operand expr, inline bool) expr {
	for p.err == nil {
		switch {
		case inline || p.acceptOp("|"):
			inline = false
			filter := &filterExpr{in: operand, name: p.dotted("a filter name")}
			if p.isOp("(") {
				filter.call = p.call(nil)
			}
			operand = filter
		case operand != nil && p.acceptName("is"):
			operand = p.test(operand)
		case operand != nil && p.isOp("("):
			operand = p.call(operand)
		default:
			return operand
		}
	}
	return operand
}

// dotted parses a name of parts with dots between.
func (p *parser) dotted(what string) string {
	name := p.name(what)
	for p.acceptOp(".") {
		name += "." + p.name(what)
	}
	return name
}

// test parses what follows "is"; one argument needs no parentheses.
func (p *parser) test(operand expr) expr {
	test := &testExpr{in: operand, negate: p.acceptName("not")}
	test.name = p.dotted("a test name")
	switch tok := p.cur(); {
	case p.isOp("("):
		test.call = p.call(nil)
	case p.isName("is"):
		p.fail("tests cannot be chained with 'is'")
	case tok.kind == tokName && !p.isName("else", "or", "and", "if", "in", "not", "recursive"),
		tok.kind == tokString, tok.kind == tokInt, tok.kind == tokFloat, p.isOp("["), p.isOp("{"):
		test.call = &callExpr{args: []expr{p.postfix(p.primary())}}
	}
	return test
}
