// Package jinja renders the chat templates that come with models. Callers
// compile a template once and render it with plain data; they need not know
// Jinja's whitespace, scoping and undefined rules, how Python prints a float
// or a dict, or that a template is untrusted code: a render does no I/O, sees
// no clock but the injected one, and ends within fixed bounds on steps, memory
// and depth (CKP-4).
//
// The dialect is the one the reference tokenizer library configures
// (formats.md 13): trim_blocks and lstrip_blocks on, autoescape off, lenient
// undefined values, loop controls, immutable sandbox, tojson as Python's
// json.dumps(ensure_ascii=False). Left out because no published chat template
// uses them: includes and inheritance, call and with blocks, recursive loops,
// extra macro arguments, loop.changed and loop.depth, the globals cycler, joiner and
// lipsum, and the filters attr, center, filesizeformat, format, pprint, random, slice,
// truncate, wordwrap and those for web pages. Integers have
// 64 bits; larger ones are carried and printed but not calculated with.
//
// Compile: lexer → tokens → parser → statements of expressions, which are the program.
// Render: a state runs it, stmt.exec and expr.eval calling one another.
package jinja

import (
	"fmt"
	"strings"
	"time"
)

// Template is a compiled template. It is immutable: any number of goroutines
// may render it at the same time.
type Template struct {
	body    []stmt
	filters map[string]filter
	tests   map[string]testFunc
}

// SyntaxError is what Compile returns for text that is not a template.
type SyntaxError struct {
	Line, Column int // both counted from 1, columns in characters
	Message      string
}

// Error says where and what.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("chat template %d:%d: %s", e.Line, e.Column, e.Message)
}

// RaisedError is what Render returns when the template itself calls
// raise_exception: the conversation, not the template, is at fault.
type RaisedError struct {
	Message string
	Line    int
}

// Error says where, and what the template says.
func (e *RaisedError) Error() string {
	return fmt.Sprintf("chat template line %d refuses the conversation: %s", e.Line, e.Message)
}

// LimitError is what Compile and Render return when a bound is reached.
type LimitError struct {
	What string // "steps", "bytes of memory", "levels of nesting", ...
	Max  int
	Line int
}

// Error says which bound was reached and where.
func (e *LimitError) Error() string {
	return fmt.Sprintf("chat template line %d: more than %d %s; the template loops or grows without bound, or the conversation is too large for it", e.Line, e.Max, e.What)
}

// Compile parses source. Errors are *SyntaxError or *LimitError. A filter or
// test that does not exist is reported when it is used, as in Jinja, so that a
// branch never taken does not make a model unusable.
func Compile(source string) (*Template, error) {
	if len(source) > maxSource {
		return nil, &LimitError{What: "bytes of source", Max: maxSource, Line: 1}
	}
	// Line ends become \n, and the last one is no part of the text, as in Jinja.
	source = strings.ToValidUTF8(source, "\uFFFD")
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	tokens, err := lex(strings.TrimSuffix(source, "\n"))
	if err != nil {
		return nil, err
	}
	parse := parser{src: source, tokens: tokens}
	body := parse.statements()
	if parse.err == nil && parse.cur().kind != tokEOF {
		parse.fail("unexpected %s", parse.cur())
	}
	if parse.err != nil {
		return nil, parse.err
	}
	return &Template{body: body, filters: filterTable(), tests: testTable()}, nil
}

// Render runs the template with the given variables; now answers strftime_now
// and may be nil if the template must not use it. Errors a caller may test for:
// *RaisedError, *LimitError; every other error is a fault of the template for
// this input. The bounds grow linearly with the size of vars.
func (t *Template) Render(vars *Dict, now func() time.Time) (string, error) {
	st := &state{tmpl: t, vars: vars, now: now, steps: baseSteps, memory: baseMemory, scope: &scope{}}
	size, err := measure(vars, 0)
	if err != nil {
		return "", fmt.Errorf("chat template variables: %w", err)
	}
	st.steps += size.values*stepsPerValue + size.bytes
	st.memory += size.values*memoryPerValue + size.bytes*memoryPerByte
	st.maxSteps, st.maxMemory = st.steps, st.memory
	st.exec(t.body)
	if st.err != nil {
		return "", st.err
	}
	return string(st.out), nil
}
