package chat

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"ossian/internal/chat/declare"
	"ossian/internal/jinja"
	"ossian/internal/token"
)

// harmony is the format of gpt-oss (harmony.md). Its markers are found by name: the
// ids of another vocabulary differ.
type harmony struct {
	tok      *token.BPE
	identity string
	stops    []int32
	words    words

	start, end, message, channel, constrain, ret, call, eot int32
}

const chatGPT = "You are ChatGPT, a large language model trained by OpenAI."

// newHarmony returns the format if the vocabulary has its markers and the
// checkpoint's template, if there is one, writes it too; else nil. The template also
// says who the model is.
func newHarmony(f Facts) *harmony {
	h := &harmony{tok: f.Tokenizer, identity: chatGPT}
	for name, id := range map[string]*int32{"start": &h.start, "end": &h.end, "message": &h.message, "channel": &h.channel,
		"constrain": &h.constrain, "return": &h.ret, "call": &h.call, "endoftext": &h.eot} {
		found, ok := f.Tokenizer.ID("<|" + name + "|>")
		if !ok {
			return nil
		}
		*id = found
	}
	h.stops = stops(f, h.ret, h.call, h.eot)
	h.words = findWords(f.Tokenizer)
	if f.Template == "" {
		return h
	}
	tmpl, err := jinja.Compile(f.Template)
	if err != nil {
		return h // the template is not needed
	}
	hello := jinja.NewDict()
	hello.Set("role", "user")
	hello.Set("content", "Hi")
	vars := jinja.NewDict()
	vars.Set("messages", jinja.NewList(hello))
	vars.Set("add_generation_prompt", true)
	text, err := tmpl.Render(vars, func() time.Time { return time.Unix(0, 0).UTC() })
	if err != nil {
		return h
	}
	first, ok := strings.CutPrefix(text, "<|start|>system<|message|>")
	if !ok {
		return nil
	}
	h.identity, _, _ = strings.Cut(first, "\n")
	return h
}

// Stops implements Format.
func (h *harmony) Stops() []int32 { return h.stops }

// Parser implements Format.
func (h *harmony) Parser(c *Conversation) Parser {
	return withTexts(newHarmonyParser(h, c), c, func(in Input) bool { return in == Text }) // the model is not made to wrap it
}

const (
	analysis   = "analysis"
	commentary = "commentary"
	final      = "final"
)

// A message is one of the model's, of which a Turn may be several.
type message struct {
	author, recipient, channel string
	json                       bool // content type
	parts                      []string
	ids                        []int32 // the whole message as it was sampled; nil = write the fields
	open                       bool    // to be continued
}

// Render implements Format.
func (h *harmony) Render(p *token.Prompt, c *Conversation) error {
	messages, err := h.messages(c)
	if err != nil {
		return err
	}
	if !c.KeepReasoning {
		messages = dropReasoning(messages)
	}
	for i := range messages {
		h.write(p, &messages[i])
	}
	if c.NoPrompt || c.Continue {
		return nil
	}
	if c.effort() == "none" {
		h.write(p, &message{author: "assistant", channel: analysis, parts: []string{""}})
	}
	p.Control(h.start)
	p.Text("assistant")
	return nil
}

// messages turns the conversation into messages (harmony.md 7).
func (h *harmony) messages(c *Conversation) ([]message, error) {
	answers, err := c.check()
	if err != nil {
		return nil, err
	}
	names := newFunctionNames(c.Tools)
	first := slices.IndexFunc(c.Turns, func(t Turn) bool { return t.Role <= Developer })
	system, err := h.systemText(c)
	if err != nil {
		return nil, err
	}
	all := []message{{author: "system", parts: []string{system}}}
	developer, err := developerText(c, first, names)
	if err != nil {
		return nil, err
	}
	if developer != "" {
		all = append(all, message{author: "developer", parts: []string{developer}})
	}
	for i := 0; i < len(c.Turns); i++ {
		t := &c.Turns[i]
		switch {
		case i == first:
		case t.Role <= Developer:
			all = append(all, message{author: "developer", parts: []string{"# Instructions\n\n" + t.text()}})
		case t.Role == User:
			all = append(all, message{author: speaker("user", t.Name), parts: t.Parts})
		case t.Role == ToolRole:
			m := message{author: "functions." + names.show(answers[i]), recipient: "assistant", channel: commentary, parts: t.Parts}
			if c.builtin(answers[i]) {
				m.author, m.channel = answers[i], analysis
			}
			all = append(all, m)
		default:
			if said := c.recorded(i); said > 0 {
				if recorded, ok := h.recorded(c, t.Output); ok {
					all = append(all, recorded...)
					i += said - 1
					continue
				}
			}
			all = h.assistant(all, c, t, names, c.Continue && i == len(c.Turns)-1)
		}
	}
	return all, nil
}

