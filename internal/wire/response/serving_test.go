package response

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

// events splits a stream into its events.
func eventsOf(stream []byte) (all [][]byte) {
	for event := range bytes.SplitSeq(bytes.TrimSuffix(stream, []byte("\n\n")), []byte("\n\n")) {
		all = append(all, append(bytes.Clone(event), "\n\n"...))
	}
	return all
}

// kinds are the types of a stream's events.
func kinds(stream []byte) string {
	var all []string
	for _, event := range eventsOf(stream) {
		all = append(all, eventKind(event))
	}
	return strings.Join(all, " ")
}

// blankServed are items as they are when their calls begin.
func blankServed(kind string) Item {
	it := Item{Type: kind, ID: prefixes[kind] + "1", Served: &Served{}}
	switch kind {
	case ItemWebSearch:
		it.Served.Action.Type = "search"
	case ItemCode:
		it.Served.Container = "cntr_1"
	default:
		it.Name, it.Served.Label = "look", "l"
	}
	return it
}

// Each call has its events in the order of api.md 3.3, however it ends and wherever it is cut.
func TestServedEvents(t *testing.T) {
	const searched = "output_item.added web_search_call.in_progress "
	const coded = "output_item.added code_interpreter_call.in_progress code_interpreter_call_code.delta code_interpreter_call_code.done "
	const called = "output_item.added mcp_call.in_progress mcp_call_arguments.delta mcp_call_arguments.done "
	for _, tt := range []struct {
		kind, text, status string
		runs               bool
		want, becomes      string
	}{
		{ItemWebSearch, `{"query":"q"}`, StatusCompleted, true, searched + "web_search_call.searching web_search_call.completed output_item.done", StatusCompleted},
		{ItemWebSearch, `{"query":"q"}`, StatusFailed, true, searched + "web_search_call.searching output_item.done", StatusFailed},
		{ItemWebSearch, `{"query":`, StatusIncomplete, false, searched + "output_item.done", StatusFailed},
		{ItemCode, "1+1", StatusCompleted, true, coded + "code_interpreter_call.interpreting code_interpreter_call.completed output_item.done", StatusCompleted},
		{ItemCode, "1+1", StatusFailed, true, coded + "code_interpreter_call.interpreting output_item.done", StatusFailed},
		{ItemCode, "1+", StatusIncomplete, false, coded + "output_item.done", StatusIncomplete},
		{ItemCode, "1+1", StatusIncomplete, true, coded + "code_interpreter_call.interpreting output_item.done", StatusIncomplete},
		{ItemMCPCall, "{}", StatusCompleted, true, called + "mcp_call.completed output_item.done", StatusCompleted},
		{ItemMCPCall, "{}", StatusFailed, true, called + "mcp_call.failed output_item.done", StatusFailed},
		{ItemMCPCall, "{", StatusIncomplete, false, called + "output_item.done", StatusIncomplete},
		{ItemApprovalRequest, "{}", StatusCompleted, false, "output_item.added output_item.done", ""},
		{ItemApprovalRequest, "{}", StatusFailed, true, called + "mcp_call.failed output_item.done", StatusFailed},
	} {
		r := New(Head{ID: "resp_1", Model: "m"}, responseOf(t, `{"input":"Hi"}`))
		dst := r.Add(r.Begin(nil, blankServed(tt.kind)), tt.text, nil)
		if tt.runs {
			dst = r.Unask(dst, "mcp_1")
			dst = r.Run(dst, tt.text)
		}
		dst = r.End(dst, tt.status)
		if got := kinds(dst); got != tt.want {
			t.Errorf("%s %s:\ngot  %s\nwant %s", tt.kind, tt.status, got, tt.want)
		}
		if got := r.Output[0].Status; got != tt.becomes {
			t.Errorf("%s %s is %q, want %q", tt.kind, tt.status, got, tt.becomes)
		}
		if tt.kind == ItemWebSearch && tt.runs && r.Output[0].Served.Action.Query != "q" {
			t.Errorf("the search is of %+v", r.Output[0].Served.Action)
		}
	}
}

