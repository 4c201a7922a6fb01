package server

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"ossian/internal/chat"
)

const (
	sumPattern = `[1-9]\d?( \+ "[1-9]\d?"){1,3}`
	sumLark    = "start: N (\" + \" \"\\\"\" N \"\\\"\")~1..3\nN: /[1-9][0-9]?/"
)

// customTool is a tool of the chat API that takes text of a form, and flat its other form.
func customTool(name, syntax, definition string) (nested, flat string) {
	text, err := json.Marshal(definition)
	if err != nil {
		panic(err) // strings have a JSON form
	}
	grammar := `"syntax":"` + syntax + `","definition":` + string(text)
	return `{"type":"custom","custom":{"name":"` + name + `","description":"Adds.","format":{"type":"grammar","grammar":{` + grammar + `}}}}`,
		`{"type":"custom","name":"` + name + `","description":"Adds.","format":{"type":"grammar",` + grammar + `}}`
}

// TestCustomTools: text of calls has its form, whatever the model wants to say, in both
// APIs and however the family writes calls; streamed it is the same.
func TestCustomTools(t *testing.T) {
	valid := matching(sumPattern)
	jabbering := map[string]*rig{"harmony": start(t, inMemory(t, setup{next: jabber(said(thinks + "<|channel|>commentary to=functions.sum_up code<|message|>"))})), "tags": qwen(t, "<think>\nHm\n</think>\n\n")}
	for syntax, definition := range map[string]string{"regex": sumPattern, "lark": sumLark} {
		nested, flat := customTool("sum.up", syntax, definition)
		for family, g := range jabbering {
			for _, choice := range []string{`{"type":"custom","custom":{"name":"sum.up"}}`, `"required"`, `{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"custom","custom":{"name":"sum.up"}}]}}`} {
				tools := nested
				if !strings.Contains(choice, "required") || strings.Contains(choice, "allowed") {
					tools += "," + bareTool
				}
				got := g.ask("/v1/chat/completions", `{`+hi+`,"max_tokens":300,"parallel_tool_calls":false,"tools":[`+tools+`],"tool_choice":`+choice+`}`).choices[0]
				text, ok := strings.CutPrefix(strings.Join(got.Calls, ""), "custom:sum.up(")
				if err := valid(text); err != nil || !ok || len(got.Calls) != 1 {
					t.Errorf("%s, %s, %s: %+v: %v", family, syntax, choice, got, err)
				}
			}
			body := `{"input":"Hi","store":false,"max_output_tokens":300,"tools":[` + flat + `,{"type":"custom","name":"other"}],"tool_choice":{"type":"custom","name":"sum.up"}`
			whole := responded(t, g.post("/v1/responses", body+`}`))
			live := fold(t, streamed(t, g.post("/v1/responses", body+`,"stream":true}`)))
			out := whole["output"].([]any)
			call := out[len(out)-1].(object)
			if err := valid(call["input"].(string)); err != nil || call["type"] != "custom_tool_call" || call["name"] != "sum.up" {
				t.Errorf("%s, %s: %v: %v", family, syntax, out, err)
			}
			if a, b := alike(whole), alike(live); !reflect.DeepEqual(a, b) {
				t.Errorf("%s, %s: whole %v\nstreamed %v", family, syntax, a, b)
			}
		}
	}
}

// Text that has no form is what the model meant, as it is written where it can be.
func TestCustomTextStreams(t *testing.T) {
	t.Parallel()
	const header = thinks + "<|channel|>commentary to=functions.shell code<|message|>"
	const tool = `"tools":[{"type":"custom","custom":{"name":"shell"}},{"type":"function","function":{"name":"get"}}]`
	for say, want := range map[string]string{"ls -l \"a b\"\n\tö": "ls -l \"a b\"\n\tö", `{"cmd": "ls \"x\""}`: `ls "x"`, `"ls"`: "ls", `{"a": 1}`: `{"a": 1}`, "": ""} {
		g := start(t, setup{reply: header + say + "<|call|>"})
		got := g.ask("/v1/chat/completions", `{`+hi+`,`+tool+`}`).choices[0]
		if len(got.Calls) != 1 || got.Calls[0] != "custom:shell("+want || got.Finish != "tool_calls" {
			t.Errorf("%q: %+v", say, got)
		}
		events := streamed(t, g.post("/v1/responses", `{"input":"Hi","store":false,"stream":true,"tools":[{"type":"custom","name":"shell"}]}`))
		out := fold(t, events)["output"].([]any)
		if call := out[len(out)-1].(object); call["input"] != want {
			t.Errorf("%q: %v", say, call)
		}
		pieces := 0
		for _, e := range events {
			if e["type"] == "response.custom_tool_call_input.delta" {
				pieces++
			}
		}
		if say[:min(len(say), 1)] == "l" && pieces < 4 {
			t.Errorf("%q came in %d pieces", say, pieces)
		}
	}
}

