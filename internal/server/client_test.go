package server

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// Calls of tools that clients run, as gpt-oss makes them.
const (
	localCall = `<|channel|>commentary to=functions.local_shell <|constrain|>json<|message|>{"command":["ls","-l"],"env":{"A":"b"}}<|call|>`
	shellCall = `<|channel|>commentary to=functions.shell <|constrain|>json<|message|>{"commands":["ls","pwd"]}<|call|>`
	patchCall = `<|channel|>commentary to=functions.apply_patch <|constrain|>json<|message|>{"type":"update_file","path":"a.go","diff":"@@\n-x\n+y"}<|call|>`

	clientTools = `"tools":[{"type":"local_shell"},{"type":"shell"},{"type":"apply_patch"}]`
	clientItems = `,{"type":"local_shell_call","call_id":"l","action":{"type":"exec","command":["a"],"env":{}}},{"type":"local_shell_call_output","call_id":"l","output":"x"},
		{"type":"shell_call","call_id":"s","action":{"commands":["a","b"],"timeout_ms":7}},{"type":"shell_call_output","call_id":"s","output":[{"stdout":"x","stderr":"","outcome":{"type":"exit","exit_code":0}},
		{"stdout":"","stderr":"y","outcome":{"type":"timeout"}}]},{"type":"apply_patch_call","call_id":"p","operation":{"type":"create_file","path":"a","diff":"+x"}},
		{"type":"apply_patch_call_output","call_id":"p","status":"failed","output":"no"}`
)

// TestClientTools: their calls have items of their own, streamed, stored and replayed; sent
// back or chained they are the same prompt.
func TestClientTools(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reply  string
		want   object
		result string // members of the item of the result
	}{
		{localCall, object{"type": "local_shell_call", "action": object{"type": "exec", "command": []any{"ls", "-l"}, "env": object{"A": "b"}}}, `"output":"total 0"`},
		{shellCall, object{"type": "shell_call", "action": object{"commands": []any{"ls", "pwd"}, "timeout_ms": nil, "max_output_length": nil}, "environment": nil},
			`"output":[{"stdout":"total 0","stderr":"","outcome":{"type":"exit","exit_code":0}}],"max_output_length":100`},
		{patchCall, object{"type": "apply_patch_call", "operation": object{"type": "update_file", "path": "a.go", "diff": "@@\n-x\n+y"}}, `"status":"failed","output":"no such file"`},
	} {
		kind := tt.want["type"].(string)
		g := start(t, inMemory(t, setup{reply: thinks + tt.reply}))
		body := `{"input":[{"role":"user","content":"Hi"}],` + clientTools
		first := responded(t, g.post("/v1/responses", body+`}`))
		live := fold(t, streamed(t, g.post("/v1/responses", body+`,"stream":true}`)))
		if a, b := alike(live), alike(responded(t, g.do("GET", "/v1/responses/"+live["id"].(string), ""))); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: streamed %v\nstored %v", kind, a, b)
		}
		again := fold(t, streamed(t, g.do("GET", "/v1/responses/"+live["id"].(string)+"?stream=true", "")))
		if !reflect.DeepEqual(alike(again), alike(live)) {
			t.Errorf("%s: replayed %v\nwant %v", kind, again, live)
		}
		out := first["output"].([]any)
		call := out[len(out)-1].(object)
		for name, want := range tt.want {
			if !reflect.DeepEqual(call[name], want) {
				t.Errorf("%s: %s is %v, want %v", kind, name, call[name], want)
			}
		}
		id := call["call_id"].(string)
		result := `{"type":"` + kind + `_output","call_id":"` + id + `",` + tt.result + `}`
		items := strings.TrimSuffix(strings.TrimPrefix(mustJSON(t, out), "["), "]")
		sent := g.post("/v1/responses/input_tokens", `{"input":[{"role":"user","content":"Hi"},`+items+`,`+result+`],`+clientTools+`}`)
		chained := g.post("/v1/responses/input_tokens", `{"previous_response_id":"`+first["id"].(string)+`","input":[`+result+`],`+clientTools+`}`)
		if sent.status != http.StatusOK || chained.status != http.StatusOK || sent.header.Get("x-ossian-ignored") != "" {
			t.Errorf("%s: %d %s, ignored %q; chained %d %s", kind, sent.status, sent.body, sent.header.Get("x-ossian-ignored"), chained.status, chained.body)
		}
		if a, b := parsed(t, sent.body)["input_tokens"].(float64), parsed(t, chained.body)["input_tokens"].(float64); a != b {
			t.Errorf("%s: sent back %v tokens, chained %v", kind, a, b)
		}
		stored := responded(t, g.post("/v1/responses", `{"previous_response_id":"`+first["id"].(string)+`","input":[`+result+`],`+clientTools+`}`))
		listed := parsed(t, g.do("GET", "/v1/responses/"+stored["id"].(string)+"/input_items", "").body)
		if valid(t, "ItemList", listed); at(listed, "data", 0, "type") != kind+"_output" {
			t.Errorf("%s: input items %v", kind, listed)
		}
	}
}

