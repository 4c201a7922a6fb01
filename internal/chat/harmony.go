package chat

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"ossian/internal/chat/callid"
	"ossian/internal/chat/declare"
	"ossian/internal/chat/mask"
	"ossian/internal/chat/words"
	"ossian/internal/jinja"
	"ossian/internal/token"
)

// harmony is the format of gpt-oss (harmony.md). Its markers are found by name: the
// ids of another vocabulary differ.
type harmony struct {
	tok      *token.BPE
	identity string
	stops    []int32
	textIDs  mask.Text

	start, end, message, channel, constrain, ret, call, endOfText int32
}

const chatGPT = "You are ChatGPT, a large language model trained by OpenAI."

// newHarmony returns the format if the vocabulary has its markers and the
// checkpoint's template, if there is one, writes it too; else nil. The template also
// says who the model is.
func newHarmony(facts Facts) *harmony {
	format := &harmony{tok: facts.Tokenizer, identity: chatGPT}
	for name, id := range map[string]*int32{"start": &format.start, "end": &format.end, "message": &format.message, "channel": &format.channel,
		"constrain": &format.constrain, "return": &format.ret, "call": &format.call, "endoftext": &format.endOfText} {
		found, ok := facts.Tokenizer.ID("<|" + name + "|>")
		if !ok {
			return nil
		}
		*id = found
	}
	format.stops = stops(facts, format.ret, format.call, format.endOfText)
	format.textIDs = mask.OfText(facts.Tokenizer)
	if facts.Template == "" {
		return format
	}
	tmpl, err := jinja.Compile(facts.Template)
	if err != nil {
		return format // the template is not needed
	}
	// A checkpoint may keep the vocabulary and have another format: what its template
	// begins with tells.
	hello := jinja.NewDict()
	hello.Set("role", "user")
	hello.Set("content", "Hi")
	vars := jinja.NewDict()
	vars.Set("messages", jinja.NewList(hello))
	vars.Set("add_generation_prompt", true)
	text, err := tmpl.Render(vars, func() time.Time { return time.Unix(0, 0).UTC() })
	if err != nil {
		return format
	}
	first, ok := strings.CutPrefix(text, "<|start|>system<|message|>")
	if !ok {
		return nil
	}
	format.identity, _, _ = strings.Cut(first, "\n")
	return format
}

// Stops implements Format.
func (h *harmony) Stops() []int32 { return h.stops }

// Tools implements Format.
func (h *harmony) Tools() bool { return true }

// Parser implements Format.
func (h *harmony) Parser(c *Conversation) Parser {
	return withTextTools(newHarmonyParser(h, c), c, func(in Input) bool { return in == Text }) // the model is not made to wrap it
}

