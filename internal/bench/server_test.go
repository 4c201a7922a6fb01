package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func testServer(t *testing.T, mux *http.ServeMux) *Server {
	t.Helper()
	h := httptest.NewServer(mux)
	t.Cleanup(h.Close)
	s, err := NewServer(h.URL+"/", Access{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestFirstModel(t *testing.T) {
	for _, c := range []struct{ name, answer, id, root, err string }{
		{"vLLM", `{"data":[{"id":"a","root":"/x/a"},{"id":"b"}]}`, "a", "/x/a", ""},
		{"no root", `{"data":[{"id":"a"}]}`, "a", "a", ""},
		{"none", `{"data":[]}`, "", "", "no model listed"},
		{"no JSON", `<html>`, "", "", "not JSON: invalid character"},
		{"cut", `{"data":[`, "", "", "the JSON ends early"},
		{"another form", `["a"]`, "", "", "GET /v1/models: expected an object, found an array"},
		{"another list", `{"data":{}}`, "", "", `field "data": expected an array, found an object`},
		{"another name", `{"data":[{"id":5}]}`, "", "", `field "data.id": expected a string, found a number`},
		{"escape in the name", `{"data":[{"id":"a\u001b]0;x\u0007"}]}`, "", "", `is called "a\x1b]0;x\a", want at most 1024 bytes that can all be printed`},
		{"two lines in the name", `{"data":[{"id":"a\nb"}]}`, "", "", `is called "a\nb"`},
		{"direction in the name", `{"data":[{"id":"a\u202eb"}]}`, "", "", `is called "a\u202eb"`},
		{"endless name", `{"data":[{"id":"` + strings.Repeat("a", 1025) + `"}]}`, "", "", "want at most 1024 bytes"},
		{"escape in the root", `{"data":[{"id":"a","root":"\u009b31m"}]}`, "a", "a", ""},
		{"endless root", `{"data":[{"id":"a","root":"` + strings.Repeat("a", 1025) + `"}]}`, "a", "a", ""},
		{"endless list", `{"data":[` + strings.Repeat(`{"id":"a"},`, 2_000_000) + `{"id":"a"}]}`, "", "", "GET /v1/models: the answer has more than 16777216 bytes"},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer k" {
				t.Errorf("%s: no key", c.name)
			}
			io.WriteString(w, c.answer)
		})
		id, root, err := testServer(t, mux).FirstModel(context.Background())
		if id != c.id || root != c.root || (err == nil) != (c.err == "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: got %q, %q, %v", c.name, id, root, err)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, c := range []struct{ name, answer, want string }{
		{"vLLM", `{"version":"0.33.0"}`, "0.33.0"}, {"no JSON", `<html>`, ""}, {"another member", `{"name":"x"}`, ""},
		{"escapes", `{"version":"1\u001b[2J\u0007\n2"}`, "1 [2J  2"},
		{"behind megabytes", `{"a":"` + strings.Repeat("9", 1<<20) + `","version":"1"}`, ""},
		{"too long", `{"version":"` + strings.Repeat("9", 201) + `"}`, ""},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, c.answer) })
		if got := testServer(t, mux).Version(context.Background()); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := testServer(t, http.NewServeMux()).Version(context.Background()); got != "" {
		t.Errorf("%q from a server without a version", got)
	}
}

const metricsText = `# HELP vllm:prefix_cache_hits_total x
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="a}b"} 12.0
vllm:prefix_cache_queries_total 40 1700000000000
vllm:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 3
vllm:spec_decode_num_drafts_total NaN
vllm:spec_decode_num_draft_tokens_total
vllm:num_requests_running{a="vllm:prefix_cache_"} 5
ossian:prefix_cache_hits_total 1e3
other 7
`

var metricsWant = map[string]float64{
	`vllm:prefix_cache_hits_total{engine="0",model_name="a}b"}`:        12,
	`vllm:prefix_cache_queries_total`:                                  40,
	`vllm:spec_decode_num_accepted_tokens_per_pos_total{position="1"}`: 3,
	`ossian:prefix_cache_hits_total`:                                   1000,
}

