package response

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

// Types of items that a conversation is made of, besides those of clientTools and of tools
// that the server runs. Others are accepted, left out and named.
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

	Role      string              // message
	Phase     string              // message of the assistant; "" = not given
	Content   wire.Content        // texts of message and reasoning, output of a call; shell_call_output: its JSON
	Summary   wire.Content        // reasoning: texts of its summary; nil = none is asked for
	Refusal   string              // message of the assistant
	Logprobs  []wire.TokenLogprob // of an output message's text
	Citations []Citation          // in an output message's text
	Encrypted string              // reasoning: the same for clients that keep nothing else; "" = none

	CallID    string // calls and their outputs
	Name      string // calls: the tool
	Namespace string // calls: the group it was declared in; "" = none
	Arguments string // JSON text, unchanged; the input of a custom tool; what a client is to do; code

	Served *Served // of tools that the server runs; nil = another item
}

// A Citation is a mark in a text that says where something is from (api.md 3.7).
type Citation struct {
	Start, End int // in code points, the second exclusive
	URL, Title string
}

// prefixes of the ids that this server gives, by type.
var prefixes = map[string]string{"local_shell_call": "lsh_", "local_shell_call_output": "lsho_", "shell_call": "sh_", "shell_call_output": "sho_",
	"apply_patch_call": "apc_", "apply_patch_call_output": "apco_",
	ItemWebSearch: "ws_", ItemCode: "ci_", ItemMCPCall: "mcp_", ItemMCPTools: "mcpl_", ItemApprovalRequest: "mcpr_", ItemApprovalResponse: "mcpa_",
	ItemMessage: "msg_", ItemReasoning: "rs_", ItemFunctionCall: "fc_", ItemFunctionOutput: "fco_", ItemCustomCall: "ctc_", ItemCustomOutput: "ctco_"}

// IDPrefix returns what ids of the item's type begin with.
func (it *Item) IDPrefix() string { return prefixes[it.Type] }

// MarshalJSON writes the form that OpenAI's schemas have for the item in a list.
func (it Item) MarshalJSON() ([]byte, error) { return it.append(nil), nil }

func (it *Item) append(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, it.ID)
	dst = append(dst, `,"type":`...)
	dst = wire.AppendString(dst, it.Type)
	if it.Status != "" {
		dst = append(dst, `,"status":`...)
		dst = wire.AppendString(dst, it.Status)
	}
	// Messages and reasoning have parts; everything below is a call or its output.
	switch it.Type {
	case ItemMessage:
		return it.appendMessage(dst)
	case ItemReasoning:
		dst = appendParts(append(dst, `,"summary":[`...), summaryType, it.Summary, "")
		dst = append(dst, `],"content":[`...)
		dst = appendParts(dst, "reasoning_text", it.Content, "")
		dst = append(dst, ']')
		if it.Encrypted != "" {
			dst = wire.AppendString(append(dst, `,"encrypted_content":`...), it.Encrypted)
		}
		return append(dst, '}')
	}
	if ofServer(it.Type) {
		return it.appendServed(dst)
	}
	dst = wire.AppendString(append(dst, `,"call_id":`...), it.CallID)
	if tool := clientTools[it.Type]; tool != nil && it.Type == tool.call {
		return tool.append(dst, it.Arguments)
	} else if tool != nil {
		return it.appendOutput(dst)
	}
	switch it.Type {
	case ItemFunctionOutput, ItemCustomOutput:
		dst = append(dst, `,"output":`...)
		if len(it.Content) == 1 {
			return append(wire.AppendString(dst, it.Content[0]), '}')
		}
		return append(appendParts(append(dst, '['), "input_text", it.Content, ""), "]}"...)
	}
	dst = wire.AppendString(append(dst, `,"name":`...), it.Name)
	if it.Namespace != "" {
		dst = wire.AppendString(append(dst, `,"namespace":`...), it.Namespace)
	}
	if it.Type == ItemCustomCall {
		dst = append(dst, `,"input":`...)
	} else {
		dst = append(dst, `,"arguments":`...)
	}
	return append(wire.AppendString(dst, it.Arguments), '}')
}

