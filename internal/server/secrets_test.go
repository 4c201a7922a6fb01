package server

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/soak"
	"ossian/internal/token"
)

// A leaky format fails with what nobody outside may see.
type leaky struct {
	chat.Format
	path string
}

func (l leaky) Render(prompt *token.Prompt, c *chat.Conversation) error {
	switch text := strings.Join(c.Turns[len(c.Turns)-1].Parts, ""); {
	case strings.Contains(text, "panic"):
		panic(fmt.Sprintf("cannot map %s at %p", l.path, &text))
	case strings.Contains(text, "fail"):
		_, err := os.Open(filepath.Join(l.path, "template.jinja"))
		return fmt.Errorf("template: %w", err)
	}
	return l.Format.Render(prompt, c)
}

// A fuzz makes requests that a client might send by mistake or on purpose.
type fuzz struct{ *rand.Rand }

func (f fuzz) pick(from ...string) string { return from[f.IntN(len(from))] }

// value returns JSON, or nearly so.
func (f fuzz) value(depth int) string {
	switch f.IntN(9) {
	case 0:
		return f.pick("null", "true", "false", "NaN", "undefined", "")
	case 1:
		return f.pick("0", "-1", "1e999", "0.5", "2147483648", "18446744073709551616", strings.Repeat("9", 400))
	case 2, 3:
		return fmt.Sprintf("%q", f.text())
	case 4:
		if depth > 0 {
			return "[" + f.value(depth-1) + "," + f.value(depth-1) + "]"
		}
		return "[]"
	case 5:
		if depth > 0 {
			return fmt.Sprintf("{%q:%s}", f.field(), f.value(depth-1))
		}
		return "{}"
	case 6:
		return `[{"role":"user","content":` + f.value(0) + `}]`
	case 7:
		return `[{"type":"function","function":{"name":` + f.value(0) + `,"parameters":` + f.value(max(depth-1, 0)) + `}}]`
	}
	return `"<|start|>system<|message|>\ud800\u0000"`
}

func (f fuzz) text() string {
	return f.pick("hello", "panic", "fail", "../../etc/passwd", "{{7*7}}", "${env:HOME}", "%s%s%n", "$(env)", "\x00", strings.Repeat("long ", 50), "<|start|>", "é")
}

func (f fuzz) field() string {
	return f.pick("model", "messages", "prompt", "stream", "max_tokens", "n", "stop", "tools", "tool_choice", "logit_bias", "response_format", "seed", "temperature",
		"logprobs", "top_logprobs", "stream_options", "chat_template_kwargs", "truncate_prompt_tokens", "user", "metadata", "echo", "tokens", "x")
}

// body returns a request for path, more or less.
func (f fuzz) body(path string) string {
	var b strings.Builder
	switch {
	case f.IntN(8) == 0:
		b.WriteString(`{"max_tokens":3,`)
	case path == "/v1/chat/completions":
		b.WriteString(`{"max_tokens":3,"messages":[{"role":"user","content":"` + f.pick("hello", "hello", "hello", "panic", "fail") + `"}],`)
	default:
		b.WriteString(`{"max_tokens":3,"prompt":"a",`)
	}
	for range max(f.IntN(6)-2, 0) {
		fmt.Fprintf(&b, "%q:%s,", f.field(), f.value(2))
	}
	text := []byte(strings.TrimSuffix(b.String(), ",") + "}")
	for range f.IntN(12) / 11 { // some are damaged
		text[f.IntN(len(text))] = byte(f.IntN(256))
	}
	return string(text[:len(text)-f.IntN(20)/19*f.IntN(len(text))])
}

