package chat

import (
	"slices"
	"strings"
	"time"

	"ossian/internal/chat/mask"
	"ossian/internal/jinja"
	"ossian/internal/token"
)

// qwen writes conversations as the templates of Qwen3 do (models.md 2.5), and keeps
// sampled ids, which a template cannot.
type qwen struct {
	tok        *token.BPE
	tags       tags
	start, end int32 // <|im_start|>, <|im_end|>
	style      qwenStyle
	stops      []int32
	textIDs    mask.Text
}

// A qwenStyle is what the templates of the Qwen3 models differ in.
type qwenStyle uint8

const (
	qwenHybrid   qwenStyle = iota // April 2025: thinks unless told not to
	qwenInstruct                  // Instruct-2507: never thinks
	qwenThinking                  // Thinking-2507: always thinks, the prompt opens it
)

// newQwen returns the format if the model has the vocabulary of Qwen3 and, where it
// has a template tmpl, the code writes the same as it; else nil. Derived models often
// keep the name of the family and change the template.
func newQwen(facts Facts, tmpl *template) *qwen {
	format := &qwen{tok: facts.Tokenizer, tags: findTags(facts.Tokenizer)}
	var okStart, okEnd bool
	format.start, okStart = facts.Tokenizer.ID("<|im_start|>")
	format.end, okEnd = facts.Tokenizer.ID("<|im_end|>")
	if !okStart || !okEnd || format.tags.open < 0 || format.tags.callOpen < 0 {
		return nil
	}
	format.stops = stops(facts, format.end)
	format.textIDs = format.tags.text(facts.Tokenizer)
	if tmpl == nil {
		if strings.HasPrefix(facts.Family, "qwen3") {
			return format
		}
		return nil
	}
	// The style is found by trying: configurations do not tell it.
	for format.style = qwenHybrid; format.style <= qwenThinking; format.style++ {
		if format.writes(tmpl) {
			return format
		}
	}
	return nil
}

// writes reports whether q and tmpl give the same ids for conversations that use every
// construct.
func (q *qwen) writes(tmpl *template) bool {
	for _, c := range probes() {
		mine, theirs := q.tok.Prompt(), q.tok.Prompt()
		if q.Render(mine, c) != nil || tmpl.Render(theirs, c) != nil || q.tok.Decode(mine.IDs()) != q.tok.Decode(theirs.IDs()) {
			return false
		}
	}
	return true
}

// probes are conversations that use every construct, and line breaks at the ends of texts:
// the styles differ in some of them.
func probes() []*Conversation {
	say := func(r Role, text string) Turn { return Turn{Role: r, Parts: []string{text}} }
	answer := say(Assistant, "\nYes.\n")
	answer.Reasoning = "\nWhy?\n"
	call := say(Assistant, "Wait.")
	call.Reasoning = "Use it."
	call.Calls = []Call{{ID: "a", Name: "f", Arguments: `{"x": 1.0}`}, {ID: "b", Name: "f", Arguments: `{}`}}
	silent := say(Assistant, "")
	silent.Calls = []Call{{ID: "c", Name: "g", Arguments: `{"y": [true, null]}`}}
	result := func(id string) Turn { return Turn{Role: ToolRole, CallID: id, Parts: []string{"<" + id + ">"}} }
	tools := []Tool{{Name: "f", Description: "Does \"f\".", Parameters: []byte(`{"type": "object", "properties": {"x": {"type": "number"}}}`)}, {Name: "g"}}
	long := []Turn{say(System, "Be kind."), say(User, " One? "), answer, say(User, "Two?"), call, result("a"), result("b"), silent, result("c")}
	now := time.Date(2025, 4, 28, 0, 0, 0, 0, time.UTC)
	return []*Conversation{
		{Turns: []Turn{say(User, "Hi")}, Now: now},
		{Turns: []Turn{say(User, "Hi")}, Effort: "none", Now: now},
		{Turns: long, Tools: tools, Now: now},
		{Turns: long[1:], Tools: tools, Now: now},
		{Turns: append(long[:len(long):len(long)], say(Assistant, "Done.")), NoPrompt: true, Now: now},
	}
}

// Stops implements Format.
func (q *qwen) Stops() []int32 { return q.stops }

