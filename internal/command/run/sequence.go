package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ossian/internal/chat"
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
	mask   []uint64           // of the next id: scratch
	high   int                // positions written since position 0 was: what rings have overwritten depends on it
}

func newSequence(run runner.Runner) *sequence {
	info := run.Info()
	return &sequence{run: run, info: info, tables: load.Tables(info)}
}

// A generation is what to produce and how.
type generation struct {
	Prompt   []int32
	Max      int // most tokens to produce
	Stops    []int32
	Params   sample.Params
	Mask     []uint64              // ids that may ever come; nil = all
	Held     chat.Constraint       // what may come next, of these; nil = all. It is told of ids, but not of a last one
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
	common := 0
	// The last id of a prompt is always computed: what follows it is asked for.
	for common < len(s.cached) && common < len(prompt)-1 && s.cached[common] == prompt[common] {
		common++
	}
	for _, group := range s.info.Groups {
		oldest := s.high - group.Blocks*s.info.BlockSize // lower positions may be overwritten
		if runner.FirstBlock(common, group.Window, s.info.BlockSize)*s.info.BlockSize < oldest {
			return 0
		}
	}
	return common
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
	took := timing{Prompt: len(gen.Prompt), Cached: s.reuse(gen.Prompt)}
	s.cached = s.cached[:took.Cached]
	if took.Cached == 0 { // rings are written from their beginning
		s.high = 0
	}
	gen.Params.Prompt = len(gen.Prompt)
	history := slices.Clone(gen.Prompt)
	for step := uint64(0); ; step++ {
		mask, err := s.allowed(&gen)
		if err != nil {
			return took, err
		}
		id, lp, err := s.extend(ctx, history, step, &gen, mask)
		if err != nil || id < 0 {
			return took, err
		}
		// The id counts even if nothing may follow it. Its keys and values are computed with
		// the next one, if there is one.
		took.Output++
		if step == 0 {
			took.First = time.Since(start)
		}
		took.Decode = time.Since(start) - took.First
		if over := gen.Emit(id, lp); over || slices.Contains(gen.Stops, id) {
			took.Stopped = true
			return took, nil
		}
		history = append(history, id)
		if took.Output >= gen.Max || len(history) >= s.info.MaxLen || ctx.Err() != nil {
			return took, nil
		}
		if gen.Held != nil {
			if err := gen.Held.Accept(id); err != nil {
				return took, err
			}
		}
	}
}

// allowed returns the ids that may come next; nil = all. It holds until the next call.
func (s *sequence) allowed(gen *generation) ([]uint64, error) {
	if gen.Held == nil {
		return gen.Mask, nil
	}
	if s.mask == nil {
		s.mask = make([]uint64, (s.info.Vocab+63)/64)
	}
	if err := gen.Held.Mask(s.mask); err != nil {
		return nil, err
	}
	for word := range gen.Mask {
		s.mask[word] &= gen.Mask[word]
	}
	if unused := s.info.Vocab % 64; unused > 0 { // bits beyond the vocabulary
		s.mask[len(s.mask)-1] &= 1<<unused - 1
	}
	if slices.Max(s.mask) == 0 {
		return nil, errors.New("the format of the model leaves no token to choose")
	}
	return s.mask, nil
}

// extend computes the tokens of history that are not cached, in steps of at most
// MaxTokens, and returns the id of mask that follows, or -1 when ctx ended before.
func (s *sequence) extend(ctx context.Context, history []int32, step uint64, gen *generation, mask []uint64) (int32, []sample.Logprob, error) {
	for {
		// A step of one row. Only behind the last token is there something to choose.
		from := len(s.cached)
		count := min(len(history)-from, s.info.MaxTokens)
		last := from+count == len(history)
		s.high = max(s.high, from+count)
		row := runner.Row{Start: from, Len: count, Tables: s.tables, Sample: last, OutputIndex: step,
			Params: &gen.Params, History: history, Mask: mask}
		if err := s.run.Launch(&runner.Batch{Tokens: history[from : from+count], Rows: []runner.Row{row}}); err != nil {
			return -1, nil, err
		}
		result, err := s.run.Collect()
		if err != nil {
			return -1, nil, err
		}
		s.cached = append(s.cached, history[from:from+count]...)
		if step == 0 && gen.Progress != nil {
			gen.Progress(len(s.cached), len(history))
		}
		if last {
			var lp []sample.Logprob
			if result.Logprobs != nil {
				lp = result.Logprobs[0]
			}
			return result.Tokens[0][0], lp, nil
		}
		if ctx.Err() != nil {
			return -1, nil, nil
		}
	}
}