func (it *Item) appendMessage(dst []byte) []byte {
	dst = wire.AppendString(append(dst, `,"role":`...), it.Role)
	if it.Phase != "" {
		dst = wire.AppendString(append(dst, `,"phase":`...), it.Phase)
	}
	dst = append(dst, `,"content":[`...)
	switch {
	case it.Role != "assistant":
		dst = appendParts(dst, "input_text", it.Content, "")
	case len(it.Logprobs) > 0 || len(it.Citations) > 0: // only of our own, which have one text
		dst = it.appendOutputText(dst, strings.Join(it.Content, ""))
	default:
		dst = appendParts(dst, "output_text", it.Content, `,"annotations":[],"logprobs":[]`)
	}
	if it.Refusal != "" {
		if len(it.Content) > 0 {
			dst = append(dst, ',')
		}
		dst = appendParts(dst, "refusal", wire.Content{it.Refusal}, "")
	}
	return append(dst, "]}"...)
}

// appendParts writes texts as parts of one type, each with more behind its text.
func appendParts(dst []byte, kind string, texts wire.Content, more string) []byte {
	member := "text"
	if kind == "refusal" {
		member = kind
	}
	for i, text := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(append(append(dst, `{"type":"`...), kind...), `","`...), member...), `":`...)
		dst = append(append(wire.AppendString(dst, text), more...), '}')
	}
	return dst
}

// appendOutputText writes the part of a message that has its text.
func (it *Item) appendOutputText(dst []byte, text string) []byte {
	dst = append(dst, `{"type":"output_text","text":`...)
	dst = append(wire.AppendString(dst, text), `,"annotations":[`...)
	for i := range it.Citations {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = it.Citations[i].append(dst)
	}
	return append(wire.AppendTokenLogprobs(append(dst, `],"logprobs":`...), it.Logprobs), '}')
}

