package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// shapes say what the objects of the Responses API look like here: the members that
// clients are promised, and none besides. "name: type" has to be there, "name?: type"
// may be. A type is a word of Go or JSON, 'text' for itself, [T] for a list, map for
// texts by name, any object as object, another shape; T|T is either. "..." allows
// further members: the caller's own.
var shapes = map[string]string{
	"Response": `id: string, object: 'response', created_at: int, completed_at: int|null, background: bool, store: bool,
		status: 'queued'|'in_progress'|'completed'|'incomplete'|'failed'|'cancelled', error: Failure|null, incomplete_details: Incomplete|null, empty_reason?: string,
		output: [OutputItem], usage: Usage|null, model: string, instructions: string|null, max_output_tokens: int|null, max_tool_calls: int|null, parallel_tool_calls: bool,
		previous_response_id: string|null, prompt_cache_key: string|null, reasoning: Reasoning, safety_identifier: string|null, service_tier: 'default', temperature: number,
		presence_penalty: number, frequency_penalty: number,
		text: TextOptions, tool_choice: 'none'|'auto'|'required'|Choice, tools: [Tool], top_logprobs: int, top_p: number, truncation: 'auto'|'disabled', truncated_turns?: int,
		user: string|null, metadata: map, conversation: null, moderation: null, prompt: null, prompt_cache_retention: null`,
	"Failure":      `code: 'server_error'|'rate_limit_exceeded'|'invalid_prompt', message: string`,
	"Incomplete":   `reason: 'max_output_tokens'|'content_filter'`,
	"Usage":        `input_tokens: int, input_tokens_details: InputUsage, output_tokens: int, output_tokens_details: OutputUsage, total_tokens: int, input_tokens_per_turn?: [int], cached_tokens_per_turn?: [int], output_tokens_per_turn?: [int]`,
	"InputUsage":   `cached_tokens: int, cache_write_tokens: int`,
	"OutputUsage":  `reasoning_tokens: int, tool_output_tokens?: int`,
	"Reasoning":    `effort: 'none'|'minimal'|'low'|'medium'|'high'|'xhigh'|'max'|null, summary: 'auto'|'concise'|'detailed'|null, context?: 'auto'|'current_turn'|'all_turns'`,
	"TextOptions":  `format: PlainText|JSONObject|JSONSchema, verbosity?: 'low'|'medium'|'high'`,
	"PlainText":    `type: 'text'`,
	"JSONObject":   `type: 'json_object'`,
	"JSONSchema":   `type: 'json_schema', name: string, description: string|null, schema: object, strict: bool`,
	"Choice":       `type: 'function'|'custom'|'allowed_tools'|'shell'|'apply_patch'|'mcp'|'web_search_preview'|'code_interpreter', ...`,
	"Tool":         `= FunctionTool|OtherTool|ClientTool|ShellTool|SearchTool|CodeTool|MCPTool`,
	"SearchTool":   `type: 'web_search'|'web_search_2025_08_26'|'web_search_preview'|'web_search_preview_2025_03_11', search_context_size?: 'low'|'medium'|'high', user_location?: object, filters?: object`,
	"CodeTool":     `type: 'code_interpreter', container: string|object`,
	"MCPTool":      `type: 'mcp', server_label: string, server_url?: string, server_description?: string, allowed_tools?: [string]|object, require_approval?: string|object`,
	"ClientTool":   `type: 'local_shell'|'apply_patch'`,
	"ShellTool":    `type: 'shell', environment?: LocalPlace`,
	"LocalPlace":   `type: 'local'`,
	"FunctionTool": `type: 'function', name: string, description: string|null, parameters: object|null, strict: bool`,
	"OtherTool":    `type: 'custom'|'namespace', name: string, ...`,

	"OutputItem":     `= Thought|Message|FunctionCall|CustomCall|LocalShellCall|ShellCall|PatchCall|SearchCall|CodeCall|RemoteCall|RemoteTools|Question`,
	"SearchCall":     `id: string, type: 'web_search_call', status: 'in_progress'|'searching'|'completed'|'failed', action: Search|OpenPage|FindInPage, results?: [Found]`,
	"Search":         `type: 'search', query: string, queries: [string], sources?: [Page]`,
	"OpenPage":       `type: 'open_page', url: string|null`,
	"FindInPage":     `type: 'find_in_page', pattern: string, url: string`,
	"Page":           `type: 'url', url: string`,
	"Found":          `type: 'url', url: string, title: string`,
	"CodeCall":       `id: string, type: 'code_interpreter_call', status: 'in_progress'|'interpreting'|'completed'|'incomplete'|'failed', container_id: string, code: string, outputs: [Logs]|null`,
	"Logs":           `type: 'logs', logs: string`,
	"RemoteCall":     `id: string, type: 'mcp_call', status: 'in_progress'|'completed'|'incomplete'|'failed', server_label: string, name: string, arguments: string, approval_request_id: string|null, output: string|null, error: Failing|Protocol|null`,
	"Failing":        `type: 'mcp_tool_execution_error', content: [PlainPart]`,
	"PlainPart":      `type: 'text', text: string`,
	"Protocol":       `type: 'mcp_protocol_error'|'http_error', code: int, message: string`,
	"RemoteTools":    `id: string, type: 'mcp_list_tools', server_label: string, tools: [RemoteTool], error: string|null`,
	"RemoteTool":     `name: string, description: string|null, input_schema: object, annotations: object|null`,
	"Question":       `id: string, type: 'mcp_approval_request', server_label: string, name: string, arguments: string`,
	"Reply":          `id: string, type: 'mcp_approval_response', approval_request_id: string, request_id: string, approve: bool, reason: string|null`,
	"Citation":       `type: 'url_citation', start_index: int, end_index: int, url: string, title: string`,
	"Thought":        `id: string, type: 'reasoning', status: Progress, summary: [SummaryText], content: [ThoughtText], encrypted_content?: string`,
	"SummaryText":    `type: 'summary_text', text: string`,
	"ThoughtText":    `type: 'reasoning_text', text: string`,
	"Message":        `id: string, type: 'message', status: Progress, role: 'assistant', phase?: 'commentary'|'final_answer', content: [OutputText|Refusal]`,
	"OutputText":     `type: 'output_text', text: string, annotations: [Citation], logprobs: [Logprob]`,
	"Refusal":        `type: 'refusal', refusal: string`,
	"Logprob":        `token: string, logprob: number, bytes: [int], top_logprobs: [Alternative]`,
	"Alternative":    `token: string, logprob: number, bytes: [int]`,
	"FunctionCall":   `id: string, type: 'function_call', status: Progress, call_id: string, name: string, namespace?: string, arguments: string`,
	"CustomCall":     `id: string, type: 'custom_tool_call', status: Progress, call_id: string, name: string, namespace?: string, input: string`,
	"LocalShellCall": `id: string, type: 'local_shell_call', status: Progress, call_id: string, action: Execution`,
	"Execution":      `type: 'exec', command: [string], env: map, working_directory?: string, timeout_ms?: int, user?: string`,
	"ShellCall":      `id: string, type: 'shell_call', status: Progress, call_id: string, action: Lines, environment: null`,
	"Lines":          `commands: [string], timeout_ms: int|null, max_output_length: int|null`,
	"PatchCall":      `id: string, type: 'apply_patch_call', status: 'in_progress'|'completed', call_id: string, operation: Change|Removal`,
	"Change":         `type: 'create_file'|'update_file', path: string, diff: string`,
	"Removal":        `type: 'delete_file', path: string`,
	"Progress":       `= 'in_progress'|'completed'|'incomplete'`,
	"InputItem":      `= OutputItem|InputMessage|Reply|FunctionResult|CustomResult|LocalResult|ShellResult|PatchResult`,
	"LocalResult":    `id: string, type: 'local_shell_call_output', status: Progress, call_id: string, output: string`,
	"ShellResult":    `id: string, type: 'shell_call_output', status: Progress, call_id: string, output: [LinesResult], max_output_length: null`,
	"LinesResult":    `stdout: string, stderr: string, outcome: Exit|Timeout`,
	"Exit":           `type: 'exit', exit_code: int`,
	"Timeout":        `type: 'timeout'`,
	"PatchResult":    `id: string, type: 'apply_patch_call_output', status: 'completed'|'failed', call_id: string, output: string|null`,
	"InputMessage":   `id: string, type: 'message', status: Progress, role: 'user'|'developer'|'system', content: [InputText|Refusal]`,
	"InputText":      `type: 'input_text', text: string`,
	"FunctionResult": `id: string, type: 'function_call_output', status: Progress, call_id: string, output: string|[InputText]`,
	"CustomResult":   `id: string, type: 'custom_tool_call_output', status: Progress, call_id: string, output: string|[InputText]`,
	"ItemList":       `object: 'list', data: [InputItem], first_id: string, last_id: string, has_more: bool`,

	"Event":       `= Whole|ItemEvent|PartEvent|ThoughtDelta|ThoughtDone|SummaryPart|SummaryDelta|SummaryDone|TextDelta|TextDone|CallDelta|CallDone|InputDelta|InputDone|ErrorEvent|Phase|CodeDelta|CodeDone|RemoteDelta|RemoteDone|Cited`,
	"Phase":       `type: 'response.web_search_call.in_progress'|'response.web_search_call.searching'|'response.web_search_call.completed'|'response.code_interpreter_call.in_progress'|'response.code_interpreter_call.interpreting'|'response.code_interpreter_call.completed'|'response.mcp_call.in_progress'|'response.mcp_call.completed'|'response.mcp_call.failed'|'response.mcp_list_tools.in_progress'|'response.mcp_list_tools.completed'|'response.mcp_list_tools.failed', ` + inItem,
	"CodeDelta":   `type: 'response.code_interpreter_call_code.delta', ` + inItem + `, delta: string`,
	"CodeDone":    `type: 'response.code_interpreter_call_code.done', ` + inItem + `, code: string`,
	"RemoteDelta": `type: 'response.mcp_call_arguments.delta', ` + inItem + `, delta: string`,
	"RemoteDone":  `type: 'response.mcp_call_arguments.done', ` + inItem + `, arguments: string`,
	"Cited":       `type: 'response.output_text.annotation.added', ` + inPart + `, annotation_index: int, annotation: Citation`,
	"Whole": `type: 'response.created'|'response.queued'|'response.in_progress'|'response.completed'|'response.incomplete'|'response.failed',
		sequence_number: int, response: Response`,
	"ErrorEvent":   `type: 'error', sequence_number: int, code: string|null, message: string, param: string|null`,
	"ItemEvent":    `type: 'response.output_item.added'|'response.output_item.done', sequence_number: int, output_index: int, item: OutputItem`,
	"PartEvent":    `type: 'response.content_part.added'|'response.content_part.done', ` + inPart + `, part: ThoughtText|OutputText`,
	"SummaryPart":  `type: 'response.reasoning_summary_part.added'|'response.reasoning_summary_part.done', sequence_number: int, output_index: int, item_id: string, summary_index: int, part: SummaryText`,
	"SummaryDelta": `type: 'response.reasoning_summary_text.delta', sequence_number: int, output_index: int, item_id: string, summary_index: int, delta: string`,
	"SummaryDone":  `type: 'response.reasoning_summary_text.done', sequence_number: int, output_index: int, item_id: string, summary_index: int, text: string`,
	"ThoughtDelta": `type: 'response.reasoning_text.delta', ` + inPart + `, delta: string`,
	"ThoughtDone":  `type: 'response.reasoning_text.done', ` + inPart + `, text: string`,
	"TextDelta":    `type: 'response.output_text.delta', ` + inPart + `, delta: string, logprobs: [Logprob]`,
	"TextDone":     `type: 'response.output_text.done', ` + inPart + `, text: string, logprobs: [Logprob]`,
	"CallDelta":    `type: 'response.function_call_arguments.delta', ` + inItem + `, delta: string`,
	"CallDone":     `type: 'response.function_call_arguments.done', ` + inItem + `, name: string, arguments: string`,
	"InputDelta":   `type: 'response.custom_tool_call_input.delta', ` + inItem + `, delta: string`,
	"InputDone":    `type: 'response.custom_tool_call_input.done', ` + inItem + `, input: string`,
}

