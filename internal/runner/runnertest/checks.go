package runnertest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"ossian/internal/runner"
	"ossian/internal/sample"
)

// checkInfo wants an Info that makes sense.
func (s *suite) checkInfo() error {
	return s.with(func(r runner.Runner) error { return checkInfo(r.Info()) })
}

func checkInfo(info runner.Info) error {
	switch {
	case info.Name == "":
		return fmt.Errorf("no name")
	case info.Vocab < 1 || info.Vocab > sample.MaxVocab:
		return fmt.Errorf("vocabulary of %d", info.Vocab)
	case info.BlockSize < 1 || info.MaxSeqs < 1 || info.MaxTokens < 1 || info.MaxLen < 1 || info.Depth < 1 || info.Lookahead < 0:
		return fmt.Errorf("%+v: numbers must be positive", info)
	case len(info.Groups) == 0:
		return fmt.Errorf("no KV groups")
	}
	for number, group := range info.Groups {
		if group.Window < 0 || group.Blocks*info.BlockSize < info.MaxLen {
			return fmt.Errorf("group %d: %+v does not hold one sequence of %d tokens", number, group, info.MaxLen)
		}
	}
	return nil
}

// checkOrder wants errors for collecting nothing and for launching beyond Depth,
// and results in the order of launches.
func (s *suite) checkOrder() error {
	return s.with(func(r runner.Runner) error {
		if _, err := r.Collect(); err == nil {
			return fmt.Errorf("collecting without a launched batch gives no error")
		}
		info := r.Info()
		params := &sample.Params{Logprobs: true}
		step := func(id int32) *runner.Batch {
			row := runner.Row{Len: 1, Sample: true, Params: params, History: []int32{id}}
			for range info.Groups {
				row.Tables = append(row.Tables, []runner.BlockID{0})
			}
			return &runner.Batch{Tokens: []int32{id}, Rows: []runner.Row{row}}
		}
		// What each batch gives by itself says later whose result came.
		var alone []trace
		for id := range int32(info.Depth) {
			got, err := newDriver(r, knobs{}, 0).run([]*request{{prompt: []int32{id}, output: 1, params: params}})
			if err != nil {
				return err
			}
			alone = append(alone, got...)
		}
		// Depth launches, one too many, then the results in order.
		for id := range int32(info.Depth) {
			if err := r.Launch(step(id)); err != nil {
				return fmt.Errorf("launch %d of %d: %w", id+1, info.Depth, err)
			}
		}
		if err := r.Launch(step(0)); err == nil {
			return fmt.Errorf("launching %d batches at depth %d gives no error", info.Depth+1, info.Depth)
		}
		for i := range alone {
			res, err := r.Collect()
			if err != nil {
				return fmt.Errorf("collect %d of %d: %w", i+1, info.Depth, err)
			}
			if err := checkShape(step(0), res, info); err != nil {
				return fmt.Errorf("collect %d of %d: %w", i+1, info.Depth, err)
			}
			got := trace{ids: res.Tokens[0][:1], logprobs: [][]sample.Logprob{res.Logprobs[0][:1]}}
			if err := compare(got, alone[i], false); err != nil {
				return fmt.Errorf("collect %d of %d: %w", i+1, info.Depth, err)
			}
		}
		return nil
	})
}

// checkRepeat wants the same from a second runner.
func (s *suite) checkRepeat() error {
	return s.with(func(r runner.Runner) error { return s.each(r, knobs{}) })
}

// checkSampling compares chosen ids with what sample.Pick chooses from the log
// probabilities of all ids. They are logits but for a constant, which only the
// repetition penalty notices, and for rounding, which may decide one draw.
func (s *suite) checkSampling() error {
	return s.with(func(r runner.Runner) error {
		info := r.Info()
		prompt := s.requests[0].prompt
		output := min(40, info.MaxLen-len(prompt))
		for kind, params := range []sample.Params{
			{},
			{PresencePenalty: 1.5, FrequencyPenalty: 0.7},
			{Temperature: 1},
			{Temperature: 1, Seed: 1 << 40},
			{Temperature: 0.7, TopK: 20, TopP: 0.9, Seed: 5},
			{Temperature: 1.2, MinP: 0.05, PresencePenalty: 1, FrequencyPenalty: 0.7, LogitBias: map[int32]float32{1: 3}, Seed: 6},
		} {
			params.Prompt, params.Logprobs, params.TopLogprobs = len(prompt), true, info.Vocab
			got, err := newDriver(r, knobs{}, 0).run([]*request{{prompt: prompt, output: output, params: &params}})
			if err != nil {
				return err
			}
			// Each id again, from log probabilities that are as good as logits.
			history, differ := slices.Clone(prompt), 0
			for step, id := range got[0].ids {
				logits := make([]float32, info.Vocab)
				for _, logprob := range got[0].logprobs[step][1:] {
					logits[logprob.ID] = logprob.Logprob
				}
				if sample.Pick(logits, nil, &params, history, uint64(step)) != id {
					differ++
				}
				history = append(history, id)
			}
			if differ > 1 {
				return fmt.Errorf("parameters %d (%+v): %d of %d ids are not what sample.Pick chooses", kind, params, differ, output)
			}
		}
		return nil
	})
}

