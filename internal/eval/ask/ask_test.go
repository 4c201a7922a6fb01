package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// served is a server that answers the n-th request, from 0, with the n-th reply, and the last for
// ever; it keeps the bodies.
type served struct {
	*httptest.Server
	bodies []string
	waits  []time.Duration
}

type reply struct {
	status int
	header string // Retry-After
	body   string
	cut    bool
}

func serve(t *testing.T, replies ...reply) *served {
	s := &served{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.bodies = append(s.bodies, r.URL.Path+" "+r.Header.Get("Authorization")+" "+string(body))
		now := replies[min(len(s.bodies), len(replies))-1]
		if now.header != "" {
			w.Header().Set("Retry-After", now.header)
		}
		if now.status != 0 {
			w.WriteHeader(now.status)
		}
		io.WriteString(w, now.body)
		if now.cut {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *served) config(api API) *Config {
	return &Config{Base: s.URL + "/v1", Key: "k", API: api, Model: "m", Effort: "low", Temperature: 1, MaxTokens: 131072, Retries: 2, Timeout: time.Minute,
		Client: s.Client(), Sleep: func(_ context.Context, d time.Duration) error { s.waits = append(s.waits, d); return nil }}
}

const (
	responsesText = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"4\"}\n\n: remark\r\ndata: {\"type\":\"response.reasoning_text.delta\",\r\ndata: \"delta\":\"hm\"}\r\n\r\n" +
		"data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"web_search_call\"}}\n\ndata: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"message\"}}\n\n"
	responsesDone = `data: {"type":"response.completed","response":{"status":"completed","error":null,"output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"hm"}]},{"type":"message","content":[{"type":"output_text","text":"4"},{"type":"output_text","text":"2"}]}],"usage":{"input_tokens":3,"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2}}}}` + "\n\n"
	responsesCut  = `data: {"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}}` + "\n\n"
	chatText      = `data: {"system_fingerprint":"fp","choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n" + `data: {"choices":[{"delta":{"reasoning":"hm","reasoning_content":"hm"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"42"}}],"usage":null}` + "\n\n"
	chatDone      = `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n" + `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":2}}}` + "\n\ndata: [DONE]\n\n"
	chatLength    = `data: {"choices":[{"delta":{},"finish_reason":"length"}]}` + "\n\ndata: [DONE]\n\n"
)

// TestRequests: both APIs get what the published evaluation sends, streamed, and no other member.
func TestRequests(t *testing.T) {
	seed := int64(7)
	for _, c := range []struct {
		api  API
		body string
		want string
	}{
		{Responses, responsesText + responsesDone, `/v1/responses Bearer k {"input":[{"content":"<q>","role":"user"}],"max_output_tokens":131072,"model":"m","reasoning":{"effort":"low"},"seed":7,"stream":true,"temperature":1}`},
		{Chat, chatText + chatDone, `/v1/chat/completions Bearer k {"max_tokens":131072,"messages":[{"content":"<q>","role":"user"}],"model":"m","reasoning_effort":"low","seed":7,"stream":true,"stream_options":{"include_usage":true},"temperature":1}`},
	} {
		s := serve(t, reply{body: c.body})
		answer, err := s.config(c.api).Ask(t.Context(), "<q>", &seed)
		if err != nil || answer.Text != "42" || answer.Thought != "hm" || answer.Outcome != Answered || answer.Input != 3 || answer.Output != 5 || answer.Reasoning != 2 || answer.First <= 0 || answer.Total < answer.First || answer.Tries != 1 {
			t.Errorf("%s: %+v, %v", c.api, answer, err)
		}
		if got := strings.TrimSpace(s.bodies[0]); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.api, got, c.want)
		}
		if c.api == Responses && answer.Calls["web_search_call"] != 1 || len(answer.Calls) > 1 {
			t.Errorf("calls %v", answer.Calls)
		}
		if c.api == Chat && answer.Fingerprint != "fp" {
			t.Errorf("fingerprint %q", answer.Fingerprint)
		}
	}
}

// TestTools: each tool is asked for as the Responses API has it.
func TestTools(t *testing.T) {
	s := serve(t, reply{body: responsesDone})
	c := s.config(Responses)
	c.Tools = []string{"web_search", "code_interpreter", "mcp:docs"}
	if _, err := c.Ask(t.Context(), "q", nil); err != nil {
		t.Fatal(err)
	}
	var body struct{ Tools json.RawMessage }
	_, text, _ := strings.Cut(s.bodies[0], "{")
	if err := json.Unmarshal([]byte("{"+text), &body); err != nil {
		t.Fatal(err)
	}
	if want := `[{"type":"web_search"},{"container":{"type":"auto"},"type":"code_interpreter"},{"require_approval":"never","server_label":"docs","type":"mcp"}]`; string(body.Tools) != want {
		t.Errorf("%s, want %s", body.Tools, want)
	}
	for _, bad := range []string{"", "browser", "mcp:", "web_search "} {
		if CheckTool(bad) == nil {
			t.Errorf("tool %q is taken", bad)
		}
	}
}

// TestOutcomes: what becomes of each kind of reply, after how many tries.
func TestOutcomes(t *testing.T) {
	whole := reply{body: responsesDone}
	for _, c := range []struct {
		name    string
		replies []reply
		outcome Outcome
		tries   int
		text    string // of the answer, or in its error
		fatal   string
	}{
		{"right away", []reply{whole}, Answered, 1, "42", ""},
		{"deltas alone", []reply{{body: responsesText + `data: {"type":"response.completed","response":{}}` + "\n\n"}}, Answered, 1, "4", ""},
		{"empty answer", []reply{{body: `data: {"type":"response.completed","response":{"output":[{"type":"message","content":[]}]}}` + "\n\n"}}, Answered, 1, "", ""},
		{"truncated", []reply{{body: responsesText + responsesCut}}, Truncated, 1, "4", ""},
		{"refused", []reply{{status: 400, body: `{"error":{"message":"too\n long"}}`}}, Refused, 1, "400 Bad Request: too long", ""},
		{"unprocessable", []reply{{status: 422, body: `{"detail":"x"}`}}, Refused, 1, "x", ""},
		{"busy, then there", []reply{{status: 503}, {status: 429}, whole}, Answered, 3, "42", ""},
		{"always busy", []reply{{status: 500, body: "plain words"}}, Failed, 3, "500 Internal Server Error: plain words", ""},
		{"cut, then there", []reply{{body: responsesText, cut: true}, whole}, Answered, 2, "42", ""},
		{"ends early", []reply{{body: responsesText}}, Failed, 3, "the stream ended before the answer did", ""},
		{"torn event", []reply{{body: responsesText + "data: {\"type\":"}}, Failed, 3, "ended before", ""},
		{"empty stream", []reply{{body: ""}}, Failed, 3, "an empty stream", ""},
		{"not JSON", []reply{{body: "data: oops\n\n"}}, Failed, 3, "event 0 of the stream is not JSON", ""},
		{"failed in the stream", []reply{{body: `data: {"type":"response.failed","response":{"error":{"message":"oom"}}}` + "\n\n"}, whole}, Answered, 2, "42", ""},
		{"error in the stream", []reply{{body: `data: {"error":{"message":"oom"}}` + "\n\n"}}, Failed, 3, "error in the stream: oom", ""},
		{"error event", []reply{{body: `data: {"type":"error","message":"oom"}` + "\n\n"}}, Failed, 3, "oom", ""},
		{"no key", []reply{{status: 401, body: `{"error":{"message":"who?"}}`}}, "", 1, "", "401 Unauthorized: who?; OPENAI_API_KEY"},
		{"no route", []reply{{status: 404}}, "", 1, "", "404 Not Found to POST /v1/responses; --api chat"},
		{"members of other types", []reply{{body: `data: {"type":"response.created","delta":{"a":1},"item":3,"choices":{}}` + "\n\n" + responsesDone}}, Answered, 1, "42", ""},
		{"after the end", []reply{{body: responsesDone + responsesText}}, Answered, 1, "42", ""},
	} {
		s := serve(t, c.replies...)
		answer, err := s.config(Responses).Ask(t.Context(), "q", nil)
		if c.fatal != "" {
			if _, fatal := errors.AsType[*FatalError](err); !fatal || !strings.Contains(err.Error(), c.fatal) || len(s.bodies) != 1 {
				t.Errorf("%s: %v after %d tries, want %q", c.name, err, len(s.bodies), c.fatal)
			}
			continue
		}
		text := answer.Text
		if answer.Outcome == Failed || answer.Outcome == Refused {
			text = answer.Error
		}
		if err != nil || answer.Outcome != c.outcome || answer.Tries != c.tries || len(s.bodies) != c.tries || (text != c.text && (c.text == "" || !strings.Contains(text, c.text))) {
			t.Errorf("%s: %+v, %v after %d tries", c.name, answer, err, len(s.bodies))
		}
	}
	s := serve(t, reply{body: chatText + chatLength})
	if answer, err := s.config(Chat).Ask(t.Context(), "q", nil); err != nil || answer.Outcome != Truncated || answer.Output != -1 {
		t.Errorf("length: %+v, %v", answer, err)
	}
}

// TestWaits: pauses double from a second to a minute, or are what the server asks for.
func TestWaits(t *testing.T) {
	s := serve(t, reply{status: 503})
	c := s.config(Responses)
	c.Retries = 8
	if answer, err := c.Ask(t.Context(), "q", nil); err != nil || answer.Outcome != Failed {
		t.Fatalf("%+v, %v", answer, err)
	}
	if got, want := fmt.Sprint(s.waits), "[1s 2s 4s 8s 16s 32s 1m0s 1m0s]"; got != want {
		t.Errorf("waits %s, want %s", got, want)
	}
	s = serve(t, reply{status: 429, header: "17"}, reply{status: 429, header: "99999"}, reply{body: responsesDone})
	if _, err := s.config(Responses).Ask(t.Context(), "q", nil); err != nil || fmt.Sprint(s.waits) != "[17s 10m0s]" {
		t.Errorf("waits %v, %v", s.waits, err)
	}
	if d := retryAfter("Fri, 02 Jan 2026 00:00:30 GMT", time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)); d != 30*time.Second {
		t.Errorf("a date: %v", d)
	}
}

// TestEnds: an interrupt ends a wait and a request, a time-out a try.
func TestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, reply{status: 503})
	c := s.config(Responses)
	c.Sleep = func(context.Context, time.Duration) error { cancel(); return context.Canceled }
	if _, err := c.Ask(ctx, "q", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	hang := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer hang.Close()
	c.Base, c.Client, c.Timeout, c.Retries = hang.URL+"/v1", hang.Client(), 20*time.Millisecond, 0
	if answer, err := c.Ask(t.Context(), "q", nil); err != nil || answer.Outcome != Failed || !strings.Contains(answer.Error, "deadline") {
		t.Errorf("hanging: %+v, %v", answer, err)
	}
}

func FuzzStream(f *testing.F) {
	for _, seed := range []string{responsesText + responsesDone, chatText + chatDone, "data: {}\n\n", "data:[DONE]", "\r\n\r\n", "data: {\"choices\":[{}]}\n\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var answer Answer
		if err := readAnswer(strings.NewReader(body), &answer, time.Now()); err == nil && answer.Outcome != Answered && answer.Outcome != Truncated {
			t.Errorf("no error and the outcome %q", answer.Outcome)
		}
	})
}
