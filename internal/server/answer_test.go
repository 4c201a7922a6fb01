package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"ossian/internal/chat"
	"ossian/internal/engine"
	"ossian/internal/sample"
	"ossian/internal/sched"
	"ossian/internal/soak"
	"ossian/internal/wire"
)

func TestStopper(t *testing.T) {
	for _, c := range []struct {
		stops       []string
		text, found string
		at, held    int // held: behind the whole text, where nothing is found
	}{
		{stops: []string{"abc"}, text: "xxabcx", found: "abc", at: 5},
		{stops: []string{"aab"}, text: "aaab", found: "aab", at: 4},
		{stops: []string{"bc", "abc"}, text: "abc", found: "abc", at: 3}, // of two that end together the longer
		{stops: []string{"abcd", "bc"}, text: "abcd", found: "bc", at: 3},
		{stops: []string{"abab"}, text: "abaabab", found: "abab", at: 7},
		{stops: []string{"abc", "c!"}, text: "xxab", held: 2},
		{stops: []string{"aaaa"}, text: "baaa", held: 3},
		{stops: []string{"é!"}, text: "caf\u00e9", held: 2},
		{text: "abc"},
	} {
		s := newStopper(c.stops)
		found, at := "", 0
		for i := 0; i < len(c.text) && found == ""; i++ {
			found, at = s.push(c.text[i]), i+1
		}
		if found != c.found || (found != "" && at != c.at) || (found == "" && s.held() != c.held) {
			t.Errorf("%q in %q: found %q at %d, held %d", c.stops, c.text, found, at, s.held())
		}
	}
}

// FuzzStopper compares with a search from scratch after every byte.
func FuzzStopper(f *testing.F) {
	f.Add("aab", "ab", "aaabab")
	f.Add("abab", "b", "ababab")
	f.Fuzz(func(t *testing.T, a, b, text string) {
		if len(a) == 0 || len(b) == 0 || len(a)+len(b) > 512 || len(text) > 1000 {
			return
		}
		stops := []string{a, b}
		s := newStopper(stops)
		for i := range len(text) {
			want, held := "", 0
			for _, stop := range stops {
				if strings.HasSuffix(text[:i+1], stop) && len(stop) > len(want) {
					want = stop
				}
				for n := 1; n < len(stop); n++ {
					if strings.HasSuffix(text[:i+1], stop[:n]) {
						held = max(held, n)
					}
				}
			}
			if got := s.push(text[i]); got != want || s.held() != held {
				t.Fatalf("%q after %q: found %q, held %d; want %q, %d", stops, text[:i+1], got, s.held(), want, held)
			}
		}
	})
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		name  string
		all   []piece
		bytes map[int]string // by how much text is kept
	}{
		{"characters of several tokens", []piece{{text: "ab", bytes: "ab"}, {bytes: "\xf0\x9f"}, {text: "🌍c", bytes: "\x8c\x8dc"}, {text: "d", bytes: "d"}},
			map[int]string{0: "", 1: "a", 2: "ab", 6: "ab🌍", 7: "ab🌍c", 8: "ab🌍cd"}},
		{"a token that begins the next character", []piece{{text: "a", bytes: "a\xf0\x9f\x8c"}, {text: "🌍", bytes: "\x8d"}}, map[int]string{0: "", 1: "a", 5: "a🌍"}},
		{"no characters", []piece{{bytes: "\xf0\x9f"}, {text: "\uFFFDa", bytes: "a"}, {text: "\uFFFD\uFFFD", bytes: "\xff\xfe"}, {text: "b", bytes: "b"}},
			map[int]string{0: "", 3: "\xf0\x9f", 4: "\xf0\x9fa", 7: "\xf0\x9fa\xff", 10: "\xf0\x9fa\xff\xfe", 11: "\xf0\x9fa\xff\xfeb"}},
		{"text with a later token", []piece{{bytes: "}\n"}, {text: "}\n\n", bytes: "\n"}}, map[int]string{0: "", 1: "}", 2: "}\n", 3: "}\n\n"}},
	} {
		for keep, want := range c.bytes {
			text, raw := "", ""
			for _, p := range cut(slices.Clone(c.all), keep) {
				text += p.text
				raw += p.bytes
			}
			if text != replaced(want) || raw != want {
				t.Errorf("%s, cut at %d: text %q, bytes %q, want %q", c.name, keep, text, raw, want)
			}
		}
	}
}

