package jinja

import (
	"fmt"
	"slices"
)

// parser is a recursive-descent parser over the token list. After the first
// error it sits on the end token, so every loop ends.
type parser struct {
	src    string
	tokens []token
	pos    int
	depth  int // of nesting in the source
	loops  int // enclosing for loops of the current macro
	err    error
}

func (p *parser) cur() token { return p.tokens[p.pos] }

func (p *parser) peek() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	tok := p.cur()
	if p.pos < len(p.tokens)-1 {
		p.pos++
	}
	return tok
}

// fail records the first error, at the current token, and goes to the end.
func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = syntaxError(p.src, p.cur().pos, fmt.Sprintf(format, args...))
	}
	p.pos = len(p.tokens) - 1
}

// enter counts one level of source nesting; every true is paired with a leave.
func (p *parser) enter() bool {
	if p.depth >= maxNesting {
		if p.err == nil {
			p.err = &LimitError{What: "levels of nesting in the source", Max: maxNesting, Line: p.cur().line}
		}
		p.pos = len(p.tokens) - 1
		return false
	}
	p.depth++
	return true
}

func (p *parser) leave() { p.depth-- }

func (p *parser) isOp(op string) bool {
	t := p.cur()
	return t.kind == tokOp && t.text == op
}

func (p *parser) isName(names ...string) bool {
	t := p.cur()
	return t.kind == tokName && slices.Contains(names, t.text)
}

func (p *parser) acceptOp(op string) bool {
	if p.isOp(op) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) acceptName(name string) bool {
	if p.isName(name) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) expectOp(op string) {
	if !p.acceptOp(op) {
		p.fail("expected '%s', found %s", op, p.cur())
	}
}

func (p *parser) expectEnd() {
	if p.cur().kind != tokEnd {
		p.fail("expected end of tag, found %s", p.cur())
	}
	p.next()
}

func (p *parser) name(what string) string {
	if p.cur().kind != tokName {
		p.fail("expected %s, found %s", what, p.cur())
	}
	return p.next().text
}

// statements parses up to the end of the template or to a block tag with one
// of the given names, on which it stops: cur is then that name.
func (p *parser) statements(until ...string) []stmt {
	var body []stmt
	if !p.enter() {
		return nil
	}
	defer p.leave()
	for {
		tok := p.next()
		switch tok.kind {
		case tokData:
			body = append(body, &textStmt{tok.text})
		case tokPrint:
			e := p.tuple(true)
			p.expectEnd()
			body = append(body, &printStmt{tok.line, e})
		case tokBlock: // the caller's end tag, or a statement
			if p.isName(until...) {
				return body
			}
			if s := p.statement(); s != nil {
				body = append(body, s)
			}
		case tokEOF:
			if len(until) > 0 && p.err == nil {
				p.fail("expected '{%% %s %%}', found end of template", until[len(until)-1])
			}
			return body
		}
	}
}

// block parses a body up to its end tag and consumes that tag.
func (p *parser) block(end string) []stmt {
	body := p.statements(end)
	p.next()
	p.expectEnd()
	return body
}

// statement parses the tag of a statement and its body.
func (p *parser) statement() stmt {
	line := p.cur().line
	switch keyword := p.name("a statement"); keyword {
	case "if":
		return p.ifStatement(line)
	case "for":
		return p.forStatement(line)
	case "set":
		return p.setStatement(line)
	case "macro":
		return p.macroStatement(line)
	case "filter":
		filters := p.filters(nil, true)
		p.expectEnd()
		return &filterStmt{line, filters, p.block("endfilter")}
	case "generation":
		p.expectEnd()
		return &scopeStmt{p.inner(func() []stmt { return p.block("endgeneration") })}
	case "break", "continue":
		if p.loops == 0 {
			p.fail("'%s' outside of a for loop", keyword)
		}
		p.expectEnd()
		return &jumpStmt{map[string]flow{"break": flowBreak, "continue": flowContinue}[keyword]}
	default: // the message is for the word itself
		if p.err == nil {
			p.pos--
			p.fail("unknown statement '%.40s'", keyword)
		}
	}
	return nil
}

