package wire

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/limits"
)

// Validate checks what decoding cannot see: ranges, and fields that exclude or
// need each other. The error is an *Error. What depends on the model (length,
// vocabulary, name) is the server's to check.
func (r *ChatRequest) Validate(lim *limits.Set) error {
	for _, err := range []*Error{
		r.Sampling.Check(lim),
		r.checkMessages(),
		r.checkTokens(lim),
		CheckTools(r.Tools, r.ownChoice(), lim, ToolFields{Tools: r.ToolsField(), Choice: r.ChoiceField(), Name: func(i int) string { return r.ToolField(i, "name") }}),
		r.checkServed(),
		OneOf("reasoning_effort", r.ReasoningEffort, Efforts),
		r.checkReasoning(),
	} {
		if err != nil {
			return err
		}
	}
	if r.ContinueFinal && r.AddGenerationPrompt != nil && *r.AddGenerationPrompt {
		return Invalid("continue_final_message", "excludes add_generation_prompt")
	}
	return nil
}

// ownChoice is the choice as far as it is among tools that the server does not run.
func (r *ChatRequest) ownChoice() *ToolChoice {
	own := r.ToolChoice
	if own.Served != nil && own.Mode != "auto" { // what has to be called may be the server's
		own.Mode, own.Served = "", nil
	}
	if r.WebSearch != nil && own.Mode == "required" && own.Allowed == nil && len(r.Tools) == 0 {
		own.Mode = ""
	}
	return &own
}

// checkServed refuses a choice of a server's tool that the request does not ask for.
func (r *ChatRequest) checkServed() *Error {
	for i := range r.ToolChoice.Served {
		choice := &r.ToolChoice.Served[i]
		if choice.Type == "mcp" && choice.Label == "" {
			return Missing(r.ChoiceField() + ".server_label")
		}
		asked := slices.ContainsFunc(r.Tools, func(tool Tool) bool { return tool.Type == choice.Type })
		if !asked && (r.WebSearch == nil || !slices.Contains(browserTypes, choice.Type)) {
			return Unsupported(r.ChoiceField()+".type", fmt.Sprintf("the request has no tool of type %s", choice.Type))
		}
	}
	return nil
}

// Efforts are the values of reasoning effort; "" = not given.
var Efforts = []string{"", "none", "minimal", "low", "medium", "high", "xhigh", "max"}

// OneOf returns the error of a value that is none of several, else nil.
func OneOf(param, value string, values []string) *Error {
	if slices.Contains(values, value) {
		return nil
	}
	return Invalid(param, fmt.Sprintf("one of %q expected, found %.40q", values[1:], value))
}

func (r *ChatRequest) checkReasoning() *Error {
	budget := Whole(cmp.Or(r.fields.thinking, "thinking_token_budget"), r.ThinkingBudget, 0, math.MaxInt32)
	if r.Reasoning == nil {
		return budget
	}
	if err := OneOf("reasoning.effort", r.Reasoning.Effort, Efforts); err != nil {
		return err
	}
	if err := Whole("reasoning.max_tokens", r.Reasoning.MaxTokens, 0, math.MaxInt32); err != nil {
		return err
	}
	return budget
}

func (r *ChatRequest) checkTokens(lim *limits.Set) *Error {
	if err := Whole("max_completion_tokens", r.MaxCompletionTokens, 1, math.MaxInt64); err != nil {
		return err
	}
	if err := Whole("max_tokens", r.MaxTokens, 1, math.MaxInt64); err != nil {
		return err
	}
	if most := r.MaxOutput(); most != nil && r.MinTokens > *most {
		return Invalid("min_tokens", fmt.Sprintf("%d is more than the %d tokens of %s", r.MinTokens, *most, r.outputField()))
	}
	if err := CheckTopLogprobs("top_logprobs", r.TopLogprobs, lim); err != nil {
		return err
	}
	// Options of log probabilities without them would be ignored: say so.
	if r.TopLogprobs != nil && *r.TopLogprobs != 0 && !r.Logprobs {
		return Invalid("top_logprobs", "needs logprobs")
	}
	if r.LogprobTokenIDs != nil && !r.Logprobs {
		return Invalid("logprob_token_ids", "needs logprobs")
	}
	return nil
}

