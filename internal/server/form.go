package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"ossian/internal/chat"
	"ossian/internal/grammar"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/sched"
	"ossian/internal/wire"
)

// form returns what the answers to a request are held to, and where it says so; nil =
// nothing.
func form(q *wire.Sampling) (src *grammar.Source, at places, err error) {
	const tags = "output with structural tags is not supported; json_schema, regex, choice and grammar are"
	if f := q.ResponseFormat; f != nil {
		switch f.Type {
		case "json_object":
			return &grammar.Source{Kind: grammar.Object}, places{answer: "response_format"}, nil
		case "json_schema":
			return &grammar.Source{Text: string(f.JSONSchema.Schema)}, places{answer: "response_format.json_schema.schema", strict: f.JSONSchema.Strict}, nil
		case "structural_tag":
			return nil, at, wire.Unsupported("response_format.type", tags)
		}
	}
	s := q.Structured
	if s == nil {
		return nil, at, nil
	}
	src, at.answer = &grammar.Source{}, "structured_outputs."
	if s.Whitespace != nil {
		src.Space = *s.Whitespace
	}
	switch {
	case s.JSONObject:
		src.Kind, at.answer = grammar.Object, at.answer+"json_object"
	case s.Regex != nil:
		src.Kind, src.Text, at.answer = grammar.Regex, *s.Regex, at.answer+"regex"
	case s.Choice != nil:
		src.Kind, src.Choices, at.answer = grammar.Choice, s.Choice, at.answer+"choice"
	case s.Grammar != nil:
		src.Kind, src.Text, at.answer = grammar.EBNF, *s.Grammar, at.answer+"grammar"
	case s.Tag != nil:
		return nil, at, wire.Unsupported(at.answer+"structural_tag", tags)
	default:
		src.Text, at.answer = string(s.JSON), at.answer+"json"
		if s.JSON[0] == '"' { // a string that holds the schema
			if err := json.Unmarshal(s.JSON, &src.Text); err != nil {
				return nil, at, wire.Invalid(at.answer, err.Error())
			}
		}
	}
	return src, at, nil
}

// emptyObject is the form of the arguments of a tool without parameters.
const emptyObject = `{"type":"object","properties":{},"additionalProperties":false}`

// syntaxes are those of the grammars of custom tools.
var syntaxes = map[string]grammar.Kind{"lark": grammar.Lark, "regex": grammar.Regex}

// chatTool returns a tool as models are told of it.
func chatTool(t *wire.Tool) chat.Tool {
	c := chat.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters, JSON: t.Raw}
	switch f := t.Format; {
	case t.Type != "custom":
	case f == nil:
		c.Input = chat.Text
	default:
		c.Input = chat.Formed
		if c.Description != "" {
			c.Description += "\n\n"
		}
		name := "Lark grammar"
		if f.Syntax == "regex" {
			name = "regular expression"
		}
		c.Description += "The input has to match this " + name + ":\n" + f.Definition
	}
	return c
}

// toolPlace returns where a tool has the form of what it takes.
func toolPlace(t *wire.Tool) string {
	if t.Format != nil {
		return t.Format.Place
	}
	return "parameters"
}

// toolRules returns how the tools of a request may be called: as its tool choice says,
// with arguments that follow the schema if the tool is strict or a call is forced.
func toolRules(tools []wire.Tool, c *wire.ToolChoice, parallel *bool) (rules []chat.ToolRule, must, one bool) {
	must = c.Mode == "required" || c.Mode == "named"
	one = c.Mode == "named" || (parallel != nil && !*parallel)
	if c.Mode == "none" {
		return nil, false, false
	}
	for i := range tools {
		t := &tools[i]
		r := chat.ToolRule{Strict: t.Strict, Arguments: grammar.Source{Kind: grammar.Object},
			Hidden: (c.Mode == "named" && t.Name != c.Name) || (c.Allowed != nil && !slices.Contains(c.Allowed, t.Name))}
		switch {
		case t.Format != nil:
			r.Arguments = grammar.Source{Kind: syntaxes[t.Format.Syntax], Text: t.Format.Definition}
		case t.Type == "custom": // any text
		case !must && !t.Strict:
		case t.Parameters == nil:
			r.Arguments = grammar.Source{Text: emptyObject}
		default:
			r.Arguments = grammar.Source{Text: string(t.Parameters)}
		}
		rules = append(rules, r)
	}
	return rules, must, one
}

// budget is a limit of reasoning in the words of chat.Rules.
func budget(tokens *int64) *int {
	if tokens == nil {
		return nil
	}
	n := int(*tokens)
	return &n
}

// places are where a request has the form of the answer and the parameters of its tools.
type places struct {
	answer string
	strict bool // the answer's schema is to be followed in every word
	tool   func(i int) string
}

