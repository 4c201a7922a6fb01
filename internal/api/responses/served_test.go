package responses

import (
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/api"
	"ossian/internal/chat"
	"ossian/internal/generate"
	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/store"
	"ossian/internal/tools"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// The server's tools of these tests.
var (
	browser = &tools.Offer{Namespace: tools.Namespace{Name: "browser", Tools: []tools.Tool{{Name: "search"}, {Name: "open"}, {Name: "find"}}}, Kind: tools.Browser}
	python  = &tools.Offer{Namespace: tools.Namespace{Name: "python"}, Kind: tools.Python}
	remote  = &tools.Offer{Namespace: tools.Namespace{Name: "its_name", Tools: []tools.Tool{{Name: "look", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "drop"}}}, Kind: tools.MCP, Label: "l",
		Approve: func(tool string) bool { return tool == "drop" }}
)

// makes returns a maker of the response to a request.
func makes(t *testing.T, body string) *maker {
	t.Helper()
	asked, err := response.Decode([]byte(body), limits.Defaults(), true)
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(0)
	front := api.New(api.Config{Limits: limits.Defaults, Metrics: metrics.New(metrics.Config{}), Log: slog.New(slog.DiscardHandler), Clock: func() time.Time { return time.Unix(1, 0) },
		Random: func() uint64 { next++; return next }})
	req := &request{Request: asked, offers: []tools.Offer{*browser, *python, *remote}}
	return &maker{h: &Handler{front: front}, req: req, object: response.New(response.Head{ID: "resp_1", Model: "m"}, asked)}
}

// made are deltas of a call.
func made(index int, offer *tools.Offer, recipient, arguments string, fields ...generate.Field) (all []generate.Delta) {
	_, tool, _ := strings.Cut(recipient, ".")
	for _, field := range fields {
		call := &generate.ToolCall{Index: index, Offer: offer, Recipient: recipient, Tool: tool}
		delta := generate.Delta{Field: field, Tool: call}
		switch field {
		case generate.ToolArguments:
			delta.Text = arguments
		case generate.ToolBegins:
		default:
			call.Arguments = arguments
		}
		all = append(all, delta)
	}
	return all
}

// gives is the last delta of a call.
func gives(of []generate.Delta, result tools.Result) []generate.Delta {
	last := of[len(of)-1]
	call := *last.Tool
	call.Result = &result
	return append(slices.Clip(of), generate.Delta{Field: generate.ToolEnds, Tool: &call})
}

// kinds are the types of events, each with the index of its item.
func kinds(stream []byte) string {
	var all []string
	for _, event := range split(stream) {
		head, data, _ := strings.Cut(string(event), "\ndata: ")
		var e struct {
			Index *int `json:"output_index"`
		}
		_ = json.Unmarshal([]byte(data), &e)
		kind := strings.TrimPrefix(head, "event: response.")
		if e.Index != nil {
			kind = string(rune('0'+*e.Index)) + ":" + kind
		}
		all = append(all, kind)
	}
	return strings.Join(all, " ")
}

const (
	begins = generate.ToolBegins
	adds   = generate.ToolArguments
	runs   = generate.ToolRuns
	asks   = generate.ToolAsks
)

// TestMakerTools: what each call becomes, and that what is said of several does not mix.
func TestMakerTools(t *testing.T) {
	join := func(parts ...[]generate.Delta) []generate.Delta { return slices.Concat(parts...) }
	search := gives(made(0, browser, "browser.search", `{"query":"q"}`, begins, adds, runs), tools.Result{Text: "page", Action: &tools.Action{Type: "search", Query: "q",
		Sources: []tools.Source{{URL: "https://a.example", Title: "A"}}}})
	ran := gives(made(0, python, "python", "1+1", begins, adds, runs), tools.Result{Text: "2", Output: "2\n…", Container: "cntr_1"})
	look := made(1, remote, "its_name.look", "{}", begins, adds, runs)
	const include = `,"include":["code_interpreter_call.outputs","web_search_call.action.sources","web_search_call.results"]`
	for _, tt := range []struct {
		name, more string
		deltas     []generate.Delta
		kinds      string
		items      string // without ids
	}{
		{"search", "", search, "0:output_item.added 0:web_search_call.in_progress 0:web_search_call.searching 0:web_search_call.completed 0:output_item.done",
			`{"type":"web_search_call","status":"completed","action":{"type":"search","query":"q","queries":["q"]}}`},
		{"search with all", include, search, "0:output_item.added 0:web_search_call.in_progress 0:web_search_call.searching 0:web_search_call.completed 0:output_item.done",
			`{"type":"web_search_call","status":"completed","action":{"type":"search","query":"q","queries":["q"],"sources":[{"type":"url","url":"https://a.example"}]},"results":[{"type":"url","url":"https://a.example","title":"A"}]}`},
		{"search that fails", "", gives(made(0, browser, "browser.find", `{"pattern":"p"}`, begins, adds, runs), tools.Result{Text: "no", Outcome: tools.Failed}),
			"0:output_item.added 0:web_search_call.in_progress 0:web_search_call.searching 0:output_item.done", `{"type":"web_search_call","status":"failed","action":{"type":"find_in_page","pattern":"p","url":""}}`},
		{"code", "", ran, "0:output_item.added 0:code_interpreter_call.in_progress 0:code_interpreter_call_code.delta 0:code_interpreter_call_code.done 0:code_interpreter_call.interpreting 0:code_interpreter_call.completed 0:output_item.done",
			`{"type":"code_interpreter_call","status":"completed","container_id":"cntr_1","code":"1+1","outputs":null}`},
		{"code with outputs", include, ran, "0:output_item.added 0:code_interpreter_call.in_progress 0:code_interpreter_call_code.delta 0:code_interpreter_call_code.done 0:code_interpreter_call.interpreting 0:code_interpreter_call.completed 0:output_item.done",
			`{"type":"code_interpreter_call","status":"completed","container_id":"cntr_1","code":"1+1","outputs":[{"type":"logs","logs":"2\n…"}]}`},
		{"mcp", "", gives(look, tools.Result{Text: "out"}), "0:output_item.added 0:mcp_call.in_progress 0:mcp_call_arguments.delta 0:mcp_call_arguments.done 0:mcp_call.completed 0:output_item.done",
			`{"type":"mcp_call","status":"completed","server_label":"l","name":"look","arguments":"{}","approval_request_id":null,"output":"out","error":null}`},
		{"mcp that fails", "", gives(look, tools.Result{Text: "t", Outcome: tools.Broken, Failure: &tools.Failure{Type: "http_error", Code: 502, Message: "bad gateway"}}),
			"0:output_item.added 0:mcp_call.in_progress 0:mcp_call_arguments.delta 0:mcp_call_arguments.done 0:mcp_call.failed 0:output_item.done",
			`{"type":"mcp_call","status":"failed","server_label":"l","name":"look","arguments":"{}","approval_request_id":null,"output":null,"error":{"type":"http_error","code":502,"message":"bad gateway"}}`},
		{"mcp without a failure of its own", "", gives(look, tools.Result{Text: "t", Outcome: tools.TimedOut}), "0:output_item.added 0:mcp_call.in_progress 0:mcp_call_arguments.delta 0:mcp_call_arguments.done 0:mcp_call.failed 0:output_item.done",
			`{"type":"mcp_call","status":"failed","server_label":"l","name":"look","arguments":"{}","approval_request_id":null,"output":null,"error":{"type":"mcp_tool_execution_error","content":[{"type":"text","text":"t"}]}}`},
		{"cancelled", "", gives(look, tools.Result{Text: "t", Outcome: tools.Cancelled}), "0:output_item.added 0:mcp_call.in_progress 0:mcp_call_arguments.delta 0:mcp_call_arguments.done 0:output_item.done",
			`{"type":"mcp_call","status":"incomplete","server_label":"l","name":"look","arguments":"{}","approval_request_id":null,"output":null,"error":{"type":"mcp_tool_execution_error","content":[{"type":"text","text":"t"}]}}`},
		{"cut in its arguments", "", join(made(0, remote, "its_name.look", `{"a`, begins, adds), []generate.Delta{{Field: generate.ToolEnds, Cut: true, Tool: &generate.ToolCall{Offer: remote, Tool: "look"}}}),
			"0:output_item.added 0:mcp_call.in_progress 0:mcp_call_arguments.delta 0:mcp_call_arguments.done 0:output_item.done",
			`{"type":"mcp_call","status":"incomplete","server_label":"l","name":"look","arguments":"{\"a","approval_request_id":null,"output":null,"error":null}`},
		{"a question", "", made(0, remote, "its_name.drop", "{}", begins, adds, asks), "0:output_item.added 0:output_item.done", `{"type":"mcp_approval_request","server_label":"l","name":"drop","arguments":"{}"}`},
		{"two of one step", "", join(made(0, python, "python", "1", begins, adds), made(1, remote, "its_name.look", "{}", begins, adds), gives(made(0, python, "python", "1", runs), tools.Result{Text: "1", Container: "cntr_1"}),
			gives(made(1, remote, "its_name.look", "{}", runs), tools.Result{Text: "out"})),
			"0:output_item.added 0:code_interpreter_call.in_progress 0:code_interpreter_call_code.delta 0:code_interpreter_call_code.done 0:code_interpreter_call.interpreting 0:code_interpreter_call.completed 0:output_item.done" +
				" 1:output_item.added 1:mcp_call.in_progress 1:mcp_call_arguments.delta 1:mcp_call_arguments.done 1:mcp_call.completed 1:output_item.done",
			`{"type":"code_interpreter_call","status":"completed","container_id":"cntr_1","code":"1","outputs":null}` + "\n" +
				`{"type":"mcp_call","status":"completed","server_label":"l","name":"look","arguments":"{}","approval_request_id":null,"output":"out","error":null}`},
		{"two that are asked for", "", join(made(0, remote, "its_name.drop", `{"a":1}`, begins, adds), made(1, remote, "its_name.drop", `{"a":2}`, begins, adds), made(0, remote, "its_name.drop", `{"a":1}`, asks), made(1, remote, "its_name.drop", `{"a":2}`, asks)),
			"0:output_item.added 0:output_item.done 1:output_item.added 1:output_item.done",
			`{"type":"mcp_approval_request","server_label":"l","name":"drop","arguments":"{\"a\":1}"}` + "\n" + `{"type":"mcp_approval_request","server_label":"l","name":"drop","arguments":"{\"a\":2}"}`},
	} {
		m := makes(t, `{"input":"Hi"`+tt.more+`}`)
		var stream []byte
		for i := range tt.deltas {
			stream = m.Chunk(stream, 0, &tt.deltas[i], nil, nil)
		}
		if got := kinds(stream); got != tt.kinds {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.kinds)
		}
		var items []string
		for _, it := range m.object.Output {
			if it.ID == "" || !strings.HasPrefix(it.ID, it.IDPrefix()) {
				t.Errorf("%s: the id of %s is %q", tt.name, it.Type, it.ID)
			}
			it.ID = ""
			data, _ := it.MarshalJSON()
			items = append(items, strings.Replace(string(data), `"id":"",`, "", 1))
		}
		if got := strings.Join(items, "\n"); got != tt.items {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.items)
		}
	}
}

