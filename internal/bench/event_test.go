package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// facts are what an event says, in a form that can be compared.
type facts struct {
	choices, output, usage, fault      bool
	text, thought, finish, kind, delta string
	ids                                int
	counts                             Counts
}

func (e *event) facts() facts {
	return facts{e.choices, e.choices && e.output(), e.usage, e.fault != nil, string(e.visible()), string(e.thought()), string(e.finish),
		string(e.eventType), string(e.delta), e.tokenIDs, e.counts}
}

// decoded reads an event with encoding/json. ok is false for what is no object;
// ambiguous is true if members are there whose order would matter.
func decoded(b []byte) (f facts, ambiguous, ok bool) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if !json.Valid(b) || d.Decode(&v) != nil {
		return f, false, false
	}
	m, ok := v.(map[string]any)
	if !ok {
		return f, false, false
	}
	f = facts{ids: -1, counts: unknownCounts, kind: str(m["type"]), delta: str(m["delta"]), fault: m["error"] != nil}
	if list, _ := m["choices"].([]any); len(list) > 0 {
		f.choices = true
		c, _ := list[0].(map[string]any)
		ambiguous = c["delta"] != nil && c["message"] != nil
		f.text, f.finish = str(c["text"]), str(c["finish_reason"])
		if ids, ok := c["token_ids"].([]any); ok {
			f.ids = len(ids)
		}
		d, ok := c["delta"].(map[string]any)
		if _, named := c["delta"]; !named {
			d, ok = c["message"].(map[string]any)
		} else if _, both := c["message"]; both {
			ambiguous = true
		}
		given, isText := c["text"].(string)
		f.output = isText && given == ""
		if ok {
			content, isText := d["content"].(string)
			calls, _ := d["tool_calls"].([]any)
			f.output = f.output || len(calls) > 0 || (isText && content == "" && d["role"] == nil)
			if f.text == "" {
				f.text = str(d["content"])
			}
			if f.thought = str(d["reasoning_content"]); f.thought == "" {
				f.thought = str(d["reasoning"])
			}
		}
		f.output = f.output || f.text != "" || f.thought != ""
	}
	u, ok := m["usage"].(map[string]any)
	if r, named := m["response"]; named {
		_, choices := m["choices"]
		_, usage := m["usage"]
		_, fault := m["error"]
		ambiguous = ambiguous || choices || usage || fault
		if r, isObject := r.(map[string]any); isObject {
			u, ok = r["usage"].(map[string]any)
			f.finish, f.fault = str(r["status"]), r["error"] != nil
		}
	}
	if f.usage = ok; ok {
		var twice [4]bool
		f.counts.Prompt, twice[0] = either(u, "prompt_tokens", "input_tokens", count)
		f.counts.Completion, twice[1] = either(u, "completion_tokens", "output_tokens", count)
		f.counts.Cached, twice[2] = either(u, "prompt_tokens_details", "input_tokens_details", inner("cached_tokens"))
		f.counts.Reasoning, twice[3] = either(u, "completion_tokens_details", "output_tokens_details", inner("reasoning_tokens"))
		ambiguous = ambiguous || twice != [4]bool{}
	}
	return f, ambiguous, true
}

func str(v any) string { s, _ := v.(string); return s }

func count(v any) int {
	text, _ := v.(json.Number)
	if text == "" || text[0] < '0' || text[0] > '9' {
		return -1
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return -1
	}
	return n
}

func inner(name string) func(any) int {
	return func(v any) int {
		m, _ := v.(map[string]any)
		return count(m[name])
	}
}

// either reads one of two members.
func either(m map[string]any, a, b string, read func(any) int) (n int, both bool) {
	va, isA := m[a]
	vb, isB := m[b]
	if isA {
		return read(va), isB
	}
	return read(vb), false
}

