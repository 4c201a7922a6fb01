package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/runner"
	builtin "ossian/internal/tools"
	"ossian/internal/trace"
	"ossian/internal/trace/otlp"
)

// A seen span is one as a collector gets it.
type seenSpan struct {
	TraceID, SpanID, ParentSpanID, TraceState, Name string
	Kind                                            int
	Start                                           string `json:"startTimeUnixNano"`
	End                                             string `json:"endTimeUnixNano"`
	Attributes                                      []struct {
		Key   string
		Value map[string]any
	}
	Events []struct{ Name string }
	Status struct{ Code int }
}

// attribute returns the value of an attribute as text, "" without one.
func (s *seenSpan) attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			for _, v := range a.Value {
				return fmt.Sprint(v)
			}
		}
	}
	return ""
}

// A collector keeps what it gets.
type spanCollector struct {
	mu      sync.Mutex
	spans   []seenSpan
	metrics string
	all     strings.Builder
}

func (c *spanCollector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.Write(body)
	if r.URL.Path == "/v1/metrics" {
		c.metrics = string(body)
		return
	}
	var told struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []seenSpan }
		}
	}
	if json.Unmarshal(body, &told) == nil {
		c.spans = append(c.spans, told.ResourceSpans[0].ScopeSpans[0].Spans...)
	}
}

// traced starts a server whose spans collected gets once the tracer is closed by done.
func traced(t *testing.T, u setup) (g *rig, done func() *spanCollector) {
	t.Helper()
	collected := &spanCollector{}
	server := httptest.NewServer(collected)
	t.Cleanup(server.Close)
	cfg, err := trace.FromEnv("test", func(name string) (string, bool) { return server.URL, name == "OTEL_EXPORTER_OTLP_ENDPOINT" })
	if err != nil {
		t.Fatal(err)
	}
	tracer := otlp.New(cfg, slog.New(slog.DiscardHandler))
	u.cfg.Tracer = tracer
	t.Cleanup(tracer.Close)
	g = start(t, u)
	return g, func() *spanCollector {
		g.idle()
		tracer.Close()
		return collected
	}
}

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	remoteID = "b7ad6b7169203331"
	sampled  = "00-" + traceID + "-" + remoteID + "-01"
)

// TestTracing: each request that may generate has one span, behind that of whoever sent it, and no
// word of what was said is in any.
func TestTracing(t *testing.T) {
	g, done := traced(t, inMemory(t, setup{reply: hello}))
	send := func(path, body string, header ...string) got { return g.post(path, body, header...) }
	send("/v1/chat/completions", `{"model":"alias/of it",`+hi+`,"temperature":0.5,"max_tokens":100,"seed":7,"stop":["xyzzy"],"stream":true,"n":2}`, "Traceparent", sampled, "Tracestate", "vendor=1")
	send("/v1/completions", `{"prompt":"plugh","max_tokens":3,"top_k":5}`, "Traceparent", sampled)
	send("/v1/messages", `{"model":"test-model","max_tokens":5,`+hi+`}`, "Traceparent", sampled)
	background := responded(t, send("/v1/responses", `{"model":"test-model","input":"plugh","background":true}`, "Traceparent", sampled))["id"].(string)
	g.await(background, "completed")
	g.idle() // it is completed before its span has ended, and spans come as they end
	send("/v1/chat/completions", `{`+hi+`,"temperature":9}`, "Traceparent", sampled)
	send("/v1/chat/completions", `{"model":"unknown",`+hi+`}`, "Traceparent", sampled)
	// None of these has a span of that trace.
	send("/v1/chat/completions", `{`+hi+`,"max_tokens":2}`, "Traceparent", strings.TrimSuffix(sampled, "1")+"0")
	send("/v1/chat/completions", `{`+hi+`,"max_tokens":2}`, "Traceparent", "00-malformed")
	send("/v1/chat/completions/render", `{`+hi+`}`, "Traceparent", sampled)
	g.do("GET", "/metrics", "", "Traceparent", sampled)
	collected := done()
	want := []struct{ name, kind, status, finish, problem, events string }{
		{"chat alias/of it", "chat", "200", "stop stop", "", "queued scheduled first token"}, {"text_completion", "text_completion", "200", "length", "", "queued scheduled first token"},
		{"chat test-model", "chat", "200", "length", "", "queued scheduled first token"}, {"chat test-model", "chat", "200", "stop", "", "queued scheduled first token"},
		{"chat", "chat", "400", "", "invalid_value", ""}, {"chat", "chat", "404", "", "model_not_found", ""}, {"chat", "chat", "200", "length", "", "queued scheduled first token"},
	}
	if len(collected.spans) != len(want) {
		t.Fatalf("%d spans, want %d: %+v", len(collected.spans), len(want), collected.spans)
	}
	for i, w := range want {
		s := &collected.spans[i]
		finish := ""
		for _, a := range s.Attributes {
			if a.Key == "gen_ai.response.finish_reasons" {
				for _, v := range a.Value["arrayValue"].(map[string]any)["values"].([]any) {
					finish += " " + v.(map[string]any)["stringValue"].(string)
				}
			}
		}
		var events []string
		for _, e := range s.Events {
			events = append(events, e.Name)
		}
		if s.Name != w.name || s.Kind != 2 || s.attribute("gen_ai.operation.name") != w.kind || s.attribute("http.response.status_code") != w.status || strings.TrimSpace(finish) != w.finish ||
			s.attribute("error.type") != w.problem || strings.Join(events, " ") != w.events || s.attribute("gen_ai.provider.name") != "ossian" || s.attribute("server.port") == "" || s.End < s.Start {
			t.Errorf("span %d, want %+v: %+v", i, w, s)
		}
		if last := i == len(want)-1; last == (s.TraceID == traceID) || last == (s.ParentSpanID == remoteID) {
			t.Errorf("span %d: trace %s, parent %s", i, s.TraceID, s.ParentSpanID)
		}
	}
	first := &collected.spans[0]
	for key, value := range map[string]string{"gen_ai.request.model": "alias/of it", "gen_ai.response.model": "test-model", "gen_ai.request.temperature": "0.5", "gen_ai.request.max_tokens": "100",
		"gen_ai.request.seed": "7", "gen_ai.request.choice.count": "2", "gen_ai.output.type": "text", "gen_ai.usage.output_tokens": "44", "server.address": "127.0.0.1"} {
		if got := first.attribute(key); got != value {
			t.Errorf("%s is %q, want %q", key, got, value)
		}
	}
	if id := first.attribute("gen_ai.response.id"); !strings.HasPrefix(id, "chatcmpl-") || first.TraceState != "vendor=1" || collected.spans[3].attribute("gen_ai.response.id") != background {
		t.Errorf("response %s, state %s", id, first.TraceState)
	}
	for _, word := range []string{"Hi\"", "plugh", "wörld", "Hello"} { // what the stop strings say is a parameter
		if strings.Contains(collected.all.String(), word) {
			t.Errorf("%s was told", word)
		}
	}
	for _, name := range []string{"gen_ai.server.request.duration", "gen_ai.server.time_to_first_token", "gen_ai.server.time_per_output_token", "gen_ai.client.token.usage"} {
		if !strings.Contains(collected.metrics, name) {
			t.Errorf("no %s in %s", name, collected.metrics)
		}
	}
}