// replaced returns raw with U+FFFD for what is no UTF-8, as decoders of other languages
// give it.
func replaced(raw string) string {
	var out strings.Builder
	for raw != "" {
		n := spelling(raw, 1)
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
	g := start(t, setup{reply: "<|channel|>final<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|> Hi<|end|>"})
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

func TestBest(t *testing.T) {
	c := &collection{j: &job{n: 3}, choices: make([]choice, 6), keep: 2}
	for i, likely := range []float64{-9, -1, -4, -1, -1, -2} {
		c.j.answers = append(c.j.answers, &answer{tokens: 1 + i%2, likely: likely}) // means: -9 -0.5 -4, -0.5 -1 -1
		c.choices[i].content.WriteByte('a' + byte(i))
	}
	_, kept := c.best()
	got := ""
	for i := range kept {
		got += kept[i].content.String()
	}
	if got != "bcde" {
		t.Errorf("kept %s, want bcde", got)
	}
}

// A play is a random answer: what a model says and what was asked for.
type play struct {
	ids      []int32
	stops    []string
	finish   sched.Finish
	tools    bool
	oneCall  bool
	hidden   bool
	raw      bool
	minimum  int
	interval int
}

func randomPlay(rng *rand.Rand, f chat.Format) play {
	pieces := []string{"Hello", " wörld", " 🌍", "\n", "STOP", "ST", "O", "P", "<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "<|end|>", "<|start|>assistant",
		"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>", `{"city":`, `"Paris"}`, "<|call|>", "日本", "é", " the", "<|channel|>commentary<|message|>"}
	p := play{finish: sched.FinishLength, tools: rng.IntN(2) == 0, oneCall: rng.IntN(4) == 0, hidden: rng.IntN(4) == 0, raw: rng.IntN(4) == 0, interval: 1 + rng.IntN(6)}
	if rng.IntN(2) == 0 {
		p.ids = said("<|channel|>final<|message|>")
	}
	for range rng.IntN(20) {
		if rng.IntN(10) == 0 {
			p.ids = append(p.ids, rng.Int32N(199_998)) // may be half a character
			continue
		}
		p.ids = append(p.ids, said(pieces[rng.IntN(len(pieces))])...)
	}
	for i, id := range p.ids {
		if slices.Contains(f.Stops(), id) {
			p.ids, p.finish = p.ids[:i+1], sched.FinishStop
			break
		}
	}
	if rng.IntN(2) == 0 {
		p.stops = [][]string{{"STOP"}, {"ö", "STOP"}, {"P\n", "🌍"}, {"aa", "日"}}[rng.IntN(4)]
		p.minimum = rng.IntN(4)
	}
	return p
}

func (p *play) answer(f chat.Format) *answer {
	tok := harmony()
	pl := &plan{tok: tok, stops: f.Stops(), minTokens: p.minimum, showReasoning: !p.hidden, oneCall: p.oneCall, logprobs: true, top: 1, keepIDs: true, salvaged: func(string) {}}
	c := &chat.Conversation{}
	if p.tools {
		c.Tools = []chat.Tool{{Name: "get_weather"}}
	}
	a := &answer{plan: pl, parser: f.Parser(c), stop: newStopper(p.stops)}
	if p.raw {
		a.every, a.parser = true, &raw{tok: tok, detok: tok.Detok(), hide: true, stops: f.Stops()}
	}
	return a
}

// outcome is what a client has in the end.
type outcome struct {
	Content, Reasoning string
	Calls              []wire.ToolCall
	Logprobs           []wire.TokenLogprob
	IDs                []int32
	Finish             string
	Stop               wire.StopReason
	Tokens, Reasoned   int
}

// whole plays p without streaming.
func (p *play) whole(f chat.Format) outcome {
	a := p.answer(f)
	var c choice
	for i := range p.ids {
		a.push(&engine.Token{ID: p.ids[i], Logprobs: []sample.Logprob{{ID: p.ids[i]}, {ID: 1, Logprob: -1}}})
	}
	a.close(p.finish)
	for i := range a.deltas {
		c.add(&a.deltas[i])
	}
	for i := range c.calls {
		c.calls[i].Arguments = c.arguments[i].String()
	}
	return outcome{c.content.String(), c.reasoning.String(), c.calls, c.logprobs, a.newIDs, a.finish, a.reason, a.tokens, a.reasoned}
}

// A recorder is an encoder that keeps what it is given.
type recorder struct {
	out     outcome
	problem func(string)
}

func (r *recorder) begin(dst []byte, _ int, _ *wire.Usage) []byte { return dst }

func (r *recorder) chunk(dst []byte, _ int, d *delta, ids []int32, _ *wire.Usage) []byte {
	if (d.text == "" && len(d.logprobs) == 0) || !utf8.ValidString(d.text) {
		r.problem(fmt.Sprintf("delta with text %q", d.text))
	}
	switch d.field {
	case content:
		r.out.Content += d.text
	case reasoning:
		r.out.Reasoning += d.text
	case callName:
		r.out.Calls = append(r.out.Calls, wire.ToolCall{Name: d.text})
	case callArguments:
		r.out.Calls[d.call].Arguments += d.text
	}
	r.out.Logprobs = append(r.out.Logprobs, d.logprobs...)
	r.out.IDs = append(r.out.IDs, ids...)
	return dst
}

func (r *recorder) end(dst []byte, _ int, a *answer, _ *wire.Usage) []byte {
	r.out.IDs = append(r.out.IDs, a.newIDs...)
	r.out.Finish, r.out.Stop, r.out.Tokens, r.out.Reasoned = a.finish, a.reason, a.tokens, a.reasoned
	return dst
}

func (r *recorder) finish(dst []byte, _ *wire.Usage) []byte { return dst }

func (r *recorder) fail(dst []byte, _ *wire.Error) []byte { return dst }

// streamed plays p as a stream whose tokens arrive in random batches.
func (p *play) streamed(t *testing.T, f chat.Format, rng *rand.Rand) outcome {
	a := p.answer(f)
	rec := &recorder{problem: func(s string) { t.Error(s) }}
	st := &stream{j: &job{s: &Server{}, answers: []*answer{a}}, enc: rec, interval: p.interval, choices: make([]pending, 1)}
	for ids := p.ids; len(ids) > 0 && !a.done; {
		n := 1 + rng.IntN(len(ids))
		st.prepare(0)
		for i := range ids[:n] {
			a.push(&engine.Token{ID: ids[i], Logprobs: []sample.Logprob{{ID: ids[i]}, {ID: 1, Logprob: -1}}})
			st.token(0)
			if a.done {
				break
			}
		}
		if err := st.sent(0); err != nil {
			t.Fatal(err)
		}
		ids = ids[n:]
	}
	if !a.done {
		st.prepare(0)
		a.close(p.finish)
		st.token(0)
	}
	return rec.out
}

// TestChoicesOpenInOrder: whichever choice has the first token, openai-python's
// accumulator can take the stream.
func TestChoicesOpenInOrder(t *testing.T) {
	enc := &chatEncoder{stream: wire.NewChatStream(wire.Head{}, nil, wire.FieldReasoning)}
	st := &stream{j: &job{s: &Server{}}, enc: enc}
	var got []string
	for _, i := range []int{2, 0, 3, 1} {
		st.prepare(i)
		for line := range strings.Lines(string(*st.buf)) {
			if _, choice, found := strings.Cut(line, `"choices":[{"index":`); found {
				got = append(got, choice[:1])
			}
		}
		*st.buf = nil
	}
	if want := []string{"0", "1", "2", "3"}; !slices.Equal(got, want) {
		t.Errorf("choices open in the order %q, want %q", got, want)
	}
}

// TestLIF4 plays random answers streamed and whole: the client has the same, token
// counts are those of the ids, and log probabilities spell the content.
func TestLIF4(t *testing.T) {
	f, err := chat.New(chat.Facts{Family: "gpt-oss", Tokenizer: harmony(), Stops: []int32{200_002, 200_012}})
	if err != nil {
		t.Fatal(err)
	}
	cases := soak.Cases(t, 20_000, 1_000_000)
	stopped := 0
	for i := range cases {
		rng := rand.New(rand.NewPCG(uint64(i), 4))
		p := randomPlay(rng, f)
		want, got := p.whole(f), p.streamed(t, f, rng)
		if len(want.IDs) == 0 {
			want.IDs = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("case %d, %+v\n%q\nstreamed %+v\nwhole    %+v", i, p, harmony().Decode(p.ids), got, want)
		}
		spelled := ""
		for _, l := range got.Logprobs {
			spelled += l.Bytes
		}
		if replaced(spelled) != got.Content {
			t.Fatalf("case %d: log probabilities spell %q, content is %q\n%q", i, spelled, got.Content, harmony().Decode(p.ids))
		}
		if p.raw && p.stops == nil && len(got.Logprobs) != got.Tokens {
			t.Fatalf("case %d: %d log probabilities of %d tokens\n%q", i, len(got.Logprobs), got.Tokens, harmony().Decode(p.ids))
		}
		if got.Tokens > len(p.ids) || got.Tokens != len(got.IDs) || got.Reasoned > got.Tokens {
			t.Fatalf("case %d: %d tokens, %d reasoning, %d ids of %d", i, got.Tokens, got.Reasoned, len(got.IDs), len(p.ids))
		}
		if got.Stop.Text != "" {
			stopped++
			if strings.Contains(got.Content, got.Stop.Text) && p.minimum == 0 {
				t.Fatalf("case %d: content %q has %q", i, got.Content, got.Stop.Text)
			}
		}
	}
	if stopped < cases/50 {
		t.Errorf("only %d of %d cases met a stop string", stopped, cases)
	}
	t.Logf("LIF-4: %d random answers, 0 differ from the whole however they arrive; %d met a stop string", cases, stopped)
}

// BenchmarkToken is what a token costs between the engine and the socket: parser,
// stop strings, encoding.
func BenchmarkToken(b *testing.B) {
	f, err := chat.New(chat.Facts{Family: "gpt-oss", Tokenizer: harmony(), Stops: []int32{200_002, 200_012}})
	if err != nil {
		b.Fatal(err)
	}
	for name, stops := range map[string][]string{"plain": nil, "stops": {"STOP", "\n\n\n"}} {
		b.Run(name, func(b *testing.B) {
			p := play{stops: stops}
			a := p.answer(f)
			a.logprobs, a.keepIDs = false, false
			enc := &chatEncoder{stream: wire.NewChatStream(wire.Head{ID: "chatcmpl-x", Model: "m"}, nil, wire.FieldReasoning)}
			st := &stream{j: &job{s: &Server{}, answers: []*answer{a}}, enc: enc, interval: 1, choices: make([]pending, 1)}
			for _, id := range said("<|channel|>final<|message|>Hello") {
				a.push(&engine.Token{ID: id})
			}
			tokens := said(" the quick brown fox")
			buf := make([]byte, 0, 4096)
			st.buf = &buf
			st.token(0)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				buf = buf[:0]
				a.push(&engine.Token{ID: tokens[i%len(tokens)]})
				st.token(0)
				i++
			}
			if len(buf) == 0 {
				b.Fatal("nothing was encoded")
			}
		})
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
