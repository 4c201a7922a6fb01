package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/limits"
	"ossian/internal/sim"
	"ossian/internal/tools/mcp/mcptest"
	"ossian/internal/tools/registry"
)

// The cells of responses with tools (api.md 7: R-D, R-M, RB-D, RB-M, RS-D, RS-M): a scripted model,
// and tools as they ship. Prompts are compared id by id, and each request is made in every form.

// A stage plays answers by the number of results in the prompt, and keeps the ids of each step's
// prompt.
type stage struct {
	mu      sync.Mutex
	prompts [][]int32
}

func (s *stage) next(texts ...string) sim.Next {
	play := perResult(texts...)
	return func(history []int32, step uint64) int32 {
		if step == 0 {
			s.mu.Lock()
			s.prompts = append(s.prompts, slices.Clone(history))
			s.mu.Unlock()
		}
		return play(history, step)
	}
}

// took returns the prompts since it was called last.
func (s *stage) took() [][]int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.prompts
	s.prompts = nil
	return all
}

// A fromTool is what a tool said, on the channel on which it was called.
type fromTool struct{ from, channel, text string }

// firstPrompt is that of "Go on." with namespaces, which are declared in a system message.
func firstPrompt(namespaces string) []int32 {
	return said("<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: 2026-01-02\n\nReasoning: medium\n\n# Tools\n\n" + namespaces +
		"\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|><|start|>user<|message|>Go on.<|end|><|start|>assistant")
}

// wantPrompts checks those of an answer: each is the one before, what was sampled, and the result.
// Namespaces are declared as tools.md 2 has it.
func wantPrompts(t *testing.T, got [][]int32, namespaces string, sampled []string, results ...fromTool) {
	t.Helper()
	want := firstPrompt(namespaces)
	if len(got) != len(results)+1 {
		t.Fatalf("%d steps, want %d", len(got), len(results)+1)
	}
	for i, prompt := range got {
		if !slices.Equal(prompt, want) {
			t.Fatalf("step %d begins with\n%s\nwant\n%s", i, harmony().Decode(prompt), harmony().Decode(want))
		}
		if i == len(results) {
			return
		}
		p := harmony().Prompt()
		p.Markup("<|start|>" + results[i].from + " to=assistant<|channel|>" + results[i].channel + "<|message|>")
		p.Text(results[i].text)
		p.Markup("<|end|><|start|>assistant")
		want = slices.Concat(want, said(sampled[i]), p.IDs())
	}
}

// deliveries are the ways in which a response is delivered.
var deliveries = []string{"whole", "streamed", "in the background"}

// deliver asks for a response in one of the forms. Streams have to give the stored object, and
// replays, too.
func (g *rig) deliver(form, members string) object {
	g.t.Helper()
	body := `{"seed":1,` + members
	var made object
	switch form {
	case "whole":
		made = responded(g.t, g.post("/v1/responses", body+`}`))
	case "streamed":
		made = fold(g.t, streamed(g.t, g.post("/v1/responses", body+`,"stream":true}`)))
	default:
		first := responded(g.t, g.post("/v1/responses", body+`,"background":true}`))
		if first["status"] != "queued" || len(list(first["output"])) != 0 {
			g.t.Errorf("accepted as %v", first)
		}
		made = g.ended(first["id"].(string))
	}
	path := "/v1/responses/" + made["id"].(string)
	if kept := responded(g.t, g.do("GET", path, "")); !reflect.DeepEqual(kept, made) {
		g.t.Errorf("%s: stored %v\nwant %v", form, kept, made)
	}
	if replayed := fold(g.t, streamed(g.t, g.do("GET", path+"?stream=true", ""))); form != "whole" && !reflect.DeepEqual(replayed, made) {
		g.t.Errorf("%s: replayed %v\nwant %v", form, replayed, made)
	}
	return made
}

// ended polls a response until it has ended.
func (g *rig) ended(id string) object {
	g.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		r := responded(g.t, g.do("GET", "/v1/responses/"+id, ""))
		if status := r["status"]; (status != "queued" && status != "in_progress") || time.Now().After(end) {
			return r
		}
	}
}