// TestClientItemsArranged: a client that arranges the members of an operation anew gets the
// prompt of the chain, also where the sampled ids do not serve: here a call on the channel
// of reasoning, and more than one text of that.
func TestClientItemsArranged(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"reasoning twice":  thinks + thinks + patchCall,
		"call in analysis": thinks + strings.Replace(patchCall, "commentary", "analysis", 1),
	} {
		g := start(t, inMemory(t, setup{reply: reply}))
		ids := func(body string) any {
			t.Helper()
			r := g.post("/tokenize", `{`+clientTools+`,`+body+`}`)
			if r.status != http.StatusOK {
				t.Fatalf("%s: %s", name, r.body)
			}
			return parsed(t, r.body)["tokens"]
		}
		first := responded(t, g.post("/v1/responses", `{"input":"Hi",`+clientTools+`}`))
		out := first["output"].([]any)
		call := out[len(out)-1].(object)
		call["operation"] = json.RawMessage(`{"diff":"@@\n-x\n+y","path":"a.go","type":"update_file"}`)
		result := `{"type":"apply_patch_call_output","call_id":"` + call["call_id"].(string) + `","status":"completed"}`
		items := strings.TrimSuffix(strings.TrimPrefix(mustJSON(t, out), "["), "]")
		want := ids(`"previous_response_id":"` + first["id"].(string) + `","input":[` + result + `]`)
		if got := ids(`"input":[{"role":"user","content":"Hi"},` + items + `,` + result + `]`); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d ids sent back, %d chained", name, len(got.([]any)), len(want.([]any)))
		}
	}
}

// TestChainRecorded: the second prompt begins with the first and what was sampled, whatever
// items that makes.
func TestChainRecorded(t *testing.T) {
	t.Parallel()
	const preamble = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
	for name, tt := range map[string]struct{ reply, more string }{
		"reasoning twice and a call":        {thinks + thinks + patchCall, ""},
		"preambles and a call":              {preamble + preamble + patchCall, ""},
		"preamble, reasoning, call":         {thinks + preamble + thinks + patchCall, ""},
		"reasoning twice, kept, and answer": {thinks + hello, `,"reasoning":{"context":"all_turns"}`},
	} {
		g := start(t, inMemory(t, setup{reply: tt.reply}))
		ids := func(body string) []any {
			t.Helper()
			r := g.post("/tokenize", `{`+clientTools+tt.more+`,`+body+`}`)
			if r.status != http.StatusOK {
				t.Fatalf("%s: %s", name, r.body)
			}
			return parsed(t, r.body)["tokens"].([]any)
		}
		want := ids(`"input":"Hi"`)
		for _, id := range said(tt.reply) {
			want = append(want, float64(id))
		}
		want = want[:len(want)-1] // a prompt has another for <|return|>
		first := responded(t, g.post("/v1/responses", `{"input":"Hi",`+clientTools+tt.more+`}`))
		out := first["output"].([]any)
		next := `{"role":"user","content":"Go on"}`
		if last := out[len(out)-1].(object); last["call_id"] != nil {
			next = `{"type":"apply_patch_call_output","call_id":"` + last["call_id"].(string) + `","status":"completed"}`
		}
		got := ids(`"previous_response_id":"` + first["id"].(string) + `","input":[` + next + `]`)
		if len(got) < len(want) || !reflect.DeepEqual(got[:len(want)], want) {
			t.Errorf("%s: the prompt of %d ids does not begin with the %d that were read and written", name, len(got), len(want))
		}
		items := strings.TrimSuffix(strings.TrimPrefix(mustJSON(t, out), "["), "]")
		if sent := ids(`"input":[{"role":"user","content":"Hi"},` + items + `,` + next + `]`); !reflect.DeepEqual(sent, got) {
			t.Errorf("%s: %d ids sent back, %d chained", name, len(sent), len(got))
		}
	}
}

