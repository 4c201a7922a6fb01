package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/limits"
	"ossian/internal/runner"
)

// dial sends a request on a connection of its own.
func (g *rig) dial(path, body string) net.Conn {
	g.t.Helper()
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	return c
}

// eventually waits for f.
func eventually(t testing.TB, within time.Duration, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// TestCON2Cut has readers that never read: they are cut when a write has stalled, or
// too much has come meanwhile, and nobody else notices.
func TestCON2Cut(t *testing.T) {
	t.Parallel() // it waits
	for _, c := range []struct {
		cost   time.Duration
		limits map[limits.ID]int64
		why    []string
	}{
		{time.Millisecond, map[limits.ID]int64{limits.WriteStall: 1000}, []string{"write_stall", "disconnect"}}, // the system may see it first
		{0, map[limits.ID]int64{limits.PendingOutput: 4096}, []string{"pending_output"}},
	} {
		g := start(t, setup{reply: strings.Repeat("x", 64), cost: c.cost, limits: c.limits, cfg: looseHeaders})
		const readers = 4
		for range readers {
			c := g.dial("/v1/chat/completions", `{`+hi+`,"stream":true,"logprobs":true,"top_logprobs":20,"n":8}`)
			if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
				t.Fatal(err)
			}
		}
		if r := g.post("/v1/completions", `{"prompt":"a","max_tokens":20}`); r.status != 200 {
			t.Errorf("another client: %d %s", r.status, r.body)
		}
		eventually(t, 2*time.Minute, fmt.Sprintf("with steps of %v all are cut for %s", c.cost, c.why), func() bool {
			m, n := g.do("GET", "/metrics", "").body, 0
			for _, why := range c.why {
				for k := range readers {
					if strings.Contains(m, fmt.Sprintf("ossian_streams_cut_total{reason=%q} %d\n", why, k+1)) {
						n += k + 1
					}
				}
			}
			return n == readers
		})
		g.idle()
	}
}

// TestBodiesAreGivenBack: a stream does not hold its request.
func TestBodiesAreGivenBack(t *testing.T) {
	g := start(t, setup{reply: strings.Repeat("x", 64), cost: 20 * time.Millisecond, limits: map[limits.ID]int64{limits.BodiesInFlight: 8192}})
	for i := range 8 { // of 4 KiB each
		g.dial("/v1/completions", `{"prompt":"a","max_tokens":3000,"stream":true,"user":"`+strings.Repeat("x", 4000)+`"}`)
		eventually(t, time.Minute, "it runs without its body", func() bool { return g.model.Engine.Stats().Running == i+1 && g.s.bodies.Load() == 0 })
	}
	wantError(t, g.post("/tokenize", `{"prompt":"`+strings.Repeat("x", 9000)+`"}`), 503, "overloaded_error", "overloaded", "")
}

// TestLIF3Ping: silence is broken by comments.
func TestLIF3Ping(t *testing.T) {
	t.Parallel() // it waits
	g := start(t, setup{reply: "ab<|return|>", cost: 1500 * time.Millisecond, limits: map[limits.ID]int64{limits.PingInterval: 100}})
	r := g.post("/v1/completions", `{"prompt":"a","max_tokens":2,"stream":true}`)
	if n := strings.Count(r.body, ": ping\n\n"); n < 2 || !strings.HasPrefix(r.body, ": ping\n\n") {
		t.Errorf("%d pings: %q", n, r.body)
	}
	if !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
		t.Errorf("%q", r.body)
	}
	// Hidden reasoning is silence, too.
	g = start(t, setup{reply: thinks + strings.Repeat("<|channel|>analysis<|message|>a b c d e f g h i j<|end|><|start|>assistant", 4) + "<|channel|>final<|message|>x<|return|>",
		cost: 30 * time.Millisecond, limits: map[limits.ID]int64{limits.PingInterval: 100}})
	r = g.post("/v1/chat/completions", `{`+hi+`,"stream":true,"include_reasoning":false}`)
	if n := strings.Count(r.body, ": ping\n\n"); n < 2 || strings.Contains(r.body, "think") {
		t.Errorf("%d pings: %q", n, r.body)
	}
}