// speaker is an author with a name, which must not look like more of the header.
func speaker(role, name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || (r >= '0' && r <= '9') || (r >= 'A' && r <= 'Z') || (r >= 'a' && r <= 'z') {
			return r
		}
		return -1
	}, name)
	if name == "" {
		return role
	}
	return role + ":" + name
}

// assistant adds the messages of an assistant's turn: reasoning, text, calls.
func (h *harmony) assistant(all []message, c *Conversation, t *Turn, names *functionNames, open bool) []message {
	text := slices.ContainsFunc(t.Parts, func(s string) bool { return s != "" })
	if t.Reasoning != "" || (open && !text) {
		all = append(all, message{author: "assistant", channel: analysis, parts: []string{t.Reasoning}, open: open && !text})
	}
	if text {
		m := message{author: "assistant", channel: final, parts: t.Parts, open: open}
		if t.Preamble || len(t.Calls) > 0 {
			m.channel = commentary
		}
		all = append(all, m)
	}
	for _, call := range t.Calls {
		m := message{author: "assistant", recipient: "functions." + names.show(call.Name), channel: commentary, json: !call.Text, parts: []string{call.Arguments}}
		if c.builtin(call.Name) {
			m = message{author: "assistant", recipient: call.Name, channel: analysis, parts: []string{call.Arguments}}
		}
		all = append(all, m)
	}
	return all
}

// builtin reports whether name is a built-in tool: a namespace or one of its tools.
func (c *Conversation) builtin(name string) bool {
	space, _, _ := strings.Cut(name, ".")
	return slices.ContainsFunc(c.Builtins, func(n Namespace) bool { return n.Name == space })
}

// dropReasoning removes what the model is not shown again: everything on the
// analysis channel before the last final answer (harmony.md 7.1).
func dropReasoning(all []message) []message {
	last, asked := -1, false // asked: a later message is the user's or the developer's
	for i := len(all) - 1; i >= 0 && last < 0; i-- {
		m := &all[i]
		switch {
		case m.author == "developer" || m.author == "user" || strings.HasPrefix(m.author, "user:"):
			asked = true
		case m.channel == final && !m.open && (asked || i == len(all)-1):
			last = i
		}
	}
	kept := all[:0:0]
	for i, m := range all {
		if i > last || m.channel != analysis {
			kept = append(kept, m)
		}
	}
	return kept
}

// write adds a message. Pieces that the reference encodes one by one are split at
// the same places by the tokenizer; only content parts need care (harmony.md 6).
func (h *harmony) write(p *token.Prompt, m *message) {
	if m.ids != nil {
		for _, id := range m.ids {
			p.Control(id)
		}
		return
	}
	p.Control(h.start)
	p.Text(m.author)
	if m.recipient != "" {
		p.Text(" to=" + m.recipient)
	}
	if m.channel != "" {
		p.Control(h.channel)
		p.Text(m.channel)
	}
	switch {
	case m.json:
		p.Text(" json")
	case m.recipient != "" && m.author == "assistant":
		p.Text(" code")
	}
	p.Control(h.message)
	for i, part := range m.parts {
		if i > 0 {
			p.Cut()
		}
		p.Text(part)
	}
	switch {
	case m.open:
	case m.recipient != "" && m.author == "assistant":
		p.Control(h.call)
	default:
		p.Control(h.end)
	}
}

// recorded splits the ids of a turn into messages, if they are what a well-behaved
// model samples: then the prompt can repeat them.
func (h *harmony) recorded(c *Conversation, ids []int32) ([]message, bool) {
	var all []message
	for at := 0; at < len(ids); {
		n := slices.IndexFunc(ids[at:], func(id int32) bool { return id == h.end || id == h.ret || id == h.call })
		body := slices.Index(ids[at:], h.message)
		if n < 0 || body < 0 || body > n {
			return nil, false
		}
		m, ok := h.recordedMessage(c, ids[at:at+n+1], body, at == 0)
		if !ok {
			return nil, false
		}
		all = append(all, m)
		at += n + 1
	}
	return all, true
}