// sameAs returns a copy without what differs between answers to one request.
func sameAs(t *testing.T, made object) object {
	out := alike(parsed(t, mustJSON(t, made)))
	out["background"] = nil
	for _, item := range list(out["output"]) {
		for _, name := range []string{"container_id", "approval_request_id"} {
			if _, there := item.(object)[name]; there {
				item.(object)[name] = nil
			}
		}
	}
	return out
}

// everyForm asks in each form, which has to give the same; check gets each response and its
// prompts.
func (g *rig) everyForm(t *testing.T, played *stage, members string, check func(made object, prompts [][]int32)) {
	t.Helper()
	var first object
	for _, form := range deliveries {
		played.took()
		made := g.deliver(form, members)
		check(made, played.took())
		if same := sameAs(t, made); first == nil {
			first = same
		} else if !reflect.DeepEqual(same, first) {
			t.Errorf("%s: %s:\n%v\nwhole:\n%v", members, form, same, first)
		}
	}
}

// itemsOf lists the output: types and states, and what a call did.
func itemsOf(made object) (all []string) {
	for _, it := range list(made["output"]) {
		item := it.(object)
		line := fmt.Sprint(item["type"])
		if status := item["status"]; status != nil && status != "completed" {
			line += fmt.Sprint(" ", status)
		}
		switch item["type"] {
		case "reasoning":
			continue
		case "web_search_call":
			action := item["action"].(object)
			line += fmt.Sprint(" ", action["type"])
			for _, name := range []string{"query", "url", "pattern"} {
				if action[name] != nil {
					line += fmt.Sprint(" ", action[name])
				}
			}
		case "code_interpreter_call":
			line += fmt.Sprint(" ", item["code"])
		case "mcp_call", "mcp_approval_request":
			line += fmt.Sprintf(" %v.%v %v", item["server_label"], item["name"], item["arguments"])
			if item["output"] != nil {
				line += fmt.Sprint(" gives ", item["output"])
			}
		case "mcp_list_tools":
			line += fmt.Sprint(" ", item["server_label"])
			for _, tool := range list(item["tools"]) {
				line += fmt.Sprint(" ", tool.(object)["name"])
			}
			if item["error"] != nil {
				line += " error"
			}
		case "message":
			line += fmt.Sprint(" ", at(item, "content", 0, "text"))
		}
		all = append(all, line)
	}
	return all
}

