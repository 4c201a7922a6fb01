package response

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

// A Request is POST /v1/responses. ResponseFormat holds text.format, or response_format as
// chats have it.
type Request struct {
	Model        string
	Input        []Item  // a string is one message of the user; nil = not given
	Instructions *string // nil = none
	Previous     string  // previous_response_id
	wire.Sampling
	MaxOutputTokens   *int64
	MaxToolCalls      *int64
	Tools             []wire.Tool       // functions, custom tools and those that clients run; those of a namespace have its name and "__" before theirs
	ServerTools       []wire.ServerTool // that the server runs; nil = the request has no tools, of any kind
	ToolChoice        wire.ToolChoice
	ParallelToolCalls *bool // nil = true
	Effort            string
	Summary           string // reasoning.summary
	Context           string // reasoning.context: "", auto, current_turn, all_turns
	ThinkingBudget    *int64 // see ThinkingTokens
	thinkingField     string // the name under which it came
	ReasoningTokens   *int64 // reasoning.max_tokens, the same
	Verbosity         string
	TopLogprobs       *int64
	Truncation        string // "", disabled, auto
	ContinueFinal     bool   // continue_final_message: the answer goes on with the last message or reasoning
	Include           []string
	Store             *bool // nil = true
	Background        bool
	PromptProgress    bool // stream_options.prompt_progress
	SafetyID          string
	CacheKey          string

	Ignored []string // unknown members, tools and items of the request, for x-ossian-ignored

	chatForm bool // ResponseFormat came as response_format

	served bool // the server runs tools

	tools  []shownTool       // as the reply shows them
	choice json.RawMessage   // the same, nil = auto
	spaces map[string]string // a tool's full name to its namespace
	paths  []string          // [tool] its place in the request
}

// A shownTool is a tool as the reply has it.
type shownTool struct {
	raw    json.RawMessage
	server int // of ServerTools, from 1; 0 = none of these
}

// Decode reads the body of a responses request. Without served, tools that the server would run,
// and their items, are left out and named. The error is an *Error. RawMessages of the result are
// parts of body, which must not change while they are in use.
func Decode(body []byte, lim *limits.Set, served bool) (*Request, error) {
	request := &Request{served: served}
	in, err := wire.ReadBody(body, lim, func(in *wire.Reader, key string) bool { return request.field(in, key) })
	if err != nil {
		return nil, err
	}
	if err := request.chooseFull(); err != nil {
		return nil, err
	}
	request.Ignored = in.Ignored()
	return request, nil
}

// chooseFull gives the choice full names where it has those that tools have in their
// namespaces.
func (r *Request) chooseFull() error {
	// The tool that is named, then those that are allowed.
	for i := -1; i < len(r.ToolChoice.Allowed); i++ {
		name := &r.ToolChoice.Name
		if i >= 0 {
			name = &r.ToolChoice.Allowed[i]
		}
		var found []string
		for k := range r.Tools {
			full := r.Tools[k].Name
			// A full name is meant before a name within a namespace.
			if full == *name {
				found = []string{full}
				break
			}
			if space := r.spaces[full]; space != "" && full == space+"__"+*name {
				found = append(found, full)
			}
		}
		if len(found) > 1 {
			return wire.Invalid("tool_choice", fmt.Sprintf("%.100q is the name of tools in several namespaces: choose one of %.400q", *name, found))
		}
		if len(found) == 1 {
			*name = found[0]
		}
	}
	return nil
}

// includable are the names of what replies have on request.
var includable = []string{"reasoning.encrypted_content", "message.output_text.logprobs", "code_interpreter_call.outputs", "web_search_call.action.sources", "web_search_call.results"}

// Includable reports whether there is something of a name that replies can have on request.
func Includable(name string) bool { return slices.Contains(includable, name) }

// Includes reports whether the reply is to have what include calls name.
func (r *Request) Includes(name string) bool { return slices.Contains(r.Include, name) }

