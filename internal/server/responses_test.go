package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ossian/internal/soak"
	"ossian/internal/store"
)

// inMemory returns a setup whose server keeps responses.
func inMemory(t testing.TB, u setup) setup {
	t.Helper()
	m, err := store.NewMemory(store.Config{Bytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	u.cfg.Archive = m
	return u
}

// An object is any JSON object.
type object = map[string]any

func parsed(t testing.TB, body string) object {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(body), &o); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return o
}

// at follows a path of names and indices.
func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			o, _ := v.(object)
			v = o[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				return nil
			}
			v = l[step]
		}
	}
	return v
}

// responded returns the object of a reply that went well.
func responded(t testing.TB, r got) object {
	t.Helper()
	if r.status != 200 {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	o := parsed(t, r.body)
	valid(t, "Response", o)
	return o
}

// streamed returns the events of a stream that went well.
func streamed(t testing.TB, r got) []object {
	t.Helper()
	if ct := r.header.Get("Content-Type"); r.status != 200 || ct != "text/event-stream; charset=utf-8" {
		t.Fatalf("status %d, %s: %s", r.status, ct, r.body)
	}
	return eventsOf(t, r.body)
}

func eventsOf(t testing.TB, text string) []object {
	t.Helper()
	var all []object
	for part := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		if part == ": ping" {
			continue
		}
		name, data, ok := strings.Cut(strings.TrimPrefix(part, "event: "), "\ndata: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("%q is no event", part)
		}
		e := parsed(t, data)
		if e["type"] != name {
			t.Errorf("event %s has type %v", name, e["type"])
		}
		valid(t, "Event", e)
		all = append(all, e)
	}
	return all
}

// fold puts a response together from events as clients do, and checks their order
// (api.md 3.3). It knows nothing of how the server makes them.
func fold(t testing.TB, events []object) object {
	t.Helper()
	f := &folder{t: t}
	for i, e := range events {
		if n := e["sequence_number"]; n != float64(i) {
			t.Errorf("event %d has number %v", i, n)
		}
		f.add(i, e)
	}
	if f.final == nil {
		t.Fatalf("the stream does not end: %v", events[len(events)-1]["type"])
	}
	if want := f.final["output"]; !reflect.DeepEqual(want, any(f.output)) && len(f.output)+len(want.([]any)) > 0 {
		t.Errorf("events give\n%v\nthe last has\n%v", f.output, want)
	}
	return f.final
}

// phaseOf are events that say how far a call of the server's has come, in their order.
var phaseOf = map[string]string{
	"web_search_call.in_progress": "1", "web_search_call.searching": "2", "web_search_call.completed": "3",
	"code_interpreter_call.in_progress": "1", "code_interpreter_call.interpreting": "2", "code_interpreter_call.completed": "3",
	"mcp_call.in_progress": "1", "mcp_call.completed": "3", "mcp_call.failed": "3",
	"mcp_list_tools.in_progress": "1", "mcp_list_tools.completed": "3", "mcp_list_tools.failed": "3",
}

// phase holds such events to their order.
func (f *folder) phase(kind string) {
	before, _ := f.item["phase of the test"].(string)
	if now := phaseOf[kind]; now <= before || !strings.HasPrefix(kind, f.item["type"].(string)+".") {
		f.t.Errorf("%s behind phase %q of %v", kind, before, f.item["type"])
	} else {
		f.item["phase of the test"] = now
	}
}

// served takes over what only the end of a call of the server's says.
func (f *folder) served(done object) {
	kind := f.item["type"].(string)
	if kind == "web_search_call" || kind == "code_interpreter_call" || kind == "mcp_call" || kind == "mcp_list_tools" {
		if f.item["phase of the test"] == nil {
			f.t.Errorf("no event says that %v has begun", f.item)
		}
		for _, name := range []string{"action", "results", "outputs", "container_id", "output", "error", "tools"} {
			if v, there := done[name]; there {
				f.item[name] = v
			}
		}
	}
	if done["status"] == nil { // of lists, and of what waits for the client
		delete(f.item, "status")
	}
	delete(f.item, "phase of the test")
}

type folder struct {
	t      testing.TB
	output []any
	item   object // open
	part   object // open
	short  object // the open part of the summary
	final  object
}