// A call that is sent back is the text, in both APIs the same prompt, and a chunk of it
// has the form of the tool.
func TestCustomCallsSentBack(t *testing.T) {
	t.Parallel()
	nested, flat := customTool("sum.up", "regex", sumPattern)
	g := start(t, setup{reply: thinks + `<|channel|>commentary to=functions.sum_up code<|message|>1 + "2"<|call|>`})
	chunks := g.post("/v1/chat/completions", `{`+hi+`,"stream":true,"tools":[`+nested+`]}`).body
	for _, part := range []string{`"tool_calls":[{"index":0,"id":"call_`, `"type":"custom","custom":{"name":"sum.up","input":""}}]`, `"tool_calls":[{"index":0,"custom":{"input":"1`, `"finish_reason":"tool_calls"`} {
		if !strings.Contains(chunks, part) {
			t.Errorf("%s is not in %s", part, chunks)
		}
	}
	reply := parsed(t, g.post("/v1/chat/completions", `{`+hi+`,"tools":[`+nested+`]}`).body)
	message := at(reply, "choices", 0, "message").(object)
	if schemas != nil {
		if p := (&schemaCheck{}).check(schemas["CreateChatCompletionResponse"], reply, "reply"); p != "" {
			t.Error(p)
		}
	}
	back, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	id := at(message, "tool_calls", 0, "id").(string)
	tokens := parsed(t, g.post("/tokenize", `{"messages":[{"role":"user","content":"Hi"},`+string(back)+`,{"role":"tool","tool_call_id":"`+id+`","content":"3"}],"tools":[`+nested+`]}`).body)
	items := `[{"role":"user","content":"Hi"},{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Let me think."}]},
		{"type":"custom_tool_call","call_id":"c","name":"sum.up","input":"1 + \"2\""},{"type":"custom_tool_call_output","call_id":"c","output":"3"}]`
	response := parsed(t, g.post("/v1/responses/input_tokens", `{"input":`+items+`,"tools":[`+flat+`]}`).body)
	if tokens["count"] != response["input_tokens"] || tokens["count"] == nil {
		t.Errorf("chat %v, responses %v", tokens["count"], response)
	}
	text := parsed(t, g.post("/detokenize", `{"tokens":`+mustJSON(t, tokens["tokens"])+`}`).body)["prompt"].(string)
	for _, part := range []string{"// Adds.\n// \n// The input has to match this regular expression:\n// " + sumPattern + "\ntype sum_up = (_: string) => any;",
		`to=functions.sum_up<|channel|>commentary code<|message|>1 + "2"<|call|><|start|>functions.sum_up to=assistant<|channel|>commentary<|message|>3<|end|>`} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %s", part, text)
		}
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Grammars that text cannot be held to are refused with where they are.
func TestCustomToolsRefused(t *testing.T) {
	t.Parallel()
	g := start(t, setup{reply: hello})
	plain := start(t, setup{reply: hello, format: plainTemplate(t)})
	for _, c := range []struct{ name, syntax, definition, code, says string }{
		{"regex", "regex", "(a", "invalid_value", "missing closing"},
		{"look-behind", "regex", "(?<=a)b", "unsupported_parameter", "look-behind"},
		{"Lark", "lark", "start: a\n", "invalid_value", "line 1: rule a is not defined"},
		{"other grammar", "lark", `root ::= "a"`, "invalid_value", "line 1"},
		{"large", "lark", "start: " + strings.Repeat(`"abcdefghijklmnop"~1000 `, 300), "unsupported_parameter", "too large"},
	} {
		nested, flat := customTool("f", c.syntax, c.definition)
		for path, body := range map[string]string{
			"tools[1].custom.format.grammar.definition": `{` + hi + `,"tools":[` + bareTool + `,` + nested + `]}`,
			"tools[1].format.definition":                `{"input":"Hi","tools":[{"type":"custom","name":"g"},` + flat + `]}`,
			"tools[0].tools[0].format.definition":       `{"input":"Hi","tools":[{"type":"namespace","name":"n","description":"","tools":[` + flat + `]}]}`,
		} {
			route := "/v1/responses"
			if strings.Contains(path, "custom") {
				route = "/v1/chat/completions"
			}
			r := g.post(route, body)
			wantError(t, r, 400, "invalid_request_error", c.code, path)
			if !strings.Contains(r.body, c.says) {
				t.Errorf("%s: %q is missing: %s", c.name, c.says, r.body)
			}
		}
	}
	nested, flat := customTool("f", "regex", "a")
	wantError(t, plain.post("/v1/chat/completions", `{`+hi+`,"tools":[`+nested+`]}`), 400, "invalid_request_error", "unsupported_parameter", "tools")
	wantError(t, plain.post("/v1/responses", `{"input":"Hi","tools":[`+flat+`]}`), 400, "invalid_request_error", "unsupported_parameter", "tools")
	// That template has no place for tools, of any kind: the model would never be told.
	wantError(t, plain.post("/v1/chat/completions", fmt.Sprintf(`{%s,"tools":[{"type":"custom","custom":{"name":"f"}}]}`, hi)), 400, "invalid_request_error", "unsupported_parameter", "tools")
}

// plainTemplate is a format whose calls nobody knows.
func plainTemplate(t testing.TB) chat.Format {
	t.Helper()
	f, err := chat.New(chat.Facts{Family: "llama", Tokenizer: harmony(), Template: "{% for m in messages %}{{ m.content }}{% endfor %}", Stops: []int32{200_002}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}
