package bench

import (
	"encoding/json"
	"strings"
	"testing"

	"ossian/internal/bench/dataset"
)

func TestBodies(t *testing.T) {
	five := 5
	text := dataset.Query{Prompt: "a \"b\"", Output: 9}
	ids := dataset.Query{IDs: []int32{1, 23}, Output: 9}
	messages := dataset.Query{Messages: []byte(`[{"role":"user","content":"x"}]`), Output: 9}
	cases := []struct {
		name   string
		setup  Setup
		config HTTPConfig
		q      dataset.Query
		want   string
	}{
		{"completions", Setup{Backend: "openai", Stream: true}, HTTPConfig{}, text,
			`{"model":"m","prompt":"a \"b\"","repetition_penalty":1.0,"max_tokens":9,"logprobs":null,"stream":true,"stream_options":{"include_usage":true}}`},
		{"completions of 2025, ids", Setup{Profile: VLLM011, Backend: "openai", Stream: true, IgnoreEOS: true}, HTTPConfig{Logprobs: &five}, ids,
			`{"model":"m","prompt":[1,23],"temperature":0.0,"repetition_penalty":1.0,"max_tokens":9,"logprobs":5,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true}`},
		{"chat", Setup{Backend: "openai-chat", Stream: true}, HTTPConfig{}, text,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a \"b\""}]}],"max_completion_tokens":9,"stream":true,"stream_options":{"include_usage":true}}`},
		{"chat with messages, not streamed", Setup{Backend: "openai-chat"}, HTTPConfig{}, messages,
			`{"model":"m","messages":[{"role":"user","content":"x"}],"max_completion_tokens":9,"stream":false}`},
		{"chat at Ollama", Setup{Backend: "openai-chat", Dialect: "ollama", Stream: true}, HTTPConfig{}, messages,
			`{"model":"m","messages":[{"role":"user","content":"x"}],"max_completion_tokens":9,"stream":true,"stream_options":{"include_usage":true},"max_tokens":9}`},
		{"chat at TensorRT-LLM, with logprobs", Setup{Backend: "openai-chat", Dialect: "tensorrt-llm", Stream: true}, HTTPConfig{Logprobs: &five}, messages,
			`{"model":"m","messages":[{"role":"user","content":"x"}],"max_completion_tokens":9,"logprobs":true,"top_logprobs":5,"stream":true,"stream_options":{"include_usage":true}}`},
		{"responses", Setup{Backend: "openai-responses", Stream: true, IgnoreEOS: true}, HTTPConfig{}, text,
			`{"model":"m","input":"a \"b\"","max_output_tokens":9,"stream":true,"store":false,"ignore_eos":true}`},
		{"LMDeploy completions", Setup{Profile: LMDeploy, Backend: "lmdeploy", Stream: true, IgnoreEOS: true}, HTTPConfig{}, text,
			`{"model":"m","prompt":"a \"b\"","temperature":0.0,"best_of":1,"max_tokens":9,"stream":true,"ignore_eos":true}`},
		{"SGLang chat", Setup{Profile: SGLang, Backend: "sglang-oai-chat"}, HTTPConfig{}, text,
			`{"model":"m","messages":[{"role":"user","content":"a \"b\""}],"temperature":0.0,"max_completion_tokens":9,"stream":false,"ignore_eos":false}`},
		{"later wins: flags, extra, the query's own", Setup{Backend: "openai", Stream: true, IgnoreEOS: true},
			HTTPConfig{Sampling: []Member{{"temperature", []byte("0.5")}, {"repetition_penalty", []byte("1.1")}}, Extra: []byte(` {"ignore_eos":false,"temperature":0.7,"x":[1, 2]}`)},
			dataset.Query{Prompt: "p", Output: 9, Body: []byte(`{"x":null,"max_tokens":3,"model":"adapter"}`)},
			`{"model":"adapter","prompt":"p","repetition_penalty":1.1,"max_tokens":3,"logprobs":null,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":false,"temperature":0.7,"x":null}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.setup.URL, c.setup.Model = "http://h/v1", "m"
			c.config.Setup = &c.setup
			h, err := NewHTTP(c.config)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the template must not change
				got, err := h.appendBody(nil, &c.q)
				if err != nil || string(got) != c.want || !json.Valid(got) {
					t.Fatalf("%v\n got %s\nwant %s", err, got, c.want)
				}
			}
		})
	}
}

func TestBodiesRefused(t *testing.T) {
	for _, c := range []struct {
		name, backend, want string
		q                   dataset.Query
	}{
		{"ids for chat", "openai-chat", "token ids can only be sent to completions", dataset.Query{IDs: []int32{1}}},
		{"messages for completions", "openai", "use backend openai-chat", dataset.Query{Messages: []byte("[]")}},
		{"two prompts", "openai", "exactly one", dataset.Query{Prompt: "a", IDs: []int32{1}}},
		{"three prompts", "openai", "exactly one", dataset.Query{Messages: []byte("[]"), IDs: []int32{1}}},
		{"body that is no object", "openai", "want a JSON object", dataset.Query{Prompt: "a", Body: []byte("[1]")}},
	} {
		if _, err := offline(t, Setup{Backend: c.backend}).appendBody(nil, &c.q); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestHTTPRefused(t *testing.T) {
	good := Setup{Backend: "openai", URL: "http://h/v1"}
	for _, c := range []struct {
		name, want string
		change     func(c *HTTPConfig)
	}{
		{"native backend", `backend "sglang"`, func(c *HTTPConfig) { c.Setup.Backend = "sglang" }},
		{"no scheme", "want an address", func(c *HTTPConfig) { c.Setup.URL = "h:80" }},
		{"other scheme", "want an address", func(c *HTTPConfig) { c.Setup.URL = "ftp://h/" }},
		{"password in the address", "--header", func(c *HTTPConfig) { c.Setup.URL = "http://u:p@h/" }},
		{"extra is no object", "want a JSON object", func(c *HTTPConfig) { c.Extra = []byte("null") }},
		{"extra is no JSON", "want a JSON object", func(c *HTTPConfig) { c.Extra = []byte("{") }},
		{"flag is no JSON", "top_p", func(c *HTTPConfig) { c.Sampling = []Member{{"top_p", []byte("x")}} }},
		{"header in a header", "one line", func(c *HTTPConfig) { c.Header = []Pair{{"A", "b\r\nC: d"}} }},
		{"header without name", "a name", func(c *HTTPConfig) { c.Header = []Pair{{"", "b"}} }},
		{"key with a line end", "one line", func(c *HTTPConfig) { c.Key = "k\n" }},
	} {
		setup := good
		config := HTTPConfig{Setup: &setup}
		c.change(&config)
		if _, err := NewHTTP(config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}