// The words around the tools in the system turn.
const (
	qwenTools = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
	qwenCalls = "\n</tools>\n\nFor each function call, return a json object with function name and arguments within " +
		"<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"
)

// Render implements Format.
func (q *qwen) Render(prompt *token.Prompt, conv *Conversation) error {
	if _, err := conv.check(); err != nil {
		return err
	}
	conv, _ = conv.withFunctions()
	turns, first := conv.Turns, 0
	if conv.Since > 0 {
		q.since(prompt, turns[conv.Since].Output)
		first = conv.Since + 1
	} else if err := q.system(prompt, conv); err != nil {
		return err
	} else if len(turns) > 0 && turns[0].Role <= Developer {
		first = 1
	}
	query := lastQuery(turns) // reasoning is shown behind it
	for i := first; i < len(turns); i++ {
		switch turn := &turns[i]; turn.Role {
		case Assistant:
			i += q.assistant(prompt, conv, i, query) - 1
		case ToolRole:
			q.result(prompt, turns, i)
		case User:
			q.turn(prompt, "user\n", turn.text())
		default:
			q.turn(prompt, "system\n", turn.text())
		}
	}
	if conv.NoPrompt || conv.Continue {
		return nil
	}
	prompt.Control(q.start)
	prompt.Markup("assistant\n")
	// The prompt opens the reasoning of models that always reason, and closes an empty
	// one where those that may are not to.
	switch {
	case q.style == qwenThinking:
		prompt.Markup("<think>\n")
	case q.style == qwenHybrid && !conv.thinks():
		prompt.Markup("<think>\n\n</think>\n\n")
	}
	return nil
}

// since writes the ids of an answer, and its end.
func (q *qwen) since(prompt *token.Prompt, ids []int32) {
	if last := len(ids) - 1; last >= 0 && slices.Contains(q.stops, ids[last]) {
		ids = ids[:last]
	}
	for _, id := range ids {
		prompt.Control(id)
	}
	q.close(prompt)
}

// turn writes a turn of text.
func (q *qwen) turn(prompt *token.Prompt, role, text string) {
	prompt.Control(q.start)
	prompt.Markup(role)
	prompt.Text(text)
	q.close(prompt)
}

// close ends a turn.
func (q *qwen) close(prompt *token.Prompt) {
	prompt.Control(q.end)
	prompt.Markup("\n")
}

// system writes the first turn: the caller's instructions and the tools.
func (q *qwen) system(prompt *token.Prompt, conv *Conversation) error {
	instructed := len(conv.Turns) > 0 && conv.Turns[0].Role <= Developer
	tools, err := conv.declarations()
	if err != nil {
		return err
	}
	if len(tools) == 0 {
		if instructed {
			q.turn(prompt, "system\n", conv.Turns[0].text())
		}
		return nil
	}
	// Instructions and tools share one turn. Declarations are the caller's text.
	prompt.Control(q.start)
	prompt.Markup("system\n")
	if instructed {
		prompt.Text(conv.Turns[0].text())
		prompt.Markup("\n\n")
	}
	prompt.Markup(qwenTools)
	for i, tool := range tools {
		text, err := jinja.ToJSON(tool)
		if err != nil {
			return &Error{Turn: -1, Tool: i, Problem: err.Error()}
		}
		prompt.Markup("\n")
		prompt.Text(text)
	}
	prompt.Markup(qwenCalls)
	q.close(prompt)
	return nil
}

// lastQuery is the index of the last turn in which the user asks something; without
// one the last turn.
func lastQuery(turns []Turn) int {
	for i := len(turns) - 1; i >= 0; i-- {
		text := turns[i].text()
		if turns[i].Role == User && !(strings.HasPrefix(text, "<tool_response>") && strings.HasSuffix(text, "</tool_response>")) {
			return i
		}
	}
	return len(turns) - 1
}

