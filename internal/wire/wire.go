// Package wire holds the JSON and SSE shapes of the public APIs: requests decoded
// from bytes with every field bounded and typed, replies and stream chunks
// appended to a buffer, and the same shapes read back by a client. Its users need
// not know spellings, aliases, legacy forms, escaping or event framing.
package wire

import (
	"encoding/json"

	"ossian/internal/limits"
)

// Sampling holds the fields that chat and text completions share. A nil pointer
// means not given; null in the request counts as not given.
type Sampling struct {
	Temperature       *float64          `json:"temperature,omitempty"`        // 0..2
	TopP              *float64          `json:"top_p,omitempty"`              // 0..1
	TopK              *int64            `json:"top_k,omitempty"`              // -1, 0 = off
	MinP              *float64          `json:"min_p,omitempty"`              // 0..1
	FrequencyPenalty  *float64          `json:"frequency_penalty,omitempty"`  // -2..2
	PresencePenalty   *float64          `json:"presence_penalty,omitempty"`   // -2..2
	RepetitionPenalty *float64          `json:"repetition_penalty,omitempty"` // > 0, at most 1000
	LogitBias         map[int32]float64 `json:"logit_bias,omitempty"`         // id to -100..100
	Seed              *int64            `json:"seed,omitempty"`
	N                 *int64            `json:"n,omitempty"`
	Stop              []string          `json:"stop,omitempty"`
	IncludeStop       bool              `json:"include_stop_str_in_output,omitempty"`
	StopTokenIDs      []int32           `json:"stop_token_ids,omitempty"`
	BadWords          []string          `json:"bad_words,omitempty"`
	AllowedTokenIDs   []int32           `json:"allowed_token_ids,omitempty"` // nil = all
	IgnoreEOS         bool              `json:"ignore_eos,omitempty"`
	MinTokens         int64             `json:"min_tokens,omitempty"`
	SkipSpecial       *bool             `json:"skip_special_tokens,omitempty"` // nil = true
	SpacesBetween     *bool             `json:"spaces_between_special_tokens,omitempty"`
	PromptLogprobs    *int64            `json:"prompt_logprobs,omitempty"` // -1 = whole vocabulary
	LogprobTokenIDs   []int32           `json:"logprob_token_ids,omitempty"`
	Echo              bool              `json:"echo,omitempty"`
	AddSpecial        *bool             `json:"add_special_tokens,omitempty"`
	TruncatePrompt    *int64            `json:"truncate_prompt_tokens,omitempty"` // -1 = to the context
	Stream            bool              `json:"stream,omitempty"`
	StreamOptions     *StreamOptions    `json:"stream_options,omitempty"`
	Priority          int64             `json:"priority,omitempty"` // lower first
	CacheSalt         string            `json:"cache_salt,omitempty"`
	RequestID         string            `json:"request_id,omitempty"`
	ReturnTokenIDs    bool              `json:"return_token_ids,omitempty"`
	TokensAsIDs       bool              `json:"return_tokens_as_token_ids,omitempty"`
	ResponseFormat    *ResponseFormat   `json:"response_format,omitempty"`
	Structured        *Structured       `json:"structured_outputs,omitempty"` // aliases guided_* included
	Metadata          map[string]string `json:"metadata,omitempty"`
	User              string            `json:"user,omitempty"`
	ServiceTier       string            `json:"service_tier,omitempty"`
}

// StreamOptions says what a stream carries besides deltas.
type StreamOptions struct {
	IncludeUsage    bool `json:"include_usage,omitempty"`
	ContinuousUsage bool `json:"continuous_usage_stats,omitempty"`
	ToolEvents      bool `json:"include_tool_events,omitempty"` // of tools that the server runs, in chats
}

// ResponseFormat asks for output of a form.
type ResponseFormat struct {
	Type       string          `json:"type"` // text, json_object, json_schema, structural_tag
	JSONSchema *JSONSchema     `json:"json_schema,omitempty"`
	Tag        json.RawMessage `json:"-"` // structural_tag: the whole object
	Place      string          `json:"-"` // where the request has the schema; "" = in json_schema
}

// JSONSchema names a schema.
type JSONSchema struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // members in the caller's order
	Strict      bool            `json:"strict,omitempty"`
}

// Structured is vLLM's way to constrain output; exactly one constraint is set.
type Structured struct {
	JSON       json.RawMessage `json:"json,omitempty"` // a schema: object, or string that holds one
	Regex      *string         `json:"regex,omitempty"`
	Choice     []string        `json:"choice,omitempty"`
	Grammar    *string         `json:"grammar,omitempty"`
	JSONObject bool            `json:"json_object,omitempty"`
	Tag        json.RawMessage `json:"structural_tag,omitempty"`
	Whitespace *string         `json:"whitespace_pattern,omitempty"`
	Place      string          `json:"-"` // the field of another server, or of vLLM's past, that brought it; "" = none
	space      string          // the field that brought Whitespace
}

