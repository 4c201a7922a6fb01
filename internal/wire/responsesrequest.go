package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/limits"
)

// ResponseRequest is POST /v1/responses. ResponseFormat holds text.format.
type ResponseRequest struct {
	Model        string
	Input        []Item  // a string is one message of the user; nil = not given
	Instructions *string // nil = none
	Previous     string  // previous_response_id
	Sampling
	MaxOutputTokens   *int64
	MaxToolCalls      *int64
	Tools             []Tool // functions, custom tools and those that clients run; those of a namespace have its name and "__" before theirs
	ToolChoice        ToolChoice
	ParallelToolCalls *bool // nil = true
	Effort            string
	Summary           string // reasoning.summary
	Context           string // reasoning.context: "", auto, current_turn, all_turns
	ThinkingBudget    *int64 // see ThinkingTokens
	ReasoningTokens   *int64 // reasoning.max_tokens, the same
	Verbosity         string
	TopLogprobs       *int64
	Truncation        string // "", disabled, auto
	Include           []string
	Store             *bool // nil = true
	Background        bool
	SafetyID          string
	CacheKey          string

	Ignored []string // unknown members, tools and items of the request, for x-ossian-ignored

	tools  []json.RawMessage // as the reply shows them
	choice json.RawMessage   // the same, nil = auto
	spaces map[string]string // a tool's full name to its namespace
	paths  []string          // [tool] its place in the request
}

// DecodeResponse reads the body of a responses request. The error is an *Error.
// RawMessages of the result are parts of body, which must not change while they are in
// use.
func DecodeResponse(body []byte, lim *limits.Set) (*ResponseRequest, error) {
	r := new(ResponseRequest)
	d, err := decode(body, lim, func(d *decoder, key string) bool { return r.field(d, key) })
	if err != nil {
		return nil, err
	}
	if err := r.chooseFull(); err != nil {
		return nil, err
	}
	r.Ignored = d.ignored
	return r, nil
}

// chooseFull gives the choice full names where it has those that tools have in their
// namespaces.
func (r *ResponseRequest) chooseFull() error {
	for i := -1; i < len(r.ToolChoice.Allowed); i++ {
		name := &r.ToolChoice.Name
		if i >= 0 {
			name = &r.ToolChoice.Allowed[i]
		}
		var found []string
		for k := range r.Tools {
			full := r.Tools[k].Name
			if full == *name {
				found = []string{full}
				break
			}
			if space := r.spaces[full]; space != "" && full == space+"__"+*name {
				found = append(found, full)
			}
		}
		if len(found) > 1 {
			return Invalid("tool_choice", fmt.Sprintf("%.100q is the name of tools in several namespaces: choose one of %.400q", *name, found))
		}
		if len(found) == 1 {
			*name = found[0]
		}
	}
	return nil
}

// Includes reports whether the reply is to have what include calls name.
func (r *ResponseRequest) Includes(name string) bool { return slices.Contains(r.Include, name) }

// ThinkingTokens returns how many tokens reasoning may have; nil = no limit.
func (r *ResponseRequest) ThinkingTokens() *int64 {
	if r.ThinkingBudget != nil {
		return r.ThinkingBudget
	}
	return r.ReasoningTokens
}

// Keep reports whether the response is to be stored.
func (r *ResponseRequest) Keep() bool { return r.Store == nil || *r.Store }

