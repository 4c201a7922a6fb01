package response

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

func responseOf(t testing.TB, body string) *Request {
	t.Helper()
	r, err := Decode([]byte(body), limits.Defaults(), true)
	if err == nil {
		err = r.Validate(limits.Defaults())
	}
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

// Every field of a request arrives where it should, with its absence told apart.
func TestResponseRequest(t *testing.T) {
	q := responseOf(t, `{"model":"m","input":"Hi","instructions":"","previous_response_id":"resp_1","max_output_tokens":5,"max_tool_calls":6,"parallel_tool_calls":false,
		"reasoning":{"effort":"high","summary":"auto","context":"all_turns"},"text":{"format":{"type":"json_schema","name":"n","schema":{"b":1,"a":2},"strict":true},"verbosity":"low"},
		"top_logprobs":3,"truncation":"auto","continue_final_message":true,"include":["a","b"],"store":true,"background":true,"user":"u","safety_identifier":"s","prompt_cache_key":"k","temperature":0.5,"seed":7,
		"metadata":{"x":"y"},"stream":true,"tool_choice":{"type":"function","name":"f"},"tools":[{"type":"function","name":"f","parameters":{"type":"object"}},
		{"type":"custom","name":"c"},{"type":"namespace","name":"space","description":"d","tools":[{"type":"function","name":"f"},{"type":"custom","name":"g"}]}]}`)
	for name, pair := range map[string][2]any{
		"model": {q.Model, "m"}, "instructions": {*q.Instructions, ""}, "previous": {q.Previous, "resp_1"}, "most": {*q.MaxOutputTokens, int64(5)}, "calls": {*q.MaxToolCalls, int64(6)},
		"parallel": {*q.ParallelToolCalls, false}, "effort": {q.Effort, "high"}, "summary": {q.Summary, "auto"}, "context": {q.Context, "all_turns"}, "verbosity": {q.Verbosity, "low"},
		"schema": {string(q.ResponseFormat.JSONSchema.Schema), `{"b":1,"a":2}`}, "strict": {q.ResponseFormat.JSONSchema.Strict, true}, "format": {q.ResponseFormat.Type, "json_schema"},
		"logprobs": {*q.TopLogprobs, int64(3)}, "truncation": {q.Truncation, "auto"}, "continue": {q.ContinueFinal, true}, "include": {q.Includes("b") && !q.Includes("c"), true}, "store": {q.Keep(), true},
		"background": {q.Background, true}, "user": {q.User, "u"}, "safety": {q.SafetyID, "s"}, "cache": {q.CacheKey, "k"}, "temperature": {*q.Temperature, 0.5}, "seed": {*q.Seed, int64(7)},
		"metadata": {q.Metadata["x"], "y"}, "stream": {q.Stream, true}, "choice": {q.ToolChoice.Name, "f"}, "input": {q.Input[0].Content[0], "Hi"}, "tools": {len(q.Tools), 4},
		"call":   {q.Called("space__f"), Item{Type: ItemFunctionCall, Name: "f", Namespace: "space"}},
		"custom": {q.Called("c"), Item{Type: ItemCustomCall, Name: "c"}},
		"both":   {q.Called("space__g"), Item{Type: ItemCustomCall, Name: "g", Namespace: "space"}},
		"plain":  {q.Called("f"), Item{Type: ItemFunctionCall, Name: "f"}},
		"shown":  {string(q.Tools[1].Raw), `{"type":"custom","name":"c"}`},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: got %v, want %v", name, pair[0], pair[1])
		}
	}
	q = responseOf(t, `{"input":"Hi","instructions":null,"tools":null,"text":null,"reasoning":null,"store":null}`)
	if q.Instructions != nil || q.MaxOutputTokens != nil || !q.Keep() || q.ParallelToolCalls != nil || q.ResponseFormat != nil {
		t.Errorf("nothing given: %+v", q)
	}
}

