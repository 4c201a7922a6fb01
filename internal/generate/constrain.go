package generate

import (
	"cmp"
	"context"
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

// Constraints makes the constraint of each choice; nil = they are free.
type Constraints func() sched.Constraint

// Constrain returns what answers to a conversation are held to. What they leave out of the
// schemas is named in ignored, as requests have it.
func (s *Service) Constrain(ctx context.Context, model *host.Model, conv *chat.Conversation, rules *chat.Rules, at Places) (fresh Constraints, ignored []string, err error) {
	compile, release := s.compiler(ctx, model)
	defer release()
	rules.Loose = rules.Loose || s.cfg.Loose
	left := &omissions{rules: rules, at: at}
	free, err := model.Format.Constraint(conv, rules, left.watch(compile))
	if err != nil {
		return nil, nil, formError(err, rules, at)
	}
	ignored, err = s.ignored(left)
	return constraints(free), ignored, err
}

// ConstrainText is Constrain without a conversation: all of an answer is its text.
func (s *Service) ConstrainText(ctx context.Context, model *host.Model, src *grammar.Source, at Places) (fresh Constraints, ignored []string, err error) {
	if src == nil {
		return nil, nil, nil
	}
	compile, release := s.compiler(ctx, model)
	defer release()
	left := &omissions{rules: &chat.Rules{Answer: src}, at: at}
	compiled, err := left.watch(compile)(*src)
	if e, ok := errors.AsType[*grammar.Error](err); ok {
		err = &chat.FormError{Tool: -1, Err: e}
	}
	if err != nil {
		return nil, nil, formError(err, left.rules, at)
	}
	ignored, err = s.ignored(left)
	return constraints(chat.Hold(compiled, model.Stops)), ignored, err
}

// omissions are what schemas ask for and output is not held to: keywords that are not
// known, and schemas without a grammar where any object will do.
type omissions struct {
	rules *chat.Rules
	at    Places
	found []omission
}

// An omission is one of them, in a member of the request.
type omission struct {
	param      string
	strict     bool // the schema is to be followed in every word
	annotation bool // by the standard a remark, which is named and never refused
	grammar.Error
}

// watch returns compile, with a look at what it leaves out.
func (o *omissions) watch(compile chat.Compile) chat.Compile {
	return func(src grammar.Source) (*grammar.Grammar, error) {
		// A source may frame others, those of calls between tags. What is found says which
		// frame it is in, from 1: 0 is the text of the source, or of an error no one's alone.
		parts := []grammar.Source{src}
		for i := range src.Frames {
			parts = append(parts, src.Frames[i].JSON)
		}
		compiled, err := compile(src)
		if fault, ok := errors.AsType[*grammar.Error](err); ok {
			for i := range parts {
				if fault.Frame == 0 || fault.Frame == i {
					o.add(&parts[i], omission{Error: *fault}, false)
				}
			}
		} else if err == nil {
			o.note(parts, compiled.Ignored(), false)
			o.note(parts, compiled.UnknownFormats(), true)
		}
		return compiled, err
	}
}

// note notes keywords of the parts of a source that was compiled.
func (o *omissions) note(parts []grammar.Source, keywords []grammar.Ignored, annotation bool) {
	type place struct{ text, where string }
	told := map[place]bool{} // add tells all tools with the same schema
	for _, keyword := range keywords {
		at := place{parts[keyword.Frame].Text, keyword.Where}
		if told[at] {
			continue
		}
		told[at] = true
		o.add(&parts[keyword.Frame], omission{annotation: annotation, Error: grammar.Error{Where: keyword.Where,
			What: cmp.Or(keyword.What, "the keyword, or its value, is not known and would be ignored: correct it, or leave it out")}}, true)
	}
}

// add notes an omission for all that has the schema. What is strict has it if it was compiled.
func (o *omissions) add(src *grammar.Source, found omission, compiled bool) {
	found.Frame = 0
	note := func(has *grammar.Source, param string, strict bool) {
		it := found
		it.param, it.strict = param, strict
		same := has.Kind == grammar.Schema && src.Kind == grammar.Schema && has.Text == src.Text
		if same && (compiled || !it.strict) && !slices.Contains(o.found, it) {
			o.found = append(o.found, it)
		}
	}
	if o.rules.Answer != nil {
		note(o.rules.Answer, o.at.Answer, o.at.Strict)
	}
	for i := range o.rules.Tools {
		if rule := &o.rules.Tools[i]; !rule.Hidden {
			note(&rule.Arguments, o.at.Tool(i), rule.Strict)
		}
	}
}

// ignored names what output is not held to, or refuses it where that is not enough.
func (s *Service) ignored(o *omissions) ([]string, error) {
	var names []string
	for _, it := range o.found {
		if it.annotation && s.cfg.Strict { // where what is named would be refused
			continue
		}
		if !it.annotation && (it.strict || s.cfg.Strict) {
			return nil, &wire.Error{Message: it.Error.Error(), Type: wire.TypeInvalidRequest, Param: it.param, Code: wire.CodeRefusedSchema}
		}
		names = append(names, it.param+strings.ReplaceAll(it.Where, ",", "%2C"))
	}
	return names, nil
}

// constraints makes what the engine takes of what formats give.
func constraints(fresh func() chat.Constraint) Constraints {
	if fresh == nil {
		return nil
	}
	return func() sched.Constraint { return fresh() }
}

// formError is what a client is told about a form that output cannot be held to.
func formError(err error, rules *chat.Rules, at Places) error {
	// Of the request as a whole: time, or a format that cannot have such calls.
	if errors.Is(err, errCompile) {
		name := limits.CompileTime.String()
		return &wire.Error{Type: wire.TypeInvalidRequest, Param: at.Answer, Code: wire.CodeRefusedSchema, Limit: name,
			Message: "the forms of the request take too long to compile: use smaller schemas, or fewer tools; the server's --limit " + name + "=N allows more"}
	}
	if _, ok := errors.AsType[chat.NoCallsError](err); ok {
		param := cmp.Or(at.Tools, "tools")
		if rules.MustCall {
			param = cmp.Or(at.Choice, "tool_choice")
		}
		return wire.Unsupported(param, err.Error())
	}
	if fault, ok := errors.AsType[*chat.ToolsError](err); ok {
		tools := cmp.Or(at.Tools, "tools")
		return wire.Unsupported(tools, "all "+tools+" together: "+fault.Err.Error()+": use fewer of them, or shorter names")
	}
	// Of one form: whose it is says the field, what is wrong the code.
	fault, ok := errors.AsType[*chat.FormError](err)
	if !ok {
		return err
	}
	src, param := rules.Answer, at.Answer
	if fault.Tool >= 0 {
		src, param = &rules.Tools[fault.Tool].Arguments, at.Tool(fault.Tool)
	}
	code := wire.CodeInvalidValue
	switch schema := src.Kind <= grammar.Object; {
	case schema && fault.Err.Unsupported:
		code = wire.CodeRefusedSchema
	case schema:
		code = wire.CodeInvalidSchema
	case fault.Err.Unsupported:
		code = wire.CodeUnsupported
	}
	return &wire.Error{Message: fault.Err.Error(), Type: wire.TypeInvalidRequest, Param: param, Code: code}
}