func (c *Citation) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"type":"url_citation","start_index":`...), int64(c.Start), 10)
	dst = strconv.AppendInt(append(dst, `,"end_index":`...), int64(c.End), 10)
	dst = wire.AppendString(append(dst, `,"url":`...), c.URL)
	return append(wire.AppendString(append(dst, `,"title":`...), c.Title), '}')
}

// DecodeItem reads an item that MarshalJSON wrote. The error is an *Error.
func DecodeItem(data []byte, lim *limits.Set) (Item, error) {
	if !json.Valid(data) {
		return Item{}, wire.InvalidJSON(0, "not JSON")
	}
	in := wire.NewReader(data, lim)
	it, _ := readItem(in, true)
	if err := in.Err(); err != nil {
		return Item{}, err
	}
	return it, nil
}

// readItems reads the input: a string is a message of the user. Without served, items of tools
// that the server runs are left out.
func readItems(in *wire.Reader, served bool) []Item {
	if in.Kind() == '"' {
		return []Item{{Type: ItemMessage, Role: "user", Content: wire.Content{in.Text()}}}
	}
	if in.Kind() != '[' {
		in.Expected("a string or an array of items")
		return nil
	}
	out := []Item{}
	in.Array(limits.Messages, "items", func(int) {
		if it, ok := readItem(in, served); ok {
			out = append(out, it)
		}
	})
	return out
}

// readItem reads one item; false = one that is left out. Its id stays apart from its type:
// clients change neither, and ours are told apart by both.
func readItem(in *wire.Reader, served bool) (it Item, ok bool) {
	it.Type = in.Member("type")
	if it.Type == "" && in.Member("role") != "" {
		it.Type = ItemMessage // the short form of messages has no type
	}
	_, known := prefixes[it.Type]
	if ofServer(it.Type) {
		known, it.Served = served, &Served{}
	}
	switch {
	case in.Failed():
	case !in.Is('{'):
	case it.Type == "":
		in.Missing("type")
	case known || it.Type == ItemReference:
		in.Object(func(key string) bool { return it.field(in, key) })
		it.check(in)
		return it, !in.Failed()
	default:
		in.LeaveOut(it.Type)
	}
	return Item{}, false
}

func (it *Item) field(in *wire.Reader, key string) bool {
	if it.Served != nil {
		return it.servedField(in, key)
	}
	if tool := clientTools[it.Type]; tool != nil {
		if known, own := it.clientField(in, tool, key); own {
			return known
		}
	}
	switch key {
	case "type":
		in.Text()
	case "id":
		it.ID = in.Text()
	case "status":
		it.Status = in.Text()
	case "role":
		it.Role = in.Text()
	case "phase":
		it.Phase = in.Text()
	case "content":
		if it.Type == ItemReasoning {
			it.Content = readReasoningTexts(in)
			return true
		}
		m := wire.Message{}
		it.Content = m.ReadContent(in)
		it.Refusal = m.Refusal
	case "summary":
		if it.Type != ItemReasoning {
			in.Skip()
			return true
		}
		if texts := readReasoningTexts(in); len(texts) > 0 { // no part of a prompt: it says what the content does
			it.Summary = texts
		}
	case "created_by", "caller":
		in.Skip()
	case "encrypted_content":
		it.Encrypted = in.Text()
	case "call_id":
		it.CallID = in.Text()
	case "name":
		it.Name = in.Text()
	case "namespace":
		it.Namespace = in.Text()
	case "arguments", "input":
		it.Arguments = in.Text()
	case "output":
		it.Content = new(wire.Message).ReadContent(in)
	default:
		return false
	}
	return true
}

// clientField reads a member that only items of such a tool have, or that they do not have; own =
// it is one of these.
func (it *Item) clientField(in *wire.Reader, tool *clientTool, key string) (known, own bool) {
	switch {
	case it.Type == tool.call && key == tool.member:
		it.Name, it.Arguments = tool.name, tool.read(in)
		return true, true
	case it.Type == "shell_call_output" && key == "output":
		it.Content = readShellOutput(in)
		return true, true
	case key == "environment" || key == "max_output_length": // of what the client did
		in.Skip()
		return true, true
	case key == "name" || key == "namespace" || key == "arguments" || key == "input" || key == "content" || (it.Type == tool.call && key == "output"):
		return false, true // members of other items, kept where this one has its own
	}
	return false, false
}

// readReasoningTexts reads the parts of a reasoning item, or of its summary.
func readReasoningTexts(in *wire.Reader) wire.Content {
	out := wire.Content{}
	in.Array(limits.ContentParts, "content parts", func(int) {
		in.Object(func(key string) bool {
			switch key {
			case "text":
				out = append(out, in.Text())
			case "type":
				in.Text()
			default:
				return false
			}
			return true
		})
	})
	return out
}

// check refuses an item that lacks what its type needs.
func (it *Item) check(in *wire.Reader) {
	if it.Served != nil {
		it.settle()
		it.checkServed(in)
		return
	}
	missing := ""
	if it.Type == "local_shell_call_output" && it.CallID == "" {
		it.CallID = it.ID // as some of OpenAI's own pages have it
	}
	tool := clientTools[it.Type]
	switch {
	case it.Type == ItemReference && it.ID == "":
		missing = "id"
	case it.Type == ItemMessage && it.Role == "":
		missing = "role"
	case it.Type == ItemMessage && it.Content == nil:
		missing = "content"
	case it.IsCall() && it.Name == "" && tool != nil:
		missing = tool.member
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
	case in.Failed():
	case missing != "":
		in.Missing(missing)
	case it.Type == ItemMessage && !slices.Contains([]string{"system", "developer", "user", "assistant"}, it.Role):
		in.Fail(wire.Invalid(in.Path()+".role", "system, developer, user or assistant expected"))
	case it.Phase != "" && it.Phase != PhaseCommentary && it.Phase != PhaseAnswer:
		in.Fail(wire.Invalid(in.Path()+".phase", "commentary or final_answer expected"))
	case it.Type == "apply_patch_call_output" && it.Status != "completed" && it.Status != "failed":
		in.Fail(wire.Invalid(in.Path()+".status", fmt.Sprintf("completed or failed expected, found %.40q", it.Status)))
	}
}

// Made reports whether the item is one that models make.
func (it *Item) Made() bool {
	return it.Type == ItemReasoning || it.IsCall() || (ofServer(it.Type) && it.Type != ItemApprovalResponse) || (it.Type == ItemMessage && it.Role == "assistant")
}

// Says reports whether an item that a client sends back is the same to the model.
func (it *Item) Says(sent *Item) bool {
	if it.Served != nil {
		return it.saysServed(sent)
	}
	same := slices.Equal(it.Content, sent.Content)
	if it.Type == ItemReasoning && len(sent.Content) == 0 && len(it.Summary) > 0 { // clients that read summaries keep nothing else
		same = slices.Equal(it.Summary, sent.Summary)
	}
	return it.Type == sent.Type && it.Role == sent.Role && same && it.Refusal == sent.Refusal &&
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
	tool := clientTools[it.Type]
	return it.Type == ItemFunctionCall || it.Type == ItemCustomCall || (tool != nil && it.Type == tool.call)
}

// IsOutput reports whether the item is the result of a call.
func (it *Item) IsOutput() bool {
	tool := clientTools[it.Type]
	return it.Type == ItemFunctionOutput || it.Type == ItemCustomOutput || (tool != nil && it.Type == tool.output)
}
