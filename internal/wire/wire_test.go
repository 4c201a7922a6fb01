package wire

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ossian/internal/limits"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Fatalf("%s line %d:\ngot  %s\nwant %s", file, i+1, gotLines[i], wantLines[i])
		}
	}
	if len(gotLines) != len(wantLines) {
		t.Fatalf("%s: %d lines, want %d", file, len(gotLines), len(wantLines))
	}
}

// chat decodes and validates a chat request.
func chat(body string, lim *limits.Set) (*ChatRequest, error) {
	r, err := DecodeChat([]byte(body), lim)
	if err != nil {
		return nil, err
	}
	return r, r.Validate(lim)
}

func completion(body string, lim *limits.Set) (*CompletionRequest, error) {
	r, err := DecodeCompletion([]byte(body), lim)
	if err != nil {
		return nil, err
	}
	return r, r.Validate(lim)
}

// withUser is a valid chat request with more members.
func withUser(members string) string {
	return `{"messages":[{"role":"user","content":"hi"}]` + strings.TrimSuffix(","+members, ",") + `}`
}

// Each spelling decodes to what the canonical one does.
func TestSpellings(t *testing.T) {
	assistant := func(members string) string {
		return `{"messages":[{"role":"user","content":"q"},{"role":"assistant",` + members + `}]}`
	}
	const weather = `{"name":"w","description":"d","parameters":{"type":"object","properties":{"z":{},"a":{}}}}`
	for _, tc := range []struct{ name, canonical, spelled string }{
		{"content parts", withUser(``), `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`},
		{"input_text", withUser(``), `{"messages":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]}`},
		{"output_text with annotations", withUser(``), `{"messages":[{"role":"user","content":[{"type":"output_text","annotations":[],"text":"hi"}]}]}`},
		{"white space and escapes", withUser(``), "\n{ \"messages\" : [ {\"\\u0072ole\":\"user\",\t\"content\":\"h\\u0069\"} ] }\r\n"},
		{"null counts as not given", withUser(``), withUser(`"temperature":null,"stop":null,"tools":null,"n":null,"stream_options":null,"max_tokens":null,"logit_bias":null`)},
		{"stop as a string", withUser(`"stop":["x"]`), withUser(`"stop":"x"`)},
		{"whole floats", withUser(`"max_tokens":1000,"n":2`), withUser(`"max_tokens":1e3,"n":2.0`)},
		{"reasoning_content", assistant(`"content":null,"reasoning":"r"`), assistant(`"content":null,"reasoning_content":"r"`)},
		{"thinking", assistant(`"content":null,"reasoning":"r"`), assistant(`"content":null,"thinking":"r"`)},
		{"reasoning_details", assistant(`"content":null,"reasoning":"r\ns"`), assistant(`"content":null,"reasoning_details":[{"type":"reasoning.text","text":"r"},{"type":"x","text":"s","index":1}]`)},
		{"both fields as servers send them", assistant(`"content":null,"reasoning":"r"`), assistant(`"content":null,"reasoning_content":"r","reasoning":"r"`)},
		{"content left out", assistant(`"content":null,"reasoning":"r"`), assistant(`"reasoning":"r"`)},
		{"refusal part", assistant(`"content":[],"refusal":"no"`), assistant(`"content":[{"type":"refusal","refusal":"no"}]`)},
		{"our own message sent back", assistant(`"content":"a","reasoning":"r"`), assistant(`"content":"a","refusal":null,"reasoning":"r","annotations":[],"audio":null,"function_call":null,"tool_calls":null`)},
		{"arguments as an object", assistant(`"content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"b\": 1,\"a\":2}"}}]`),
			assistant(`"content":null,"tool_calls":[{"id":"1","index":0,"type":"function","function":{"name":"f","arguments":{"b": 1,"a":2}}}]`)},
		{"flat tool", withUser(`"tools":[{"type":"function","function":` + weather + `}]`), withUser(`"tools":[{"type":"function",` + weather[1:] + `]`)},
		{"functions", withUser(`"tools":[{"type":"function","function":` + weather + `}]`), withUser(`"functions":[` + weather + `]`)},
		{"no tools", withUser(`"tools":[]`), withUser(``)},
		{"function_call by name", withUser(`"tools":[{"type":"function","function":` + weather + `}],"tool_choice":{"type":"function","function":{"name":"w"}}`), withUser(`"functions":[` + weather + `],"function_call":{"name":"w"}`)},
		{"flat tool choice", withUser(`"tools":[{"type":"function","function":` + weather + `}],"tool_choice":{"type":"function","function":{"name":"w"}}`), withUser(`"functions":[` + weather + `],"tool_choice":{"type":"function","name":"w"}`)},
		{"flat allowed tools", withUser(`"tools":[{"type":"function","function":` + weather + `}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"w"}}]}}`),
			withUser(`"functions":[` + weather + `],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"w"}]}`)},
		{"legacy call and result",
			`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1_0","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","name":"f","tool_call_id":"call_1_0","content":"42"}]}`,
			`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"42"}]}`},
		{"guided_json", withUser(`"structured_outputs":{"json":{"type":"object"}}`), withUser(`"guided_json":{"type":"object"}`)},
		{"guided_regex", withUser(`"structured_outputs":{"regex":"a*"}`), withUser(`"guided_regex":"a*"`)},
		{"guided_choice", withUser(`"structured_outputs":{"choice":["a","b"]}`), withUser(`"guided_choice":["a","b"]`)},
		{"fields without effect", withUser(``), withUser(`"store":true,"verbosity":"low","safety_identifier":"s","prompt_cache_key":"k"`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want, err := chat(tc.canonical, limits.Defaults())
			if err != nil {
				t.Fatal(err)
			}
			got, err := chat(tc.spelled, limits.Defaults())
			if err != nil {
				t.Fatal(err)
			}
			if a, b := encoded(t, got), encoded(t, want); a != b {
				t.Errorf("got  %s\nwant %s", a, b)
			}
			if got.Ignored != nil {
				t.Errorf("ignored %q", got.Ignored)
			}
		})
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Every field arrives.
func TestFields(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"developer","content":["x"],"name":"n"}],
"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"frequency_penalty":-1,"presence_penalty":1,"repetition_penalty":1.1,
"logit_bias":{"5":-100,"7":2.5},"seed":-9,"n":2,"stop":["a","b"],"include_stop_str_in_output":true,"stop_token_ids":[1],"bad_words":["w"],
"allowed_token_ids":[3,4],"ignore_eos":true,"min_tokens":1,"skip_special_tokens":false,"spaces_between_special_tokens":false,"logprob_token_ids":[8],
"echo":true,"add_special_tokens":false,"truncate_prompt_tokens":-1,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},
"priority":-2,"cache_salt":"s","request_id":"r","return_token_ids":true,"return_tokens_as_token_ids":true,
"response_format":{"type":"json_schema","json_schema":{"name":"N","description":"D","schema":{"b":1,"a":2},"strict":true}},
"metadata":{"k":"v"},"user":"u","service_tier":"auto","max_completion_tokens":9,"max_tokens":8,"logprobs":true,"top_logprobs":3,
"add_generation_prompt":false,"continue_final_message":true,"tools":[{"type":"web_search"}],"tool_choice":"auto","parallel_tool_calls":false,
"reasoning_effort":"high","include_reasoning":false,"thinking_token_budget":5,"reasoning":{"effort":"low","exclude":true,"enabled":true,"max_tokens":4},
"chat_template_kwargs":{"z":1,"a":2},"web_search_options":{},"prediction":{"type":"content","content":"p"}}`
	text := strings.Replace(body, `["x"]`, `[{"type":"text","text":"x"},{"type":"text","text":"y"}]`, 1)
	r, err := DecodeChat([]byte(text), limits.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(*r)
	for i := range v.NumField() {
		checkSet(t, v.Type().Field(i), v.Field(i))
	}
	if got := *r.MaxOutput(); got != 9 {
		t.Errorf("max output %d, want 9: max_completion_tokens wins", got)
	}
	if r.Effort() != "high" || r.ShowReasoning() || *r.ThinkingTokens() != 5 || r.Choices() != 2 {
		t.Errorf("effort %q, show %v, thinking %d, choices %d", r.Effort(), r.ShowReasoning(), *r.ThinkingTokens(), r.Choices())
	}
	if got := string(r.TemplateArgs); got != `{"z":1,"a":2}` {
		t.Errorf("template arguments %s", got)
	}
	if got := string(r.ResponseFormat.JSONSchema.Schema); got != `{"b":1,"a":2}` {
		t.Errorf("schema %s", got)
	}
	var same, direct any
	if err := json.Unmarshal([]byte(encoded(t, r)), &same); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &direct); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(same, direct) {
		t.Errorf("encoded again:\ngot  %v\nwant %v", same, direct)
	}
}

func checkSet(t *testing.T, f reflect.StructField, v reflect.Value) {
	t.Helper()
	if f.Anonymous {
		for i := range v.NumField() {
			checkSet(t, v.Type().Field(i), v.Field(i))
		}
		return
	}
	if v.IsZero() && !slices.Contains([]string{"Ignored", "Structured", "PromptLogprobs", "Legacy"}, f.Name) { // excluded by others
		t.Errorf("%s is not set", f.Name)
	}
}

func TestReasoningOptions(t *testing.T) {
	for _, tc := range []struct {
		name, members, effort string
		show                  bool
		budget                int64 // -1 = none
	}{
		{"nothing", ``, "", true, -1},
		{"exclude", `"reasoning":{"exclude":true}`, "", false, -1},
		{"include_reasoning wins", `"reasoning":{"exclude":true},"include_reasoning":true`, "", true, -1},
		{"disabled", `"reasoning":{"enabled":false}`, "none", true, -1},
		{"enabled", `"reasoning":{"enabled":true}`, "", true, -1},
		{"effort", `"reasoning":{"effort":"low","enabled":false}`, "low", true, -1},
		{"budget", `"reasoning":{"max_tokens":0}`, "", true, 0},
		{"budget wins", `"reasoning":{"max_tokens":9},"thinking_token_budget":3`, "", true, 3},
	} {
		r, err := chat(withUser(tc.members), limits.Defaults())
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		budget := int64(-1)
		if n := r.ThinkingTokens(); n != nil {
			budget = *n
		}
		if r.Effort() != tc.effort || r.ShowReasoning() != tc.show || budget != tc.budget {
			t.Errorf("%s: effort %q, show %v, budget %d", tc.name, r.Effort(), r.ShowReasoning(), budget)
		}
	}
}

// Tools keep the caller's member order, which prompts depend on.
func TestToolOrder(t *testing.T) {
	const tool = `{"type":"function","function":{"strict":true,"parameters":{"z":{"b":1,"a":1.50},"y":2},"name":"f","x-extra":[1]}}`
	r, err := chat(withUser(`"tools":[ `+tool+` ,{"name":"g","parameters":{"q":1,"p":2},"type":"function"}]`), limits.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Tools[0].Raw); got != tool {
		t.Errorf("got  %s\nwant %s", got, tool)
	}
	if got, want := string(r.Tools[0].Parameters), `{"z":{"b":1,"a":1.50},"y":2}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := string(r.Tools[1].Raw), `{"type":"function","function":{"name":"g","parameters":{"q":1,"p":2}}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if r.Tools[0].Name != "f" || !r.Tools[0].Strict || r.Tools[1].Name != "g" {
		t.Errorf("%+v", r.Tools)
	}
}

// Custom tools and the grammars of their input, nested and flat.
func TestCustomTools(t *testing.T) {
	grammar := func(syntax, place string) *ToolFormat {
		return &ToolFormat{Syntax: syntax, Definition: "a\n", Place: place}
	}
	const lark = `{"type":"grammar","syntax":"lark","definition":"a\n"}`
	for _, tt := range []struct {
		name, tools string
		want        Tool
	}{
		{"chat", custom(`{"type":"grammar","grammar":{"syntax":"regex","definition":"a\n"}}`), Tool{Type: "custom", Name: "f", Format: grammar("regex", "custom.format.grammar.definition")}},
		{"text", custom(`{"type":"text"}`), Tool{Type: "custom", Name: "f"}},
		{"null", custom(`null`), Tool{Type: "custom", Name: "f"}},
		{"flat", `"tools":[{"name":"f","format":` + lark + `,"description":"d","type":"custom"}]`, Tool{Type: "custom", Name: "f", Description: "d", Format: grammar("lark", "format.definition")}},
		{"nested, flat grammar", custom(lark), Tool{Type: "custom", Name: "f", Format: grammar("lark", "custom.format.definition")}},
		{"of a function", `"tools":[{"type":"function","function":{"name":"f","format":5}}]`, Tool{Type: "function", Name: "f"}},
		{"of another tool", `"tools":[{"type":"zork","format":5}]`, Tool{Type: "zork"}},
	} {
		r, err := chat(withUser(tt.tools), limits.Defaults())
		if err != nil || len(r.Tools) != 1 {
			t.Errorf("%s: %+v, %v", tt.name, r, err)
			continue
		}
		if r.Tools[0].Raw = nil; !reflect.DeepEqual(r.Tools[0], tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, r.Tools[0], tt.want)
		}
	}
}

func TestIgnored(t *testing.T) {
	r, err := chat(`{"messages":[{"role":"user","content":"a","x":{"messages":1}},{"role":"user","content":"b","x":1}],"chat_id":[1,2],"bad name":1,"stream":true,"stream_options":{"y":2}}`, limits.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"messages[0].x", "chat_id", "stream_options.y"}; !slices.Equal(r.Ignored, want) {
		t.Errorf("got %q, want %q", r.Ignored, want)
	}
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `"f%d":0,`, i)
	}
	r, err = chat(withUser(many.String()+`"user":"u"`), limits.Defaults())
	if err != nil || len(r.Ignored) != maxIgnored {
		t.Errorf("%d names remembered, error %v", len(r.Ignored), err)
	}
}

func TestCompletionForms(t *testing.T) {
	for _, tc := range []struct {
		name, prompt string
		want         []Prompt
	}{
		{"string", `"a"`, []Prompt{{Text: "a"}}},
		{"strings", `["a","b"]`, []Prompt{{Text: "a"}, {Text: "b"}}},
		{"ids", `[1,2]`, []Prompt{{IDs: []int32{1, 2}}}},
		{"lists of ids", `[[1],[2,3]]`, []Prompt{{IDs: []int32{1}}, {IDs: []int32{2, 3}}}},
	} {
		r, err := completion(`{"prompt":`+tc.prompt+`}`, limits.Defaults())
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if !reflect.DeepEqual(r.Prompts, tc.want) || r.MaxOutput() != 16 || r.Choices() != 1 {
			t.Errorf("%s: %+v", tc.name, r)
		}
	}
}

func BenchmarkDecodeChat(b *testing.B) {
	body := []byte(withUser(`"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0.7,"max_tokens":256,"tools":[` +
		`{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}],"x":` + `"` + strings.Repeat("word ", 2000) + `"`))
	lim := limits.Defaults()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := DecodeChat(body, lim); err != nil {
			b.Fatal(err)
		}
	}
}
