package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"ossian/internal/chat"
	"ossian/internal/engine"
	"ossian/internal/limits"
	"ossian/internal/sched"
	"ossian/internal/token"
)

// A failure is the body of an error, with nulls as "".
type failure struct {
	Error *struct {
		Message, Type string
		Param, Code   *string
	}
}

// wantError checks an error reply of the form that typed clients read.
func wantError(t *testing.T, r got, status int, kind, code, param string) {
	t.Helper()
	var f failure
	if err := json.Unmarshal([]byte(r.body), &f); err != nil || f.Error == nil {
		t.Fatalf("status %d, body %q: %v", r.status, r.body, err)
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	e := f.Error
	if r.status != status || e.Type != kind || text(e.Code) != code || text(e.Param) != param || e.Message == "" {
		t.Errorf("got %d %s %s param %q (%s), want %d %s %s param %q", r.status, e.Type, text(e.Code), text(e.Param), e.Message, status, kind, code, param)
	}
	// Many clients show the message and nothing else.
	if !strings.HasPrefix(e.Message, param) {
		t.Errorf("message %q does not begin with %s", e.Message, param)
	}
	if ct := r.header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type %q", ct)
	}
	if again := r.header.Get("Retry-After"); (again != "") != (status == 429 || status == 503) {
		t.Errorf("Retry-After %q with status %d", again, status)
	}
}