func (f *folder) add(i int, e object) {
	kind := strings.TrimPrefix(e["type"].(string), "response.")
	if f.final != nil {
		f.t.Errorf("%s follows the end", kind)
	}
	if r, ok := e["response"].(object); ok {
		if f.item != nil || (kind == "created") != (i == 0) {
			f.t.Errorf("%s at event %d", kind, i)
		}
		if kind == "completed" || kind == "incomplete" || kind == "failed" {
			f.final = r
		} else if len(r["output"].([]any)) > 0 || r["usage"] != nil {
			f.t.Errorf("%s has output or usage", kind)
		}
		return
	}
	if e["output_index"] != float64(len(f.output)) {
		f.t.Errorf("%s has output_index %v, want %d", kind, e["output_index"], len(f.output))
	}
	if f.item != nil && e["item_id"] != nil && e["item_id"] != f.item["id"] {
		f.t.Errorf("%s is about item %v, want %v", kind, e["item_id"], f.item["id"])
	}
	switch {
	case kind == "output_item.added":
		f.item = e["item"].(object)
	case kind == "output_item.done":
		done := e["item"].(object)
		f.item["status"] = done["status"]
		if sealed := done["encrypted_content"]; sealed != nil {
			f.item["encrypted_content"] = sealed
		}
		f.served(done)
		if !reflect.DeepEqual(done, f.item) {
			f.t.Errorf("done %v, want %v", done, f.item)
		}
		f.output, f.item = append(f.output, done), nil
	case kind == "content_part.added":
		f.part = e["part"].(object)
		f.item["content"] = append(f.item["content"].([]any), f.part)
	case kind == "content_part.done":
		if !reflect.DeepEqual(e["part"], any(f.part)) {
			f.t.Errorf("part %v, want %v", e["part"], f.part)
		}
		f.part = nil
	case kind == "reasoning_summary_part.added":
		f.short = e["part"].(object)
		f.item["summary"] = append(f.item["summary"].([]any), f.short)
	case kind == "reasoning_summary_part.done":
		if !reflect.DeepEqual(e["part"], any(f.short)) || e["summary_index"] != 0.0 {
			f.t.Errorf("part of the summary %v, want %v", e["part"], f.short)
		}
		f.short = nil
	case strings.HasPrefix(kind, "reasoning_summary_text."):
		f.text(f.short, "text", kind, e)
	case (strings.HasPrefix(kind, "output_text.") && kind != "output_text.annotation.added") || strings.HasPrefix(kind, "reasoning_text."):
		f.text(f.part, "text", kind, e)
	case kind == "output_text.annotation.added":
		notes := f.part["annotations"].([]any)
		if e["annotation_index"] != float64(len(notes)) {
			f.t.Errorf("annotation %v, want %d", e["annotation_index"], len(notes))
		}
		f.part["annotations"] = append(notes, e["annotation"])
	case strings.HasPrefix(kind, "function_call_arguments.") || strings.HasPrefix(kind, "mcp_call_arguments."):
		f.text(f.item, "arguments", kind, e)
	case strings.HasPrefix(kind, "code_interpreter_call_code."):
		f.text(f.item, "code", kind, e)
	case phaseOf[kind] != "":
		f.phase(kind)
	case strings.HasPrefix(kind, "custom_tool_call_input."):
		f.text(f.item, "input", kind, e)
	default:
		f.t.Errorf("unknown event %s", kind)
	}
}

// text adds a delta to a member, or compares its end.
func (f *folder) text(to object, member, kind string, e object) {
	if to == nil {
		f.t.Fatalf("%s without an open part", kind)
	}
	have := to[member].(string)
	if delta, ok := e["delta"].(string); ok {
		to[member] = have + delta
		if list, ok := e["logprobs"].([]any); ok {
			to["logprobs"] = append(to["logprobs"].([]any), list...)
		}
		return
	}
	if e[member] != have {
		f.t.Errorf("%s has %q, want %q", kind, e[member], have)
	}
}

// typesOf are the types of events without the common beginning.
func typesOf(events []object) (all []string) {
	for _, e := range events {
		all = append(all, strings.TrimPrefix(e["type"].(string), "response."))
	}
	return all
}

const flat = `"tools":[{"type":"function","name":"get_weather","description":"Weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]`

