package api

import (
	"fmt"
	"math/rand/v2"
	"ossian/internal/chat"
	"ossian/internal/engine"
	"ossian/internal/generate"
	"ossian/internal/host"
	"ossian/internal/sample"
	"ossian/internal/sched"
	"ossian/internal/soak"
	"ossian/internal/token"
	"ossian/internal/wire"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// harmony is gpt-oss's tokenizer: loading it takes a while, so once.
var harmony = sync.OnceValue(func() *token.BPE {
	tok, err := token.Harmony()
	if err != nil {
		panic(err)
	}
	return tok
})

// said returns the ids of what a model says, control tokens by name.
func said(markup string) []int32 {
	p := harmony().Prompt()
	p.Markup(markup)
	return p.IDs()
}

// answers are a job without an engine.
type answers []*generate.Answer

func (a answers) Answers() []*generate.Answer { return a }
func (a answers) Usage() wire.Usage           { return wire.Usage{} }
func (a answers) Size() int64                 { return 0 }
func (a answers) MarkSent()                   {}

func TestBest(t *testing.T) {
	likely := []float64{-9, -1, -4, -1, -1, -2} // means: -9 -0.5 -4, -0.5 -1 -1
	c := &collection{choices: make([]Choice, 6), prompts: 2, best: 2}
	all := answers{}
	for i := range likely {
		a := generate.NewAnswer(&generate.Generation{Sampling: &wire.Sampling{}, Model: &host.Model{}, Parser: func() chat.Parser { return silent{} }})
		for n := range 1 + i%2 {
			a.Push(&engine.Token{Logprobs: []sample.Logprob{{Logprob: float32(likely[i]) * float32(1-n)}}})
		}
		all = append(all, a)
		c.choices[i].Content.WriteByte('a' + byte(i))
	}
	c.job = all
	_, kept := c.chosen()
	got := ""
	for i := range kept {
		got += kept[i].Content.String()
	}
	if got != "bcde" {
		t.Errorf("kept %s, want bcde", got)
	}
}

// silent parses nothing.
type silent struct{}

func (silent) Push(dst []chat.Event, _ int32) []chat.Event { return dst }
func (silent) Close(dst []chat.Event) []chat.Event         { return dst }

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

func (p *play) answer(f chat.Format) *generate.Answer {
	top := int64(1)
	return p.asked(f, &generate.Generation{Sampling: &wire.Sampling{ReturnTokenIDs: true}, Logprobs: &top})
}

// asked returns the answer to a generation of which the rest is p's.
func (p *play) asked(f chat.Format, g *generate.Generation) *generate.Answer {
	tok := harmony()
	g.Model = &host.Model{Tokenizer: tok, Stops: f.Stops()}
	g.Stop, g.MinTokens, g.HideReasoning, g.OneCall = p.stops, int64(p.minimum), p.hidden, p.oneCall
	c := &chat.Conversation{}
	if p.tools {
		c.Tools = []chat.Tool{{Name: "get_weather"}}
	}
	g.Parser = func() chat.Parser { return f.Parser(c) }
	if p.raw {
		g.HiddenLogprobs, g.Parser = true, generate.Plain(g.Model, g.Sampling, true)
	}
	return generate.NewAnswer(g)
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
	var c Choice
	for i := range p.ids {
		a.Push(&engine.Token{ID: p.ids[i], Logprobs: []sample.Logprob{{ID: p.ids[i]}, {ID: 1, Logprob: -1}}})
	}
	a.Close(p.finish)
	for i := range a.Deltas {
		c.add(&a.Deltas[i])
	}
	for i := range c.Calls {
		c.Calls[i].Arguments = c.Arguments[i].String()
	}
	return outcome{c.Content.String(), c.Reasoning.String(), c.Calls, c.Logprobs, a.NewIDs, a.Finish, a.Stop, a.Tokens, a.Reasoned}
}

// A recorder is an encoder that keeps what it is given.
type recorder struct {
	out     outcome
	problem func(string)
}

func (r *recorder) Begin(dst []byte, _ int, _ *wire.Usage) []byte { return dst }

func (r *recorder) Chunk(dst []byte, _ int, d *generate.Delta, ids []int32, _ *wire.Usage) []byte {
	if (d.Text == "" && len(d.Logprobs) == 0) || !utf8.ValidString(d.Text) {
		r.problem(fmt.Sprintf("delta with text %q", d.Text))
	}
	switch d.Field {
	case generate.Content:
		r.out.Content += d.Text
	case generate.Reasoning:
		r.out.Reasoning += d.Text
	case generate.CallName:
		r.out.Calls = append(r.out.Calls, wire.ToolCall{Name: d.Text})
	case generate.CallArguments:
		r.out.Calls[d.Call].Arguments += d.Text
	}
	r.out.Logprobs = append(r.out.Logprobs, d.Logprobs...)
	r.out.IDs = append(r.out.IDs, ids...)
	return dst
}

func (r *recorder) End(dst []byte, _ int, a *generate.Answer, _ *wire.Usage) []byte {
	r.out.IDs = append(r.out.IDs, a.NewIDs...)
	r.out.Finish, r.out.Stop, r.out.Tokens, r.out.Reasoned = a.Finish, a.Stop, a.Tokens, a.Reasoned
	return dst
}

func (r *recorder) Finish(dst []byte, _ *wire.Usage) []byte { return dst }

func (r *recorder) Fail(dst []byte, _ *wire.Error) []byte { return dst }

// A chunker writes the chunks of a chat's content.
type chunker struct {
	recorder
	stream *wire.ChatStream
	delta  wire.Delta
}

func (c *chunker) Begin(dst []byte, i int, usage *wire.Usage) []byte {
	c.delta = wire.Delta{Index: i, Role: true}
	return c.stream.Append(dst, &c.delta, usage)
}

func (c *chunker) Chunk(dst []byte, i int, d *generate.Delta, ids []int32, usage *wire.Usage) []byte {
	c.delta = wire.Delta{Index: i, TokenIDs: ids, Content: d.Text, Logprobs: d.Logprobs}
	return c.stream.Append(dst, &c.delta, usage)
}

// streamed plays p as a stream whose tokens arrive in random batches.
func (p *play) streamed(t *testing.T, f chat.Format, rng *rand.Rand) outcome {
	a := p.answer(f)
	rec := &recorder{problem: func(s string) { t.Error(s) }}
	st := &stream{front: &Front{}, job: answers{a}, enc: rec, interval: p.interval, choices: make([]pending, 1)}
	for ids := p.ids; len(ids) > 0 && !a.Done; {
		n := 1 + rng.IntN(len(ids))
		st.Open(0)
		for i := range ids[:n] {
			a.Push(&engine.Token{ID: ids[i], Logprobs: []sample.Logprob{{ID: ids[i]}, {ID: 1, Logprob: -1}}})
			st.Token(0)
			if a.Done {
				break
			}
		}
		if err := st.Flush(0); err != nil {
			t.Fatal(err)
		}
		ids = ids[n:]
	}
	if !a.Done {
		st.Open(0)
		a.Close(p.finish)
		st.Token(0)
	}
	return rec.out
}

// TestChoicesOpenInOrder: whichever choice has the first token, openai-python's
// accumulator can take the stream.
func TestChoicesOpenInOrder(t *testing.T) {
	enc := &chunker{stream: wire.NewChatStream(wire.Head{}, nil, wire.FieldReasoning)}
	st := &stream{front: &Front{}, job: answers{}, enc: enc}
	var got []string
	for _, i := range []int{2, 0, 3, 1} {
		st.Open(i)
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
			a := p.asked(f, &generate.Generation{Sampling: &wire.Sampling{}})
			enc := &chunker{stream: wire.NewChatStream(wire.Head{ID: "chatcmpl-x", Model: "m"}, nil, wire.FieldReasoning)}
			st := &stream{front: &Front{}, job: answers{a}, enc: enc, interval: 1, choices: make([]pending, 1)}
			for _, id := range said("<|channel|>final<|message|>Hello") {
				a.Push(&engine.Token{ID: id})
			}
			tokens := said(" the quick brown fox")
			buf := make([]byte, 0, 4096)
			st.buf = &buf
			st.Token(0)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				buf = buf[:0]
				a.Push(&engine.Token{ID: tokens[i%len(tokens)]})
				st.Token(0)
				i++
			}
			if len(buf) == 0 {
				b.Fatal("nothing was encoded")
			}
		})
	}
}

