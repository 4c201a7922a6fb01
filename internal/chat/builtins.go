package chat

import (
	"slices"
	"strings"

	"ossian/internal/chat/declare"
	"ossian/internal/grammar"
)

// Tools that the server runs are namespaces, which harmony was trained on. Models of other
// families know functions alone: they are offered each tool as one, and whoever reads their
// answers is told the recipient all the same (functionParser).

// A builtinTool is one of them as a model knows it.
type builtinTool struct {
	recipient string // NAMESPACE.TOOL, or NAMESPACE
	shown     string // the same with names that formats can write
	tool      *Tool  // nil = the namespace itself is called, with text
	space     *Namespace
}

// builtins are the tools that can be called now, sorted by namespace: a prompt does not depend
// on the order in which they were switched on.
func (c *Conversation) builtins() (all []builtinTool) {
	if c.NoCalls {
		return nil
	}
	for _, space := range c.spaces() {
		names := declare.NewNames(toolNames(space.Tools))
		if len(space.shown()) == 0 { // the description says how to call it
			all = append(all, builtinTool{recipient: space.Name, shown: space.Name, space: space})
		}
		for i := range space.Tools {
			all = append(all, builtinTool{space.Name + "." + space.Tools[i].Name, space.Name + "." + names.ByTool[i], &space.Tools[i], space})
		}
	}
	return all
}

