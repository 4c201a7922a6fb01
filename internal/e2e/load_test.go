//go:build !card

// The tag card leaves the built-in model out, with which a program is too large to send to a machine
// with a GPU (_tools/cuda/gpu.sh).

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"ossian/internal/cpu"
	"ossian/internal/cpu/kern"
	"ossian/internal/engine"
	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/sched"
	"ossian/internal/soak"
	"ossian/internal/tensor"
)

// TestTinyUnderLoad is DET-1 and DET-2 on a real model and the real engine: 250 requests at once,
// for a release a thousand, with prefixes shared, blocks taken away and clients
// that leave, each get the tokens and log probabilities that they get alone.
func TestTinyUnderLoad(t *testing.T) {
	all := levels()
	best := all[len(all)-1]
	text := tinyText(t)
	for i, c := range []struct {
		cfg     cpu.Config
		jobs    int
		crowds  []crowd
		inShort bool
	}{
		{cpu.Config{ISA: best}, soak.Cases(t, 250, 1000), []crowd{
			{name: "crowd", threads: 2, seqs: 64, tokens: 256, block: 4, blocks: 120},
			{name: "one thread, short chunks, overlapping steps", jobs: 150, threads: 1, seqs: 24, tokens: 48, chunk: 7, block: 8, blocks: 40, depth: 2},
			{name: "few slots, no cache", jobs: 150, threads: 2, seqs: 5, tokens: 400, block: 16, blocks: 24, noCache: true},
		}, true},
		{cpu.Config{ISA: best, KV: tensor.F8_E4M3}, soak.Cases(t, 60, 100), []crowd{{name: "fp8", threads: 2, seqs: 32, tokens: 100, block: 4, blocks: 90}}, false},
		{cpu.Config{ISA: "go"}, soak.Cases(t, 8, 16), []crowd{{name: "plain Go", threads: 2, seqs: 12, tokens: 64, block: 4, blocks: 56}}, false},
	} {
		if testing.Short() {
			if !c.inShort {
				continue
			}
			c.jobs, c.crowds = 150, c.crowds[:1]
			c.crowds[0].blocks = 90
			if best == kern.Go.String() { // forty times slower
				c.jobs, c.crowds[0].blocks = 24, 70
			}
		}
		jobs := tinyJobs(rand.New(rand.NewPCG(uint64(i), 4)), text, openTiny(t).Stops, c.jobs)
		runAlone(t, jobs, c.cfg)
		for k, crowd := range c.crowds {
			t.Run(crowd.name, func(t *testing.T) {
				crowd.run(t, jobs, c.cfg, rand.New(rand.NewPCG(uint64(i), uint64(100+k))))
			})
		}
	}
}

