package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"ossian/internal/limits"
)

// What a caller is told: where, which code, and what about it.
func TestErrors(t *testing.T) {
	const tool = `{"type":"function","function":{"name":"f"}}`
	for _, tc := range []struct{ name, body, param, code, message string }{
		{"empty", ``, "", CodeInvalidJSON, "byte 0"},
		{"cut", `{"messages":[`, "", CodeInvalidJSON, "byte 13"},
		{"trailing comma", `{"a":1,}`, "", CodeInvalidJSON, "byte 8"},
		{"two values", `{} {}`, "", CodeInvalidJSON, "byte 4"},
		{"not UTF-8", "{\"a\":\"\xff\"}", "", CodeInvalidJSON, "byte 6: not UTF-8"},
		{"no object", `[]`, "", CodeInvalidType, "an object expected, found an array"},
		{"no messages", `{}`, "messages", CodeMissingParameter, "required"},
		{"null messages", `{"messages":null}`, "messages", CodeMissingParameter, "required"},
		{"empty messages", `{"messages":[]}`, "messages", CodeInvalidValue, "at least one"},
		{"messages of the wrong type", `{"messages":"x"}`, "messages", CodeInvalidType, "an array expected, found a string"},
		{"message of the wrong type", `{"messages":[null]}`, "messages[0]", CodeInvalidType, "an object expected, found null"},
		{"content of the wrong type", `{"messages":[{"role":"user","content":"a"},{"role":"user","content":5}]}`, "messages[1].content", CodeInvalidType, "found a number"},
		{"content an object", `{"messages":[{"role":"user","content":{"a":1}}]}`, "messages[0].content", CodeInvalidType, "found an object"},
		{"no content", `{"messages":[{"role":"user"}]}`, "messages[0].content", CodeMissingParameter, ""},
		{"no role", `{"messages":[{"content":"a"}]}`, "messages[0].role", CodeMissingParameter, ""},
		{"role", `{"messages":[{"role":"root","content":"a"}]}`, "messages[0].role", CodeInvalidValue, `"root"`},
		{"part without type", `{"messages":[{"role":"user","content":[{"text":"a"}]}]}`, "messages[0].content[0].type", CodeMissingParameter, ""},
		{"part without text", `{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, "messages[0].content[0].text", CodeMissingParameter, ""},
		{"image", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]}]}`, "messages[0].content[1].type", CodeUnsupported, "reads text only"},
		{"tool without id", `{"messages":[{"role":"tool","content":"a"}]}`, "messages[0].tool_call_id", CodeMissingParameter, ""},
		{"legacy result without call", `{"messages":[{"role":"function","name":"f","content":"a"}]}`, "messages[0].name", CodeInvalidValue, `function_call of "f"`},
		{"legacy result without name", `{"messages":[{"role":"function","content":"a"}]}`, "messages[0].name", CodeMissingParameter, ""},
		{"user calls a function", `{"messages":[{"role":"user","content":"a","function_call":{"name":"f","arguments":""}}]}`, "messages[0].function_call", CodeInvalidValue, "only the assistant calls functions"},
		{"user calls", `{"messages":[{"role":"user","content":"a","tool_calls":[]},{"role":"user","content":"a","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":""}}]}]}`, "messages[1].tool_calls", CodeInvalidValue, ""},
		{"call without function", `{"messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function"}]}]}`, "messages[0].tool_calls[0].function", CodeMissingParameter, ""},
		{"call without name", `{"messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"arguments":""}}]}]}`, "messages[0].tool_calls[0].function.name", CodeMissingParameter, ""},
		{"legacy call without name", `{"messages":[{"role":"assistant","function_call":{"arguments":""}}]}`, "messages[0].function_call.name", CodeMissingParameter, ""},
		{"call of another type", `{"messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"mcp"}]}]}`, "messages[0].tool_calls[0].type", CodeUnsupported, ""},
		{"member twice", withUser(`"seed":1,"seed":2`), "seed", CodeInvalidValue, "twice"},
		{"member twice, once null", withUser(`"seed":null,"seed":2`), "seed", CodeInvalidValue, "twice"},
		{"member twice by escapes", withUser(`"seed":1,"\u0073eed":2`), "seed", CodeInvalidValue, "twice"},
		{"temperature", withUser(`"temperature":2.1`), "temperature", CodeInvalidValue, "0 to 2 expected, found 2.1"},
		{"temperature of the wrong type", withUser(`"temperature":"0.5"`), "temperature", CodeInvalidType, "a number expected, found a string"},
		{"number out of range", withUser(`"temperature":1e999`), "temperature", CodeInvalidValue, "out of range"},
		{"fraction", withUser(`"seed":1.5`), "seed", CodeInvalidType, "a whole number"},
		{"whole number out of range", withUser(`"seed":9223372036854775808`), "seed", CodeInvalidValue, "out of range"},
		{"bool", withUser(`"stream":1`), "stream", CodeInvalidType, "true or false expected"},
		{"repetition_penalty", withUser(`"repetition_penalty":0`), "repetition_penalty", CodeInvalidValue, ""},
		{"bias", withUser(`"logit_bias":{"7":101}`), "logit_bias.7", CodeInvalidValue, "-100 to 100"},
		{"bias of no id", withUser(`"logit_bias":{"x":1}`), "logit_bias.x", CodeInvalidValue, "no token id"},
		{"bias of the same id", withUser(`"logit_bias":{"7":1,"07":2}`), "logit_bias.07", CodeInvalidValue, "twice"},
		{"stop element", withUser(`"stop":["a",5]`), "stop[1]", CodeInvalidType, ""},
		{"empty stop", withUser(`"stop":""`), "stop[0]", CodeInvalidValue, "everywhere"},
		{"stop id", withUser(`"stop_token_ids":[3000000000]`), "stop_token_ids[0]", CodeInvalidValue, "no token id"},
		{"no allowed ids", withUser(`"allowed_token_ids":[]`), "allowed_token_ids", CodeInvalidValue, ""},
		{"max_tokens", withUser(`"max_tokens":0`), "max_tokens", CodeInvalidValue, "at least 1"},
		{"min over max", withUser(`"max_tokens":2,"min_tokens":3`), "min_tokens", CodeInvalidValue, ""},
		{"top_logprobs alone", withUser(`"top_logprobs":2`), "top_logprobs", CodeInvalidValue, "needs logprobs"},
		{"logprob ids alone", withUser(`"logprob_token_ids":[2]`), "logprob_token_ids", CodeInvalidValue, "needs logprobs"},
		{"whole vocabulary", withUser(`"logprobs":true,"top_logprobs":-1`), "top_logprobs", CodeInvalidValue, "switched off"},
		{"prompt_logprobs streamed", withUser(`"prompt_logprobs":1,"stream":true`), "prompt_logprobs", CodeInvalidValue, "stream"},
		{"stream_options alone", withUser(`"stream_options":{}`), "stream_options", CodeInvalidValue, "needs stream"},
		{"continue", withUser(`"continue_final_message":true`), "continue_final_message", CodeInvalidValue, "assistant"},
		{"continue and prompt", `{"messages":[{"role":"assistant","content":"a"}],"continue_final_message":true,"add_generation_prompt":true}`, "continue_final_message", CodeInvalidValue, ""},
		{"format", withUser(`"response_format":{"type":"xml"}`), "response_format.type", CodeInvalidValue, `"xml"`},
		{"allowed tools without mode", withUser(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[{"type":"function","function":{"name":"f"}}]}}`), "tool_choice", CodeInvalidValue, "mode auto or required expected"},
		{"format without type", withUser(`"response_format":{}`), "response_format.type", CodeMissingParameter, ""},
		{"format without schema", withUser(`"response_format":{"type":"json_schema"}`), "response_format.json_schema", CodeMissingParameter, ""},
		{"schema left out", withUser(`"response_format":{"type":"json_schema","json_schema":{"name":"x"}}`), "response_format.json_schema.schema", CodeMissingParameter, ""},
		{"no constraint", withUser(`"structured_outputs":{}`), "structured_outputs", CodeInvalidValue, "found 0"},
		{"two constraints", withUser(`"guided_json":{},"guided_regex":"a"`), "guided_regex", CodeInvalidValue, "found 2"},
		{"constraint and format", withUser(`"guided_json":{},"response_format":{"type":"json_object"}`), "guided_json", CodeInvalidValue, ""},
		{"no choices", withUser(`"guided_choice":[]`), "guided_choice", CodeInvalidValue, ""},
		{"schema of the wrong type", withUser(`"guided_json":[]`), "guided_json", CodeInvalidType, ""},
		{"tool without type", withUser(`"tools":[{"name":"f"}]`), "tools[0].type", CodeMissingParameter, ""},
		{"tool without name", withUser(`"tools":[{"type":"function","function":{}}]`), "tools[0].function.name", CodeMissingParameter, ""},
		{"name of a tool with a blank", withUser(`"tools":[{"type":"function","function":{"name":"get weather"}}]`), "tools[0].function.name", CodeInvalidValue, `found "get weather"`},
		{"format of a custom tool", withUser(custom(`"json"`)), "tools[0].custom.format", CodeInvalidType, "an object"},
		{"format without type", withUser(custom(`{"grammar":{"syntax":"lark","definition":"x"}}`)), "tools[0].custom.format.type", CodeMissingParameter, ""},
		{"format of another type", withUser(custom(`{"type":"json_schema"}`)), "tools[0].custom.format.type", CodeInvalidValue, `"json_schema"`},
		{"grammar without syntax", withUser(custom(`{"type":"grammar","grammar":{"definition":"x"}}`)), "tools[0].custom.format.grammar.syntax", CodeMissingParameter, ""},
		{"grammar of another syntax", withUser(custom(`{"type":"grammar","grammar":{"syntax":"gbnf","definition":"x"}}`)), "tools[0].custom.format.grammar.syntax", CodeInvalidValue, `"gbnf"`},
		{"grammar without definition", withUser(custom(`{"type":"grammar","grammar":{"syntax":"regex"}}`)), "tools[0].custom.format.grammar.definition", CodeMissingParameter, ""},
		{"long grammar", withUser(custom(`{"type":"grammar","grammar":{"definition":"` + strings.Repeat("x", 5000) + `","syntax":"regex"}}`)), "tools[0].custom.format.grammar.definition", CodeInvalidValue, "--limit pattern-bytes=N"},
		{"long flat grammar", withUser(`"tools":[{"type":"custom","name":"f","format":{"type":"grammar","definition":"` + strings.Repeat("x", 70000) + `","syntax":"lark"}}]`), "tools[0].format.definition", CodeInvalidValue, "--limit grammar-bytes=N"},
		{"name of a tool beyond ASCII", withUser(`"functions":[{"name":"café"}]`), "functions[0].name", CodeInvalidValue, "letters"},
		{"name of a custom tool", withUser(`"tools":[{"type":"custom","custom":{"name":"a/b"}}]`), "tools[0].custom.name", CodeInvalidValue, "letters"},
		{"too many choices", withUser(`"n":129`), "n", CodeInvalidValue, "at most 128 expected, found 129; the server's --limit choices=N allows more"},
		{"too many stop strings", withUser(`"stop":["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"]`), "stop", CodeInvalidValue, "--limit stop-strings=N"},
		{"tools of one name", withUser(`"tools":[` + tool + `,` + tool + `]`), "tools[1].function.name", CodeInvalidValue, "twice"},
		{"name of the wrong type", withUser(`"tools":[{"type":"function","function":{"name":1}}]`), "tools[0].function.name", CodeInvalidType, ""},
		{"parameters of the wrong type", withUser(`"tools":[{"type":"function","function":{"name":"f","parameters":"{}"}}]`), "tools[0].function.parameters", CodeInvalidType, ""},
		{"tool choice", withUser(`"tool_choice":"always"`), "tool_choice", CodeInvalidValue, `"always"`},
		{"required without tools", withUser(`"tool_choice":"required"`), "tool_choice", CodeInvalidValue, "no tools"},
		{"named tool unknown", withUser(`"tools":[` + tool + `],"tool_choice":{"type":"function","function":{"name":"g"}}`), "tool_choice", CodeInvalidValue, `"g"`},
		{"allowed tool unknown", withUser(`"tools":[` + tool + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"g"}}]}}`), "tool_choice", CodeInvalidValue, `"g"`},
		{"allowed tools without mode", withUser(`"tools":[` + tool + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[` + tool + `]}}`), "tool_choice", CodeInvalidValue, "mode"},
		{"tool choice without name", withUser(`"tools":[` + tool + `],"tool_choice":{"type":"function"}`), "tool_choice.function.name", CodeMissingParameter, ""},
		{"tool choice of text without name", withUser(`"tools":[` + tool + `],"tool_choice":{"type":"custom"}`), "tool_choice.custom.name", CodeMissingParameter, ""},
		{"function_call without name", withUser(`"tools":[` + tool + `],"function_call":{}`), "function_call.name", CodeMissingParameter, ""},
		{"tool choice of a built-in", withUser(`"tool_choice":{"type":"code_interpreter"}`), "tool_choice.type", CodeUnsupported, ""},
		{"tool choice of a server without label", withUser(`"tools":[{"type":"mcp","server_label":"a"}],"tool_choice":{"type":"mcp"}`), "tool_choice.server_label", CodeMissingParameter, ""},
		{"allowed tool of a server", withUser(`"tools":[` + tool + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"web_search"}]}}`), "tool_choice.type", CodeUnsupported, ""},
		{"effort", withUser(`"reasoning_effort":"extreme"`), "reasoning_effort", CodeInvalidValue, `"extreme"`},
		{"nested effort", withUser(`"reasoning":{"effort":"extreme"}`), "reasoning.effort", CodeInvalidValue, ""},
		{"budget", withUser(`"thinking_token_budget":-1`), "thinking_token_budget", CodeInvalidValue, ""},
		{"template arguments", withUser(`"chat_template_kwargs":[]`), "chat_template_kwargs", CodeInvalidType, ""},
		{"metadata", withUser(`"metadata":{"a":1}`), "metadata.a", CodeInvalidType, ""},
		{"field without effect, wrong type", withUser(`"store":"yes"`), "store", CodeInvalidType, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := chat(tc.body, limits.Defaults())
			checkError(t, err, tc.param, tc.code, tc.message)
		})
	}
}

