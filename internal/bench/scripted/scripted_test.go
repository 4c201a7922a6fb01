package scripted

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite testdata/streams.golden")

var stamp = regexp.MustCompile(`"sent_ns":\d+`)

// The streams of every dialect, as their bytes are after the transfer coding, for a
// reviewer of shape.go. The golden file is written by this test (-update).
func TestStreams(t *testing.T) {
	script := Script{Tokens: 3, Reasoning: 1, Words: []string{" a", `"<é`, "\n🌍"}, Cached: 2}
	var got strings.Builder
	for _, dialect := range Dialects() {
		shape, err := DialectOf(dialect)
		if err != nil {
			t.Fatal(err)
		}
		srv := serve(t, Options{Model: "m", Dialect: shape, Scripts: []Script{script}})
		for _, path := range []string{paths[completions], paths[chat], paths[responses]} {
			if path == paths[responses] && dialect != "vllm" {
				continue // the same in all but a word
			}
			_, text, err := post(t, srv, path, "", `{"prompt":"abc","stream":true,"stream_options":{"include_usage":true}}`)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "=== %s %s\n%s", dialect, path, stamp.ReplaceAllString(text, `"sent_ns":0`))
		}
	}
	name := filepath.Join("testdata", "streams.golden")
	if *update {
		if err := os.WriteFile(name, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("streams differ from %s; got\n%s", name, got.String())
	}
}

// What a shape changes, and how a stream is cut into writes, changes nothing else.
func TestShapes(t *testing.T) {
	const body = `{"prompt":"x","messages":[],"input":"x","max_tokens":4,"stream":true,"stream_options":{"include_usage":true}}`
	whole := func(api api, shape Dialect, split int) string {
		srv := serve(t, Options{Dialect: shape, Scripts: []Script{{Split: split, Words: []string{"€"}}}})
		_, text, err := post(t, srv, paths[api], "r-0", body)
		if err != nil {
			t.Fatal(err)
		}
		return stamp.ReplaceAllString(text, `"sent_ns":0`)
	}
	for api, path := range paths {
		plain := whole(api, Dialect{}, 0)
		for _, tt := range []struct {
			name  string
			shape Dialect
			split int
			back  func(string) string // makes what it changed undone
		}{
			{"split into single bytes", Dialect{}, 1, nil},
			{"split into seven bytes", Dialect{}, 7, nil},
			{"carriage returns", Dialect{CRLF: true}, 0, func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }},
			{"comments", Dialect{Comments: true}, 0, func(s string) string { return strings.ReplaceAll(s, ": ping\n\n", "") }},
			{"no end", Dialect{NoDone: true}, 0, func(s string) string {
				if api == responses {
					return s
				}
				return s + "data: [DONE]\n\n"
			}},
		} {
			got := whole(api, tt.shape, tt.split)
			if tt.back != nil {
				if api != responses && got == plain {
					t.Errorf("%s, %s: nothing changed", path, tt.name)
				}
				got = tt.back(got)
			}
			if got != plain {
				t.Errorf("%s, %s: got\n%s\nwant\n%s", path, tt.name, got, plain)
			}
		}
	}
}