// A call that nobody wrote now, because the client was asked before, has its arguments all the same.
func TestServedWithoutText(t *testing.T) {
	r := New(Head{ID: "resp_1", Model: "m"}, responseOf(t, `{"input":"Hi"}`))
	it := blankServed(ItemMCPCall)
	it.Served.Approval = "mcpr_1"
	dst := r.Run(r.Begin(nil, it), `{"a":1}`)
	r.Served(func(it *Item) { it.Served.Output = wire.Ptr("out") })
	dst = r.End(dst, StatusCompleted)
	if got, want := kinds(dst), "output_item.added mcp_call.in_progress mcp_call_arguments.delta mcp_call_arguments.done mcp_call.completed output_item.done"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := string(r.Output[0].append(nil)), `{"id":"mcp_1","type":"mcp_call","status":"completed","server_label":"l","name":"look","arguments":"{\"a\":1}","approval_request_id":"mcpr_1","output":"out","error":null}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// servedPlay returns a response with every item of the server's tools, and its events.
func servedPlay(t testing.TB) (*Response, []byte) {
	r := New(Head{ID: "resp_1", Created: 1_700_000_000, Model: "m", Temperature: 1, TopP: 1, Stored: true}, responseOf(t, `{"input":"Hi","tools":[{"type":"browser_search","search_context_size":"low","search_content_types":["text"]},
		{"type":"code_interpreter"},{"type":"mcp","server_label":"l","server_url":"https://h.example:8/secret?key=secret","headers":{"X-Key":"secret"},"authorization":"secret","allowed_tools":{"tool_names":["look"]},"require_approval":"never"}],
		"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"mcp","server_label":"l","headers":{"X-Key":"secret"}},{"type":"web_search"}]}}`))
	dst := r.Tell(r.Tell(nil, "created"), "in_progress")
	for _, it := range items() {
		switch it.Type {
		case ItemMCPTools:
			dst = r.End(r.Begin(dst, it), StatusCompleted)
		case ItemWebSearch, ItemCode, ItemMCPCall, ItemApprovalRequest:
			dst = playServed(r, dst, it)
		}
	}
	dst = r.Begin(dst, Item{Type: ItemMessage, ID: "msg_1", Role: "assistant", Phase: PhaseAnswer})
	dst = r.Cite(r.Add(r.Add(dst, "ä ", nil), "【0†L1】", nil), Citation{Start: 2, End: 8, URL: "https://a.example/x", Title: "A"})
	dst = r.End(r.Cite(r.Add(dst, "【1】", nil), Citation{Start: 8, End: 11, URL: "https://b.example/x", Title: "B"}), StatusCompleted)
	u := wire.NewUsage(10, 4, 7, 3)
	r.Status, r.Usage = StatusCompleted, &u
	return r, r.Tell(dst, r.Ending())
}

func playServed(r *Response, dst []byte, it Item) []byte {
	blank := it.clearServed()
	dst = r.Begin(dst, blank)
	for i := 0; i < len(it.Arguments); i += 3 {
		dst = r.Add(dst, it.Arguments[i:min(i+3, len(it.Arguments))], nil)
	}
	if it.Type == ItemApprovalRequest {
		return r.End(dst, StatusCompleted)
	}
	if it.Status != StatusIncomplete {
		dst = r.Run(dst, it.Arguments)
		r.Served(func(open *Item) { *open.Served = *it.Served })
	}
	switch it.Status {
	case StatusSearching, StatusInterpreting:
		it.Status = StatusCompleted
	}
	return r.End(dst, it.Status)
}

func TestGoldenServed(t *testing.T) {
	r, events := servedPlay(t)
	golden(t, "testdata/served.golden", goldenHead+"\n## events\n"+string(events)+"\n## object\n"+string(r.Append(nil))+"\n")
	if bytes.Contains(events, []byte("secret")) {
		t.Error("the response has secrets of the request")
	}
}

// Of stored events those with items that are done can be changed, and nothing else of them is.
func TestRevise(t *testing.T) {
	_, plain := played(t)
	_, served := servedPlay(t)
	for _, event := range append(eventsOf(plain), eventsOf(served)...) {
		same, err := Revise(event, limits.Defaults(), func(*Item) {})
		if err != nil || !bytes.Equal(same, event) {
			t.Errorf("%v\ngot  %s\nwant %s", err, same, event)
		}
		whole := bytes.Clone(event)
		changed, err := Revise(event, limits.Defaults(), func(it *Item) { it.ID = "changed" })
		if err != nil || bytes.Contains(changed, []byte(`"id":"changed"`)) != Tells(event) || !bytes.Equal(event, whole) {
			t.Errorf("%v: %s became %s", err, event, changed)
		}
		if kind := eventKind(event); Tells(event) != (kind == "output_item.done" || kind == "completed" || kind == "incomplete") {
			t.Errorf("%s: tells %v", kind, Tells(event))
		}
	}
	for _, bad := range []string{"", "x", "event: response.completed\n\n", "event: response.completed\ndata: {\"response\":{}}", "event: response.output_item.done\ndata: {\"x\":1,\"item\":[}\n\n"} {
		if got, err := Revise([]byte(bad), limits.Defaults(), func(*Item) {}); err == nil && string(got) != bad {
			t.Errorf("%q became %q", bad, got)
		}
	}
}

// What is stored is read back whole, and its replay ends with the same object and has the same
// items.
func TestParseServed(t *testing.T) {
	r, events := servedPlay(t)
	object := r.Append(nil)
	got, err := Parse(object, limits.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	if again := got.Append(nil); !bytes.Equal(again, object) {
		t.Errorf("got  %s\nwant %s", again, object)
	}
	replay := eventsOf(got.Replay(nil))
	all := eventsOf(events)
	_, last, _ := bytes.Cut(replay[len(replay)-1], []byte(`"response":`))
	if _, want, _ := bytes.Cut(all[len(all)-1], []byte(`"response":`)); !bytes.Equal(last, want) {
		t.Errorf("the replay ends with %s\nwant %s", last, want)
	}
	done := func(stream [][]byte) (all []string) {
		for _, event := range stream {
			if eventKind(event) == "output_item.done" {
				_, item, _ := bytes.Cut(event, []byte(`"item":`))
				all = append(all, string(item))
			}
		}
		return all
	}
	if a, b := done(replay), done(all); !slices.Equal(a, b) {
		t.Errorf("replayed\n%s\nwant\n%s", strings.Join(a, ""), strings.Join(b, ""))
	}
}

// Wherever a crash cuts the events, the items that had ended are kept, the open one is closed
// once and in a way that its type has, and its text and citations are what was sent.
func TestInterruptServed(t *testing.T) {
	r, stream := servedPlay(t)
	object, all := r.Append(nil), eventsOf(stream)
	for cut := 1; cut < len(all); cut++ {
		got, err := Parse(object, limits.Defaults())
		if err != nil {
			t.Fatal(err)
		}
		sent := map[int][]byte{}
		for i, event := range all[:cut] {
			sent[i] = event
		}
		rest := got.Interrupt(func(yield func([]byte) bool) {
			for _, i := range slices.Sorted(maps.Keys(sent)) {
				if !yield(sent[i]) {
					return
				}
			}
		}, cut, true, limits.Defaults())
		whole := append(bytes.Join(all[:cut], nil), rest...)
		added, done, texts := 0, 0, map[string]int{}
		for i, event := range eventsOf(whole) {
			if want := []byte(`"sequence_number":` + itoa(i) + `,`); !bytes.Contains(event, want) {
				t.Fatalf("cut at %d: event %d is %s", cut, i, event)
			}
			switch kind := eventKind(event); {
			case kind == "output_item.added":
				added, texts = added+1, map[string]int{}
			case kind == "output_item.done":
				done++
			case strings.Contains(kind, "_call") && !strings.HasSuffix(kind, ".delta") || strings.HasPrefix(kind, "mcp_list_tools."):
				if texts[kind]++; texts[kind] > 1 {
					t.Errorf("cut at %d: %s twice", cut, kind)
				}
			}
		}
		if added != done || got.Status != StatusCancelled || len(got.Output) != done {
			t.Errorf("cut at %d: %d items were begun, %d done, %d are there, %s", cut, added, done, len(got.Output), got.Status)
		}
		for i := range got.Output {
			it := &got.Output[i]
			if allowed := servedStatuses[it.Type]; allowed != nil && (!slices.Contains(allowed, it.Status) || it.Status == StatusInProgress) {
				t.Errorf("cut at %d: %s has the status %q", cut, it.Type, it.Status)
			}
		}
		if last := got.Output; len(last) == len(r.Output) && len(last[len(last)-1].Citations) != bytes.Count(bytes.Join(all[:cut], nil), []byte("annotation.added\n")) {
			t.Errorf("cut at %d: %d citations", cut, len(last[len(last)-1].Citations))
		}
	}
}

func itoa(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// Choices among the server's tools, and what of them the reply has.
func TestServerChoice(t *testing.T) {
	const tools = `{"input":"a","tools":[{"type":"web_search"},{"type":"mcp","server_label":"l"},{"type":"function","name":"f"}],"tool_choice":`
	for choice, want := range map[string]struct {
		mode    string
		chosen  []wire.ServerChoice
		allowed []string
		shown   string
	}{
		`{"type":"web_search"}`: {"named", []wire.ServerChoice{{Type: "web_search"}}, nil, `{"type":"web_search_preview"}`},
		`{"type":"mcp","server_label":"l","name":"x","headers":{"a":"b"}}`: {"named", []wire.ServerChoice{{Type: "mcp", Label: "l", Name: "x"}}, nil, `{"type":"mcp","server_label":"l","name":"x"}`},
		`{"type":"code_interpreter"}`:                                      {"named", []wire.ServerChoice{{Type: "code_interpreter"}}, nil, `{"type":"code_interpreter"}`},
		`{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"},{"type":"mcp","server_label":"l"}]}`: {"required",
			[]wire.ServerChoice{{Type: "mcp", Label: "l"}}, []string{"f", ""}, `{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"},{"type":"mcp","server_label":"l"}]}`},
		`{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search_preview"}]}`: {"auto", []wire.ServerChoice{{Type: "web_search_preview"}}, []string{""}, `{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search_preview"}]}`},
	} {
		q := responseOf(t, tools+choice+`}`)
		if q.ToolChoice.Mode != want.mode || !slices.Equal(q.ToolChoice.Served, want.chosen) || !slices.Equal(q.ToolChoice.Allowed, want.allowed) || string(q.choice) != want.shown {
			t.Errorf("%s: %+v, %+v, %s", choice, q.ToolChoice, q.ToolChoice.Served, q.choice)
		}
	}
	for choice, param := range map[string]string{
		`{"type":"mcp"}`: "tool_choice.server_label", `{"type":"allowed_tools","mode":"auto","tools":[{"type":"mcp"}]}`: "tool_choice.server_label",
		`{"type":"allowed_tools","tools":[{"type":"web_search"}]}`: "tool_choice", `{"type":"function","name":"g"}`: "tool_choice",
		`{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"},{"type":"function","name":"g"}]}`: "tool_choice",
	} {
		q, err := Decode([]byte(tools+choice+`}`), limits.Defaults(), true)
		if err == nil {
			err = q.Validate(limits.Defaults())
		}
		if e, ok := err.(*wire.Error); !ok || e.Param != param {
			t.Errorf("%s: %v, want a fault at %s", choice, err, param)
		}
	}
}

// Without tools of the server they are left out, and so are their items.
func TestServedLeftOut(t *testing.T) {
	q, err := Decode([]byte(`{"input":[{"role":"user","content":"x"},{"type":"mcp_call"},{"type":"web_search_call","id":"ws_1"}],"tools":[{"type":"mcp"},{"type":"web_search"}]}`), limits.Defaults(), false)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(q.Ignored, " "); got != "input[1].mcp_call input[2].web_search_call tools[0].mcp tools[1].web_search" || len(q.Input) != 1 || len(q.ServerTools) != 0 {
		t.Errorf("ignored %s, input %+v, tools %+v", got, q.Input, q.ServerTools)
	}
	if _, err = Decode([]byte(`{"input":"x","tools":[{"type":"mcp"}]}`), limits.Defaults(), true); err == nil || err.(*wire.Error).Param != "tools[0].server_label" {
		t.Errorf("mcp without a label: %v", err)
	}
}
