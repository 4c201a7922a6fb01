package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ossian/internal/load"
	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A sequence drives one sequence through a runner: prompts in, ids out, the KV
// of what was said before kept. It is used by one goroutine.
type sequence struct {
	run    runner.Runner
	info   runner.Info
	tables [][]runner.BlockID // of all blocks, see load.Tables
	cached []int32            // tokens whose KV is in the pools
	high   int                // positions written since position 0 was: what rings have overwritten depends on it
}

func newSequence(r runner.Runner) *sequence {
	info := r.Info()
	return &sequence{run: r, info: info, tables: load.Tables(info)}
}

// A generation is what to produce and how.
type generation struct {
	Prompt   []int32
	Max      int // most tokens to produce
	Stops    []int32
	Params   sample.Params
	Mask     []uint64              // allowed ids; nil = all
	Progress func(done, total int) // called after each prefill chunk; may be nil
	// Emit is called for every id, the stop id too, and reports whether it is the last.
	Emit func(id int32, lp []sample.Logprob) (over bool)
}

// A timing is what one generation took.
type timing struct {
	Prompt, Cached, Output int // tokens
	Stopped                bool
	First                  time.Duration // from the call to the first id
	Decode                 time.Duration // from the first id to the last
}

// reuse returns how many leading tokens of prompt need no computing: the common
// prefix with what is cached, if no windowed pool has overwritten what it needs.
func (s *sequence) reuse(prompt []int32) int {
	n := 0
	for n < len(s.cached) && n < len(prompt)-1 && s.cached[n] == prompt[n] {
		n++
	}
	for _, g := range s.info.Groups {
		oldest := s.high - g.Blocks*s.info.BlockSize // lower positions may be overwritten
		if runner.FirstBlock(n, g.Window, s.info.BlockSize)*s.info.BlockSize < oldest {
			return 0
		}
	}
	return n
}

// errContextFull is returned by generate for a prompt that leaves no room.
var errContextFull = errors.New("the context is full")

// generate computes the prompt and then one id after another until a stop id,
// the limit, the end of the context or the end of ctx, which is not an error: what
// was said so far stands.
func (s *sequence) generate(ctx context.Context, gen generation) (timing, error) {
	start := time.Now()
	if len(gen.Prompt) == 0 {
		return timing{}, fmt.Errorf("the prompt is empty: the model needs at least one token")
	}
	if len(gen.Prompt) >= s.info.MaxLen {
		return timing{}, fmt.Errorf("%w: the prompt has %d tokens, the context holds %d and must leave room for an answer: shorten it or raise --max-model-len", errContextFull, len(gen.Prompt), s.info.MaxLen)
	}
	tm := timing{Prompt: len(gen.Prompt), Cached: s.reuse(gen.Prompt)}
	s.cached = s.cached[:tm.Cached]
	if tm.Cached == 0 {
		s.high = 0
	}
	gen.Params.Prompt = len(gen.Prompt)
	history := slices.Clone(gen.Prompt)
	for step := uint64(0); ; step++ {
		id, lp, err := s.extend(ctx, history, step, &gen)
		if err != nil || id < 0 {
			return tm, err
		}
		tm.Output++
		if step == 0 {
			tm.First = time.Since(start)
		}
		tm.Decode = time.Since(start) - tm.First
		if over := gen.Emit(id, lp); over || slices.Contains(gen.Stops, id) {
			tm.Stopped = true
			return tm, nil
		}
		history = append(history, id)
		if tm.Output >= gen.Max || len(history) >= s.info.MaxLen || ctx.Err() != nil {
			return tm, nil
		}
	}
}

// extend computes the tokens of history that are not cached, in steps of at most
// MaxTokens, and returns the id that follows, or -1 when ctx ended before.
func (s *sequence) extend(ctx context.Context, history []int32, step uint64, gen *generation) (int32, []sample.Logprob, error) {
	for {
		from := len(s.cached)
		n := min(len(history)-from, s.info.MaxTokens)
		last := from+n == len(history)
		s.high = max(s.high, from+n)
		row := runner.Row{Start: from, Len: n, Tables: s.tables, Sample: last, Step: step,
			Params: &gen.Params, History: history, Mask: gen.Mask}
		if err := s.run.Launch(&runner.Batch{Tokens: history[from : from+n], Rows: []runner.Row{row}}); err != nil {
			return -1, nil, err
		}
		res, err := s.run.Collect()
		if err != nil {
			return -1, nil, err
		}
		s.cached = append(s.cached, history[from:from+n]...)
		if step == 0 && gen.Progress != nil {
			gen.Progress(len(s.cached), len(history))
		}
		if last {
			var lp []sample.Logprob
			if res.Logprobs != nil {
				lp = res.Logprobs[0]
			}
			return res.Tokens[0][0], lp, nil
		}
		if ctx.Err() != nil {
			return -1, nil, nil
		}
	}
}