func TestErrors(t *testing.T) {
	g := start(t, setup{reply: hello, limits: map[limits.ID]int64{limits.RequestBody: 4096}})
	const bad, chatPath, textPath = "invalid_request_error", "/v1/chat/completions", "/v1/completions"
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		code, param              string
	}{
		{"no such route", "GET", "/v1/embeddings", "", 404, "not_found", ""},
		{"no input", "POST", "/v1/responses", "{}", 400, "missing_required_parameter", "input"},
		{"route with a slash", "POST", "/v1/chat/completions/", "{}", 404, "not_found", ""},
		{"doubled slash", "GET", "//health", "", 404, "not_found", ""},
		{"model of no name", "GET", "/v1/models/", "", 404, "not_found", ""},
		{"method", "GET", chatPath, "", 405, "method_not_allowed", ""},
		{"method of health", "DELETE", "/health", "", 405, "method_not_allowed", ""},
		{"options without CORS", "OPTIONS", chatPath, "", 405, "method_not_allowed", ""},
		{"unknown model", "GET", "/v1/models/x/y", "", 404, "model_not_found", "model"},
		{"not JSON", "POST", chatPath, `{"model":`, 400, "invalid_json", ""},
		{"empty", "POST", chatPath, ``, 400, "invalid_json", ""},
		{"too large", "POST", chatPath, `{` + hi + `,"user":"` + strings.Repeat("x", 4096) + `"}`, 413, "request_too_large", ""},
		{"no messages", "POST", chatPath, `{}`, 400, "missing_required_parameter", "messages"},
		{"wrong type", "POST", chatPath, `{"messages":[{"role":"user","content":7}]}`, 400, "invalid_type", "messages[0].content"},
		{"model", "POST", chatPath, `{"model":"gpt-5",` + hi + `}`, 404, "model_not_found", "model"},
		{"temperature", "POST", chatPath, `{` + hi + `,"temperature":3}`, 400, "invalid_value", "temperature"},
		{"answer to no call", "POST", chatPath, `{"messages":[{"role":"tool","content":"x","tool_call_id":"c"}]}`, 400, "invalid_value", "messages[0]"},
		{"bias outside the vocabulary", "POST", chatPath, `{` + hi + `,"logit_bias":{"300000":1}}`, 400, "invalid_value", "logit_bias.300000"},
		{"stop id outside the vocabulary", "POST", chatPath, `{` + hi + `,"stop_token_ids":[1,201088]}`, 400, "invalid_value", "stop_token_ids[1]"},
		{"allowed id without a meaning", "POST", chatPath, `{` + hi + `,"allowed_token_ids":[201000]}`, 400, "invalid_value", "allowed_token_ids"},
		{"allowed ids without text", "POST", chatPath, `{` + hi + `,"allowed_token_ids":[200002,200012]}`, 400, "invalid_value", "allowed_token_ids"},
		{"unknown tool", "POST", chatPath, `{` + hi + `,` + tools + `,"tool_choice":{"type":"function","function":{"name":"get_time"}}}`, 400, "invalid_value", "tool_choice"},
		{"required without tools", "POST", chatPath, `{` + hi + `,"tool_choice":"required"}`, 400, "invalid_value", "tool_choice"},
		{"built-in tool", "POST", chatPath, `{` + hi + `,"tools":[{"type":"web_search"}]}`, 400, "unsupported_tool", "tools[0].type"},
		{"two forms", "POST", chatPath, `{` + hi + `,"response_format":{"type":"json_object"},"guided_regex":"a"}`, 400, "invalid_value", "guided_regex"},
		{"regex", "POST", textPath, `{"prompt":"x","structured_outputs":{"regex":"["}}`, 400, "invalid_value", "structured_outputs.regex"},
		{"nothing left of the prompt", "POST", textPath, `{"prompt":"x","truncate_prompt_tokens":0}`, 400, "invalid_value", "prompt"},
		{"suffix", "POST", textPath, `{"prompt":"x","suffix":"y"}`, 400, "unsupported_parameter", "suffix"},
		{"id outside the vocabulary", "POST", textPath, `{"prompt":[1,201088]}`, 400, "invalid_value", "prompt[1]"},
		{"id outside the vocabulary in the second of two", "POST", textPath, `{"prompt":[[1],[201088]]}`, 400, "invalid_value", "prompt[1][0]"},
		{"best_of", "POST", textPath, `{"prompt":"x","best_of":2,"stream":true}`, 400, "invalid_value", "best_of"},
		{"prompt_logprobs streamed", "POST", textPath, `{"prompt":"x","prompt_logprobs":1,"stream":true}`, 400, "invalid_value", "prompt_logprobs"},
		{"prompt_logprobs of all ids", "POST", chatPath, `{` + hi + `,"prompt_logprobs":-1}`, 400, "invalid_value", "prompt_logprobs"},
		{"detokenize", "POST", "/detokenize", `{"tokens":[-1]}`, 400, "invalid_value", "tokens[0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.do(c.method, c.path, c.body)
			wantError(t, r, c.status, bad, c.code, c.param)
			if c.status == 405 && r.header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
	r := g.do("POST", chatPath, `{`+hi+`}`, "Content-Type", "text/plain")
	wantError(t, r, 415, bad, "unsupported_media_type", "")
	r = g.do("POST", chatPath, `{`+hi+`}`, "Content-Encoding", "gzip")
	wantError(t, r, 415, bad, "unsupported_media_type", "")
	if r := g.post(chatPath, `{`+hi+`}`, "Content-Type", "application/json; charset=utf-8"); r.status != 200 {
		t.Errorf("with a parameter: %d %s", r.status, r.body)
	}
}

// What can never find a place in the queue is not told to try again.
func TestADM4NeverFits(t *testing.T) {
	u := setup{reply: hello, engine: engine.Config{Sched: sched.Config{MaxQueue: 2, MaxQueueTokens: 100}}}
	u.info.MaxSeqs = 2
	g := start(t, u)
	ids := `[1` + strings.Repeat(",1", 50) + `]`
	for body, says := range map[string]string{
		`"prompt":"x","n":5`:         "5 choices (1 prompts, 5 of each) at once are more than 4 that can run or wait",
		`"prompt":["x","y"],"n":3`:   "6 choices (2 prompts, 3 of each)",
		`"prompt":` + ids + `,"n":4`: "more than 100 tokens of their prompts can wait",
	} {
		r := g.post("/v1/completions", "{"+body+"}")
		wantError(t, r, 400, "invalid_request_error", "invalid_value", "prompt")
		if !strings.Contains(r.body, says) {
			t.Errorf("%s: %q is missing: %s", body, says, r.body)
		}
	}
	if r := g.post("/v1/completions", `{"prompt":"x","n":4}`); r.status != 200 {
		t.Errorf("four: %d %s", r.status, r.body)
	}
}

// A grammar whose text has too many readings at once says so.
func TestAmbiguousGrammar(t *testing.T) {
	g := start(t, setup{reply: "a a a a a a a a a a a a"})
	var rules, names []string
	for i := range 600 { // each reads n letters in n ways: more than 2,048 at once after a few
		name := strconv.FormatInt(int64(i)+36*36, 36)
		names = append(names, "r"+name)
		rules = append(rules, `r`+name+` ::= r`+name+` r`+name+` | \"a\"`)
	}
	body := `{"prompt":"x","structured_outputs":{"grammar":"root ::= (` + strings.Join(names, " | ") + `) \".\"\n` + strings.Join(rules, `\n`) + `"}}`
	r := g.post("/v1/completions", body)
	wantError(t, r, 400, "invalid_request_error", "invalid_value", "")
	if !strings.Contains(r.body, "too many ways at once") {
		t.Error(r.body)
	}
}

// TestLIF7TooLong: prompts that leave no room for output are refused with the counts,
// by their bytes alone where these show it.
func TestLIF7TooLong(t *testing.T) {
	u := setup{reply: hello}
	u.info.MaxLen = 1024
	g := start(t, u)
	const chatPath, textPath = "/v1/chat/completions", "/v1/completions"
	ids, long := strings.Repeat("1,", 1300)+"1", strings.Repeat("word ", 120_000)
	cases := []struct{ name, path, body, param, prompt, output string }{
		{"ids", textPath, `{"prompt":[` + ids + `],"max_tokens":7}`, "prompt", "1301 tokens", "7 of output"},
		{"text", textPath, `{"prompt":"` + long[:6000] + `"}`, "prompt", "1201 tokens", "16 of output"},
		{"bytes", textPath, `{"prompt":"` + long + `"}`, "prompt", "at least ", "16 of output"},
		{"second of two", textPath, `{"prompt":["a","` + long + `"]}`, "prompt[1]", "at least ", "16 of output"},
		{"exactly full", textPath, `{"prompt":[` + ids[:2*1023] + `1],"max_tokens":1}`, "prompt", "1024 tokens", "1 of output"},
		{"chat", chatPath, `{"messages":[{"role":"user","content":"` + long[:6000] + `"}],"max_tokens":9}`, "messages", " tokens", "9 of output"},
		{"bytes of a chat", chatPath, `{"messages":[{"role":"user","content":"` + long + `"}]}`, "messages", "at least ", "as many as fit of output"},
	}
	for _, c := range cases {
		r := g.post(c.path, c.body)
		wantError(t, r, 400, "invalid_request_error", "context_length_exceeded", c.param)
		for _, count := range []string{c.prompt, c.output, "maximum context length is 1024 tokens"} {
			if !strings.Contains(r.body, count) {
				t.Errorf("%s: %q is missing: %s", c.name, count, r.body)
			}
		}
	}
	if r := g.post(textPath, `{"prompt":"`+long+`","truncate_prompt_tokens":-1,"max_tokens":2}`); r.status != 200 || r.header.Get("x-ossian-truncated") == "" {
		t.Errorf("truncated: %d %s", r.status, r.body)
	}
	if r := g.post(textPath, `{"prompt":[`+ids[:2*1022]+`1],"max_tokens":1}`); r.status != 200 {
		t.Errorf("one token of room: %d %s", r.status, r.body)
	}
	if m := g.do("GET", "/metrics", "").body; !strings.Contains(m, `reason="too_long"} `+strconv.Itoa(len(cases))) {
		t.Errorf("counted: %s", grep(m, "admission_rejections"))
	}
	t.Logf("LIF-7: %d prompts without room: refused with the counts and the member at fault", len(cases))
}

func TestStrict(t *testing.T) {
	g := start(t, setup{reply: hello, cfg: Config{Strict: true}})
	for _, tt := range []struct{ path, body, code, param string }{
		{chatsPath, `{` + hi + `,"chat_id":1}`, "unsupported_parameter", "chat_id"},
		{chatsPath, `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b","colour":1}]}`, "unsupported_parameter", "messages[1].colour"},
		{"/v1/responses", `{"input":"Hi","tools":[` + cityFlat + `,{"type":"file_search"}]}`, "unsupported_parameter", "tools[1].file_search"},
		{"/v1/responses", `{"input":"Hi","tools":[` + cityFlat + `,{"type":"web_search"}]}`, "unsupported_tool", "tools[1].type"},
	} {
		wantError(t, g.post(tt.path, tt.body), 400, "invalid_request_error", tt.code, tt.param)
	}
}

// A format that panics stands for a fault of our own in one request.
type panics struct{ chat.Format }

func (p panics) Render(prompt *token.Prompt, c *chat.Conversation) error {
	if c.Turns[0].Parts[0] == "boom" {
		panic("secret /etc/passwd")
	}
	return p.Format.Render(prompt, c)
}

func TestHLT4Panic(t *testing.T) {
	f, err := chat.New(chat.Facts{Family: "gpt-oss", Tokenizer: harmony(), Stops: []int32{200_002, 200_012}})
	if err != nil {
		t.Fatal(err)
	}
	var log logBuffer
	g := start(t, setup{reply: hello, format: panics{f}, log: &log})
	r := g.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"boom"}]}`, "X-Request-Id", "abc")
	wantError(t, r, 500, "server_error", "internal_error", "")
	if strings.Contains(r.body, "secret") || !strings.Contains(r.body, "abc") || r.header.Get("x-should-retry") != "false" {
		t.Errorf("%v %s", r.header, r.body)
	}
	if !strings.Contains(log.String(), "req=abc") || !strings.Contains(log.String(), "secret") {
		t.Errorf("log: %s", log.String())
	}
	if r := g.post("/v1/chat/completions", `{`+hi+`}`); r.status != 200 {
		t.Errorf("after the panic: %d %s", r.status, r.body)
	}
}

// TestFaultInStream: after the first byte an error is an event, then [DONE].
func TestFaultInStream(t *testing.T) {
	g := start(t, setup{reply: strings.Repeat("x", 64), engine: engine.Config{Open: nil}, fault: func(step int) error {
		if step == 20 {
			return errors.New("device on fire")
		}
		return nil
	}})
	r := g.post("/v1/completions", `{"prompt":"a","max_tokens":100,"stream":true}`)
	if r.status != 200 || !strings.HasSuffix(r.body, "data: [DONE]\n\n") || strings.Contains(r.body, "fire") {
		t.Fatalf("%d %s", r.status, r.body)
	}
	events := strings.Split(strings.TrimSpace(r.body), "\n\n")
	last := strings.TrimPrefix(events[len(events)-2], "data: ")
	var f failure
	if err := json.Unmarshal([]byte(last), &f); err != nil || f.Error == nil || *f.Error.Code != "internal_error" {
		t.Errorf("last event %s: %v", last, err)
	}
}

func TestADM4QueueFull(t *testing.T) {
	u := setup{reply: strings.Repeat("x", 64), cost: 20 * time.Millisecond, engine: engine.Config{Sched: sched.Config{MaxQueue: 1}}}
	u.info.MaxSeqs = 1
	g := start(t, u)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 { // one runs, one waits
		go func() {
			req, _ := http.NewRequestWithContext(ctx, "POST", g.url+"/v1/completions", strings.NewReader(`{"prompt":"a","max_tokens":1000}`))
			req.Header.Set("Content-Type", "application/json")
			if res, err := g.client.Do(req); err == nil {
				res.Body.Close()
			}
		}()
	}
	for g.model.Engine.Accepting() == nil {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	r := g.post("/v1/completions", `{"prompt":"a"}`)
	wantError(t, r, 429, "rate_limit_error", "queue_full", "")
	within(t, "refused after", time.Since(began), time.Second, time.Minute)
	for _, path := range []string{"/health", "/metrics", "/load"} { // ADM-8
		if r := g.do("GET", path, ""); r.status != 200 {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	cancel()
	g.idle()
}