// inner parses a body that is compiled like a function of its own: break and
// continue cannot leave it.
func (p *parser) inner(body func() []stmt) []stmt {
	loops := p.loops
	p.loops = 0
	defer func() { p.loops = loops }()
	return body()
}

func (p *parser) ifStatement(line int) stmt {
	made := &ifStmt{}
	for {
		cond := p.tuple(false)
		p.expectEnd()
		made.branches = append(made.branches, branch{line, cond, p.statements("elif", "else", "endif")})
		tag := p.next()
		if tag.text != "elif" || p.err != nil {
			p.expectEnd()
			if tag.text == "else" {
				made.other = p.block("endif")
			}
			return made
		}
		line = tag.line
	}
}

func (p *parser) forStatement(line int) stmt {
	made := &forStmt{line: line, target: p.target(false)}
	if !p.acceptName("in") {
		p.fail("expected 'in', found %s", p.cur())
	}
	made.iter = p.tuple(false)
	if p.acceptName("if") {
		made.cond = p.expr()
	}
	p.expectEnd()
	p.loops++ // the body, not what runs instead of it
	made.body = p.statements("else", "endfor")
	p.loops--
	if p.next().text == "else" {
		p.expectEnd()
		made.other = p.block("endfor")
	} else {
		p.expectEnd()
	}
	return made
}

// target parses what a for or set assigns to: names, possibly in nested
// tuples, or for set an attribute of a namespace.
func (p *parser) target(attr bool) target {
	var items []target
	tuple := false
	for {
		items = append(items, p.targetItem(attr))
		if !p.acceptOp(",") {
			break
		}
		tuple = true
		if (p.cur().kind != tokName && !p.isOp("(")) || p.isName("in") {
			break
		}
	}
	if !tuple {
		return items[0]
	}
	return target{items: items}
}

// targetItem parses one name, attribute or tuple in parentheses.
func (p *parser) targetItem(attr bool) target {
	if p.acceptOp("(") {
		if !p.enter() {
			return target{}
		}
		defer p.leave()
		item := p.target(attr)
		p.expectOp(")")
		return item
	}
	if p.isName("true", "false", "none", "True", "False", "None") {
		p.fail("cannot assign to %s", p.cur())
	}
	item := target{name: p.name("a variable name")}
	if attr && p.acceptOp(".") {
		item.attr = p.name("an attribute name")
	}
	return item
}

func (p *parser) setStatement(line int) stmt {
	to := p.target(true)
	if p.acceptOp("=") {
		e := p.tuple(true)
		p.expectEnd()
		return &setStmt{line, to, e}
	}
	var filters expr
	if p.isOp("|") {
		filters = p.filters(nil, false)
	}
	p.expectEnd()
	return &setBlockStmt{line, to, filters, p.block("endset")}
}

func (p *parser) macroStatement(line int) stmt {
	made := &macro{name: p.name("a macro name")}
	p.expectOp("(")
	for !p.acceptOp(")") && p.err == nil {
		if len(made.params) > 0 {
			p.expectOp(",")
		}
		prm := param{name: p.name("a parameter name")}
		if p.acceptOp("=") {
			prm.def = p.expr()
		} else if n := len(made.params); n > 0 && made.params[n-1].def != nil {
			p.fail("parameter '%s' without default follows one with default", prm.name)
		}
		made.params = append(made.params, prm)
		p.limitArgs(len(made.params))
	}
	p.expectEnd()
	made.body = p.inner(func() []stmt { return p.block("endmacro") })
	return &macroStmt{line, made}
}

// limitArgs bounds lists that are searched by name.
func (p *parser) limitArgs(n int) {
	if n > maxArgs {
		p.fail("more than %d arguments", maxArgs)
	}
}