// ChatRequest is POST /v1/chat/completions. Legacy functions and function_call are
// among Tools and ToolChoice.
type ChatRequest struct {
	Model    string    `json:"model,omitempty"`
	Messages []Message `json:"messages"`
	Sampling
	MaxCompletionTokens *int64          `json:"max_completion_tokens,omitempty"` // see MaxOutput
	MaxTokens           *int64          `json:"max_tokens,omitempty"`
	Logprobs            bool            `json:"logprobs,omitempty"`
	TopLogprobs         *int64          `json:"top_logprobs,omitempty"` // -1 = whole vocabulary
	AddGenerationPrompt *bool           `json:"add_generation_prompt,omitempty"`
	ContinueFinal       bool            `json:"continue_final_message,omitempty"`
	Tools               []Tool          `json:"tools,omitempty"`
	ToolChoice          ToolChoice      `json:"tool_choice,omitzero"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls,omitempty"`   // nil = true
	ReasoningEffort     string          `json:"reasoning_effort,omitempty"`      // see Effort
	IncludeReasoning    *bool           `json:"include_reasoning,omitempty"`     // see ShowReasoning
	ThinkingBudget      *int64          `json:"thinking_token_budget,omitempty"` // see ThinkingTokens
	Reasoning           *Reasoning      `json:"reasoning,omitempty"`
	TemplateArgs        json.RawMessage `json:"chat_template_kwargs,omitempty"` // an object
	WebSearch           json.RawMessage `json:"web_search_options,omitempty"`   // an object: offer the browser tool
	Prediction          *Prediction     `json:"prediction,omitempty"`           // changes no answer, only how soon it comes

	Legacy  bool     `json:"-"` // tools came as functions: a call is to come as function_call
	Ignored []string `json:"-"` // unknown members of the request, for x-ossian-ignored
	fields  chatFields
}

// A Prediction is text that the answer is expected to have large parts of, such as a file before it
// is edited.
type Prediction struct {
	Type    string  `json:"type"` // content
	Content Content `json:"content"`
}

// Reasoning is OpenRouter's way to ask for reasoning.
type Reasoning struct {
	Effort    string `json:"effort,omitempty"`
	Exclude   bool   `json:"exclude,omitempty"`
	Enabled   *bool  `json:"enabled,omitempty"`
	MaxTokens *int64 `json:"max_tokens,omitempty"`
}

// Message is one turn. Role is system, developer, user, assistant or tool.
type Message struct {
	Role       string     `json:"role"`
	Content    Content    `json:"content"` // nil = null
	Name       string     `json:"name,omitempty"`
	Reasoning  string     `json:"reasoning,omitempty"` // any of the spellings
	Refusal    string     `json:"refusal,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"` // tool: the call that this answers

	legacyCall   bool // a call came as function_call
	legacyResult bool // the role was function, which a name links to its call
}

// Content is the text parts of a message: a string is one part, null is nil. The
// parts stay apart because prompts encode them apart.
type Content []string

