package generate

import (
	"slices"
	"testing"
	"time"

	"ossian/internal/chat"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/sched"
	"ossian/internal/token"
)

// The shape of gpt-oss, as far as masks are concerned.
const (
	ossVocab = 201_088
	ossSteps = 4000 // of one sequence, before another begins
)

// A heldSequence is one answer of gpt-oss in a scheduler, with or without the constraint
// that its format makes of a plain chat.
type heldSequence struct {
	sched  *sched.Scheduler
	params sample.Params
	now    time.Time
	result runner.Result
}

func newHeldSequence(b *testing.B, tok *token.BPE, held bool) *heldSequence {
	b.Helper()
	format, err := chat.New(chat.Facts{Family: "gpt-oss", Tokenizer: tok})
	if err != nil {
		b.Fatal(err)
	}
	conv := &chat.Conversation{Turns: []chat.Turn{{Role: chat.User, Parts: []string{"Hi"}}}}
	fresh, err := format.Constraint(conv, &chat.Rules{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	info := runner.Info{Name: "gpt-oss", Vocab: ossVocab, BlockSize: 16, Groups: []runner.Group{{Blocks: 512}}, MaxSeqs: 1, MaxTokens: 64, MaxLen: 2 * ossSteps, Depth: 1}
	s := &heldSequence{now: time.Unix(0, 0), result: runner.Result{Tokens: [][]int32{{0}}}}
	if s.sched, err = sched.New(sched.Config{}, info); err != nil {
		b.Fatal(err)
	}
	// Ids without a meaning are masked in any case, as a server does.
	allowed := slices.Repeat([]uint64{^uint64(0)}, ossVocab/64)
	allowed[len(allowed)-1] = 0
	seq := &sched.Seq{ID: 1, Tokens: []int32{1, 2, 3}, MaxTokens: 2*ossSteps - 8, Params: &s.params, Allowed: allowed, Stops: format.Stops()}
	if held {
		seq.Constraint = constraints(fresh)()
	}
	if err := s.sched.Add(seq); err != nil {
		b.Fatal(err)
	}
	return s
}

// step plans a step and records that it gave id.
func (s *heldSequence) step(b *testing.B, id int32) {
	batch := s.sched.Plan(s.now)
	if mask := batch.Rows[0].Mask; mask[id/64]>>(id%64)&1 == 0 {
		b.Fatalf("id %d is masked", id)
	}
	s.result.Tokens[0][0] = id
	if outputs := s.sched.Commit(batch, &s.result, s.now); len(outputs) != 1 || outputs[0].Finish != sched.FinishNone {
		b.Fatalf("%+v", outputs)
	}
}

// BenchmarkHeldStep is what the scheduler does for an id of gpt-oss whose answer is held to
// headers, as it is in every chat, and for one whose answer is free. The ids of headers are
// those of short messages: six in seven are no text.
func BenchmarkHeldStep(b *testing.B) {
	tok, err := token.Harmony()
	if err != nil {
		b.Fatal(err)
	}
	prompt := tok.Prompt()
	prompt.Markup("<|channel|>analysis<|message|>Hm<|end|><|start|>assistant")
	header, text := prompt.IDs(), tok.Encode(nil, " a")[:1]
	for _, c := range []struct {
		name string
		held bool
		ids  []int32
	}{{"free", false, text}, {"text", true, text}, {"headers", true, header}} {
		b.Run(c.name, func(b *testing.B) {
			s, n := newHeldSequence(b, tok, c.held), 0
			restart := func() {
				b.StopTimer()
				s, n = newHeldSequence(b, tok, c.held), 0
				if c.name != "headers" {
					for _, id := range header[:3] {
						s.step(b, id)
					}
				}
				b.StartTimer()
			}
			restart()
			b.ReportAllocs()
			for b.Loop() {
				s.step(b, c.ids[n%len(c.ids)])
				if n++; n == ossSteps || (c.name == "headers" && n == 16*len(c.ids)) { // more messages than that lead to the answer
					restart()
				}
			}
		})
	}
}