func (h *harmony) recordedMessage(c *Conversation, ids []int32, body int, first bool) (message, bool) {
	head := ids[:body]
	if !first {
		if len(head) == 0 || head[0] != h.start {
			return message{}, false
		}
		head = head[1:]
	}
	if slices.ContainsFunc(ids[body+1:len(ids)-1], h.tok.IsControl) {
		return message{}, false
	}
	p := newHarmonyParser(h, c)
	for _, id := range head {
		p.hold(id)
	}
	d := p.header(false)
	if len(d.rules) > 0 || d.channel == "" || (d.recipient != "" && d.channel == analysis && !c.builtin(d.recipient)) {
		return message{}, false
	}
	m := message{author: "assistant", recipient: d.recipient, channel: d.channel}
	if first {
		m.ids = append(m.ids, h.start)
		m.ids = h.tok.Encode(m.ids, "assistant")
	}
	m.ids = append(m.ids, ids...)
	if last := len(m.ids) - 1; m.ids[last] == h.ret {
		m.ids[last] = h.end // only ever sampled
	}
	return m, true
}

func (c *Conversation) effort() string {
	effort := c.Effort
	c.variable("reasoning_effort", &effort)
	return effort
}

// systemText is the system message (harmony.md 3).
func (h *harmony) systemText(c *Conversation) (string, error) {
	identity := cmp.Or(c.Identity, h.identity)
	c.variable("model_identity", &identity)
	lines := []string{identity, "Knowledge cutoff: 2024-06"}
	if !c.Now.IsZero() {
		lines = append(lines, "Current date: "+c.Now.UTC().Format(time.DateOnly))
	}
	sections := []string{strings.Join(lines, "\n")}
	effort := c.effort()
	switch effort {
	case "none", "minimal", "low":
		effort = "low"
	case "high", "xhigh", "max":
		effort = "high"
	default:
		effort = "medium"
	}
	sections = append(sections, "Reasoning: "+effort)
	if len(c.Builtins) > 0 && !c.NoCalls {
		spaces := slices.SortedFunc(slices.Values(c.Builtins), func(a, b Namespace) int { return strings.Compare(a.Name, b.Name) })
		var blocks []string
		for _, n := range spaces {
			text, err := namespaceText(n, nil)
			if err != nil {
				return "", generalError("built-in tools %s: %v", n.Name, err)
			}
			blocks = append(blocks, text)
		}
		sections = append(sections, "# Tools\n\n"+strings.Join(blocks, "\n\n"))
	}
	channels := "# Valid channels: analysis, commentary, final. Channel must be included for every message."
	if len(c.offered()) > 0 {
		channels += "\nCalls to these tools must go to the commentary channel: 'functions'."
	}
	return strings.Join(append(sections, channels), "\n\n"), nil
}

// developerText is the first developer message (harmony.md 4), "" if there is none.
// Turn first holds the instructions, none if it is negative.
func developerText(c *Conversation, first int, names *functionNames) (string, error) {
	var sections []string
	if first >= 0 {
		sections = append(sections, "# Instructions\n\n"+c.Turns[first].text())
	}
	if tools := c.offered(); len(tools) > 0 {
		text, err := namespaceText(Namespace{Name: "functions", Tools: tools}, names.names)
		if err != nil {
			return "", err
		}
		sections = append(sections, "# Tools\n\n"+text)
	}
	if r := c.Response; r != nil {
		schema, err := jinja.FromJSON(r.Schema)
		if err != nil {
			return "", &Error{Turn: -1, Tool: -1, Response: true, Problem: "response format " + r.Name + ": " + err.Error()}
		}
		sections = append(sections, "# Response Formats\n\n## "+r.Name+"\n\n"+comment(r.Description)+declare.JSON(schema))
	}
	return strings.Join(sections, "\n\n"), nil
}

// namespaceText declares tools (harmony.md 5). names, if there are any, replace theirs.
func namespaceText(n Namespace, names []string) (string, error) {
	var out strings.Builder
	out.WriteString("## " + n.Name + "\n\n")
	if len(n.Tools) == 0 {
		out.WriteString(strings.TrimSuffix(n.Description, "\n"))
		return out.String(), nil
	}
	out.WriteString(comment(n.Description) + "namespace " + n.Name + " {\n\n")
	for i, t := range n.Tools {
		name := t.Name
		if names != nil {
			name = names[i]
		}
		out.WriteString(comment(t.Description) + "type " + name + " = (")
		if t.Input != JSON {
			out.WriteString("_: string")
		} else if len(t.Parameters) > 0 && string(t.Parameters) != "null" {
			schema, err := jinja.FromJSON(t.Parameters)
			if err != nil {
				return "", &Error{Turn: -1, Tool: i, Problem: "parameters: " + err.Error()}
			}
			out.WriteString("_: " + declare.Type(schema))
		}
		out.WriteString(") => any;\n\n")
	}
	out.WriteString("} // namespace " + n.Name)
	return out.String(), nil
}

// comment is a description as comment lines.
func comment(description string) string {
	var out strings.Builder
	for line := range strings.Lines(description) {
		out.WriteString("// " + strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r") + "\n")
	}
	return out.String()
}