// MarshalJSON writes null, a string or an array of text parts.
func (c Content) MarshalJSON() ([]byte, error) {
	switch {
	case c == nil:
		return []byte("null"), nil
	case len(c) == 1:
		return AppendString(nil, c[0]), nil
	}
	dst := []byte{'['}
	for i, part := range c {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"type":"text","text":`...)
		dst = append(AppendString(dst, part), '}')
	}
	return append(dst, ']'), nil
}

// ToolCall is a call that the model made in an earlier turn, or makes in a reply.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // JSON text, unchanged; the input of a custom tool
	Custom    bool
}

// MarshalJSON writes {"id","type","function":{"name","arguments"}}, or the form of
// a custom tool.
func (c ToolCall) MarshalJSON() ([]byte, error) { return appendCall(nil, &c), nil }

// A Tool is something that the model may call.
type Tool struct {
	Type        string // function, custom, or a built-in tool's type
	Name        string // function, custom
	Description string
	Parameters  json.RawMessage // schema in the caller's order; nil = none
	Strict      bool
	Format      *ToolFormat     // of a custom tool's input; nil = any text
	Raw         json.RawMessage // the whole tool in Chat's nested form, for templates; of a custom tool as it came
}

// A ToolFormat is the grammar of a custom tool's input.
type ToolFormat struct {
	Syntax     string // lark or regex
	Definition string
	Place      string // where the tool has the definition: "format.definition"
}

// MarshalJSON writes Raw, or builds the function form.
func (t Tool) MarshalJSON() ([]byte, error) {
	if t.Raw != nil {
		return t.Raw, nil
	}
	return t.Nested(), nil
}

// Nested returns a function tool in Chat's form.
func (t *Tool) Nested() json.RawMessage {
	dst := append([]byte(nil), `{"type":"function","function":{"name":`...)
	dst = AppendString(dst, t.Name)
	if t.Description != "" {
		dst = append(dst, `,"description":`...)
		dst = AppendString(dst, t.Description)
	}
	if t.Parameters != nil {
		dst = append(append(dst, `,"parameters":`...), t.Parameters...)
	}
	if t.Strict {
		dst = append(dst, `,"strict":true`...)
	}
	return append(dst, "}}"...)
}

// ToolChoice says which tools the model may or must call.
type ToolChoice struct {
	Mode    string   // "" = not given, none, auto, required, or named
	Name    string   // named: the function
	Allowed []string // names, with auto or required, "" for each of Served; nil = all
	// Served are the server's tools that it names, or allows.
	Served []ServerChoice
}

// MarshalJSON writes the form of the chat API.
func (c ToolChoice) MarshalJSON() ([]byte, error) {
	type function struct {
		Name string `json:"name"`
	}
	type choice struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	switch {
	case c.Mode == "named":
		return json.Marshal(choice{"function", function{c.Name}})
	case c.Allowed != nil:
		tools := []choice{}
		for _, name := range c.Allowed {
			tools = append(tools, choice{"function", function{name}})
		}
		type allowed struct {
			Mode  string   `json:"mode"`
			Tools []choice `json:"tools"`
		}
		return json.Marshal(struct {
			Type    string  `json:"type"`
			Allowed allowed `json:"allowed_tools"`
		}{"allowed_tools", allowed{c.Mode, tools}})
	case c.Mode == "":
		return []byte("null"), nil
	}
	return json.Marshal(c.Mode)
}

// CompletionRequest is POST /v1/completions.
type CompletionRequest struct {
	Model   string   `json:"model,omitempty"`
	Prompts []Prompt `json:"prompt"` // at least one
	Sampling
	MaxTokens *int64 `json:"max_tokens,omitempty"` // nil = 16
	Logprobs  *int64 `json:"logprobs,omitempty"`   // nil = none
	BestOf    *int64 `json:"best_of,omitempty"`
	Suffix    string `json:"suffix,omitempty"`

	Ignored []string `json:"-"`
}

// A Prompt is a text or, when IDs is not nil, token ids.
type Prompt struct {
	Text string
	IDs  []int32
}

// MarshalJSON writes a string or an array of ids.
func (p Prompt) MarshalJSON() ([]byte, error) {
	if p.IDs != nil {
		return json.Marshal(p.IDs)
	}
	return AppendString(nil, p.Text), nil
}

// DetokenizeRequest is POST /detokenize.
type DetokenizeRequest struct {
	Model  string  `json:"model,omitempty"`
	Tokens []int32 `json:"tokens"`

	Ignored []string `json:"-"`
}

// DecodeChat reads the body of a chat request. The error is an *Error. RawMessages
// of the result are parts of body, which must not change while they are in use.
func DecodeChat(body []byte, lim *limits.Set) (*ChatRequest, error) {
	request := new(ChatRequest)
	in, err := ReadBody(body, lim, func(in *Reader, key string) bool { return request.Field(in, key) })
	if err != nil {
		return nil, err
	}
	request.Ignored = in.ignored
	LinkLegacyCalls(request.Messages)
	return request, nil
}

// DecodeCompletion reads the body of a completion request. The error is an *Error.
func DecodeCompletion(body []byte, lim *limits.Set) (*CompletionRequest, error) {
	request := new(CompletionRequest)
	in, err := ReadBody(body, lim, func(in *Reader, key string) bool { return request.field(in, key) })
	if err != nil {
		return nil, err
	}
	request.Ignored = in.ignored
	return request, nil
}

// DecodeDetokenize reads the body of a detokenize request. The error is an *Error.
func DecodeDetokenize(body []byte, lim *limits.Set) (*DetokenizeRequest, error) {
	request := new(DetokenizeRequest)
	in, err := ReadBody(body, lim, func(in *Reader, key string) bool {
		switch key {
		case "model":
			request.Model = in.Text()
		case "tokens":
			request.Tokens = in.ids(limits.TokenIDs)
		default:
			return false
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	// Null is as good as not given; an empty list is a prompt of no tokens.
	if request.Ignored = in.ignored; request.Tokens == nil {
		return nil, Missing("tokens")
	}
	return request, nil
}

// ReadBody reads the object that is the body of a request. field reads the value of a
// member that it knows, else it returns false. The error is an *Error.
func ReadBody(body []byte, lim *limits.Set, field func(in *Reader, key string) bool) (*Reader, error) {
	if err := check(body, lim); err != nil {
		return nil, err
	}
	in := &Reader{data: body, lim: lim}
	in.Object(func(key string) bool { return field(in, key) })
	if in.err != nil {
		return nil, in.err
	}
	return in, nil
}