func (r *ChatRequest) checkMessages() *Error {
	if r.Messages == nil {
		return Missing("messages")
	}
	if len(r.Messages) == 0 {
		return Invalid("messages", "at least one message expected")
	}
	for i := range r.Messages {
		if err := r.Messages[i].check(fmt.Sprintf("messages[%d]", i)); err != nil {
			return err
		}
	}
	if r.ContinueFinal && r.Messages[len(r.Messages)-1].Role != "assistant" {
		return Invalid("continue_final_message", "the last message is not the assistant's")
	}
	return nil
}

func (m *Message) check(path string) *Error {
	switch m.Role {
	case "":
		return Missing(path + ".role")
	case "system", "developer", "user":
		if m.Content == nil {
			return Missing(path + ".content")
		}
	case "assistant":
	case "tool":
		switch {
		case m.ToolCallID != "":
		case !m.legacyResult:
			return Missing(path + ".tool_call_id")
		case m.Name == "":
			return Missing(path + ".name")
		default:
			return Invalid(path+".name", fmt.Sprintf("no earlier message has a function_call of %.100q", m.Name))
		}
	default:
		return Invalid(path+".role", fmt.Sprintf("system, developer, user, assistant or tool expected, found %.40q", m.Role))
	}
	// Members that only one role has.
	switch {
	case m.Role != "assistant" && m.legacyCall:
		return Invalid(path+".function_call", "only the assistant calls functions")
	case m.Role != "assistant" && m.ToolCalls != nil:
		return Invalid(path+".tool_calls", "only the assistant calls tools")
	case m.Role != "tool" && m.ToolCallID != "":
		return Invalid(path+".tool_call_id", "only a tool's message answers a call")
	}
	return nil
}

// ToolFields are where a request has its tools.
type ToolFields struct {
	Tools, Choice string             // tools and the choice among them
	Name          func(i int) string // the name of a tool
}

// CheckTools checks tools and the choice among them.
func CheckTools(tools []Tool, choice *ToolChoice, lim *limits.Set, at ToolFields) *Error {
	names, kind := map[string]bool{}, strings.TrimSuffix(at.Tools, "s")
	for i := range tools {
		tool := &tools[i]
		if tool.Type != "function" && tool.Type != "custom" && (!isClientTool(tool.Type) || tool.Name == "") {
			continue
		}
		switch {
		case tool.Name == "":
			return Missing(at.Name(i))
		case int64(len(tool.Name)) > lim[limits.ToolName]:
			return exceeds(at.Name(i), len(tool.Name), lim[limits.ToolName], "bytes", limits.ToolName)
		case strings.ContainsFunc(tool.Name, func(choice rune) bool { return !nameRune(choice) }):
			return Invalid(at.Name(i), fmt.Sprintf("letters a to z, digits, _, - and . expected, found %.64q", tool.Name))
		case names[tool.Name]:
			return Invalid(at.Name(i), fmt.Sprintf("%q is there twice", tool.Name))
		}
		names[tool.Name] = true
	}
	if (choice.Mode == "required" || choice.Mode == "named" || choice.Allowed != nil) && len(tools) == 0 {
		return Invalid(at.Choice, "the request has no "+at.Tools)
	}
	if choice.Mode == "named" && choice.Served != nil {
		return Unsupported(at.Choice+".type", fmt.Sprintf("function, custom, shell, apply_patch, web_search, code_interpreter, mcp or allowed_tools expected, found %.40q", choice.Served[0].Type))
	}
	if choice.Mode == "named" && !names[choice.Name] {
		return Invalid(at.Choice, fmt.Sprintf("no %s is named %.100q", kind, choice.Name))
	}
	if choice.Mode == "required" && choice.Allowed != nil && !slices.ContainsFunc(choice.Allowed, func(name string) bool { return name != "" }) {
		return Invalid(at.Choice, "a call is required, and no "+kind+" is allowed")
	}
	for _, name := range choice.Allowed {
		if !names[name] && name != "" { // built-in tools have no name
			return Invalid(at.Choice, fmt.Sprintf("no %s is named %.100q", kind, name))
		}
	}
	return nil
}

