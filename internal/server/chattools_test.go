package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/api"
	"ossian/internal/limits"
	"ossian/internal/sim"
	builtin "ossian/internal/tools"
	"ossian/internal/wire"
)

// A bench is a toolbox whose tools do what a test wants of them.
type bench struct {
	mu     sync.Mutex
	asked  [][]wire.ServerTool
	open   int // sessions
	call   func(ctx context.Context, call builtin.Call) builtin.Result
	listed []api.Listed
	ask    func(tool string) bool // approval of the MCP server
}

func (b *bench) Offers(_ context.Context, asked []wire.ServerTool, strict bool) (offered api.Offered, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, asked)
	offered.Listed = b.listed
	for i := range asked {
		switch tool := &asked[i]; {
		case tool.Browses():
			offered.Offers = append(offered.Offers, b.offer("browser", builtin.Browser, "", "search", "open"))
		case tool.Type == "code_interpreter":
			offered.Offers = append(offered.Offers, b.offer("python", builtin.Python, ""))
		case tool.Label == "wiki":
			offer := b.offer("wiki", builtin.MCP, "wiki", "look", "edit")
			offer.Approve = b.ask
			offered.Offers = append(offered.Offers, offer)
		case tool.Label != "down":
			return offered, wire.Invalid(tool.Path+".server_label", "unknown")
		}
	}
	return offered, nil
}