// request returns a request and its body.
func (f fuzz) request(url string) (*http.Request, string) {
	path := "/v1/chat/completions"
	if f.IntN(2) == 0 {
		path = f.pick("/v1/completions", "/v1/completions", "/tokenize", "/detokenize", "/v1/models", "/v1/models/"+f.pick("x", "%2e%2e", "test-model"), "/metrics", "/load",
			"/version", "/health", "/ready", "/debug/pprof/heap", "/.env", "/v1/files", "/x"+f.pick("%00", "%ff", "/.."))
	}
	body := f.body(path)
	method := "POST"
	if f.IntN(10) == 0 || (!strings.Contains(path, "complet") && !strings.Contains(path, "tokenize")) {
		method = f.pick("GET", "GET", "GET", "PUT", "OPTIONS", "DELETE")
	}
	req, err := http.NewRequest(method, url+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer canary-key-own")
	switch f.IntN(24) {
	case 0:
		req.Header.Set("Content-Type", "text/plain")
	case 1, 2:
		req.Header.Set("Authorization", f.pick("Bearer x", "Basic canary-key-own", "canary-key-own"))
	case 3, 4, 5:
		req.Header.Set(f.pick("X-Request-Id", "Origin", "x-ossian-reasoning-field", "Content-Encoding", "Expect"), f.pick("x", "both", "https://x.example", "gzip", "\xff"))
	}
	return req, body
}

// A guard is a log that looks for secrets.
type guard struct {
	secrets []string
	mu      sync.Mutex
	found   string // the first line with one
	lines   int
}

func (l *guard) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines++
	for _, s := range l.secrets {
		if l.found == "" && bytes.Contains(line, []byte(s)) {
			l.found = string(line)
		}
	}
	return len(line), nil
}

// exchange sends a request and reads the reply.
func (g *rig) exchange(req *http.Request) (got, error) {
	res, err := g.client.Do(req)
	if err != nil {
		return got{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return got{res.StatusCode, res.Header, string(body)}, err
}

// TestSEC9Canaries has secrets in the environment, in keys, in paths that errors name,
// in panics and in the requests of somebody else, and looks for them in replies; for
// keys and prompts also in the log.
func TestSEC9Canaries(t *testing.T) {
	t.Setenv("OSSIAN_CANARY", "canary-env-value")
	f, err := chat.New(chat.Facts{Family: "gpt-oss", Tokenizer: harmony(), Stops: []int32{200_002, 200_012}})
	if err != nil {
		t.Fatal(err)
	}
	log := &guard{secrets: []string{"canary-key", "canary-prompt", "canary-env"}}
	g := start(t, setup{reply: hello, format: leaky{f, filepath.Join(t.TempDir(), "canary-path")}, log: log,
		cfg: Config{Keys: []string{"canary-key-own", "canary-key-other"}, AccessLog: true}})
	var neighbour sync.WaitGroup
	done := make(chan struct{})
	neighbour.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				g.post("/v1/chat/completions", fmt.Sprintf(`{"messages":[{"role":"user","content":"canary-prompt-%d"}],"user":"canary-prompt-user","stream":%v}`, i, i%2 == 0),
					"Authorization", "Bearer canary-key-other")
			}
		}
	})
	internals := []string{"canary-", "goroutine ", ".go:", "runtime error", "0xc0", "ossian/internal", "no such file", os.TempDir() + "/"}
	fz := fuzz{rand.New(rand.NewPCG(9, 9))}
	n, statuses := soak.Cases(t, 400, 100_000), map[int]int{}
	for i := range n {
		req, sent := fz.request(g.url)
		r, err := g.exchange(req)
		if err != nil {
			t.Fatalf("case %d: %s %s %.300s: %v", i, req.Method, req.URL, sent, err)
		}
		statuses[r.status/100]++
		reply := fmt.Sprint(r.header, r.body)
		for _, secret := range internals {
			if strings.Contains(reply, secret) {
				t.Errorf("case %d: %s %s %.300s: %q in %d %.500s", i, req.Method, req.URL, sent, secret, r.status, reply)
			}
		}
	}
	close(done)
	neighbour.Wait()
	log.mu.Lock() // a request is logged after its reply
	defer log.mu.Unlock()
	if log.found != "" || log.lines < n/2 {
		t.Errorf("in the log of %d lines: %.500s", log.lines, log.found)
	}
	if statuses[2] == 0 || statuses[4] == 0 || statuses[5] == 0 {
		t.Errorf("replies by class: %v: some of each wanted", statuses)
	}
	t.Logf("SEC-9: %d fuzzed requests beside a neighbour's, replies by class %v, 0 canaries in replies and log", n, statuses)
}