// The object has every member with its value, whatever the form of delivery.
func TestResponseObject(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: hello}))
	r := responded(t, g.post("/v1/responses", `{"input":"Hi","instructions":"Be kind","max_output_tokens":100,"temperature":0.5,"top_p":0.9,"presence_penalty":0.1,"metadata":{"a":"b"},
		"reasoning":{"effort":"low","summary":"auto"},"user":"u","safety_identifier":"s","prompt_cache_key":"k","truncation":"auto","text":{"verbosity":"low"},"parallel_tool_calls":false,"max_tool_calls":3,`+flat+`}`))
	for _, tt := range []struct {
		name string
		want any
	}{
		{"object", "response"}, {"created_at", 1767323045.0}, {"completed_at", 1767323045.0}, {"status", "completed"}, {"background", false}, {"error", nil},
		{"incomplete_details", nil}, {"instructions", "Be kind"}, {"max_output_tokens", 100.0}, {"max_tool_calls", 3.0}, {"model", "test-model"}, {"parallel_tool_calls", false},
		{"previous_response_id", nil}, {"prompt_cache_key", "k"}, {"reasoning", object{"effort": "low", "summary": "auto"}}, {"safety_identifier", "s"}, {"service_tier", "default"},
		{"store", true}, {"temperature", 0.5}, {"text", object{"format": object{"type": "text"}, "verbosity": "low"}}, {"tool_choice", "auto"}, {"top_logprobs", 0.0},
		{"top_p", 0.9}, {"presence_penalty", 0.1}, {"frequency_penalty", 0.0}, {"truncation", "auto"}, {"user", "u"}, {"metadata", object{"a": "b"}},
		{"tools", []any{object{"type": "function", "name": "get_weather", "description": "Weather", "strict": false, "parameters": object{"type": "object", "properties": object{"city": object{"type": "string"}}}}}},
	} {
		if got, there := r[tt.name]; !there || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s is %v (%t), want %v", tt.name, got, there, tt.want)
		}
	}
	out := r["output"].([]any)
	if len(out) != 2 || at(out, 0, "type") != "reasoning" || at(out, 0, "content", 0, "text") != "Let me think." || at(out, 1, "content", 0, "text") != "Hello, wörld 🌍!" ||
		at(out, 1, "phase") != "final_answer" || at(out, 1, "status") != "completed" {
		t.Errorf("output %v", out)
	}
	u := r["usage"].(object)
	n := len(said(hello))
	if u["output_tokens"] != float64(n) || at(u, "output_tokens_details", "reasoning_tokens") == 0.0 || u["total_tokens"] != u["input_tokens"].(float64)+float64(n) {
		t.Errorf("usage %v, want %d of output", u, n)
	}
	plain := responded(t, g.post("/v1/responses", `{"input":[{"role":"user","content":"Hi"}],"store":false}`))
	for name, want := range (object{"instructions": nil, "max_output_tokens": nil, "store": false, "temperature": 1.0, "top_p": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "user": nil, "metadata": object{}, "tools": []any{}, "truncation": "disabled",
		"text": object{"format": object{"type": "text"}}, "parallel_tool_calls": true, "reasoning": object{"effort": nil, "summary": nil}}) {
		if got, there := plain[name]; !there || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v (%t), want %v", name, got, there, want)
		}
	}
	wantError(t, g.do("GET", "/v1/responses/"+plain["id"].(string), ""), 404, "invalid_request_error", "response_not_found", "response_id")
}

// The events of every kind of item, in their order.
func TestResponseEvents(t *testing.T) {
	t.Parallel()
	const text = "output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done "
	const thought = "output_item.added content_part.added reasoning_text.delta reasoning_text.done content_part.done output_item.done "
	const called = "output_item.added function_call_arguments.delta function_call_arguments.done output_item.done "
	for _, tt := range []struct {
		name, reply, more, want, status string
	}{
		{"answer", hello, "", thought + text + "completed", "completed"},
		{"preamble and call", calls, "," + flat, thought + text + called + "completed", "completed"},
		{"custom tool", strings.ReplaceAll(calls, `{"city":"Paris"}`, `{"input":"ls -l"}`), `,"tools":[{"type":"custom","name":"get_weather"}]`,
			thought + text + "output_item.added custom_tool_call_input.delta custom_tool_call_input.done output_item.done completed", "completed"},
		{"empty answer", thinks + "<|channel|>final<|message|><|return|>", "", thought + strings.Replace(text, " output_text.delta", "", 1) + "completed", "completed"},
		{"length in reasoning", hello, `,"max_output_tokens":5`, thought + "incomplete", "incomplete"},
		{"nothing", "<|return|>", "", "completed", "completed"},
	} {
		g := start(t, inMemory(t, setup{reply: tt.reply, cfg: looseHeaders}))
		all := streamed(t, g.post("/v1/responses", `{"input":"Hi","stream":true`+tt.more+`}`))
		var got []string
		for _, kind := range typesOf(all) {
			if len(got) == 0 || got[len(got)-1] != kind || !strings.HasSuffix(kind, ".delta") {
				got = append(got, kind)
			}
		}
		if want := "created in_progress " + tt.want; strings.Join(got, " ") != want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, strings.Join(got, " "), want)
		}
		final := fold(t, all)
		if final["status"] != tt.status {
			t.Errorf("%s: status %v", tt.name, final["status"])
		}
		stored := g.do("GET", "/v1/responses/"+final["id"].(string), "")
		if o := responded(t, stored); !reflect.DeepEqual(o, final) {
			t.Errorf("%s: stored %v, want %v", tt.name, o, final)
		}
		again := g.do("GET", "/v1/responses/"+final["id"].(string)+"?stream=true", "")
		if o := fold(t, streamed(t, again)); !reflect.DeepEqual(o, final) {
			t.Errorf("%s: replayed %v, want %v", tt.name, o, final)
		}
		rest := streamed(t, g.do("GET", "/v1/responses/"+final["id"].(string)+"?stream=true&starting_after=1", ""))
		if !reflect.DeepEqual(rest, streamed(t, again)[2:]) {
			t.Errorf("%s: behind event 1: %v", tt.name, typesOf(rest))
		}
		g.idle()
	}
}

