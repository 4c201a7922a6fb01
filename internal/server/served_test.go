package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/api"
	"ossian/internal/sim"
	"ossian/internal/soak"
	"ossian/internal/store"
	builtin "ossian/internal/tools"
	"ossian/internal/wire"
)

// A scriptedServer is one of the server's tools whose calls give what a function says.
type scriptedServer struct {
	space builtin.Namespace
	call  func(ctx context.Context, call builtin.Call, before int) builtin.Result // before: calls of the conversation so far

	mu     sync.Mutex
	chains []builtin.Chain
	closed int
}

func (s *scriptedServer) Name() string { return s.space.Name }
func (s *scriptedServer) Namespace(context.Context) (builtin.Namespace, error) {
	return s.space, nil
}
func (s *scriptedServer) Status() builtin.Status {
	return builtin.Status{Name: s.space.Name, Works: true}
}
func (s *scriptedServer) Open(chain builtin.Chain) builtin.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chains = append(s.chains, chain)
	one := &scriptedSession{server: s}
	_ = json.Unmarshal(chain.State, &one.calls)
	return one
}

// last returns the chain that was opened last.
func (s *scriptedServer) last() builtin.Chain {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chains[len(s.chains)-1]
}

type scriptedSession struct {
	server *scriptedServer
	calls  int
}

func (s *scriptedSession) Call(ctx context.Context, call builtin.Call) builtin.Result {
	s.calls++
	return s.server.call(ctx, call, s.calls-1)
}
func (s *scriptedSession) State() json.RawMessage { return json.RawMessage(fmt.Sprint(s.calls)) }
func (s *scriptedSession) Close() {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.closed++
}
func (s *scriptedSession) Cite(cursor, line int) (builtin.Source, bool) {
	return builtin.Source{URL: fmt.Sprintf("https://example.com/%d", cursor), Title: "Page"}, cursor < s.calls
}

// A scriptedBox offers these servers to whoever asks for them.
type scriptedBox struct {
	browser, python *scriptedServer
	remote          map[string]*scriptedServer // by label
	down            string                     // a label whose server does not answer
	approve         map[string]bool            // tools of remote servers
}

func (b *scriptedBox) Offers(_ context.Context, asked []wire.ServerTool, _ bool) (out api.Offered, err error) {
	for i := range asked {
		tool := &asked[i]
		switch server := b.remote[tool.Label]; {
		case tool.Browses() && b.browser != nil:
			out.Offers = append(out.Offers, builtin.Offer{Server: b.browser, Namespace: b.browser.space, Kind: builtin.Browser})
		case tool.Type == "code_interpreter" && b.python != nil:
			out.Offers = append(out.Offers, builtin.Offer{Server: b.python, Namespace: b.python.space, Kind: builtin.Python})
		case tool.Type == "mcp" && tool.Label == b.down:
			out.Listed = append(out.Listed, api.Listed{Label: tool.Label, Problem: "it does not answer"})
		case tool.Type == "mcp" && server != nil:
			approve := func(name string) bool { return tool.Approval.Mode == "always" || b.approve[name] }
			out.Offers = append(out.Offers, builtin.Offer{Server: server, Namespace: server.space, Kind: builtin.MCP, Label: tool.Label, Approve: approve})
			out.Listed = append(out.Listed, api.Listed{Label: tool.Label, Tools: server.space.Tools})
		case tool.Type == "mcp":
			return out, wire.Invalid(tool.Path+".server_label", "no server has this label")
		default:
			out.Ignored = append(out.Ignored, "tools."+tool.Type)
		}
	}
	return out, nil
}

// toolbox returns servers that work.
func toolbox() *scriptedBox {
	page := func(_ context.Context, call builtin.Call, before int) builtin.Result {
		if strings.Contains(call.Arguments, "fails") {
			return builtin.Result{Text: "Error during search for `fails`: no network", Outcome: builtin.Failed, Action: &builtin.Action{Type: "search", Query: "fails"}}
		}
		action := &builtin.Action{Type: "search", Query: "weather", Sources: []builtin.Source{{URL: "https://example.com/a", Title: "A"}, {URL: "https://example.com/b", Title: "B"}}}
		if call.Tool == "open" {
			action = &builtin.Action{Type: "open_page", URL: "https://example.com/a"}
		}
		return builtin.Result{Text: fmt.Sprintf("[%d] a page", before), Action: action}
	}
	return &scriptedBox{
		browser: &scriptedServer{space: builtin.Namespace{Name: "browser", Description: "Tool for browsing.", Tools: []builtin.Tool{{Name: "search"}, {Name: "open"}, {Name: "find"}}}, call: page},
		python: &scriptedServer{space: builtin.Namespace{Name: "python", Description: "Runs code."}, call: func(_ context.Context, call builtin.Call, before int) builtin.Result {
			return builtin.Result{Text: fmt.Sprintf("%s gives %d", call.Arguments, before), Output: fmt.Sprintf("%s gives %d, in full", call.Arguments, before), Container: "cntr_1"}
		}},
		remote: map[string]*scriptedServer{"shop": {space: builtin.Namespace{Name: "shop_server", Tools: []builtin.Tool{
			{Name: "look", Description: "Looks.", Parameters: json.RawMessage(`{"type":"object","properties":{"what":{"type":"string"}}}`), ReadOnly: true},
			{Name: "buy", Parameters: json.RawMessage(`{"type":"object"}`)}}},
			call: func(_ context.Context, call builtin.Call, before int) builtin.Result {
				if strings.Contains(call.Arguments, "gone") {
					return builtin.Result{Text: "Error calling tool look: bad gateway", Outcome: builtin.Broken, Failure: &builtin.Failure{Type: "http_error", Code: 502, Message: "bad gateway"}}
				}
				return builtin.Result{Text: call.Tool + " " + call.Arguments}
			}}},
		down: "down", approve: map[string]bool{"buy": true},
	}
}

// steps is a model that says what comes next by how many results of tools stand behind the
// latest message of the user: thought, then calls, then an answer.
func steps(replies ...string) sim.Next {
	scripts := make([][]int32, len(replies))
	for i, reply := range replies {
		scripts[i] = said(reply)
	}
	const begin, user = 200_006, 1428
	assistant := said("<|start|>assistant")[1]
	return sim.Reply(func(prompt []int32) []int32 {
		results := 0
		for i := len(prompt) - 2; i >= 0 && !(prompt[i] == begin && prompt[i+1] == user); i-- {
			if prompt[i] == begin && prompt[i+1] != assistant {
				results++
			}
		}
		return scripts[min(results, len(scripts)-1)]
	})
}