// Times are as planned and never early, the stamps are the record, and a client sees
// nothing before it was sent.
func TestTimes(t *testing.T) {
	script := Script{TTFT: 20 * time.Millisecond, Gap: 5 * time.Millisecond, Jitter: 3 * time.Millisecond, Tokens: 9, PerChunk: []int{1, 3}, Headers: 10 * time.Millisecond, Ping: time.Millisecond}
	var offsets [3][]time.Duration
	for i, seed := range []uint64{7, 7, 8} {
		srv := serve(t, Options{Seed: seed, Scripts: []Script{script}})
		got := play(t, srv, paths[completions], "r-0", `{"prompt":[1,2,3],"stream":true}`)
		r := settled(t, srv, 1).Records[0]
		if r.Err != "" || r.Index != 0 || r.Prompt != 3 || len(got) != len(r.Sends) || len(got) != 5 {
			t.Fatalf("%d events came; record %+v", len(got), r)
		}
		last := r.Received
		for j, s := range r.Sends {
			due := r.Received + script.TTFT + time.Duration(j)*script.Gap
			if s.Planned < due || s.Planned > due+script.Jitter {
				t.Errorf("chunk %d planned at %v, expected %v to %v later", j, s.Planned, due, script.Jitter)
			}
			if s.Actual < s.Planned || s.Actual < last || got[j].Sent != int64(s.Actual) || got[j].at < s.Actual {
				t.Errorf("chunk %d: planned %v, sent %v after %v, stamped %v, received %v", j, s.Planned, s.Actual, last, got[j].Sent, got[j].at)
			}
			if want := []int{1, 3, 1, 3, 1}[j]; s.Tokens != want {
				t.Errorf("chunk %d has %d tokens, expected %d", j, s.Tokens, want)
			}
			last = s.Actual
			offsets[i] = append(offsets[i], s.Planned-r.Received)
		}
		if r.Ended < last || r.TTFT() != r.Sends[0].Actual-r.Received {
			t.Errorf("ended %v, last event %v, TTFT %v", r.Ended, last, r.TTFT())
		}
	}
	if !slices.Equal(offsets[0], offsets[1]) || slices.Equal(offsets[0], offsets[2]) {
		t.Errorf("offsets of seeds 7, 7 and 8: %v", offsets)
	}
}

func TestCountsInChunks(t *testing.T) {
	srv := serve(t, Options{Scripts: []Script{{Tokens: 4, PerChunk: []int{3}, Cached: 2}}})
	got := play(t, srv, paths[completions], "", `{"prompt":"four","stream":true,"return_token_ids":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`)
	if len(got) != 3 {
		t.Fatalf("%d events, expected two with tokens and one with usage", len(got))
	}
	if ids := got[0].Choices[0].TokenIDs; !slices.Equal(ids, []int{0, 1, 2}) || got[0].Usage.Completion != 3 {
		t.Errorf("first chunk: ids %v, usage %+v", ids, got[0].Usage)
	}
	if ids := got[1].Choices[0].TokenIDs; !slices.Equal(ids, []int{3}) || got[1].Choices[0].FinishReason != "length" {
		t.Errorf("last chunk: %+v", got[1])
	}
	if u := got[2].Usage; len(got[2].Choices) != 0 || u.Prompt != 4 || u.Completion != 4 || u.Details.Cached != 2 {
		t.Errorf("usage chunk: %+v", got[2])
	}
	srv = serve(t, Options{Scripts: []Script{{Usage: &Usage{Prompt: 7, Completion: 5}}}})
	got = play(t, srv, paths[completions], "", `{"stream":true,"max_tokens":2,"stream_options":{"include_usage":true}}`)
	if u := got[len(got)-1].Usage; u.Prompt != 7 || u.Completion != 5 {
		t.Errorf("usage that the script gives: %+v", u)
	}
}