// constrain returns what makes the constraints of answers to a conversation; nil = they
// are free. What they leave out of the schemas is named in w.
func (s *Server) constrain(ctx context.Context, w *reply, m *host.Model, c *chat.Conversation, r *chat.Rules, at places) (func() sched.Constraint, error) {
	compile, end := s.compiler(ctx, m)
	defer end()
	o := &omissions{r: r, at: at}
	fresh, err := m.Format.Constraint(c, r, o.watch(compile))
	if err != nil {
		return nil, formError(err, r, at)
	}
	return constraints(fresh), s.omitted(w, o)
}

// constrainText is constrain without a conversation: all of an answer is its text.
func (s *Server) constrainText(ctx context.Context, w *reply, m *host.Model, src *grammar.Source, at places) (func() sched.Constraint, error) {
	if src == nil {
		return nil, nil
	}
	compile, end := s.compiler(ctx, m)
	defer end()
	o := &omissions{r: &chat.Rules{Answer: src}, at: at}
	g, err := o.watch(compile)(*src)
	if e, ok := errors.AsType[*grammar.Error](err); ok {
		err = &chat.FormError{Tool: -1, Err: e}
	}
	if err != nil {
		return nil, formError(err, o.r, at)
	}
	return constraints(chat.Hold(g, m.Stops)), s.omitted(w, o)
}

// omissions are what schemas ask for and output is not held to: keywords that are not
// known, and schemas without a grammar where any object will do.
type omissions struct {
	r     *chat.Rules
	at    places
	found []omission
}

type omission struct {
	param  string
	strict bool
	grammar.Error
}

// watch returns compile, with a look at what it leaves out.
func (o *omissions) watch(compile chat.Compile) chat.Compile {
	return func(src grammar.Source) (*grammar.Grammar, error) {
		parts := []grammar.Source{src}
		for i := range src.Frames {
			parts = append(parts, src.Frames[i].JSON)
		}
		g, err := compile(src)
		if e, ok := errors.AsType[*grammar.Error](err); ok {
			for i := range parts {
				if e.Frame == 0 || e.Frame == i {
					o.add(&parts[i], *e, false)
				}
			}
		} else if err == nil {
			type place struct{ text, where string }
			told := map[place]bool{} // add tells all tools with the same schema
			for _, ig := range g.Ignored() {
				at := place{parts[ig.Frame].Text, ig.Where}
				if told[at] {
					continue
				}
				told[at] = true
				o.add(&parts[ig.Frame], grammar.Error{Where: ig.Where, What: "the keyword, or its value, is not known and would be ignored: correct it, or leave it out"}, true)
			}
		}
		return g, err
	}
}

// add notes e for what has the schema. What is strict has it if it was compiled.
func (o *omissions) add(src *grammar.Source, e grammar.Error, compiled bool) {
	e.Frame = 0
	note := func(has *grammar.Source, it omission) {
		if has.Kind == grammar.Schema && src.Kind == grammar.Schema && has.Text == src.Text && (compiled || !it.strict) && !slices.Contains(o.found, it) {
			o.found = append(o.found, it)
		}
	}
	if o.r.Answer != nil {
		note(o.r.Answer, omission{o.at.answer, o.at.strict, e})
	}
	for i := range o.r.Tools {
		if t := &o.r.Tools[i]; !t.Hidden {
			note(&t.Arguments, omission{o.at.tool(i), t.Strict, e})
		}
	}
}

// omitted names what output is not held to, or refuses it where that is not enough.
func (s *Server) omitted(w *reply, o *omissions) error {
	var names []string
	for _, it := range o.found {
		if it.strict || s.cfg.Strict {
			return &wire.Error{Message: it.Error.Error(), Type: wire.TypeInvalidRequest, Param: it.param, Code: wire.CodeRefusedSchema}
		}
		names = append(names, it.param+strings.ReplaceAll(it.Where, ",", "%2C"))
	}
	return s.ignored(w, names)
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
	if e, ok := errors.AsType[*chat.ToolsError](err); ok {
		return wire.Unsupported("tools", e.Error()+": use fewer of them, or shorter names")
	}
	e, ok := errors.AsType[*chat.FormError](err)
	if !ok {
		return err
	}
	src, param := r.Answer, at.answer
	if e.Tool >= 0 {
		src, param = &r.Tools[e.Tool].Arguments, at.tool(e.Tool)
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
func (c *both) Mask(dst []uint64) error {
	if c.mask == nil {
		c.mask = make([]uint64, len(dst))
	}
	if err := cmp.Or(c.a.Mask(dst), c.b.Mask(c.mask)); err != nil {
		return err
	}
	for i := range dst {
		dst[i] &= c.mask[i]
	}
	return nil
}

// Accept implements sched.Constraint.
func (c *both) Accept(id int32) error {
	if err := c.a.Accept(id); err != nil {
		return err
	}
	return c.b.Accept(id)
}