const (
	searches = "<|channel|>analysis<|message|>I search.<|end|><|start|>assistant<|channel|>analysis to=browser.search code<|message|>{\"query\":\"weather\"}<|call|>"
	opens    = "<|channel|>analysis to=browser.open code<|message|>{\"id\":0}<|call|>"
	computes = "<|channel|>analysis<|message|>I compute.<|end|><|start|>assistant<|channel|>analysis to=python code<|message|>1+1<|call|>"
	looks    = "<|channel|>analysis<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=shop_server.look <|constrain|>json<|message|>{\"what\":\"tea\"}<|call|>"
	buys     = "<|channel|>analysis<|message|>I buy.<|end|><|start|>assistant<|channel|>commentary to=shop_server.buy <|constrain|>json<|message|>{}<|call|>"
	cites    = "<|channel|>final<|message|>Rain ☔【0†L1-L2】 and sun【1†L3】, see 【9†L1】.<|return|>"
	asksCity = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"Paris\"}<|call|>"

	webTool  = `{"type":"web_search","search_context_size":"low"}`
	codeTool = `{"type":"code_interpreter","container":{"type":"auto"}}`
	shopTool = `{"type":"mcp","server_label":"shop"}`
	cityFlat = `{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}`
)

// serving starts a server with tools.
func serving(t testing.TB, box api.Toolbox, replies ...string) *rig {
	u := inMemory(t, setup{next: steps(replies...)})
	u.cfg.Toolbox = box
	return start(t, u)
}

// spaced are types of events, pieces of one text as one.
func spaced(events []object) string {
	var got []string
	for _, kind := range typesOf(events) {
		if len(got) == 0 || got[len(got)-1] != kind || !strings.HasSuffix(kind, ".delta") {
			got = append(got, kind)
		}
	}
	return strings.Join(got, " ")
}

const (
	thoughtEvents = "output_item.added content_part.added reasoning_text.delta reasoning_text.done content_part.done output_item.done "
	searchEvents  = "output_item.added web_search_call.in_progress web_search_call.searching web_search_call.completed output_item.done "
	codeEvents    = "output_item.added code_interpreter_call.in_progress code_interpreter_call_code.delta code_interpreter_call_code.done code_interpreter_call.interpreting code_interpreter_call.completed output_item.done "
	mcpEvents     = "output_item.added mcp_call.in_progress mcp_call_arguments.delta mcp_call_arguments.done mcp_call.completed output_item.done "
	listEvents    = "output_item.added mcp_list_tools.in_progress mcp_list_tools.completed output_item.done "
	textEvents    = "output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done "
	citedEvents   = "output_item.added content_part.added output_text.delta output_text.annotation.added output_text.delta output_text.annotation.added output_text.delta output_text.done content_part.done output_item.done "
)

// Every kind of call, in the order of its events; whole, streamed, stored, replayed and made in the
// background it is the same response.
func TestServedEvents(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, tools string
		replies     []string
		want        string
	}{
		{"browser", webTool, []string{searches, opens, cites}, thoughtEvents + searchEvents + searchEvents + citedEvents},
		{"python", codeTool, []string{computes, computes, hello}, thoughtEvents + codeEvents + thoughtEvents + codeEvents + thoughtEvents + textEvents},
		{"mcp", shopTool, []string{looks, hello}, listEvents + thoughtEvents + mcpEvents + thoughtEvents + textEvents},
		{"mcp that fails", shopTool, []string{strings.Replace(looks, "tea", "gone", 1), hello},
			listEvents + thoughtEvents + strings.Replace(mcpEvents, "mcp_call.completed", "mcp_call.failed", 1) + thoughtEvents + textEvents},
		{"a search that fails", webTool, []string{strings.Replace(searches, "weather", "fails", 1), hello},
			thoughtEvents + strings.Replace(searchEvents, "web_search_call.completed ", "", 1) + thoughtEvents + textEvents},
		{"a server that is down", `{"type":"mcp","server_label":"down"}`, []string{hello}, strings.Replace(listEvents, "completed", "failed", 1) + thoughtEvents + textEvents},
		{"a function behind a search", webTool + "," + cityFlat, []string{searches, asksCity}, thoughtEvents + searchEvents + "output_item.added function_call_arguments.delta function_call_arguments.done output_item.done "},
		{"a question", shopTool, []string{buys}, listEvents + thoughtEvents + "output_item.added output_item.done "},
	} {
		g := serving(t, toolbox(), tt.replies...)
		body := `{"input":"Hi","tools":[` + tt.tools + `],"include":["code_interpreter_call.outputs","web_search_call.action.sources","web_search_call.results"]`
		events := streamed(t, g.post("/v1/responses", body+`,"stream":true}`))
		if got, want := spaced(events), "created in_progress "+tt.want+"completed"; got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, want)
		}
		live := fold(t, events)
		id := live["id"].(string)
		if kept := responded(t, g.do("GET", "/v1/responses/"+id, "")); !reflect.DeepEqual(kept, live) {
			t.Errorf("%s: stored %v\nwant %v", tt.name, kept, live)
		}
		if again := fold(t, streamed(t, g.do("GET", "/v1/responses/"+id+"?stream=true", ""))); !reflect.DeepEqual(again, live) {
			t.Errorf("%s: replayed %v\nwant %v", tt.name, again, live)
		}
		whole := responded(t, g.post("/v1/responses", body+`}`))
		if a, b := alike(whole), alike(live); !reflect.DeepEqual(usageApart(a), usageApart(b)) {
			t.Errorf("%s:\nwhole    %v\nstreamed %v", tt.name, a, b)
		}
		later := responded(t, g.post("/v1/responses", body+`,"background":true}`))["id"].(string)
		made := g.await(later, "completed")
		if of := fold(t, streamed(t, g.do("GET", "/v1/responses/"+later+"?stream=true", ""))); !reflect.DeepEqual(of, made) {
			t.Errorf("%s: followed %v\nwant %v", tt.name, of, made)
		}
		if a, b := alike(made), alike(live); !reflect.DeepEqual(a["output"], b["output"]) {
			t.Errorf("%s:\nin the background %v\nstreamed %v", tt.name, a["output"], b["output"])
		}
		g.idle()
	}
}

