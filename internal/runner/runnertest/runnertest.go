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
	Lookahead int // guesses of a row
}

// An Open returns a new runner. It ends the test if it cannot.
type Open func(t *testing.T, c Config) runner.Runner

// Run holds a runner to the contract. The model behind it should have a
// vocabulary of 100 or more, decisive logits and, where the runner supports
// windows, one of 4 to 16 tokens. Random schedules (DET-1) are counted by soak.
func Run(t *testing.T, open Open) { usual.Run(t, open) }

// A Scale is how much of the suite is run of a runner that is slow.
type Scale struct {
	Schedules, Soak int // random schedules with every change, and for a release
	Every           int // one of so many requests is run with every change; all for a release
	Guesses         int // random schedules with guesses in each row; 0 and for a release = 60
}

// guessed is how many random schedules have guesses in each row where nothing is scaled.
const guessed = 60

var usual = Scale{Schedules: 200, Soak: 10_000, Every: 1}

// Run is the function Run, with as much as sc says.
func (sc Scale) Run(t *testing.T, open Open) {
	s, err := newSuite(t, open, sc)
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
	{"Guesses", (*suite).checkGuesses},
	{"Schedules", (*suite).checkSchedules},
}

// A suite is the requests and what each gets alone, for all checks.
type suite struct {
	t         *testing.T
	open      Open
	schedules int
	guessed   int // random schedules with guesses in each row
	requests  []*request
	want      []trace // what each gets alone
}

// newSuite runs each request by itself on a first runner.
func newSuite(t *testing.T, open Open, sc Scale) (*suite, error) {
	prepared := &suite{t: t, open: open, schedules: soak.Cases(t, sc.Schedules, sc.Soak)}
	if testing.Short() {
		prepared.schedules = min(prepared.schedules, 20)
	}
	if prepared.guessed = guessed; sc.Guesses > 0 {
		prepared.guessed = soak.Cases(t, sc.Guesses, guessed)
	}
	return prepared, prepared.with(func(r runner.Runner) error {
		if err := checkInfo(r.Info()); err != nil {
			return err
		}
		all := requests(r.Info())
		part := soak.Cases(t, max(len(all)/sc.Every, 1), len(all))
		for i, req := range all {
			if i*part/len(all) != (i+1)*part/len(all) { // spread over all of them
				prepared.requests = append(prepared.requests, req)
			}
		}
		for i, req := range prepared.requests {
			got, err := newDriver(r, knobs{}, 0).run([]*request{req})
			if err != nil {
				return fmt.Errorf("request %d: %w", i, err)
			}
			prepared.want = append(prepared.want, got...)
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

// config is what every runner of the suite is asked to be: small, so that blocks, windows
// and pools come to their ends.
func (s *suite) config() Config {
	return Config{MaxSeqs: 6, MaxTokens: 64, MaxLen: 96, BlockSize: 4, Blocks: 48, Depth: 3, Lookahead: 5}
}

// with calls f with a new runner and closes it.
func (s *suite) with(f func(r runner.Runner) error) error {
	r := s.open(s.t, s.config())
	return errors.Join(f(r), r.Close())
}

// together runs requests side by side and compares each with what it gets alone.
func (s *suite) together(r runner.Runner, chosen knobs, seed uint64, which []int) (*driver, error) {
	driver := newDriver(r, chosen, seed)
	requests := make([]*request, len(which))
	for i, number := range which {
		requests[i] = s.requests[number]
	}
	got, err := driver.run(requests, s.truth(which)...)
	if err != nil {
		return driver, fmt.Errorf("requests %v, %+v, seed %d: %w", which, chosen, seed, err)
	}
	for i, number := range which {
		if err := compare(got[i], s.want[number], driver.seqs[i].aborted); err != nil {
			return driver, fmt.Errorf("requests %v, %+v, seed %d: number %d (prompt of %d): %w", which, chosen, seed, number, len(requests[i].prompt), err)
		}
	}
	return driver, nil
}

// truth returns the ids that requests get alone.
func (s *suite) truth(which []int) (ids [][]int32) {
	for _, number := range which {
		ids = append(ids, s.want[number].ids)
	}
	return ids
}

// each runs every request by itself.
func (s *suite) each(r runner.Runner, chosen knobs) error {
	for n := range s.requests {
		if _, err := s.together(r, chosen, uint64(n), []int{n}); err != nil {
			return err
		}
	}
	return nil
}

// all returns the numbers of all requests.
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
	longest := min(info.MaxTokens, info.MaxLen-output)
	blockSize := info.BlockSize
	lengths := []int{1, 2, 3, blockSize - 1, blockSize, blockSize + 1, 2 * blockSize, 2*blockSize + 1, 3*blockSize + 2, longest, longest - 1, 23, 37}
	for _, g := range info.Groups {
		if window := g.Window; window > 0 {
			lengths = append(lengths, window-1, window, window+1, 2*window+1)
		}
	}
	lengths = append(lengths, lengths...) // once with the common beginning, once without
	ids := func(length int) []int32 {
		prompt := make([]int32, length)
		for i := range prompt {
			prompt[i] = rng.Int32N(int32(info.Vocab))
		}
		return prompt
	}
	common := ids(longest)
	var reqs []*request
	for i, length := range lengths {
		length = min(max(length, 1), longest)
		req := &request{prompt: ids(length), output: 1 + i%output, params: params(i, length, info.Vocab), masked: i%8 == 5}
		if i < len(lengths)/2 {
			copy(req.prompt, common[:max(length-1, 1)]) // the last token tells them apart
		}
		reqs = append(reqs, req)
	}
	return reqs
}

// params makes the i-th kind of parameters for a prompt of so many tokens. Penalties
// see pending ids, so they are there often.
func params(kind, prompt, vocab int) *sample.Params {
	top := min(3, vocab)
	kinds := []sample.Params{
		{Logprobs: true, TopLogprobs: top, PromptLogprobs: true, TopPromptLogprobs: top},
		{Temperature: 1, Logprobs: true, TopLogprobs: top},
		{RepetitionPenalty: 1.8, PresencePenalty: 2, FrequencyPenalty: 0.5, Logprobs: true},
		{Temperature: 0.8, TopK: 20, TopP: 0.9, PromptLogprobs: true},
		{Temperature: 1.5, MinP: 0.02, FrequencyPenalty: 2, RepetitionPenalty: 1.3, Logprobs: true, TopLogprobs: top},
		{LogitBias: map[int32]float32{int32(kind % vocab): 4}},
		{Temperature: 2, TopP: 0.99, Logprobs: true},
	}
	params := kinds[kind%len(kinds)]
	params.Seed, params.Prompt = uint64(kind)*0x9e3779b97f4a7c15, prompt
	return &params
}
