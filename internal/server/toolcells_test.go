package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"ossian/internal/limits"
	"ossian/internal/sim"
	"ossian/internal/tools/mcp/mcptest"
	"ossian/internal/tools/registry"
)

// The cells of chats with tools (api.md 7: C-D, C-M, CS-D, CS-M): a scripted model, and tools as
// they ship: the browser on a folder, Python in its sandbox, servers of the protocol's SDK.

// A performance plays answers by the number of results in the prompt, and keeps the prompts.
type performance struct {
	mu      sync.Mutex
	prompts []string // of steps, as they came
}

func (r *performance) next(texts ...string) sim.Next {
	play := perResult(texts...)
	return func(history []int32, step uint64) int32 {
		if step == 0 {
			r.mu.Lock()
			r.prompts = append(r.prompts, harmony().Decode(history))
			r.mu.Unlock()
		}
		return play(history, step)
	}
}

// last returns the prompt of the latest step.
func (r *performance) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.prompts[len(r.prompts)-1]
}

// A chat that was answered, whole or put together from its chunks.
type chatted struct {
	Content, Reasoning, Finish string
	Annotations                []any
	Completion                 float64
}

// chat asks in both forms, which have to give the same.
func (g *rig) chat(members string) chatted {
	g.t.Helper()
	body := `{"messages":[{"role":"user","content":"Go on."}],"seed":1,` + members
	whole := g.post(chatsPath, body+"}")
	var reply struct {
		Choices []struct {
			Message struct {
				Content, Reasoning string
				Annotations        []any
				ToolCalls          []any `json:"tool_calls"`
			}
			Finish string `json:"finish_reason"`
		}
		Usage map[string]any
	}
	if err := json.Unmarshal([]byte(whole.body), &reply); err != nil || whole.status != http.StatusOK {
		g.t.Fatalf("%s: %d %s", members, whole.status, whole.body)
	}
	c := reply.Choices[0]
	got := chatted{c.Message.Content, c.Message.Reasoning, c.Finish, c.Message.Annotations, reply.Usage["completion_tokens"].(float64)}
	if c.Message.ToolCalls != nil {
		g.t.Errorf("%s: a call of the server's shows: %s", members, whole.body)
	}
	stream := g.post(chatsPath, body+`,"stream":true,"stream_options":{"include_usage":true}}`)
	events, _ := chatEvents(g.t, stream.body)
	var streamed chatted
	for _, event := range events {
		if usage, ok := event["usage"].(map[string]any); ok {
			streamed.Completion = usage["completion_tokens"].(float64)
		}
		for _, choice := range event["choices"].([]any) {
			delta := choice.(map[string]any)["delta"].(map[string]any)
			text, _ := delta["content"].(string)
			thought, _ := delta["reasoning"].(string)
			streamed.Content, streamed.Reasoning = streamed.Content+text, streamed.Reasoning+thought
			if finish, ok := choice.(map[string]any)["finish_reason"].(string); ok {
				streamed.Finish = finish
				streamed.Annotations, _ = delta["annotations"].([]any)
			}
			if delta["tool_calls"] != nil || delta["x_tool_event"] != nil {
				g.t.Errorf("%s: streamed %v", members, delta)
			}
		}
	}
	if !reflect.DeepEqual(streamed, got) {
		g.t.Errorf("%s: streamed %+v, whole %+v", members, streamed, got)
	}
	return got
}

// runs returns a toolbox of the program itself.
func runs(t *testing.T, set map[limits.ID]int64, cfg registry.Config) *registry.Registry {
	t.Helper()
	lim := limits.Defaults()
	for id, value := range set {
		lim[id] = value
	}
	cfg.Limits = func() *limits.Set { return lim }
	r, err := registry.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	for _, status := range r.Tried(t.Context()) {
		if !status.Works && status.Kind == "python" && cfg.Demo.Python == "" {
			t.Skipf("no sandbox here: %s", status.Problem)
		}
	}
	return r
}