func TestEarlyRole(t *testing.T) {
	srv := serve(t, Options{Dialect: Dialect{RoleEarly: true}, Scripts: []Script{{TTFT: 30 * time.Millisecond, Tokens: 1}}})
	got := play(t, srv, paths[chat], "r-0", `{"stream":true}`)
	r := settled(t, srv, 1).Records[0]
	if len(got) != 2 || got[0].Choices[0].Delta.Role != "assistant" || got[1].Choices[0].Delta.Content != " tok" {
		t.Fatalf("events %+v", got)
	}
	if len(r.Sends) != 2 || r.Sends[0].Tokens != 0 || r.Sends[1].Actual < r.Received+30*time.Millisecond {
		t.Errorf("record %+v", r)
	}
	// It waits for no token.
	srv = serve(t, Options{Dialect: Dialect{RoleEarly: true}, Scripts: []Script{{TTFT: time.Hour}}})
	res, err := http.DefaultClient.Do(newRequest(t, srv, paths[chat], "r-0", `{"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || !strings.Contains(line, `"role":"assistant"`) {
		t.Errorf("%v: %q", err, line)
	}
}

// Every fault arrives as its description says, and the connection pool of the client goes
// on where the fault leaves a connection.
func TestFaults(t *testing.T) {
	type seen struct {
		events  int // with choices
		whole   bool
		done    bool
		garbage bool
	}
	const gap = 2 * time.Millisecond
	for _, tt := range []struct {
		fault Fault
		want  seen
	}{
		{Fault{Kind: Nothing}, seen{whole: true, done: true}},
		{Fault{Kind: Empty}, seen{events: 1, whole: true, done: true}},
		{Fault{Kind: Reset, Chunk: 2}, seen{events: 2}},
		{Fault{Kind: Reset}, seen{}},
		{Fault{Kind: Cut, Chunk: 3}, seen{events: 3}},
		{Fault{Kind: Failure, Chunk: 2}, seen{events: 2, whole: true, done: true}},
		{Fault{Kind: Garbage, Chunk: 1}, seen{events: 5, whole: true, done: true, garbage: true}},
		{Fault{Kind: Stall, Chunk: 2, For: 20 * time.Millisecond}, seen{events: 5, whole: true, done: true}},
	} {
		name := fmt.Sprint(tt.fault)
		srv := serve(t, Options{Scripts: []Script{{Tokens: 5, TTFT: gap, Gap: gap, Fault: tt.fault}, {Tokens: 5}}})
		res, text, err := post(t, srv, paths[completions], "r-0", `{"stream":true}`)
		if res == nil || res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
			t.Fatalf("%s: answer %v, %v", name, res, err)
		}
		got := seen{strings.Count(text, `"choices":[{"index"`), err == nil, strings.Contains(text, "data: [DONE]"), strings.Contains(text, `"broken"`)}
		if got != tt.want {
			t.Errorf("%s: got %+v, %v, want %+v:\n%s", name, got, err, tt.want, text)
		}
		if tt.fault.Kind == Reset && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: error %v, expected a reset", name, err)
		}
		if tt.fault.Kind == Cut && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: error %v, expected an unexpected end", name, err)
		}
		if tt.fault.Kind == Failure && !strings.Contains(text, `data: {"error":`) {
			t.Errorf("%s: no error event in\n%s", name, text)
		}
		if got := play(t, srv, paths[completions], "r-1", `{"stream":true}`); len(got) != 5 {
			t.Errorf("%s: the request behind it has %d events", name, len(got))
		}
		for _, r := range settled(t, srv, 2).Records {
			if r.Err != "" || r.Fault != [2]FaultKind{tt.fault.Kind, None}[r.Index] {
				t.Errorf("%s: record %+v", name, r)
			}
			if tt.fault.Kind == Stall && r.Index == 0 && r.Sends[2].Actual-r.Sends[1].Planned < tt.fault.For+gap {
				t.Errorf("%s: sent %v", name, r.Sends)
			}
		}
	}
}

func TestFaultsBeforeTheStream(t *testing.T) {
	srv := serve(t, Options{Scripts: []Script{
		{Fault: Fault{Kind: Status, Status: 503}}, {Fault: Fault{Kind: Status}}, {Fault: Fault{Kind: HTML}}, {Fault: Fault{Kind: Refuse}},
	}})
	for i, want := range []string{`503 application/json`, `500 application/json`, `200 text/html; charset=utf-8`} {
		res, text, err := post(t, srv, paths[chat], fmt.Sprintf("r-%d", i), `{"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(res.StatusCode, " ", res.Header.Get("Content-Type")); got != want || !strings.Contains(text, "the script says so") {
			t.Errorf("request %d: %s, want %s:\n%s", i, got, want, text)
		}
	}
	if _, _, err := post(t, srv, paths[chat], "r-3", `{"stream":true}`); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("refused: %v, expected a reset", err)
	}
	if _, text, err := post(t, srv, paths[chat], "r-0", `{"stream":true,`); err != nil || !strings.Contains(text, "request body: unexpected end of JSON input") {
		t.Errorf("broken body: %v, %s", err, text)
	}
}

// A response to a request that wants no stream comes when the last token is due.
func TestWholeAnswers(t *testing.T) {
	script := Script{TTFT: 10 * time.Millisecond, Gap: 5 * time.Millisecond, Tokens: 3, Reasoning: 1, Words: []string{"a", "b", "c"}}
	srv := serve(t, Options{Scripts: []Script{script}})
	for i, tt := range []struct {
		api  api
		want string // somewhere in the answer
	}{
		{completions, `"choices":[{"index":0,"text":"abc","logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":5,"total_tokens":8,"completion_tokens":3}`},
		{chat, `"message":{"role":"assistant","content":"bc","reasoning":"a"}`},
		{responses, `"content":[{"type":"output_text","annotations":[],"text":"bc"}]`},
	} {
		_, text, err := post(t, srv, paths[tt.api], fmt.Sprintf("r-%d", i), `{"prompt":"hello"}`)
		if err != nil || !json.Valid([]byte(text)) || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %v, %s", paths[tt.api], err, text)
		}
	}
	for _, r := range settled(t, srv, 3).Records {
		if len(r.Sends) != 1 || r.Sends[0].Tokens != 3 || r.Sends[0].Actual < r.Received+20*time.Millisecond {
			t.Errorf("record %+v", r)
		}
	}
}

// Many streams at once: each is whole, in order, and the record is what a plain client
// saw. BEN-3: failures are told apart from the rest, one by one.
func TestManyStreams(t *testing.T) {
	const n = 120
	scripts := make([]Script, 10)
	for i := range scripts {
		scripts[i] = Script{TTFT: time.Duration(i) * time.Millisecond, Gap: time.Millisecond, Jitter: time.Millisecond, Tokens: 10 + i}
	}
	scripts[3].Fault = Fault{Kind: Status, Status: 500}
	srv := serve(t, Options{Scripts: scripts, Senders: 2})
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		seen   []Seen
		failed int
	)
	for i := range n {
		wait.Go(func() {
			id := fmt.Sprintf("bench-%d", i)
			if i%10 == 3 {
				res, _, err := post(t, srv, paths[chat], id, `{"stream":true}`)
				mu.Lock()
				defer mu.Unlock()
				if err == nil && res.StatusCode == 500 {
					failed++
				}
				return
			}
			began := srv.now()
			got := slices.DeleteFunc(play(t, srv, paths[chat], id, `{"stream":true,"stream_options":{"include_usage":true}}`), func(c chunk) bool { return !c.counts() })
			if want := 11 + i%10; len(got) != want { // a role and the tokens
				t.Errorf("stream %d has %d events, expected %d", i, len(got), want)
				return
			}
			s := Seen{Index: i, TTFT: got[0].at - began}
			for j := 1; j < len(got); j++ {
				s.Gaps = append(s.Gaps, got[j].at-got[j-1].at)
			}
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, s)
		})
	}
	wait.Wait()
	l := settled(t, srv, n)
	e := l.Compare(seen)
	if e.Requests != n-n/10 || e.Missed != n/10 || failed != n/10 {
		t.Errorf("%d requests compared, %d missed, %d failed", e.Requests, e.Missed, failed)
	}
	if e.TTFT.N != e.Requests || e.TTFT.Mean <= 0 || e.Gap.N != e.Events-e.Requests {
		t.Errorf("errors %+v", e)
	}
	if srv.Running() != 0 {
		t.Errorf("%d requests still run", srv.Running())
	}
	fetched, err := Fetch(t.Context(), srv.URL())
	if err != nil || fetched.Lateness() != l.Lateness() || l.Lateness().N == 0 {
		t.Errorf("log over HTTP: %v, %+v, want %+v", err, fetched.Lateness(), l.Lateness())
	}
	if err := Forget(t.Context(), srv.URL()); err != nil || len(srv.Log().Records) != 0 {
		t.Errorf("%v; %d records after they were dropped", err, len(srv.Log().Records))
	}
}