// Whatever a model says, events give the object, streamed is what is not streamed and
// what is stored, and numbers are whole (LIF-4, PAR-1).
func TestResponseFold(t *testing.T) {
	t.Parallel()
	scripts := append(anything(t, soak.Cases(t, 40, 5000)), proper(soak.Cases(t, 20, 1000))...)
	next, _ := answers(scripts)
	g := start(t, inMemory(t, setup{next: next, cfg: Config{StreamInterval: 3, LooseHeaders: true}}))
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range scripts {
		more := ""
		if rng.IntN(3) == 0 {
			more = fmt.Sprintf(`,"max_output_tokens":%d`, 1+rng.IntN(40))
		}
		if rng.IntN(3) == 0 {
			more += `,"stop":["e","the "]`
		}
		if rng.IntN(2) == 0 {
			more += "," + flat
		}
		if rng.IntN(3) == 0 {
			more += `,"reasoning":{"summary":"auto"}`
		}
		if rng.IntN(3) == 0 {
			more += `,"include":["message.output_text.logprobs"],"top_logprobs":2`
		}
		ask := `{"input":"` + numbers(i, 3) + `"` + more
		whole := responded(t, g.post("/v1/responses", ask+`}`))
		live := fold(t, streamed(t, g.post("/v1/responses", ask+`,"stream":true}`)))
		kept := responded(t, g.do("GET", "/v1/responses/"+live["id"].(string), ""))
		again := fold(t, streamed(t, g.do("GET", "/v1/responses/"+live["id"].(string)+"?stream=true", "")))
		if !reflect.DeepEqual(kept, live) || !reflect.DeepEqual(again, live) {
			t.Fatalf("script %d: stored\n%v\nreplayed\n%v\nwant\n%v", i, kept, again, live)
		}
		if a, b := alike(whole), alike(live); !reflect.DeepEqual(a, b) {
			t.Fatalf("script %d, %s:\nwhole    %v\nstreamed %v", i, ask, a, b)
		}
	}
}

// alike leaves out what differs between two answers to one request.
func alike(r object) object {
	out := object{}
	for key, v := range r {
		out[key] = v
	}
	for _, key := range []string{"id", "created_at", "completed_at"} {
		delete(out, key)
	}
	if u, ok := out["usage"].(object); ok { // the second finds the first's prompt
		u["input_tokens_details"], u["cached_tokens_per_turn"] = nil, nil
	}
	for _, it := range out["output"].([]any) {
		it.(object)["id"], it.(object)["call_id"] = nil, nil
	}
	return out
}

