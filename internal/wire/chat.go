package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"ossian/internal/limits"
)

// field reads the fields of a chat request.
func (r *ChatRequest) field(d *decoder, key string) bool {
	switch key {
	case "model":
		r.Model = d.text()
	case "messages":
		r.Messages = []Message{}
		d.array(limits.Messages, "messages", func(int) {
			var m Message
			m.decode(d)
			r.Messages = append(r.Messages, m)
		})
	case "max_completion_tokens":
		r.MaxCompletionTokens = ptr(d.integer())
	case "max_tokens":
		r.MaxTokens = ptr(d.integer())
	case "logprobs":
		r.Logprobs = d.boolean()
	case "top_logprobs":
		r.TopLogprobs = ptr(d.integer())
	case "add_generation_prompt":
		r.AddGenerationPrompt = ptr(d.boolean())
	case "continue_final_message":
		r.ContinueFinal = d.boolean()
	case "tools":
		r.Tools = append(r.Tools, d.tools(false)...)
	case "functions":
		r.Tools = append(r.Tools, d.tools(true)...)
	case "tool_choice", "function_call":
		r.ToolChoice = d.toolChoice(key == "function_call")
	case "parallel_tool_calls":
		r.ParallelToolCalls = ptr(d.boolean())
	case "reasoning_effort":
		r.ReasoningEffort = d.text()
	case "reasoning":
		r.Reasoning = d.reasoning()
	case "include_reasoning":
		r.IncludeReasoning = ptr(d.boolean())
	case "thinking_token_budget", "thinking_budget":
		r.ThinkingBudget = ptr(d.integer())
	case "chat_template_kwargs":
		r.TemplateArgs = d.rawObject()
	case "web_search_options":
		r.WebSearch = d.rawObject()
	default:
		return r.Sampling.field(d, key)
	}
	return true
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
	switch o := r.Reasoning; {
	case r.ReasoningEffort != "":
		return r.ReasoningEffort
	case o != nil && o.Effort != "":
		return o.Effort
	case o != nil && o.Enabled != nil && !*o.Enabled:
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

func (d *decoder) reasoning() *Reasoning {
	o := new(Reasoning)
	d.object(func(key string) bool {
		switch key {
		case "effort":
			o.Effort = d.text()
		case "exclude":
			o.Exclude = d.boolean()
		case "enabled":
			o.Enabled = ptr(d.boolean())
		case "max_tokens":
			o.MaxTokens = ptr(d.integer())
		case "summary", "generate_summary":
			d.text() // no summariser
		default:
			return false
		}
		return true
	})
	return o
}

func (m *Message) decode(d *decoder) {
	var spelled [4]string // reasoning, reasoning_content, thinking, reasoning_details
	d.object(func(key string) bool {
		switch key {
		case "role":
			m.Role = d.text()
		case "content":
			m.Content = m.content(d)
		case "name":
			m.Name = d.text()
		case "reasoning":
			spelled[0] = d.text()
		case "reasoning_content":
			spelled[1] = d.text()
		case "thinking":
			spelled[2] = d.text()
		case "reasoning_details":
			spelled[3] = d.details()
		case "refusal":
			m.Refusal = d.text()
		case "tool_calls":
			d.array(limits.Tools, "tool calls", func(int) { m.ToolCalls = append(m.ToolCalls, d.toolCall()) })
		case "function_call":
			c := ToolCall{}
			d.object(func(key string) bool { return c.function(d, key) })
			if d.err == nil && c.Name == "" {
				d.missing("name")
			}
			m.ToolCalls = append(m.ToolCalls, c)
		case "tool_call_id":
			m.ToolCallID = d.text()
		case "annotations", "audio", "service_tier", "token_ids", "prompt_token_ids", "stop_reason":
			d.skip() // parts of our own replies and of others' that clients send back
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

// content reads a string or text parts. A refusal part goes where the refusal
// field would.
func (m *Message) content(d *decoder) Content {
	if d.kind() == '"' {
		return Content{d.text()}
	}
	if d.kind() != '[' {
		d.unlike("a string, null or an array of parts")
		return nil
	}
	out := Content{}
	d.array(limits.ContentParts, "content parts", func(int) {
		var kind, text, refusal string
		typed, written := false, false
		d.object(func(key string) bool {
			switch key {
			case "type":
				kind, typed = d.text(), true
			case "text":
				text, written = d.text(), true
			case "refusal":
				refusal = d.text()
			case "annotations", "logprobs", "cache_control":
				d.skip()
			default:
				return false
			}
			return true
		})
		switch {
		case d.err != nil:
		case !typed:
			d.missing("type")
		case kind == "refusal":
			m.Refusal += refusal
		case kind != "text" && kind != "input_text" && kind != "output_text":
			d.fail(Unsupported(string(d.path)+".type", fmt.Sprintf("content of type %.40q: this model reads text only", kind)))
		case !written:
			d.missing("text")
		default:
			out = append(out, text)
		}
	})
	return out
}

func (d *decoder) missing(key string) {
	d.fail(Missing(strings.TrimPrefix(string(d.path)+"."+key, ".")))
}

// details reads reasoning_details: the texts of its entries, one below the other.
func (d *decoder) details() string {
	var texts []string
	d.array(limits.ContentParts, "reasoning details", func(int) {
		d.object(func(key string) bool {
			switch key {
			case "text":
				texts = append(texts, d.text())
			case "type", "id", "format", "index", "signature", "summary", "data":
				d.skip()
			default:
				return false
			}
			return true
		})
	})
	return strings.Join(texts, "\n")
}

func (d *decoder) toolCall() ToolCall {
	c := ToolCall{}
	kind := "function"
	called := false
	d.object(func(key string) bool {
		switch key {
		case "id":
			c.ID = d.text()
		case "type":
			kind = d.text()
		case "function", "custom":
			called, c.Custom = true, key == "custom"
			d.object(func(key string) bool { return c.function(d, key) })
		case "index":
			d.skip() // clients keep the one of the stream
		default:
			return false
		}
		return true
	})
	switch {
	case d.err != nil:
	case kind != "function" && kind != "custom":
		d.fail(Unsupported(string(d.path)+".type", fmt.Sprintf("tool calls are of type function or custom, found %.40q", kind)))
	case !called:
		d.missing(kind)
	case c.Name == "":
		d.missing(kind + ".name")
	}
	return c
}

// function reads name and arguments. Some clients send the arguments as an object;
// its text is what the model wrote.
func (c *ToolCall) function(d *decoder, key string) bool {
	switch key {
	case "name":
		c.Name = d.text()
	case "arguments", "input":
		if d.kind() == '{' {
			c.Arguments = string(d.raw())
		} else {
			c.Arguments = d.text()
		}
	default:
		return false
	}
	return true
}

// linkLegacyCalls gives calls and results of the functions era what tools have: an
// id, and the role tool.
func linkLegacyCalls(messages []Message) {
	last := map[string]string{} // function name to the id of its latest call
	for i := range messages {
		m := &messages[i]
		for k := range m.ToolCalls {
			c := &m.ToolCalls[k]
			if c.ID == "" {
				c.ID = fmt.Sprintf("call_%d_%d", i, k)
			}
			last[c.Name] = c.ID
		}
		if m.Role == "function" {
			m.Role = "tool"
			if m.ToolCallID == "" {
				m.ToolCallID = last[m.Name]
			}
		}
	}
}

// tools reads tools in Chat's nested form and in the flat form of Responses, or
// the functions of old.
func (d *decoder) tools(functions bool) []Tool {
	out := []Tool{}
	start := d.pos
	d.array(limits.Tools, "tools", func(int) {
		t := Tool{Type: "function"}
		if functions {
			d.object(func(key string) bool { return t.field(d, key) })
		} else {
			t.decode(d)
		}
		if d.err == nil && t.Raw == nil {
			t.Raw = t.nested()
		}
		out = append(out, t)
	})
	if d.err == nil {
		d.within(d.pos-start, limits.ToolBytes, "bytes of tools")
	}
	return out
}

func (t *Tool) decode(d *decoder) {
	typed, nested := false, false
	read := t.field
	if d.member("type") == "custom" {
		read = t.custom
	}
	d.kind()
	start := d.pos
	d.object(func(key string) bool {
		switch key {
		case "type":
			t.Type, typed = d.text(), true
		case "function", "custom":
			nested = true
			d.object(func(key string) bool { return read(d, key) })
		default:
			if !read(d, key) {
				d.skip() // built-in tools have members of their own, kept in Raw
			}
		}
		return true
	})
	switch {
	case d.err != nil:
	case !typed:
		d.missing("type")
	case nested || t.Type != "function":
		t.Raw = json.RawMessage(d.data[start:d.pos:d.pos])
	}
}

func (t *Tool) field(d *decoder, key string) bool {
	switch key {
	case "name":
		t.Name = d.text()
	case "description":
		t.Description = d.text()
	case "parameters":
		t.Parameters = d.schema(d.rawObject())
	case "strict":
		t.Strict = d.boolean()
	default:
		return false
	}
	return true
}

// custom reads a member of a custom tool.
func (t *Tool) custom(d *decoder, key string) bool {
	if key == "format" {
		t.Format = d.toolFormat()
		return true
	}
	return t.field(d, key)
}

// toolFormat reads the format of a custom tool's input, flat or as Chat nests it; nil =
// any text.
func (d *decoder) toolFormat() *ToolFormat {
	f, kind, nested := &ToolFormat{}, "", ""
	given := false
	field := func(key string) bool {
		switch key {
		case "syntax":
			f.Syntax = d.text()
		case "definition":
			f.Definition, given = d.text(), true
			f.Place = string(d.path[bytes.LastIndexByte(d.path, ']')+2:])
		default:
			return false
		}
		return true
	}
	d.object(func(key string) bool {
		switch key {
		case "type":
			kind = d.text()
		case "grammar":
			nested = "grammar."
			d.object(field)
		default:
			return field(key)
		}
		return true
	})
	at := string(d.path)
	limit := limits.GrammarBytes
	if f.Syntax == "regex" {
		limit = limits.PatternBytes
	}
	switch {
	case d.err != nil:
	case kind == "":
		d.missing("type")
	case kind == "text":
		return nil
	case kind != "grammar":
		d.fail(Invalid(at+".type", fmt.Sprintf("text or grammar expected, found %.40q", kind)))
	case f.Syntax == "":
		d.missing(nested + "syntax")
	case f.Syntax != "lark" && f.Syntax != "regex":
		d.fail(Invalid(at+"."+nested+"syntax", fmt.Sprintf("lark or regex expected, found %.40q", f.Syntax)))
	case !given:
		d.missing(nested + "definition")
	case int64(len(f.Definition)) > d.lim[limit]:
		d.fail(exceeds(at+"."+nested+"definition", len(f.Definition), d.lim[limit], "bytes", limit))
	}
	return f
}

// toolChoice reads every form of tool_choice and function_call. flat: the one asked for has
// no member of the type's name between.
func (d *decoder) toolChoice(flat bool) ToolChoice {
	if d.kind() == '"' {
		c := ToolChoice{Mode: d.text()}
		if c.Mode != "none" && c.Mode != "auto" && c.Mode != "required" {
			d.invalid("none, auto, required or an object expected, found %.40q", c.Mode)
		}
		return c
	}
	if d.kind() != '{' {
		d.unlike("a string or an object")
	}
	c, kind := ToolChoice{Mode: "named"}, "function"
	d.object(func(key string) bool {
		switch key {
		case "type":
			kind = d.text()
		case "name":
			c.Name = d.text()
		case "function", "custom":
			d.object(func(key string) bool {
				if key == "name" {
					c.Name = d.text()
				}
				return key == "name"
			})
		case "allowed_tools":
			d.object(func(key string) bool { return c.allowed(d, key) })
		default:
			return c.allowed(d, key) // the flat form of Responses
		}
		return true
	})
	within := kind + "."
	if flat {
		within = ""
	}
	switch {
	case d.err != nil:
	case kind == "allowed_tools" && c.Allowed == nil:
		d.missing(within + "tools")
	case kind == "allowed_tools" && c.Mode != "auto" && c.Mode != "required":
		d.invalid("mode auto or required expected")
	case kind == "allowed_tools":
	case kind == "shell" || kind == "apply_patch": // local_shell cannot be chosen so, to OpenAI's schema
		c = ToolChoice{Mode: "named", Name: kind}
	case kind != "function" && kind != "custom":
		d.fail(Unsupported(string(d.path)+".type", fmt.Sprintf("function, custom, shell, apply_patch or allowed_tools expected, found %.40q", kind)))
	case c.Name == "":
		d.missing(within + "name")
	default:
		c.Mode, c.Allowed = "named", nil
	}
	return c
}

func (c *ToolChoice) allowed(d *decoder, key string) bool {
	switch key {
	case "mode":
		c.Mode = d.text()
	case "tools":
		c.Allowed = []string{}
		d.array(limits.Tools, "tools", func(int) {
			t := Tool{}
			if t.decode(d); findClientTool(t.Type) != nil {
				t.Name = t.Type
			}
			c.Allowed = append(c.Allowed, t.Name)
		})
	default:
		return false
	}
	return true
}
