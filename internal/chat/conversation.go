package chat

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"ossian/internal/chat/callid"
)

// A Conversation is what a model is asked to go on with, in no family's words. Its
// zero value is an empty one that ends with the prompt for an answer. Nothing in
// this package changes it.
type Conversation struct {
	Turns []Turn
	Tools []Tool
	// NoCalls is tool_choice none: the tools are neither shown nor recognised.
	NoCalls bool
	// MustCall is tool_choice required, or that of one tool: Rules make the answer a call,
	// and tools that a template cannot show are no error.
	MustCall bool
	// Builtins are tools that the server itself runs, by namespace, such as browser.
	Builtins []Namespace

	// Effort is how much to reason: none, minimal, low, medium, high, xhigh, max,
	// or "" for the model's default.
	Effort string
	// Now dates the prompt. The caller freezes it, so that a conversation renders
	// the same later; zero = no date.
	Now time.Time
	// Identity replaces the first line of a harmony system message; "" = the model's.
	Identity string
	// Response tells the model the shape of its answer where its format has words
	// for that; nil = any. It does not enforce it.
	Response *ResponseFormat
	// Vars are more variables for a template, a JSON object (chat_template_kwargs). They
	// win over the fields above and Rules.Thinking; formats in code know enable_thinking,
	// reasoning_effort, thinking_budget and model_identity.
	Vars json.RawMessage

	// Continue leaves the last turn, the assistant's, open: the answer goes on with it.
	Continue bool
	// NoPrompt ends after the last turn, without the prompt for an answer.
	NoPrompt bool
	// Since is an assistant's turn with Output, of which the prompt before is known: Render
	// adds these ids and what follows them, so that the prompt before, the ids and the rest are
	// one prompt. A format that cannot tell what follows returns ErrWhole. 0 = all is rendered.
	Since int
	// KeepReasoning renders reasoning before the last answer too, which models are
	// not used to (harmony.md 7.1, reasoning.context all_turns).
	KeepReasoning bool
}

// A Role says who speaks.
type Role uint8

// The roles of harmony.md 2; other families know fewer.
const (
	System Role = iota
	Developer
	User
	Assistant
	ToolRole // the result of a call
)

// A Turn is one message of the API, which may be several of the model's.
type Turn struct {
	Role  Role
	Name  string   // of the speaker, or of the tool that answers; a recipient of Builtins among them
	Parts []string // text, in order

	// Of the assistant, in the order in which they are rendered: reasoning, text, calls.
	Reasoning string
	Preamble  bool // the text is not the answer yet (phase commentary); implied by Calls
	Calls     []Call
	// Output holds the ids of the turn as they were sampled, stop id included; where a
	// format can keep them it does, so that the prefix cache hits. The fields above
	// must say the same, those of the next OutputTurns-1 turns included, which are the
	// assistant's, too: models reason, speak and call in any order.
	Output      []int32
	OutputTurns int // 0 = 1

	CallID string // of a ToolRole turn: the call that it answers; "" = the latest of the tool Name
}

// A Call is one call of a function.
type Call struct {
	ID        string // known to the API only, never to the model
	Name      string // as declared; of a tool of Builtins the recipient, such as browser.search
	Builtin   bool   // of a tool that the server ran, offered or not; implied by a recipient that only Builtins have
	Arguments string // JSON, unchanged from what the model wrote
	Text      bool   // the tool takes text: Arguments is that
	code      bool   // of these, one whose text is a program
}

// An Input says what a tool takes.
type Input uint8

// The inputs. Models tend to wrap text in JSON, and some families write all calls so:
// a Parser gives on what is inside.
const (
	JSON   Input = iota // arguments, an object
	Text                // any text
	Formed              // text that Rules.Tools hold to a form
	code                // a program: what a namespace takes that is itself called
)

// A Tool is a function that the model may call.
type Tool struct {
	Name, Description string
	Input             Input
	Parameters        json.RawMessage // JSON schema in declaration order; nil = no parameters; of JSON only
	Unshown           bool            // may be called and is not declared
	// JSON is the declaration {"type":"function",…} as the caller wrote it, for models
	// that are shown JSON; nil = built from the other fields.
	JSON json.RawMessage
}