func wantItems(t *testing.T, made object, want ...string) {
	t.Helper()
	if got := itemsOf(made); !slices.Equal(got, want) {
		t.Errorf("output\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// golden reads a file of testdata.
func golden(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// equip starts a server with tools, which keeps responses.
func equip(t *testing.T, box *registry.Registry, next sim.Next) *rig {
	u := inMemory(t, setup{next: next})
	u.cfg.Toolbox = box
	return start(t, u)
}

// What the browser shows of the two pages of site, line by line.
const (
	foundHarp = "[0] harp frame\n**viewing lines [0 - 6] of 6**\n\nL0: \nL1: URL: \nL2: # Search Results\nL3: \nL4:   * 【0†The harp†corpus.local】 The harp A harp has strings. Its frame is of \nL5: willow. Bards\nL6:   * 【1†Bards†corpus.local】 Bards play the harp of willow."
	openHarp  = "[1] The harp (https://corpus.local/harp.html)\n**viewing lines [0 - 8] of 8**\n\nL0: \nL1: URL: https://corpus.local/harp.html\nL2: # The harp \nL3: \nL4: A harp has strings.\nL5: \nL6: Its frame is of willow.\nL7: \nL8: 【0†Bards】"
	inHarp    = "[2] Find results for text: `willow` in `The harp` (https://corpus.local/harp.html/find?pattern=willow)\n**viewing lines [0 - 3] of 3**\n\nL0: # 【0†match at L6】\nL1: Its frame is of willow.\nL2: \nL3: Bards"
)

// TestResponseDemoCell: R-D, RB-D and RS-D. Search, open, find and an answer with its source; runs
// of Python that share variables, and one that fails.
func TestResponseDemoCell(t *testing.T) {
	var played stage
	box := runs(t, nil, registry.Config{Servers: []string{"demo"}, Demo: registry.Demo{Browser: "corpus", Corpus: site(t)}})
	g := equip(t, box, played.next(browse...))
	const all = `"include":["web_search_call.action.sources","code_interpreter_call.outputs"]`
	for _, kind := range []string{"web_search", "web_search_preview", "browser_search"} {
		g.everyForm(t, &played, `"input":"Go on.","tools":[{"type":"`+kind+`"}],`+all, func(made object, prompts [][]int32) {
			wantPrompts(t, prompts, golden(t, "namespace-browser.txt"), browse, fromTool{"browser.search", "analysis", foundHarp}, fromTool{"browser.open", "analysis", openHarp}, fromTool{"browser.find", "analysis", inHarp})
			wantItems(t, made, "web_search_call search harp frame", "web_search_call open_page https://corpus.local/harp.html",
				"web_search_call find_in_page https://corpus.local/harp.html willow", "message Of willow【1†L3-L5】.")
			if got, want := at(made, "output", 1, "action", "sources"), []any{object{"type": "url", "url": "https://corpus.local/harp.html"}, object{"type": "url", "url": "https://corpus.local/bard.html"}}; !reflect.DeepEqual(got, want) {
				t.Errorf("sources %v", got)
			}
			wantCited(t, made, "【1†L3-L5】", "https://corpus.local/harp.html", "The harp")
			wantUsage(t, made, browse, prompts)
		})
	}
	script := []string{call("python", "x = 6*7"), call("python", "print(x)"), call("python", "raise ValueError('bad')"), "<|channel|>final<|message|>42<|return|>"}
	g = equip(t, box, played.next(script...))
	g.everyForm(t, &played, `"input":"Go on.","tools":[{"type":"code_interpreter","container":{"type":"auto"}}],`+all, func(made object, prompts [][]int32) {
		const nothing, fault = "[WARN] No output available. Use print() to output anything to stdout to receive the output", "Traceback (most recent call last):\n  File \"<cell 3>\", line 1, in <module>\n    raise ValueError('bad')\nValueError: bad\n"
		wantPrompts(t, prompts, golden(t, "namespace-python.txt"), script, fromTool{"python", "analysis", nothing}, fromTool{"python", "analysis", "42\n"}, fromTool{"python", "analysis", fault})
		wantItems(t, made, "code_interpreter_call x = 6*7", "code_interpreter_call print(x)", "code_interpreter_call raise ValueError('bad')", "message 42")
		for i, want := range map[int]string{1: nothing, 3: "42\n", 5: fault} {
			if got := at(made, "output", i, "outputs", 0, "logs"); got != want || !strings.HasPrefix(at(made, "output", i, "container_id").(string), "cntr_") {
				t.Errorf("outputs of %v: %q, want %q", at(made, "output", i), got, want)
			}
		}
		wantUsage(t, made, script, prompts)
	})
}

// wantCited checks the one annotation of the last message: its place selects the mark.
func wantCited(t *testing.T, made object, mark, url, title string) {
	t.Helper()
	out := list(made["output"])
	part := at(out, len(out)-1, "content", 0).(object)
	notes := list(part["annotations"])
	if len(notes) != 1 {
		t.Fatalf("%d annotations: %v", len(notes), part)
	}
	note := notes[0].(object)
	span := string([]rune(part["text"].(string))[int(note["start_index"].(float64)):int(note["end_index"].(float64))])
	if span != mark || note["url"] != url || note["title"] != title || note["type"] != "url_citation" {
		t.Errorf("%v is of %q, want %q of %s", note, span, mark, url)
	}
}

// wantUsage recounts the ids of all steps.
func wantUsage(t *testing.T, made object, sampled []string, prompts [][]int32) {
	t.Helper()
	in, out := 0, 0
	for i := range prompts {
		in, out = in+len(prompts[i]), out+len(said(sampled[i]))
	}
	if usage := made["usage"].(object); usage["input_tokens"] != float64(in) || usage["output_tokens"] != float64(out) || usage["total_tokens"] != float64(in+out) {
		t.Errorf("usage %v, %d ids in and %d out", usage, in, out)
	}
}

// TestResponseToolsEndWithAnswer: tools that fail or take too long, limits, and requests that ask
// for none.
func TestResponseToolsEndWithAnswer(t *testing.T) {
	t.Parallel() // it waits
	var played stage
	set := map[limits.ID]int64{limits.ToolTime: 1500}
	box := runs(t, set, registry.Config{Servers: []string{"demo"}, Demo: registry.Demo{Browser: "corpus", Corpus: site(t)}})
	const done = "<|channel|>final<|message|>Done.<|return|>"
	begin := func(texts ...string) *rig {
		u := inMemory(t, setup{next: played.next(texts...), limits: set})
		u.cfg.Toolbox = box
		return start(t, u)
	}
	wrong := call("browser.open", `{"id":7}`)
	g := begin(wrong, done)
	g.everyForm(t, &played, `"input":"Go on.","tools":[{"type":"web_search"}]`, func(made object, prompts [][]int32) {
		wantPrompts(t, prompts, golden(t, "namespace-browser.txt"), []string{wrong}, fromTool{"browser.open", "analysis", "No pages to access!"})
		if last := at(made, "output", 1, "status"); last != "failed" {
			t.Errorf("%v", made["output"])
		}
	})
	g = begin(call("python", "while True: pass"), done)
	g.everyForm(t, &played, `"input":"Go on.","tools":[{"type":"code_interpreter"}],"include":["code_interpreter_call.outputs"]`, func(made object, prompts [][]int32) {
		if text := harmony().Decode(prompts[len(prompts)-1]); !strings.Contains(text, "[ERROR] Execution timed out after") {
			t.Errorf("the model reads\n%s", text)
		}
		if got := itemsOf(made); got[len(got)-1] != "message Done." {
			t.Errorf("%v", got)
		}
	})
	g = begin(browse...)
	g.everyForm(t, &played, `"input":"Go on.","tools":[{"type":"web_search"}],"max_tool_calls":2,"max_output_tokens":300,"store":true`, func(made object, prompts [][]int32) {
		if calls := strings.Count(strings.Join(itemsOf(made), "\n"), "web_search_call"); calls != 2 || len(prompts) != 3 {
			t.Errorf("%d calls in %d steps: %v", calls, len(prompts), itemsOf(made))
		}
	})
	g = begin(done)
	g.everyForm(t, &played, `"input":"Go on."`, func(made object, prompts [][]int32) {
		if text := harmony().Decode(prompts[0]); strings.Contains(text, "# Tools") || len(prompts) != 1 {
			t.Errorf("offered to everybody:\n%s", text)
		}
	})
}

// What a browser elsewhere shows.
var elsewhere = map[string]string{
	"search": "[0] harp frame\n**viewing lines [0 - 4] of 4**\n\nL0: \nL1: URL: \nL2: # Search Results\nL3: \nL4:   * 【0†The harp†example.com】 Of willow.",
	"open":   "[1] The harp (https://example.com/harp)\n**viewing lines [0 - 0] of 0**\n\nL0: The frame is of willow.",
	"find":   "[2] Find results for text: `willow` in `The harp` (https://example.com/harp/find?pattern=willow)\n**viewing lines [0 - 0] of 0**\n\nL0: # 【0†match at L0】",
}

// remoteBrowser is a server named browser; inside runs in each of its calls.
func remoteBrowser(t *testing.T, over, version string, inside func()) *mcptest.Peer {
	var all []mcptest.Tool
	for _, name := range []string{"search", "open", "find"} {
		all = append(all, mcptest.Tool{Name: name, Call: func(string) (string, bool) { inside(); return elsewhere[name], false }})
	}
	return mcptest.Serve(t, "browser", over, version, all...)
}

// TestResponseMCPCell: R-M, RB-M and RS-M with servers named browser and python, over each
// transport, asked for as what they are and as the native tools.
func TestResponseMCPCell(t *testing.T) {
	const browser = "## browser\n\n// The server browser.\nnamespace browser {\n\ntype find = (_: {\n}) => any;\n\ntype open = (_: {\n}) => any;\n\ntype search = (_: {\n}) => any;\n\n} // namespace browser"
	ran := []string{call("python", "print(1)"), call("python", "print(2)"), "<|channel|>final<|message|>Both ran.<|return|>"}
	listed := "mcp_list_tools browser find open search"
	for _, how := range []struct{ over, version string }{{"sse", "2024-11-05"}, {"sse", ""}, {"http", "2025-03-26"}, {"http", "2025-06-18"}, {"http", "2025-11-25"}, {"http", ""}} {
		t.Run(how.over+how.version, func(t *testing.T) {
			var played stage
			box := runs(t, nil, registry.Config{Servers: []string{remoteBrowser(t, how.over, how.version, func() {}).Address, pythonPeer(t, how.over, how.version).Address}})
			g := equip(t, box, played.next(browse...))
			gave := []fromTool{{"browser.search", "analysis", elsewhere["search"]}, {"browser.open", "analysis", elsewhere["open"]}, {"browser.find", "analysis", elsewhere["find"]}}
			g.everyForm(t, &played, `"input":"Go on.","tools":[{"type":"mcp","server_label":"browser"}]`, func(made object, prompts [][]int32) {
				wantPrompts(t, prompts, browser, browse, gave...)
				wantItems(t, made, listed, `mcp_call browser.search {"query":"harp frame"} gives `+elsewhere["search"], `mcp_call browser.open {"id":0} gives `+elsewhere["open"],
					`mcp_call browser.find {"pattern":"willow"} gives `+elsewhere["find"], "message Of willow【1†L3-L5】.")
				wantUsage(t, made, browse, prompts)
			})
			g.everyForm(t, &played, `"input":"Go on.","tools":[{"type":"web_search"}]`, func(made object, prompts [][]int32) {
				wantPrompts(t, prompts, browser, browse, gave...)
				wantItems(t, made, "web_search_call search harp frame", "web_search_call open_page https://example.com/harp", "web_search_call find_in_page https://example.com/harp willow", "message Of willow【1†L3-L5】.")
				wantCited(t, made, "【1†L3-L5】", "https://example.com/harp", "The harp")
			})
			g = equip(t, box, played.next(ran...))
			gave = []fromTool{{"python", "analysis", `ran {"code":"print(1)"}`}, {"python", "analysis", `ran {"code":"print(2)"}`}}
			g.everyForm(t, &played, `"input":"Go on.","tools":[{"type":"mcp","server_label":"python","allowed_tools":["python"]}]`, func(made object, prompts [][]int32) {
				wantPrompts(t, prompts, "## python\n\nThe server python.", ran, gave...)
				wantRepeated(t, g, made, `"tools":[{"type":"mcp","server_label":"python"}]`)
				wantItems(t, made, "mcp_list_tools python python", `mcp_call python.python {"code":"print(1)"} gives `+gave[0].text, `mcp_call python.python {"code":"print(2)"} gives `+gave[1].text, "message Both ran.")
			})
			g.everyForm(t, &played, `"input":"Go on.","tools":[{"type":"code_interpreter","container":{"type":"auto"}}]`, func(made object, prompts [][]int32) {
				wantPrompts(t, prompts, "## python\n\nThe server python.", ran, gave...)
				wantItems(t, made, "code_interpreter_call print(1)", "code_interpreter_call print(2)", "message Both ran.")
			})
		})
	}
}

// wantRepeated checks that a conversation that clients keep themselves goes on as in the chain.
func wantRepeated(t *testing.T, g *rig, made object, tools string) {
	t.Helper()
	items := mustJSON(t, made["output"])
	got := promptOf(t, g, `{"store":false,"input":[{"role":"user","content":"Go on."},`+items[1:len(items)-1]+`,{"role":"user","content":"And?"}],`+tools+`}`)
	chained := promptOf(t, g, fmt.Sprintf(`{"previous_response_id":%q,"input":"And?",%s}`, made["id"], tools))
	if !slices.Equal(got, chained) {
		t.Errorf("sent back:\n%s\nin the chain:\n%s", harmony().Decode(got), harmony().Decode(chained))
	}
}

// weatherPeer is a server of which one tool works and one fails.
func weatherPeer(t *testing.T, inside func()) *mcptest.Peer {
	return mcptest.Serve(t, "weather", "http", "", mcptest.Tool{Name: "later", Description: "Weather later.", Call: func(string) (string, bool) { return "no such day", true }},
		mcptest.Tool{Name: "now", Description: "Weather now.", ReadOnly: true, Call: func(string) (string, bool) { inside(); return "rain", false }})
}

// TestResponseMCPCalls: a server of any name; what may be called of it, calls that wait for the
// client's word, and servers that are down from the start or from the middle.
func TestResponseMCPCalls(t *testing.T) {
	t.Parallel() // it waits
	var played stage
	peer := weatherPeer(t, func() {})
	box := runs(t, nil, registry.Config{Servers: []string{peer.Address, "gone=127.0.0.1:1"}})
	asks, fails := call("weather.now", "{}"), call("weather.later", "{}")
	const rain = "<|channel|>final<|message|>Rain.<|return|>"
	both := "## weather\n\n// The server weather.\nnamespace weather {\n\n// Weather later.\ntype later = (_: {\n}) => any;\n\n// Weather now.\ntype now = (_: {\n}) => any;\n\n} // namespace weather"
	g := equip(t, box, played.next(fails, asks, rain))
	g.everyForm(t, &played, `"input":"Go on.","tools":[{"type":"mcp","server_label":"weather"}]`, func(made object, prompts [][]int32) {
		wantPrompts(t, prompts, both, []string{fails, asks}, fromTool{"weather.later", "analysis", "no such day"}, fromTool{"weather.now", "analysis", "rain"})
		wantItems(t, made, "mcp_list_tools weather later now", "mcp_call failed weather.later {}", "mcp_call weather.now {} gives rain", "message Rain.")
		if got, want := at(made, "output", 2, "error"), any(object{"type": "mcp_tool_execution_error", "content": []any{object{"type": "text", "text": "no such day"}}}); !reflect.DeepEqual(got, want) {
			t.Errorf("error %v, want %v", got, want)
		}
	})
	// What is not allowed is not declared, and cannot be called: the model says it in vain.
	g.everyForm(t, &played, `"input":"Go on.","tools":[{"type":"mcp","server_label":"weather","allowed_tools":["now"]}]`, func(made object, prompts [][]int32) {
		first := harmony().Decode(prompts[0])
		if !strings.Contains(first, "Weather now.") || strings.Contains(first, "Weather later.") || strings.Contains(fmt.Sprint(itemsOf(made)), "later") {
			t.Errorf("allowed_tools:\n%s\n%v", first, itemsOf(made))
		}
	})
	g = equip(t, box, played.next(rain))
	g.everyForm(t, &played, `"input":"Go on.","tools":[{"type":"mcp","server_label":"gone"}]`, func(made object, prompts [][]int32) {
		wantItems(t, made, "mcp_list_tools gone error", "message Rain.")
		if len(prompts) != 1 || strings.Contains(harmony().Decode(prompts[0]), "# Tools") {
			t.Errorf("a server that is down is in the prompt: %s", harmony().Decode(prompts[0]))
		}
	})
	g = equip(t, box, played.next(asks, rain))
	for _, form := range deliveries {
		for _, reply := range []struct{ member, item, text string }{
			{`"approve":true`, "mcp_call weather.now {} gives rain", "rain"},
			{`"approve":false,"reason":"No need."`, "mcp_call failed weather.now {}", "The user declined this tool call. No need."},
		} {
			const tools = `"tools":[{"type":"mcp","server_label":"weather","require_approval":"always"}]`
			asked := g.deliver(form, `"input":"Go on.",`+tools)
			wantItems(t, asked, "mcp_list_tools weather later now", "mcp_approval_request weather.now {}")
			out := list(asked["output"])
			played.took()
			made := g.deliver(form, fmt.Sprintf(`"previous_response_id":%q,"input":[{"type":"mcp_approval_response","approval_request_id":%q,%s}],%s`, asked["id"], at(out, len(out)-1, "id"), reply.member, tools))
			wantItems(t, made, reply.item, "message Rain.")
			prompts := played.took()
			wantPrompts(t, append([][]int32{firstPrompt(both)}, prompts...), both, []string{asks}, fromTool{"weather.now", "analysis", reply.text})
		}
	}
	// It goes down between its list and its call.
	for _, form := range deliveries {
		peer := weatherPeer(t, func() {})
		box := runs(t, nil, registry.Config{Servers: []string{peer.Address}})
		g = equip(t, box, played.next(asks, rain))
		peer.Stop()
		made := g.deliver(form, `"input":"Go on.","tools":[{"type":"mcp","server_label":"weather"}]`)
		wantItems(t, made, "mcp_list_tools weather later now", "mcp_call failed weather.now {}", "message Rain.")
		if kind := at(made, "output", 2, "error", "type"); kind != "http_error" && kind != "mcp_protocol_error" {
			t.Errorf("%s: %v", form, made["output"])
		}
	}
}

// A barrier is a call that waits for the test.
type barrier struct{ entered, open chan struct{} }

func newBarrier() *barrier { return &barrier{make(chan struct{}, 8), make(chan struct{}, 8)} }

// lift lets all pass, so that servers can end.
func (g *barrier) lift() { close(g.open) }

func (g *barrier) pass() { g.entered <- struct{}{}; <-g.open }

// TestResponseToolsLive: RS-D and RS-M. A client is told that a call runs while it runs: the call
// does not end before the client has heard of it.
func TestResponseToolsLive(t *testing.T) {
	wait := newBarrier()
	defer wait.lift()
	box := runs(t, nil, registry.Config{Servers: []string{remoteBrowser(t, "http", "", wait.pass).Address, weatherPeer(t, wait.pass).Address}})
	for _, tt := range []struct{ tool, script, told, ends string }{
		{`{"type":"web_search"}`, call("browser.search", `{"query":"q"}`), "response.web_search_call.searching", "response.web_search_call.completed"},
		{`{"type":"mcp","server_label":"browser"}`, call("browser.open", `{"id":0}`), "response.mcp_call_arguments.done", "response.mcp_call.completed"},
		{`{"type":"mcp","server_label":"weather"}`, call("weather.now", `{}`), "response.mcp_call_arguments.done", "response.mcp_call.completed"},
	} {
		var played stage
		g := equip(t, box, played.next(tt.script, "<|channel|>final<|message|>Done.<|return|>"))
		res, err := g.client.Post(g.url+"/v1/responses", "application/json", strings.NewReader(`{"input":"Go on.","stream":true,"tools":[`+tt.tool+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		lines := bufio.NewScanner(res.Body)
		for lines.Buffer(nil, 1<<20); lines.Scan(); {
			name, ok := strings.CutPrefix(lines.Text(), "event: ")
			if !ok {
				continue
			}
			if kinds = append(kinds, name); name == tt.told {
				<-wait.entered
				wait.open <- struct{}{}
			}
		}
		res.Body.Close()
		if told, ends := slices.Index(kinds, tt.told), slices.Index(kinds, tt.ends); told < 0 || ends < told || kinds[len(kinds)-1] != "response.completed" {
			t.Errorf("%s: %v", tt.tool, kinds)
		}
	}
}

// TestResponseMCPOutlivesPost: RB-M. What a background response uses lives as long as that does:
// whoever asked for it has hung up before the call ends.
func TestResponseMCPOutlivesPost(t *testing.T) {
	var played stage
	wait := newBarrier()
	defer wait.lift()
	box := runs(t, nil, registry.Config{Servers: []string{weatherPeer(t, wait.pass).Address}})
	g := equip(t, box, played.next(call("weather.now", "{}"), call("weather.now", "{}"), "<|channel|>final<|message|>Rain.<|return|>"))
	once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := once.Post(g.url+"/v1/responses", "application/json", strings.NewReader(`{"input":"Go on.","background":true,"tools":[{"type":"mcp","server_label":"weather"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var first struct{ ID string }
	if err := errors.Join(json.NewDecoder(res.Body).Decode(&first), res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		<-wait.entered
		wait.open <- struct{}{}
	}
	wantItems(t, g.await(first.ID, "completed"), "mcp_list_tools weather later now", "mcp_call weather.now {} gives rain", "mcp_call weather.now {} gives rain", "message Rain.")
}