const (
	inItem = `sequence_number: int, output_index: int, item_id: string`
	inPart = inItem + `, content_index: int`
)

// misfit says where v is not of a type of shapes, "" = nowhere. Of several types that
// are told apart by a member called type the one meant counts.
func misfit(kind string, v any, path string) string {
	problem := ""
	for _, k := range alternatives(kind) {
		p := fits(k, v, path)
		if p == "" {
			return ""
		}
		if problem == "" || (!strings.HasPrefix(p, path+".type: ") && !strings.HasPrefix(p, path+": ")) {
			problem = p
		}
	}
	return problem
}

// alternatives splits a type at the bars that are not in a list.
func alternatives(kind string) (all []string) {
	depth, from := 0, 0
	for i, c := range kind + "|" {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == '|' && depth == 0:
			all = append(all, kind[from:i])
			from = i + 1
		}
	}
	return all
}

func fits(kind string, v any, path string) string {
	wrong := func() string { return fmt.Sprintf("%s: %.40v is not %s", path, v, kind) }
	if text, ok := strings.CutPrefix(kind, "'"); ok {
		if v == strings.TrimSuffix(text, "'") {
			return ""
		}
		return wrong()
	}
	if element, ok := strings.CutPrefix(kind, "["); ok {
		l, ok := v.([]any)
		if !ok {
			return wrong()
		}
		for i, e := range l {
			if p := misfit(strings.TrimSuffix(element, "]"), e, fmt.Sprintf("%s[%d]", path, i)); p != "" {
				return p
			}
		}
		return ""
	}
	ok := false
	switch o, isObject := v.(object); kind {
	case "never":
	case "null":
		ok = v == nil
	case "object":
		ok = isObject
	case "int":
		ok = isKind("integer", v)
	case "bool":
		ok = isKind("boolean", v)
	case "string", "number":
		ok = isKind(kind, v)
	case "map":
		for _, text := range o {
			isObject = isObject && isKind("string", text)
		}
		ok = isObject
	default:
		if also, ok := strings.CutPrefix(shapes[kind], "= "); ok {
			return misfit(also, v, path)
		}
		if !isObject {
			return wrong()
		}
		return membersFit(kind, o, path)
	}
	if ok {
		return ""
	}
	return wrong()
}