// A client that does not read delays nobody else.
func TestSlowReader(t *testing.T) {
	big := Script{Tokens: 1000, Words: []string{strings.Repeat("x", 64<<10)}}
	srv := serve(t, Options{Scripts: []Script{big, {Tokens: 20, Gap: time.Millisecond}}})
	res, err := http.DefaultClient.Do(newRequest(t, srv, paths[completions], "r-0", `{"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); srv.Log().Blocked == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no write found the connection full")
		}
	}
	if got := play(t, srv, paths[completions], "r-1", `{"stream":true}`); len(got) != 20 {
		t.Errorf("%d events beside a client that does not read", len(got))
	}
	n, err := io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if err != nil || n < 1000*64<<10 {
		t.Errorf("%d bytes came in the end: %v", n, err)
	}
	for _, r := range settled(t, srv, 2).Records {
		if r.Err != "" {
			t.Errorf("record of %s: %s", r.ID, r.Err)
		}
	}
}

// A client that goes away in the middle, also of a stall without an end, is noticed.
func TestClientGoesAway(t *testing.T) {
	srv := serve(t, Options{Scripts: []Script{{Gap: 10 * time.Millisecond}, {Fault: Fault{Kind: Stall, Chunk: 2}}, {TTFT: time.Hour}}})
	for i := range 3 {
		res, err := http.DefaultClient.Do(newRequest(t, srv, paths[chat], fmt.Sprintf("r-%d", i), `{"stream":true,"max_tokens":1000}`))
		if err != nil {
			t.Fatal(err)
		}
		if srv.Running() != 1 {
			t.Errorf("%d requests run", srv.Running())
		}
		res.Body.Close()
		l := settled(t, srv, i+1)
		if r := l.Records[i]; r.Err == "" || r.Index != i {
			t.Errorf("record %+v", r)
		}
	}
}

// Close ends streams, waiting requests and idle connections; TestMain counts what is left.
func TestClose(t *testing.T) {
	srv := serve(t, Options{Scripts: []Script{{Gap: time.Hour, Tokens: 2}, {TTFT: time.Hour}, {Headers: time.Hour}}})
	var wait sync.WaitGroup
	for i := range 6 {
		wait.Go(func() {
			body := []string{`{"stream":true}`, `{}`}[i/3]
			if _, _, err := post(t, srv, paths[chat], fmt.Sprintf("r-%d", i%3), body); err == nil {
				t.Errorf("request %d was answered", i)
			}
		})
	}
	for srv.Running() < 6 {
		time.Sleep(time.Millisecond)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	wait.Wait()
	if _, err := net.Dial("tcp", strings.TrimPrefix(srv.URL(), "http://")); err == nil {
		t.Error("the server still listens")
	}
	for _, r := range srv.Log().Records {
		if r.Err == "" {
			t.Errorf("record %+v", r)
		}
	}
}

func TestOtherEndpoints(t *testing.T) {
	srv := serve(t, Options{Model: "m", Tokenize: true, Counters: map[string]float64{"vllm:spec_decode_num_drafts_total": 3},
		Scripts: []Script{{Tokens: 2, Cached: 1, Counters: map[string]float64{`vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"}`: 1.5}}}})
	for range 2 {
		play(t, srv, paths[completions], "", `{"prompt":"abc","stream":true}`)
	}
	settled(t, srv, 2)
	srv.Add("vllm:spec_decode_num_drafts_total", 1)
	for _, tt := range []struct{ call, body, want string }{
		{"GET /v1/models", "", `200 {"object":"list","data":[{"id":"m","object":"model","created":1767225600,"owned_by":"scripted","root":"m","parent":null,"max_model_len":131072}]}`},
		{"POST /tokenize", `{"model":"m","prompt":"aé🌍","add_special_tokens":false}`, `200 {"count":3,"max_model_len":131072,"tokens":[97,233,127757],"token_strs":null}`},
		{"POST /tokenize", `{"prompt":""}`, `200 {"count":0,"max_model_len":131072,"tokens":[],"token_strs":null}`},
		{"POST /detokenize", `{"tokens":[97,233,127757]}`, `200 {"prompt":"aé🌍"}`},
		{"GET /health", "", "200 "},
		{"POST /reset_prefix_cache", "", "200 "},
		{"GET /nowhere", "", `404 {"error":{"message":"GET /nowhere is not served here","type":"scripted","param":null,"code":404}}`},
		{"GET /metrics", "", `200 # TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 4
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 2
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 6
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 6
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",model_name="m",finished_reason="length"} 2
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 3
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 4
`},
	} {
		method, path, _ := strings.Cut(tt.call, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL()+path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if got := fmt.Sprintf("%d %s", res.StatusCode, text); err != nil || got != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.call, got, err, tt.want)
		}
	}
	if calls := srv.Calls(); calls["POST /reset_prefix_cache"] != 1 || calls["POST /v1/completions"] != 2 {
		t.Errorf("calls %v", calls)
	}
	if turns := srv.Log().Records; turns[0].Turn != 0 || turns[1].Turn != 1 {
		t.Errorf("turns %d and %d of the connection", turns[0].Turn, turns[1].Turn)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		name string
		opt  Options
		want string
	}{
		{"dialect", Options{Dialect: Dialect{Name: "x"}}, `scripted: dialect "x" is unknown`},
		{"fault", Options{Scripts: []Script{{}, {Fault: Fault{Kind: "x"}}}}, `scripted: script 1: fault "x" is unknown`},
		{"status", Options{Scripts: []Script{{Fault: Fault{Kind: Status, Status: 999}}}}, "scripted: script 0: status 999"},
		{"gap", Options{Scripts: []Script{{Gap: -1}}}, "scripted: script 0: gap: -1ns"},
		{"tokens per chunk", Options{Scripts: []Script{{PerChunk: []int{1, 0}}}}, "scripted: script 0: tokens per chunk: [1 0]"},
		{"words", Options{Scripts: []Script{{Words: []string{"a", ""}}}}, `scripted: script 0: words`},
		{"tokens", Options{Scripts: []Script{{Tokens: -1}}}, "scripted: script 0: tokens -1"},
	} {
		if _, err := Serve(t.Context(), nil, tt.opt); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %s…", tt.name, err, tt.want)
		}
	}
}