// assistant writes turn i, and those that its ids are of, too: it returns how many these
// are. Reasoning is shown after the last query only.
func (q *qwen) assistant(prompt *token.Prompt, conv *Conversation, i, query int) int {
	turn := &conv.Turns[i]
	last := i == len(conv.Turns)-1
	open := conv.Continue && last
	prompt.Control(q.start)
	prompt.Markup("assistant\n")
	reasoning, text := turn.Reasoning, turn.text()
	if reasoning == "" && q.style != qwenInstruct {
		reasoning, text = splitThinking(text)
	}
	shown := q.style != qwenInstruct && (i > query || conv.KeepReasoning)
	think := shown && (last || reasoning != "")
	// Sampled ids hold the reasoning of all turns that they are of, or of none.
	if said := conv.recorded(i); said > 0 {
		later := slices.ContainsFunc(conv.Turns[i+1:i+said], func(turn Turn) bool { return turn.Reasoning != "" })
		if whole := shown && (i+said == len(conv.Turns) || reasoning != "" || later); (whole || !later) && q.recorded(prompt, turn, whole) {
			return said
		}
	}
	if think {
		prompt.Markup("<think>\n")
		prompt.Text(strings.Trim(reasoning, "\n"))
		if open && turn.text() == "" { // as begins has it
			return 1
		}
		prompt.Markup("\n</think>\n\n")
		text = strings.TrimLeft(text, "\n")
	}
	prompt.Text(text)
	for k, call := range turn.Calls {
		if k > 0 || text != "" {
			prompt.Markup("\n")
		}
		prompt.Markup("<tool_call>\n{\"name\": \"")
		prompt.Text(call.Name)
		prompt.Markup("\", \"arguments\": ")
		prompt.Text(call.arguments())
		prompt.Markup("}\n</tool_call>")
	}
	if !open {
		q.close(prompt)
	}
	return 1
}

// arguments are as templates print them: parsed and written again.
func (c *Call) arguments() string {
	if arguments, err := jinja.FromJSON([]byte(c.object())); err == nil {
		if text, err := jinja.ToJSON(arguments); err == nil {
			return text
		}
	}
	return c.Arguments
}

// recorded writes the ids of a turn as they were sampled, if it has them and they
// are well-formed, without the reasoning unless that is to be shown.
func (q *qwen) recorded(prompt *token.Prompt, turn *Turn, think bool) bool {
	ids := turn.Output
	if count := len(ids); count > 0 && ids[count-1] == q.end {
		ids = ids[:count-1]
	}
	behind := slices.Index(ids, q.tags.close) + 1 // where the reasoning has ended; 0 = there is none
	if len(ids) == 0 || slices.ContainsFunc(ids, q.tok.IsControl) || (think && behind == 0) {
		return false
	}
	switch {
	case think && !slices.Contains(ids[:behind], q.tags.open):
		prompt.Markup("<think>\n") // was part of the prompt
	case !think:
		ids = ids[behind:]
		for behind > 0 && len(ids) > 0 && strings.Trim(q.tok.Text(ids[0]), "\n") == "" {
			ids = ids[1:]
		}
	}
	for _, id := range ids {
		prompt.Control(id)
	}
	q.close(prompt)
	return true
}

// result writes a tool's answer; answers in a row share one user turn.
func (q *qwen) result(prompt *token.Prompt, turns []Turn, i int) {
	if i == 0 || turns[i-1].Role != ToolRole {
		prompt.Control(q.start)
		prompt.Markup("user")
	}
	prompt.Markup("\n<tool_response>\n")
	prompt.Text(turns[i].text())
	prompt.Markup("\n</tool_response>")
	if i == len(turns)-1 || turns[i+1].Role != ToolRole {
		q.close(prompt)
	}
}

// Tools implements Format.
func (q *qwen) Tools() bool { return true }

// Parser implements Format.
func (q *qwen) Parser(c *Conversation) Parser {
	c, recipients := c.withFunctions()
	return withRecipients(withTextTools(newTagParser(q.tok, q.tags, false, q.stops, c, q.begins(c)), c, wrapped), recipients)
}

// Constraint implements Format.
func (q *qwen) Constraint(c *Conversation, r *Rules, compile Compile) (func() Constraint, error) {
	return newTagConstraint(&tagRules{tags: q.tags, textIDs: q.textIDs, stops: q.stops}, q.begins, c, r, compile)
}

// begins says where the prompt leaves the model.
func (q *qwen) begins(conv *Conversation) thinkPlace {
	switch {
	case conv.Continue:
		if last := conv.Turns[len(conv.Turns)-1]; q.style != qwenInstruct && last.text() == "" {
			return insideThinking
		}
		return behindThinking
	case q.style == qwenThinking:
		return insideThinking
	case q.style == qwenInstruct || !conv.thinks():
		return behindThinking
	}
	return beforeThinking
}