// A Namespace is a group of built-in tools.
type Namespace struct {
	Name, Description string
	Tools             []Tool // none shown: the description says how to call the namespace itself
}

// A ResponseFormat is the json_schema of the API.
type ResponseFormat struct {
	Name, Description string
	Schema            json.RawMessage
}

// text is the parts as one string, for formats that have no parts.
func (t *Turn) text() string { return strings.Join(t.Parts, "\n") }

// continuesText reports whether the answer goes on with text that is no reasoning.
func (c *Conversation) continuesText() bool {
	return c.Continue && c.Turns[len(c.Turns)-1].text() != ""
}

// recorded returns how many turns from i on the ids of turn i are of, 0 = it has none, or
// the last of these is to be continued.
func (c *Conversation) recorded(i int) int {
	count := max(c.Turns[i].OutputTurns, 1)
	if len(c.Turns[i].Output) == 0 || (c.Continue && i+count >= len(c.Turns)) {
		return 0
	}
	return count
}

// offered are the tools that the model may call now.
func (c *Conversation) offered() []Tool {
	if c.NoCalls {
		return nil
	}
	return c.Tools
}

// declared is how many tools are shown.
func (c *Conversation) declared() (n int) {
	for i := range c.Tools {
		if !c.Tools[i].Unshown {
			n++
		}
	}
	return n
}

// toolNames are the names of tools as they were declared.
func toolNames(tools []Tool) []string {
	names := make([]string, len(tools))
	for i := range tools {
		names[i] = tools[i].Name
	}
	return names
}

// variable decodes one of Vars into dst, if it is there and fits.
func (c *Conversation) variable(name string, dst any) {
	var all map[string]json.RawMessage
	if len(c.Vars) > 0 && json.Unmarshal(c.Vars, &all) == nil && all[name] != nil {
		_ = json.Unmarshal(all[name], dst) // of another type: as if it were not there
	}
}

// called says whom a call is of.
func (c *Conversation) called(call Call) callid.Call {
	function := func(tool Tool) bool { return tool.Name == call.Name }
	return callid.Call{Name: call.Name, Builtin: call.Builtin || (c.builtin(call.Name) && !slices.ContainsFunc(c.Tools, function))}
}

var efforts = []string{"", "none", "minimal", "low", "medium", "high", "xhigh", "max"}

// check refuses what no format can render, and returns for every ToolRole turn the call
// that it answers.
func (c *Conversation) check() (answers map[int]callid.Call, err error) {
	if !slices.Contains(efforts, c.Effort) {
		return nil, generalError("reasoning effort %q: one of %s expected", c.Effort, strings.Join(efforts[1:], ", "))
	}
	if n := len(c.Turns); c.Continue && (n == 0 || c.Turns[n-1].Role != Assistant || len(c.Turns[n-1].Calls) > 0) {
		return nil, turnError(n-1, "only an assistant turn without calls can be continued")
	}
	// A result belongs to a call of its id; without one its turn says the name.
	answers = map[int]callid.Call{}
	asked := map[string]*callid.Calls{} // by id
	spoken := 0                         // turns that are neither the assistant's nor a tool's
	for i := range c.Turns {
		turn := &c.Turns[i]
		if turn.Role == User || turn.Role <= Developer {
			spoken++
		}
		for _, call := range turn.Calls {
			if asked[call.ID] == nil {
				asked[call.ID] = &callid.Calls{}
			}
			asked[call.ID].Add(c.called(call), spoken)
		}
		if turn.Role != ToolRole {
			continue
		}
		calls, known := asked[turn.CallID]
		switch {
		case known && turn.CallID != "":
			answers[i] = calls.Answer()
		case turn.CallID == "" && turn.Name != "":
			answers[i] = c.called(Call{Name: turn.Name})
		default:
			return nil, turnError(i, "no earlier turn makes the call %q that this one answers", turn.CallID)
		}
	}
	return answers, nil
}
