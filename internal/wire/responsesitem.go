package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"ossian/internal/limits"
)

// Types of items that a conversation is made of, besides those of clientTools. Others
// are accepted, left out and named: they belong to tools that other servers run.
const (
	ItemMessage        = "message"
	ItemReasoning      = "reasoning"
	ItemFunctionCall   = "function_call"
	ItemFunctionOutput = "function_call_output"
	ItemCustomCall     = "custom_tool_call"
	ItemCustomOutput   = "custom_tool_call_output"
	ItemReference      = "item_reference"
)

// Status of an item, and of a response.
const (
	StatusQueued     = "queued"
	StatusInProgress = "in_progress"
	StatusCompleted  = "completed"
	StatusIncomplete = "incomplete"
	StatusFailed     = "failed"
	StatusCancelled  = "cancelled"
)

// Phases of a message of the assistant.
const (
	PhaseCommentary = "commentary" // for the user, before a call
	PhaseAnswer     = "final_answer"
)

// An Item is one item of the input or the output of a response.
type Item struct {
	Type   string // one of the Item constants
	ID     string // "" = none yet
	Status string // in_progress, completed, incomplete; "" = not given

	Role      string         // message
	Phase     string         // message of the assistant; "" = not given
	Content   Content        // texts of message and reasoning, output of a call; shell_call_output: its JSON
	Refusal   string         // message of the assistant
	Logprobs  []TokenLogprob // of an output message's text
	Encrypted string         // reasoning: the same for clients that keep nothing else; "" = none

	CallID    string // calls and their outputs
	Name      string // calls: the tool
	Namespace string // calls: the group it was declared in; "" = none
	Arguments string // JSON text, unchanged; the input of a custom tool; what a client is to do
}

// prefixes of the ids that this server gives, by type.
var prefixes = map[string]string{"local_shell_call": "lsh_", "local_shell_call_output": "lsho_", "shell_call": "sh_", "shell_call_output": "sho_",
	"apply_patch_call": "apc_", "apply_patch_call_output": "apco_",
	ItemMessage: "msg_", ItemReasoning: "rs_", ItemFunctionCall: "fc_", ItemFunctionOutput: "fco_", ItemCustomCall: "ctc_", ItemCustomOutput: "ctco_"}

// IDPrefix returns what ids of the item's type begin with.
func (it *Item) IDPrefix() string { return prefixes[it.Type] }

// MarshalJSON writes the form that OpenAI's schemas have for the item in a list.
func (it Item) MarshalJSON() ([]byte, error) { return it.append(nil), nil }

func (it *Item) append(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = AppendString(dst, it.ID)
	dst = append(dst, `,"type":`...)
	dst = AppendString(dst, it.Type)
	if it.Status != "" {
		dst = append(dst, `,"status":`...)
		dst = AppendString(dst, it.Status)
	}
	switch it.Type {
	case ItemMessage:
		return it.appendMessage(dst)
	case ItemReasoning:
		dst = append(dst, `,"summary":[],"content":[`...)
		dst = appendParts(dst, "reasoning_text", it.Content, "")
		dst = append(dst, ']')
		if it.Encrypted != "" {
			dst = AppendString(append(dst, `,"encrypted_content":`...), it.Encrypted)
		}
		return append(dst, '}')
	}
	dst = AppendString(append(dst, `,"call_id":`...), it.CallID)
	if c := clientTools[it.Type]; c != nil && it.Type == c.call {
		return c.append(dst, it.Arguments)
	} else if c != nil {
		return it.appendOutput(dst)
	}
	switch it.Type {
	case ItemFunctionOutput, ItemCustomOutput:
		dst = append(dst, `,"output":`...)
		if len(it.Content) == 1 {
			return append(AppendString(dst, it.Content[0]), '}')
		}
		return append(appendParts(append(dst, '['), "input_text", it.Content, ""), "]}"...)
	}
	dst = AppendString(append(dst, `,"name":`...), it.Name)
	if it.Namespace != "" {
		dst = AppendString(append(dst, `,"namespace":`...), it.Namespace)
	}
	if it.Type == ItemCustomCall {
		dst = append(dst, `,"input":`...)
	} else {
		dst = append(dst, `,"arguments":`...)
	}
	return append(AppendString(dst, it.Arguments), '}')
}

