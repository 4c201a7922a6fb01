package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// rendered reads the ids of a render route's reply, of each prompt.
func rendered(t *testing.T, r got) (all [][]int32) {
	t.Helper()
	type ids struct {
		TokenIDs []int32 `json:"token_ids"`
	}
	var list []ids
	if r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if strings.HasPrefix(r.body, "{") {
		list = make([]ids, 1)
		if err := json.Unmarshal([]byte(r.body), &list[0]); err != nil {
			t.Fatal(err)
		}
	} else if err := json.Unmarshal([]byte(r.body), &list); err != nil {
		t.Fatal(err)
	}
	for _, one := range list {
		all = append(all, one.TokenIDs)
	}
	return all
}

// TestRender compares the ids of the render routes with those that the same body has the engine
// compute.
func TestRender(t *testing.T) {
	g := start(t, setup{reply: hello})
	for _, body := range []string{hi, hi + `,"reasoning_effort":"high"`, hi + `,"tools":[` + strictTool + `]`,
		`"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"<|end|>"}]`,
		hi + `,"stream":true,"n":3,"logprobs":true`, hi + `,"truncate_prompt_tokens":5`, hi + `,"response_format":{"type":"json_object"}`} {
		var reply struct {
			IDs []int32 `json:"prompt_token_ids"`
		}
		want := g.post("/v1/chat/completions", `{"return_token_ids":true,"max_tokens":1,`+strings.Replace(body, `"stream":true`, `"stream":false`, 1)+`}`)
		if err := json.Unmarshal([]byte(want.body), &reply); err != nil || want.status != 200 || len(reply.IDs) == 0 {
			t.Fatalf("%v: %d %s", err, want.status, want.body)
		}
		steps := g.model.Engine.Stats().Steps
		if all := rendered(t, g.post("/v1/chat/completions/render", `{`+body+`}`)); len(all) != 1 || !slices.Equal(all[0], reply.IDs) {
			t.Errorf("%s: rendered %v, computed %v", body, all, reply.IDs)
		}
		if n := g.model.Engine.Stats().Steps; n != steps {
			t.Errorf("%s: rendering took %d steps", body, n-steps)
		}
	}
	for prompt, want := range map[string][][]int32{`"one two"`: {said("one two")}, `["a","b c<|end|>"]`: {said("a"), said("b c<|end|>")}, `[3,4]`: {{3, 4}}, `[[5],[6,7]]`: {{5}, {6, 7}}} {
		if all := rendered(t, g.post("/v1/completions/render", `{"prompt":`+prompt+`}`)); fmt.Sprint(all) != fmt.Sprint(want) {
			t.Errorf("%s: rendered %v, want %v", prompt, all, want)
		}
	}
}

// TestRenderErrors: what the route refuses, its render route refuses with the same words.
func TestRenderErrors(t *testing.T) {
	g := start(t, setup{reply: hello})
	long := strings.Repeat("word ", 200_000) // 1 MB
	for path, bodies := range map[string][]string{
		"/v1/chat/completions": {`{`, `{}`, `{` + hi + `,"model":"unknown"}`, `{` + hi + `,"temperature":9}`, `{` + hi + `,"tools":[{"type":"web_search"}]}`,
			`{` + hi + `,"tool_choice":"required"}`, `{` + hi + `,"logit_bias":{"999999":1}}`, `{"messages":[{"role":"user","content":"` + long + `"}]}`, `{"messages":[{"role":"tool","content":"x"}]}`},
		"/v1/completions": {`[]`, `{"prompt":"a","model":"unknown"}`, `{"prompt":"a","stop_token_ids":[999999]}`, `{"prompt":[-1]}`, `{"prompt":"` + long + `"}`, `{"prompt":"a","n":129}`},
	} {
		for _, body := range bodies {
			want, got := g.post(path, body), g.post(path+"/render", body)
			if got.status != want.status || got.body != want.body || want.status < 400 {
				t.Errorf("%s %.80s: %d %s, the route says %d %s", path, body, got.status, got.body, want.status, want.body)
			}
		}
		if r := g.do("GET", path+"/render", ""); r.status != 405 {
			t.Errorf("GET %s/render: %d", path, r.status)
		}
	}
}

// TestRenderDrains: a router may still ask for ids while the server drains.
func TestRenderDrains(t *testing.T) {
	g := start(t, setup{reply: hello, cost: 20 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	running := make(chan got, 1)
	go func() { running <- g.post("/v1/chat/completions", `{`+hi+`}`) }()
	eventually(t, time.Minute, "runs", func() bool { return g.model.Engine.Stats().Running > 0 || ctx.Err() != nil })
	g.stop()
	eventually(t, time.Minute, "drains", g.s.draining.Load)
	rendered(t, g.post("/v1/chat/completions/render", `{`+hi+`}`))
	wantError(t, g.post("/v1/chat/completions", `{`+hi+`}`), 503, "overloaded_error", "draining", "")
	if r := <-running; r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestGivenBack: gateways find their own headers in replies, whatever becomes of the request.
func TestGivenBack(t *testing.T) {
	g := start(t, setup{reply: hello})
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for path, status := range map[string]int{"/health": 200, "/nowhere": 404, "/v1/models": 200} {
		r := g.do("GET", path, "", "Traceparent", parent, "X-Gateway-Route", "a b", "X-Request-Id", "mine", "X-Other", "no", "X-Gateway-Long", strings.Repeat("x", mostGivenBack))
		if r.status != status || r.header.Get("Traceparent") != parent || r.header.Get("X-Gateway-Route") != "a b" || r.header.Get("X-Request-Id") != "mine" ||
			r.header.Get("X-Other") != "" || r.header.Get("X-Gateway-Long") != "" {
			t.Errorf("%s: %d %v", path, r.status, r.header)
		}
	}
}

// TestMetricsWithoutKey opens /metrics and nothing else.
func TestMetricsWithoutKey(t *testing.T) {
	for open, want := range map[bool]int{false: 401, true: 200} {
		g := start(t, setup{reply: hello, cfg: Config{Keys: []string{"k"}, OpenMetrics: open}})
		if r := g.do("GET", "/metrics", ""); r.status != want {
			t.Errorf("open %v: %d", open, r.status)
		}
		for _, path := range []string{"/v1/models", "/load", "/version", "/metrics/", "/v1/responses/x"} {
			if r := g.do("GET", path, ""); r.status != 401 {
				t.Errorf("open %v: %s: %d", open, path, r.status)
			}
		}
	}
}

// BenchmarkRender is the time of a prompt of 1,000 tokens, 1 ms at most (operations.md 4), with
// the HTTP connection.
func BenchmarkRender(b *testing.B) {
	g := start(b, setup{reply: hello})
	text := strings.TrimSpace(strings.Repeat(" the quick brown fox jumps over the lazy dog", 111))
	if n := len(said(text)); n < 990 || n > 1010 {
		b.Fatalf("%d tokens", n)
	}
	for b.Loop() {
		if r := g.post("/v1/chat/completions/render", `{"messages":[{"role":"user","content":"`+text+`"}]}`); r.status != 200 {
			b.Fatal(r.body)
		}
	}
}