// nameRune reports whether c may be part of a tool's name: what OpenAI allows, the dot of
// other clients, and nothing that formats cannot write without quotes.
func nameRune(c rune) bool {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.'
}

// Validate is as for ChatRequest.
func (r *CompletionRequest) Validate(lim *limits.Set) error {
	if r.Prompts == nil {
		return Missing("prompt")
	}
	if len(r.Prompts) == 0 {
		return Invalid("prompt", "at least one prompt expected")
	}
	for i, p := range r.Prompts {
		if p.Text == "" && len(p.IDs) == 0 {
			return Invalid("prompt", fmt.Sprintf("prompt %d is empty", i))
		}
	}
	if err := r.Sampling.Check(lim); err != nil {
		return err
	}
	// An echo alone is worth asking for: its log probabilities score a text.
	least := int64(1)
	if r.Echo {
		least = 0
	}
	for _, err := range []*Error{
		Whole("max_tokens", r.MaxTokens, least, math.MaxInt64),
		CheckTopLogprobs("logprobs", r.Logprobs, lim),
		atMost("best_of", r.BestOf, limits.Choices, lim),
	} {
		if err != nil {
			return err
		}
	}
	switch most := r.MaxOutput(); {
	case r.MinTokens > most:
		return Invalid("min_tokens", fmt.Sprintf("%d is more than the %d tokens of max_tokens", r.MinTokens, most))
	case r.Suffix != "":
		return Unsupported("suffix", "insertion is not supported")
	case r.BestOf != nil && *r.BestOf < r.Choices():
		return Invalid("best_of", fmt.Sprintf("%d is less than n, which is %d", *r.BestOf, r.Choices()))
	case r.BestOf != nil && *r.BestOf > r.Choices() && r.Stream:
		return Invalid("best_of", "excludes stream: the best is known at the end")
	}
	return nil
}

// MaxOutput returns how many tokens each choice may have.
func (r *CompletionRequest) MaxOutput() int64 {
	if r.MaxTokens == nil {
		return 16
	}
	return *r.MaxTokens
}

// Choices returns n.
func (s *Sampling) Choices() int64 {
	if s.N == nil {
		return 1
	}
	return *s.N
}

// Check checks the ranges, and what excludes what.
func (s *Sampling) Check(lim *limits.Set) *Error {
	for _, err := range []*Error{
		between("temperature", s.Temperature, 0, 2),
		between("top_p", s.TopP, 0, 1),
		Whole("top_k", s.TopK, -1, math.MaxInt32),
		between("min_p", s.MinP, 0, 1),
		between("frequency_penalty", s.FrequencyPenalty, -2, 2),
		between("presence_penalty", s.PresencePenalty, -2, 2),
		atMost("n", s.N, limits.Choices, lim),
		Whole("min_tokens", &s.MinTokens, 0, math.MaxInt64),
		CheckTopLogprobs("prompt_logprobs", s.PromptLogprobs, lim),
		Whole("truncate_prompt_tokens", s.TruncatePrompt, -1, math.MaxInt32),
		Whole("priority", &s.Priority, math.MinInt32, math.MaxInt32),
		s.checkBias(),
		s.checkStop(lim),
		s.checkFormat(),
	} {
		if err != nil {
			return err
		}
	}
	// What ranges cannot say: an open bound, and members that exclude each other.
	penalty := s.RepetitionPenalty
	switch {
	case penalty != nil && !(*penalty > 0 && *penalty <= 1000):
		return Invalid("repetition_penalty", fmt.Sprintf("more than 0 and at most 1000 expected, found %v", *penalty))
	case s.PromptLogprobs != nil && s.Stream:
		return Invalid("prompt_logprobs", "excludes stream")
	case s.StreamOptions != nil && !s.Stream:
		return Invalid("stream_options", "needs stream")
	case s.AllowedTokenIDs != nil && len(s.AllowedTokenIDs) == 0:
		return Invalid("allowed_token_ids", "at least one id expected")
	}
	return nil
}

func (s *Sampling) checkBias() *Error {
	least := int32(math.MaxInt32) // the same error every time
	for id, b := range s.LogitBias {
		if !(b >= -100 && b <= 100) {
			least = min(least, id)
		}
	}
	if b, bad := s.LogitBias[least]; bad && !(b >= -100 && b <= 100) {
		return Invalid(fmt.Sprintf("logit_bias.%d", least), fmt.Sprintf("-100 to 100 expected, found %v", b))
	}
	return nil
}

