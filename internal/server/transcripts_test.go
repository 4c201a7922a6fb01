package server

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"ossian/internal/sim"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	thinks = "<|channel|>analysis<|message|>Let me think.<|end|><|start|>assistant"
	hello  = thinks + "<|channel|>final<|message|>Hello, wörld 🌍!<|return|>"
	calls  = thinks + `<|channel|>commentary<|message|>I look it up.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city":"Paris"}<|call|>`
	tools  = `"tools":[{"type":"function","function":{"name":"get_weather","description":"Weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]`
	hi     = `"messages":[{"role":"user","content":"Hi"}]`
)

// transcripts are requests with what a scripted gpt-oss says; the replies are in
// testdata/transcripts.golden.
var transcripts = []struct {
	name, path, body, reply string
	interval                int
	header                  []string
}{
	{name: "chat", path: "/v1/chat/completions", body: `{"model":"test-model",` + hi + `}`, reply: hello},
	{name: "chat stream", path: "/v1/chat/completions", body: `{"model":"test-model",` + hi + `,"stream":true}`, reply: hello},
	{name: "chat stream usage", path: "/v1/chat/completions", body: `{` + hi + `,"stream":true,"stream_options":{"include_usage":true}}`, reply: hello},
	{name: "chat stream running usage", path: "/v1/chat/completions", body: `{` + hi + `,"stream":true,"max_tokens":6,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, reply: hello},
	{name: "chat stream interval 4", path: "/v1/chat/completions", body: `{` + hi + `,"stream":true}`, reply: hello, interval: 4},
	{name: "chat calls", path: "/v1/chat/completions", body: `{` + hi + `,` + tools + `}`, reply: calls},
	{name: "chat calls stream", path: "/v1/chat/completions", body: `{` + hi + `,` + tools + `,"stream":true}`, reply: calls},
	{name: "chat truncated call", path: "/v1/chat/completions", body: `{` + hi + `,` + tools + `,"max_tokens":37}`, reply: calls},
	{name: "chat tool_choice none", path: "/v1/chat/completions", body: `{` + hi + `,` + tools + `,"tool_choice":"none"}`, reply: hello},
	{name: "chat length in reasoning", path: "/v1/chat/completions", body: `{` + hi + `,"max_completion_tokens":5}`, reply: hello},
	{name: "chat stop", path: "/v1/chat/completions", body: `{` + hi + `,"stop":["rld","zzz"]}`, reply: hello},
	{name: "chat stop kept", path: "/v1/chat/completions", body: `{` + hi + `,"stop":"rld","include_stop_str_in_output":true}`, reply: hello},
	{name: "chat stop not in reasoning", path: "/v1/chat/completions", body: `{` + hi + `,"stop":"think"}`, reply: hello},
	{name: "chat stop id", path: "/v1/chat/completions", body: `{` + hi + `,"stop_token_ids":[` + fmt.Sprint(tokenOf(",")) + `]}`, reply: hello},
	{name: "chat stop stream logprobs", path: "/v1/chat/completions", body: `{` + hi + `,"stop":"rld","stream":true,"logprobs":true,"top_logprobs":1}`, reply: hello},
	{name: "chat logprobs", path: "/v1/chat/completions", body: `{` + hi + `,"logprobs":true,"top_logprobs":2,"return_tokens_as_token_ids":true}`, reply: hello},
	{name: "chat n", path: "/v1/chat/completions", body: `{` + hi + `,"n":2}`, reply: hello},
	{name: "chat no reasoning", path: "/v1/chat/completions", body: `{` + hi + `,"include_reasoning":false}`, reply: hello},
	{name: "chat both fields", path: "/v1/chat/completions", body: `{` + hi + `}`, reply: hello, header: []string{"x-ossian-reasoning-field", "both"}},
	{name: "chat ids", path: "/v1/chat/completions", body: `{` + hi + `,"return_token_ids":true,"stream":true,"max_tokens":8}`, reply: hello},
	{name: "chat ignored field", path: "/v1/chat/completions", body: `{` + hi + `,"chat_id":7,"session_id":"x","max_tokens":2}`, reply: hello},
	{name: "chat continue echo", path: "/v1/chat/completions", body: `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Once"}],"continue_final_message":true,"echo":true}`, reply: " upon<|return|>"},
	{name: "text", path: "/v1/completions", body: `{"prompt":"Once","max_tokens":3}`, reply: " upon a time<|endoftext|>"},
	{name: "text stream", path: "/v1/completions", body: `{"prompt":"Once","max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`, reply: " upon a time"},
	{name: "text echo", path: "/v1/completions", body: `{"prompt":"Once","max_tokens":2,"echo":true}`, reply: " upon a time"},
	{name: "text echo only", path: "/v1/completions", body: `{"prompt":"Once","max_tokens":0,"echo":true}`, reply: "x"},
	{name: "text logprobs", path: "/v1/completions", body: `{"prompt":"Once","max_tokens":3,"logprobs":2,"return_token_ids":true}`, reply: " wörld 🌍"},
	{name: "text hidden token logprobs", path: "/v1/completions", body: `{"prompt":"Once","max_tokens":5,"logprobs":1,"stream":true}`, reply: " upon<|return|>"},
	{name: "text echo logprobs", path: "/v1/completions", body: `{"prompt":"Once upön","max_tokens":1,"echo":true,"logprobs":1}`, reply: " a time"},
	{name: "text echo logprobs only", path: "/v1/completions", body: `{"prompt":["Once upon","Twice"],"max_tokens":0,"n":2,"echo":true,"logprobs":0}`, reply: "x"},
	{name: "text echo logprobs stream", path: "/v1/completions", body: `{"prompt":"Once upon","max_tokens":2,"echo":true,"logprobs":1,"stream":true}`, reply: " a time"},
	{name: "text prompt_logprobs", path: "/v1/completions", body: `{"prompt":"Once upon","max_tokens":1,"prompt_logprobs":2}`, reply: " a time"},
	{name: "chat prompt_logprobs", path: "/v1/chat/completions", body: `{` + hi + `,"prompt_logprobs":0,"truncate_prompt_tokens":4,"max_tokens":2,"n":2}`, reply: hello},
	{name: "text prompts and n", path: "/v1/completions", body: `{"prompt":["Once","Twice"],"max_tokens":2,"n":2}`, reply: " upon a time"},
	{name: "text best_of", path: "/v1/completions", body: `{"prompt":"Once","max_tokens":2,"best_of":3}`, reply: " upon a time"},
	{name: "text ids", path: "/v1/completions", body: `{"prompt":[[1,2],[3]],"max_tokens":1}`, reply: "x"},
	{name: "text special tokens shown", path: "/v1/completions", body: `{"prompt":"<|start|>user","max_tokens":4,"skip_special_tokens":false,"ignore_eos":true}`, reply: "<|message|>a<|return|>b"},
	{name: "text stop stream", path: "/v1/completions", body: `{"prompt":"Once","stop":["a t"],"stream":true}`, reply: " upon a time"},
	{name: "tokenize", path: "/tokenize", body: `{"prompt":"Hello <|end|>","return_token_strs":true}`},
	{name: "tokenize chat", path: "/tokenize", body: `{` + hi + `,"chat_template_kwargs":{"reasoning_effort":"high"}}`},
	{name: "detokenize", path: "/detokenize", body: `{"tokens":[13225,200007]}`},
}

func tokenOf(text string) int32 { return said(text)[0] }

func TestTranscripts(t *testing.T) {
	const file = "testdata/transcripts.golden"
	var all strings.Builder
	all.WriteString("Requests and replies of this server with a scripted model; go test ./internal/server -update rewrites them.\n")
	for _, c := range transcripts {
		u := setup{reply: c.reply}
		if c.reply == "" {
			u.next = sim.List(1)
		}
		u.cfg.StreamInterval = c.interval
		g := start(t, u)
		r := g.post(c.path, c.body, append([]string{"X-Request-Id", "r"}, c.header...)...)
		fmt.Fprintf(&all, "\n=== %s\nPOST %s\n%s\n--- %d %s", c.name, c.path, c.body, r.status, r.header.Get("Content-Type"))
		for _, h := range []string{"X-Ossian-Ignored", "Cache-Control"} {
			if v := r.header.Get(h); v != "" {
				fmt.Fprintf(&all, " %s: %s", h, v)
			}
		}
		fmt.Fprintf(&all, "\n%s\n", strings.TrimRight(r.body, "\n"))
		g.idle()
	}
	if *update {
		if err := os.WriteFile(file, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, wants := strings.Split(all.String(), "\n=== "), strings.Split(string(want), "\n=== ")
	if len(got) != len(wants) {
		t.Fatalf("%d transcripts, %d in %s: go test -update", len(got), len(wants), file)
	}
	for i := range got {
		if got[i] != wants[i] {
			t.Errorf("transcript %d differs:\ngot  %s\nwant %s", i, got[i], wants[i])
		}
	}
}
