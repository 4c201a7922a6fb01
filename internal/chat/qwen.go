package chat

import (
	"slices"
	"strings"
	"time"

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
	words      words
}

// A qwenStyle is what the templates of the Qwen3 models differ in.
type qwenStyle uint8

const (
	qwenHybrid   qwenStyle = iota // April 2025: thinks unless told not to
	qwenInstruct                  // Instruct-2507: never thinks
	qwenThinking                  // Thinking-2507: always thinks, the prompt opens it
)

// newQwen returns the format if the model has the vocabulary of Qwen3 and, where it
// has a template t, the code writes the same as it; else nil. Derived models often
// keep the name of the family and change the template.
func newQwen(f Facts, t *template) *qwen {
	q := &qwen{tok: f.Tokenizer, tags: findTags(f.Tokenizer)}
	var okStart, okEnd bool
	q.start, okStart = f.Tokenizer.ID("<|im_start|>")
	q.end, okEnd = f.Tokenizer.ID("<|im_end|>")
	if !okStart || !okEnd || q.tags.open < 0 || q.tags.callOpen < 0 {
		return nil
	}
	q.stops = stops(f, q.end)
	q.words = q.tags.words(f.Tokenizer)
	if t == nil {
		if strings.HasPrefix(f.Family, "qwen3") {
			return q
		}
		return nil
	}
	for q.style = qwenHybrid; q.style <= qwenThinking; q.style++ {
		if q.writes(t) {
			return q
		}
	}
	return nil
}

// writes reports whether q and t give the same ids for conversations that use every
// construct.
func (q *qwen) writes(t *template) bool {
	for _, c := range probes() {
		mine, theirs := q.tok.Prompt(), q.tok.Prompt()
		if q.Render(mine, c) != nil || t.Render(theirs, c) != nil || q.tok.Decode(mine.IDs()) != q.tok.Decode(theirs.IDs()) {
			return false
		}
	}
	return true
}

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

const (
	qwenTools = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
	qwenCalls = "\n</tools>\n\nFor each function call, return a json object with function name and arguments within " +
		"<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"
)

// Render implements Format.
func (q *qwen) Render(p *token.Prompt, c *Conversation) error {
	if _, err := c.check(); err != nil {
		return err
	}
	turns, first := c.Turns, 0
	if err := q.system(p, c); err != nil {
		return err
	}
	if len(turns) > 0 && turns[0].Role <= Developer {
		first = 1
	}
	query := lastQuery(turns)
	for i := first; i < len(turns); i++ {
		switch t := &turns[i]; t.Role {
		case Assistant:
			i += q.assistant(p, c, i, query) - 1
		case ToolRole:
			q.result(p, turns, i)
		case User:
			q.turn(p, "user\n", t.text())
		default:
			q.turn(p, "system\n", t.text())
		}
	}
	if c.NoPrompt || c.Continue {
		return nil
	}
	p.Control(q.start)
	p.Markup("assistant\n")
	switch {
	case q.style == qwenThinking:
		p.Markup("<think>\n")
	case q.style == qwenHybrid && !c.thinks():
		p.Markup("<think>\n\n</think>\n\n")
	}
	return nil
}

func (q *qwen) turn(p *token.Prompt, role, text string) {
	p.Control(q.start)
	p.Markup(role)
	p.Text(text)
	q.close(p)
}

func (q *qwen) close(p *token.Prompt) {
	p.Control(q.end)
	p.Markup("\n")
}

