package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"ossian/internal/limits"
)

// Field reads the fields of a chat request.
func (r *ChatRequest) Field(in *Reader, key string) bool {
	switch key {
	case "model":
		r.Model = in.Text()
	case "messages":
		r.Messages = []Message{}
		in.Array(limits.Messages, "messages", func(int) {
			var m Message
			m.decode(in)
			r.Messages = append(r.Messages, m)
		})
	case "max_completion_tokens":
		r.MaxCompletionTokens = in.OutputTokens()
	case "max_tokens":
		r.MaxTokens = in.OutputTokens()
	case "logprobs":
		r.Logprobs = in.Boolean()
	case "top_logprobs":
		r.TopLogprobs = Ptr(in.Integer())
	case "add_generation_prompt":
		r.AddGenerationPrompt = Ptr(in.Boolean())
	case "continue_final_message":
		r.ContinueFinal = in.Boolean()
	case "tools", "functions": // what tools were called before they had types
		r.addTools(in, key)
	case "tool_choice", "function_call":
		if r.fields.choice != "" {
			in.Invalid("tool_choice and function_call exclude each other: send tool_choice")
		}
		r.ToolChoice, r.fields.choice = in.ToolChoice(key == "function_call"), key
	case "parallel_tool_calls":
		r.ParallelToolCalls = Ptr(in.Boolean())
	case "reasoning_effort":
		r.ReasoningEffort = in.Text()
	case "reasoning":
		r.Reasoning = in.reasoning()
	case "include_reasoning":
		r.IncludeReasoning = Ptr(in.Boolean())
	case "thinking_token_budget", "thinking_budget":
		if r.ThinkingBudget != nil {
			in.Invalid("thinking_token_budget and thinking_budget exclude each other: send thinking_token_budget")
		}
		r.ThinkingBudget, r.fields.thinking = Ptr(in.Integer()), key
	case "chat_template_kwargs":
		r.TemplateArgs = in.rawObject()
	case "web_search_options":
		r.WebSearch = in.rawObject()
	case "prediction":
		r.Prediction = in.prediction()
	default:
		return r.Sampling.Field(in, key)
	}
	return true
}

// addTools reads tools, or the functions of old. A reply has its calls in one of the two
// forms, so a request has one of them, too.
func (r *ChatRequest) addTools(in *Reader, key string) {
	if r.Tools != nil {
		in.Invalid("tools and functions exclude each other: send tools")
		return
	}
	r.Tools, r.fields.tools = in.tools(key), key
	r.Legacy = key == legacyTools && len(r.Tools) > 0
}

// legacyTools is the field of old for tools: functions without a type between.
const legacyTools = "functions"

// chatFields are the names under which a request brought what has several, "" = not at
// all: an error names the field that the client sent.
type chatFields struct {
	tools, choice, thinking string
	places                  []int // [tool] its index in the request; nil = the same
}

// ToolsField returns the field in which tools came.
func (r *ChatRequest) ToolsField() string {
	if r.fields.choice == "function_call" { // without functions, they are what is missing
		return cmp.Or(r.fields.tools, legacyTools)
	}
	return cmp.Or(r.fields.tools, "tools")
}

// ChoiceField returns the field in which the choice among them came.
func (r *ChatRequest) ChoiceField() string { return cmp.Or(r.fields.choice, "tool_choice") }

// ToolField returns where a member of a tool came, which tools have one level deeper than
// the functions of old.
func (r *ChatRequest) ToolField(i int, member string) string {
	if r.Legacy {
		return fmt.Sprintf("%s[%d].%s", legacyTools, i, member)
	}
	return fmt.Sprintf("%s.%s.%s", r.ToolPlace(i), r.Tools[i].Type, member)
}

// ToolPlace returns where one of Tools came.
func (r *ChatRequest) ToolPlace(i int) string {
	if r.fields.places != nil {
		i = r.fields.places[i]
	}
	return fmt.Sprintf("tools[%d]", i)
}