// ThinkingTokens returns how many tokens reasoning may have; nil = no limit.
func (r *Request) ThinkingTokens() *int64 {
	if r.ThinkingBudget != nil {
		return r.ThinkingBudget
	}
	return r.ReasoningTokens
}

// Keep reports whether the response is to be stored.
func (r *Request) Keep() bool { return r.Store == nil || *r.Store }

// Called returns an item for a call of the tool that the model knows by a full name.
func (r *Request) Called(full string) Item {
	it := Item{Type: ItemFunctionCall, Name: full, Namespace: r.spaces[full]}
	if it.Namespace != "" {
		it.Name = strings.TrimPrefix(full, it.Namespace+"__")
	}
	for i := range r.Tools {
		switch tool := &r.Tools[i]; {
		case tool.Name != full:
		case tool.Type == "custom":
			it.Type = ItemCustomCall
		case findClientTool(tool.Type) != nil:
			it.Type = clientTools[tool.Type].call
		}
	}
	return it
}

// FullName returns the name by which the model knows the tool of a call.
func (it *Item) FullName() string {
	if it.Namespace != "" {
		return it.Namespace + "__" + it.Name
	}
	return it.Name
}

// field reads the fields of a responses request.
func (r *Request) field(in *wire.Reader, key string) bool {
	switch key {
	case "model":
		r.Model = in.Text()
	case "input":
		r.Input = readItems(in, r.served)
	case "instructions":
		r.Instructions = wire.Ptr(in.Text())
	case "previous_response_id":
		r.Previous = in.Text()
	case "max_output_tokens":
		r.MaxOutputTokens = in.OutputTokens()
	case "thinking_token_budget", "thinking_budget":
		if r.ThinkingBudget != nil {
			in.Invalid("thinking_token_budget and thinking_budget exclude each other: send thinking_token_budget")
		}
		r.ThinkingBudget, r.thinkingField = wire.Ptr(in.Integer()), key
	case "max_tokens", "max_completion_tokens":
		in.Fail(wire.Unsupported(key, "responses have max_output_tokens for this"))
	case "max_tool_calls":
		r.MaxToolCalls = wire.Ptr(in.Integer())
	case "tools":
		r.readTools(in)
	case "tool_choice":
		r.readChoice(in)
	case "parallel_tool_calls":
		r.ParallelToolCalls = wire.Ptr(in.Boolean())
	case "reasoning":
		in.Object(func(key string) bool { return r.reasoning(in, key) })
	case "response_format":
		r.readChatForm(in)
	case "text":
		in.Object(func(key string) bool { return r.text(in, key) })
	case "top_logprobs":
		if n := in.Integer(); n != 0 { // 0, which every response repeats, asks for none
			r.TopLogprobs = &n
		}
	case "truncation":
		r.Truncation = in.Text()
	case "continue_final_message":
		r.ContinueFinal = in.Boolean()
	case "include":
		r.Include = []string{}
		in.Array(limits.MetadataPairs, "names", func(int) {
			name := in.Text()
			if r.Include = append(r.Include, name); !Includable(name) {
				in.IgnoreKind(name)
			}
		})
	case "store":
		r.Store = wire.Ptr(in.Boolean())
	case "background":
		r.Background = in.Boolean()
	case "stream_options":
		r.readStreamOptions(in)
	case "safety_identifier":
		r.SafetyID = in.Text()
	case "prompt_cache_key":
		r.CacheKey = in.Text()
	case "conversation":
		in.Fail(wire.Unsupported("conversation", "conversations are not supported; previous_response_id is"))
	case "prompt":
		in.Fail(wire.Unsupported("prompt", "prompt templates are not supported; send instructions and input"))
	default:
		return r.Sampling.Field(in, key)
	}
	return true
}

func (r *Request) reasoning(in *wire.Reader, key string) bool {
	switch key {
	case "effort":
		r.Effort = in.Text()
	case "summary", "generate_summary":
		r.Summary = in.Text()
	case "context":
		r.Context = in.Text()
	case "max_tokens":
		r.ReasoningTokens = wire.Ptr(in.Integer())
	default:
		return false
	}
	return true
}