// What is open when an answer is cut, and what waits behind it, is closed.
func TestMakerCut(t *testing.T) {
	m := makes(t, `{"input":"Hi"}`)
	var stream []byte
	deltas := slices.Concat(made(0, python, "python", "1", begins, adds), made(1, remote, "its_name.look", "{}", begins, adds), made(0, python, "python", "1", runs))
	for i := range deltas {
		stream = m.Chunk(stream, 0, &deltas[i], nil, nil)
	}
	stream = m.cut(stream, response.StatusIncomplete)
	if got, want := strings.Count(kinds(stream), "output_item.done"), 2; got != want || strings.Count(kinds(stream), "output_item.added") != want {
		t.Errorf("%s", kinds(stream))
	}
	for _, it := range m.object.Output {
		if it.Status != response.StatusIncomplete {
			t.Errorf("%s is %s", it.Type, it.Status)
		}
	}
	if m.call != nil || m.held != nil {
		t.Errorf("left: %v, %v", m.call, m.held)
	}
}

// The tools of a server are listed once in a conversation; that a server is down is said again.
func TestMakerLists(t *testing.T) {
	m := makes(t, `{"input":"Hi"}`)
	m.req.listed = []api.Listed{{Label: "known", Tools: []tools.Tool{{Name: "a"}}}, {Label: "new", Tools: []tools.Tool{{Name: "b", Description: "d", Listed: json.RawMessage(`{"type":"object","title":"T"}`), Parameters: json.RawMessage(`{}`)}, {Name: "c"}}},
		{Label: "down", Problem: "it does not answer"}}
	m.req.told = map[string]bool{"known": true}
	m.task = &task{}
	stream := m.Begin(nil, 0, nil)
	if got, want := kinds(stream), "in_progress 0:output_item.added 0:mcp_list_tools.in_progress 0:mcp_list_tools.completed 0:output_item.done 1:output_item.added 1:mcp_list_tools.in_progress 1:mcp_list_tools.failed 1:output_item.done"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	data, _ := json.Marshal(m.object.Output)
	for _, want := range []string{`"tools":[{"name":"b","description":"d","input_schema":{"type":"object","title":"T"},"annotations":null},{"name":"c","description":null,"input_schema":{"type":"object","properties":{}},"annotations":null}],"error":null`,
		`"server_label":"down","tools":[],"error":"it does not answer"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s does not have %s", data, want)
		}
	}
}

// TestPack: what is stored is read back, records of before as well.
func TestPack(t *testing.T) {
	for _, rec := range []record{
		{object: []byte(`{"a":1}`)},
		{object: []byte(`{"a":1}`), ids: []int32{1, 200_000, 35}},
		{object: []byte(`{}`), ids: []int32{1, 2, 3}, trail: trail{Steps: []step{{IDs: 2, Results: []result{{Item: "mcp_1", Recipient: "x.y", Text: "a\nb\u2028"}}}, {IDs: 1}}, Asked: map[string]string{"mcpr_1": "x.z"}, Chain: "resp_0", State: json.RawMessage(`{"browser":[1]}`)}},
		{object: []byte(`{}`), trail: trail{Chain: "resp_0"}},
	} {
		packed := rec.pack()
		if got := unpack(packed); !reflect.DeepEqual(got, rec) {
			t.Errorf("%s is read as %+v, want %+v", packed, got, rec)
		}
	}
	for _, damaged := range []string{"{}\n1 2\n{", "{}\n1 zz!\n", "{}", "{}\n\n{\"steps\":5}"} {
		if got := unpack([]byte(damaged)); string(got.object) != "{}" || got.ids != nil || got.Steps != nil {
			t.Errorf("%q is read as %+v", damaged, got)
		}
	}
}

// FuzzUnpack: any stored bytes give a record, and steps whose ids fit.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte("{}\n1 2 3\n{\"steps\":[{\"ids\":2,\"results\":[{\"item\":\"a\",\"to\":\"b\",\"text\":\"c\"}]},{\"ids\":1}]}"))
	f.Add([]byte("{}\n1\n{\"steps\":[{\"ids\":-1},{\"ids\":2}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec := unpack(data)
		n := 0
		for _, ids := range rec.stepIDs() {
			n += len(ids)
		}
		if rec.stepIDs() != nil && n != len(rec.ids) {
			t.Errorf("%d ids in steps, %d in all", n, len(rec.ids))
		}
		output := []response.Item{{ID: "a"}, {ID: "b"}, {ID: "c"}}
		sum := 0
		for _, count := range rec.split(output) {
			if count < 0 {
				t.Fatalf("a step with %d items", count)
			}
			sum += count
		}
		if len(rec.Steps) > 0 && sum != len(output) {
			t.Errorf("%d items in steps", sum)
		}
	})
}

// item reads an item as a client sends it.
func item(t *testing.T, text string) response.Item {
	t.Helper()
	it, err := response.DecodeItem([]byte(text), limits.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// shown writes turns in one line each.
func shown(turns []chat.Turn) string {
	var all []string
	for i := range turns {
		turn := &turns[i]
		line := [...]string{"system", "developer", "user", "assistant", "tool"}[turn.Role]
		if turn.Reasoning != "" {
			line += " thinks " + turn.Reasoning
		}
		if turn.Parts != nil {
			line += " says " + strings.Join(turn.Parts, "|")
		}
		for _, call := range turn.Calls {
			line += " calls " + call.ID + "=" + call.Name + "(" + call.Arguments + ")"
			if call.Builtin {
				line += "!"
			}
		}
		if turn.CallID != "" {
			line += " of " + turn.CallID
		}
		if turn.Output != nil {
			line += " sampled"
		}
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

// TestHistoryServed: the turns of items that clients send back, with what the store knows of them
// and without.
func TestHistoryServed(t *testing.T) {
	const (
		user   = `{"type":"message","role":"user","content":"Hi"}`
		think  = `{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Hm"}]}`
		search = `{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}}`
		code   = `{"type":"code_interpreter_call","id":"ci_1","status":"completed","container_id":"c","code":"1+1","outputs":`
		call   = `{"type":"mcp_call","id":"mcp_1","server_label":"l","name":"look","arguments":"{}","output":"out"`
		ask    = `{"type":"mcp_approval_request","id":"mcpr_1","server_label":"l","name":"drop","arguments":"{}"}`
		yes    = `{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}`
		answer = `{"type":"message","role":"assistant","content":"Yes"}`
	)
	for _, tt := range []struct {
		name  string
		items []string
		want  string
	}{
		{"a search that is not known", []string{user, think, search, answer}, "user says Hi\nassistant thinks Hm says Yes"},
		{"a search that is known", []string{user, think, strings.Replace(search, "ws_1", "ws_known", 1), answer},
			"user says Hi\nassistant thinks Hm calls ws_known=browser.search({\"query\":\"q\"})!\ntool says page of ws_known\nassistant says Yes"},
		{"code without outputs", []string{user, code + `null}`, answer}, "user says Hi\nassistant says Yes"},
		{"code with outputs", []string{user, code + `[{"type":"logs","logs":"2"}]}`, answer}, "user says Hi\nassistant calls ci_1=python(1+1)!\ntool says 2 of ci_1\nassistant says Yes"},
		{"mcp", []string{user, think, call + `}`, call + `}`, answer}, "user says Hi\nassistant thinks Hm calls mcp_1=its_name.look({})!\ntool says out of mcp_1\nassistant calls mcp_1=its_name.look({})!\ntool says out of mcp_1\nassistant says Yes"},
		{"mcp of a server that is not offered", []string{user, strings.Replace(call, `"l"`, `"other"`, 1) + `}`}, "user says Hi\nassistant calls mcp_1=other.look({})!\ntool says out of mcp_1"},
		{"mcp that failed", []string{user, strings.Replace(call, `"output":"out"`, `"output":null,"error":{"type":"http_error","code":1,"message":"bad"}`, 1) + `}`}, "user says Hi\nassistant calls mcp_1=its_name.look({})!\ntool says bad of mcp_1"},
		{"mcp that was cut", []string{user, strings.Replace(call, `"output":"out"`, `"status":"incomplete"`, 1) + `}`, answer}, "user says Hi\nassistant says Yes"},
		{"a question", []string{user, think, ask}, "user says Hi\nassistant thinks Hm calls mcpr_1=its_name.drop({})!\ntool says The user declined this tool call. of mcpr_1"},
		{"a question that is answered", []string{user, ask, yes}, "user says Hi\nassistant calls mcpr_1=its_name.drop({})!"},
		{"a question that was passed over", []string{user, ask, user}, "user says Hi\nassistant calls mcpr_1=its_name.drop({})!\ntool says The user declined this tool call. of mcpr_1\nuser says Hi"},
		{"a question that was answered before", []string{user, ask, yes, strings.Replace(call, "look", "drop", 1) + `,"approval_request_id":"mcpr_1"}`, answer, user},
			"user says Hi\nassistant calls mcpr_1=its_name.drop({})!\ntool says out of mcpr_1\nassistant says Yes\nuser says Hi"},
		{"lists", []string{user, `{"type":"mcp_list_tools","server_label":"l","tools":[]}`}, "user says Hi"},
	} {
		past := &history{offers: []tools.Offer{*browser, *python, *remote}, gave: map[string]result{"ws_known": {Item: "ws_known", Recipient: "browser.search", Text: "page"}}}
		for i, text := range tt.items {
			it := item(t, text)
			past.add(&it, i)
		}
		if _, err := past.agreed(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := shown(past.turns); got != tt.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", tt.name, got, tt.want)
		}
		if len(past.from) != len(past.turns) {
			t.Errorf("%s: %d origins of %d turns", tt.name, len(past.from), len(past.turns))
		}
	}
}

// TestHistorySteps: output of which everything is known comes back step by step, with its ids.
func TestHistorySteps(t *testing.T) {
	output := []response.Item{
		{Type: response.ItemMCPTools, ID: "mcpl_1", Served: &response.Served{Label: "l"}},
		{Type: response.ItemReasoning, ID: "rs_1", Content: wire.Content{"Hm"}},
		{Type: response.ItemMCPCall, ID: "mcp_1", Name: "look", Arguments: "{}", Served: &response.Served{Label: "l"}},
		{Type: response.ItemCode, ID: "ci_1", Arguments: "1", Served: &response.Served{}},
		{Type: response.ItemReasoning, ID: "rs_2", Content: wire.Content{"So"}},
		{Type: response.ItemMessage, ID: "msg_1", Role: "assistant", Content: wire.Content{"Yes"}},
	}
	rec := &record{ids: []int32{1, 2, 3}, trail: trail{Steps: []step{{IDs: 2, Results: []result{{"mcp_1", "its_name.look", "out"}, {"ci_1", "python", "1"}}}, {IDs: 1}}}}
	past := &history{}
	past.said(output, -1, rec)
	want := "assistant thinks Hm calls mcp_1=its_name.look({})! calls ci_1=python(1)! sampled\ntool says out of mcp_1\ntool says 1 of ci_1\nassistant thinks So says Yes sampled"
	if got := shown(past.turns); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !slices.Equal(past.turns[0].Output, []int32{1, 2}) || !slices.Equal(past.turns[3].Output, []int32{3}) || !past.listed["l"] {
		t.Errorf("ids %v, %v, listed %v", past.turns[0].Output, past.turns[3].Output, past.listed)
	}
	// Calls of tools that nobody offered have no items, and are in the ids.
	past = &history{}
	past.said(output[5:], -1, &record{ids: []int32{1, 2, 3}, trail: trail{Steps: []step{{IDs: 2, Results: []result{{"", "container.exec", "Error"}}}, {IDs: 1}}}})
	if got, want := shown(past.turns), "assistant calls turn0.0=container.exec()! sampled\ntool says Error of turn0.0\nassistant says Yes sampled"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// A response that went on from a question begins with its result.
	ask, run := item(t, `{"type":"mcp_approval_request","id":"mcpr_1","server_label":"l","name":"drop","arguments":"{}"}`), item(t, `{"type":"mcp_call","id":"mcp_2","server_label":"l","name":"drop","arguments":"{}","approval_request_id":"mcpr_1"}`)
	yes := item(t, `{"type":"mcp_approval_response","id":"mcpa_1","approval_request_id":"mcpr_1","approve":true}`)
	past = &history{}
	first := &record{ids: []int32{1}, trail: trail{Asked: map[string]string{"mcpr_1": "its_name.drop"}}}
	past.remember(first, "resp_1")
	past.said([]response.Item{ask}, -1, first)
	past.add(&yes, -1)
	past.said([]response.Item{run, output[5]}, -1, &record{ids: []int32{7}, trail: trail{Steps: []step{{Results: []result{{"mcp_2", "its_name.drop", "done"}}}, {IDs: 1}}}})
	if _, err := past.agreed(); err != nil {
		t.Fatal(err)
	}
	if got, want := shown(past.turns), "assistant calls mcpr_1=its_name.drop({})! sampled\ntool says done of mcpr_1\nassistant says Yes sampled"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestApprovalErrors: answers to nothing, twice, or before something else.
func TestApprovalErrors(t *testing.T) {
	const ask = `{"type":"mcp_approval_request","id":"mcpr_1","server_label":"l","name":"drop","arguments":"{}"}`
	const yes = `{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}`
	for _, tt := range []struct {
		items       []string
		param, says string
	}{
		{[]string{yes}, "input[0].approval_request_id", "no request for approval"},
		{[]string{ask, yes, yes}, "input[2].approval_request_id", "answered before"},
		{[]string{ask, yes, `{"type":"message","role":"user","content":"Hi"}`}, "input[1].approval_request_id", "has to end the input"},
		{[]string{ask, `{"type":"message","role":"user","content":"Hi"}`, yes}, "input[2].approval_request_id", "answered before"},
	} {
		past := &history{offers: []tools.Offer{*remote}}
		for i, text := range tt.items {
			it := item(t, text)
			past.add(&it, i)
		}
		_, err := past.agreed()
		if e, ok := errors.AsType[*wire.Error](err); !ok || e.Param != tt.param || !strings.Contains(e.Message, tt.says) {
			t.Errorf("%s: %v", tt.items, err)
		}
	}
}

// TestInterruptedServed: a crash while a tool runs keeps the items that had ended, closes the open
// one, and leaves what the next response of the conversation goes on with.
func TestInterruptedServed(t *testing.T) {
	m := makes(t, `{"input":"Hi","background":true}`)
	m.task, m.trail = &task{}, trail{Chain: "resp_0", State: json.RawMessage(`{"python":1}`)}
	object := record{object: m.object.Append(nil), trail: m.trail}
	stream := m.Begin(m.object.Tell(nil, "created"), 0, nil)
	deltas := slices.Concat(gives(made(0, browser, "browser.search", `{"query":"q"}`, begins, adds, runs), tools.Result{Text: "page"}), made(1, python, "python", "1+1", begins, adds, runs))
	for i := range deltas {
		stream = m.Chunk(stream, 0, &deltas[i], nil, nil)
	}
	events := split(stream)
	update := Interrupted(store.Record{ID: "resp_1", Object: object.pack(), Events: len(events)}, slices.Values(events))
	rec := unpack(update.Object)
	got, err := response.Parse(rec.object, limits.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Output) != 2 || got.Output[0].Status != response.StatusCompleted || got.Output[1].Status != response.StatusIncomplete || got.Output[1].Arguments != "1+1" || got.Status != response.StatusFailed {
		t.Errorf("%s", rec.object)
	}
	if !reflect.DeepEqual(rec.trail, m.trail) {
		t.Errorf("it goes on with %+v, want %+v", rec.trail, m.trail)
	}
	if want := []string{got.Output[0].ID, got.Output[1].ID}; !slices.Equal(update.Refs, want) || !update.Done {
		t.Errorf("found by %v, want %v; done %t", update.Refs, want, update.Done)
	}
	if last := kinds(slices.Concat(update.Events...)); last != "1:output_item.done failed" {
		t.Errorf("it ends with %s", last)
	}
}