// TestLIF8Random: of random answers, those without text and calls have a reason and
// no others.
func TestLIF8Random(t *testing.T) {
	f, err := chat.New(chat.Facts{Family: "gpt-oss", Tokenizer: harmony(), Stops: []int32{200_002, 200_012}})
	if err != nil {
		t.Fatal(err)
	}
	cases := soak.Cases(t, 5_000, 1_000_000)
	reasons := map[string]int{}
	for i := range cases {
		p := randomPlay(rand.New(rand.NewPCG(uint64(i), 8)), f)
		a := p.answer(f)
		var c Choice
		for _, id := range p.ids {
			a.Push(&engine.Token{ID: id})
		}
		a.Close(p.finish)
		for k := range a.Deltas {
			c.add(&a.Deltas[k])
		}
		reason := a.EmptyReason()
		if empty := c.Content.Len() == 0 && len(c.Calls) == 0; empty != (reason != "") {
			t.Fatalf("case %d, %+v\n%q\nreason %q, content %q, %d calls", i, p, harmony().Decode(p.ids), reason, c.Content.String(), len(c.Calls))
		}
		if reason != "" {
			reasons[reason]++
		}
	}
	for _, want := range []string{wire.EmptyLength, wire.EmptyLengthInReasoning, wire.EmptyStop, wire.EmptyStopInReasoning, wire.EmptyStopString, wire.EmptyUnknownTool} {
		if reasons[want] == 0 {
			t.Errorf("no case is %s", want)
		}
	}
	t.Logf("LIF-8: %d answers, empty ones by reason: %v", cases, reasons)
}
