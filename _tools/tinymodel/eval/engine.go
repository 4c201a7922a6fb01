package main

import (
	"iter"
	"slices"

	"ossian/internal/ckpt"
	"ossian/internal/cpu"
	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
)

const (
	maxLen    = 2048 // tokens per sequence
	maxTokens = 1024 // per step
	blockSize = 16
	maxAnswer = 512 // tokens; the longest right answer has fewer than 300
)

// An engine answers many items at once, greedily.
type engine struct {
	m              *ckpt.Model
	run            runner.Runner
	seqs           int
	prompt, output int // tokens so far
	err            error
}

// A sequence is an item that is being answered.
type sequence struct {
	item   int
	ids    []int32 // prompt and answer
	prompt int     // tokens of it
	done   int     // tokens computed
}

func newEngine(m *ckpt.Model, cfg cpu.Config, seqs int) (*engine, error) {
	run, err := load(m, cfg, model.Limits{MaxSeqs: seqs, MaxTokens: maxTokens, MaxLen: maxLen, BlockSize: blockSize})
	return &engine{m: m, run: run, seqs: seqs}, err
}

// load gives every slot its own blocks in every group: the KV of a tiny model is small.
func load(m *ckpt.Model, cfg cpu.Config, lim model.Limits) (runner.Runner, error) {
	windows, _ := m.Spec.Groups()
	for range windows {
		lim.Blocks = append(lim.Blocks, lim.MaxSeqs*lim.MaxLen/lim.BlockSize)
	}
	d, err := cpu.New(m.Spec, lim, cfg)
	if err != nil {
		return nil, err
	}
	return model.NewDecoder(m.Spec, m.Params, d, lim, nil)
}

// tables names the blocks of a slot.
func tables(info runner.Info, slot int) [][]runner.BlockID {
	n := info.MaxLen / info.BlockSize
	blocks := make([]runner.BlockID, n)
	for i := range blocks {
		blocks[i] = runner.BlockID(slot*n + i)
	}
	return slices.Repeat([][]runner.BlockID{blocks}, len(info.Groups))
}

// answers yields the index of an item and the ids the model said, the stop id
// included, in the order in which answers end. It stops early when e.err is set.
func (e *engine) answers(items []item) iter.Seq2[int, []int32] {
	return func(yield func(int, []int32) bool) {
		slots := make([]*sequence, e.seqs)
		next := 0
		for {
			busy := false
			for i, s := range slots {
				if s == nil && next < len(items) {
					s = e.start(next, items[next].Prompt)
					slots[i] = s
					next++
				}
				busy = busy || s != nil
			}
			if !busy {
				return
			}
			if e.err = e.step(slots); e.err != nil {
				return
			}
			for i, s := range slots {
				if s == nil || !e.finished(s) {
					continue
				}
				slots[i] = nil
				if !yield(s.item, s.ids[s.prompt:]) {
					return
				}
			}
		}
	}
}

func (e *engine) start(item int, prompt string) *sequence {
	p := e.m.Tokenizer.Prompt()
	p.Markup(prompt)
	ids := p.IDs()
	e.prompt += len(ids)
	return &sequence{item: item, ids: ids, prompt: len(ids)}
}

func (e *engine) finished(s *sequence) bool {
	n := len(s.ids)
	return (n > s.prompt && slices.Contains(e.m.Stops, s.ids[n-1])) || n-s.prompt >= maxAnswer || n >= maxLen
}

// step gives every sequence that has room one token, or the next part of its prompt.
func (e *engine) step(slots []*sequence) error {
	var b runner.Batch
	var rows []*sequence
	for slot, s := range slots {
		room := maxTokens - len(b.Tokens)
		if s == nil || room == 0 {
			continue
		}
		n := min(len(s.ids)-s.done, room)
		b.Tokens = append(b.Tokens, s.ids[s.done:s.done+n]...)
		b.Rows = append(b.Rows, runner.Row{Slot: slot, Start: s.done, Len: n, Tables: tables(e.run.Info(), slot),
			Sample: s.done+n == len(s.ids), Params: &sample.Params{}, History: s.ids})
		s.done += n
		rows = append(rows, s)
	}
	if err := e.run.Launch(&b); err != nil {
		return err
	}
	res, err := e.run.Collect()
	if err != nil {
		return err
	}
	for i, s := range rows {
		if b.Rows[i].Sample {
			s.ids = append(s.ids, res.Tokens[i][0])
			e.output++
		}
	}
	return nil
}
