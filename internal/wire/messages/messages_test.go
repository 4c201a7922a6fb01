package messages

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

func decode(t *testing.T, body string) *Request {
	t.Helper()
	request, err := Decode([]byte(body), limits.Defaults())
	if err == nil {
		err = request.Validate(limits.Defaults(), false)
	}
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return request
}

// asChat is a request, with its messages and tools as those of a chat.
func asChat(messages string) string { return `{"max_tokens":9,"messages":` + messages + `}` }

// TestConversations: what chats have in messages is in blocks here.
func TestConversations(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"text", asChat(`[{"role":"user","content":"Hi"}]`), `[{"role":"user","content":"Hi"}]`},
		{"blocks of text", asChat(`[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]}]`),
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`},
		{"system", `{"max_tokens":9,"system":"Be brief.","messages":[{"role":"user","content":"Hi"}]}`, `[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]`},
		{"system in blocks", `{"max_tokens":9,"system":[{"type":"text","text":"x-anthropic-billing-header: a=1;"},{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":"Hi"}]}`,
			`[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]`},
		{"call and result", asChat(`[{"role":"user","content":"Weather?"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"text","text":"I look."},
			{"type":"tool_use","id":"t1","name":"get_weather","input":{"city": "Paris"}},{"type":"tool_use","id":"t2","name":"get_weather","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"sunny"},{"type":"tool_result","tool_use_id":"t2","is_error":true,"content":[{"type":"text","text":"no city"}]},{"type":"text","text":"And?"}]}]`),
			`[{"role":"user","content":"Weather?"},{"role":"assistant","content":"I look.","reasoning":"hm","tool_calls":[{"id":"t1","type":"function","function":{"name":"get_weather","arguments":"{\"city\": \"Paris\"}"}},{"id":"t2","type":"function","function":{"name":"get_weather","arguments":"{}"}}]},` +
				`{"role":"tool","content":"sunny","tool_call_id":"t1"},{"role":"tool","content":"no city","tool_call_id":"t2"},{"role":"user","content":"And?"}]`},
		{"turns that alternate within one", asChat(`[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"a"},{"type":"tool_use","id":"t1","name":"f","input":{}},{"type":"thinking","thinking":"b"},{"type":"text","text":"c"},{"type":"redacted_thinking","data":"zz"}]}]`),
			`[{"role":"user","content":"x"},{"role":"assistant","content":null,"reasoning":"a","tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"assistant","content":"c","reasoning":"b"}]`},
		{"result without content", asChat(`[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}]`), `[{"role":"tool","content":"","tool_call_id":"t1"}]`},
		{"image in a result", asChat(`[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}]`),
			`[{"role":"tool","content":[{"type":"text","text":"see"},{"type":"text","text":"[image image/png, 3 bytes: this model reads text only]"}],"tool_call_id":"t1"}]`},
		{"document of text", asChat(`[{"role":"user","content":[{"type":"document","title":"d","source":{"type":"text","media_type":"text/plain","data":"Once."}}]}]`), `[{"role":"user","content":"Once."}]`},
		{"arguments that were no object", asChat(`[{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{"INVALID_JSON":"{\"a\":"}}]}]`),
			`[{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"a\":"}}]}]`},
	} {
		got, err := json.Marshal(decode(t, c.body).Chat.Messages)
		if err != nil || string(got) != c.want {
			t.Errorf("%s:\n%s\nwant\n%s %v", c.name, got, c.want, err)
		}
	}
}

// TestOptions: members other than messages, as a chat would have them.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name, more string
		want       wire.ChatRequest
	}{
		{"nothing", ``, wire.ChatRequest{}},
		{"sampling", `,"temperature":0.5,"top_p":0.9,"top_k":5,"stop_sequences":["x"],"stream":true,"metadata":{"user_id":"u"},"service_tier":"auto","thread":{"type":"create"}`,
			wire.ChatRequest{Sampling: wire.Sampling{Temperature: wire.Ptr(0.5), TopP: wire.Ptr(0.9), TopK: wire.Ptr(int64(5)), Stop: []string{"x"}, Stream: true, Metadata: map[string]string{"user_id": "u"}}}},
		{"thinking", `,"thinking":{"type":"enabled","budget_tokens":1024}`, wire.ChatRequest{ThinkingBudget: wire.Ptr(int64(1024)), IncludeReasoning: wire.Ptr(true)}},
		{"adaptive", `,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"}`, wire.ChatRequest{ReasoningEffort: "high", IncludeReasoning: wire.Ptr(true)}},
		{"no thinking", `,"thinking":{"type":"disabled"}`, wire.ChatRequest{ReasoningEffort: "none"}},
		{"choices", `,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}`,
			wire.ChatRequest{ToolChoice: wire.ToolChoice{Mode: "named", Name: "f"}, ParallelToolCalls: wire.Ptr(false)}},
		{"any", `,"tools":[{"type":"custom","name":"f","description":"d","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}},{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"any"}`,
			wire.ChatRequest{ToolChoice: wire.ToolChoice{Mode: "required"}}},
		{"format", `,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`,
			wire.ChatRequest{Sampling: wire.Sampling{ResponseFormat: &wire.ResponseFormat{Type: "json_schema", JSONSchema: &wire.JSONSchema{Name: "response", Schema: json.RawMessage(`{"type":"object"}`), Strict: true}}}}},
	} {
		request := decode(t, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]`+c.more+`}`)
		got, want := request.Chat, c.want
		want.Model, want.MaxTokens, want.Messages, want.Tools = "m", wire.Ptr(int64(9)), got.Messages, got.Tools
		if want.IncludeReasoning == nil {
			want.IncludeReasoning = wire.Ptr(false)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", c.name, got, want)
		}
		for _, tool := range got.Tools {
			if tool.Name != "f" || tool.Type != "function" || string(tool.Parameters) != `{"type":"object"}` {
				t.Errorf("%s: %+v", c.name, tool)
			}
		}
		if strings.Contains(c.more, "web_search") != reflect.DeepEqual(request.Ignored, []string{"tools[1].web_search_20250305"}) {
			t.Errorf("%s: ignored %q", c.name, request.Ignored)
		}
	}
}

// TestRefusals: errors name the member by its path in the request.
func TestRefusals(t *testing.T) {
	user := func(blocks string) string { return asChat(`[{"role":"user","content":[` + blocks + `]}]`) }
	hi := `"messages":[{"role":"user","content":"Hi"}]`
	for _, c := range []struct{ body, param, words string }{
		{`{` + hi + `}`, "max_tokens", "required"},
		{`{"max_tokens":0,` + hi + `}`, "max_tokens", "at least 1"},
		{`{"max_tokens":9}`, "messages", "required"},
		{`{"max_tokens":9,"messages":[]}`, "messages", "at least one"},
		{asChat(`[{"content":"x"}]`), "messages[0].role", "required"},
		{asChat(`[{"role":"tool","content":"x"}]`), "messages[0].role", "user or assistant"},
		{asChat(`[{"role":"user"}]`), "messages[0].content", "required"},
		{user(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`), "messages[0].content[0]", "reads text only"},
		{user(`{"type":"image","source":{"type":"url","url":"https://x"}}`), "messages[0].content[0]", "reads text only"},
		{user(`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AAAA"}}`), "messages[0].content[0]", "reads text only"},
		{user(`{"text":"x"}`), "messages[0].content[0].type", "required"},
		{user(`{"type":"tool_use","id":"a","name":"f","input":{}}`), "messages[0].content[0].type", "no tool_use"},
		{user(`{"type":"tool_result","content":"x"}`), "messages[0].content[0].tool_use_id", "required"},
		{asChat(`[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{}}]}]`), "messages[0].content[0].id", "required"},
		{`{"max_tokens":9,"system":[{"type":"image"}],` + hi + `}`, "system[0].type", "text expected"},
		{`{"max_tokens":9,"temperature":3,` + hi + `}`, "temperature", "2"},
		{`{"max_tokens":9,"stop_sequences":[""],` + hi + `}`, "stop_sequences", ""},
		{`{"max_tokens":9,"thinking":{"type":"on"},` + hi + `}`, "thinking.type", "enabled"},
		{`{"max_tokens":9,"output_config":{"effort":"huge"},` + hi + `}`, "output_config.effort", "expected"},
		{`{"max_tokens":9,"tools":[{"name":"f"}],` + hi + `}`, "tools[0].input_schema", "required"},
		{`{"max_tokens":9,"tools":[{"input_schema":{}}],` + hi + `}`, "tools[0].name", "required"},
		{`{"max_tokens":9,"tools":[{"name":"f","input_schema":{}},{"name":"f","input_schema":{}}],` + hi + `}`, "tools[1].name", "twice"},
		{`{"max_tokens":9,"tool_choice":{"type":"tool","name":"g"},"tools":[{"name":"f","input_schema":{}}],` + hi + `}`, "tool_choice", "g"},
		{`{"max_tokens":9,"thread":{"type":"continue","previous_message_id":"msg_1"},` + hi + `}`, "thread", "send all messages"},
		{`{"max_tokens":9,"tool_choice":{"type":"some"},` + hi + `}`, "tool_choice.type", "auto, any, tool or none"},
		{`{"max_tokens":9,"output_config":{"format":{"type":"xml"}},` + hi + `}`, "output_config.format.type", "json_schema"},
	} {
		request, err := Decode([]byte(c.body), limits.Defaults())
		if err == nil {
			err = request.Validate(limits.Defaults(), false)
		}
		problem, ok := err.(*wire.Error)
		if !ok || !strings.HasPrefix(problem.Param, c.param) || !strings.Contains(problem.Error(), c.words) {
			t.Errorf("%s: %v, want %s: …%s…", c.body, err, c.param, c.words)
		}
	}
	if _, err := Decode([]byte(`{"messages":[{"role":"user","content":"Hi"}]}`), limits.Defaults()); err != nil {
		t.Errorf("a count needs no max_tokens: %v", err)
	}
}