// What is wrong with a request is said with its place.
func TestResponseErrors(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: hello}))
	const invalid, unsupported, missing = "invalid_value", "unsupported_parameter", "missing_required_parameter"
	for _, tt := range []struct{ name, body, code, param string }{
		{"no input", `{}`, missing, "input"},
		{"input of another type", `{"input":5}`, "invalid_type", "input"},
		{"no items", `{"input":[]}`, invalid, "input"},
		{"no items that are known", `{"input":[{"type":"web_search_call"}]}`, invalid, "input"},
		{"tokens of chat", `{"input":"x","max_tokens":5}`, unsupported, "max_tokens"},
		{"tokens of newer chat", `{"input":"x","max_completion_tokens":5}`, unsupported, "max_completion_tokens"},
		{"item without type", `{"input":[{"content":"x"}]}`, missing, "input[0].type"},
		{"message without content", `{"input":[{"role":"user"}]}`, missing, "input[0].content"},
		{"role", `{"input":[{"role":"tool","content":"x"}]}`, invalid, "input[0].role"},
		{"image", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]}`, unsupported, "input[0].content[0].type"},
		{"call without id", `{"input":[{"type":"function_call","name":"f","arguments":"{}"}]}`, missing, "input[0].call_id"},
		{"output of no call", `{"input":[{"role":"user","content":"x"},{"type":"function_call_output","call_id":"c","output":"x"}]}`, invalid, "input[1]"},
		{"reference", `{"input":[{"type":"item_reference","id":"msg_x"}]}`, "not_found", "input[0].id"},
		{"encrypted", `{"input":[{"type":"reasoning","summary":[],"encrypted_content":"eA=="}]}`, "invalid_encrypted_content", "input[0].encrypted_content"},
		{"temperature", `{"input":"x","temperature":3}`, invalid, "temperature"},
		{"no tokens", `{"input":"x","max_output_tokens":0}`, invalid, "max_output_tokens"},
		{"effort", `{"input":"x","reasoning":{"effort":"huge"}}`, invalid, "reasoning.effort"},
		{"truncation", `{"input":"x","truncation":"some"}`, invalid, "truncation"},
		{"two answers", `{"input":"x","n":2}`, invalid, "n"},
		{"background without store", `{"input":"x","background":true,"store":false}`, invalid, "background"},
		{"conversation", `{"input":"x","conversation":"c"}`, unsupported, "conversation"},
		{"prompt", `{"input":"x","prompt":{"id":"p"}}`, unsupported, "prompt"},
		{"previous", `{"input":"x","previous_response_id":"resp_x"}`, "response_not_found", "previous_response_id"},
		{"format", `{"input":"x","text":{"format":{"type":"xml"}}}`, invalid, "text.format.type"},
		{"format without schema", `{"input":"x","text":{"format":{"type":"json_schema","name":"n"}}}`, missing, "text.format.schema"},
		{"tool without name", `{"input":"x","tools":[{"type":"function"}]}`, missing, "tools[0].name"},
		{"tool twice", `{"input":"x","tools":[{"type":"function","name":"f"},{"type":"function","name":"f"}]}`, invalid, "tools[1].name"},
		{"tool behind a group", `{"input":"x","tools":[{"type":"namespace","name":"n","description":"","tools":[{"type":"function","name":"a"},{"type":"function","name":"b"}]},{"type":"function","name":"b!"}]}`, invalid, "tools[1].name"},
		{"tool of a group", `{"input":"x","tools":[{"type":"file_search"},{"type":"namespace","name":"n","description":"","tools":[{"type":"function","name":"a"},{"type":"function","name":"a"}]}]}`, invalid, "tools[1].tools[1].name"},
		{"no tool is allowed", `{"input":"x",` + flat + `,"tool_choice":{"type":"allowed_tools","mode":"required","tools":[]}}`, invalid, "tool_choice"},
		{"choice without name", `{"input":"x",` + flat + `,"tool_choice":{"type":"function"}}`, missing, "tool_choice.name"},
		{"choice of text without name", `{"input":"x",` + flat + `,"tool_choice":{"type":"custom"}}`, missing, "tool_choice.name"},
		{"choice without tools", `{"input":"x",` + flat + `,"tool_choice":{"type":"allowed_tools","mode":"auto"}}`, missing, "tool_choice.tools"},
		{"metadata", `{"input":"x","metadata":{"a":5}}`, "invalid_type", "metadata.a"},
		{"too long", `{"input":"` + strings.Repeat("x ", 5000) + `"}`, "context_length_exceeded", "input"},
	} {
		r := g.post("/v1/responses", tt.body)
		t.Log(tt.name)
		status := 400
		if strings.HasSuffix(tt.code, "not_found") {
			status = 404
		}
		wantError(t, r, status, "invalid_request_error", tt.code, tt.param)
	}
	r := g.post("/v1/responses", `{"input":[{"role":"user","content":"Hi"},{"type":"web_search_call","id":"ws_1"},{"type":"odd"}],"tools":[{"type":"file_search"}],"foo":1}`)
	responded(t, r)
	if ignored := r.header.Get("x-ossian-ignored"); ignored != "input.web_search_call, input.odd, tools.file_search, foo" {
		t.Errorf("ignored: %s", ignored)
	}
}

// Conversations that are equivalent have equal prompts, in whatever API and form.
func TestResponsePrompts(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: hello}))
	count := func(path, body, member string) float64 {
		t.Helper()
		r := g.post(path, body)
		n, ok := parsed(t, r.body)[member].(float64)
		if !ok {
			t.Fatalf("%s: %s", body, r.body)
		}
		return n
	}
	for _, tt := range []struct{ name, response, chat string }{
		{"text", `{"input":"Hi"}`, `{"messages":[{"role":"user","content":"Hi"}]}`},
		{"instructions", `{"input":"Hi","instructions":"Be kind","reasoning":{"effort":"high"}}`,
			`{"messages":[{"role":"developer","content":"Be kind"},{"role":"user","content":"Hi"}],"reasoning_effort":"high"}`},
		{"calls", `{` + flat + `,"input":[{"role":"user","content":"Hi"},{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Hm"}]},
			{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"Wait"}]},
			{"type":"function_call","call_id":"c","name":"get_weather","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"rain"}]}]}`,
			`{` + tools + `,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","reasoning":"Hm","content":"Wait","tool_calls":[{"id":"c","type":"function","function":{"name":"get_weather","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c","content":"rain"}]}`},
		{"none", `{` + flat + `,"input":"Hi","tool_choice":"none"}`, `{"messages":[{"role":"user","content":"Hi"}]}`},
	} {
		a, b := count("/v1/responses/input_tokens", tt.response, "input_tokens"), count("/tokenize", tt.chat, "count")
		if a != b {
			t.Errorf("%s: %v tokens, chat has %v", tt.name, a, b)
		}
	}
}