// usageApart leaves out what of the usage depends on the cache.
func usageApart(o object) object {
	if usage, ok := o["usage"].(object); ok {
		usage["input_tokens_details"], usage["cached_tokens_per_turn"] = nil, nil
	}
	return o
}

// What items say: actions, outputs where they are asked for, containers, citations whose places
// select the mark.
func TestServedItems(t *testing.T) {
	t.Parallel()
	g := serving(t, toolbox(), searches, opens, computes, looks, cites)
	const tools = `"tools":[` + webTool + `,` + codeTool + `,` + shopTool + `]`
	full := responded(t, g.post("/v1/responses", `{"input":"Hi",`+tools+`,"include":["code_interpreter_call.outputs","web_search_call.action.sources","web_search_call.results"]}`))
	items := map[string][]object{}
	for _, it := range full["output"].([]any) {
		kind := it.(object)["type"].(string)
		items[kind] = append(items[kind], it.(object))
	}
	pages := []any{object{"type": "url", "url": "https://example.com/a"}, object{"type": "url", "url": "https://example.com/b"}}
	for _, tt := range []struct {
		name      string
		got, want any
	}{
		{"search", at(items["web_search_call"][0], "action"), object{"type": "search", "query": "weather", "queries": []any{"weather"}, "sources": pages}},
		{"results", at(items["web_search_call"][0], "results", 1, "title"), "B"},
		{"open", at(items["web_search_call"][1], "action"), object{"type": "open_page", "url": "https://example.com/a"}},
		{"code", at(items["code_interpreter_call"][0], "code"), "1+1"},
		{"container", at(items["code_interpreter_call"][0], "container_id"), "cntr_1"},
		{"outputs", at(items["code_interpreter_call"][0], "outputs"), []any{object{"type": "logs", "logs": "1+1 gives 0, in full"}}},
		{"label", at(items["mcp_call"][0], "server_label"), "shop"},
		{"tool", at(items["mcp_call"][0], "name"), "look"},
		{"arguments", at(items["mcp_call"][0], "arguments"), `{"what":"tea"}`},
		{"output", at(items["mcp_call"][0], "output"), `look {"what":"tea"}`},
		{"listed", at(items["mcp_list_tools"][0], "tools", 0), object{"name": "look", "description": "Looks.", "annotations": nil, "input_schema": object{"type": "object", "properties": object{"what": object{"type": "string"}}}}},
		{"tools", at(full, "tools", 0), object{"type": "web_search", "search_context_size": "low"}},
		{"how often listed", len(items["mcp_list_tools"]), 1},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%s is %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	bare := responded(t, g.post("/v1/responses", `{"input":"Hi",`+tools+`}`))
	for _, it := range bare["output"].([]any) {
		if it := it.(object); it["outputs"] != nil || it["results"] != nil || at(it, "action", "sources") != nil {
			t.Errorf("nobody asked for all of %v", it)
		}
	}
}

// A GET has what its include names, though the response was made without: the same as one that was
// made with it, whole, replayed, and followed from the background. What nobody knows is named.
func TestStoredInclude(t *testing.T) {
	t.Parallel()
	g := serving(t, toolbox(), searches, opens, computes, looks, cites)
	const tools = `"tools":[` + webTool + `,` + codeTool + `,` + shopTool + `]`
	names := []string{"code_interpreter_call.outputs", "web_search_call.action.sources", "web_search_call.results"}
	query := "include=" + names[0] + "&include[]=" + names[1] + "," + names[2]
	for _, more := range []string{"", `,"background":true`} {
		made := func(include string) (id string) {
			id = responded(t, g.post("/v1/responses", `{"input":"Hi",`+tools+include+more+`}`))["id"].(string)
			return g.await(id, "completed")["id"].(string)
		}
		with, without := made(`,"include":["`+strings.Join(names, `","`)+`"]`), made("")
		want := alike(responded(t, g.do("GET", "/v1/responses/"+with, "")))["output"]
		for _, of := range []string{with, without} {
			if got := alike(responded(t, g.do("GET", "/v1/responses/"+of+"?"+query, "")))["output"]; !reflect.DeepEqual(got, want) {
				t.Errorf("background %q: got %v\nwant %v", more, got, want)
			}
			events := streamed(t, g.do("GET", "/v1/responses/"+of+"?stream=true&"+query, ""))
			if got := alike(fold(t, events))["output"]; !reflect.DeepEqual(got, want) {
				t.Errorf("background %q, streamed: got %v\nwant %v", more, got, want)
			}
		}
		plain := responded(t, g.do("GET", "/v1/responses/"+without, ""))
		if text := fmt.Sprint(plain); strings.Contains(text, "in full") || strings.Contains(text, "https://example.com/b") {
			t.Errorf("nobody asked for all of %s", text)
		}
		one := responded(t, g.do("GET", "/v1/responses/"+without+"?include="+names[0], ""))
		if text := fmt.Sprint(one); !strings.Contains(text, "1+1 gives 0, in full") || strings.Contains(text, "https://example.com/b") {
			t.Errorf("with outputs alone: %s", text)
		}
	}
	id := responded(t, g.post("/v1/responses", `{"input":"Hi",`+tools+`}`))["id"].(string)
	r := g.do("GET", "/v1/responses/"+id+"?include=odd&include=reasoning.encrypted_content", "")
	if got := r.header.Get("x-ossian-ignored"); got != "include.odd" {
		t.Errorf("ignored %q", got)
	}
	sealed, _ := at(responded(t, r), "output", 1, "encrypted_content").(string)
	text := at(responded(t, r), "output", 1, "content", 0, "text").(string)
	ask := func(reasoning string) string {
		return g.post("/v1/responses/input_tokens", `{"input":[{"role":"user","content":"Hi"},{"type":"reasoning","summary":[],`+reasoning+`}]}`).body
	}
	if a, b := ask(`"encrypted_content":"`+sealed+`"`), ask(`"content":[{"type":"reasoning_text","text":"`+text+`"}]`); sealed == "" || a != b || !strings.Contains(a, "input_tokens") {
		t.Errorf("sealed %q: %s, open %s", sealed, a, b)
	}
}

// Annotations: each citation that has a page is one, and
// its place selects the mark in the text; the others stay text.
func TestLimitationAnnotations(t *testing.T) {
	t.Parallel()
	g := serving(t, toolbox(), searches, opens, cites)
	r := responded(t, g.post("/v1/responses", `{"input":"Hi","tools":[`+webTool+`]}`))
	out := r["output"].([]any)
	part := at(out, len(out)-1, "content", 0).(object)
	text := []rune(part["text"].(string))
	notes := part["annotations"].([]any)
	if len(notes) != 2 || string(text) != "Rain ☔【0†L1-L2】 and sun【1†L3】, see 【9†L1】." {
		t.Fatalf("%d annotations in %q", len(notes), string(text))
	}
	for i, mark := range []string{"【0†L1-L2】", "【1†L3】"} {
		note := notes[i].(object)
		from, to := int(note["start_index"].(float64)), int(note["end_index"].(float64))
		if got := string(text[from:to]); got != mark || note["url"] != fmt.Sprintf("https://example.com/%d", i) || note["title"] != "Page" {
			t.Errorf("annotation %d is of %q: %v", i, got, note)
		}
	}
}

// With --citations link a citation that has a page becomes a link, which its annotation selects,
// in both APIs, whole and streamed.
func TestCitationLinks(t *testing.T) {
	t.Parallel()
	u := inMemory(t, setup{next: steps(searches, opens, cites)})
	u.cfg.Toolbox, u.cfg.CitationLinks = toolbox(), true
	g := start(t, u)
	const want = "Rain ☔ ([example.com](https://example.com/0))  and sun ([example.com](https://example.com/1)) , see 【9†L1】."
	check := func(name, text string, notes []any, place func(note any) object) {
		t.Helper()
		if text != want || len(notes) != 2 {
			t.Fatalf("%s: %d annotations of %q, want %q", name, len(notes), text, want)
		}
		for i := range notes {
			note, link := place(notes[i]), fmt.Sprintf(" ([example.com](https://example.com/%d)) ", i)
			if got := string([]rune(text)[int(note["start_index"].(float64)):int(note["end_index"].(float64))]); got != link {
				t.Errorf("%s: annotation %d is of %q", name, i, got)
			}
		}
	}
	flat := func(note any) object { return note.(object) }
	const asked = `{"input":"Hi","tools":[` + webTool + `]`
	for name, r := range map[string]object{"whole": responded(t, g.post("/v1/responses", asked+`}`)), "streamed": fold(t, streamed(t, g.post("/v1/responses", asked+`,"stream":true}`)))} {
		out := r["output"].([]any)
		part := at(out, len(out)-1, "content", 0).(object)
		check(name, part["text"].(string), part["annotations"].([]any), flat)
	}
	var chat object
	if err := json.Unmarshal([]byte(g.post(chatsPath, `{`+hi+`,"tools":[`+webTool+`]}`).body), &chat); err != nil {
		t.Fatal(err)
	}
	message := at(chat, "choices", 0, "message").(object)
	check("chat", message["content"].(string), message["annotations"].([]any), func(note any) object { return note.(object)["url_citation"].(object) })
}

// Usage: the sums of all steps, exact, with the numbers of each.
func TestLimitationUsage(t *testing.T) {
	t.Parallel()
	g := serving(t, toolbox(), searches, opens, cites)
	r := responded(t, g.post("/v1/responses", `{"input":"Hi","tools":[`+webTool+`]}`))
	usage := r["usage"].(object)
	sampled := len(said(searches)) + len(said(opens)) + len(said(cites))
	prompts, outputs := list(usage["input_tokens_per_turn"]), list(usage["output_tokens_per_turn"])
	if len(prompts) != 3 || len(outputs) != 3 {
		t.Fatalf("usage %v", usage)
	}
	in, out := 0.0, 0.0
	for i := range prompts {
		in, out = in+prompts[i].(float64), out+outputs[i].(float64)
	}
	if usage["output_tokens"] != float64(sampled) || out != float64(sampled) || usage["input_tokens"] != in || usage["total_tokens"] != in+out {
		t.Errorf("usage %v, want %d of output", usage, sampled)
	}
	// Each prompt has the one before, what was sampled, and what the call gave.
	results := at(usage, "output_tokens_details", "tool_output_tokens").(float64)
	if grown := prompts[2].(float64) - prompts[0].(float64); grown != float64(len(said(searches))+len(said(opens)))+results || results <= 0 {
		t.Errorf("the prompts grew by %v, results have %v: %v", grown, results, usage)
	}
}

// Truncation: what was said until the bound is kept, wherever it cuts, and the bound counts all
// steps.
func TestLimitationTruncation(t *testing.T) {
	t.Parallel()
	g := serving(t, toolbox(), computes, looks, hello)
	all := len(said(computes)) + len(said(looks)) + len(said(hello))
	for most := 1; most < all; most++ {
		body := fmt.Sprintf(`{"input":"Hi","tools":[%s,%s],"max_output_tokens":%d`, codeTool, shopTool, most)
		events := streamed(t, g.post("/v1/responses", body+`,"stream":true}`))
		live := fold(t, events)
		whole := responded(t, g.post("/v1/responses", body+`}`))
		if a, b := usageApart(alike(live)), usageApart(alike(whole)); !reflect.DeepEqual(a, b) {
			t.Fatalf("%d tokens:\nstreamed %v\nwhole    %v", most, a, b)
		}
		if got := at(live, "usage", "output_tokens"); got != float64(most) || live["status"] != "incomplete" || at(live, "incomplete_details", "reason") != "max_output_tokens" {
			t.Errorf("%d tokens: %v of output, %v", most, got, live["status"])
		}
		for i, it := range live["output"].([]any) {
			status, last := it.(object)["status"], i == len(live["output"].([]any))-1
			if status != nil && status != "completed" && !last {
				t.Errorf("%d tokens: item %d is %v", most, i, status)
			}
		}
	}
	g.idle()
}

// Items and their places: ids are chosen once, for the stream, the object, the store and requests
// that send them back; fold has held the places to their order.
func TestLimitationItemIDs(t *testing.T) {
	t.Parallel()
	g := serving(t, toolbox(), searches, computes, looks, cites)
	const tools = `"tools":[` + webTool + `,` + codeTool + `,` + shopTool + `]`
	events := streamed(t, g.post("/v1/responses", `{"input":"Hi",`+tools+`,"stream":true}`))
	live := fold(t, events)
	prefixes := map[string]string{"reasoning": "rs_", "message": "msg_", "web_search_call": "ws_", "code_interpreter_call": "ci_", "mcp_call": "mcp_", "mcp_list_tools": "mcpl_"}
	seen := map[string]bool{}
	for _, it := range live["output"].([]any) {
		id, kind := it.(object)["id"].(string), it.(object)["type"].(string)
		if seen[id] || prefixes[kind] == "" || !strings.HasPrefix(id, prefixes[kind]) {
			t.Errorf("%s has the id %q", kind, id)
		}
		seen[id] = true
	}
	items, _ := json.Marshal(live["output"])
	next := responded(t, g.post("/v1/responses", `{"input":[{"role":"user","content":"Hi"},`+string(items[1:len(items)-1])+`,{"role":"user","content":"And?"}],`+tools+`}`))
	asked := parsed(t, g.do("GET", "/v1/responses/"+next["id"].(string)+"/input_items?order=asc", "").body)
	valid(t, "ItemList", asked)
	data := asked["data"].([]any)
	for i, it := range live["output"].([]any) {
		if kind := it.(object)["type"]; kind == "message" {
			it.(object)["content"] = data[1+i].(object)["content"] // citations are of the answer, not of what repeats it
		}
		if !reflect.DeepEqual(data[1+i], it) {
			t.Errorf("sent back %v\nwant %v", data[1+i], it)
		}
	}
}

// A meter notes when things happen, in their order.
type meter struct {
	mu   sync.Mutex
	what []string
}

func (m *meter) note(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.what = append(m.what, what)
}

// Phases are told when they happen: that a call runs is with the client while it does, and nothing
// of its end.
func TestLimitationPhasesLive(t *testing.T) {
	t.Parallel()
	for _, interval := range []int{1, 1000} {
		box, log := toolbox(), &meter{}
		inside, goOn := make(chan struct{}), make(chan struct{})
		box.python.call = func(context.Context, builtin.Call, int) builtin.Result {
			close(inside)
			<-goOn
			log.note("tool ends")
			return builtin.Result{Text: "2"}
		}
		u := inMemory(t, setup{next: steps(computes, hello)})
		u.cfg.Toolbox, u.cfg.StreamInterval = box, interval
		g := start(t, u)
		res, err := g.client.Post(g.url+"/v1/responses", "application/json", strings.NewReader(`{"input":"Hi","stream":true,"tools":[`+codeTool+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(res.Body)
		for lines.Buffer(nil, 1<<20); lines.Scan(); {
			name, isEvent := strings.CutPrefix(lines.Text(), "event: ")
			if !isEvent {
				continue
			}
			log.note(name)
			if name == "response.code_interpreter_call.interpreting" {
				<-inside
				close(goOn)
			}
		}
		res.Body.Close()
		runs, ends, told := slices.Index(log.what, "response.code_interpreter_call.interpreting"), slices.Index(log.what, "tool ends"), slices.Index(log.what, "response.code_interpreter_call.completed")
		if runs < 0 || ends < runs || told < ends {
			t.Errorf("interval %d: %s", interval, strings.Join(log.what, " "))
		}
	}
}

// Errors: a tool that fails, and one that does not answer, end with an answer; what cannot be done
// at all is said with its place.
func TestLimitationErrors(t *testing.T) {
	t.Parallel()
	g := serving(t, toolbox(), strings.Replace(looks, "tea", "gone", 1), hello)
	r := responded(t, g.post("/v1/responses", `{"input":"Hi","tools":[`+shopTool+`]}`))
	failed := at(r, "output", 2).(object)
	if want := (object{"type": "http_error", "code": 502.0, "message": "bad gateway"}); failed["status"] != "failed" || failed["output"] != nil || !reflect.DeepEqual(failed["error"], want) || r["status"] != "completed" {
		t.Errorf("%v in a response that is %v", failed, r["status"])
	}
	for _, tt := range []struct{ name, body, code, param string }{
		{"no such label", `{"input":"x","tools":[{"type":"mcp","server_label":"other"}]}`, "invalid_value", "tools[0].server_label"},
		{"no label", `{"input":"x","tools":[{"type":"mcp"}]}`, "missing_required_parameter", "tools[0].server_label"},
		{"choice of what is not asked for", `{"input":"x","tools":[` + webTool + `],"tool_choice":{"type":"code_interpreter"}}`, "invalid_value", "tool_choice"},
		{"choice of another label", `{"input":"x","tools":[` + shopTool + `],"tool_choice":{"type":"mcp","server_label":"other"}}`, "invalid_value", "tool_choice"},
		{"choice of a tool that the server does not have", `{"input":"x","tools":[` + shopTool + `],"tool_choice":{"type":"mcp","server_label":"shop","name":"sell"}}`, "invalid_value", "tool_choice"},
		{"allowed and not asked for", `{"input":"x","tools":[` + shopTool + `],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"}]}}`, "invalid_value", "tool_choice"},
		{"no calls", `{"input":"x","tools":[` + shopTool + `],"max_tool_calls":0}`, "invalid_value", "max_tool_calls"},
		{"approval of nothing", `{"input":[{"type":"mcp_approval_response","approval_request_id":"mcpr_x","approve":true}],"tools":[` + shopTool + `]}`, "invalid_value", "input[0].approval_request_id"},
		{"approval without id", `{"input":[{"type":"mcp_approval_response","approve":true}],"tools":[` + shopTool + `]}`, "missing_required_parameter", "input[0].approval_request_id"},
	} {
		t.Log(tt.name)
		wantError(t, g.post("/v1/responses", tt.body), 400, "invalid_request_error", tt.code, tt.param)
	}
}

// Prompts that go on from a response with calls are its last prompt, what was sampled, and what
// follows, id for id: by its id, by its items, by its items without ids of some.
func TestServedPrompts(t *testing.T) {
	t.Parallel()
	box := toolbox()
	for _, tt := range []struct {
		name, tools string
		replies     []string
	}{
		{"browser", webTool, []string{searches, opens, asksCity}},
		{"python and mcp", codeTool + "," + shopTool, []string{computes, looks, asksCity}},
	} {
		var prompts [][]int32
		var mu sync.Mutex
		u := inMemory(t, setup{})
		script := steps(tt.replies...)
		u.next = func(history []int32, step uint64) int32 {
			if step == 0 {
				mu.Lock()
				prompts = append(prompts, slices.Clone(history))
				mu.Unlock()
			}
			return script(history, step)
		}
		u.cfg.Toolbox = box
		g := start(t, u)
		const city = "," + cityFlat
		first := responded(t, g.post("/v1/responses", `{"input":"Hi","tools":[`+tt.tools+city+`]}`))
		g.idle()
		last := append(slices.Clone(prompts[len(prompts)-1]), said(asksCity)...)
		out := first["output"].([]any)
		result := `{"type":"function_call_output","call_id":"` + at(out, len(out)-1, "call_id").(string) + `","output":"rain"}`
		ids := func(body string) []int32 {
			t.Helper()
			r := parsed(t, g.post("/tokenize", body).body)
			var all []int32
			for _, id := range list(r["tokens"]) {
				all = append(all, int32(id.(float64)))
			}
			return all
		}
		items, _ := json.Marshal(out)
		chained := ids(`{"previous_response_id":"` + first["id"].(string) + `","input":[` + result + `],"tools":[` + tt.tools + city + `]}`)
		if len(chained) < len(last) || !slices.Equal(chained[:len(last)], last) {
			t.Errorf("%s: the prompt does not go on with that of the last step:\n%s\nwant\n%s", tt.name, harmony().Decode(chained), harmony().Decode(last))
		}
		back := ids(`{"input":[{"role":"user","content":"Hi"},` + string(items[1:len(items)-1]) + `,` + result + `],"tools":[` + tt.tools + city + `]}`)
		if !slices.Equal(back, chained) {
			t.Errorf("%s: %d ids sent back, %d in the chain", tt.name, len(back), len(chained))
		}
		// Without its reasoning the response is not whole, but what its calls gave is known.
		var rest []any
		for _, it := range out {
			if it.(object)["type"] != "reasoning" {
				rest = append(rest, it)
			}
		}
		items, _ = json.Marshal(rest)
		part := ids(`{"input":[{"role":"user","content":"Hi"},` + string(items[1:len(items)-1]) + `,` + result + `],"tools":[` + tt.tools + city + `]}`)
		if text := harmony().Decode(part); tt.name == "browser" && (!strings.Contains(text, "[0] a page") || !strings.Contains(text, "[1] a page")) {
			t.Errorf("%s: in part: %s", tt.name, text)
		}
	}
}

// The sessions of a conversation are one: the state of one response is where the next begins,
// under the id of the first.
func TestServedChain(t *testing.T) {
	t.Parallel()
	box := toolbox()
	g := serving(t, box, computes, hello)
	first := responded(t, g.post("/v1/responses", `{"input":"Hi","tools":[`+codeTool+`]}`))
	id := first["id"].(string)
	if got := box.python.last(); got.ID != id || got.State != nil || !got.Kept || got.Owner != "local" {
		t.Errorf("the first is opened with %+v", got)
	}
	again := streamed(t, g.post("/v1/responses", `{"previous_response_id":"`+id+`","input":"And?","tools":[`+codeTool+`],"include":["code_interpreter_call.outputs"],"stream":true}`))
	for _, event := range again { // where its code runs is known from the start
		if kind := at(event, "item", "type"); kind == "code_interpreter_call" && at(event, "item", "container_id") != "cntr_1" {
			t.Errorf("%v does not say where it runs", event)
		}
	}
	second := fold(t, again)
	if got := box.python.last(); got.ID != id || string(got.State) != "1" {
		t.Errorf("the second is opened with %+v", got)
	}
	if got := at(second, "output", 1, "outputs", 0, "logs"); got != "1+1 gives 1, in full" {
		t.Errorf("the second call gives %v", got)
	}
	between := responded(t, g.post("/v1/responses", `{"previous_response_id":"`+second["id"].(string)+`","input":"And?"}`))
	responded(t, g.post("/v1/responses", `{"previous_response_id":"`+between["id"].(string)+`","input":"And?","tools":[`+codeTool+`]}`))
	if got := box.python.last(); got.ID != id || string(got.State) != "2" {
		t.Errorf("behind one without tools it is opened with %+v", got)
	}
	items, _ := json.Marshal(second["output"])
	responded(t, g.post("/v1/responses", `{"store":false,"input":[{"role":"user","content":"Hi"},`+string(items[1:len(items)-1])+`,{"role":"user","content":"And?"}],"tools":[`+codeTool+`]}`))
	if got := box.python.last(); got.ID != id || string(got.State) != "2" || got.Kept {
		t.Errorf("by items it is opened with %+v", got)
	}
	responded(t, g.post("/v1/responses", `{"input":"Hi","tools":[`+codeTool+`]}`))
	if got := box.python.last(); got.ID == id || got.State != nil {
		t.Errorf("another conversation is opened with %+v", got)
	}
	g.idle()
	box.python.mu.Lock()
	defer box.python.mu.Unlock()
	if box.python.closed != len(box.python.chains) {
		t.Errorf("%d sessions, %d closed", len(box.python.chains), box.python.closed)
	}
}

// A call that needs the client's word ends the response; with the word it runs, or does not, and
// the answer goes on. By the response's id and by items, also of a client that keeps them itself.
func TestServedApproval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, reply, status, told string }{
		{"yes", `"approve":true`, "completed", "buy {}"},
		{"no", `"approve":false,"reason":"Too much."`, "failed", "The user declined this tool call. Too much."},
	} {
		for _, keep := range []string{"true", "false"} {
			g := serving(t, toolbox(), buys, hello)
			first := responded(t, g.post("/v1/responses", `{"input":"Hi","store":`+keep+`,"tools":[`+shopTool+`]}`))
			out := first["output"].([]any)
			ask := out[len(out)-1].(object)
			if first["status"] != "completed" || ask["type"] != "mcp_approval_request" || ask["name"] != "buy" || ask["server_label"] != "shop" || ask["arguments"] != "{}" || first["empty_reason"] != nil {
				t.Fatalf("%s: %v", tt.name, first)
			}
			reply := `{"type":"mcp_approval_response","approval_request_id":"` + ask["id"].(string) + `",` + tt.reply + `}`
			items, _ := json.Marshal(out)
			bodies := []string{`{"store":` + keep + `,"input":[{"role":"user","content":"Hi"},` + string(items[1:len(items)-1]) + `,` + reply + `],"tools":[` + shopTool + `]`}
			if keep == "true" {
				bodies = append(bodies, `{"previous_response_id":"`+first["id"].(string)+`","input":[`+reply+`],"tools":[`+shopTool+`]`)
			}
			for i, body := range bodies {
				second := fold(t, streamed(t, g.post("/v1/responses", body+`,"stream":true}`)))
				run := at(second, "output", 0).(object)
				text := run["output"]
				if tt.status == "failed" {
					text = at(run, "error", "content", 0, "text")
				}
				if run["type"] != "mcp_call" || run["status"] != tt.status || run["approval_request_id"] != ask["id"] || text != tt.told || second["status"] != "completed" {
					t.Errorf("%s, way %d: %v", tt.name, i, run)
				}
				if n := len(second["output"].([]any)); n != 3 { // the list of tools is not sent again
					t.Errorf("%s, way %d: %d items: %v", tt.name, i, n, second["output"])
				}
				if keep == "true" { // the third response reads what the call gave
					third := harmony().Decode(promptOf(t, g, `{"previous_response_id":"`+second["id"].(string)+`","input":"And?","tools":[`+shopTool+`]}`))
					if !strings.Contains(third, tt.told) {
						t.Errorf("%s, way %d: the third prompt is %s", tt.name, i, third)
					}
				}
			}
			if keep == "true" {
				twice := g.post("/v1/responses", bodies[1]+`}`)
				responded(t, twice) // another answer to the first response
			}
		}
	}
}

// promptOf returns the ids of a request's prompt.
func promptOf(t testing.TB, g *rig, body string) (ids []int32) {
	t.Helper()
	for _, id := range list(parsed(t, g.post("/tokenize", body).body)["tokens"]) {
		ids = append(ids, int32(id.(float64)))
	}
	return ids
}

// Choices of the server's tools: none hides them, a named one has to be called, and the number of
// calls is bounded.
func TestServedChoice(t *testing.T) {
	t.Parallel()
	g := serving(t, toolbox(), searches, hello)
	const tools = `"tools":[` + webTool + `,` + shopTool + `]`
	none := promptOf(t, g, `{"input":"Hi","tool_choice":"none",`+tools+`}`)
	if plain := promptOf(t, g, `{"input":"Hi"}`); !slices.Equal(none, plain) {
		t.Errorf("with tool_choice none the prompt is %s", harmony().Decode(none))
	}
	if text := harmony().Decode(promptOf(t, g, `{"input":"Hi",`+tools+`}`)); !strings.Contains(text, "namespace browser") || !strings.Contains(text, "namespace shop_server") {
		t.Errorf("the tools are not in %s", text)
	}
	named := responded(t, g.post("/v1/responses", `{"input":"Hi",`+tools+`,"tool_choice":{"type":"mcp","server_label":"shop","name":"look"},"max_output_tokens":60}`))
	called := false
	for _, it := range named["output"].([]any) {
		called = called || it.(object)["type"] == "mcp_call"
		if it.(object)["type"] == "web_search_call" {
			t.Errorf("another tool was called: %v", it)
		}
	}
	if !called || !reflect.DeepEqual(named["tool_choice"], object{"type": "mcp", "server_label": "shop", "name": "look"}) {
		t.Errorf("%v of %v", named["output"], named["tool_choice"])
	}
	g = serving(t, toolbox(), searches, searches, searches, hello)
	r := responded(t, g.post("/v1/responses", `{"input":"Hi","tools":[`+webTool+`],"max_tool_calls":2,"max_output_tokens":200}`))
	n := 0
	for _, it := range r["output"].([]any) {
		if it.(object)["type"] == "web_search_call" {
			n++
		}
	}
	if n != 2 || r["max_tool_calls"] != 2.0 {
		t.Errorf("%d calls: %v", n, r)
	}
}

// A response in the background that is cancelled while a tool runs: the tool ends, the item is
// closed, and what had ended before is kept.
func TestServedCancel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, tool, reply, kind, status string }{
		{"python", codeTool, computes, "code_interpreter_call", "incomplete"},
		{"mcp", shopTool, looks, "mcp_call", "incomplete"},
		{"browser", webTool, searches, "web_search_call", "failed"},
	} {
		box := toolbox()
		inside := make(chan struct{})
		hang := func(ctx context.Context, _ builtin.Call, _ int) builtin.Result {
			close(inside)
			<-ctx.Done()
			return builtin.Result{Text: "cancelled", Outcome: builtin.Cancelled}
		}
		box.python.call, box.browser.call, box.remote["shop"].call = hang, hang, hang
		g := serving(t, box, tt.reply, hello)
		id := responded(t, g.post("/v1/responses", `{"input":"Hi","background":true,"tools":[`+tt.tool+`]}`))["id"].(string)
		<-inside
		began := time.Now()
		r := responded(t, g.post("/v1/responses/"+id+"/cancel", ""))
		within(t, "a cancelled tool", time.Since(began), time.Second, time.Minute)
		out := r["output"].([]any)
		last := out[len(out)-1].(object)
		if r["status"] != "cancelled" || last["type"] != tt.kind || last["status"] != tt.status {
			t.Errorf("%s: %v in a response that is %v", tt.name, last, r["status"])
		}
		if of := fold(t, streamed(t, g.do("GET", "/v1/responses/"+id+"?stream=true", ""))); !reflect.DeepEqual(of, r) {
			t.Errorf("%s: followed %v\nwant %v", tt.name, of, r)
		}
		g.idle()
	}
}