func (b *bench) offer(name string, kind builtin.Kind, label string, functions ...string) builtin.Offer {
	space := builtin.Namespace{Name: name, Description: "The " + name + " of the test."}
	for _, function := range functions {
		space.Tools = append(space.Tools, builtin.Tool{Name: function, Parameters: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}}}`)})
	}
	return builtin.Offer{Server: &benchServer{b, name}, Namespace: space, Kind: kind, Label: label}
}

type benchServer struct {
	bench *bench
	name  string
}

func (s *benchServer) Name() string { return s.name }
func (s *benchServer) Namespace(context.Context) (builtin.Namespace, error) {
	return builtin.Namespace{Name: s.name}, nil
}
func (s *benchServer) Status() builtin.Status { return builtin.Status{Name: s.name, Works: true} }
func (s *benchServer) Open(builtin.Chain) builtin.Session {
	s.bench.mu.Lock()
	defer s.bench.mu.Unlock()
	s.bench.open++
	return &benchSession{s.bench}
}

type benchSession struct{ bench *bench }

func (s *benchSession) Call(ctx context.Context, call builtin.Call) builtin.Result {
	return s.bench.call(ctx, call)
}
func (s *benchSession) State() json.RawMessage { return nil }
func (s *benchSession) Close() {
	s.bench.mu.Lock()
	defer s.bench.mu.Unlock()
	s.bench.open--
}
func (s *benchSession) Cite(cursor, line int) (builtin.Source, bool) {
	return builtin.Source{URL: fmt.Sprintf("https://example.com/%d", cursor), Title: "Page"}, cursor < 5
}

// perResult plays the n-th text where the prompt has n results of tools.
func perResult(texts ...string) sim.Next {
	ids := make([][]int32, len(texts))
	for i, text := range texts {
		ids[i] = said(text)
	}
	result := said(" to=assistant")
	return sim.Reply(func(prompt []int32) []int32 {
		n := 0
		for i := range prompt {
			if i+len(result) <= len(prompt) && slices.Equal(prompt[i:i+len(result)], result) {
				n++
			}
		}
		return ids[min(n, len(ids)-1)]
	})
}

const (
	chatsPath   = "/v1/chat/completions"
	searchCall  = "<|channel|>analysis<|message|>Look it up.<|end|><|start|>assistant<|channel|>analysis to=browser.search code<|message|>{\"q\":\"x\"}<|call|>"
	pythonCall  = "<|channel|>analysis to=python code<|message|>print(6*7)<|call|>"
	wikiCall    = "<|channel|>commentary to=wiki.look <|constrain|>json<|message|>{\"q\":\"y\"}<|call|>"
	citedAnswer = "<|channel|>final<|message|>It is 42【1†L3】, says ä【9†L1】.<|return|>"
)

// chatEvents returns the JSON of the events of a stream, and how many pings it had.
func chatEvents(t testing.TB, body string) (events []map[string]any, pings int) {
	t.Helper()
	for line := range strings.Lines(body) {
		switch data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); {
		case strings.HasPrefix(line, ": ping"):
			pings++
		case ok && data != "[DONE]":
			var event map[string]any
			if err := json.Unmarshal([]byte(data), &event); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
			events = append(events, event)
		}
	}
	return events, pings
}

// TestChatTools: calls of the server's tools run within a chat, and its client sees the answer,
// where its parts are from, and what all steps took.
func TestChatTools(t *testing.T) {
	b := &bench{call: func(_ context.Context, call builtin.Call) builtin.Result {
		return builtin.Result{Text: "result of " + call.Tool + " " + call.Arguments}
	}}
	g := start(t, setup{next: perResult(searchCall, pythonCall, citedAnswer), cfg: Config{Toolbox: b}})
	request := func(more string) string {
		return `{"messages":[{"role":"user","content":"Six times seven?"}],"tools":[{"type":"web_search"},{"type":"code_interpreter","container":{"type":"auto"}}]` + more + `}`
	}
	whole := g.post(chatsPath, request(""))
	var reply struct {
		Choices []struct {
			Message struct {
				Content, Reasoning string
				Annotations        []struct {
					Type string
					URL  struct {
						Start int `json:"start_index"`
						End   int `json:"end_index"`
						URL   string
						Title string
					} `json:"url_citation"`
				}
				ToolCalls []any `json:"tool_calls"`
			}
			Finish string `json:"finish_reason"`
		}
		Usage wire.Usage
	}
	if err := json.Unmarshal([]byte(whole.body), &reply); err != nil || whole.status != http.StatusOK {
		t.Fatalf("%d %s", whole.status, whole.body)
	}
	choice := reply.Choices[0]
	const content = "It is 42【1†L3】, says ä【9†L1】."
	if choice.Message.Content != content || choice.Message.Reasoning != "Look it up." || choice.Finish != "stop" || choice.Message.ToolCalls != nil {
		t.Errorf("%s", whole.body)
	}
	if len(choice.Message.Annotations) != 1 {
		t.Fatalf("annotations: %s", whole.body)
	}
	cited := choice.Message.Annotations[0]
	if span := string([]rune(content)[cited.URL.Start:cited.URL.End]); cited.Type != "url_citation" || span != "【1†L3】" || cited.URL.URL != "https://example.com/1" || cited.URL.Title != "Page" {
		t.Errorf("%+v is of %q", cited, span)
	}
	ids := len(said(searchCall)) + len(said(pythonCall)) + len(said(citedAnswer))
	if reply.Usage.Completion != ids || reply.Usage.Prompt < 3*30 {
		t.Errorf("usage %+v, %d ids were sampled", reply.Usage, ids)
	}
	// Streamed, the same; events of tools only where they are asked for.
	for _, events := range []bool{false, true} {
		more := `,"stream":true,"return_token_ids":true,"stream_options":{"include_usage":true}`
		if events {
			more = strings.Replace(more, "true}", `true,"include_tool_events":true}`, 1)
		}
		got := g.post(chatsPath, request(more))
		all, _ := chatEvents(t, got.body)
		text, told, last := "", []string{}, map[string]any(nil)
		sampled := 0
		for _, event := range all {
			for _, c := range event["choices"].([]any) {
				delta := c.(map[string]any)["delta"].(map[string]any)
				if part, ok := delta["content"].(string); ok {
					text += part
				}
				if list, ok := c.(map[string]any)["token_ids"].([]any); ok {
					sampled += len(list)
				}
				if call, ok := delta["x_tool_event"].(map[string]any); ok {
					told = append(told, fmt.Sprintf("%v %v %v", call["index"], call["tool"], call["status"]))
				}
				if delta["tool_calls"] != nil {
					t.Errorf("a call of the server's shows: %v", delta)
				}
				last = delta
			}
		}
		want := []string{}
		if events {
			want = []string{"0 browser.search in_progress", "0 browser.search running", "0 browser.search completed", "1 python in_progress", "1 python running", "1 python completed"}
		}
		if text != content || !slices.Equal(told, want) || sampled != ids {
			t.Errorf("streamed %q, told %q, %d ids of %d\n%s", text, told, sampled, ids, got.body)
		}
		if noted, ok := last["annotations"].([]any); !ok || len(noted) != 1 {
			t.Errorf("the last delta is %v", last)
		}
		if usage := all[len(all)-1]["usage"].(map[string]any); usage["completion_tokens"] != float64(ids) {
			t.Errorf("usage %v", usage)
		}
	}
	g.idle()
	if b.open != 0 {
		t.Errorf("%d sessions are open", b.open)
	}
	if got := g.do("GET", "/metrics", "").body; !strings.Contains(got, `ossian_tool_calls_total{outcome="ok",tool="browser.search"} 3`) || !strings.Contains(got, `ossian_tool_calls_total{outcome="ok",tool="python"} 3`) {
		t.Errorf("metrics:\n%s", got)
	}
}

// TestChatToolsAsked: nothing is offered that was not asked for, and what cannot be had is refused
// with its place.
func TestChatToolsAsked(t *testing.T) {
	b := &bench{call: func(context.Context, builtin.Call) builtin.Result { return builtin.Result{Text: "r"} }}
	g := start(t, setup{reply: "<|channel|>final<|message|>Hi<|return|>", cfg: Config{Toolbox: b}})
	prompt := func(members string) string {
		got := g.post("/tokenize", `{"messages":[{"role":"user","content":"x"}]`+members+`}`)
		var reply wire.TokenizeReply
		if err := json.Unmarshal([]byte(got.body), &reply); err != nil || got.status != http.StatusOK {
			t.Fatalf("%s: %d %s", members, got.status, got.body)
		}
		return harmony().Decode(reply.Tokens)
	}
	plain := prompt("")
	for members, offered := range map[string][]string{
		``: nil, `,"tools":[]`: nil, `,"tools":[{"type":"function","function":{"name":"f"}}]`: nil, `,"tools":[{"type":"web_search"}],"tool_choice":"none"`: nil,
		`,"web_search_options":{}`: {"browser"}, `,"tools":[{"type":"browser_search"}]`: {"browser"}, `,"tools":[{"type":"code_interpreter"}]`: {"python"},
		`,"tools":[{"type":"mcp","server_label":"wiki"},{"type":"web_search_preview"}]`: {"wiki", "browser"},
	} {
		got := prompt(members)
		for _, space := range []string{"browser", "python", "wiki"} {
			if has := strings.Contains(got, "The "+space+" of the test."); has != slices.Contains(offered, space) {
				t.Errorf("%s: %s is offered: %v\n%s", members, space, has, got)
			}
		}
		if strings.Contains(plain, "of the test") {
			t.Errorf("offered without being asked for: %s", plain)
		}
	}
	ask := func(members string) got {
		return g.post(chatsPath, `{"messages":[{"role":"user","content":"x"}]`+members+`}`)
	}
	for _, tt := range []struct{ members, param, code string }{
		{`,"tools":[{"type":"file_search"}]`, "tools[0].type", wire.CodeUnsupportedTool},
		{`,"tools":[{"type":"function","function":{"name":"f"}},{"type":"mcp"}]`, "tools[1].server_label", wire.CodeMissingParameter},
		{`,"tools":[{"type":"mcp","server_label":"other"}]`, "tools[0].server_label", wire.CodeInvalidValue},
		{`,"tools":[{"type":"code_interpreter","container":"cntr_1"}]`, "tools[0].container", wire.CodeInvalidValue},
		{`,"tools":[{"type":"web_search"}],"tool_choice":{"type":"code_interpreter"}`, "tool_choice.type", wire.CodeUnsupported},
		{`,"tools":[{"type":"mcp","server_label":"wiki"}],"tool_choice":{"type":"mcp","server_label":"wiki","name":"drop"}`, "tool_choice", wire.CodeInvalidValue},
		{`,"tools":[{"type":"mcp","server_label":"down"}],"tool_choice":"required"`, "tool_choice", wire.CodeInvalidValue},
		{`,"tools":[{"type":"web_search"},{"type":"function","function":{"name":"a b"}}]`, "tools[1].function.name", wire.CodeInvalidValue},
	} {
		got := ask(tt.members)
		var reply struct{ Error struct{ Param, Code string } }
		if err := json.Unmarshal([]byte(got.body), &reply); err != nil || got.status != http.StatusBadRequest || reply.Error.Param != tt.param || reply.Error.Code != tt.code {
			t.Errorf("%s: %d %s, want %s at %s", tt.members, got.status, got.body, tt.code, tt.param)
		}
	}
	// A client of chats cannot be asked: what would need its word is not offered.
	b.ask = func(tool string) bool { return tool == "edit" }
	if got := prompt(`,"tools":[{"type":"mcp","server_label":"wiki"}]`); !strings.Contains(got, "look") || strings.Contains(got, "edit") {
		t.Errorf("of tools that need approval: %s", got)
	}
	b.ask = func(string) bool { return true }
	if got := ask(`,"tools":[{"type":"web_search"},{"type":"mcp","server_label":"wiki"}]`); got.status != http.StatusBadRequest || !strings.Contains(got.body, "tools[1].require_approval") {
		t.Errorf("all need approval: %d %s", got.status, got.body)
	}
	// A server that is down: the answer is made without it, and says so.
	b.ask, b.listed = nil, []api.Listed{{Label: "down", Problem: "refused\r\nX-Evil: 1"}}
	got := ask(`,"tools":[{"type":"mcp","server_label":"down"}]`)
	if got.status != http.StatusOK || got.header.Get("x-ossian-unavailable") != `down: refused\r\nX-Evil: 1` || got.header.Get("X-Evil") != "" {
		t.Errorf("a server is down: %d %v %s", got.status, got.header, got.body)
	}
}

// TestChatToolsChoice: a tool of the server that is named is called, and the answer goes on.
func TestChatToolsChoice(t *testing.T) {
	b := &bench{call: func(context.Context, builtin.Call) builtin.Result { return builtin.Result{Text: "r"} }}
	g := start(t, setup{next: perResult(wikiCall, "<|channel|>final<|message|>Done.<|return|>"), cfg: Config{Toolbox: b}})
	for _, choice := range []string{`"required"`, `{"type":"mcp","server_label":"wiki"}`, `{"type":"mcp","server_label":"wiki","name":"look"}`,
		`{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"mcp","server_label":"wiki"}]}}`} {
		got := g.post(chatsPath, `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"mcp","server_label":"wiki"},{"type":"function","function":{"name":"f"}}],"tool_choice":`+choice+`}`)
		if got.status != http.StatusOK || !strings.Contains(got.body, `"content":"Done."`) || strings.Contains(got.body, "tool_calls") {
			t.Errorf("%s: %d %s", choice, got.status, got.body)
		}
	}
}

// TestChatToolsLimits: an answer has so many runs of Python, and a model reads so much of a
// result; both are counted.
func TestChatToolsLimits(t *testing.T) {
	ran := 0
	b := &bench{call: func(context.Context, builtin.Call) builtin.Result {
		ran++
		return builtin.Result{Text: strings.Repeat("many words ", 100)}
	}}
	var played performance
	g := start(t, setup{next: played.next(pythonCall, pythonCall, "<|channel|>final<|message|>Done.<|return|>"), cfg: Config{Toolbox: b},
		limits: map[limits.ID]int64{limits.PythonCalls: 1, limits.ToolResultTokens: 32}})
	got := g.post(chatsPath, `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"code_interpreter"}]}`)
	if got.status != http.StatusOK || ran != 1 || !strings.Contains(got.body, "Done.") || !strings.Contains(played.last(), "no more runs of Python") || !strings.Contains(played.last(), "tokens omitted") {
		t.Errorf("%d runs, %d %s\n%s", ran, got.status, got.body, played.last())
	}
	told := g.do("GET", "/metrics", "").body
	for _, want := range []string{"ossian_tool_results_cut_total 1", `ossian_limit_refusals_total{limit="python-calls"} 1`} {
		if !strings.Contains(told, want) {
			t.Errorf("metrics have no %s", want)
		}
	}
}

// TestChatToolsWait: a stream stays open while a tool runs, and a client that leaves ends it.
func TestChatToolsWait(t *testing.T) {
	t.Parallel() // it waits
	begun, release, ended := make(chan bool, 2), make(chan bool), make(chan error, 2)
	b := &bench{call: func(ctx context.Context, _ builtin.Call) builtin.Result {
		begun <- true
		select {
		case <-release:
		case <-ctx.Done():
		}
		ended <- ctx.Err()
		return builtin.Result{Text: "r"}
	}}
	g := start(t, setup{next: perResult(pythonCall, "<|channel|>final<|message|>Done.<|return|>"), cfg: Config{Toolbox: b}, limits: map[limits.ID]int64{limits.PingInterval: 100}})
	const body = `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"code_interpreter"}],"stream":true}`
	read := make(chan got, 1)
	go func() { read <- g.post(chatsPath, body) }()
	<-begun
	time.Sleep(time.Second) // some pings long
	close(release)
	whole, cut := <-read, <-ended
	if _, pings := chatEvents(t, whole.body); pings == 0 || !strings.Contains(whole.body, `"content":"Done"`) || cut != nil {
		t.Errorf("%d pings, the tool ended with %v, in %s", pings, cut, whole.body)
	}
	release = make(chan bool)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", g.url+chatsPath, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	go func() {
		if res, err := g.client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, res.Body) // whoever closes it has left
			res.Body.Close()
		}
	}()
	<-begun
	cancel()
	if err := <-ended; err == nil {
		t.Error("the tool ran on")
	}
	g.idle()
}

// TestChatToolsDrain: a server that is told to end gives tools the time that requests have, then
// it ends them.
func TestChatToolsDrain(t *testing.T) {
	begun, ended := make(chan bool, 1), make(chan error, 1)
	b := &bench{call: func(ctx context.Context, _ builtin.Call) builtin.Result {
		begun <- true
		<-ctx.Done()
		ended <- ctx.Err()
		return builtin.Result{Text: "r"}
	}}
	g := start(t, setup{next: perResult(pythonCall, "<|channel|>final<|message|>Done.<|return|>"), cfg: Config{Toolbox: b, DrainTimeout: 100 * time.Millisecond}})
	read := make(chan string, 1)
	go func() {
		res, err := g.client.Post(g.url+chatsPath, "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"code_interpreter"}],"stream":true}`))
		if err != nil {
			read <- err.Error()
			return
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		read <- fmt.Sprintf("%s%v", text, err)
	}()
	<-begun
	g.stop()
	if err := <-ended; err == nil {
		t.Error("the tool ran on")
	}
	if whole := <-read; !strings.Contains(whole, `"error"`) || !strings.Contains(whole, "shutting down") || !strings.HasSuffix(whole, "data: [DONE]\n\n<nil>") {
		t.Errorf("the client was not told: %s", whole)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open != 0 {
		t.Errorf("%d sessions are open", b.open)
	}
}