// site is a folder of two pages.
func site(t *testing.T) string {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"harp.html": `<title>The harp</title><h1>The harp</h1><p>A harp has strings.</p><p>Its frame is of willow.</p><a href="bard.html">Bards</a>`,
		"bard.html": `<title>Bards</title><p>Bards play the harp of willow.</p>`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func call(to, arguments string) string {
	return "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>analysis to=" + to + " code<|message|>" + arguments + "<|call|>"
}

const browsed = "<|channel|>final<|message|>Of willow【1†L3-L5】.<|return|>"

// browse are the steps of a question that needs search, open, find, and an answer with a source.
var browse = []string{call("browser.search", `{"query":"harp frame"}`), call("browser.open", `{"id":0}`), call("browser.find", `{"pattern":"willow"}`), browsed}

// checkBrowsed checks the answer to that question.
func checkBrowsed(t *testing.T, got chatted, prompt string) {
	t.Helper()
	sampled := 0
	for _, text := range browse {
		sampled += len(said(text))
	}
	if got.Content != "Of willow【1†L3-L5】." || got.Finish != "stop" || got.Completion != float64(sampled) {
		t.Errorf("%+v, %d ids were sampled", got, sampled)
	}
	for _, want := range []string{"<|start|>browser.search to=assistant<|channel|>analysis<|message|>", "<|start|>browser.open to=assistant", "<|start|>browser.find to=assistant", "frame is of willow"} {
		if !strings.Contains(prompt, want) {
			t.Errorf("the last step's prompt has no %q:\n%s", want, prompt)
		}
	}
}

func TestChatDemoCell(t *testing.T) {
	var played performance
	box := runs(t, nil, registry.Config{Servers: []string{"demo"}, Demo: registry.Demo{Browser: "corpus", Corpus: site(t)}})
	g := start(t, setup{next: played.next(browse...), cfg: Config{Toolbox: box}})
	for _, members := range []string{`"tools":[{"type":"web_search"}]`, `"tools":[{"type":"browser_search"},{"type":"function","function":{"name":"f"}}]`, `"web_search_options":{}`} {
		got := g.chat(members)
		checkBrowsed(t, got, played.last())
		if len(got.Annotations) != 1 {
			t.Fatalf("%s: annotations %v", members, got.Annotations)
		}
		cited := got.Annotations[0].(map[string]any)["url_citation"].(map[string]any)
		begin, end := int(cited["start_index"].(float64)), int(cited["end_index"].(float64))
		if span := string([]rune(got.Content)[begin:end]); span != "【1†L3-L5】" || cited["title"] == "" || !strings.HasSuffix(cited["url"].(string), "harp.html") {
			t.Errorf("%s: %v of %q", members, cited, span)
		}
	}
	// Two runs that share variables, one that fails, and an answer.
	g = start(t, setup{next: played.next(call("python", "x = 6*7"), call("python", "print(x)"), call("python", "1/0"), "<|channel|>final<|message|>42<|return|>"), cfg: Config{Toolbox: box}})
	if got := g.chat(`"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]`); got.Content != "42" || got.Annotations != nil {
		t.Errorf("%+v", got)
	}
	for _, want := range []string{"<|start|>python to=assistant<|channel|>analysis<|message|>42", "ZeroDivisionError"} {
		if !strings.Contains(played.last(), want) {
			t.Errorf("the last step's prompt has no %q:\n%s", want, played.last())
		}
	}
	// Nothing is offered that was not asked for.
	g = start(t, setup{next: played.next("<|channel|>final<|message|>Hi<|return|>"), cfg: Config{Toolbox: box}})
	if g.chat(`"temperature":0`); strings.Contains(played.last(), "browser") || strings.Contains(played.last(), "python") {
		t.Errorf("offered to everybody:\n%s", played.last())
	}
}

// TestChatToolTime: a call that does not end is ended, and the model says so.
func TestChatToolTime(t *testing.T) {
	t.Parallel() // it waits
	var played performance
	set := map[limits.ID]int64{limits.ToolTime: 2000}
	box := runs(t, set, registry.Config{Servers: []string{"demo"}, Demo: registry.Demo{Browser: "corpus", Corpus: site(t)}})
	g := start(t, setup{next: played.next(call("python", "while True: pass"), "<|channel|>final<|message|>It took too long.<|return|>"), cfg: Config{Toolbox: box}, limits: set})
	if got := g.chat(`"tools":[{"type":"code_interpreter"}]`); got.Content != "It took too long." || !strings.Contains(played.last(), "timed out") {
		t.Errorf("%+v\n%s", got, played.last())
	}
}

// browserPeer is a server named browser, whose pages are the test's.
func browserPeer(t *testing.T, over, version string) *mcptest.Peer {
	text := func(said string) func(string) (string, bool) {
		return func(string) (string, bool) { return said, false }
	}
	return mcptest.Serve(t, "browser", over, version, mcptest.Tool{Name: "search", Call: text("[0] harp frame")}, mcptest.Tool{Name: "open", Call: text("[1] The frame is of willow.")},
		mcptest.Tool{Name: "find", Call: text("[2] willow")})
}

// pythonPeer is a server named python that tells the code it got.
func pythonPeer(t *testing.T, over, version string) *mcptest.Peer {
	return mcptest.Serve(t, "python", over, version, mcptest.Tool{Name: "python", Schema: `{"type":"object","properties":{"code":{"type":"string"}},"required":["code"]}`,
		Call: func(arguments string) (string, bool) { return "ran " + arguments, false }})
}

func TestChatMCPCell(t *testing.T) {
	for _, how := range []struct{ over, version string }{{"sse", "2024-11-05"}, {"sse", ""}, {"http", "2025-06-18"}, {"http", "2025-11-25"}, {"http", ""}} {
		t.Run(how.over+how.version, func(t *testing.T) {
			var played performance
			box := runs(t, nil, registry.Config{Servers: []string{browserPeer(t, how.over, how.version).Address, pythonPeer(t, how.over, how.version).Address}})
			g := start(t, setup{next: played.next(browse...), cfg: Config{Toolbox: box}})
			for _, members := range []string{`"tools":[{"type":"mcp","server_label":"browser"}]`, `"tools":[{"type":"web_search_preview"}]`} {
				checkBrowsed(t, g.chat(members), played.last())
			}
			g = start(t, setup{next: played.next(call("python", "print(1)"), call("python", "print(2)"), "<|channel|>final<|message|>Both ran.<|return|>"), cfg: Config{Toolbox: box}})
			for _, members := range []string{`"tools":[{"type":"mcp","server_label":"python"}]`, `"tools":[{"type":"code_interpreter"}]`} {
				if got := g.chat(members); got.Content != "Both ran." || !strings.Contains(played.last(), `ran {"code":"print(2)"}`) {
					t.Errorf("%s: %+v\n%s", members, got, played.last())
				}
			}
		})
	}
}

// TestChatMCPCalls: a server of any name, of whose tools one fails; what may be called of it, and
// what becomes of a chat whose server is down.
func TestChatMCPCalls(t *testing.T) {
	t.Parallel() // it waits
	var played performance
	peer := mcptest.Serve(t, "weather", "http", "", mcptest.Tool{Name: "now", Description: "Weather now.", Call: func(string) (string, bool) { return "rain", false }},
		mcptest.Tool{Name: "later", Description: "Weather later.", Call: func(string) (string, bool) { return "no such day", true }})
	box := runs(t, nil, registry.Config{Servers: []string{peer.Address, "gone=127.0.0.1:1"}})
	g := start(t, setup{next: played.next(call("weather.later", "{}"), call("weather.now", "{}"), "<|channel|>final<|message|>Rain.<|return|>"), cfg: Config{Toolbox: box}})
	if got := g.chat(`"tools":[{"type":"mcp","server_label":"weather"}]`); got.Content != "Rain." || !strings.Contains(played.last(), "no such day") || !strings.Contains(played.last(), "rain") {
		t.Errorf("%+v\n%s", got, played.last())
	}
	g = start(t, setup{next: played.next("<|channel|>final<|message|>Hi.<|return|>"), cfg: Config{Toolbox: box}})
	g.chat(`"tools":[{"type":"mcp","server_label":"weather","allowed_tools":["now"]}]`)
	if !strings.Contains(played.last(), "Weather now.") || strings.Contains(played.last(), "Weather later.") {
		t.Errorf("allowed_tools:\n%s", played.last())
	}
	for members, want := range map[string]string{
		`{"type":"mcp","server_label":"weather","require_approval":"always"}`:            "tools[0].require_approval",
		`{"type":"mcp","server_label":"none"}`:                                           "tools[0].server_label",
		`{"type":"mcp","server_label":"mine","server_url":"https://example.com/mcp"}`:    "mcp_host_not_allowed",
		`{"type":"mcp","server_label":"weather","server_url":"https://example.com/mcp"}`: "tools[0].server_url",
		`{"type":"code_interpreter"}`:                                                    "unsupported_tool",
	} {
		if got := g.post(chatsPath, `{"messages":[{"role":"user","content":"x"}],"tools":[`+members+`]}`); got.status != http.StatusBadRequest || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s, want %s", members, got.status, got.body, want)
		}
	}
	got := g.post(chatsPath, `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"mcp","server_label":"gone"}]}`)
	if problem := got.header.Get("x-ossian-unavailable"); got.status != http.StatusOK || !strings.HasPrefix(problem, "gone: ") || !strings.Contains(got.body, "Hi.") {
		t.Errorf("a server is down: %d %q %s", got.status, problem, got.body)
	}
	// It goes down in the middle of an answer.
	g = start(t, setup{next: func(history []int32, step uint64) int32 {
		if slices.Contains(history, said("<|call|>")[0]) {
			return played.next("", "<|channel|>final<|message|>It is gone.<|return|>")(history, step)
		}
		if step == 0 {
			peer.Stop()
		}
		return said(call("weather.now", "{}"))[min(int(step), len(said(call("weather.now", "{}")))-1)]
	}, cfg: Config{Toolbox: box}})
	whole := g.post(chatsPath, `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"mcp","server_label":"weather"}]}`)
	if whole.status != http.StatusOK || !strings.Contains(whole.body, "It is gone.") || !strings.Contains(played.last(), "Error calling tool now") {
		t.Errorf("it went down: %d %s\n%s", whole.status, whole.body, fmt.Sprint(played.prompts))
	}
}
