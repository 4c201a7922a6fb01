package devicetest

import (
	"slices"

	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A layout hands out KV blocks to sequences in random order. In windowed groups
// it takes blocks back as soon as no later token can see them, so that another
// sequence overwrites them, and leaves NoBlock behind.
type layout struct {
	bench *bench
	free  [][]runner.BlockID // [group]
	seqs  []sequence
}

// A sequence is how far one sequence has come, and its blocks.
type sequence struct {
	done   int                // computed tokens
	tables [][]runner.BlockID // [group]
}

// A span is the next n tokens of a sequence.
type span struct{ seq, n int }

// newLayout returns a layout of so many empty sequences.
func newLayout(bench *bench, seqs int) *layout {
	lay := &layout{bench: bench, seqs: make([]sequence, seqs)}
	for _, n := range bench.lim.Blocks {
		ids := make([]runner.BlockID, n)
		for i, id := range bench.rng.Perm(n) {
			ids[i] = runner.BlockID(id)
		}
		lay.free = append(lay.free, ids)
	}
	for i := range lay.seqs {
		lay.seqs[i].tables = make([][]runner.BlockID, len(lay.free))
	}
	return lay
}

// batch makes a step of the spans, one row each, with tokens of id 1.
func (l *layout) batch(spans []span) *runner.Batch {
	batch := &runner.Batch{}
	for _, sp := range spans {
		seq := &l.seqs[sp.seq]
		for group := range seq.tables {
			for len(seq.tables[group])*l.bench.lim.BlockSize < seq.done+sp.n {
				last := len(l.free[group]) - 1
				seq.tables[group] = append(seq.tables[group], l.free[group][last])
				l.free[group] = l.free[group][:last]
			}
		}
		batch.Tokens = append(batch.Tokens, slices.Repeat([]int32{1}, sp.n)...)
		batch.Rows = append(batch.Rows, runner.Row{Slot: sp.seq, Start: seq.done, Len: sp.n, Tables: seq.tables,
			Sample: true, Params: &sample.Params{}})
	}
	return batch
}

// advance records that the batch has been computed.
func (l *layout) advance(batch *runner.Batch) {
	windows, _ := l.bench.spec.Groups()
	for _, row := range batch.Rows {
		seq := &l.seqs[row.Slot]
		seq.done = row.Start + row.Len
		for group, window := range windows {
			for k := range runner.FirstBlock(seq.done, window, l.bench.lim.BlockSize) {
				if id := seq.tables[group][k]; id != runner.NoBlock {
					seq.tables[group][k] = runner.NoBlock
					l.free[group] = append(l.free[group], id)
				}
			}
		}
	}
}
