package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Dialect is the form in which a kind of server writes its streams. The zero value is
// vLLM's; DialectOf gives the others. The Responses API has one form.
type Dialect struct {
	Name        string // whose members an event has; "" = vllm
	RoleEarly   bool   // chat: the chunk with the role comes with the head of the answer, before any token
	RoleJoined  bool   // chat: the role comes in the chunk of the first token
	OwnFinish   bool   // finish_reason comes in a chunk of its own, without text
	NullUsage   bool   // "usage":null in the chunks before the one that has it
	FinishUsage bool   // usage comes in the last chunk with choices, not in one of its own
	NoUsage     bool   // no usage, even if the request asks for it
	NoDone      bool   // no [DONE]
	CRLF        bool   // lines end in CR LF
	Comments    bool   // a comment line before each event
}

// Dialects are the names that DialectOf knows.
func Dialects() []string {
	return []string{"vllm", "sglang", "llama.cpp", "ollama", "tensorrt-llm", "ossian"}
}

// DialectOf returns the form in which the server of that name streams.
func DialectOf(dialect string) (Dialect, error) {
	shape := Dialect{Name: dialect}
	switch dialect {
	case "", "vllm", "tensorrt-llm":
	case "sglang", "ossian":
		shape.OwnFinish, shape.NullUsage = true, true
	case "llama.cpp":
		shape.OwnFinish, shape.FinishUsage = true, true
	case "ollama":
		shape.OwnFinish, shape.RoleJoined = true, true
	default:
		return shape, fmt.Errorf("dialect %q is unknown; expected one of %q", dialect, Dialects())
	}
	return shape, nil
}

// An api is one of OpenAI's interfaces.
type api uint8

const (
	completions api = iota
	chat
	responses
)

// A form is how the chunks of one stream are written:
//
//	head choice middle usage sent_ns "}"
//
// where choice is
//
//	opening delta between finish ending
//
// or, with finishFirst, opening finish between delta ending.
type form struct {
	head, middle             []byte // with id, model and time
	opening, between, ending string
	finishFirst              bool
	tokenIDs                 bool // the choice has the member token_ids
	role                     string
	before, after            string // around a text
	think, thought           string // around a text of reasoning
	reasoning                string // member of a message
	none                     string // instead of a text
}

// formOf returns the form of a stream for api (not responses).
func formOf(dialect string, api api, id, model string) form {
	form, head, middle := chatForm(dialect)
	if api == completions {
		form, head, middle = completionForm(dialect)
	}
	name := quote(model)
	fill := strings.NewReplacer("ID", id, "MODEL", string(name), "TIME", "1767225600")
	form.head, form.middle = []byte(fill.Replace(head)), []byte(fill.Replace(middle))
	return form
}

// chatForm begins with vLLM's form and changes what a dialect has otherwise.
func chatForm(dialect string) (f form, head, middle string) {
	head = `{"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":MODEL,"choices":[`
	middle = `]`
	f = form{
		opening: `{"index":0,"delta":{`, between: `},"logprobs":null,"finish_reason":`, ending: `,"stop_reason":null`,
		role: `"role":"assistant","content":""`, before: `"content":"`, after: `"`, think: `"reasoning":"`, thought: `"`,
		none: `"content":""`, reasoning: "reasoning", tokenIDs: true,
	}
	switch dialect {
	case "sglang":
		f.ending, f.reasoning, f.tokenIDs = `,"matched_stop":null`, "reasoning_content", false
		f.role = `"role":"assistant","content":"","reasoning_content":null,"tool_calls":null`
		f.before, f.after = `"role":null,"content":"`, `","reasoning_content":null,"tool_calls":null`
		f.think, f.thought = `"role":null,"content":null,"reasoning_content":"`, `","tool_calls":null`
		f.none = `"role":null,"content":null,"reasoning_content":null,"tool_calls":null`
	case "llama.cpp":
		head = `{"choices":[`
		middle = `],"created":TIME,"id":"chatcmpl-ID","model":MODEL,"system_fingerprint":"b1","object":"chat.completion.chunk"`
		f.opening, f.between, f.ending, f.finishFirst, f.tokenIDs = `{"finish_reason":`, `,"index":0,"delta":{`, `}`, true, false
		f.role, f.think, f.none = `"role":"assistant","content":null`, `"reasoning_content":"`, ``
		f.reasoning = "reasoning_content"
	case "ollama":
		head = `{"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":MODEL,"system_fingerprint":"fp_ollama","choices":[`
		f.between, f.ending, f.tokenIDs = `},"finish_reason":`, ``, false
		f.role, f.before = ``, `"role":"assistant","content":"`
		f.think, f.none = `"role":"assistant","content":"","reasoning":"`, `"role":"assistant","content":""`
	case "ossian":
		head = `{"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":MODEL,"system_fingerprint":"os-1","choices":[`
		f.ending, f.none, f.tokenIDs = ``, ``, false
	}
	return f, head, middle
}

// completionForm is the same for completions.
func completionForm(dialect string) (f form, head, middle string) {
	head = `{"id":"cmpl-ID","object":"text_completion","created":TIME,"model":MODEL,"choices":[`
	middle = `]`
	f = form{
		opening: `{"index":0,"text":`, between: `,"logprobs":null,"finish_reason":`, ending: `,"stop_reason":null`,
		before: `"`, after: `"`, think: `"`, thought: `"`, none: `""`, tokenIDs: true,
	}
	switch dialect {
	case "sglang":
		head, middle = `{"id":"ID","object":"text_completion","created":TIME,"choices":[`, `],"model":MODEL`
		f.ending, f.tokenIDs = `,"matched_stop":null`, false
	case "llama.cpp":
		head = `{"choices":[`
		middle = `],"created":TIME,"model":MODEL,"system_fingerprint":"b1","object":"text_completion","id":"cmpl-ID"`
		f.opening, f.between, f.ending, f.tokenIDs = `{"text":`, `,"index":0,"logprobs":null,"finish_reason":`, ``, false
	case "ollama":
		head = `{"id":"cmpl-ID","object":"text_completion","created":TIME,"model":MODEL,"system_fingerprint":"fp_ollama","choices":[`
		f.opening, f.between, f.ending, f.tokenIDs = `{"text":`, `,"index":0,"finish_reason":`, ``, false
	case "ossian":
		head = `{"id":"cmpl-ID","object":"text_completion","created":TIME,"model":MODEL,"system_fingerprint":"os-1","choices":[`
		f.tokenIDs = false
	}
	return f, head, middle
}

// quote returns text as JSON, without the escapes that only HTML needs.
func quote(text string) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string always encodes
	return slices.Clip(bytes.TrimSuffix(buffer.Bytes(), []byte("\n")))
}