// tinyText returns ids of 1500 tokens of ossian-tiny's conversations.
func tinyText(t *testing.T) []int32 {
	t.Helper()
	text, err := os.ReadFile("../tiny/testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	return g.IDs
}

// A job is a request with what it gets alone.
type job struct {
	engine.Request
	alone  []engine.Token
	finish sched.Finish
}

// tinyJobs takes prompts from text: some begin like others, some are longer than the
// window of 128 tokens.
func tinyJobs(rng *rand.Rand, text, stops []int32, n int) []job {
	common := []int{1, 20, 40, 140}
	params := []sample.Params{
		{},
		{Logprobs: true, TopLogprobs: 3},
		{Temperature: 1},
		{Temperature: 0.7, TopP: 0.9, TopK: 40, Logprobs: true},
		{Temperature: 1.2, MinP: 0.02, RepetitionPenalty: 1.1, FrequencyPenalty: 0.3, PresencePenalty: 0.2},
	}
	var out []job
	for range n {
		var prompt []int32
		if rng.IntN(3) > 0 {
			prompt = append(prompt, text[:common[rng.IntN(len(common))]]...)
		}
		from := rng.IntN(len(text) - 80)
		prompt = append(prompt, text[from:from+1+rng.IntN(40)]...)
		if rng.IntN(4) == 0 {
			prompt[rng.IntN(len(prompt))] = rng.Int32N(1000) // what follows is as before and means something else
		}
		q := engine.Request{Tokens: prompt, MaxTokens: 1 + rng.IntN(32), Params: params[rng.IntN(len(params))],
			Tenant: rng.Uint32N(3), Priority: rng.IntN(2), Salt: rng.Uint64N(2)}
		q.Params.Seed, q.Params.Prompt = rng.Uint64(), len(prompt)
		if rng.IntN(2) == 0 {
			q.Stops = stops
		}
		out = append(out, job{Request: q})
	}
	return out
}

// tinyRunner returns a runner for sequences of up to 256 tokens with so many blocks
// for each group of layers.
func tinyRunner(t *testing.T, cfg cpu.Config, lim model.Limits, blocks int) runner.Runner {
	t.Helper()
	m := openTiny(t)
	windows, _ := m.Spec.Groups()
	lim.MaxLen, lim.Blocks = 256, slices.Repeat([]int{blocks}, len(windows))
	d, err := cpu.New(m.Spec, lim, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.NewDecoder(m.Spec, m.Params, d, lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// runAlone fills in what jobs get from a runner that has one sequence and no
// scheduler.
func runAlone(t *testing.T, jobs []job, cfg cpu.Config) {
	t.Helper()
	cfg.Threads = 1
	var wg sync.WaitGroup
	for half := range 2 {
		r := tinyRunner(t, cfg, model.Limits{MaxSeqs: 1, MaxTokens: 256, BlockSize: blockSize}, 16)
		wg.Go(func() {
			for i := half; i < len(jobs); i += 2 {
				if err := jobs[i].run(r); err != nil {
					t.Error(err)
				}
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// run generates: the prompt whole, then token by token.
func (j *job) run(r runner.Runner) error {
	info := r.Info()
	row := runner.Row{Sample: true, Params: &j.Params}
	for _, g := range info.Groups {
		table := make([]runner.BlockID, g.Blocks)
		for i := range table {
			table[i] = runner.BlockID(i)
		}
		row.Tables = append(row.Tables, table)
	}
	history := slices.Clone(j.Tokens)
	for j.finish == sched.FinishNone {
		row.OutputIndex, row.History, row.Len = uint64(len(j.alone)), history, len(history)-row.Start
		b := &runner.Batch{Tokens: history[row.Start:], Rows: []runner.Row{row}}
		if err := errors.Join(runner.Check(b, info), r.Launch(b)); err != nil {
			return err
		}
		res, err := r.Collect()
		if err != nil {
			return err
		}
		id := res.Tokens[0][0]
		token := engine.Token{ID: id}
		if j.Params.Logprobs {
			token.Logprobs = slices.Clone(res.Logprobs[0])
		}
		j.alone, row.Start, history = append(j.alone, token), len(history), append(history, id)
		switch {
		case slices.Contains(j.Stops, id):
			j.finish = sched.FinishStop
		case len(j.alone) == j.MaxTokens:
			j.finish = sched.FinishLength
		}
	}
	return nil
}

// A crowd is jobs at the same time, and how they are served.
type crowd struct {
	name           string
	jobs           int // the first ones; 0 = all
	threads, depth int
	seqs, tokens   int // of a step
	chunk          int // tokens of a prompt in a step
	block, blocks  int // tokens of a block, blocks for each group of layers
	noCache        bool
}

// run submits jobs in random order. One client in four leaves, before or
// while tokens come.
func (c crowd) run(t *testing.T, jobs []job, cfg cpu.Config, rng *rand.Rand) {
	if c.jobs > 0 {
		jobs = jobs[:min(c.jobs, len(jobs))]
	}
	cfg.Threads = c.threads
	r := tinyRunner(t, cfg, model.Limits{MaxSeqs: c.seqs, MaxTokens: c.tokens, BlockSize: c.block, Depth: c.depth}, c.blocks)
	e, err := engine.New(r, engine.Config{Stall: time.Hour, Sched: sched.Config{ChunkLimit: c.chunk, NoPrefixCache: c.noCache}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- e.Run(context.Background()) }()
	var clients sync.WaitGroup
	var mu sync.Mutex
	aborted := map[bool]int{} // had it got a token?
	for _, i := range rng.Perm(len(jobs)) {
		j, stay := &jobs[i], -1
		switch i % 8 {
		case 0:
			stay = 0
		case 4:
			stay = 1 + rng.IntN((len(j.alone)+1)/2)
		}
		ctx, leave := context.WithCancel(t.Context())
		s, err := e.Submit(ctx, j.Request)
		if err != nil {
			t.Fatal(err)
		}
		if stay >= 0 && rng.IntN(2) == 0 {
			leave = s.Stop
		}
		if stay == 0 {
			leave()
		}
		clients.Go(func() {
			defer leave()
			got, err := receive(s, stay, leave)
			finish, _, _ := s.End()
			want := j.alone
			switch {
			case finish == sched.FinishAbort && stay >= 0 && len(got) >= stay && len(got) <= len(want):
				want = want[:len(got)]
				mu.Lock()
				aborted[len(got) > 0]++
				mu.Unlock()
			case finish != j.finish:
				t.Errorf("job %d ended with %v, alone with %v", i, finish, j.finish)
			}
			if err != io.EOF || !reflect.DeepEqual(got, want) {
				t.Errorf("job %d: got %v, %v\nalone %v", i, got, err, want)
			}
		})
	}
	clients.Wait()
	st := e.Stats()
	if err := errors.Join(e.Drain(context.Background()), <-ended); err != nil {
		t.Error(err)
	}
	t.Logf("DET-1 and DET-2: %d requests of ossian-tiny, 0 mismatches: %d steps, %d preemptions, %d of %d prompt tokens cached, %d left without a token, %d later",
		len(jobs), st.Steps, st.Preemptions, st.CacheHits, st.CacheQueries, aborted[false], aborted[true])
	if st.Preemptions < uint64(len(jobs)/100) || (st.CacheHits == 0) != c.noCache || aborted[false] == 0 || aborted[true] == 0 {
		t.Error("too few preemptions, no cached prefix, or no client that left before or after its first token: this run shows nothing")
	}
}

// receive returns what s brings. After so many tokens, unless negative, it leaves.
func receive(s *engine.Stream, stay int, leave func()) ([]engine.Token, error) {
	got := []engine.Token{}
	for {
		if stay > 0 && len(got) >= stay {
			leave()
		}
		out, err := s.Recv(context.Background())
		if err != nil {
			return got, err
		}
		got = append(got, out...)
	}
}