// custom is a list of one custom tool with a format.
func custom(format string) string {
	return `"tools":[{"type":"custom","custom":{"name":"f","format":` + format + `}}]`
}

func checkError(t *testing.T, err error, param, code, message string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got %v, want an *Error", err)
	}
	if e.Param != param || e.Code != code || !strings.Contains(e.Message, message) || e.Type != TypeInvalidRequest {
		t.Errorf("got %+v\nwant param %q, code %q, message with %q", e, param, code, message)
	}
}

func TestCompletionErrors(t *testing.T) {
	for _, tc := range []struct{ name, body, param, code, message string }{
		{"no prompt", `{}`, "prompt", CodeMissingParameter, ""},
		{"empty list", `{"prompt":[]}`, "prompt", CodeInvalidValue, "at least one"},
		{"empty string", `{"prompt":""}`, "prompt", CodeInvalidValue, "prompt 0 is empty"},
		{"empty among others", `{"prompt":["a",""]}`, "prompt", CodeInvalidValue, "prompt 1 is empty"},
		{"empty ids", `{"prompt":[[1],[]]}`, "prompt", CodeInvalidValue, "prompt 1 is empty"},
		{"negative id", `{"prompt":[1,-1]}`, "prompt[1]", CodeInvalidValue, "no token id"},
		{"mixed", `{"prompt":["a",1]}`, "prompt[1]", CodeInvalidType, ""},
		{"ids and lists", `{"prompt":[1,[2]]}`, "prompt[1]", CodeInvalidType, ""},
		{"object", `{"prompt":{}}`, "prompt", CodeInvalidType, ""},
		{"null inside", `{"prompt":[null]}`, "prompt[0]", CodeInvalidType, ""},
		{"nothing to do", `{"prompt":"a","max_tokens":0}`, "max_tokens", CodeInvalidValue, ""},
		{"suffix", `{"prompt":"a","suffix":"b"}`, "suffix", CodeUnsupported, ""},
		{"best_of", `{"prompt":"a","n":3,"best_of":2}`, "best_of", CodeInvalidValue, ""},
		{"best_of streamed", `{"prompt":"a","best_of":2,"stream":true}`, "best_of", CodeInvalidValue, "stream"},
		{"min over default max", `{"prompt":"a","min_tokens":17}`, "min_tokens", CodeInvalidValue, ""},
		{"logprobs", `{"prompt":"a","logprobs":21}`, "logprobs", CodeInvalidValue, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := completion(tc.body, limits.Defaults())
			checkError(t, err, tc.param, tc.code, tc.message)
		})
	}
	for _, body := range []string{`{"prompt":"a","max_tokens":0,"echo":true}`, `{"prompt":"a","best_of":1,"stream":true}`, `{"prompt":"a","n":2,"best_of":3,"suffix":""}`} {
		if _, err := completion(body, limits.Defaults()); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// Each numeric field at and beyond its bounds, and every wrong type.
func TestSEC13Boundaries(t *testing.T) {
	const top = 1<<31 - 1
	fields := []struct {
		name     string
		min, max float64
		whole    bool
		with     string
	}{
		{"temperature", 0, 2, false, ""}, {"top_p", 0, 1, false, ""}, {"top_k", -1, top, true, ""}, {"min_p", 0, 1, false, ""},
		{"frequency_penalty", -2, 2, false, ""}, {"presence_penalty", -2, 2, false, ""}, {"repetition_penalty", 1e-300, 1000, false, ""},
		{"n", 1, 128, true, ""}, {"max_tokens", 1, 1 << 62, true, ""}, {"max_completion_tokens", 1, 1 << 62, true, ""}, {"min_tokens", 0, 1 << 62, true, ""},
		{"seed", -1 << 62, 1 << 62, true, ""}, {"top_logprobs", 0, 20, true, `,"logprobs":true`}, {"prompt_logprobs", 0, 20, true, ""},
		{"truncate_prompt_tokens", -1, top, true, ""}, {"priority", -1 << 31, top, true, ""}, {"thinking_token_budget", 0, top, true, ""},
	}
	cases := 0
	for _, f := range fields {
		values := []string{"-1", "0", "1", "2147483648", "9223372036854775807", "9223372036854775808", "1e308", "-1e308", "1e999", "0.5", "-0", "1e-400",
			`"1"`, `""`, "true", "[]", "{}", "[1]", `{"a":1}`, `"` + strings.Repeat("9", 5000) + `"`, strings.Repeat("9", 5000),
			fmt.Sprintf("%.0f", f.min), fmt.Sprintf("%.0f", f.max), fmt.Sprintf("%.0f", f.min-1), fmt.Sprintf("%.0f", f.max+1), "null"}
		for _, v := range values {
			cases++
			_, err := chat(withUser(`"`+f.name+`":`+v+f.with), limits.Defaults())
			var n float64
			got, _ := fmt.Sscanf(v, "%g", &n)
			number := got == 1 && len(v) < 100 && strings.ContainsRune("-0123456789", rune(v[0]))
			if strings.HasPrefix(f.name, "max_") && n == -1 { // no bound, as other servers write it
				n = 1
			}
			fits := (number && n >= f.min && n <= f.max && !(f.whole && n != float64(int64(n)))) || v == "null"
			e, typed := errors.AsType[*Error](err)
			if err != nil && (!typed || e.Param != f.name || e.Type != TypeInvalidRequest || len(e.Message) > 200) {
				t.Errorf("%s = %.40s: error %v", f.name, v, err)
			}
			if inside := (f.max >= 1<<62 && n > 1<<61) || (f.min <= -1<<62 && n < -1<<61); !inside && fits != (err == nil) {
				t.Errorf("%s = %.40s: error %v, want an error: %v", f.name, v, err, !fits)
			}
		}
	}
	if cases < 400 {
		t.Errorf("%d cases", cases)
	}
	t.Logf("SEC-13: %d fields with %d values: accepted within their bounds, refused beyond with the field's name", len(fields), cases)
}

// Each limit that this package enforces: what it allows is accepted, one more is
// refused under its name.
func TestLimits(t *testing.T) {
	repeat := func(s, sep string, n int64) string {
		return strings.TrimSuffix(strings.Repeat(s+sep, int(n)), sep)
	}
	members := func(value string, n int64) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":%s,`, 100+i, value)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	tool := func(name, parameters string) string {
		return `{"type":"function","function":{"name":"` + name + `","parameters":` + parameters + `}}`
	}
	tools := func(n int64) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(tool(fmt.Sprint("f", i), "{}") + ",")
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	prompt := func(s string) string { return `{"prompt":` + s + `}` }
	for _, tc := range []struct {
		id   limits.ID
		at   int64
		body func(n int64) string
	}{
		{limits.RequestBody, 5000, func(n int64) string { return withUser(``) + strings.Repeat(" ", int(n)-len(withUser(``))) }},
		{limits.JSONDepth, 10, func(n int64) string {
			return withUser(`"x":` + strings.Repeat("[", int(n)-1) + strings.Repeat("]", int(n)-1))
		}},
		{limits.Members, 20, func(n int64) string { return withUser(members("0", n-1)) }},
		{limits.Messages, 3, func(n int64) string {
			return `{"messages":[` + repeat(`{"role":"user","content":"a"}`, ",", n) + `]}`
		}},
		{limits.ContentParts, 3, func(n int64) string {
			return `{"messages":[{"role":"user","content":[` + repeat(`{"type":"text","text":"a"}`, ",", n) + `]}]}`
		}},
		{limits.Prompts, 3, func(n int64) string { return prompt(`[` + repeat(`"a"`, ",", n) + `]`) }},
		{limits.TokenIDs, 3, func(n int64) string { return prompt(`[` + repeat(`1`, ",", n) + `]`) }},
		{limits.Tools, 3, func(n int64) string { return withUser(`"tools":[` + tools(n) + `]`) }},
		{limits.ToolBytes, 200, func(n int64) string {
			one := "[" + tool("f", "{}") + "]"
			return withUser(`"tools":` + one[:1] + strings.Repeat(" ", int(n)-len(one)) + one[1:])
		}},
		{limits.ToolName, 5, func(n int64) string { return withUser(`"tools":[` + tool(repeat("f", "", n), "{}") + `]`) }},
		{limits.SchemaBytes, 30, func(n int64) string {
			return withUser(`"tools":[` + tool("f", `{"a":"`+repeat("x", "", n-8)+`"}`) + `]`)
		}},
		{limits.SchemaDepth, 6, func(n int64) string {
			return withUser(`"guided_json":` + strings.Repeat(`{"a":`, int(n)) + "1" + strings.Repeat("}", int(n)))
		}},
		{limits.SchemaNodes, 20, func(n int64) string { return withUser(`"guided_json":{` + members("0", n) + `}`) }},
		{limits.SchemaNodes, 20, func(n int64) string {
			return withUser(`"guided_json":"{` + strings.ReplaceAll(members("0", n), `"`, `\"`) + `}"`)
		}},
		{limits.GrammarBytes, 9, func(n int64) string { return withUser(`"guided_grammar":"` + repeat("a", "", n) + `"`) }},
		{limits.PatternBytes, 9, func(n int64) string { return withUser(`"guided_regex":"` + repeat("a", "", n) + `"`) }},
		{limits.StopStrings, 3, func(n int64) string { return withUser(`"stop":[` + repeat(`"a"`, ",", n) + `]`) }},
		{limits.StopBytes, 7, func(n int64) string { return withUser(`"stop":"` + repeat("a", "", n) + `"`) }},
		{limits.LogitBias, 3, func(n int64) string { return withUser(`"logit_bias":{` + members("1", n) + `}`) }},
		{limits.Choices, 3, func(n int64) string { return withUser(fmt.Sprintf(`"n":%d`, n)) }},
		{limits.TopLogprobs, 3, func(n int64) string { return withUser(fmt.Sprintf(`"logprobs":true,"top_logprobs":%d`, n)) }},
		{limits.MetadataPairs, 3, func(n int64) string { return withUser(`"metadata":{` + members(`"v"`, n) + `}`) }},
		{limits.MetadataKey, 5, func(n int64) string { return withUser(`"metadata":{"` + repeat("k", "", n) + `":"v"}`) }},
		{limits.MetadataValue, 5, func(n int64) string { return withUser(`"metadata":{"k":"` + repeat("v", "", n) + `"}`) }},
	} {
		t.Run(tc.id.String(), func(t *testing.T) {
			lim := limits.Defaults()
			lim[tc.id] = tc.at
			decode := func(n int64) error {
				body := tc.body(n)
				if strings.HasPrefix(body, `{"prompt"`) {
					_, err := completion(body, lim)
					return err
				}
				_, err := chat(body, lim)
				return err
			}
			if err := decode(tc.at); err != nil {
				t.Errorf("at the limit: %v", err)
			}
			err := decode(tc.at + 1)
			if e, ok := errors.AsType[*Error](err); !ok || e.Limit != tc.id.String() || !strings.Contains(e.Message, fmt.Sprint(tc.at)) {
				t.Errorf("beyond the limit: %v (limit %q)", err, func() string {
					if e != nil {
						return e.Limit
					}
					return ""
				}())
			}
		})
	}
	lim := limits.Defaults()
	lim[limits.TopLogprobs] = limits.TopLogprobs.Info().Max
	if _, err := chat(withUser(`"logprobs":true,"top_logprobs":-1`), lim); err != nil {
		t.Errorf("the whole vocabulary, switched on: %v", err)
	}
}

func TestErrorBodies(t *testing.T) {
	for _, tc := range []struct {
		name string
		e    Error
		want string
	}{
		{"all", Error{Message: "m\n", Type: TypeServer, Param: "p", Code: CodeInternal}, `{"error":{"message":"p: m\n","type":"server_error","param":"p","code":"internal_error"}}`},
		{"nulls", Error{Message: "m", Type: TypeInvalidRequest}, `{"error":{"message":"m","type":"invalid_request_error","param":null,"code":null}}`},
	} {
		got := string(AppendError(nil, &tc.e))
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}