func TestCounters(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, metricsText) })
	s := testServer(t, mux)
	got, err := s.Counters(context.Background())
	if err != nil || !maps.Equal(got, metricsWant) {
		t.Errorf("%v, got %v, want %v", err, got, metricsWant)
	}
	if err := s.Post(context.Background(), "/reset_prefix_cache"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a route that is not there: %v", err)
	}
}

func TestPost(t *testing.T) {
	mux := http.NewServeMux()
	n := 0
	mux.HandleFunc("POST /reset_prefix_cache", func(http.ResponseWriter, *http.Request) { n++ })
	mux.HandleFunc("POST /flush_cache", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/reset_prefix_cache", http.StatusTemporaryRedirect)
	})
	s := testServer(t, mux)
	if err := s.Post(context.Background(), "/reset_prefix_cache"); err != nil || n != 1 {
		t.Errorf("%v, called %d times", err, n)
	}
	if err := s.Post(context.Background(), "/flush_cache"); err == nil || n != 1 {
		t.Errorf("a redirect was followed: %v, called %d times", err, n)
	}
}

// A tokenizer of words: its ids are their lengths.
func wordServer(t *testing.T, refuse string) *Server {
	mux := http.NewServeMux()
	type body struct {
		Model, Prompt string
		Tokens        []int
		Special       *bool `json:"add_special_tokens"`
	}
	read := func(w http.ResponseWriter, r *http.Request) (b body) {
		if err := json.NewDecoder(r.Body).Decode(&b); err != nil || b.Model != "m" {
			t.Errorf("%v, %+v", err, b)
		}
		return b
	}
	mux.HandleFunc("POST /tokenize", func(w http.ResponseWriter, r *http.Request) {
		b := read(w, r)
		if b.Prompt == refuse {
			http.Error(w, "no", 500)
			return
		}
		if b.Special == nil || *b.Special {
			t.Error("special tokens were asked for")
		}
		ids := []int{}
		for _, word := range strings.Fields(b.Prompt) {
			ids = append(ids, len(word))
		}
		json.NewEncoder(w).Encode(map[string]any{"count": len(ids), "tokens": ids})
	})
	mux.HandleFunc("POST /detokenize", func(w http.ResponseWriter, r *http.Request) {
		var words []string
		for _, n := range read(w, r).Tokens {
			words = append(words, strings.Repeat("x", n))
		}
		json.NewEncoder(w).Encode(map[string]any{"prompt": strings.Join(words, " ")})
	})
	return testServer(t, mux)
}

func TestAlign(t *testing.T) {
	s := wordServer(t, "re fu se")
	w := Workload{{Prompt: "a bb ccc", Input: 2}, {Prompt: "re fu se", Input: 1}, {Prompt: "a", Input: 5}, {Prompt: "a bb", Input: 2}}
	for i := range 200 { // more than go at a time
		w = append(w, Workload{{Prompt: fmt.Sprint(i, " b c"), Input: 1}}...)
	}
	first, n, err := s.Align(context.Background(), "m", w)
	if err != nil || first != 3 || n != 201 {
		t.Fatalf("the first has %d tokens, changed %d, %v; want 3 and 201", first, n, err)
	}
	for i, want := range []string{"x xx", "re fu se", "a", "a bb", "x"} {
		if w[i].Prompt != want {
			t.Errorf("prompt %d is %q, want %q", i, w[i].Prompt, want)
		}
	}
	exact := Workload{{Prompt: "a b", Input: 2}, {Prompt: "a b c", Input: 1}}
	if _, n, err := s.Align(context.Background(), "m", exact); n != 0 || err != nil || exact[1].Prompt != "a b c" {
		t.Errorf("an exact first prompt: changed %d, %v", n, err)
	}
	if _, _, err := testServer(t, http.NewServeMux()).Align(context.Background(), "m", w); err == nil {
		t.Error("a server without a tokenizer: no error")
	}
}

func FuzzCounters(f *testing.F) {
	f.Add([]byte(metricsText))
	f.Add([]byte("vllm:prefix_cache_hits_total{}} 1\nvllm:prefix_cache_{ 2"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for series, v := range readCounters(text) {
			again := readCounters(fmt.Appendf(nil, "%s %g\n", series, v))
			if len(again) != 1 || again[series] != v {
				t.Errorf("%q %g reads as %v", series, v, again)
			}
		}
	})
}
