// Package messages holds the JSON and events of Anthropic's Messages API, /v1/messages: requests,
// as chats that ask for the same, and replies while they are made. Clients of that API get from
// any model what they get from theirs; its users need not know how its blocks, its stop reasons and
// its errors are written.
package messages

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

// A Request is POST /v1/messages, or count_tokens of it. Chat is the chat that asks for the same:
// a conversation has one prompt, whichever API it came by.
type Request struct {
	Chat    wire.ChatRequest
	From    []Place  // [message of Chat] where the request has it
	Ignored []string // unknown members, tools and blocks of the request, for x-ossian-ignored

	Thinking bool // the reply is to show its reasoning

	thinking  string   // thinking.type; "" = not given
	budget    *int64   // thinking.budget_tokens
	effort    string   // output_config.effort
	toolPlace []string // [tool of Chat]
}

// A Place is a path within a request: messages[1].content[0].
type Place = string

// Decode reads the body of a request. The error is a *wire.Error. RawMessages of the result are
// parts of body, which must not change while they are in use.
func Decode(body []byte, lim *limits.Set) (*Request, error) {
	request := new(Request)
	system := wire.Message{Role: "system"}
	in, err := wire.ReadBody(body, lim, func(in *wire.Reader, key string) bool {
		if key == "system" {
			system.Content = readSystem(in)
			return true
		}
		return request.field(in, key)
	})
	if err != nil {
		return nil, err
	}
	// system may stand anywhere in the body; in a chat it is the first message.
	if len(system.Content) > 0 {
		request.Chat.Messages = slices.Insert(request.Chat.Messages, 0, system)
		request.From = slices.Insert(request.From, 0, "system")
	}
	request.Ignored = in.Ignored()
	request.reason()
	return request, nil
}

// ToolPath returns where the request has the i-th tool of Chat.
func (r *Request) ToolPath(i int) Place { return r.toolPlace[i] }

// reason says in the words of chats how much the model is to reason. Of a request that does not
// speak of it the model decides, and the reply does not show it: its clients expect text first.
func (r *Request) reason() {
	r.Chat.ReasoningEffort, r.Chat.ThinkingBudget = r.effort, r.budget
	r.Thinking = r.thinking == "enabled" || r.thinking == "adaptive"
	if r.thinking == "disabled" {
		r.Chat.ReasoningEffort = "none"
	}
	r.Chat.IncludeReasoning = wire.Ptr(r.Thinking)
}

// same are members that mean what chats mean by them, under their names there.
var same = map[string]string{"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "stop_sequences": "stop", "stream": "stream",
	"metadata": "metadata", "seed": "seed", "min_p": "min_p", "cache_salt": "cache_salt", "priority": "priority"}

// passedOver are members that ask for nothing that changes an answer here: billing, places of
// caches (which are found without), and what the other server's tools are told.
var passedOver = []string{"service_tier", "cache_control", "betas", "inference_geo", "speed", "anthropic_beta"}

func (r *Request) field(in *wire.Reader, key string) bool {
	// Members that chats have too are read as there.
	if name, ok := same[key]; ok {
		return r.Chat.Sampling.Field(in, name)
	}
	if slices.Contains(passedOver, key) {
		in.Skip()
		return true
	}
	switch key {
	case "model":
		r.Chat.Model = in.Text()
	case "max_tokens":
		r.Chat.MaxTokens = wire.Ptr(in.Integer())
	case "messages":
		r.Chat.Messages = []wire.Message{}
		in.Array(limits.Messages, "messages", func(int) { r.readMessage(in) })
	case "tools":
		r.readTools(in)
	case "tool_choice":
		r.readChoice(in)
	case "thinking":
		in.Object(func(key string) bool { return r.thought(in, key) })
	case "output_config":
		in.Object(func(key string) bool { return r.output(in, key) })
	case "output_format":
		r.readFormat(in)
	case "thread":
		readThread(in)
	default:
		return false
	}
	return true
}

// CodeThread is the code of the error that has clients send the whole conversation again.
const CodeThread = "thread_not_found"

// readThread reads which thread a request goes on with. None is kept here: clients that go on with
// one are told so in the words by which they know to send all messages, as they would behind a
// server that has lost it.
func readThread(in *wire.Reader) {
	if in.Kind() != '{' { // false: no thread is wanted
		in.Skip()
		return
	}
	path := in.Path()
	if in.Member("type") == "continue" {
		in.Fail(&wire.Error{Message: "this server keeps no threads: send all messages of the conversation", Type: wire.TypeInvalidRequest, Param: path, Code: CodeThread})
	}
	in.Skip()
}

func (r *Request) thought(in *wire.Reader, key string) bool {
	switch key {
	case "type":
		r.thinking = in.Text()
	case "budget_tokens":
		r.budget = wire.Ptr(in.Integer())
	case "display": // how much of it is told: all of it is, or nothing
		in.Text()
	default:
		return false
	}
	return true
}

func (r *Request) output(in *wire.Reader, key string) bool {
	switch key {
	case "effort":
		r.effort = in.Text()
	case "format":
		r.readFormat(in)
	default:
		return false
	}
	return true
}