// spaces are the namespaces sorted by name.
func (c *Conversation) spaces() []*Namespace {
	all := make([]*Namespace, len(c.Builtins))
	for i := range c.Builtins {
		all[i] = &c.Builtins[i]
	}
	slices.SortStableFunc(all, func(a, b *Namespace) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// shown are the tools of a namespace that are declared.
func (n *Namespace) shown() (all []Tool) {
	for _, tool := range n.Tools {
		if !tool.Unshown {
			all = append(all, tool)
		}
	}
	return all
}

// builtin reports whether name is a built-in tool: a namespace or one of its tools.
func (c *Conversation) builtin(name string) bool {
	space, _, _ := strings.Cut(name, ".")
	return slices.ContainsFunc(c.Builtins, func(n Namespace) bool { return n.Name == space })
}

// ran reports whether a turn has a call of a built-in tool, as a model writes its recipient.
func (c *Conversation) ran(shown string) bool {
	return slices.ContainsFunc(c.Turns, func(turn Turn) bool {
		return slices.ContainsFunc(turn.Calls, func(call Call) bool { return call.Builtin && c.showBuiltin(call.Name) == shown })
	})
}

// showBuiltin is a recipient as formats write it. Calls of tools that are no longer offered
// are still shown.
func (c *Conversation) showBuiltin(recipient string) string {
	space, tool, found := strings.Cut(recipient, ".")
	if !found {
		return recipient
	}
	for i := range c.Builtins {
		if c.Builtins[i].Name == space {
			return space + "." + declare.NewNames(toolNames(c.Builtins[i].Tools)).Show(tool)
		}
	}
	return space + "." + declare.NewNames(nil).Show(tool)
}

// findBuiltin returns the recipient that a model means.
func (c *Conversation) findBuiltin(shown string) string {
	space, tool, found := strings.Cut(shown, ".")
	for i := range c.Builtins {
		if !found || c.Builtins[i].Name != space {
			continue
		}
		if name, ok := declare.NewNames(toolNames(c.Builtins[i].Tools)).Find(tool); ok {
			return space + "." + name
		}
	}
	return shown
}

// functionNames are names of functions by recipient. Those of the caller's tools are taken.
func (c *Conversation) functionNames() map[string]string {
	taken := toolNames(c.Tools)
	all := c.builtins()
	var wanted []string
	for _, it := range all {
		wanted = append(wanted, strings.ReplaceAll(it.shown, ".", "_"))
	}
	// Identifiers with a number behind them where two are the same.
	names := declare.NewNames(append(taken, wanted...))
	byRecipient := map[string]string{}
	for i, it := range all {
		byRecipient[it.recipient] = names.ByTool[len(taken)+i]
	}
	return byRecipient
}

// withFunctions returns the conversation with its built-in tools as functions behind the
// others, and the recipients of these functions. Without any it is c itself.
func (c *Conversation) withFunctions() (conv *Conversation, recipients map[string]string) {
	called := slices.ContainsFunc(c.Turns, func(turn Turn) bool {
		return slices.ContainsFunc(turn.Calls, func(call Call) bool { return call.Builtin })
	})
	if len(c.Builtins) == 0 && !called {
		return c, nil
	}
	names, recipients := c.functionNames(), map[string]string{}
	out := *c
	out.Builtins, out.Tools, out.Turns = nil, slices.Clip(c.Tools), slices.Clone(c.Turns)
	for _, it := range c.builtins() {
		function := Tool{Name: names[it.recipient], Input: code, Description: it.space.Description}
		if it.tool != nil {
			function = *it.tool
			function.Name, function.JSON = names[it.recipient], nil
		}
		out.Tools = append(out.Tools, function)
		recipients[function.Name] = it.recipient
	}
	rename := func(name string) string {
		if known := names[name]; known != "" {
			return known
		}
		// A tool that is no longer offered keeps a name that a function may have.
		return strings.ReplaceAll(c.showBuiltin(name), ".", "_")
	}
	for i := range out.Turns {
		out.Turns[i] = c.functionTurn(out.Turns[i], rename)
	}
	return &out, recipients
}

// functionTurn returns a turn whose calls of built-in tools are calls of functions.
func (c *Conversation) functionTurn(turn Turn, rename func(string) string) Turn {
	if turn.Role == ToolRole && turn.CallID == "" && c.called(Call{Name: turn.Name}).Builtin {
		turn.Name = rename(turn.Name)
	}
	turn.Calls = slices.Clone(turn.Calls)
	for k := range turn.Calls {
		call := &turn.Calls[k]
		if !c.called(*call).Builtin {
			continue
		}
		if !strings.Contains(call.Name, ".") {
			call.Text, call.code = true, true
		}
		call.Name, call.Builtin = rename(call.Name), false
	}
	return turn
}

// withBuiltins returns the rules of a conversation that withFunctions returned.
func (r *Rules) withBuiltins(c, functions *Conversation) *Rules {
	if len(functions.Tools) == len(c.Tools) {
		return r
	}
	out := *r
	out.Tools = make([]ToolRule, len(functions.Tools))
	for i := range out.Tools {
		out.Tools[i].Hidden = i >= len(r.Tools) // nil = none may be called
	}
	copy(out.Tools, r.Tools)
	for i, it := range c.builtins() {
		out.Tools[len(c.Tools)+i] = ToolRule{Hidden: !r.mayCall(it.recipient), Arguments: grammar.Source{Kind: grammar.Object}}
	}
	// Calls of the server's tools have a form that is known: where none is left, none begins.
	out.NoCalls = out.NoCalls || !slices.ContainsFunc(out.Tools, func(rule ToolRule) bool { return !rule.Hidden })
	return &out
}

// mayCall reports whether a built-in tool may be called.
func (r *Rules) mayCall(recipient string) bool {
	space, _, _ := strings.Cut(recipient, ".")
	return r.Builtins == nil || slices.Contains(r.Builtins, recipient) || slices.Contains(r.Builtins, space)
}

// A functionParser tells of functions that stand for built-in tools by their recipients.
type functionParser struct {
	Parser
	recipients map[string]string // by function

	fresh    []Event // scratch
	builtin  bool    // in a call of one of them
	builtins int     // calls of them so far
}

// withRecipients returns parser, with calls of functions among recipients as those of built-in
// tools.
func withRecipients(parser Parser, recipients map[string]string) Parser {
	if len(recipients) == 0 {
		return parser
	}
	return &functionParser{Parser: parser, recipients: recipients}
}

// Push implements Parser.
func (p *functionParser) Push(dst []Event, id int32) []Event {
	p.fresh = p.Parser.Push(p.fresh[:0], id)
	return p.read(dst)
}

// Close implements Parser.
func (p *functionParser) Close(dst []Event) []Event {
	p.fresh = p.Parser.Close(p.fresh[:0])
	return p.read(dst)
}

// read passes fresh on. Calls are counted without those of built-in tools.
func (p *functionParser) read(dst []Event) []Event {
	for _, event := range p.fresh {
		if event.Part == Calling {
			if event.Kind == Start {
				var recipient string
				if recipient, p.builtin = p.recipients[event.Name]; p.builtin {
					event.Name = recipient
					p.builtins++
				}
			}
			if event.Call -= p.builtins; p.builtin {
				event.Part, event.Call = Builtin, 0
			}
		}
		dst = append(dst, event)
	}
	return dst
}