// Calls and results are shown to the model, and a result finds its call by either id.
func TestClientToolPrompts(t *testing.T) {
	t.Parallel()
	q := qwen(t, "")
	g := start(t, setup{reply: hello})
	tokens := func(g *rig, items string) float64 {
		t.Helper()
		r := g.post("/v1/responses/input_tokens", `{"input":[{"role":"user","content":"Hi"}`+items+`],`+clientTools+`}`)
		if r.status != http.StatusOK {
			t.Fatalf("%s: %s", items, r.body)
		}
		return parsed(t, r.body)["input_tokens"].(float64)
	}
	as := func(id string) string {
		return `,{"type":"local_shell_call","id":"lsh_1","call_id":"c","action":{"type":"exec","command":["ls"],"env":{},"timeout_ms":null}},{"type":"local_shell_call_output",` + id + `,"output":"x"}`
	}
	function := `,{"type":"function_call","call_id":"c","name":"local_shell","arguments":"{\"command\":[\"ls\"]}"},{"type":"function_call_output","call_id":"c","output":"x"}`
	for _, g := range []*rig{g, q} {
		if a, b, c := tokens(g, as(`"call_id":"c"`)), tokens(g, as(`"id":"lsh_1"`)), tokens(g, function); a != b || a != c {
			t.Errorf("%v tokens by call_id, %v by id, %v as a function", a, b, c)
		}
		if with, without := tokens(g, clientItems), tokens(g, ""); with < without+40 {
			t.Errorf("%v tokens with items, %v without", with, without)
		}
	}
	r := g.post("/v1/responses", `{"input":[{"role":"user","content":"Hi"},{"type":"local_shell_call_output","id":"lsh_2","output":"x"}],`+clientTools+`}`)
	wantError(t, r, 400, "invalid_request_error", "invalid_value", "input[1]")
}

// A call that is cut is the function call that it has become.
func TestClientCallIsCut(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: thinks + shellCall}))
	most := len(said(thinks+shellCall)) - 4
	body := `{"input":"Hi","max_output_tokens":` + mustJSON(t, most) + `,` + clientTools
	first := responded(t, g.post("/v1/responses", body+`}`))
	live := fold(t, streamed(t, g.post("/v1/responses", body+`,"stream":true}`)))
	out := first["output"].([]any)
	call := out[len(out)-1].(object)
	arguments, _ := call["arguments"].(string)
	if call["type"] != "function_call" || call["name"] != "shell" || call["status"] != "incomplete" || arguments == "" || !strings.HasPrefix(`{"commands":["ls","pwd"]}`, arguments) {
		t.Errorf("%v", call)
	}
	if a, b := alike(first), alike(live); !reflect.DeepEqual(a, b) {
		t.Errorf("whole %v\nstreamed %v", a, b)
	}
}

// A model that has to call one of them does, with what can be done.
func TestClientToolForced(t *testing.T) {
	t.Parallel()
	for tool, choice := range map[string]string{"shell": `{"type":"shell"}`, "local_shell": `{"type":"allowed_tools","mode":"required","tools":[{"type":"local_shell"}]}`} {
		g := start(t, inMemory(t, setup{next: jabber(said(thinks + `<|channel|>commentary to=functions.` + tool + ` <|constrain|>json<|message|>{"command`))}))
		r := responded(t, g.post("/v1/responses", `{"input":"Hi","max_output_tokens":600,`+clientTools+`,"tool_choice":`+choice+`,"parallel_tool_calls":false}`))
		out := r["output"].([]any)
		if kind := out[len(out)-1].(object)["type"]; kind != tool+"_call" && !(kind == "function_call" && r["status"] == "incomplete") {
			t.Errorf("%s: %v", tool, out)
		}
	}
}