// readFormat reads the form of the answer: a schema.
func (r *Request) readFormat(in *wire.Reader) {
	kind, schema := "", json.RawMessage(nil)
	path := in.Path()
	in.Object(func(key string) bool {
		switch key {
		case "type":
			kind = in.Text()
		case "schema":
			schema = in.Schema()
		default:
			return false
		}
		return true
	})
	// Errors of reading come first: what was read of a broken object says nothing.
	switch {
	case in.Failed():
	case kind != "json_schema":
		in.Fail(wire.Unsupported(path+".type", fmt.Sprintf("json_schema expected, found %.40q", kind)))
	case schema == nil:
		in.Missing("schema")
	default:
		r.Chat.ResponseFormat = &wire.ResponseFormat{Type: "json_schema", JSONSchema: &wire.JSONSchema{Name: "response", Schema: schema, Strict: true}}
	}
}

// readTools reads the tools. Those that Anthropic's own servers run, or whose parameters only
// its models know, have a type: they are left out, and named as ignored.
func (r *Request) readTools(in *wire.Reader) {
	r.Chat.Tools, r.toolPlace = []wire.Tool{}, nil
	in.Kind()
	start := in.Offset()
	in.Array(limits.Tools, "tools", func(int) {
		if kind := in.Member("type"); kind != "" && kind != "custom" {
			in.LeaveOut(kind)
			return
		}
		tool := wire.Tool{Type: "function"}
		in.Object(func(key string) bool { return readTool(in, &tool, key) })
		if !in.Failed() && tool.Name == "" {
			in.Missing("name")
		}
		if !in.Failed() && tool.Parameters == nil {
			in.Missing("input_schema")
		}
		// Templates show a tool in Chat's form.
		tool.Raw = tool.Nested()
		r.Chat.Tools, r.toolPlace = append(r.Chat.Tools, tool), append(r.toolPlace, in.Path())
	})
	if !in.Failed() {
		in.Within(in.Offset()-start, limits.ToolBytes, "bytes of tools")
	}
}

func readTool(in *wire.Reader, tool *wire.Tool, key string) bool {
	switch key {
	case "type", "cache_control", "defer_loading", "eager_input_streaming", "input_examples", "allowed_callers":
		in.Skip()
	case "name":
		tool.Name = in.Text()
	case "description":
		tool.Description = in.Text()
	case "input_schema":
		tool.Parameters = in.Schema()
	case "strict":
		tool.Strict = in.Boolean()
	default:
		return false
	}
	return true
}

// modes are the choices among tools, in the words of chats.
var modes = map[string]string{"auto": "auto", "any": "required", "tool": "named", "none": "none"}

func (r *Request) readChoice(in *wire.Reader) {
	kind, path := "", in.Path()
	in.Object(func(key string) bool {
		switch key {
		case "type":
			kind = in.Text()
		case "name":
			r.Chat.ToolChoice.Name = in.Text()
		case "disable_parallel_tool_use":
			r.Chat.ParallelToolCalls = wire.Ptr(!in.Boolean())
		default:
			return false
		}
		return true
	})
	mode, known := modes[kind]
	// Only a choice of one tool has a name; one that was given with another choice is dropped.
	switch {
	case in.Failed():
	case !known:
		in.Fail(wire.Invalid(path+".type", fmt.Sprintf("auto, any, tool or none expected, found %.40q", kind)))
	case mode == "named" && r.Chat.ToolChoice.Name == "":
		in.Missing("name")
	}
	r.Chat.ToolChoice.Mode = mode
	if mode != "named" {
		r.Chat.ToolChoice.Name = ""
	}
}

// Validate checks what a request asks for; counted says that nothing is generated. The error is a
// *wire.Error whose Param is a path of this API.
func (r *Request) Validate(lim *limits.Set, counted bool) error {
	if r.Chat.MaxTokens == nil && !counted {
		return wire.Missing("max_tokens")
	}
	for _, err := range []*wire.Error{
		wire.OneOf("thinking.type", r.thinking, []string{"", "enabled", "disabled", "adaptive"}),
		wire.Whole("thinking.budget_tokens", r.budget, 0, math.MaxInt32),
		wire.OneOf("output_config.effort", r.effort, wire.Efforts),
		wire.CheckTools(r.Chat.Tools, &r.Chat.ToolChoice, lim, wire.ToolFields{Tools: "tools", Choice: "tool_choice", Name: func(i int) string { return r.toolPlace[i] + ".name" }}),
	} {
		if err != nil {
			return err
		}
	}
	err := r.Chat.Validate(lim)
	if problem, ok := err.(*wire.Error); ok {
		return r.translate(problem)
	}
	return err
}

// names are members of chats that this API has under other names.
var names = strings.NewReplacer("stop[", "stop_sequences[", "response_format.json_schema", "output_config.format")

// translate gives an error of the chat the path that the request has.
func (r *Request) translate(problem *wire.Error) *wire.Error {
	told := *problem
	told.Param = names.Replace(told.Param)
	if told.Param == "stop" {
		told.Param = "stop_sequences"
	}
	var at int
	if n, _ := fmt.Sscanf(told.Param, "messages[%d]", &at); n == 1 && at < len(r.From) {
		told.Param = r.From[at] + strings.TrimPrefix(told.Param, fmt.Sprintf("messages[%d]", at))
	}
	return &told
}