// Called returns an item for a call of the tool that the model knows by a full name.
func (r *ResponseRequest) Called(full string) Item {
	it := Item{Type: ItemFunctionCall, Name: full, Namespace: r.spaces[full]}
	if it.Namespace != "" {
		it.Name = strings.TrimPrefix(full, it.Namespace+"__")
	}
	for i := range r.Tools {
		switch t := &r.Tools[i]; {
		case t.Name != full:
		case t.Type == "custom":
			it.Type = ItemCustomCall
		case findClientTool(t.Type) != nil:
			it.Type = clientTools[t.Type].call
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
func (r *ResponseRequest) field(d *decoder, key string) bool {
	switch key {
	case "model":
		r.Model = d.text()
	case "input":
		r.Input = d.items()
	case "instructions":
		r.Instructions = ptr(d.text())
	case "previous_response_id":
		r.Previous = d.text()
	case "max_output_tokens":
		r.MaxOutputTokens = ptr(d.integer())
	case "thinking_token_budget", "thinking_budget":
		r.ThinkingBudget = ptr(d.integer())
	case "max_tokens", "max_completion_tokens":
		d.fail(Unsupported(key, "responses have max_output_tokens for this"))
	case "max_tool_calls":
		r.MaxToolCalls = ptr(d.integer())
	case "tools":
		r.readTools(d)
	case "tool_choice":
		r.choice = d.peek()
		r.ToolChoice = d.toolChoice(true)
	case "parallel_tool_calls":
		r.ParallelToolCalls = ptr(d.boolean())
	case "reasoning":
		d.object(func(key string) bool { return r.reasoning(d, key) })
	case "text":
		d.object(func(key string) bool { return r.text(d, key) })
	case "top_logprobs":
		if n := d.integer(); n != 0 { // 0, which every response repeats, asks for none
			r.TopLogprobs = &n
		}
	case "truncation":
		r.Truncation = d.text()
	case "include":
		r.Include = []string{}
		d.array(limits.MetadataPairs, "names", func(int) { r.Include = append(r.Include, d.text()) })
	case "store":
		r.Store = ptr(d.boolean())
	case "background":
		r.Background = d.boolean()
	case "safety_identifier":
		r.SafetyID = d.text()
	case "prompt_cache_key":
		r.CacheKey = d.text()
	case "conversation":
		d.fail(Unsupported("conversation", "conversations are not supported; previous_response_id is"))
	case "prompt":
		d.fail(Unsupported("prompt", "prompt templates are not supported; send instructions and input"))
	default:
		return r.Sampling.field(d, key)
	}
	return true
}

func (r *ResponseRequest) reasoning(d *decoder, key string) bool {
	switch key {
	case "effort":
		r.Effort = d.text()
	case "summary", "generate_summary":
		r.Summary = d.text()
	case "context":
		r.Context = d.text()
	case "max_tokens":
		r.ReasoningTokens = ptr(d.integer())
	default:
		return false
	}
	return true
}

func (r *ResponseRequest) text(d *decoder, key string) bool {
	switch key {
	case "verbosity":
		r.Verbosity = d.text()
	case "format":
		f := &ResponseFormat{JSONSchema: new(JSONSchema)}
		d.object(func(key string) bool {
			if key == "type" {
				f.Type = d.text()
				return true
			}
			return f.JSONSchema.field(d, key)
		})
		if f.Type != "json_schema" {
			f.JSONSchema = nil
		}
		r.ResponseFormat = f
	default:
		return false
	}
	return true
}

// peek returns the text of the next value and does not move.
func (d *decoder) peek() json.RawMessage {
	at := d.pos
	raw := d.raw()
	d.pos = at
	return raw
}

// readTools reads the tools: functions, custom ones, groups of them, and those that
// clients run. Others are left out, and named as ignored.
func (r *ResponseRequest) readTools(d *decoder) {
	r.Tools, r.paths, r.spaces = []Tool{}, nil, map[string]string{}
	d.kind()
	start := d.pos
	d.array(limits.Tools, "tools", func(int) {
		kind := d.member("type")
		if c := findClientTool(kind); c != nil {
			r.readClientTool(d, c)
			return
		}
		switch kind {
		case "function", "custom":
			raw := d.peek()
			t := d.responseTool()
			r.add(d, t)
			r.tools = append(r.tools, t.shown(raw))
		case "namespace":
			r.tools = append(r.tools, d.peek())
			r.readNamespace(d)
		case "":
			if d.is('{') {
				d.missing("type")
			}
		default:
			d.leaveOut(kind)
		}
	})
	if d.err == nil {
		d.within(d.pos-start, limits.ToolBytes, "bytes of tools")
	}
}

func (r *ResponseRequest) add(d *decoder, t Tool) {
	r.Tools, r.paths = append(r.Tools, t), append(r.paths, string(d.path))
}

// ToolPath returns where the i-th of Tools is in the request, as "tools[0].tools[2]" in a
// namespace.
func (r *ResponseRequest) ToolPath(i int) string { return r.paths[i] }

func (r *ResponseRequest) readNamespace(d *decoder) {
	space := d.member("name")
	if space == "" {
		d.missing("name")
	}
	d.object(func(key string) bool {
		switch key {
		case "type", "name", "description":
			d.text()
		case "tools":
			d.array(limits.Tools, "tools", func(int) {
				t := d.responseTool()
				if t.Type != "function" && t.Type != "custom" {
					d.fail(Unsupported(string(d.path)+".type", "function or custom expected"))
				}
				t.Name = space + "__" + t.Name
				if t.Type == "function" {
					t.Raw = t.nested()
				}
				r.spaces[t.Name] = space
				r.add(d, t)
			})
		default:
			return false
		}
		return true
	})
}

// responseTool reads a tool in the flat form.
func (d *decoder) responseTool() Tool {
	t := Tool{Type: "function"}
	t.decode(d)
	if d.err == nil && t.Name == "" {
		d.missing("name")
	}
	if t.Type == "function" {
		t.Raw = t.nested()
	}
	return t
}

// shown returns the tool as replies have it, with all members that OpenAI's schema
// wants of a function.
func (t *Tool) shown(raw json.RawMessage) json.RawMessage {
	if t.Type != "function" {
		return raw
	}
	dst := AppendString([]byte(`{"type":"function","name":`), t.Name)
	dst = appendText(append(dst, `,"description":`...), Text(t.Description))
	dst = append(dst, `,"parameters":`...)
	if t.Parameters == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, t.Parameters...)
	}
	return fmt.Appendf(dst, `,"strict":%t}`, t.Strict)
}

// Validate is as for ChatRequest.
func (r *ResponseRequest) Validate(lim *limits.Set) error {
	switch {
	case r.Input == nil && r.Previous == "":
		return Missing("input")
	case len(r.Input) == 0 && r.Previous == "":
		return Invalid("input", "at least one item that the model can read expected")
	}
	if r.ResponseFormat != nil {
		if err := r.ResponseFormat.checkText(); err != nil {
			return err
		}
	}
	for _, err := range []*Error{
		r.Sampling.check(lim),
		whole("max_output_tokens", r.MaxOutputTokens, 1, math.MaxInt64),
		whole("max_tool_calls", r.MaxToolCalls, 1, math.MaxInt64),
		topLogprobs("top_logprobs", r.TopLogprobs, lim),
		whole("thinking_token_budget", r.ThinkingBudget, 0, math.MaxInt32),
		whole("reasoning.max_tokens", r.ReasoningTokens, 0, math.MaxInt32),
		oneOf("reasoning.effort", r.Effort, efforts),
		oneOf("reasoning.summary", r.Summary, []string{"", "auto", "concise", "detailed"}),
		oneOf("reasoning.context", r.Context, []string{"", "auto", "current_turn", "all_turns"}),
		oneOf("text.verbosity", r.Verbosity, []string{"", "low", "medium", "high"}),
		oneOf("truncation", r.Truncation, []string{"", "disabled", "auto"}),
		r.checkTools(lim),
	} {
		if err != nil {
			return err
		}
	}
	switch most := r.MaxOutputTokens; {
	case most != nil && r.MinTokens > *most:
		return Invalid("min_tokens", fmt.Sprintf("%d is more than the %d tokens of max_output_tokens", r.MinTokens, *most))
	case r.Choices() != 1:
		return Invalid("n", "a response has one answer")
	case r.Background && !r.Keep():
		return Invalid("background", "needs store")
	}
	return nil
}

// checkText checks text.format.
func (f *ResponseFormat) checkText() *Error {
	switch {
	case f.Type == "":
		return Missing("text.format.type")
	case f.Type != "text" && f.Type != "json_object" && f.Type != "json_schema":
		return Invalid("text.format.type", fmt.Sprintf("text, json_object or json_schema expected, found %.40q", f.Type))
	case f.Type == "json_schema" && f.JSONSchema.Name == "":
		return Missing("text.format.name")
	case f.Type == "json_schema" && f.JSONSchema.Schema == nil:
		return Missing("text.format.schema")
	}
	return nil
}

// checkTools checks the tools as those of a chat request, with the paths of this one.
func (r *ResponseRequest) checkTools(lim *limits.Set) *Error {
	wide := *lim
	if len(r.spaces) > 0 {
		wide[limits.ToolName] *= 2 // a name has two parts
	}
	return checkTools(r.Tools, &r.ToolChoice, &wide, func(i int) string { return r.paths[i] + ".name" })
}