// The channels of an answer.
const (
	analysis   = words.Analysis   // reasoning, and calls of built-in tools
	commentary = words.Commentary // preambles, and calls of functions
	final      = words.Final      // the answer
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
func (h *harmony) Render(prompt *token.Prompt, conv *Conversation) error {
	var messages []message
	var err error
	if conv.Since > 0 {
		messages, err = h.since(prompt, conv)
	} else if messages, err = h.messages(conv); err == nil && !conv.KeepReasoning {
		messages = dropReasoning(messages)
	}
	if err != nil {
		return err
	}
	for i := range messages {
		h.write(prompt, &messages[i])
	}
	if conv.NoPrompt || conv.Continue {
		return nil
	}
	// An empty analysis tells the model that it has already reasoned.
	if conv.effort() == "none" {
		h.write(prompt, &message{author: "assistant", channel: analysis, parts: []string{""}})
	}
	prompt.Control(h.start)
	prompt.Text("assistant")
	return nil
}

// messages turns the conversation into messages (harmony.md 7).
func (h *harmony) messages(conv *Conversation) ([]message, error) {
	answers, err := conv.check()
	if err != nil {
		return nil, err
	}
	// The first two messages hold what is said about the conversation as a whole: who the
	// model is and built-in tools; instructions, functions and the form of the answer.
	names := declare.NewNames(toolNames(conv.Tools))
	first := slices.IndexFunc(conv.Turns, func(turn Turn) bool { return turn.Role <= Developer })
	system, err := h.systemText(conv)
	if err != nil {
		return nil, err
	}
	all := []message{{author: "system", parts: []string{system}}}
	developer, err := developerText(conv, first, names)
	if err != nil {
		return nil, err
	}
	if developer != "" {
		all = append(all, message{author: "developer", parts: []string{developer}})
	}
	for i := 0; i < len(conv.Turns); i++ {
		turn := &conv.Turns[i]
		switch {
		case i == first:
		case turn.Role <= Developer:
			all = append(all, message{author: "developer", parts: []string{"# Instructions\n\n" + turn.text()}})
		case turn.Role == User:
			all = append(all, message{author: declare.Speaker("user", turn.Name), parts: turn.Parts})
		case turn.Role == ToolRole:
			all = append(all, conv.result(all, turn, answers[i], names))
		default:
			// Sampled ids, where they are well-formed, stand for all turns that they are of.
			if said := conv.recorded(i); said > 0 {
				if recorded, ok := h.recorded(conv, turn.Output); ok {
					all = append(all, recorded...)
					i += said - 1
					continue
				}
			}
			all = h.assistant(all, conv, turn, names, conv.Continue && i == len(conv.Turns)-1)
		}
	}
	return all, nil
}

// assistant adds the messages of an assistant's turn: reasoning, text, calls.
func (h *harmony) assistant(all []message, conv *Conversation, turn *Turn, names *declare.Names, open bool) []message {
	// A turn that is to be continued and says nothing yet continues its reasoning.
	text := slices.ContainsFunc(turn.Parts, func(s string) bool { return s != "" })
	if turn.Reasoning != "" || (open && !text) {
		all = append(all, message{author: "assistant", channel: analysis, parts: []string{turn.Reasoning}, open: open && !text})
	}
	if text { // on the channel of preambles if calls follow
		said := message{author: "assistant", channel: final, parts: turn.Parts, open: open}
		if turn.Preamble || len(turn.Calls) > 0 {
			said.channel = commentary
		}
		all = append(all, said)
	}
	for _, call := range turn.Calls {
		said := message{author: "assistant", recipient: "functions." + names.Show(call.Name), channel: commentary, json: !call.Text, parts: []string{call.Arguments}}
		if conv.called(call).Builtin {
			said = message{author: "assistant", recipient: conv.showBuiltin(call.Name), channel: analysis, parts: []string{call.Arguments}}
		}
		all = append(all, said)
	}
	return all
}

// result is what a tool gave, on the channel on which it was called: the latest such call
// among all, of which every result takes one away.
func (c *Conversation) result(all []message, turn *Turn, call callid.Call, names *declare.Names) message {
	if !call.Builtin {
		return message{author: "functions." + names.Show(call.Name), recipient: "assistant", channel: commentary, parts: turn.Parts}
	}
	made := message{author: c.showBuiltin(call.Name), recipient: "assistant", channel: analysis, parts: turn.Parts}
	answered := 0
	for i := len(all) - 1; i >= 0; i-- {
		switch msg := &all[i]; {
		case msg.author == made.author:
			answered++
		case msg.author == "assistant" && msg.recipient == made.author:
			made.channel = cmp.Or(msg.channel, analysis)
			if answered--; answered < 0 {
				return made
			}
		}
	}
	return made
}

// since writes the ids of turn Since, ended as prompts have it, and returns what follows them.
func (h *harmony) since(prompt *token.Prompt, conv *Conversation) ([]message, error) {
	answers, err := conv.check()
	if err != nil {
		return nil, err
	}
	ids := conv.Turns[conv.Since].Output
	said, _ := h.recorded(conv, ids) // no more than whom they are for
	end := h.end
	if n := len(said); n > 0 && said[n-1].recipient != "" {
		end = h.call
	}
	if last := len(ids) - 1; last >= 0 && slices.Contains([]int32{h.end, h.ret, h.call, h.endOfText}, ids[last]) {
		ids = ids[:last]
	}
	for _, id := range append(slices.Clip(ids), end) {
		prompt.Control(id)
	}
	all, names := slices.Clip(said), declare.NewNames(toolNames(conv.Tools))
	for i := conv.Since + 1; i < len(conv.Turns); i++ {
		if turn := &conv.Turns[i]; turn.Role == ToolRole {
			all = append(all, conv.result(all, turn, answers[i], names))
		}
	}
	return all[len(said):], nil
}

// dropReasoning removes what the model is not shown again: everything on the
// analysis channel before the last final answer (harmony.md 7.1).
func dropReasoning(all []message) []message {
	last, asked := -1, false // asked: a later message is the user's or the developer's
	for i := len(all) - 1; i >= 0 && last < 0; i-- {
		msg := &all[i]
		switch {
		case msg.author == "developer" || msg.author == "user" || strings.HasPrefix(msg.author, "user:"):
			asked = true
		case msg.channel == final && !msg.open && (asked || i == len(all)-1):
			last = i
		}
	}
	kept := all[:0:0]
	for i, msg := range all {
		if i > last || msg.channel != analysis {
			kept = append(kept, msg)
		}
	}
	return kept
}

// write adds a message. Pieces that the reference encodes one by one are split at
// the same places by the tokenizer; only content parts need care (harmony.md 6).
func (h *harmony) write(prompt *token.Prompt, msg *message) {
	if msg.ids != nil {
		for _, id := range msg.ids {
			prompt.Control(id)
		}
		return
	}
	// The header: author, recipient, channel, type of content.
	prompt.Control(h.start)
	prompt.Text(msg.author)
	if msg.recipient != "" {
		prompt.Text(" to=" + msg.recipient)
	}
	if msg.channel != "" {
		prompt.Control(h.channel)
		prompt.Text(msg.channel)
	}
	switch {
	case msg.json:
		prompt.Text(" json")
	case msg.recipient != "" && msg.author == "assistant":
		prompt.Text(" code")
	}
	prompt.Control(h.message)
	for i, part := range msg.parts {
		if i > 0 {
			prompt.Cut()
		}
		prompt.Text(part)
	}
	switch {
	case msg.open: // the model goes on
	case msg.recipient != "" && msg.author == "assistant":
		prompt.Control(h.call)
	default:
		prompt.Control(h.end)
	}
}

// recorded splits the ids of a turn into messages, and says whether they are what a
// well-behaved model samples: then the prompt can repeat them.
func (h *harmony) recorded(conv *Conversation, ids []int32) (all []message, ok bool) {
	ok = true
	for at := 0; at < len(ids); {
		last := slices.IndexFunc(ids[at:], func(id int32) bool { return id == h.end || id == h.ret || id == h.call })
		body := slices.Index(ids[at:], h.message)
		if last < 0 || body < 0 || body > last {
			return all, false
		}
		msg, good := h.recordedMessage(conv, ids[at:at+last+1], body, at == 0)
		ok = ok && good
		all = append(all, msg)
		at += last + 1
	}
	return all, ok
}

// recordedMessage takes one message, ids up to its end, whose <|message|> is at body. The
// first has no <|start|>: the prompt had it. It is refused if reading it needs a salvage
// rule: a prompt must not teach the model its own mistakes.
func (h *harmony) recordedMessage(conv *Conversation, ids []int32, body int, first bool) (msg message, ok bool) {
	before := ids[:body]
	if !first {
		if len(before) == 0 || before[0] != h.start {
			return message{author: "assistant"}, false
		}
		before = before[1:]
	}
	parser := newHarmonyParser(h, conv)
	for _, id := range before {
		parser.head.Hold(0, id)
	}
	head := parser.head.Read(false)
	msg = message{author: "assistant", recipient: head.Recipient, channel: head.Channel}
	if first {
		msg.ids = append(msg.ids, h.start)
		msg.ids = h.tok.Encode(msg.ids, "assistant")
	}
	msg.ids = append(msg.ids, ids...)
	switch last := len(msg.ids) - 1; {
	case msg.recipient != "":
		msg.ids[last] = h.call
	case msg.ids[last] == h.ret:
		msg.ids[last] = h.end // only ever sampled
	}
	stray := slices.ContainsFunc(ids[body+1:len(ids)-1], h.tok.IsControl)
	orphan := head.Recipient != "" && head.Channel == analysis && !conv.builtin(head.Recipient) && !conv.ran(head.Recipient)
	return msg, !stray && len(head.Rules) == 0 && head.Channel != "" && !orphan
}

// effort is Effort, or what Vars say in its place.
func (c *Conversation) effort() string {
	effort := c.Effort
	c.variable("reasoning_effort", &effort)
	return effort
}

// systemText is the system message (harmony.md 3).
func (h *harmony) systemText(conv *Conversation) (string, error) {
	identity := cmp.Or(conv.Identity, h.identity)
	conv.variable("model_identity", &identity)
	lines := []string{identity, "Knowledge cutoff: 2024-06"}
	if !conv.Now.IsZero() {
		lines = append(lines, "Current date: "+conv.Now.UTC().Format(time.DateOnly))
	}
	sections := []string{strings.Join(lines, "\n")}
	effort := conv.effort() // the model was trained on three
	switch effort {
	case "none", "minimal", "low":
		effort = "low"
	case "high", "xhigh", "max":
		effort = "high"
	default:
		effort = "medium"
	}
	sections = append(sections, "Reasoning: "+effort)
	if len(conv.Builtins) > 0 && !conv.NoCalls {
		var blocks []string
		for _, space := range conv.spaces() {
			text, err := namespaceText(*space, declare.NewNames(toolNames(space.Tools)).ByTool)
			if err != nil {
				return "", generalError("built-in tools %s: %v", space.Name, err)
			}
			blocks = append(blocks, text)
		}
		sections = append(sections, "# Tools\n\n"+strings.Join(blocks, "\n\n"))
	}
	channels := "# Valid channels: analysis, commentary, final. Channel must be included for every message."
	if len(conv.offered()) > 0 {
		channels += "\nCalls to these tools must go to the commentary channel: 'functions'."
	}
	return strings.Join(append(sections, channels), "\n\n"), nil
}

// developerText is the first developer message (harmony.md 4), "" if there is none.
// Turn first holds the instructions, none if it is negative.
func developerText(conv *Conversation, first int, names *declare.Names) (string, error) {
	var sections []string
	if first >= 0 {
		sections = append(sections, "# Instructions\n\n"+conv.Turns[first].text())
	}
	if tools := conv.offered(); len(tools) > 0 {
		text, err := namespaceText(Namespace{Name: "functions", Tools: tools}, names.ByTool)
		if err != nil {
			return "", err
		}
		sections = append(sections, "# Tools\n\n"+text)
	}
	if response := conv.Response; response != nil {
		// The form is told in the model's own words; rules enforce it elsewhere.
		schema, err := jinja.FromJSON(response.Schema)
		if err != nil {
			return "", &Error{Turn: -1, Tool: -1, Response: true, Problem: "response format " + response.Name + ": " + err.Error()}
		}
		sections = append(sections, "# Response Formats\n\n## "+response.Name+"\n\n"+declare.Comment(response.Description)+declare.JSON(schema))
	}
	return strings.Join(sections, "\n\n"), nil
}

// namespaceText declares tools (harmony.md 5) under the given names.
func namespaceText(space Namespace, names []string) (string, error) {
	var tools []declare.Tool
	for i, tool := range space.Tools {
		if !tool.Unshown {
			tools = append(tools, declare.Tool{Name: names[i], Description: tool.Description, Text: tool.Input != JSON, Parameters: tool.Parameters})
		}
	}
	text, at, err := declare.Namespace(space.Name, space.Description, tools)
	if err != nil {
		return "", &Error{Turn: -1, Tool: at, Problem: "parameters: " + err.Error()}
	}
	return text, nil
}