// TestTracingTools: each call of a tool that the server runs is a span within that of its request,
// without a word of what was asked or answered.
func TestTracingTools(t *testing.T) {
	box := &bench{call: func(_ context.Context, call builtin.Call) builtin.Result {
		if call.Tool == "search" {
			return builtin.Result{Text: "plugh", Outcome: builtin.Misused}
		}
		return builtin.Result{Text: "xyzzy"}
	}}
	g, done := traced(t, setup{next: perResult(searchCall, pythonCall, citedAnswer), cfg: Config{Toolbox: box}})
	if r := g.post(chatsPath, `{`+hi+`,"tools":[{"type":"browser_search"},{"type":"code_interpreter"}]}`, "Traceparent", sampled); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	collected := done()
	var request *seenSpan
	for i := range collected.spans {
		if s := &collected.spans[i]; s.Kind == 2 {
			request = s
		}
	}
	if request == nil || len(collected.spans) != 3 || request.TraceID != traceID {
		t.Fatalf("%+v", collected.spans)
	}
	ids := map[string]bool{}
	for i, name := range []string{"browser.search", "python"} {
		s := &collected.spans[i]
		if s.Name != "execute_tool "+name || s.Kind != 1 || s.TraceID != traceID || s.ParentSpanID != request.SpanID || s.attribute("gen_ai.operation.name") != "execute_tool" ||
			s.attribute("gen_ai.tool.name") != name || s.attribute("gen_ai.tool.call.id") == "" || s.Start < request.Start || s.End > request.End || s.End < s.Start {
			t.Errorf("span %d, want one of %s within %s: %+v", i, name, request.SpanID, s)
		}
		if failed := s.Status.Code == 2; failed != (name == "browser.search") || failed != (s.attribute("error.type") != "") {
			t.Errorf("%s: status %d, error %q", name, s.Status.Code, s.attribute("error.type"))
		}
		ids[s.attribute("gen_ai.tool.call.id")] = true
	}
	if len(ids) != 2 {
		t.Errorf("the ids of calls are %v", ids)
	}
	for _, word := range []string{"plugh", "xyzzy", "print(6*7)", "Look it up"} {
		if strings.Contains(collected.all.String(), word) {
			t.Errorf("%s was told", word)
		}
	}
}