// Secrets of a request are in no reply, and nowhere in the store.
func TestServedSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	archive, err := store.Open(store.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var log logBuffer
	u := setup{next: steps(looks, hello), log: &log}
	u.cfg.Archive, u.cfg.Toolbox, u.cfg.AccessLog = archive, toolbox(), true
	g := start(t, u)
	const secret = "canary-5f3a"
	tool := `{"type":"mcp","server_label":"shop","server_url":"https://example.com/` + secret + `?key=` + secret + `","headers":{"X-Key":"` + secret + `"},"authorization":"` + secret + `","require_approval":"never"}`
	for _, body := range []string{
		`{"input":"Hi","tools":[` + tool + `],"stream":true}`, `{"input":"Hi","tools":[` + tool + `],"background":true}`,
		`{"input":"Hi","tools":[` + tool + `],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[` + tool + `]}}`,
		`{"input":"Hi","tools":[` + tool + `],"tool_choice":` + tool + `,"max_output_tokens":100}`,
	} {
		r := g.post("/v1/responses", body)
		if r.status != 200 || strings.Contains(r.body+fmt.Sprint(r.header), secret) {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	g.idle()
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), secret) {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil || strings.Contains(log.String(), secret) {
		t.Errorf("%v, log %s", err, log.String())
	}
}

// Without tools of the server nothing has changed.
func TestServedOff(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: hello}))
	r := g.post("/v1/responses", `{"input":[{"role":"user","content":"Hi"},{"type":"mcp_call","server_label":"l","name":"n","arguments":"{}"}],"tools":[`+webTool+`,{"type":"mcp"}]}`)
	if o := responded(t, r); len(o["tools"].([]any)) != 0 || r.header.Get("x-ossian-ignored") != "input.mcp_call, tools.web_search, tools.mcp" {
		t.Errorf("tools %v, ignored %q", o["tools"], r.header.Get("x-ossian-ignored"))
	}
	wantError(t, g.post("/v1/responses", `{"input":"Hi","tools":[`+shopTool+`],"tool_choice":{"type":"mcp","server_label":"shop"}}`), 400, "invalid_request_error", "unsupported_tool", "tool_choice")
	for members, param := range map[string]string{`"tools":[{"type":"function","function":{"name":"f"}},{"type":"web_search"}]`: "tools[1].type", `"web_search_options":{}`: "web_search_options", `"tools":[{"type":"file_search"}]`: "tools[0].type"} {
		r := g.post(chatsPath, `{"messages":[{"role":"user","content":"x"}],`+members+`}`)
		if wantError(t, r, 400, "invalid_request_error", "unsupported_tool", param); !strings.Contains(r.body, "file_search") && !strings.Contains(r.body, "--tool-server demo") {
			t.Errorf("%s: %s", members, r.body)
		}
	}
	r = g.post("/v1/responses", `{"input":"Hi","include":["reasoning.encrypted_content","web_search_call.sources"],"tools":[`+codeTool+`],"tool_choice":{"type":"code_interpreter"}}`)
	if wantError(t, r, 400, "invalid_request_error", "unsupported_tool", "tool_choice"); !strings.Contains(r.body, "runs no tool of type code_interpreter") {
		t.Error(r.body)
	}
	if ignored := r.header.Get("x-ossian-ignored"); ignored != "include.web_search_call.sources, tools.code_interpreter" {
		t.Errorf("ignored %q", ignored)
	}
	box := toolbox()
	box.browser = nil
	g = serving(t, box, hello)
	r = g.post("/v1/responses", `{"input":"Hi","tools":[`+webTool+`,`+codeTool+`]}`)
	if o := responded(t, r); len(o["tools"].([]any)) != 1 || r.header.Get("x-ossian-ignored") != "tools.web_search" {
		t.Errorf("tools %v, ignored %q", o["tools"], r.header.Get("x-ossian-ignored"))
	}
	wantError(t, g.post("/v1/responses", `{"input":"Hi","tools":[`+webTool+`],"tool_choice":{"type":"web_search"}}`), 400, "invalid_request_error", "unsupported_tool", "tool_choice")
	r = g.post("/v1/responses", `{"input":"Hi","tools":[{"type":"code_interpreter","container":"cntr_of_nobody"}]}`)
	if responded(t, r); r.header.Get("x-ossian-ignored") != "tools[0].container" {
		t.Errorf("ignored %q", r.header.Get("x-ossian-ignored"))
	}
}