func (r *Request) text(in *wire.Reader, key string) bool {
	switch key {
	case "verbosity":
		r.Verbosity = in.Text()
	case "format":
		if r.ResponseFormat != nil {
			in.Invalid("excludes response_format")
		}
		r.ResponseFormat = in.TextFormat()
	default:
		return false
	}
	return true
}

// readChatForm reads the form of the answer under the name that chats have for it. Replies
// show it as text.format, which has a name.
func (r *Request) readChatForm(in *wire.Reader) {
	if r.ResponseFormat != nil {
		in.Invalid("excludes text.format")
		return
	}
	r.chatForm = r.Sampling.Field(in, "response_format")
	if format := r.ResponseFormat; format != nil && format.JSONSchema != nil && format.JSONSchema.Name == "" {
		format.JSONSchema.Name = "response"
	}
}

// FormPlace returns where the request has a part of its form that a chat would have at
// place: text.format is flat. Other places stay as they are.
func (r *Request) FormPlace(place string) string {
	rest, form := strings.CutPrefix(place, "response_format")
	if !form || r.chatForm {
		return place
	}
	return "text.format" + strings.TrimPrefix(rest, ".json_schema")
}

// readTools reads the tools: functions, custom ones, groups of them, and those that
// clients or the server run. Others are left out, and named as ignored.
func (r *Request) readTools(in *wire.Reader) {
	r.Tools, r.ServerTools, r.paths, r.spaces = []wire.Tool{}, []wire.ServerTool{}, nil, map[string]string{}
	in.Kind()
	start := in.Offset()
	in.Array(limits.Tools, "tools", func(int) {
		kind := in.Member("type")
		if clientTool := findClientTool(kind); clientTool != nil {
			r.readClientTool(in, clientTool)
			return
		}
		if r.served && wire.IsServerTool(kind) {
			r.readServerTool(in)
			return
		}
		switch kind {
		case "function", "custom":
			raw := in.Peek()
			tool := readTool(in)
			r.add(in, tool)
			r.show(showTool(&tool, raw))
		case "namespace":
			r.show(in.Peek())
			r.readNamespace(in)
		case "":
			if in.Is('{') {
				in.Missing("type")
			}
		// Tools that OpenAI's own servers run: a client that offers them can do without.
		default:
			in.LeaveOut(kind)
		}
	})
	if !in.Failed() {
		in.Within(in.Offset()-start, limits.ToolBytes, "bytes of tools")
	}
}

func (r *Request) add(in *wire.Reader, tool wire.Tool) {
	r.Tools, r.paths = append(r.Tools, tool), append(r.paths, in.Path())
}

// ToolPath returns where the i-th of Tools is in the request, as "tools[0].tools[2]" in a
// namespace.
func (r *Request) ToolPath(i int) string { return r.paths[i] }

func (r *Request) readNamespace(in *wire.Reader) {
	space := in.Member("name")
	if space == "" {
		in.Missing("name")
	}
	in.Object(func(key string) bool {
		switch key {
		case "type", "name", "description":
			in.Text()
		case "tools":
			in.Array(limits.Tools, "tools", func(int) {
				tool := readTool(in)
				if tool.Type != "function" && tool.Type != "custom" {
					in.Fail(wire.Unsupported(in.Path()+".type", "function or custom expected"))
				}
				// The model sees one flat list, in which names have to differ.
				tool.Name = space + "__" + tool.Name
				if tool.Type == "function" {
					tool.Raw = tool.Nested()
				}
				r.spaces[tool.Name] = space
				r.add(in, tool)
			})
		default:
			return false
		}
		return true
	})
}

// readTool reads a tool in the flat form.
func readTool(in *wire.Reader) wire.Tool {
	tool := wire.Tool{Type: "function"}
	tool.Read(in)
	if !in.Failed() && tool.Name == "" {
		in.Missing("name")
	}
	if tool.Type == "function" {
		tool.Raw = tool.Nested()
	}
	return tool
}

// show adds a tool to those of the reply.
func (r *Request) show(raw json.RawMessage) { r.tools = append(r.tools, shownTool{raw: raw}) }