// A client may ask for the end of the connection, and then waits for it.
func TestConnectionClose(t *testing.T) {
	srv := serve(t, Options{})
	for _, body := range []string{`{"stream":true}`, `{}`} {
		c, err := net.Dial("tcp", strings.TrimPrefix(srv.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s", len(body), body)
		text, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200 OK\r\n") || strings.Count(string(text), " tok") != 16 {
			t.Errorf("%s: %v, %q", body, err, text)
		}
		c.Close()
	}
}

func TestIndex(t *testing.T) {
	for id, want := range map[string]int{"bench-1a2b3c4d-17": 17, "bench-1a2b3c4d-0": 0, "17": 17, "": -1, "a-": -1, "a-1b": -1, "a--1": 1, "a-99999999999999999999": -1} {
		if got := index(id); got != want {
			t.Errorf("%q: %d, want %d", id, got, want)
		}
	}
}

// The heap gives its entries out by time, whatever is put and taken in between.
func TestHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	snd := &sender{}
	var want []time.Duration
	for range 2000 {
		if len(want) > 0 && rng.IntN(3) == 0 {
			slices.Sort(want)
			if snd.heap[0].at != want[0] {
				t.Fatalf("first is %v, want %v", snd.heap[0].at, want[0])
			}
			want = want[1:]
			snd.pop()
			continue
		}
		at := time.Duration(rng.IntN(50))
		want = append(want, at)
		snd.push(entry{at: at})
	}
}