// Whatever calls a model makes one behind the other, and wherever the answer is cut: events give
// the object, streamed is what is not streamed and what is stored and replayed (LIF-4).
func TestServedFold(t *testing.T) {
	t.Parallel()
	var scripts [][]int32
	for _, text := range []string{searches, opens, computes, looks, buys, hello, cites, asksCity, hello, thinks + "<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant" + opens} {
		scripts = append(scripts, said(text))
	}
	next, _ := answers(scripts)
	u := inMemory(t, setup{next: next})
	u.cfg.StreamInterval, u.cfg.Toolbox = 3, toolbox()
	g := start(t, u)
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range soak.Cases(t, 30, 3000) {
		more := ""
		if rng.IntN(2) == 0 {
			more = fmt.Sprintf(`,"max_output_tokens":%d`, 1+rng.IntN(150))
		}
		if rng.IntN(3) == 0 {
			more += `,"stop":["e","an"]`
		}
		if rng.IntN(3) == 0 {
			more += `,"include":["message.output_text.logprobs","code_interpreter_call.outputs","web_search_call.action.sources"],"top_logprobs":1`
		}
		if rng.IntN(4) == 0 {
			more += `,"max_tool_calls":2`
		}
		ask := `{"input":"` + numbers(i, 3) + `","tools":[` + webTool + `,` + codeTool + `,` + shopTool + `,` + cityFlat + `]` + more
		whole := responded(t, g.post("/v1/responses", ask+`}`))
		live := fold(t, streamed(t, g.post("/v1/responses", ask+`,"stream":true}`)))
		kept := responded(t, g.do("GET", "/v1/responses/"+live["id"].(string), ""))
		again := fold(t, streamed(t, g.do("GET", "/v1/responses/"+live["id"].(string)+"?stream=true", "")))
		if !reflect.DeepEqual(kept, live) || !reflect.DeepEqual(again, live) {
			t.Fatalf("case %d: stored\n%v\nreplayed\n%v\nwant\n%v", i, kept, again, live)
		}
		later := responded(t, g.post("/v1/responses", ask+`,"background":true}`))["id"].(string)
		made := fold(t, streamed(t, g.do("GET", "/v1/responses/"+later+"?stream=true", "")))
		if a, b := usageApart(alike(made))["output"], usageApart(alike(live))["output"]; !reflect.DeepEqual(a, b) {
			t.Fatalf("case %d, %s:\nin the background %v\nstreamed %v", i, ask, a, b)
		}
		if a, b := usageApart(alike(whole)), usageApart(alike(live)); !reflect.DeepEqual(a, b) {
			t.Fatalf("case %d, %s:\nwhole    %v\nstreamed %v", i, ask, a, b)
		}
	}
	g.idle()
}