// TestTraceparent: a traceparent that is not as W3C's Trace Context 1 has it begins a new trace and is
// no error; that of a later version counts as far as version 0 goes.
func TestTraceparent(t *testing.T) {
	g, done := traced(t, setup{reply: hello})
	const zero16, zero32 = "0000000000000000", "00000000000000000000000000000000"
	cases := []struct {
		name, header string
		same         bool // the span is of the trace of the header
	}{
		{"version 0", sampled, true},
		{"none", "", false},
		{"no members", "-", false},
		{"version ff", "ff" + sampled[2:], false},
		{"version in capitals", "CC" + sampled[2:], false},
		{"version of a digit", sampled[1:], false},
		{"version of three digits", "0" + sampled, false},
		{"trace of zeros", "00-" + zero32 + "-" + remoteID + "-01", false},
		{"parent of zeros", "00-" + traceID + "-" + zero16 + "-01", false},
		{"trace in capitals", "00-" + strings.ToUpper(traceID) + "-" + remoteID + "-01", false},
		{"parent in capitals", "00-" + traceID + "-" + strings.ToUpper(remoteID) + "-01", false},
		{"trace too short", "00-" + traceID[1:] + "-" + remoteID + "-01", false},
		{"trace too long", "00-0" + traceID + "-" + remoteID + "-01", false},
		{"parent too short", "00-" + traceID + "-" + remoteID[1:] + "-01", false},
		{"parent too long", "00-" + traceID + "-0" + remoteID + "-01", false},
		{"flags too short", strings.TrimSuffix(sampled, "1"), false},
		{"flags too long", sampled + "1", false},
		{"flags of letters", strings.TrimSuffix(sampled, "01") + "zz", false},
		{"no flags", strings.TrimSuffix(sampled, "-01"), false},
		{"other separators", strings.ReplaceAll(sampled, "-", "_"), false},
		{"version 0 with more", sampled + "-more", false},
		{"a later version", "01" + sampled[2:], true},
		{"a later version with more", "cc" + sampled[2:] + "-what-ever", true},
		{"a later version with more in the flags", "cc" + sampled[2:] + ".what", false},
		{"letters of no alphabet", "00-" + traceID + "-" + remoteID[1:] + "\xff-01", false},
		{"long", strings.Repeat(sampled, 100), false},
	}
	for _, c := range cases {
		if r := g.post("/v1/completions", `{"prompt":"a","max_tokens":1}`, "Traceparent", c.header); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", c.name, r.status, r.body)
		}
	}
	g.post("/v1/completions", `{"prompt":"a","max_tokens":1}`, "Traceparent", sampled, "Tracestate", strings.Repeat("key=value,", 1000))
	spans := done().spans
	if len(spans) != len(cases)+1 {
		t.Fatalf("%d spans of %d requests", len(spans), len(cases)+1)
	}
	if state := spans[len(cases)].TraceState; len(state) > 512 || !strings.HasSuffix(state, "key=value") {
		t.Errorf("of 10 kB of tracestate %d bytes: %s", len(state), state)
	}
	seen := map[string]bool{}
	for i, c := range cases {
		s := &spans[i]
		if (s.TraceID == traceID) != c.same || (s.ParentSpanID == remoteID) != c.same || (!c.same && (s.ParentSpanID != "" || seen[s.TraceID])) {
			t.Errorf("%s: trace %s, parent %q", c.name, s.TraceID, s.ParentSpanID)
		}
		if len(s.TraceID) != len(traceID) || s.TraceID == zero32 || s.SpanID == zero16 || seen[s.SpanID] {
			t.Errorf("%s: trace %s, span %s", c.name, s.TraceID, s.SpanID)
		}
		seen[s.TraceID], seen[s.SpanID] = true, true
	}
}

// TestTracingCut: a client that leaves ends its span, and those that are preempted tell of it.
func TestTracingCut(t *testing.T) {
	g, done := traced(t, setup{cost: 2 * time.Millisecond, info: runner.Info{BlockSize: 4, MaxSeqs: 8, MaxTokens: 64, MaxLen: 256, Groups: []runner.Group{{Blocks: 40}}}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/completions", strings.NewReader(`{"prompt":"a","max_tokens":100,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := g.client.Do(req) // it has begun to answer
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	res.Body.Close()
	g.idle()
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() { g.post("/v1/completions", fmt.Sprintf(`{"prompt":"b %d","max_tokens":100}`, i)) })
	}
	clients.Wait()
	collected := done()
	if len(collected.spans) != 7 {
		t.Fatalf("%d spans", len(collected.spans))
	}
	if s := &collected.spans[0]; s.attribute("error.type") != "cancelled" {
		t.Errorf("%+v", s)
	}
	preempted := 0
	for _, s := range collected.spans {
		for _, e := range s.Events {
			if e.Name == "preempted" {
				preempted++
			}
		}
	}
	if n := g.model.Engine.Stats().Preemptions; preempted == 0 || uint64(preempted) != n {
		t.Errorf("%d events, %d preemptions", preempted, n)
	}
}