func membersFit(shape string, o object, path string) string {
	rest := maps.Clone(o)
	for member := range strings.SplitSeq(shapes[shape], ",") {
		if member = strings.TrimSpace(member); member == "..." {
			return ""
		}
		name, kind, _ := strings.Cut(member, ": ")
		name, optional := strings.CutSuffix(name, "?")
		v, there := o[name]
		if !there && !optional {
			return fmt.Sprintf("%s: %s has no %s", path, shape, name)
		}
		if there {
			if p := misfit(kind, v, path+"."+name); p != "" {
				return p
			}
		}
		delete(rest, name)
	}
	if len(rest) > 0 {
		return fmt.Sprintf("%s: %s does not have %v", path, shape, slices.Sorted(maps.Keys(rest)))
	}
	return ""
}

// TestShapes: the shapes know each other, and see each member of real objects that is
// missing, of another type, or too many.
func TestShapes(t *testing.T) {
	t.Parallel()
	for name, text := range shapes {
		for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return strings.ContainsRune(" ,|[]=\n\t", c) }) {
			if c := word[0]; c >= 'A' && c <= 'Z' && shapes[word] == "" {
				t.Errorf("%s: there is no %s", name, word)
			}
		}
	}
	const asked = `{"input":[{"role":"user","content":"Hi"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"x"},{"type":"input_text","text":"y"}]}` + clientItems + `],
		"include":["message.output_text.logprobs","reasoning.encrypted_content"],"top_logprobs":1,"metadata":{"a":"b"},"reasoning":{"effort":"low","context":"auto"},"stream":true,`
	seen := 0
	for _, c := range []struct{ reply, more string }{
		{calls, `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object"}},{"type":"custom","name":"g"}]}`},
		{strings.ReplaceAll(calls, `{"city":"Paris"}`, `{"input":"ls"}`), `"tools":[{"type":"custom","name":"get_weather"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"custom","name":"get_weather"}]}}`},
		{thinks + "<|channel|>final <|constrain|>json<|message|>{}<|return|>", `"text":{"verbosity":"low","format":{"type":"json_schema","name":"n","schema":{"type":"object","properties":{},"additionalProperties":false}}}}`},
		{thinks + localCall, `"tools":[{"type":"local_shell"},{"type":"shell"}],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"local_shell"}]}}`},
		{thinks + shellCall, `"tools":[{"type":"shell"}],"tool_choice":{"type":"shell"}}`},
		{thinks + patchCall, `"tools":[{"type":"apply_patch"}]}`},
	} {
		g := start(t, inMemory(t, setup{reply: c.reply}))
		events := streamed(t, g.post("/v1/responses", asked+c.more))
		final := fold(t, events)
		list := parsed(t, g.do("GET", "/v1/responses/"+final["id"].(string)+"/input_items", "").body)
		valid(t, "ItemList", list)
		seen += damage(t, "ItemList", list, list)
		for _, e := range events {
			seen += damage(t, "Event", e, e)
		}
	}
	t.Logf("%d members were spoiled", seen)
	if seen < 1000 {
		t.Error("too few")
	}
}

// optional are members that may be missing.
var optional = []string{"context", "verbosity", "phase", "encrypted_content"}

// damage spoils each member of the objects in v, a part of whole, in turn, and returns
// how many there are.
func damage(t *testing.T, kind string, whole, v any) (n int) {
	t.Helper()
	for _, e := range list(v) {
		n += damage(t, kind, whole, e)
	}
	o, _ := v.(object)
	for name, good := range maps.Clone(o) {
		if !slices.Contains([]string{"metadata", "parameters", "schema", "tool_choice", "env"}, name) { // the caller's own
			n += damage(t, kind, whole, good)
		}
		n++
		o[name] = struct{}{}
		if misfit(kind, whole, kind) == "" {
			t.Errorf("%s: %s of another type is not seen", kind, name)
		}
		delete(o, name)
		if misfit(kind, whole, kind) == "" && !slices.Contains(optional, name) {
			t.Errorf("%s: missing %s is not seen", kind, name)
		}
		o["odd"] = good
		if misfit(kind, whole, kind) == "" && o["type"] != "custom" {
			t.Errorf("%s: a member beside %s is not seen", kind, name)
		}
		delete(o, "odd")
		o[name] = good
	}
	return n
}