func (it *Item) appendMessage(dst []byte) []byte {
	dst = AppendString(append(dst, `,"role":`...), it.Role)
	if it.Phase != "" {
		dst = AppendString(append(dst, `,"phase":`...), it.Phase)
	}
	dst = append(dst, `,"content":[`...)
	switch {
	case it.Role != "assistant":
		dst = appendParts(dst, "input_text", it.Content, "")
	case len(it.Logprobs) > 0: // only of our own, which have one text
		dst = appendOutputText(dst, strings.Join(it.Content, ""), it.Logprobs)
	default:
		dst = appendParts(dst, "output_text", it.Content, `,"annotations":[],"logprobs":[]`)
	}
	if it.Refusal != "" {
		if len(it.Content) > 0 {
			dst = append(dst, ',')
		}
		dst = appendParts(dst, "refusal", Content{it.Refusal}, "")
	}
	return append(dst, "]}"...)
}

// appendParts writes texts as parts of one type, each with more behind its text.
func appendParts(dst []byte, kind string, texts Content, more string) []byte {
	member := "text"
	if kind == "refusal" {
		member = kind
	}
	for i, text := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(append(append(dst, `{"type":"`...), kind...), `","`...), member...), `":`...)
		dst = append(append(AppendString(dst, text), more...), '}')
	}
	return dst
}

func appendOutputText(dst []byte, text string, logprobs []TokenLogprob) []byte {
	dst = append(dst, `{"type":"output_text","text":`...)
	dst = append(AppendString(dst, text), `,"annotations":[],"logprobs":`...)
	return append(appendTokenLogprobs(dst, logprobs), '}')
}

func appendTokenLogprobs(dst []byte, tokens []TokenLogprob) []byte {
	dst = append(dst, '[')
	for i := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendTokenLogprob(dst, &tokens[i], true)
	}
	return append(dst, ']')
}

// DecodeItem reads an item that MarshalJSON wrote. The error is an *Error.
func DecodeItem(data []byte, lim *limits.Set) (Item, error) {
	if !json.Valid(data) {
		return Item{}, invalidJSON(0, "not JSON")
	}
	d := &decoder{data: data, lim: lim}
	it, _ := d.item()
	if d.err != nil {
		return Item{}, d.err
	}
	return it, nil
}

// items reads the input: a string is a message of the user.
func (d *decoder) items() []Item {
	if d.kind() == '"' {
		return []Item{{Type: ItemMessage, Role: "user", Content: Content{d.text()}}}
	}
	if d.kind() != '[' {
		d.unlike("a string or an array of items")
		return nil
	}
	out := []Item{}
	d.array(limits.Messages, "items", func(int) {
		if it, ok := d.item(); ok {
			out = append(out, it)
		}
	})
	return out
}

// item reads one item; false = one that is left out. Its id stays apart from its type:
// clients change neither, and ours are told apart by both.
func (d *decoder) item() (it Item, ok bool) {
	it.Type = d.member("type")
	if it.Type == "" && d.member("role") != "" {
		it.Type = ItemMessage // the short form of messages has no type
	}
	_, known := prefixes[it.Type]
	switch {
	case d.err != nil:
	case !d.is('{'):
	case it.Type == "":
		d.missing("type")
	case known || it.Type == ItemReference:
		d.object(func(key string) bool { return it.field(d, key) })
		it.check(d)
		return it, d.err == nil
	default:
		d.leaveOut(it.Type)
	}
	return Item{}, false
}

// member returns a string member of the object that comes next, and does not move.
func (d *decoder) member(name string) (found string) {
	if d.kind() != '{' {
		return ""
	}
	ahead := decoder{data: d.data, pos: d.pos, lim: d.lim}
	ahead.members(func(key string) {
		if key == name && ahead.kind() == '"' {
			found = ahead.text()
		} else {
			ahead.skip()
		}
	})
	return found
}

