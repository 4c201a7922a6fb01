package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"ossian/internal/chat"
	"ossian/internal/grammar"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/sched"
	"ossian/internal/wire"
)

// form returns what the answers to a request are held to, and where it says so; nil =
// nothing.
func form(q *wire.Sampling) (src *grammar.Source, param string, err error) {
	const tags = "output with structural tags is not supported; json_schema, regex, choice and grammar are"
	if f := q.ResponseFormat; f != nil {
		switch f.Type {
		case "json_object":
			return &grammar.Source{Kind: grammar.Object}, "response_format", nil
		case "json_schema":
			return &grammar.Source{Text: string(f.JSONSchema.Schema)}, "response_format.json_schema.schema", nil
		case "structural_tag":
			return nil, "", wire.Unsupported("response_format.type", tags)
		}
	}
	s := q.Structured
	if s == nil {
		return nil, "", nil
	}
	src, param = &grammar.Source{}, "structured_outputs."
	if s.Whitespace != nil {
		src.Space = *s.Whitespace
	}
	switch {
	case s.JSONObject:
		src.Kind = grammar.Object
		return src, param + "json_object", nil
	case s.Regex != nil:
		src.Kind, src.Text = grammar.Regex, *s.Regex
		return src, param + "regex", nil
	case s.Choice != nil:
		src.Kind, src.Choices = grammar.Choice, s.Choice
		return src, param + "choice", nil
	case s.Grammar != nil:
		src.Kind, src.Text = grammar.EBNF, *s.Grammar
		return src, param + "grammar", nil
	case s.Tag != nil:
		return nil, "", wire.Unsupported(param+"structural_tag", tags)
	}
	src.Text = string(s.JSON)
	if s.JSON[0] == '"' { // a string that holds the schema
		if err := json.Unmarshal(s.JSON, &src.Text); err != nil {
			return nil, "", wire.Invalid(param+"json", err.Error())
		}
	}
	return src, param + "json", nil
}

// emptyObject is the form of the arguments of a tool without parameters.
const emptyObject = `{"type":"object","properties":{},"additionalProperties":false}`

// toolRules returns how the tools of a request may be called: as its tool choice says,
// with arguments that follow the schema if the tool is strict or a call is forced.
func toolRules(tools []wire.Tool, c *wire.ToolChoice, parallel *bool) (rules []chat.ToolRule, must, one bool) {
	must = c.Mode == "required" || c.Mode == "named"
	one = c.Mode == "named" || parallel != nil && !*parallel
	if c.Mode == "none" {
		return nil, false, false
	}
	for i := range tools {
		t := &tools[i]
		r := chat.ToolRule{Strict: t.Strict, Free: t.Type == "custom", Arguments: grammar.Source{Kind: grammar.Object},
			Hidden: c.Mode == "named" && t.Name != c.Name || c.Allowed != nil && !slices.Contains(c.Allowed, t.Name)}
		switch {
		case !must && !t.Strict && !r.Free:
		case t.Parameters == nil:
			r.Arguments = grammar.Source{Text: emptyObject}
		default:
			r.Arguments = grammar.Source{Text: string(t.Parameters)}
		}
		rules = append(rules, r)
	}
	return rules, must, one
}

// places are where a request has the form of the answer and, with %d for its number, the
// parameters of a tool.
type places struct{ answer, tool string }

// constrain returns what makes the constraints of answers to a conversation; nil = they
// are free.
func (s *Server) constrain(ctx context.Context, m *host.Model, c *chat.Conversation, r *chat.Rules, at places) (func() sched.Constraint, error) {
	if r.Answer == nil && len(c.Tools) == 0 {
		return nil, nil
	}
	compile, end := s.compiler(ctx, m)
	defer end()
	fresh, err := m.Format.Constraint(c, r, compile)
	if err != nil {
		return nil, formError(err, r, at)
	}
	return constraints(fresh), nil
}

// constrainText is constrain without a conversation: all of an answer is its text.
func (s *Server) constrainText(ctx context.Context, m *host.Model, src *grammar.Source, param string) (func() sched.Constraint, error) {
	if src == nil {
		return nil, nil
	}
	compile, end := s.compiler(ctx, m)
	defer end()
	g, err := compile(*src)
	if e, ok := errors.AsType[*grammar.Error](err); ok {
		err = &chat.FormError{Tool: -1, Err: e}
	}
	if err != nil {
		return nil, formError(err, &chat.Rules{Answer: src}, places{answer: param})
	}
	return constraints(chat.Hold(g, m.Stops)), nil
}

// constraints makes what the engine takes of what formats give.
func constraints(fresh func() chat.Constraint) func() sched.Constraint {
	if fresh == nil {
		return nil
	}
	return func() sched.Constraint { return fresh() }
}

// formError is what a client is told about a form that output cannot be held to.
func formError(err error, r *chat.Rules, at places) error {
	if errors.Is(err, errCompile) {
		name := limits.CompileTime.String()
		return &wire.Error{Type: wire.TypeInvalidRequest, Param: at.answer, Code: wire.CodeRefusedSchema, Limit: name,
			Message: "the forms of the request take too long to compile: use smaller schemas, or fewer tools; the server's --limit " + name + "=N allows more"}
	}
	if _, ok := errors.AsType[chat.NoCallsError](err); ok {
		param := "tools"
		if r.MustCall {
			param = "tool_choice"
		}
		return wire.Unsupported(param, err.Error())
	}
	e, ok := errors.AsType[*chat.FormError](err)
	if !ok {
		return err
	}
	src, param := r.Answer, at.answer
	if e.Tool >= 0 {
		src, param = &r.Tools[e.Tool].Arguments, fmt.Sprintf(at.tool, e.Tool)
	}
	code := wire.CodeInvalidValue
	switch schema := src.Kind <= grammar.Object; {
	case schema && e.Err.Unsupported:
		code = wire.CodeRefusedSchema
	case schema:
		code = wire.CodeInvalidSchema
	case e.Err.Unsupported:
		code = wire.CodeUnsupported
	}
	return &wire.Error{Message: e.Err.Error(), Type: wire.TypeInvalidRequest, Param: param, Code: code}
}

// merge returns what makes constraints of both a and b, of which either may be nil.
func merge(a, b func() sched.Constraint) func() sched.Constraint {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return func() sched.Constraint { return &both{a: a(), b: b()} }
}

// A both constraint allows what two of them do.
type both struct {
	a, b sched.Constraint
	mask []uint64 // scratch
}

// Mask implements sched.Constraint.
func (c *both) Mask(dst []uint64) {
	if c.mask == nil {
		c.mask = make([]uint64, len(dst))
	}
	c.a.Mask(dst)
	c.b.Mask(c.mask)
	for i := range dst {
		dst[i] &= c.mask[i]
	}
}

// Accept implements sched.Constraint.
func (c *both) Accept(id int32) error {
	if err := c.a.Accept(id); err != nil {
		return err
	}
	return c.b.Accept(id)
}
