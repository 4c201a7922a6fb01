package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ossian/internal/chat"
)

// Requests on which an earlier state of the server was found wrong from outside, with what is
// right. docs/evidence/outside.md has the whole list.

// TestMessagesNameTheirField: clients that show the message alone show which field is meant.
func TestMessagesNameTheirField(t *testing.T) {
	g := start(t, inMemory(t, setup{reply: hello}))
	for field, more := range map[string]string{"temperature": `"temperature":2.5`, "stream_options": `"stream_options":{"include_usage":true}`, "top_logprobs": `"top_logprobs":3`,
		"max_tokens": `"max_tokens":"4"`, "n": `"n":0`, "logit_bias.a": `"logit_bias":{"a":1}`} {
		code := "invalid_value"
		if field == "max_tokens" {
			code = "invalid_type"
		}
		wantError(t, g.post("/v1/chat/completions", `{`+hi+`,`+more+`}`), 400, "invalid_request_error", code, field)
	}
	wantError(t, g.post("/v1/responses", `{"input":"Hi","background":true,"store":false}`), 400, "invalid_request_error", "invalid_value", "background")
}

// TestNoRunningUsage: running usage is a way to include usage. Who wants none included gets
// none, neither beside the text nor in a chunk of its own.
func TestNoRunningUsage(t *testing.T) {
	g := start(t, setup{reply: hello})
	for path, body := range map[string]string{"/v1/completions": `{"prompt":"12+30"`, "/v1/chat/completions": `{` + hi} {
		r := g.post(path, body+`,"max_tokens":12,"stream":true,"stream_options":{"include_usage":false,"continuous_usage_stats":true}}`)
		chunks := 0
		for line := range strings.SplitSeq(r.body, "\n") {
			data, ok := strings.CutPrefix(line, "data: {")
			if !ok {
				continue
			}
			chunks++
			chunk := parsed(t, "{"+data)
			if choices, _ := chunk["choices"].([]any); chunk["usage"] != nil || len(choices) == 0 {
				t.Errorf("%s: %s", path, line)
			}
		}
		if r.status != 200 || chunks < 3 {
			t.Errorf("%s: %d, %d chunks", path, r.status, chunks)
		}
	}
}

// TestForeignFormsRefused: a form by another server's name that is none is refused with that
// name, not passed over.
func TestForeignFormsRefused(t *testing.T) {
	g := start(t, setup{reply: hello})
	for _, c := range []struct{ body, code, param string }{
		{`"grammar":"root ::= this is (not valid GBNF"`, "invalid_value", "grammar"},
		{`"ebnf":"root ::= ("`, "invalid_value", "ebnf"},
		{`"regex":"(a"`, "invalid_value", "regex"},
		{`"json_schema":{"type":"hiccup"}`, "invalid_json_schema", "json_schema"},
		{`"response_format":{"type":"json_object","schema":{"type":"hiccup"}}`, "invalid_json_schema", "response_format.schema"},
		{`"response_format":{"type":"json_object","schema":123}`, "invalid_type", "response_format.schema"},
	} {
		wantError(t, g.post("/v1/chat/completions", `{`+hi+`,"max_tokens":8,`+c.body+`}`), 400, "invalid_request_error", c.code, c.param)
	}
}

// TestForcedCallsOfAnyTemplate: a call that is asked for by name, or must be strict, comes from
// models without a marker for calls, in chats and in responses.
func TestForcedCallsOfAnyTemplate(t *testing.T) {
	const city = `{"type":"object","properties":{"city":{"enum":["Paris"]}},"required":["city"],"additionalProperties":false}`
	for name, c := range map[string]struct {
		format chat.Format
		member string
		auto   bool // the template shows tools, so that the model may be left to call
	}{"no place for tools": {plainTemplate(t), "arguments", false}, "Llama": {llamaForm(t), "parameters", true}} {
		// What the model would say breaks the schema: the answer has to be held to it.
		g := start(t, inMemory(t, setup{reply: fmt.Sprintf(`{"name": "get_weather", %q: {"city": "Bern"}}<|return|>`, c.member), format: c.format}))
		choices := []string{`"required"`, `{"type":"function","function":{"name":"get_weather"}}`}
		flat := []string{`"required"`, `{"type":"function","name":"get_weather"}`}
		if c.auto {
			choices, flat = append(choices, `"auto"`), append(flat, `"auto"`)
		}
		for i, choice := range choices {
			r := g.post("/v1/chat/completions", fmt.Sprintf(`{%s,"max_tokens":60,"tools":[{"type":"function","function":{"name":"get_weather","strict":true,"parameters":%s}}],"tool_choice":%s}`, hi, city, choice))
			if call, _ := at(parsed(t, r.body), "choices", 0, "message", "tool_calls", 0, "function").(object); r.status != 200 || !called(call) {
				t.Errorf("%s, %s: %d %s", name, choice, r.status, r.body)
			}
			r = g.post("/v1/responses", fmt.Sprintf(`{"input":"Hi","max_output_tokens":60,"tools":[{"type":"function","name":"get_weather","strict":true,"parameters":%s}],"tool_choice":%s}`, city, flat[i]))
			if call, _ := at(parsed(t, r.body), "output", 0).(object); r.status != 200 || !called(call) {
				t.Errorf("%s, %s: %d %s", name, flat[i], r.status, r.body)
			}
		}
	}
}

// TestCallWithinAForm: an answer of a form that is a call is one, also for models without a
// marker for calls.
func TestCallWithinAForm(t *testing.T) {
	g := start(t, setup{reply: "Hello<|return|>", format: llamaForm(t)})
	body := `{` + hi + `,"max_tokens":60,"tools":[` + cityTool + `],"structured_outputs":{"choice":["{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}"]}}`
	r := g.post("/v1/chat/completions", body)
	choice := at(parsed(t, r.body), "choices", 0)
	call, _ := at(choice, "message", "tool_calls", 0, "function").(object)
	if r.status != 200 || !called(call) || at(choice, "message", "content") != nil || at(choice, "finish_reason") != "tool_calls" {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// llamaForm is the format of a model whose template asks for calls as Llama 3.1 writes them.
func llamaForm(t *testing.T) chat.Format {
	t.Helper()
	format, err := chat.New(chat.Facts{Family: "llama", Tokenizer: harmony(), Stops: []int32{200_002},
		Template: `{% if tools %}Respond with JSON: {"name": function name, "parameters": dictionary of argument name and its value}. {{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}`})
	if err != nil {
		t.Fatal(err)
	}
	return format
}

// called reports whether a call is the one that a schema leaves, of get_weather.
func called(call object) bool {
	text, _ := call["arguments"].(string)
	var arguments map[string]string
	return call["name"] == "get_weather" && json.Unmarshal([]byte(text), &arguments) == nil && len(arguments) == 1 && arguments["city"] == "Paris"
}