// items are one of each kind, as this server gives and keeps them.
func items() []Item {
	return []Item{
		{Type: ItemMessage, ID: "msg_1", Status: StatusCompleted, Role: "user", Content: wire.Content{"one", "two\u2028\n"}},
		{Type: ItemMessage, ID: "msg_2", Status: StatusIncomplete, Role: "assistant", Phase: PhaseAnswer, Content: wire.Content{"x"},
			Logprobs: []wire.TokenLogprob{{Token: "\xe2", Bytes: "\xe2", Logprob: -0.5, Top: []wire.TokenLogprob{{Token: "y", Bytes: "y", Logprob: float32(math.Inf(-1))}}}}},
		{Type: ItemMessage, ID: "msg_3", Role: "assistant", Content: wire.Content{"x"}, Refusal: "no"},
		{Type: ItemReasoning, ID: "rs_1", Status: StatusCompleted, Content: wire.Content{"hm"}, Encrypted: "e"},
		{Type: ItemFunctionCall, ID: "fc_1", Status: StatusCompleted, CallID: "call_1", Name: "f", Namespace: "s", Arguments: `{"a": 1}`},
		{Type: ItemFunctionOutput, ID: "fco_1", Status: StatusCompleted, CallID: "call_1", Content: wire.Content{"out"}},
		{Type: ItemFunctionOutput, ID: "fco_2", Status: StatusCompleted, CallID: "call_1", Content: wire.Content{"a", "b"}},
		{Type: ItemCustomCall, ID: "ctc_1", Status: StatusCompleted, CallID: "call_2", Name: "g", Arguments: "ls"},
		{Type: ItemCustomOutput, ID: "ctco_1", Status: StatusCompleted, CallID: "call_2", Content: wire.Content{"out"}},
		{Type: "local_shell_call", ID: "lsh_1", Status: StatusCompleted, CallID: "call_3", Name: "local_shell", Arguments: `{"command":["ls","a\u2028b"],"timeout_ms":5,"env":{"A":"b"}}`},
		{Type: "local_shell_call", ID: "lsh_2", Status: StatusCompleted, CallID: "call_3", Name: "local_shell", Arguments: `{"command":["ls"]}`},
		{Type: "local_shell_call_output", ID: "lsho_1", Status: StatusCompleted, CallID: "call_3", Content: wire.Content{"out\n"}},
		{Type: "shell_call", ID: "sh_1", Status: StatusInProgress, CallID: "call_4", Name: "shell", Arguments: `{"commands":["ls","pwd"],"max_output_length":9}`},
		{Type: "shell_call_output", ID: "sho_1", Status: StatusCompleted, CallID: "call_4",
			Content: wire.Content{`[{"stdout":"a\nb","stderr":"","outcome":{"type":"exit","exit_code":-1}},{"stdout":"","stderr":"\"","outcome":{"type":"timeout"}}]`}},
		{Type: "apply_patch_call", ID: "apc_1", Status: StatusCompleted, CallID: "call_5", Name: "apply_patch", Arguments: `{"type":"update_file","path":"a b.go","diff":"@@\n-x\n+y\n"}`},
		{Type: "apply_patch_call", ID: "apc_2", Status: StatusCompleted, CallID: "call_5", Name: "apply_patch", Arguments: `{"type":"delete_file","path":"a"}`},
		{Type: "apply_patch_call_output", ID: "apco_1", Status: StatusFailed, CallID: "call_5", Content: wire.Content{"no such file"}},
		{Type: "apply_patch_call_output", ID: "apco_2", Status: StatusCompleted, CallID: "call_5"},
		{Type: ItemMessage, ID: "msg_4", Status: StatusCompleted, Role: "assistant", Phase: PhaseAnswer, Content: wire.Content{"ä 【0†L1】"},
			Citations: []Citation{{Start: 2, End: 8, URL: "https://a.example/x", Title: "A \"x\""}, {Start: 0, End: 1, URL: "https://b.example"}}},
		{Type: ItemWebSearch, ID: "ws_1", Status: StatusCompleted, Served: &Served{Action: Action{Type: "search", Query: "a\u2028", Sources: []string{"https://a.example/x"}}, Results: []Source{{URL: "https://a.example/x", Title: "A"}}}},
		{Type: ItemWebSearch, ID: "ws_2", Status: StatusSearching, Served: &Served{Action: Action{Type: "search", Sources: []string{}}, Results: []Source{}}},
		{Type: ItemWebSearch, ID: "ws_3", Status: StatusFailed, Served: &Served{Action: Action{Type: "open_page", URL: "https://a.example/x"}}},
		{Type: ItemWebSearch, ID: "ws_4", Status: StatusCompleted, Served: &Served{Action: Action{Type: "find_in_page", URL: "https://a.example/x", Pattern: "p"}}},
		{Type: ItemCode, ID: "ci_1", Status: StatusInterpreting, Arguments: "print(1)\n", Served: &Served{Container: "cntr_1"}},
		{Type: ItemCode, ID: "ci_2", Status: StatusIncomplete, Arguments: "x", Served: &Served{Container: "cntr_1", Logs: []string{"1\n"}}},
		{Type: ItemMCPCall, ID: "mcp_1", Status: StatusCompleted, Name: "look", Arguments: `{"a": 1}`, Served: &Served{Label: "l", Output: wire.Ptr(""), Approval: "mcpr_1"}},
		{Type: ItemMCPCall, ID: "mcp_2", Status: StatusFailed, Name: "look", Arguments: "{}", Served: &Served{Label: "l", Error: &CallError{Type: "http_error", Code: 502, Message: "m"}}},
		{Type: ItemMCPCall, ID: "mcp_3", Status: StatusFailed, Name: "look", Arguments: "{}", Served: &Served{Label: "l", Error: &CallError{Type: "mcp_tool_execution_error", Message: "m\n"}}},
		{Type: ItemMCPTools, ID: "mcpl_1", Served: &Served{Label: "l", Tools: []Listed{{Name: "look", Description: "d", Schema: json.RawMessage(`{"type":"object"}`), Annotations: json.RawMessage(`{"readOnlyHint":true}`)}, {Name: "x", Schema: json.RawMessage(`{}`)}}}},
		{Type: ItemMCPTools, ID: "mcpl_2", Served: &Served{Label: "l", Tools: []Listed{}, Problem: "is down"}},
		{Type: ItemApprovalRequest, ID: "mcpr_1", Name: "look", Arguments: `{"a":1}`, Served: &Served{Label: "l"}},
		{Type: ItemApprovalResponse, ID: "mcpa_1", Served: &Served{Approval: "mcpr_1", Approved: true, Reason: "r"}},
		{Type: ItemApprovalResponse, ID: "mcpa_2", Served: &Served{Approval: "mcpr_1"}},
	}
}