// With previous_response_id the prompt is that of the items sent back, and begins with
// what the first response read and wrote.
func TestResponseChain(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: calls}))
	first := responded(t, g.post("/v1/responses", `{"input":"Hi","instructions":"one",`+flat+`}`))
	id := first["id"].(string)
	callID := at(first, "output", 2, "call_id").(string)
	result := `{"type":"function_call_output","call_id":"` + callID + `","output":"rain"}`
	chained := `{"previous_response_id":"` + id + `","instructions":"one",` + flat + `,"input":[` + result + `]`
	second := responded(t, g.post("/v1/responses", chained+`}`))
	if second["previous_response_id"] != id {
		t.Errorf("previous_response_id %v", second["previous_response_id"])
	}
	used := at(first, "usage", "total_tokens").(float64)
	if cached := at(second, "usage", "input_tokens_details", "cached_tokens").(float64); cached < used-16 {
		t.Errorf("%v of the first %v tokens were found in the cache", cached, used)
	}
	items, err := json.Marshal(first["output"])
	if err != nil {
		t.Fatal(err)
	}
	back := `{"instructions":"one",` + flat + `,"input":[{"role":"user","content":"Hi"},` + string(items[1:len(items)-1]) + `,` + result + `]`
	ids := func(body string) []any {
		t.Helper()
		r := parsed(t, g.post("/tokenize", body+`}`).body)
		all, _ := r["tokens"].([]any)
		if n := parsed(t, g.post("/v1/responses/input_tokens", body+`}`).body)["input_tokens"]; n != float64(len(all)) || n != r["count"] {
			t.Fatalf("%s: %v tokens, %v", body, n, r)
		}
		return all
	}
	want := ids(chained)
	bare := regexp.MustCompile(`"id":"[^"]*",`).ReplaceAllString(back, "") // some clients keep no ids of items
	for name, body := range map[string]string{"sent back": back, "without ids": bare, "without phases": strings.ReplaceAll(bare, `"phase":"commentary",`, "")} {
		if got := ids(body); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d ids, want the %d of the chain: %v, %v", name, len(got), len(want), got, want)
		}
	}
	sent, held := parsed(t, g.post("/v1/responses/input_tokens", back+`}`).body), parsed(t, g.post("/v1/responses/input_tokens", chained+`}`).body)
	// What the server does not know, or not like that, is written as prompts have it: " json" for " <|constrain|>json".
	foreign := strings.ReplaceAll(bare, callID, "call_own")
	for name, body := range map[string]string{"changed": strings.Replace(back, "I look it up.", "I look it up?", 1), "foreign": foreign, "in part": strings.Replace(back, string(items[1:strings.Index(string(items), "},{")+2]), "", 1)} {
		if got := ids(body); reflect.DeepEqual(got, want) || (name == "foreign" && len(got) != len(want)-2) {
			t.Errorf("%s: %d ids, the chain has %d", name, len(got), len(want))
		}
	}
	other := parsed(t, g.post("/v1/responses/input_tokens", strings.Replace(chained, `"instructions":"one",`, "", 1)+`}`).body)
	if other["input_tokens"].(float64) >= held["input_tokens"].(float64) {
		t.Errorf("instructions are inherited: %v, with them %v", other, held)
	}
	byReference := `{"instructions":"one",` + flat + `,"input":[{"role":"user","content":"Hi"}`
	for i := range 3 {
		byReference += `,{"type":"item_reference","id":"` + at(first, "output", i, "id").(string) + `"}`
	}
	if r := parsed(t, g.post("/v1/responses/input_tokens", byReference+`,`+result+`]}`).body); r["input_tokens"] != sent["input_tokens"] {
		t.Errorf("by reference %v, sent back %v", r, sent)
	}
}