func (it *Item) field(d *decoder, key string) bool {
	if c := clientTools[it.Type]; c != nil {
		switch {
		case it.Type == c.call && key == c.member:
			it.Name, it.Arguments = c.name, c.read(d)
			return true
		case it.Type == "shell_call_output" && key == "output":
			it.Content = d.shellOutput()
			return true
		case key == "environment" || key == "max_output_length": // of what the client did
			d.skip()
			return true
		case key == "name" || key == "namespace" || key == "arguments" || key == "input" || key == "content" || (it.Type == c.call && key == "output"):
			return false // members of other items, kept where this one has its own
		}
	}
	switch key {
	case "type":
		d.text()
	case "id":
		it.ID = d.text()
	case "status":
		it.Status = d.text()
	case "role":
		it.Role = d.text()
	case "phase":
		it.Phase = d.text()
	case "content":
		if it.Type == ItemReasoning {
			it.Content = d.reasoningTexts()
			return true
		}
		m := Message{}
		it.Content = m.content(d)
		it.Refusal = m.Refusal
	case "summary", "created_by", "caller":
		d.skip() // there is no summariser; a client's own text is no chain of thought
	case "encrypted_content":
		it.Encrypted = d.text()
	case "call_id":
		it.CallID = d.text()
	case "name":
		it.Name = d.text()
	case "namespace":
		it.Namespace = d.text()
	case "arguments", "input":
		it.Arguments = d.text()
	case "output":
		it.Content = new(Message).content(d)
	default:
		return false
	}
	return true
}

// reasoningTexts reads the parts of a reasoning item.
func (d *decoder) reasoningTexts() Content {
	out := Content{}
	d.array(limits.ContentParts, "content parts", func(int) {
		d.object(func(key string) bool {
			switch key {
			case "text":
				out = append(out, d.text())
			case "type":
				d.text()
			default:
				return false
			}
			return true
		})
	})
	return out
}

// check refuses an item that lacks what its type needs.
func (it *Item) check(d *decoder) {
	missing := ""
	if it.Type == "local_shell_call_output" && it.CallID == "" {
		it.CallID = it.ID // as some of OpenAI's own pages have it
	}
	c := clientTools[it.Type]
	switch {
	case it.Type == ItemReference && it.ID == "":
		missing = "id"
	case it.Type == ItemMessage && it.Role == "":
		missing = "role"
	case it.Type == ItemMessage && it.Content == nil:
		missing = "content"
	case it.IsCall() && it.Name == "" && c != nil:
		missing = c.member
	case it.IsCall() && it.Name == "":
		missing = "name"
	case (it.IsCall() || it.IsOutput()) && it.CallID == "":
		missing = "call_id"
	case it.Type == "apply_patch_call_output" && it.Status == "":
		missing = "status"
	case it.Type != "apply_patch_call_output" && it.IsOutput() && it.Content == nil:
		missing = "output"
	}
	switch {
	case d.err != nil:
	case missing != "":
		d.missing(missing)
	case it.Type == ItemMessage && !slices.Contains([]string{"system", "developer", "user", "assistant"}, it.Role):
		d.fail(Invalid(string(d.path)+".role", "system, developer, user or assistant expected"))
	case it.Phase != "" && it.Phase != PhaseCommentary && it.Phase != PhaseAnswer:
		d.fail(Invalid(string(d.path)+".phase", "commentary or final_answer expected"))
	case it.Type == "apply_patch_call_output" && it.Status != "completed" && it.Status != "failed":
		d.fail(Invalid(string(d.path)+".status", fmt.Sprintf("completed or failed expected, found %.40q", it.Status)))
	}
}

// Made reports whether the item is one that models make.
func (it *Item) Made() bool {
	return it.Type == ItemReasoning || it.IsCall() || (it.Type == ItemMessage && it.Role == "assistant")
}

// Says reports whether an item that a client sends back is the same to the model.
func (it *Item) Says(sent *Item) bool {
	return it.Type == sent.Type && it.Role == sent.Role && slices.Equal(it.Content, sent.Content) && it.Refusal == sent.Refusal &&
		(sent.Phase == "" || it.Phase == sent.Phase) && it.CallID == sent.CallID && it.FullName() == sent.FullName() &&
		(it.Arguments == sent.Arguments || (clientTools[it.Type] != nil && sameJSON(it.Arguments, sent.Arguments)))
}

// sameJSON compares texts whose members clients may have arranged anew.
func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// IsCall reports whether the item is a call of a tool.
func (it *Item) IsCall() bool {
	c := clientTools[it.Type]
	return it.Type == ItemFunctionCall || it.Type == ItemCustomCall || (c != nil && it.Type == c.call)
}

// IsOutput reports whether the item is the result of a call.
func (it *Item) IsOutput() bool {
	c := clientTools[it.Type]
	return it.Type == ItemFunctionOutput || it.Type == ItemCustomOutput || (c != nil && it.Type == c.output)
}