// What is written is read back as it was, on one line.
func TestItems(t *testing.T) {
	for _, it := range items() {
		data, err := it.MarshalJSON()
		if err != nil || !json.Valid(data) || bytes.ContainsAny(data, "\n\u2028") {
			t.Fatalf("%s: %s, %v", it.ID, data, err)
		}
		got, err := DecodeItem(data, limits.Defaults())
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		got.parseTexts(data)
		want := it
		if len(it.Logprobs) > 0 { // JSON has neither half characters nor infinity
			want.Logprobs = []wire.TokenLogprob{{Token: "\uFFFD", Bytes: "\xe2", Logprob: -0.5, Top: []wire.TokenLogprob{{Token: "y", Bytes: "y", Logprob: -9999}}}}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", data, got, want)
		}
	}
}

// played returns a response with an item of each kind that models make, and its events.
func played(t testing.TB) (*Response, []byte) {
	q := responseOf(t, `{"input":"Hi","instructions":"a\u2028b","tools":[{"type":"function","name":"f","description":"d\u0085",
		"parameters":{"type": "object",
		"properties":{}}},{"type":"custom","name":"g"}],"include":["message.output_text.logprobs"],"metadata":{"k":"<v>"}}`)
	r := New(Head{ID: "resp_1", Created: 1_700_000_000, Model: "m", Temperature: 1, TopP: 0.9, Truncated: 2, Stored: true}, q)
	r.Seal = func(text string) string { return "sealed " + text }
	dst := r.Tell(r.Tell(nil, "created"), "in_progress")
	dst = r.Add(r.Begin(dst, Item{Type: ItemReasoning, ID: "rs_1"}), "Hm", nil)
	dst = r.End(r.Add(dst, "m", nil), StatusCompleted)
	dst = r.Add(r.Begin(dst, Item{Type: ItemMessage, ID: "msg_1", Role: "assistant", Phase: PhaseCommentary}), "I \"look\"\n", []wire.TokenLogprob{{Token: "I", Bytes: "I", Logprob: -1, Top: []wire.TokenLogprob{}}})
	dst = r.Begin(dst, Item{Type: ItemFunctionCall, ID: "fc_1", CallID: "call_1", Name: "f"})
	dst = r.End(r.Add(r.Add(dst, `{"a"`, nil), `:1}`, nil), StatusCompleted)
	dst = r.Begin(dst, Item{Type: ItemCustomCall, ID: "ctc_1", CallID: "call_2", Name: "g"})
	dst = r.End(r.Add(r.Add(dst, "\"l", nil), "s\"", nil), StatusIncomplete)
	u := wire.NewUsage(10, 4, 7, 3)
	r.Status, r.Incomplete, r.Usage, r.Empty = StatusIncomplete, "max_output_tokens", &u, wire.EmptyLength
	return r, r.Tell(dst, r.Ending())
}