// What goes on from a response that was deleted is there, and the error says what is not.
func TestResponseChainBroken(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: hello}))
	a := responded(t, g.post("/v1/responses", `{"input":"Hi"}`))["id"].(string)
	b := responded(t, g.post("/v1/responses", `{"input":"Hi","previous_response_id":"`+a+`"}`))["id"].(string)
	c := responded(t, g.post("/v1/responses", `{"input":"Hi","previous_response_id":"`+b+`"}`))["id"].(string)
	responded(t, g.do("GET", "/v1/responses/"+b, ""))
	if r := g.do("DELETE", "/v1/responses/"+a, ""); r.status != 200 {
		t.Fatal(r)
	}
	responded(t, g.do("GET", "/v1/responses/"+b, ""))
	want := `response \"` + b + `\" goes on from response \"` + a + `\", which was deleted`
	for _, id := range []string{b, c} {
		r := g.post("/v1/responses", `{"input":"Hi","previous_response_id":"`+id+`"}`)
		wantError(t, r, 404, "invalid_request_error", "response_not_found", "previous_response_id")
		if !strings.Contains(r.body, want) {
			t.Errorf("%s does not say %s", r.body, want)
		}
	}
	r := g.post("/v1/responses", `{"input":"Hi","previous_response_id":"`+a+`"}`)
	if !strings.Contains(r.body, `no response has the id \"`+a) {
		t.Errorf("deleted itself: %s", r.body)
	}
}

// Encrypted reasoning is worth what the text is, for its owner and model.
func TestResponseEncrypted(t *testing.T) {
	t.Parallel()
	g := start(t, setup{reply: hello})
	r := responded(t, g.post("/v1/responses", `{"input":"Hi","store":false,"include":["reasoning.encrypted_content"]}`))
	sealed, _ := at(r, "output", 0, "encrypted_content").(string)
	if sealed == "" {
		t.Fatalf("output %v", r["output"])
	}
	ask := func(content, sealed string) got {
		return g.post("/v1/responses/input_tokens", `{"input":[{"role":"user","content":"Hi"},{"type":"reasoning","summary":[]`+content+`,"encrypted_content":"`+sealed+`"}]}`)
	}
	plain := ask(`,"content":[{"type":"reasoning_text","text":"Let me think."}]`, "x")
	if a, b := ask("", sealed), plain; a.body != b.body || a.status != 200 {
		t.Errorf("sealed %s, open %s", a.body, b.body)
	}
	other := "A" // in place of the first character, which may be one: a random byte decides
	if sealed[0] == 'A' {
		other = "B"
	}
	wantError(t, ask("", other+sealed[1:]), 400, "invalid_request_error", "invalid_encrypted_content", "input[1].encrypted_content")
}

// truncation auto drops the oldest turns, never what a developer said or the last.
func TestResponseTruncation(t *testing.T) {
	t.Parallel()
	g := start(t, setup{reply: hello})
	var items []string
	for i := range 10 {
		items = append(items, `{"role":"user","content":"`+strings.Repeat(fmt.Sprint("word", i, " "), 400)+`"}`, `{"role":"assistant","content":"Yes"}`)
	}
	body := `{"instructions":"Be kind","store":false,"input":[` + strings.Join(items, ",") + `,{"role":"user","content":"Last"}]`
	wantError(t, g.post("/v1/responses", body+`}`), 400, "invalid_request_error", "context_length_exceeded", "input")
	r := g.post("/v1/responses", body+`,"truncation":"auto","max_output_tokens":100}`)
	o := responded(t, r)
	n := o["truncated_turns"].(float64)
	if r.header.Get("x-ossian-truncated") != fmt.Sprint(n) || n < 2 || n >= 20 || int(n)%2 != 0 {
		t.Errorf("%v turns are gone, header %q", n, r.header.Get("x-ossian-truncated"))
	}
	if used := at(o, "usage", "input_tokens").(float64); used > 3996 || used < 2500 {
		t.Errorf("prompt of %v tokens", used)
	}
	wantError(t, g.post("/v1/responses", `{"truncation":"auto","input":[`+items[0]+`,{"role":"user","content":"`+strings.Repeat("word ", 5000)+`"}]}`), 400, "invalid_request_error", "context_length_exceeded", "input")
}