func (s *Sampling) checkStop(lim *limits.Set) *Error {
	for i, stop := range s.Stop {
		path := fmt.Sprintf("stop[%d]", i)
		if stop == "" {
			return Invalid(path, "an empty string stops everywhere")
		}
		if most := lim[limits.StopBytes]; int64(len(stop)) > most {
			return exceeds(path, len(stop), most, "bytes", limits.StopBytes)
		}
	}
	return nil
}

// checkFormat checks that one thing at most constrains the output, and that it is whole.
func (s *Sampling) checkFormat() *Error {
	if format := s.ResponseFormat; format != nil {
		switch format.Type {
		case "":
			return Missing("response_format.type")
		case "text", "json_object", "structural_tag":
		case "json_schema":
			if format.JSONSchema == nil {
				return Missing("response_format.json_schema")
			}
			if format.JSONSchema.Schema == nil {
				return Missing("response_format.json_schema.schema")
			}
		default:
			return Invalid("response_format.type", fmt.Sprintf("text, json_object or json_schema expected, found %.40q", format.Type))
		}
	}
	if s.Structured == nil {
		return nil
	}
	// Which of two forms would count is a guess that the caller has to make.
	if s.ResponseFormat != nil && s.ResponseFormat.Type != "text" {
		return Invalid(s.Structured.place(), "excludes response_format, which is text.format in responses: send one of them, response_format with type json_schema for a schema")
	}
	if n := s.Structured.constraints(); n != 1 {
		return Invalid(s.Structured.place(), fmt.Sprintf("exactly one constraint expected, found %d", n))
	}
	if s.Structured.Choice != nil && len(s.Structured.Choice) == 0 {
		return Invalid(cmp.Or(s.Structured.Place, "structured_outputs.choice"), "at least one choice expected")
	}
	return nil
}

func (s *Structured) constraints() (n int) {
	for _, set := range []bool{s.JSON != nil, s.Regex != nil, s.Choice != nil, s.Grammar != nil, s.JSONObject, s.Tag != nil} {
		if set {
			n++
		}
	}
	return n
}

func between(param string, value *float64, lo, hi float64) *Error {
	if value == nil || (*value >= lo && *value <= hi) {
		return nil
	}
	return Invalid(param, fmt.Sprintf("%v to %v expected, found %v", lo, hi, *value))
}

// Whole returns the error of a number outside of a range, else nil; nil is inside.
func Whole(param string, value *int64, lo, hi int64) *Error {
	if value == nil || (*value >= lo && *value <= hi) {
		return nil
	}
	if *value < lo {
		return Invalid(param, fmt.Sprintf("at least %d expected, found %d", lo, *value))
	}
	return Invalid(param, fmt.Sprintf("at most %d expected, found %d", hi, *value))
}

func atMost(param string, value *int64, id limits.ID, lim *limits.Set) *Error {
	err := Whole(param, value, 1, lim[id])
	if err != nil && *value > lim[id] {
		err.Limit = id.String()
		err.Message += raisedBy(id)
	}
	return err
}

// raisedBy is the way out of a limit, for whoever runs the server.
func raisedBy(id limits.ID) string { return "; the server's --limit " + id.String() + "=N allows more" }

// CheckTopLogprobs allows -1, the whole vocabulary, only where the limit was raised to
// its maximum: that is how an operator opts in.
func CheckTopLogprobs(param string, value *int64, lim *limits.Set) *Error {
	most := lim[limits.TopLogprobs]
	if value != nil && *value == -1 {
		if most == limits.TopLogprobs.Info().Max {
			return nil
		}
		return &Error{Message: "the whole vocabulary (-1) is switched off here", Type: TypeInvalidRequest, Param: param, Code: CodeInvalidValue, Limit: limits.TopLogprobs.String()}
	}
	err := Whole(param, value, 0, most)
	if err != nil && *value > most {
		err.Limit = limits.TopLogprobs.String()
		err.Message += raisedBy(limits.TopLogprobs)
	}
	return err
}