// nesting is the depth of b, which is JSON.
func nesting(b []byte) (deepest int) {
	depth, text := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// checkEvent compares the scanner with encoding/json on one input.
func checkEvent(t *testing.T, b []byte) {
	t.Helper()
	var e event
	got := e.parse(b)
	want, ambiguous, ok := decoded(b)
	if ok && nesting(b) > maxDepth {
		return
	}
	if ok != (got == complete) {
		t.Fatalf("%.300q: verdict %d, but encoding/json says %v", b, got, ok)
	}
	if ok && !ambiguous && e.facts() != want {
		t.Fatalf("%.300q:\n got %+v\nwant %+v", b, e.facts(), want)
	}
}

var events = []string{
	`{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":" a","logprobs":null,"finish_reason":null,"token_ids":[5,6]}],"usage":null}`,
	`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
	`{"choices":[{"delta":{"content":null,"reasoning":"hm","reasoning_content":"hm"}}]}`,
	`{"choices":[{"delta":{"content":"\ud83d\ude00\ud83d\u00e9\n\"\\\/\b\f\r\t"},"finish_reason":"stop"}]}`,
	`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":12,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":4}}}`,
	`{"choices":[{"message":{"content":"all of it","reasoning":"why"},"finish_reason":"length"}],"usage":{"prompt_tokens":-0,"completion_tokens":1e2}}`,
	`{"type":"response.output_text.delta","delta":"x","sequence_number":4}`,
	`{"type":"response.completed","response":{"id":"r","status":"completed","error":null,"output":[{"a":[[{}]]}],"usage":{"input_tokens":1,"input_tokens_details":{"cached_tokens":0},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1}}}}`,
	`{"error":{"message":"boom","type":"server_error"}}`, `{"error":null}`, `{"error":false}`, `{}`, ` { } `,
	`{"choices":[{"text":"a"}],"choices":null}`, `{"choices":[{"text":"a","text":7}]}`, `{"choices":{"text":"a"}}`, `{"choices":[7,{"text":"b"}]}`,
	`{"ch\u006fices":[{"te\u0078t":"é"}]}`, "{\"choices\":[{\"text\":\"\xff\xc3(\"}]}", `{"usage":[1],"type":{}}`,
	`{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":+1}`, `{"a":tru}`, `{"a":nul`, `{"a":"\x"}`, `{"a":"\u12g4"}`,
	"{\"a\":\"\n\"}", `{"a":[1,]}`, `{"a":[1 2]}`, `{} x`, `[{}]`, `7`, `"a"`, ``, ` `, `{"a":[}`, `{"a":{]}`, `{"usage":{"prompt_tokens":99999999999999999999}}`,
	`{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`,
}

func TestEventLikeEncodingJSON(t *testing.T) {
	for _, text := range events {
		checkEvent(t, []byte(text))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		b := []byte(randomEvent(r))
		checkEvent(t, b)
		for range 3 { // and with a byte changed, cut out or put in
			i := r.IntN(len(b))
			const bytesOfJSON = "{}[]\",:\\u0e9 \xffnt"
			b[i] = bytesOfJSON[r.IntN(len(bytesOfJSON))]
			checkEvent(t, b)
		}
	}
}

// Every beginning of an event is one that more bytes may complete: else the reading of
// a stream would depend on how it is cut.
func TestEventCut(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	all := append([]string(nil), events[:9]...)
	for range 200 {
		all = append(all, randomEvent(r))
	}
	for _, text := range all {
		for i := range len(text) {
			var e event
			if got := e.parse([]byte(text[:i])); got != incomplete {
				t.Fatalf("%q: verdict %d, want cut", text[:i], got)
			}
		}
	}
}

func randomEvent(r *rand.Rand) string {
	var b strings.Builder
	randomObject(r, &b, 0, []string{"choices", "usage", "error", "type", "delta", "response", "id"})
	return b.String()
}

func randomObject(r *rand.Rand, b *strings.Builder, depth int, names []string) {
	b.WriteByte('{')
	for i := range r.IntN(4) {
		if i > 0 {
			b.WriteString([]string{",", " , "}[r.IntN(2)])
		}
		name := names[r.IntN(len(names))]
		fmt.Fprintf(b, "%q:", name)
		randomValue(r, b, depth+1, name)
	}
	b.WriteByte('}')
}

func randomValue(r *rand.Rand, b *strings.Builder, depth int, name string) {
	members := map[string][]string{
		"choices":  {"text", "delta", "message", "finish_reason", "token_ids", "index"},
		"delta":    {"content", "reasoning", "reasoning_content", "role", "tool_calls"},
		"message":  {"content", "reasoning", "reasoning_content"},
		"usage":    {"prompt_tokens", "completion_tokens", "output_tokens", "prompt_tokens_details", "completion_tokens_details"},
		"response": {"usage", "status", "error", "output"},
	}[name]
	if members == nil {
		members = []string{"cached_tokens", "reasoning_tokens", "x"}
	}
	switch n := r.IntN(10); {
	case (n < 4 && depth < 6 && name == "choices") || (n == 0 && depth < 6):
		b.WriteByte('[')
		for i := range r.IntN(3) {
			if i > 0 {
				b.WriteByte(',')
			}
			if name == "choices" && r.IntN(5) > 0 {
				randomObject(r, b, depth+1, members)
			} else {
				randomValue(r, b, depth+1, "")
			}
		}
		b.WriteByte(']')
	case n < 5 && depth < 6:
		randomObject(r, b, depth+1, members)
	case n < 7:
		text, _ := json.Marshal([]string{"", "a", "stop", "\u00e9\n", "\U0001F600", "<&>"}[r.IntN(6)])
		b.Write(text)
	default:
		b.WriteString([]string{"null", "true", "false", "0", "17", "-3", "1.5", "2e3", `"\ud800"`}[r.IntN(9)])
	}
}

func FuzzEvent(f *testing.F) {
	for _, text := range events {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkEvent(t, b) })
}

func TestEventDoesNotAllocate(t *testing.T) {
	var e event
	b := []byte(events[0])
	if n := testing.AllocsPerRun(100, func() { e.parse(b) }); n != 0 {
		t.Errorf("reading an event allocates %v times", n)
	}
}

func BenchmarkEvent(b *testing.B) {
	var e event
	text := []byte(events[0])
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		e.parse(text)
	}
}