// TestLateReply: deadlines are of writes, not of requests, and end with the reply.
func TestLateReply(t *testing.T) {
	t.Parallel() // it waits
	g := start(t, setup{reply: "ab<|return|>", cost: time.Second, limits: map[limits.ID]int64{limits.WriteStall: 800, limits.BodyRead: 800}})
	for _, stream := range []string{"true", "false", "false"} {
		if r := g.post("/v1/completions", `{"prompt":"a","max_tokens":2,"stream":`+stream+`}`); r.status != 200 || !strings.Contains(r.body, "ab") {
			t.Errorf("stream %s: %d %q", stream, r.status, r.body)
		}
		time.Sleep(time.Second) // on a kept connection
	}
}

// TestLIF7Truncate: what is dropped is told.
func TestLIF7Truncate(t *testing.T) {
	g := start(t, setup{reply: "x"})
	r := g.post("/v1/completions", `{"prompt":[1,2,3,4,5],"max_tokens":1,"truncate_prompt_tokens":2,"return_token_ids":true}`)
	if r.header.Get("x-ossian-truncated") != "3" || !strings.Contains(r.body, `"prompt_token_ids":[4,5]`) || !strings.Contains(r.body, `"prompt_tokens":2`) {
		t.Errorf("%v %s", r.header, r.body)
	}
}

// TestIDs: ids without a meaning, forbidden and bad ones never come.
func TestIDs(t *testing.T) {
	g := start(t, setup{next: func([]int32, uint64) int32 { return unused }}) // a mask makes the script play the next larger id
	for body, want := range map[string]string{
		`{"prompt":"a","max_tokens":2}`:                                                                `"token_ids":[201001,201001]`,
		`{"prompt":"a","max_tokens":2,"allowed_token_ids":[7,9]}`:                                      `"token_ids":[7,7]`,
		`{"prompt":"a","max_tokens":9,"allowed_token_ids":[9,10],"stop_token_ids":[9],"min_tokens":2}`: `"token_ids":[10,10,9]`,
		`{"prompt":"a","max_tokens":2,"allowed_token_ids":[64,65],"bad_words":["a"]}`:                  `"token_ids":[65,65]`, // 64 is "a"
		`{"prompt":"a","max_tokens":2,"allowed_token_ids":[200002],"ignore_eos":true}`:                 `"token_ids":[200002,200002]`,
		`{"prompt":"a","max_tokens":9,"allowed_token_ids":[9],"stop_token_ids":[9]}`:                   `"stop_reason":9`,
		`{"prompt":"a","max_tokens":2,"allowed_token_ids":[9],"n":2,"logit_bias":{"9":1}}`:             `"token_ids":[9,9]`,
	} {
		if r := g.post("/v1/completions", strings.Replace(body, "{", `{"return_token_ids":true,`, 1)); !strings.Contains(r.body, want) {
			t.Errorf("%s: %s, want %s", body, r.body, want)
		}
	}
}

// TestOPS2Drain: what runs may end, what comes is sent elsewhere, what takes too
// long is told.
func TestOPS2Drain(t *testing.T) {
	t.Parallel() // it waits
	for _, c := range []struct {
		name    string
		timeout time.Duration
		tokens  int // of a stream, 5 ms each
		cut     bool
	}{{"in time", time.Minute, 100, false}, {"cut", 5 * time.Second, 3000, true}} {
		t.Run(c.name, func(t *testing.T) {
			u := setup{reply: strings.Repeat("x", 64), cost: 5 * time.Millisecond, cfg: Config{DrainTimeout: c.timeout}}
			looked := make(chan struct{})
			look := sync.OnceFunc(func() { close(looked) })
			defer look()
			u.engine.Stall = time.Hour
			u.launch = func(step int, _ *runner.Batch) {
				if step == 50 { // no stream has ended
					<-looked
				}
			}
			g := start(t, u)
			const streams = 20
			bodies := make(chan string, streams)
			for range streams {
				go func() {
					res, err := g.client.Post(g.url+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(`{"prompt":"a","max_tokens":%d,"stream":true}`, c.tokens)))
					if err != nil {
						bodies <- err.Error()
						return
					}
					defer res.Body.Close()
					text, err := io.ReadAll(res.Body)
					bodies <- string(text) + fmt.Sprint(err)
				}()
			}
			eventually(t, time.Minute, "all have come", func() bool { return g.model.Engine.Stats().Accepted == streams })
			g.stop()
			eventually(t, time.Minute, "drains", g.s.draining.Load)
			wantError(t, g.post("/v1/completions", `{"prompt":"a"}`), 503, "overloaded_error", "draining", "")
			if r := g.do("GET", "/ready", ""); r.status != 503 || r.body != "" {
				t.Errorf("ready while draining: %d %q", r.status, r.body)
			}
			if r := g.do("GET", "/health", ""); r.status != 503 || r.header.Get("Retry-After") == "" {
				t.Errorf("health while draining: %d", r.status)
			}
			if r := g.do("GET", "/ping", ""); r.status != 200 {
				t.Errorf("ping while draining: %d", r.status)
			}
			look()
			for range streams {
				body := <-bodies
				if n := strings.Count(body, `"text":"x`); n != c.tokens && !c.cut {
					t.Errorf("%d of %d tokens: %.200s", n, c.tokens, body)
				}
				if !strings.HasSuffix(body, "data: [DONE]\n\n<nil>") || strings.Contains(body, `"code":"draining"`) != c.cut {
					t.Errorf("end of a stream: %s", body[max(0, len(body)-300):])
				}
			}
			began := time.Now()
			if err := <-g.served; err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d > 30*time.Second {
				t.Errorf("Serve took %v after the last stream", d)
			}
			g.served <- nil // for the clean-up
		})
	}
}