func TestGoldenResponses(t *testing.T) {
	r, events := played(t)
	golden(t, "testdata/response.golden", goldenHead+"\n## events\n"+string(events)+"\n## object\n"+string(r.Append(nil))+"\n")
}

// The usage of steps with tools is written, and read back.
func TestParseStepUsage(t *testing.T) {
	r, _ := played(t)
	r.Usage.Tools = &wire.ToolUsage{Prompt: []int{4, 6}, Cached: []int{0, 4}, Completion: []int{5, 2}, Results: 2}
	object := r.Append(nil)
	want := `"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},"output_tokens":7,` +
		`"output_tokens_details":{"reasoning_tokens":3,"tool_output_tokens":2},"total_tokens":17,"input_tokens_per_turn":[4,6],"cached_tokens_per_turn":[0,4],"output_tokens_per_turn":[5,2]}`
	if !bytes.Contains(object, []byte(want)) {
		t.Errorf("%s\nhas not %s", object, want)
	}
	got, err := Parse(object, limits.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	if again := got.Append(nil); !bytes.Equal(again, object) {
		t.Errorf("got  %s\nwant %s", again, object)
	}
}

// A stored object is read back whole: written again it is the same, and its replay has
// the same texts, items and end as the stream that made it.
func TestParseResponse(t *testing.T) {
	r, events := played(t)
	object := r.Append(nil)
	got, err := Parse(object, limits.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	if again := got.Append(nil); !bytes.Equal(again, object) {
		t.Errorf("got  %s\nwant %s", again, object)
	}
	replay := got.Replay(nil)
	last := func(stream []byte) string {
		all := bytes.Split(bytes.TrimSuffix(stream, []byte("\n\n")), []byte("\n\n"))
		_, data, _ := bytes.Cut(all[len(all)-1], []byte(`,"response":`))
		return string(data)
	}
	if last(replay) != last(events) {
		t.Errorf("the replay ends with %s\nwant %s", last(replay), last(events))
	}
	if n, want := bytes.Count(replay, []byte("output_item.done\n")), len(r.Output); n != want {
		t.Errorf("%d items, want %d", n, want)
	}
	event := string(got.Interrupt(maps.Values(map[int][]byte{}), 12, false, limits.Defaults()))
	if !strings.HasPrefix(event, "event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":12,") || got.Failure == nil || got.Status != StatusFailed {
		t.Errorf("interrupted: %s", event)
	}
	for _, bad := range []string{"", "{", `{"output":[5]}`, `{"output":[{"type":"message"}]}`} {
		if _, err := Parse([]byte(bad), limits.Defaults()); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// Whatever is read gives an object that is JSON, on one line, and that can be read back.
func FuzzDecodeResponse(f *testing.F) {
	for _, seed := range []string{`{"input":"Hi"}`, `{"input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"reasoning","summary":[]}],"text":{"format":{"type":"json_object"}}}`,
		`{"input":[],"tools":[{"type":"namespace","name":"n","description":"","tools":[{"type":"custom","name":"c"}]}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"n__c"}]}}`,
		`{"input":[{"type":"local_shell_call","call_id":"c","action":{"type":"exec","env":{ },"command":["a"]}},{"type":"local_shell_call_output","id":"c","output":"x"},
			{"type":"shell_call_output","call_id":"c","output":[{"stdout":"\u2028","outcome":{"type":"timeout"}}]},{"type":"apply_patch_call","call_id":"d","operation":{"path":"a","type":"delete_file"}},
			{"type":"apply_patch_call_output","call_id":"d","status":"failed"}],"tools":[{"type":"shell","environment":{"type":"local"}},{"type":"local_shell"}],"tool_choice":{"type":"shell"}}`,
		`{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"item_reference","id":"x"}],"metadata":{"a":"b"},"temperature":1e-40}`,
		`{"input":[{"type":"web_search_call","id":"ws_1","status":"odd","action":{"type":"find","pattern":"p","url":"u"},"results":[{"url":"u","x":1}]},{"type":"code_interpreter_call","code":null,"outputs":[{"type":"image","url":"u"},{"type":"logs","logs":"l"}]},
			{"type":"mcp_call","server_label":"l","name":"n","arguments":"{}","output":"o","error":"e"},{"type":"mcp_call","server_label":"l","name":"n","error":{"type":"http_error","code":1,"message":"m"}},
			{"type":"mcp_list_tools","server_label":"l","tools":[{"name":"n","input_schema":{ },"annotations":[]}],"error":{"type":"x","content":[{"text":"t"}]}},
			{"type":"mcp_approval_request","id":"mcpr_1","server_label":"l","name":"n","arguments":"{}"},{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}],
			"tools":[{"type":"browser_search","filters":{ }},{"type":"code_interpreter","container":"c"},{"type":"mcp","server_label":"l","server_url":"https://u:p@h:1/p?q","headers":{"a":"b"},"allowed_tools":["n"],"require_approval":"always"}],
			"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"mcp","server_label":"l","headers":{}},{"type":"web_search"}]}}`} {
		f.Add([]byte(seed))
	}
	lim := limits.Defaults()
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := Decode(body, lim, true)
		sane(t, err)
		if err != nil || q.Validate(lim) != nil {
			return
		}
		r := New(Head{ID: "resp_1", Model: "m", Temperature: 1, TopP: 1}, q)
		for _, it := range q.Input {
			if it.Type != ItemReference {
				r.Output = append(r.Output, it)
			}
		}
		object := r.Append(nil)
		if !json.Valid(object) || bytes.ContainsAny(object, "\n\r\u0085\u2028\u2029") {
			t.Fatalf("%s", object)
		}
		again, err := Parse(object, lim)
		if err != nil {
			t.Fatalf("%s: %v", object, err)
		}
		if got := again.Append(nil); !bytes.Equal(got, object) {
			t.Errorf("got  %s\nwant %s", got, object)
		}
	})
}

// A tool of a namespace is chosen by its name there or by the full one.
func TestChoiceInNamespace(t *testing.T) {
	const tools = `{"input":"a","tools":[{"type":"function","name":"top"},{"type":"namespace","name":"m.x","description":"","tools":[{"type":"function","name":"get.it"},{"type":"custom","name":"sh"},{"type":"function","name":"top"}]},
		{"type":"namespace","name":"n","description":"","tools":[{"type":"function","name":"sh"}]}],"tool_choice":`
	allowed := func(names ...string) string {
		var all []string
		for _, name := range names {
			all = append(all, `{"type":"function","name":"`+name+`"}`)
		}
		return `{"type":"allowed_tools","mode":"auto","tools":[` + strings.Join(all, ",") + `]}`
	}
	for choice, want := range map[string]wire.ToolChoice{
		`{"type":"function","name":"get.it"}`:      {Mode: "named", Name: "m.x__get.it"},
		`{"type":"function","name":"m.x__get.it"}`: {Mode: "named", Name: "m.x__get.it"},
		`{"type":"custom","name":"m.x__sh"}`:       {Mode: "named", Name: "m.x__sh"},
		`{"type":"function","name":"top"}`:         {Mode: "named", Name: "top"},
		allowed("get.it", "top", "n__sh"):          {Mode: "auto", Allowed: []string{"m.x__get.it", "top", "n__sh"}},
		`"auto"`:                                   {Mode: "auto"},
	} {
		if q := responseOf(t, tools+choice+`}`); !reflect.DeepEqual(q.ToolChoice, want) {
			t.Errorf("%s: got %+v, want %+v", choice, q.ToolChoice, want)
		}
	}
	for choice, says := range map[string]string{
		`{"type":"function","name":"sh"}`:    `choose one of ["m.x__sh" "n__sh"]`,
		allowed("top", "sh"):                 "several namespaces",
		`{"type":"function","name":"x__sh"}`: "no tool is named",
		`{"type":"function","name":"it"}`:    "no tool is named",
	} {
		q, err := Decode([]byte(tools+choice+`}`), limits.Defaults(), true)
		if err == nil {
			err = q.Validate(limits.Defaults())
		}
		checkError(t, err, "tool_choice", wire.CodeInvalidValue, says)
	}
}

// A custom tool in a group has its format, and says where.
func TestCustomToolInGroup(t *testing.T) {
	const lark = `{"type":"grammar","syntax":"lark","definition":"a\n"}`
	want := &wire.ToolFormat{Syntax: "lark", Definition: "a\n", Place: "format.definition"}
	q := responseOf(t, `{"input":"a","tools":[{"type":"namespace","name":"n","description":"","tools":[{"type":"custom","name":"f","format":`+lark+`}]}]}`)
	if got := q.Tools[0].Format; !reflect.DeepEqual(got, want) || q.ToolPath(0) != "tools[0].tools[0]" || q.Ignored != nil {
		t.Errorf("in a group: %+v at %s, ignored %q", got, q.ToolPath(0), q.Ignored)
	}
}