// checkPrompts compares scores with the log probabilities that a row gives when it
// samples in the same place. What the parameters do to sampling does not concern them.
func (s *suite) checkPrompts() error {
	return s.with(func(r runner.Runner) error {
		info := r.Info()
		prompt := s.requests[0].prompt
		for _, req := range s.requests {
			if len(req.prompt) > len(prompt) && len(req.prompt) <= 3*info.BlockSize+2 {
				prompt = req.prompt
			}
		}
		// What a row says about its next id, where each beginning of the prompt ends.
		var all [][]sample.Logprob // [position], most likely first
		for i := range prompt {
			got, err := newDriver(r, knobs{}, 0).run([]*request{{prompt: prompt[:i+1], output: 1, params: &sample.Params{Logprobs: true, TopLogprobs: info.Vocab}}})
			if err != nil {
				return err
			}
			all = append(all, got[0].logprobs[0][1:])
		}
		for _, top := range []int{0, 1, info.Vocab} {
			params := &sample.Params{Temperature: 1.5, TopK: 2, RepetitionPenalty: 2, LogitBias: map[int32]float32{prompt[0]: 50}, PromptLogprobs: true, TopPromptLogprobs: top}
			got, err := newDriver(r, knobs{chunk: 3}, 0).run([]*request{{prompt: prompt, output: 1, params: params}})
			if err != nil {
				return err
			}
			// The same ids as targets of the whole prompt, in chunks.
			var want trace
			for i, id := range prompt[1:] {
				place := slices.IndexFunc(all[i], func(logprob sample.Logprob) bool { return logprob.ID == id })
				want.scores = append(want.scores, sample.Score{Rank: place + 1, Logprobs: append([]sample.Logprob{all[i][place]}, all[i][:top]...)})
			}
			got[0].ids = nil
			if err := compare(got[0], want, false); err != nil {
				return fmt.Errorf("prompt of %d, %d alternatives, sampled instead of alone: %w", len(prompt), top, err)
			}
		}
		return nil
	})
}

