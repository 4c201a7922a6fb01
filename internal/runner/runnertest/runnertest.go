// Package runnertest is the suite that every runner passes: whoever implements
// runner.Runner calls Run and need not wonder which schedules the planner will
// come up with. Its yardstick is the runner itself, given one request at a time:
// whatever else is in the batch, ids and log probabilities must be bit-identical.
package runnertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/soak"
)

// A Config is what the suite asks a runner to be. The runner may do otherwise as
// long as its Info says so; the suite goes by Info.
type Config struct {
	MaxSeqs   int
	MaxTokens int
	MaxLen    int // tokens
	BlockSize int // tokens
	Blocks    int // of each group
	Depth     int
}

// An Open returns a new runner. It ends the test if it cannot.
type Open func(t *testing.T, c Config) runner.Runner

// Run holds a runner to the contract. The model behind it should have a
// vocabulary of 100 or more, decisive logits and, where the runner supports
// windows, one of 4 to 16 tokens. Random schedules (DET-1) are counted by soak.
func Run(t *testing.T, open Open) {
	s, err := newSuite(t, open)
	if err != nil {
		t.Fatalf("one request at a time: %v", err)
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			if err := c.run(s.in(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Checks return errors instead of failing a test, so that the suite can be
// tested with runners that are broken on purpose.
var checks = []struct {
	name string
	run  func(*suite) error
}{
	{"Info", (*suite).checkInfo},
	{"Order", (*suite).checkOrder},
	{"Repeat", (*suite).checkRepeat},
	{"Sampling", (*suite).checkSampling},
	{"Scores", (*suite).checkPrompts},
	{"Chunks", (*suite).checkChunks},
	{"Tables", (*suite).checkTables},
	{"Poison", (*suite).checkPoison},
	{"Windows", (*suite).checkWindows},
	{"Prefix", (*suite).checkPrefix},
	{"Slots", (*suite).checkSlots},
	{"Neighbours", (*suite).checkNeighbours},
	{"Pending", (*suite).checkPending},
	{"Schedules", (*suite).checkSchedules},
}

type suite struct {
	t         *testing.T
	open      Open
	schedules int
	requests  []*request
	want      []trace // what each gets alone
}

func newSuite(t *testing.T, open Open) (*suite, error) {
	s := &suite{t: t, open: open, schedules: soak.Cases(t, 200, 10_000)}
	if testing.Short() {
		s.schedules = 20
	}
	return s, s.with(func(r runner.Runner) error {
		if err := checkInfo(r.Info()); err != nil {
			return err
		}
		s.requests = requests(r.Info())
		for i, q := range s.requests {
			got, err := newDriver(r, knobs{}, 0).run([]*request{q})
			if err != nil {
				return fmt.Errorf("request %d: %w", i, err)
			}
			s.want = append(s.want, got...)
		}
		return nil
	})
}

// in returns s for a subtest.
func (s *suite) in(t *testing.T) *suite {
	c := *s
	c.t = t
	return &c
}

func (s *suite) config() Config {
	return Config{MaxSeqs: 6, MaxTokens: 64, MaxLen: 96, BlockSize: 4, Blocks: 48, Depth: 3}
}

// with calls f with a new runner and closes it.
func (s *suite) with(f func(r runner.Runner) error) error {
	r := s.open(s.t, s.config())
	return errors.Join(f(r), r.Close())
}

// together runs requests side by side and compares each with what it gets alone.
func (s *suite) together(r runner.Runner, k knobs, seed uint64, which []int) (*driver, error) {
	d := newDriver(r, k, seed)
	qs := make([]*request, len(which))
	for i, n := range which {
		qs[i] = s.requests[n]
	}
	got, err := d.run(qs)
	if err != nil {
		return d, fmt.Errorf("requests %v, %+v, seed %d: %w", which, k, seed, err)
	}
	for i, n := range which {
		if err := compare(got[i], s.want[n], d.seqs[i].aborted); err != nil {
			return d, fmt.Errorf("requests %v, %+v, seed %d: number %d (prompt of %d): %w", which, k, seed, n, len(qs[i].prompt), err)
		}
	}
	return d, nil
}

// each runs every request by itself.
func (s *suite) each(r runner.Runner, k knobs) error {
	for n := range s.requests {
		if _, err := s.together(r, k, uint64(n), []int{n}); err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) all() []int {
	which := make([]int, len(s.requests))
	for i := range which {
		which[i] = i
	}
	return which
}

// requests makes prompts whose lengths lie around what a runner may get wrong,
// every second one with the same beginning, and all kinds of parameters.
func requests(info runner.Info) []*request {
	rng := rand.New(rand.NewPCG(2, 3))
	const output = 7
	longest := min(info.MaxTokens, info.MaxLen-output-info.Lookahead)
	bs := info.BlockSize
	lengths := []int{1, 2, 3, bs - 1, bs, bs + 1, 2 * bs, 2*bs + 1, 3*bs + 2, longest, longest - 1, 23, 37}
	for _, g := range info.Groups {
		if w := g.Window; w > 0 {
			lengths = append(lengths, w-1, w, w+1, 2*w+1)
		}
	}
	lengths = append(lengths, lengths...) // once with the common beginning, once without
	ids := func(n int) []int32 {
		p := make([]int32, n)
		for i := range p {
			p[i] = rng.Int32N(int32(info.Vocab))
		}
		return p
	}
	common := ids(longest)
	var qs []*request
	for i, n := range lengths {
		n = min(max(n, 1), longest)
		q := &request{prompt: ids(n), output: 1 + i%output, params: params(i, n, info.Vocab), masked: i%8 == 5}
		if i < len(lengths)/2 {
			copy(q.prompt, common[:max(n-1, 1)]) // the last token tells them apart
		}
		qs = append(qs, q)
	}
	return qs
}

// params makes the i-th kind of parameters for a prompt of n tokens. Penalties
// see pending ids, so they are there often.
func params(i, n, vocab int) *sample.Params {
	top := min(3, vocab)
	kinds := []sample.Params{
		{Logprobs: true, TopLogprobs: top, PromptLogprobs: true, TopPromptLogprobs: top},
		{Temperature: 1, Logprobs: true, TopLogprobs: top},
		{RepetitionPenalty: 1.8, PresencePenalty: 2, FrequencyPenalty: 0.5, Logprobs: true},
		{Temperature: 0.8, TopK: 20, TopP: 0.9, PromptLogprobs: true},
		{Temperature: 1.5, MinP: 0.02, FrequencyPenalty: 2, RepetitionPenalty: 1.3, Logprobs: true, TopLogprobs: top},
		{LogitBias: map[int32]float32{int32(i % vocab): 4}},
		{Temperature: 2, TopP: 0.99, Logprobs: true},
	}
	p := kinds[i%len(kinds)]
	p.Seed, p.Prompt = uint64(i)*0x9e3779b97f4a7c15, n
	return &p
}
