package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// replaced returns raw with U+FFFD for what is no UTF-8, as decoders of other languages
// give it.
func replaced(raw string) string {
	var out strings.Builder
	for raw != "" {
		r, n := utf8.DecodeRuneInString(raw)
		if r == utf8.RuneError && n == 1 { // the longest that may begin a character, at least a byte
			for n < len(raw) && !utf8.FullRuneInString(raw[:n]) && !utf8.FullRuneInString(raw[:n+1]) {
				n++
			}
		}
		out.WriteString(strings.ToValidUTF8(raw[:n], "\uFFFD"))
		raw = raw[n:]
	}
	return out.String()
}

// TestLIF5Cut cuts answers off in the middle of a character: it ends as U+FFFD, streamed
// or not, and the bytes are those of the tokens.
func TestLIF5Cut(t *testing.T) {
	for _, c := range []struct {
		name, path, body, reply string
		most                    int // tokens: all but the last of the emoji
		content                 string
	}{
		{"chat", "/v1/chat/completions", hi, "<|channel|>final<|message|>Hi 🌍", 5, "Hi \uFFFD"},
		{"chat, with a stop string", "/v1/chat/completions", hi + `,"stop":"🌍"`, "<|channel|>final<|message|>Hi 🌍", 5, "Hi \uFFFD"},
		{"chat, met", "/v1/chat/completions", hi + `,"stop":"🌍"`, "<|channel|>final<|message|>Hi 🌍", 6, "Hi "},
		{"completion", "/v1/completions", `"prompt":"a"`, "Hi 🌍", 2, "Hi \uFFFD"},
		{"completion, with a stop string", "/v1/completions", `"prompt":"a","stop":"🌍"`, "Hi 🌍", 2, "Hi \uFFFD"},
		{"completion, met", "/v1/completions", `"prompt":"a","stop":"🌍"`, "Hi 🌍", 3, "Hi "},
	} {
		g := start(t, setup{reply: c.reply})
		ask := `,"logprobs":true`
		if c.path == "/v1/completions" {
			ask = `,"logprobs":0`
		}
		body := fmt.Sprintf(`{%s%s,"max_tokens":%d,"return_token_ids":true`, c.body, ask, c.most)
		for _, more := range []string{"}", `,"stream":true}`} {
			res, err := http.Post(g.url+c.path, "application/json", strings.NewReader(body+more))
			if err != nil {
				t.Fatal(err)
			}
			tr, err := hear(res, stay)
			if h := tr.choices[0]; err != nil || h.Content != c.content || len(h.IDs) != c.most || (c.path == "/v1/chat/completions" && replaced(h.Bytes) != h.Content) {
				t.Errorf("%s%s: %+v, %v; want %q and %d ids", c.name, more, h, err, c.content, c.most)
			}
		}
	}
}

// TestMinTokens: an id that ends the turn, but is none for the engine, does so when there
// are enough tokens.
func TestMinTokens(t *testing.T) {
	g := start(t, setup{reply: "<|channel|>final<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|> Hi<|end|>", cfg: looseHeaders})
	for _, c := range []struct{ least, ids int }{{0, 5}, {4, 5}, {5, 6}, {9, 10}, {39, 40}} {
		res, err := http.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(fmt.Sprintf(`{%s,"min_tokens":%d,"max_tokens":40,"return_token_ids":true}`, hi, c.least)))
		if err != nil {
			t.Fatal(err)
		}
		tr, err := hear(res, stay)
		if h := tr.choices[0]; err != nil || len(h.IDs) != c.ids || h.Finish != "stop" {
			t.Errorf("at least %d: %d ids, %s, %v; want %d", c.least, len(h.IDs), h.Finish, err, c.ids)
		}
	}
}

// FuzzBodies: no body makes the server fail, and every reply is JSON or a stream.
func FuzzBodies(f *testing.F) {
	for _, c := range transcripts {
		f.Add(c.path, c.body)
	}
	f.Add("/v1/chat/completions", `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{"}}]},{"role":"tool","tool_call_id":"a","content":"x"}],"tools":[]}`)
	f.Add("/v1/completions", `{"prompt":[""],"n":8,"bad_words":["a"," b c"],"min_tokens":3,"logit_bias":{"5":-100}}`)
	u := setup{reply: hello}
	u.info.MaxLen = 256
	g := start(f, u)
	f.Fuzz(func(t *testing.T, path, body string) {
		if !slices.Contains([]string{"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"}, path) {
			path = "/v1/chat/completions"
		}
		own := *g
		own.t = t
		r := own.post(path, body)
		if r.status >= 500 {
			t.Fatalf("%s %q: %d %s", path, body, r.status, r.body)
		}
		if strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
			if !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
				t.Fatalf("%s %q: stream ends with %q", path, body, r.body[max(0, len(r.body)-100):])
			}
			return
		}
		if !json.Valid([]byte(r.body)) {
			t.Fatalf("%s %q: %d %q", path, body, r.status, r.body)
		}
	})
}