// TestOPS1Loading: the server answers while weights load, and says so.
func TestOPS1Loading(t *testing.T) {
	loaded := make(chan struct{})
	g := start(t, setup{reply: hello, load: func(ctx context.Context) error {
		select {
		case <-loaded:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	for path, want := range map[string]int{"/ping": 200, "/health": 503, "/ready": 503} {
		if r := g.do("GET", path, ""); r.status != want || r.body != "" || (r.header.Get("Retry-After") != "") != (want == 503) {
			t.Errorf("%s: %d %q, Retry-After %q, want %d", path, r.status, r.body, r.header.Get("Retry-After"), want)
		}
	}
	var list struct{ Data []struct{ ID string } }
	if err := json.Unmarshal([]byte(g.do("GET", "/v1/models", "").body), &list); err != nil || len(list.Data) != 2 || list.Data[1].ID != "alias/of it" {
		t.Errorf("models: %v %v", list, err)
	}
	if r := g.do("GET", "/v1/models/alias%2Fof%20it", ""); r.status != 200 {
		t.Errorf("model: %d %s", r.status, r.body)
	}
	wantError(t, g.post("/v1/chat/completions", `{`+hi+`}`), 503, "overloaded_error", "loading", "")
	wantError(t, g.post("/v1/chat/completions", `{"model":"other",`+hi+`}`), 404, "invalid_request_error", "model_not_found", "model")
	close(loaded)
	// Nobody who waits for health meets a server that loads: the request that follows is answered.
	eventually(t, time.Minute, "healthy", func() bool { return g.do("GET", "/health", "").status == 200 })
	if r := g.post("/v1/chat/completions", `{"model":"alias/of it",`+hi+`}`); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestService(t *testing.T) {
	g := start(t, setup{reply: hello})
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/version", `{"revision":"abc","version":"1.2.3"}`}, {"GET", "/load", `{"server_load":0}`}, {"GET", "/ready", ""}, {"GET", "/ping", ""}, {"POST", "/ping", ""},
		{"HEAD", "/v1/models", ""}, {"HEAD", "/metrics", ""},
		{"GET", "/v1/models/test-model", `{"id":"test-model","object":"model","created":1700000000,"owned_by":"ossian","root":"root","parent":null,"max_model_len":4096,"context_window":4096,"capabilities":["completion","chat","tools"],"permission":[],"status":{"value":"loaded"}}`},
	} {
		if r := g.do(c.method, c.path, ""); r.status != 200 || r.body != c.body {
			t.Errorf("%s %s: %d %s", c.method, c.path, r.status, r.body)
		}
	}
}

// TestResetPrefixCache: whoever may use the server alone may have its cache emptied.
func TestResetPrefixCache(t *testing.T) {
	var log logBuffer
	g := start(t, setup{reply: hello, log: &log, cfg: Config{Keys: []string{"a", "b"}}})
	cached := func() int {
		t.Helper()
		r := g.post("/v1/completions", `{"max_tokens":1,"prompt":"`+strings.Repeat("one two ", 40)+`"}`, "Authorization", "Bearer a")
		var in struct {
			Usage struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		if err := json.Unmarshal([]byte(r.body), &in); err != nil || r.status != 200 {
			t.Fatalf("%d %s: %v", r.status, r.body, err)
		}
		return in.Usage.Details.Cached
	}
	reset := func() got { t.Helper(); return g.post("/reset_prefix_cache", "", "Authorization", "Bearer a") }
	if first, second := cached(), cached(); first != 0 || second == 0 {
		t.Errorf("%d tokens are cached at first, then %d", first, second)
	}
	wantError(t, reset(), 403, "permission_error", "", "")
	if n := cached(); n == 0 {
		t.Error("emptied by one of several keys")
	}
	g.s.Reload([]string{"a"}, nil)
	if r := reset(); r.status != 200 || r.body != "" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if first, second := cached(), cached(); first != 0 || second == 0 {
		t.Errorf("%d tokens are cached after all was forgotten, then %d", first, second)
	}
	wantError(t, g.post("/reset_prefix_cache", ""), 401, "invalid_request_error", "invalid_api_key", "")
	if text := log.String(); strings.Count(text, "prefix cache emptied") != 1 {
		t.Errorf("log: %s", text)
	}
}

// TestOPS5 compares what is counted with what clients got.
func TestOPS5(t *testing.T) {
	var log logBuffer
	g := start(t, setup{reply: hello, cfg: Config{AccessLog: true}, log: &log})
	for _, body := range []string{`{` + hi + `}`, `{` + hi + `,"stream":true,"stop":"wör"}`, `{` + hi + `,"n":3,"max_tokens":4}`} {
		if r := g.post("/v1/chat/completions", body); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	g.post("/v1/chat/completions", `{`+hi+`,"temperature":9}`)
	g.post("/nowhere", `{}`)
	g.idle()
	eventually(t, time.Minute, "all are logged", func() bool { return strings.Count(log.String(), "msg=request ") == 5 }) // and counted, when their replies have left
	m := g.do("GET", "/metrics", "").body
	for _, line := range []string{
		`vllm:request_success_total{engine="0",finished_reason="stop",model_name="test-model"} 2`,
		`vllm:request_success_total{engine="0",finished_reason="length",model_name="test-model"} 3`,
		`vllm:request_generation_tokens_sum{engine="0",model_name="test-model"} 51`, // 22 + 17 + 3·4
		`vllm:request_prompt_tokens_sum{engine="0",model_name="test-model"} 340`,
		`vllm:request_params_n_sum{engine="0",model_name="test-model"} 5`,
		`vllm:time_to_first_token_seconds_count{engine="0",model_name="test-model"} 5`,
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 3`,
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="4xx"} 1`,
		`http_requests_total{handler="other",method="POST",status="4xx"} 1`,
	} {
		if !strings.Contains(m, line) {
			name, _, _ := strings.Cut(line, "{")
			t.Errorf("no line %s; there is\n%s", line, grep(m, name+"{"))
		}
	}
	if text := log.String(); strings.Contains(text, "/metrics") || strings.Contains(text, "Hi") || !strings.Contains(text, "tokens=22") {
		t.Errorf("log:\n%s", text)
	}
}

func grep(text, part string) (out string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			out += line
		}
	}
	return out
}

// TestManyAtOnce runs requests of all kinds side by side and compares each reply
// with that of the same request alone.
func TestManyAtOnce(t *testing.T) {
	g := start(t, setup{})
	kinds := []string{`{"prompt":"one","max_tokens":40,"seed":1}`, `{"prompt":"two","max_tokens":30,"stream":true,"seed":1}`, `{"prompt":["three","four"],"n":2,"max_tokens":20,"seed":1}`}
	alone := map[string]string{}
	for _, k := range kinds {
		alone[k] = anonymous(g.post("/v1/completions", k).body)
	}
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			k := kinds[i%len(kinds)]
			res, err := http.Post(g.url+"/v1/completions", "application/json", strings.NewReader(k))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if got := anonymous(string(body)); err != nil || got != alone[k] {
				t.Errorf("%s: got %.300s %v\nalone %.300s", k, got, err, alone[k])
			}
		})
	}
	wg.Wait()
	g.idle()
	if len(anonymous(g.post("/v1/completions", kinds[0]).body)) < 100 {
		t.Error("nothing was compared")
	}
}

// anonymous removes what differs between replies to the same request.
func anonymous(body string) string {
	for part := range strings.SplitSeq(body, `"`) {
		if strings.HasPrefix(part, "cmpl-") {
			body = strings.ReplaceAll(body, part, "ID")
		}
	}
	for n := range 10 {
		body = strings.ReplaceAll(body, fmt.Sprintf(`"cached_tokens":%d`, 16*n), `"cached_tokens":0`)
	}
	return body
}