// Parts of one answer that stay apart: several calls, names of groups of tools.
func TestResponseTools(t *testing.T) {
	t.Parallel()
	spaced := strings.ReplaceAll(calls, "functions.get_weather", "functions.mcp__weather__get")
	g := start(t, setup{reply: spaced})
	body := `{"store":false,"input":"Hi","tools":[{"type":"namespace","name":"mcp__weather","description":"d","tools":[{"type":"function","name":"get","parameters":{"type":"object"},"strict":false}]}]`
	r := responded(t, g.post("/v1/responses", body+`}`))
	call := at(r, "output", 2).(object)
	if call["name"] != "get" || call["namespace"] != "mcp__weather" || call["arguments"] != `{"city":"Paris"}` {
		t.Errorf("call %v", call)
	}
	back, _ := json.Marshal(r["output"])
	again := g.post("/v1/responses", strings.Replace(body, `"input":"Hi"`, `"input":[{"role":"user","content":"Hi"},`+string(back[1:len(back)-1])+`,{"type":"function_call_output","call_id":"`+call["call_id"].(string)+`","output":"x"}]`, 1)+`}`)
	responded(t, again)
	hidden := responded(t, g.post("/v1/responses", body+`,"tool_choice":"none"}`))
	for _, it := range hidden["output"].([]any) {
		if it.(object)["type"] == "function_call" {
			t.Errorf("tool_choice none: %v", it)
		}
	}
}

// schemas are OpenAI's, where they are at hand; nil elsewhere: shapes hold everywhere.
var schemas = func() object {
	data, err := os.ReadFile("../../../shared/data/openai_api_schemas.json")
	if err != nil {
		return nil
	}
	var all struct {
		Components struct{ Schemas object }
	}
	if json.Unmarshal(data, &all) != nil {
		return nil
	}
	return all.Components.Schemas
}()

// published are the names that OpenAI gives to what shapes have.
var published = map[string]string{"Response": "Response", "Event": "ResponseStreamEvent", "ItemList": "ResponseItemList"}

// valid holds a value to one of shapes, and to OpenAI's schema of it.
func valid(t testing.TB, shape string, v any) {
	t.Helper()
	problem := misfit(shape, v, shape)
	if problem == "" && schemas != nil {
		problem = (&schemaCheck{}).check(schemas[published[shape]], v, shape)
	}
	if problem != "" {
		t.Errorf("%s\nin %v", problem, v)
	}
}

// A schemaCheck holds values to the part of JSON Schema that OpenAI's file uses.
type schemaCheck struct{}

// loose are members that may be null against OpenAI's schema: OpenAI sends the first two so
// (api.md 9), and the types of Open Responses want the description of a format, null without one.
var loose = []string{"user", "usage", "description"}

func (c *schemaCheck) check(schema any, v any, path string) string {
	s, _ := schema.(object)
	if ref, ok := s["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		if schemas[name] == nil {
			return path + ": no schema " + name
		}
		return c.check(schemas[name], v, path)
	}
	for _, all := range list(s["allOf"]) {
		if p := c.check(all, v, path); p != "" {
			return p
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if p := c.oneOf(list(s[key]), v, path); p != "" {
			return p
		}
	}
	if values := list(s["enum"]); values != nil && !slices.Contains(values, v) {
		return fmt.Sprintf("%s: %v is not in %v", path, v, values)
	}
	if kind, ok := s["type"].(string); ok && !isKind(kind, v) {
		return fmt.Sprintf("%s: %v is no %s", path, v, kind)
	}
	if n, ok := v.(float64); ok {
		if most, ok := s["maximum"].(float64); ok && n > most {
			return fmt.Sprintf("%s: %v is more than %v", path, n, most)
		}
	}
	return c.members(s, v, path)
}

func (c *schemaCheck) members(s object, v any, path string) string {
	for i, item := range list(v) {
		if p := c.check(s["items"], item, fmt.Sprintf("%s[%d]", path, i)); p != "" && s["items"] != nil {
			return p
		}
	}
	o, ok := v.(object)
	if !ok {
		return ""
	}
	for _, name := range list(s["required"]) {
		if _, there := o[name.(string)]; !there {
			return fmt.Sprintf("%s: %v is missing", path, name)
		}
	}
	properties, _ := s["properties"].(object)
	for name, schema := range properties {
		if value, there := o[name]; there && !(value == nil && slices.Contains(loose, name)) {
			if p := c.check(schema, value, path+"."+name); p != "" {
				return p
			}
		}
	}
	return ""
}

// oneOf asks for one alternative that fits; where they are told apart by type the
// problem is that of the alternative meant.
func (c *schemaCheck) oneOf(all []any, v any, path string) string {
	if all == nil {
		return ""
	}
	problem := ""
	for _, s := range all {
		p := c.check(s, v, path)
		if p == "" {
			return ""
		}
		if !strings.HasPrefix(p, path+".type: ") || problem == "" {
			problem = p
		}
	}
	return problem
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func isKind(kind string, v any) bool {
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case float64:
		return kind == "number" || (kind == "integer" && v == float64(int64(v)))
	case []any:
		return kind == "array"
	}
	return kind == "object"
}