// system writes the first turn: the caller's instructions and the tools.
func (q *qwen) system(p *token.Prompt, c *Conversation) error {
	instructed := len(c.Turns) > 0 && c.Turns[0].Role <= Developer
	tools, err := c.declarations()
	if err != nil {
		return err
	}
	if len(tools) == 0 {
		if instructed {
			q.turn(p, "system\n", c.Turns[0].text())
		}
		return nil
	}
	p.Control(q.start)
	p.Markup("system\n")
	if instructed {
		p.Text(c.Turns[0].text())
		p.Markup("\n\n")
	}
	p.Markup(qwenTools)
	for i, tool := range tools {
		text, err := jinja.ToJSON(tool)
		if err != nil {
			return &Error{Turn: -1, Tool: i, Problem: err.Error()}
		}
		p.Markup("\n")
		p.Text(text)
	}
	p.Markup(qwenCalls)
	q.close(p)
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
func (q *qwen) assistant(p *token.Prompt, c *Conversation, i, query int) int {
	t := &c.Turns[i]
	last := i == len(c.Turns)-1
	open := c.Continue && last
	p.Control(q.start)
	p.Markup("assistant\n")
	reasoning, text := t.Reasoning, t.text()
	if reasoning == "" && q.style != qwenInstruct {
		reasoning, text = splitThinking(text)
	}
	shown := q.style != qwenInstruct && (i > query || c.KeepReasoning)
	think := shown && (last || reasoning != "")
	if said := c.recorded(i); said > 0 {
		later := slices.ContainsFunc(c.Turns[i+1:i+said], func(t Turn) bool { return t.Reasoning != "" })
		if whole := shown && (i+said == len(c.Turns) || reasoning != "" || later); (whole || !later) && q.recorded(p, t, whole) {
			return said
		}
	}
	if think {
		p.Markup("<think>\n")
		p.Text(strings.Trim(reasoning, "\n"))
		if open && t.text() == "" { // as begins has it
			return 1
		}
		p.Markup("\n</think>\n\n")
		text = strings.TrimLeft(text, "\n")
	}
	p.Text(text)
	for k, call := range t.Calls {
		if k > 0 || text != "" {
			p.Markup("\n")
		}
		p.Markup("<tool_call>\n{\"name\": \"")
		p.Text(call.Name)
		p.Markup("\", \"arguments\": ")
		p.Text(call.arguments())
		p.Markup("}\n</tool_call>")
	}
	if !open {
		q.close(p)
	}
	return 1
}

// arguments are as templates print them: parsed and written again.
func (c *Call) arguments() string {
	if v, err := jinja.FromJSON([]byte(c.object())); err == nil {
		if text, err := jinja.ToJSON(v); err == nil {
			return text
		}
	}
	return c.Arguments
}

// recorded writes the ids of a turn as they were sampled, if it has them and they
// are well-formed, without the reasoning unless that is to be shown.
func (q *qwen) recorded(p *token.Prompt, t *Turn, think bool) bool {
	ids := t.Output
	if n := len(ids); n > 0 && ids[n-1] == q.end {
		ids = ids[:n-1]
	}
	behind := slices.Index(ids, q.tags.close) + 1
	if len(ids) == 0 || slices.ContainsFunc(ids, q.tok.IsControl) || (think && behind == 0) {
		return false
	}
	switch {
	case think && !slices.Contains(ids[:behind], q.tags.open):
		p.Markup("<think>\n") // was part of the prompt
	case !think:
		ids = ids[behind:]
		for behind > 0 && len(ids) > 0 && strings.Trim(q.tok.Text(ids[0]), "\n") == "" {
			ids = ids[1:]
		}
	}
	for _, id := range ids {
		p.Control(id)
	}
	q.close(p)
	return true
}

// result writes a tool's answer; answers in a row share one user turn.
func (q *qwen) result(p *token.Prompt, turns []Turn, i int) {
	if i == 0 || turns[i-1].Role != ToolRole {
		p.Control(q.start)
		p.Markup("user")
	}
	p.Markup("\n<tool_response>\n")
	p.Text(turns[i].text())
	p.Markup("\n</tool_response>")
	if i == len(turns)-1 || turns[i+1].Role != ToolRole {
		q.close(p)
	}
}

// Parser implements Format.
func (q *qwen) Parser(c *Conversation) Parser {
	return withTexts(newTagParser(q.tok, q.tags, q.stops, c, q.begins(c)), c, wrapped)
}

// Constraint implements Format.
func (q *qwen) Constraint(c *Conversation, r *Rules, compile Compile) (func() Constraint, error) {
	return newTagConstraint(&tagRules{tags: q.tags, words: q.words, stops: q.stops}, q.begins, c, r, compile)
}

// begins says where the prompt leaves the model.
func (q *qwen) begins(c *Conversation) thinking {
	switch {
	case c.Continue:
		if t := c.Turns[len(c.Turns)-1]; q.style != qwenInstruct && t.text() == "" {
			return thinks
		}
		return thought
	case q.style == qwenThinking:
		return thinks
	case q.style == qwenInstruct || !c.thinks():
		return thought
	}
	return mayThink
}
