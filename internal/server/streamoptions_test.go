package server

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sim"
)

var (
	usageSoFar = regexp.MustCompile(`,"usage":(\{"input_tokens":.*?\},"total_tokens":\d+\})`)
	sequence   = regexp.MustCompile(`"sequence_number":\d+`)
)

// TestStreamOptions compares streams of /v1/responses with and without options, of servers that
// are alike: but for what was asked for they are the same, byte for byte.
func TestStreamOptions(t *testing.T) {
	t.Parallel()
	const call = thinks + `<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city":"Paris"}<|call|>`
	for _, tt := range []struct{ name, reply, body string }{
		{"text", hello, `{"input":"Hi"`},
		{"call", call, `{"input":"Hi","tools":[{"type":"function","name":"get_weather","parameters":{"type":"object"}}]`},
		{"summary", hello, `{"input":"Hi","reasoning":{"summary":"auto"}`},
		{"cut", hello, `{"input":"Hi","max_output_tokens":6`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ask := func(options string) string {
				r := start(t, inMemory(t, setup{reply: tt.reply})).post("/v1/responses", tt.body+`,"stream":true`+options+`}`)
				if r.status != 200 || r.header.Get("x-ossian-ignored") != "" {
					t.Fatalf("%d %v %s", r.status, r.header, r.body)
				}
				return r.body
			}
			plain := ask("")
			if got := ask(`,"stream_options":{"include_usage":true,"continuous_usage_stats":false}`); got != plain {
				t.Errorf("with options that ask for nothing:\n%s\nwithout:\n%s", got, plain)
			}
			counted := ask(`,"stream_options":{"continuous_usage_stats":true,"prompt_progress":true}`)
			var bare strings.Builder
			deltas, before := 0, 0.0
			for event := range strings.SplitAfterSeq(counted, "\n\n") {
				name, data, _ := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
				if strings.HasSuffix(name, ".delta") {
					deltas++
					out := at(parsed(t, data), "usage", "output_tokens").(float64)
					if out < before || out == 0 {
						t.Errorf("%s: %v tokens after %v", name, out, before)
					}
					before = out
					event = usageSoFar.ReplaceAllString(event, "")
				}
				bare.WriteString(event)
			}
			if deltas == 0 || bare.String() != plain {
				t.Errorf("%d deltas; without their usage:\n%s\nwanted:\n%s", deltas, bare.String(), plain)
			}
		})
	}
}

// TestPromptProgress: while a long prompt is computed a stream tells how far it is, from one chunk
// to the next, and is otherwise what it would be.
func TestPromptProgress(t *testing.T) {
	t.Parallel()
	const chunk = 16
	prompt := strings.Repeat("word and ", 60)
	ask := func(options string) (body string) {
		g := start(t, inMemory(t, setup{next: sim.List(said(hello)...), cost: 250 * time.Millisecond, info: runner.Info{MaxTokens: chunk}}))
		return g.post("/v1/responses", `{"input":"`+prompt+`","max_output_tokens":2,"stream":true`+options+`}`).body
	}
	plain := make(chan string)
	go func() { plain <- ask("") }()
	told := ask(`,"stream_options":{"prompt_progress":true}`)
	events, number, last := 0, 0, -1.0
	var bare strings.Builder
	for event := range strings.SplitAfterSeq(told, "\n\n") {
		name, data, _ := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
		if name != "response.ossian.progress" {
			bare.WriteString(sequence.ReplaceAllString(event, fmt.Sprintf(`"sequence_number":%d`, number)))
			number++
			continue
		}
		events++
		p := parsed(t, data)
		if strings.Contains(bare.String(), ".delta") || !strings.Contains(bare.String(), "response.created") {
			t.Errorf("%s is not between the beginning and the first token", event)
		}
		done, all := p["done_tokens"].(float64), p["prompt_tokens"].(float64)
		if done < last || done > all || all < 120 || p["cached_tokens"] != 0.0 || p["queued_before"] != 0.0 {
			t.Errorf("%v after %v", p, last)
		}
		last = done
	}
	// How many there are depends on the machine: a prompt of eight chunks takes 2 s or more, with
	// one every half second.
	if events < 2 || last <= 0 {
		t.Errorf("%d events, the last at %v tokens", events, last)
	}
	if want := <-plain; bare.String() != want {
		t.Errorf("without them:\n%s\nwanted:\n%s", bare.String(), want)
	}
}

// TestBackgroundProgress: what is stored tells of no progress, and says so.
func TestBackgroundProgress(t *testing.T) {
	t.Parallel()
	g := start(t, inMemory(t, setup{reply: hello}))
	r := g.post("/v1/responses", `{"input":"Hi","background":true,"stream":true,"stream_options":{"prompt_progress":true,"continuous_usage_stats":true}}`)
	if r.status != 200 || r.header.Get("x-ossian-ignored") != "stream_options.prompt_progress" || !usageSoFar.MatchString(r.body) {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	if r := g.post("/v1/responses", `{"input":"Hi","stream_options":{"prompt_progress":true}}`); r.status != 400 {
		t.Errorf("without a stream: %d %s", r.status, r.body)
	}
}