// showTool returns the tool as replies have it, with all members that OpenAI's schema
// wants of a function.
func showTool(tool *wire.Tool, raw json.RawMessage) json.RawMessage {
	if tool.Type != "function" {
		return raw
	}
	dst := wire.AppendString([]byte(`{"type":"function","name":`), tool.Name)
	dst = wire.AppendText(append(dst, `,"description":`...), wire.Text(tool.Description))
	dst = append(dst, `,"parameters":`...)
	if tool.Parameters == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, tool.Parameters...)
	}
	return fmt.Appendf(dst, `,"strict":%t}`, tool.Strict)
}

// Validate is as for ChatRequest.
func (r *Request) Validate(lim *limits.Set) error {
	switch {
	case r.Input == nil && r.Previous == "":
		return wire.Missing("input")
	case len(r.Input) == 0 && r.Previous == "":
		return wire.Invalid("input", "at least one item that the model can read expected")
	}
	if r.ResponseFormat != nil && !r.chatForm { // the other is checked with the rest of Sampling
		if err := checkTextFormat(r.ResponseFormat); err != nil {
			return err
		}
	}
	for _, err := range []*wire.Error{
		r.Sampling.Check(lim),
		wire.Whole("max_output_tokens", r.MaxOutputTokens, 1, math.MaxInt64),
		wire.Whole("max_tool_calls", r.MaxToolCalls, 1, math.MaxInt64),
		wire.CheckTopLogprobs("top_logprobs", r.TopLogprobs, lim),
		wire.Whole(cmp.Or(r.thinkingField, "thinking_token_budget"), r.ThinkingBudget, 0, math.MaxInt32),
		wire.Whole("reasoning.max_tokens", r.ReasoningTokens, 0, math.MaxInt32),
		wire.OneOf("reasoning.effort", r.Effort, wire.Efforts),
		wire.OneOf("reasoning.summary", r.Summary, []string{"", "auto", "concise", "detailed"}),
		wire.OneOf("reasoning.context", r.Context, []string{"", "auto", "current_turn", "all_turns"}),
		wire.OneOf("text.verbosity", r.Verbosity, []string{"", "low", "medium", "high"}),
		wire.OneOf("truncation", r.Truncation, []string{"", "disabled", "auto"}),
		r.checkServed(),
		r.checkTools(lim),
	} {
		if err != nil {
			return err
		}
	}
	// What two members together rule out.
	switch most := r.MaxOutputTokens; {
	case most != nil && r.MinTokens > *most:
		return wire.Invalid("min_tokens", fmt.Sprintf("%d is more than the %d tokens of max_output_tokens", r.MinTokens, *most))
	case r.Choices() != 1:
		return wire.Invalid("n", "a response has one answer")
	case r.Background && !r.Keep():
		return wire.Invalid("background", "needs store")
	}
	return nil
}

// checkTextFormat checks text.format.
func checkTextFormat(format *wire.ResponseFormat) *wire.Error {
	switch {
	case format.Type == "":
		return wire.Missing("text.format.type")
	case format.Type != "text" && format.Type != "json_object" && format.Type != "json_schema":
		return wire.Invalid("text.format.type", fmt.Sprintf("text, json_object or json_schema expected, found %.40q", format.Type))
	case format.Type == "json_schema" && format.JSONSchema.Name == "":
		return wire.Missing("text.format.name")
	case format.Type == "json_schema" && format.JSONSchema.Schema == nil:
		return wire.Missing("text.format.schema")
	}
	return nil
}

// checkTools checks the tools as those of a chat request, with the paths of this one.
func (r *Request) checkTools(lim *limits.Set) *wire.Error {
	wide := *lim
	if len(r.spaces) > 0 {
		wide[limits.ToolName] *= 2 // a name has two parts
	}
	return wire.CheckTools(r.Tools, r.checkedChoice(), &wide, wire.ToolFields{Tools: "tools", Choice: "tool_choice", Name: func(i int) string { return r.paths[i] + ".name" }})
}
