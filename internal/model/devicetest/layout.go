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
	b    *bench
	free [][]runner.BlockID // [group]
	seqs []sequence
}

type sequence struct {
	done   int                // computed tokens
	tables [][]runner.BlockID // [group]
}

// A span is the next n tokens of a sequence.
type span struct{ seq, n int }

func newLayout(b *bench, seqs int) *layout {
	l := &layout{b: b, seqs: make([]sequence, seqs)}
	for _, n := range b.lim.Blocks {
		ids := make([]runner.BlockID, n)
		for i, id := range b.rng.Perm(n) {
			ids[i] = runner.BlockID(id)
		}
		l.free = append(l.free, ids)
	}
	for i := range l.seqs {
		l.seqs[i].tables = make([][]runner.BlockID, len(l.free))
	}
	return l
}

// batch makes a step of the spans, one row each, with tokens of id 1.
func (l *layout) batch(spans []span) *runner.Batch {
	batch := &runner.Batch{}
	for _, sp := range spans {
		q := &l.seqs[sp.seq]
		for g := range q.tables {
			for len(q.tables[g])*l.b.lim.BlockSize < q.done+sp.n {
				last := len(l.free[g]) - 1
				q.tables[g] = append(q.tables[g], l.free[g][last])
				l.free[g] = l.free[g][:last]
			}
		}
		batch.Tokens = append(batch.Tokens, slices.Repeat([]int32{1}, sp.n)...)
		batch.Rows = append(batch.Rows, runner.Row{Slot: sp.seq, Start: q.done, Len: sp.n, Tables: q.tables,
			Sample: true, Params: &sample.Params{}})
	}
	return batch
}

// advance records that the batch has been computed.
func (l *layout) advance(batch *runner.Batch) {
	windows, _ := l.b.spec.Groups()
	for _, r := range batch.Rows {
		q := &l.seqs[r.Slot]
		q.done = r.Start + r.Len
		for g, w := range windows {
			for k := range runner.FirstBlock(q.done, w, l.b.lim.BlockSize) {
				if id := q.tables[g][k]; id != runner.NoBlock {
					q.tables[g][k] = runner.NoBlock
					l.free[g] = append(l.free[g], id)
				}
			}
		}
	}
}