// checkChunks cuts prompts around the size of a block, and at random.
func (s *suite) checkChunks() error {
	return s.with(func(r runner.Runner) error {
		bs := r.Info().BlockSize
		for _, chunk := range []int{1, 2, 3, bs - 1, bs, bs + 1, 7, -1} {
			if chunk == 0 {
				continue // blocks of one token
			}
			if err := s.each(r, knobs{chunk: chunk}); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkTables takes blocks in any order.
func (s *suite) checkTables() error {
	return s.with(func(r runner.Runner) error {
		if err := s.each(r, knobs{blocks: shuffle, chunk: -1}); err != nil {
			return err
		}
		_, err := s.together(r, knobs{blocks: shuffle}, 1, s.all()) // whose blocks lie between each other
		return err
	})
}

// checkPoison fills every block of every group with other tokens first.
func (s *suite) checkPoison() error {
	return s.with(func(r runner.Runner) error {
		if err := poison(r); err != nil {
			return err
		}
		return s.each(r, knobs{chunk: 5})
	})
}

// poison writes to every block: sequences take the blocks in order, one after
// another, until there were more than the largest pool has.
func poison(r runner.Runner) error {
	info := r.Info()
	rng := rand.New(rand.NewPCG(4, 5))
	filler := newDriver(r, knobs{}, 0)
	length := min(info.MaxTokens, info.MaxLen-1)
	var requests []*request
	// Until all sequences together took twice the blocks of the largest pool.
	for left := 0; ; left += length / info.BlockSize {
		if !slices.ContainsFunc(info.Groups, func(g runner.Group) bool { return left < 2*g.Blocks }) {
			break
		}
		req := &request{output: 1, params: &sample.Params{}}
		for range length {
			req.prompt = append(req.prompt, rng.Int32N(int32(info.Vocab)))
		}
		requests = append(requests, req)
	}
	_, err := filler.run(requests)
	return err
}

// checkWindows gives blocks behind a window to others at once.
func (s *suite) checkWindows() error {
	return s.with(func(r runner.Runner) error {
		for _, chunk := range []int{1, 3, -1} {
			if _, err := s.together(r, knobs{chunk: chunk, blocks: lifo}, 0, s.all()); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkPrefix lets sequences with the same beginning share blocks.
func (s *suite) checkPrefix() error {
	return s.with(func(r runner.Runner) error {
		shared := 0
		for _, chosen := range []knobs{{}, {chunk: 3}, {chunk: 6, blocks: shuffle}} {
			chosen.share, chosen.stagger = true, true
			for first := range s.requests { // twice the same, then one with the same beginning
				driver, err := s.together(r, chosen, uint64(first), []int{first, first, (first + 1) % len(s.requests)})
				if err != nil {
					return err
				}
				shared += driver.shared
			}
		}
		if shared == 0 {
			return fmt.Errorf("nothing was shared: blocks of %d tokens are too large for this suite", r.Info().BlockSize)
		}
		return nil
	})
}

// checkSlots runs everything in one slot and drops every fourth request halfway.
func (s *suite) checkSlots() error {
	return s.with(func(r runner.Runner) error {
		for seed := range uint64(3) {
			if _, err := s.together(r, knobs{slots: 1, aborts: true, chunk: 4, blocks: policy(seed), depth: r.Info().Depth}, seed, s.all()); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkNeighbours runs each request beside one other, and in a full batch.
func (s *suite) checkNeighbours() error {
	return s.with(func(r runner.Runner) error {
		for first := range s.requests {
			for _, mates := range []int{1, r.Info().MaxSeqs - 1} {
				which := []int{first}
				for i := range mates {
					which = append(which, (first*5+i*3+1)%len(s.requests))
				}
				for range 2 { // first and last in the batch
					if _, err := s.together(r, knobs{}, 0, which); err != nil {
						return err
					}
					slices.Reverse(which)
				}
			}
		}
		return nil
	})
}

// checkPending launches ahead of results, as deep as the runner goes.
func (s *suite) checkPending() error {
	return s.with(func(r runner.Runner) error {
		for depth := 1; depth <= r.Info().Depth; depth++ {
			if err := s.each(r, knobs{depth: depth}); err != nil {
				return err
			}
			for seed := range uint64(3) {
				chosen := knobs{depth: depth, chunk: 9, skip: seed > 0} // with skip a row changes its place
				if _, err := s.together(r, chosen, seed, s.all()); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// checkGuesses lets rows carry guesses: SPC-1. Those that hold, those that do not from each place
// on, and any; alone, beside others, at any depth, in blocks that others take over (SPC-2). A
// runner that takes none has nothing to show.
func (s *suite) checkGuesses() error {
	return s.with(func(r runner.Runner) error {
		info, held, refused := r.Info(), 0, 0
		if info.Lookahead == 0 {
			return nil
		}
		for number := range s.requests {
			for wrong := range info.Lookahead + 1 { // the last: all hold
				driver, err := s.together(r, knobs{guess: info.Lookahead, wrong: wrong}, uint64(number), []int{number})
				if err != nil {
					return err
				}
				held, refused = held+driver.held, refused+driver.refused
			}
		}
		for seed := range uint64(s.guessed) { // who comes later takes over blocks of the first
			driver, err := s.schedule(r, seed, true)
			if err != nil {
				return fmt.Errorf("schedule %d: %w", seed, err)
			}
			held, refused = held+driver.held, refused+driver.refused
		}
		if least := 100 * s.guessed / guessed; held < least || refused < least {
			return fmt.Errorf("%d guesses held, %d rows had some that did not: too few to show anything", held, refused)
		}
		return nil
	})
}

// checkSchedules is DET-1: anything at once.
func (s *suite) checkSchedules() error {
	return s.with(func(r runner.Runner) error {
		for seed := range uint64(s.schedules) {
			if _, err := s.schedule(r, seed, seed%2 == 0); err != nil {
				return fmt.Errorf("schedule %d: %w", seed, err)
			}
		}
		s.t.Logf("DET-1: %d random schedules on %s, 0 mismatches", s.schedules, r.Info().Name)
		return nil
	})
}

// schedule runs the random schedule of a seed, with guesses or without.
func (s *suite) schedule(r runner.Runner, seed uint64, guess bool) (*driver, error) {
	info, rng := r.Info(), rand.New(rand.NewPCG(seed, 6))
	// Everything at random: which requests, how many, and how they are run.
	which, half := make([]int, 3+rng.IntN(6)), 1+rng.IntN(2) // the first half has a common beginning
	for i := range which {
		which[i] = rng.IntN(len(s.requests) / half)
	}
	chosen := knobs{depth: 1 + rng.IntN(info.Depth), chunk: []int{-1, 0, 1, 3, 11}[rng.IntN(5)], slots: 1 + rng.IntN(info.MaxSeqs),
		blocks: policy(rng.IntN(3)), share: rng.IntN(4) > 0, stagger: rng.IntN(2) == 0, skip: true, aborts: rng.IntN(2) == 0}
	if guess {
		chosen.guess, chosen.wrong = -1, -1
	}
	return s.together(r, chosen, seed, which)
}
