package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ossian/internal/soak"
)

// samples reads the exposition: name{labels} to value.
func samples(t testing.TB, text string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && line[0] != '#' {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all[name+"}"] = v
		}
	}
	return all
}

// A told reply is what a client learns from one, streamed or not.
type told struct {
	Choices []struct {
		Index  int
		Finish *string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
}

// tell reads a reply: its usage and how its choices finished.
func tell(t *testing.T, body string) (prompt, completion int, finished []string) {
	t.Helper()
	parts := []string{body}
	if strings.HasPrefix(body, "data: ") {
		parts = strings.Split(strings.TrimSuffix(body, "\n\ndata: [DONE]\n\n"), "\n\n")
	}
	for _, part := range parts {
		var r told
		if err := json.Unmarshal([]byte(strings.TrimPrefix(part, "data: ")), &r); err != nil {
			t.Fatalf("%v: %s", err, part)
		}
		for _, c := range r.Choices {
			if c.Finish != nil {
				finished = append(finished, *c.Finish)
			}
		}
		if r.Usage != nil {
			prompt, completion = r.Usage.Prompt, r.Usage.Completion
		}
	}
	return prompt, completion, finished
}

// TestOPS5Recount compares the totals with what a client adds up from replies.
func TestOPS5Recount(t *testing.T) {
	g := start(t, setup{reply: hello})
	rng := rand.New(rand.NewPCG(5, 1))
	want := map[string]float64{}
	const model = `engine="0",model_name="test-model"}`
	count := func(name string, n int) { want[name] += float64(n) }
	http := func(route, method, class string) {
		count(fmt.Sprintf(`http_requests_total{handler=%q,method=%q,status=%q}`, route, method, class), 1)
	}
	n := soak.Cases(t, 100, 5000)
	for range n {
		switch rng.IntN(9) {
		case 0:
			g.post("/v1/chat/completions", `{`+hi+`,"temperature":9}`)
			http("/v1/chat/completions", "POST", "4xx")
			continue
		case 1:
			g.do("DELETE", "/v1/completions", "")
			http("/v1/completions", "DELETE", "4xx")
			continue
		case 2:
			g.do("GET", fmt.Sprintf("/made/up/%d", rng.IntN(1000)), "")
			http("other", "GET", "4xx")
			continue
		case 3:
			g.post("/v1/completions", `{"prompt":"a","n":129}`)
			http("/v1/completions", "POST", "4xx")
			count(`ossian_limit_refusals_total{limit="choices"}`, 1)
			continue
		}
		choices, path, prompt := 1+rng.IntN(3), "/v1/chat/completions", hi
		if rng.IntN(2) == 0 {
			path, prompt = "/v1/completions", `"prompt":"`+strings.Repeat("word ", 1+rng.IntN(50))+`"`
		}
		body := fmt.Sprintf(`{%s,"n":%d,"max_tokens":%d`, prompt, choices, 1+rng.IntN(40))
		if rng.IntN(2) == 0 {
			body += `,"stream":true,"stream_options":{"include_usage":true}`
		}
		r := g.post(path, body+"}")
		if r.status != 200 {
			t.Fatalf("%s: %d %s", body, r.status, r.body)
		}
		http(path, "POST", "2xx")
		tokens, generated, finished := tell(t, r.body)
		if len(finished) != choices {
			t.Fatalf("%s: %d choices finished: %s", body, len(finished), r.body)
		}
		for _, reason := range finished {
			count(`vllm:request_success_total{engine="0",finished_reason="`+reason+`",model_name="test-model"}`, 1)
		}
		count("vllm:request_prompt_tokens_sum{"+model, tokens*choices)
		count("vllm:request_prompt_tokens_count{"+model, choices)
		count("vllm:request_generation_tokens_sum{"+model, generated)
		count("vllm:request_params_n_sum{"+model, choices)
		count("vllm:time_to_first_token_seconds_count{"+model, choices)
		count("vllm:generation_tokens_total{"+model, generated)
		count("vllm:prompt_tokens_total{"+model, tokens*choices)
		count("ossian_requests_accepted_total{"+model, choices)
	}
	g.idle()
	var got map[string]float64
	wrong := func(name string) bool { return got[name] != want[name] }
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // requests are counted when their reply has left
		got = samples(t, g.do("GET", "/metrics", "").body)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(want)), wrong) || time.Now().After(deadline) {
			break
		}
	}
	for name, v := range want {
		if wrong(name) {
			t.Fatalf("%s is %v, the client's count %v", name, got[name], v)
		}
	}
	t.Logf("OPS-5: %d requests, %d totals equal the client's recount", n, len(want))
}

// TestOPS5Series asks for everything in every way: what a client makes up never becomes
// a label.
func TestOPS5Series(t *testing.T) {
	g := start(t, setup{reply: hello, cfg: Config{Keys: []string{"k"}, AllowedOrigins: []string{"https://good.example"}}})
	n := 0
	for _, r := range append(new(Server).table(), route{path: "/made/up"}) {
		for i, method := range []string{"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW", "X-MADE-UP"} {
			if r.stays && method == "GET" { // it would not end
				continue
			}
			for _, header := range [][]string{{"Authorization", "Bearer k"}, {"Authorization", "Bearer x"}, {"Authorization", "Bearer k", "Origin", "https://good.example"}} {
				n++
				path := strings.Replace(r.path, "*", fmt.Sprintf("x%d", n), 1)
				if r.path == "/made/up" {
					path += strconv.Itoa(n)
				}
				g.do(method, path, `{"prompt":"a",`+hi+`,"max_tokens":`+strconv.Itoa(i)+`}`, append(header, "Content-Type", "application/json", "X-Request-Id", strconv.Itoa(n))...)
			}
		}
	}
	g.idle()
	series := 0
	for line := range strings.Lines(g.do("GET", "/metrics", "", "Authorization", "Bearer k").body) {
		if line[0] != '#' {
			series++
		}
	}
	if series > 2000 || series < 500 {
		t.Errorf("%d series, at most 2,000 wanted", series)
	}
	t.Logf("OPS-5: %d requests of all kinds, %d series", n, series)
}