// outputField returns the field that bounds the output.
func (r *ChatRequest) outputField() string {
	if r.MaxCompletionTokens != nil {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// MaxOutput returns how many tokens the reply may have; nil = the rest of the context.
func (r *ChatRequest) MaxOutput() *int64 {
	if r.MaxCompletionTokens != nil {
		return r.MaxCompletionTokens
	}
	return r.MaxTokens
}

// Effort returns the reasoning effort asked for in any form; "" = the model's default.
func (r *ChatRequest) Effort() string {
	switch options := r.Reasoning; {
	case r.ReasoningEffort != "":
		return r.ReasoningEffort
	case options != nil && options.Effort != "":
		return options.Effort
	case options != nil && options.Enabled != nil && !*options.Enabled:
		return "none"
	}
	return ""
}

// ShowReasoning reports whether the reply carries reasoning.
func (r *ChatRequest) ShowReasoning() bool {
	if r.IncludeReasoning != nil {
		return *r.IncludeReasoning
	}
	return r.Reasoning == nil || !r.Reasoning.Exclude
}

// ThinkingTokens returns how many tokens reasoning may have; nil = no limit.
func (r *ChatRequest) ThinkingTokens() *int64 {
	if r.ThinkingBudget != nil || r.Reasoning == nil {
		return r.ThinkingBudget
	}
	return r.Reasoning.MaxTokens
}

func (in *Reader) reasoning() *Reasoning {
	options := new(Reasoning)
	in.Object(func(key string) bool {
		switch key {
		case "effort":
			options.Effort = in.Text()
		case "exclude":
			options.Exclude = in.Boolean()
		case "enabled":
			options.Enabled = Ptr(in.Boolean())
		case "max_tokens":
			options.MaxTokens = Ptr(in.Integer())
		case "summary", "generate_summary":
			in.Text() // no summariser
		default:
			return false
		}
		return true
	})
	return options
}

func (m *Message) decode(in *Reader) {
	var spelled [4]string // reasoning, reasoning_content, thinking, reasoning_details
	in.Object(func(key string) bool {
		switch key {
		case "role":
			m.Role = in.Text()
		case "content":
			m.Content = m.ReadContent(in)
		case "name":
			m.Name = in.Text()
		case "reasoning":
			spelled[0] = in.Text()
		case "reasoning_content":
			spelled[1] = in.Text()
		case "thinking":
			spelled[2] = in.Text()
		case "reasoning_details":
			spelled[3] = in.details()
		case "refusal":
			m.Refusal = in.Text()
		case "tool_calls":
			in.Array(limits.Tools, "tool calls", func(int) { m.ToolCalls = append(m.ToolCalls, in.toolCall()) })
		case "function_call":
			call := ToolCall{}
			in.Object(func(key string) bool { return call.function(in, key) })
			if in.err == nil && call.Name == "" {
				in.Missing("name")
			}
			m.ToolCalls, m.legacyCall = append(m.ToolCalls, call), true
		case "tool_call_id":
			m.ToolCallID = in.Text()
		case "annotations", "audio", "service_tier", "token_ids", "prompt_token_ids", "stop_reason":
			in.Skip() // parts of our own replies and of others' that clients send back
		default:
			return false
		}
		return true
	})
	for _, text := range spelled {
		if m.Reasoning == "" {
			m.Reasoning = text
		}
	}
}

// ReadContent reads a string or text parts. A refusal part goes where the refusal
// field would.
func (m *Message) ReadContent(in *Reader) Content {
	if in.Kind() == '"' {
		return Content{in.Text()}
	}
	if in.Kind() != '[' {
		in.Expected("a string, null or an array of parts")
		return nil
	}
	out := Content{}
	in.Array(limits.ContentParts, "content parts", func(int) {
		var kind, text, refusal string
		typed, written := false, false
		in.Object(func(key string) bool {
			switch key {
			case "type":
				kind, typed = in.Text(), true
			case "text":
				text, written = in.Text(), true
			case "refusal":
				refusal = in.Text()
			case "annotations", "logprobs", "cache_control":
				in.Skip()
			default:
				return false
			}
			return true
		})
		// Only now is the type known: it may stand behind the text.
		switch {
		case in.err != nil:
		case !typed:
			in.Missing("type")
		case kind == "refusal":
			m.Refusal += refusal
		case kind != "text" && kind != "input_text" && kind != "output_text":
			in.Fail(Unsupported(string(in.path)+".type", fmt.Sprintf("content of type %.40q: this model reads text only", kind)))
		case !written:
			in.Missing("text")
		default:
			out = append(out, text)
		}
	})
	return out
}

// details reads reasoning_details: the texts of its entries, one below the other.
func (in *Reader) details() string {
	var texts []string
	in.Array(limits.ContentParts, "reasoning details", func(int) {
		in.Object(func(key string) bool {
			switch key {
			case "text":
				texts = append(texts, in.Text())
			case "type", "id", "format", "index", "signature", "summary", "data":
				in.Skip()
			default:
				return false
			}
			return true
		})
	})
	return strings.Join(texts, "\n")
}

func (in *Reader) toolCall() ToolCall {
	call := ToolCall{}
	kind := "function"
	called := false
	in.Object(func(key string) bool {
		switch key {
		case "id":
			call.ID = in.Text()
		case "type":
			kind = in.Text()
		case "function", "custom":
			called, call.Custom = true, key == "custom"
			in.Object(func(key string) bool { return call.function(in, key) })
		case "index":
			in.Skip() // clients keep the one of the stream
		default:
			return false
		}
		return true
	})
	switch {
	case in.err != nil:
	case kind != "function" && kind != "custom":
		in.Fail(Unsupported(string(in.path)+".type", fmt.Sprintf("tool calls are of type function or custom, found %.40q", kind)))
	case !called:
		in.Missing(kind)
	case call.Name == "":
		in.Missing(kind + ".name")
	}
	return call
}

// function reads name and arguments. Some clients send the arguments as an object;
// its text is what the model wrote.
func (call *ToolCall) function(in *Reader, key string) bool {
	switch key {
	case "name":
		call.Name = in.Text()
	case "arguments", "input":
		if in.Kind() == '{' {
			call.Arguments = string(in.Raw())
		} else {
			call.Arguments = in.Text()
		}
	default:
		return false
	}
	return true
}

// LinkLegacyCalls gives calls and results of the functions era what tools have: an
// id, and the role tool.
func LinkLegacyCalls(messages []Message) {
	last := map[string]string{} // function name to the id of its latest call
	for i := range messages {
		message := &messages[i]
		for k := range message.ToolCalls {
			call := &message.ToolCalls[k]
			if call.ID == "" {
				call.ID = fmt.Sprintf("call_%d_%d", i, k)
			}
			last[call.Name] = call.ID
		}
		if message.Role == "function" {
			message.Role, message.legacyResult = "tool", true
			if message.ToolCallID == "" {
				message.ToolCallID = last[message.Name]
			}
		}
	}
}

// tools reads tools in Chat's nested form and in the flat form of Responses, or
// the functions of old, as the field's name says.
func (in *Reader) tools(field string) []Tool {
	out := []Tool{}
	start := in.pos
	in.Array(limits.Tools, field, func(int) {
		tool := Tool{Type: "function"}
		if field == legacyTools {
			in.Object(func(key string) bool { return tool.field(in, key) })
		} else {
			tool.Read(in)
		}
		if in.err == nil && tool.Raw == nil {
			tool.Raw = tool.Nested()
		}
		out = append(out, tool)
	})
	if in.err == nil {
		in.Within(in.pos-start, limits.ToolBytes, "bytes of "+field)
	}
	return out
}

// Read reads a tool in any form: nested as in Chat, or flat as in Responses.
func (tool *Tool) Read(in *Reader) {
	typed, nested := false, false
	read := tool.field
	if in.Member("type") == "custom" {
		read = tool.custom
	}
	in.Kind()
	start := in.pos
	in.Object(func(key string) bool {
		switch key {
		case "type":
			tool.Type, typed = in.Text(), true
		case "function", "custom":
			nested = true
			in.Object(func(key string) bool { return read(in, key) })
		default:
			if !read(in, key) {
				in.Skip() // built-in tools have members of their own, kept in Raw
			}
		}
		return true
	})
	switch {
	case in.err != nil:
	case !typed:
		in.Missing("type")
	case nested || tool.Type != "function":
		tool.Raw = json.RawMessage(in.data[start:in.pos:in.pos])
	}
}

func (tool *Tool) field(in *Reader, key string) bool {
	switch key {
	case "name":
		tool.Name = in.Text()
	case "description":
		tool.Description = in.Text()
	case "parameters":
		tool.Parameters = in.schema(in.rawObject())
	case "strict":
		tool.Strict = in.Boolean()
	default:
		return false
	}
	return true
}

// custom reads a member of a custom tool.
func (tool *Tool) custom(in *Reader, key string) bool {
	if key == "format" {
		tool.Format = in.toolFormat()
		return true
	}
	return tool.field(in, key)
}

// toolFormat reads the format of a custom tool's input, flat or as Chat nests it; nil =
// any text.
func (in *Reader) toolFormat() *ToolFormat {
	format, kind, nested := &ToolFormat{}, "", ""
	given := false
	field := func(key string) bool {
		switch key {
		case "syntax":
			format.Syntax = in.Text()
		case "definition":
			format.Definition, given = in.Text(), true
			format.Place = string(in.path[bytes.LastIndexByte(in.path, ']')+2:])
		default:
			return false
		}
		return true
	}
	// Chat nests the grammar in a member of its own, Responses has it flat.
	in.Object(func(key string) bool {
		switch key {
		case "type":
			kind = in.Text()
		case "grammar":
			nested = "grammar."
			in.Object(field)
		default:
			return field(key)
		}
		return true
	})
	at := string(in.path)
	limit := limits.GrammarBytes
	if format.Syntax == "regex" {
		limit = limits.PatternBytes
	}
	switch {
	case in.err != nil:
	case kind == "":
		in.Missing("type")
	case kind == "text":
		return nil
	case kind != "grammar":
		in.Fail(Invalid(at+".type", fmt.Sprintf("text or grammar expected, found %.40q", kind)))
	case format.Syntax == "":
		in.Missing(nested + "syntax")
	case format.Syntax != "lark" && format.Syntax != "regex":
		in.Fail(Invalid(at+"."+nested+"syntax", fmt.Sprintf("lark or regex expected, found %.40q", format.Syntax)))
	case !given:
		in.Missing(nested + "definition")
	case int64(len(format.Definition)) > in.lim[limit]:
		in.Fail(exceeds(at+"."+nested+"definition", len(format.Definition), in.lim[limit], "bytes", limit))
	}
	return format
}

// ToolChoice reads every form of tool_choice and function_call. flat: the one asked for has
// no member of the type's name between.
func (in *Reader) ToolChoice(flat bool) ToolChoice {
	if in.Kind() == '"' {
		choice := ToolChoice{Mode: in.Text()}
		if choice.Mode != "none" && choice.Mode != "auto" && choice.Mode != "required" {
			in.Invalid("none, auto, required or an object expected, found %.40q", choice.Mode)
		}
		return choice
	}
	if in.Kind() != '{' {
		in.Expected("a string or an object")
	}
	choice, kind := ToolChoice{Mode: "named"}, "function"
	if IsServerTool(in.Member("type")) {
		choice.Served = []ServerChoice{in.serverChoice()}
	}
	in.Object(func(key string) bool {
		switch key {
		case "type":
			kind = in.Text()
		case "name":
			choice.Name = in.Text()
		case "function", "custom":
			in.Object(func(key string) bool {
				if key == "name" {
					choice.Name = in.Text()
				}
				return key == "name"
			})
		case "allowed_tools":
			in.Object(func(key string) bool { return choice.allowed(in, key) })
		default:
			return choice.allowed(in, key) // the flat form of Responses
		}
		return true
	})
	within := kind + "."
	if flat {
		within = ""
	}
	switch {
	case in.err != nil:
	case kind == "allowed_tools" && choice.Allowed == nil:
		in.Missing(within + "tools")
	case kind == "allowed_tools" && choice.Mode != "auto" && choice.Mode != "required":
		in.Invalid("mode auto or required expected")
	case kind == "allowed_tools":
	case choice.Served != nil && kind == choice.Served[0].Type:
		choice.Name, choice.Allowed = "", nil
	case kind == "shell" || kind == "apply_patch": // local_shell cannot be chosen so, to OpenAI's schema
		choice = ToolChoice{Mode: "named", Name: kind}
	case kind != "function" && kind != "custom":
		in.Fail(Unsupported(string(in.path)+".type", fmt.Sprintf("function, custom, shell, apply_patch, web_search, code_interpreter, mcp or allowed_tools expected, found %.40q", kind)))
	case choice.Name == "":
		in.Missing(within + "name")
	default:
		choice.Mode, choice.Allowed = "named", nil
	}
	return choice
}

func (choice *ToolChoice) allowed(in *Reader, key string) bool {
	switch key {
	case "server_label":
		in.Text() // of mcp: it has been read
	case "mode":
		choice.Mode = in.Text()
	case "tools":
		choice.Allowed = []string{}
		in.Array(limits.Tools, "tools", func(int) {
			tool, served := Tool{}, in.serverChoice()
			if IsServerTool(served.Type) { // a client may repeat the tool as a whole
				in.Skip()
				choice.Served = append(choice.Served, served)
			} else if tool.Read(in); isClientTool(tool.Type) {
				tool.Name = tool.Type
			}
			choice.Allowed = append(choice.Allowed, tool.Name)
		})
	default:
		return false
	}
	return true
}

// isClientTool reports whether a type of tool is one of OpenAI's that clients run. Such a
// tool has no name but its type.
func isClientTool(kind string) bool {
	return kind == "local_shell" || kind == "shell" || kind == "apply_patch"
}
