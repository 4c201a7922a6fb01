package server

import (
	"reflect"
	"strings"
	"sync"
	"testing"
)

// A request with functions in place of tools gets its call as function_call, whole and
// streamed, and can send it back.
func TestLegacyFunctions(t *testing.T) {
	const functions = `"functions":[{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]`
	g := start(t, setup{reply: calls})
	for _, tt := range []struct{ more, finish string }{{"", "function_call"}, {`,"function_call":"auto"`, "function_call"}, {`,"function_call":{"name":"get_weather"}`, "stop"}} {
		body := `{` + hi + `,` + functions + tt.more
		reply := parsed(t, g.post("/v1/chat/completions", body+`}`).body)
		choice := at(reply, "choices", 0).(object)
		want := object{"name": "get_weather", "arguments": `{"city":"Paris"}`}
		if call := at(choice, "message", "function_call"); !reflect.DeepEqual(call, any(want)) || at(choice, "message", "tool_calls") != nil || choice["finish_reason"] != tt.finish {
			t.Errorf("%s: %v", tt.more, choice)
		}
		streamed, finish := object{}, any(nil)
		for line := range strings.SplitSeq(g.post("/v1/chat/completions", body+`,"stream":true}`).body, "\n") {
			data, ok := strings.CutPrefix(line, "data: {")
			if !ok {
				continue
			}
			chunk := at(parsed(t, "{"+data), "choices", 0).(object)
			if chunk["finish_reason"] != nil {
				finish = chunk["finish_reason"]
			}
			if at(chunk, "delta", "tool_calls") != nil {
				t.Errorf("%s: %s", tt.more, line)
			}
			call, _ := at(chunk, "delta", "function_call").(object)
			for name, text := range call {
				before, _ := streamed[name].(string)
				streamed[name] = before + text.(string)
			}
		}
		if !reflect.DeepEqual(streamed, want) || finish != tt.finish {
			t.Errorf("%s: streamed %v, finish %v", tt.more, streamed, finish)
		}
	}
	back := `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"function_call":{"name":"get_weather","arguments":"{}"}},{"role":"function","name":"get_weather","content":"sunny"}],` + functions + `}`
	if r := g.post("/v1/chat/completions", back); r.status != 200 {
		t.Errorf("sent back: %d %s", r.status, r.body)
	}
}

// What only a model's format can find wrong with functions is said of them, too, and so is
// what is left out of their schemas.
func TestLegacyErrors(t *testing.T) {
	const chats = "/v1/chat/completions"
	t.Parallel()
	g := start(t, setup{reply: hello})
	for _, c := range []struct{ name, path, functions, more, code, param string }{
		{"schema that is none", chats, `{"name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"nothing"}}}}`, `,"function_call":{"name":"f"}`, "invalid_json_schema", "functions[0].parameters"},
		{"schema without a grammar", chats, `{"name":"f"},{"name":"g","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"string","pattern":"(a)\\1"}}}}`, ``, "unsupported_schema", "functions[1].parameters"},
		{"schema that no prompt can have", chats, `{"name":"f","parameters":{"a":1,"a":2}}`, ``, "invalid_value", "functions[0]"},
		{"the same, counted", "/tokenize", `{"name":"f","parameters":{"a":1,"a":2}}`, ``, "invalid_value", "functions[0]"},
	} {
		r := g.post(c.path, `{`+hi+`,"functions":[`+c.functions+`]`+c.more+`}`)
		wantError(t, r, 400, "invalid_request_error", c.code, c.param)
		if strings.Contains(r.body, "tools") {
			t.Errorf("%s: %s", c.name, r.body)
		}
	}
	r := g.post(chats, `{`+hi+`,"functions":[{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string","zzz":1}}}}],"function_call":{"name":"f"}}`)
	if ignored := r.header.Get("X-Ossian-Ignored"); !strings.Contains(ignored, "functions[0].parameters") {
		t.Errorf("ignored: %q, %d %s", ignored, r.status, r.body)
	}
}

// A response that is deleted while it is cancelled, read or listed is gone: no fault of the
// server.
func TestCancelBesideDelete(t *testing.T) {
	t.Parallel()
	u := lengthy()
	u.cost = 0
	g := start(t, inMemory(t, u))
	for range 40 {
		path := "/v1/responses/" + responded(t, g.post("/v1/responses", `{"input":"Hi","background":true}`))["id"].(string)
		var all sync.WaitGroup
		for _, c := range [][2]string{{"POST", "/cancel"}, {"POST", "/cancel"}, {"POST", "/cancel"}, {"DELETE", ""}, {"GET", ""}, {"GET", "/input_items"}} {
			all.Go(func() {
				if r := g.do(c[0], path+c[1], ""); r.status != 200 && r.status != 404 {
					t.Errorf("%s %s: %d %s", c[0], c[1], r.status, r.body)
				}
			})
		}
		all.Wait()
	}
	g.idle()
}

// TestReasoningSummary: who asks for a summary of the reasoning gets it, and may send it
// back as all that is known of the reasoning.
func TestReasoningSummary(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: hello}))
	for _, more := range []string{`,"reasoning":{"summary":"auto"}`, `,"reasoning":{"effort":"low","generate_summary":"detailed"}`} {
		for _, background := range []string{"", `,"background":true`} {
			events := streamed(t, g.post("/v1/responses", `{"input":"Hi","stream":true`+more+background+`}`))
			r := fold(t, events)
			want := []any{object{"type": "summary_text", "text": "Let me think."}}
			if got := at(r, "output", 0, "summary"); !reflect.DeepEqual(got, any(want)) {
				t.Errorf("%s: summary %v", more, got)
			}
			if at(r, "output", 0, "content", 0, "text") != "Let me think." {
				t.Errorf("%s: %v", more, at(r, "output", 0))
			}
			kinds := strings.Join(typesOf(events), " ")
			for _, kind := range []string{"reasoning_summary_part.added", "reasoning_summary_text.delta", "reasoning_summary_text.done", "reasoning_summary_part.done"} {
				if !strings.Contains(kinds, kind) {
					t.Errorf("%s: no event %s", more, kind)
				}
			}
			// As clients do that know summaries alone.
			id := at(r, "output", 0, "id").(string)
			ask := func(content string) any {
				r := g.post("/v1/responses/input_tokens", `{"input":[{"role":"user","content":"Hi"},{"type":"reasoning","id":"`+id+`","summary":[{"type":"summary_text","text":"Let me think."}]`+content+`},
					{"type":"message","role":"assistant","id":"`+at(r, "output", 1, "id").(string)+`","content":[{"type":"output_text","text":"Hello, wörld 🌍!"}]},{"role":"user","content":"And?"}]`+more+`}`)
				return parsed(t, r.body)["input_tokens"]
			}
			if n, whole := ask(""), ask(`,"content":[{"type":"reasoning_text","text":"Let me think."}]`); n != whole || n == nil {
				t.Errorf("%s: %v tokens with the summary alone, %v with the content", more, n, whole)
			}
		}
	}
	if r := responded(t, g.post("/v1/responses", `{"input":"Hi"}`)); len(at(r, "output", 0, "summary").([]any)) != 0 {
		t.Errorf("a summary that nobody asked for: %v", r)
	}
	r := responded(t, g.post("/v1/responses", `{"input":"Hi","text":{"format":{"type":"json_object","schema":{"type":"object"}}}}`))
	if format := at(r, "text", "format").(object); format["type"] != "json_schema" || format["description"] != nil {
		t.Errorf("format %v", format)
	}
	if _, there := at(r, "text", "format").(object)["description"]; !there {
		t.Error("a format without the member description")
	}
}