// FuzzDecode: any body gives a request or an error with a message, and whatever a request has
// can be written.
func FuzzDecode(f *testing.F) {
	for _, body := range []string{asChat(`[{"role":"user","content":"Hi"}]`), `{"system":[{"type":"text","text":"a"}],"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"INVALID_JSON":"x"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"data":"A"}}]}]}]}`,
		`{"tools":[{"name":"f","input_schema":{}},{"type":"bash_20250124"}],"tool_choice":{"type":"any"},"thinking":{"type":"enabled","budget_tokens":1}}`, `{"stop_sequences":"a","output_config":{"format":{"type":"json_schema","schema":{}}}}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		request, err := Decode(body, limits.Defaults())
		if err == nil {
			err = request.Validate(limits.Defaults(), true)
		}
		if problem, ok := err.(*wire.Error); err != nil && (!ok || problem.Message == "") {
			t.Fatalf("%v has no words", err)
		}
		if request == nil {
			return
		}
		if len(request.From) != len(request.Chat.Messages) {
			t.Fatalf("%d places of %d messages", len(request.From), len(request.Chat.Messages))
		}
		if _, err := json.Marshal(&request.Chat); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzReply: whatever a model says, events are one line of JSON each, and the message as a whole
// is JSON that a request can repeat.
func FuzzReply(f *testing.F) {
	f.Add("thought", "text\n", `{"a":1}`)
	f.Add("", "", `[1`)
	f.Add("", "", "{\"a\xff\":\"\xfe\"}")
	f.Fuzz(func(t *testing.T, thought, text, input string) {
		reply := Reply{ID: "msg_1", Model: "m"}
		out := reply.Begin(nil)
		out = reply.Add(reply.Start(out, Thinking, "", ""), thought)
		out = reply.Add(reply.Start(out, Text, "", ""), text)
		out = reply.Add(reply.Start(out, ToolUse, "toolu_1", "f"), input)
		usage := wire.NewUsage(3, 1, 2, 0)
		out = reply.Finish(out, &usage)
		for e := range strings.SplitSeq(strings.TrimSuffix(string(out), "\n\n"), "\n\n") {
			kind, data, _ := strings.Cut(e, "\ndata: ")
			var fields struct{ Type string }
			if strings.Contains(data, "\n") || json.Unmarshal([]byte(data), &fields) != nil || kind != "event: "+fields.Type {
				t.Fatalf("event %q", e)
			}
		}
		var whole struct{ Content json.RawMessage }
		if err := json.Unmarshal(reply.Append(nil, &usage), &whole); err != nil {
			t.Fatal(err)
		}
		if _, err := Decode([]byte(asChat(`[{"role":"assistant","content":`+string(whole.Content)+`}]`)), limits.Defaults()); err != nil {
			t.Fatalf("%s cannot be sent back: %v", whole.Content, err)
		}
	})
}
