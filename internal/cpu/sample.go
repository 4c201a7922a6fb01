package cpu

import (
	"ossian/internal/cpu/kern"
	"ossian/internal/model"
	"ossian/internal/sample"
)

// Select implements model.Device.
func (d *Device) Select(dst, x model.Buf, from int) {
	d.op.dst, d.op.x, d.op.from = at(dst), at(x), from
	rows := min(len(d.op.dst.x)/d.op.dst.width, len(d.step.wanted)-from)
	d.each(rows, d.op.dst.width, d.run.pick)
	d.op.dst.wrote(rows)
}

// pickRow copies the activations of a token whose logits are wanted.
func (d *Device) pickRow(_, i int) {
	wanted := &d.step.wanted[d.op.from+i]
	copy(d.op.dst.row(i), d.op.x.row(int(d.step.first[wanted.row]+wanted.token)))
}

// Sample implements model.Device.
//
// A row's History may lack ids at its end that the host does not know yet. When
// penalties need them, they are filled in from the tokens of this step and from
// what the slot sampled in the last Depth steps; History, filled in, holds
// Start+Len ids.
func (d *Device) Sample(logits model.Buf, from int) {
	d.op.x, d.op.from = at(logits), from
	rows := d.op.x.rows
	d.each(rows, chunkElems, d.run.sample)
	result := d.results.next()
	for _, wanted := range d.step.wanted[from : from+rows] {
		if wanted.sample {
			row := &d.step.batch.Rows[wanted.row]
			d.results.remember(row.Slot, int32(row.Start+row.Len), result.ids[wanted.row])
		}
	}
}

// sampleRow scores a target or draws an id, whichever row i of the logits is for.
func (d *Device) sampleRow(worker, i int) {
	result := d.results.next()
	wanted := &d.step.wanted[d.op.from+i]
	index := int(wanted.row)
	row := &d.step.batch.Rows[index]
	logits := d.op.x.row(i)
	sampler := &d.workers[worker].sampler
	if !wanted.sample {
		score := &result.Scores[index][wanted.token]
		*score = sampler.Score(score.Logprobs[:0], logits, row.Targets[wanted.token], row.Params.TopPromptLogprobs)
		return
	}
	id := sampler.Pick(logits, row.Mask, row.Params, d.history(worker, index), row.OutputIndex)
	result.ids[index] = id
	result.Tokens[index] = result.ids[index : index+1 : index+1]
	if row.Params.Logprobs {
		result.logprobs[index] = sampler.Logprobs(result.logprobs[index], logits, id, row.Params.TopLogprobs)
	}
}

// weighIDs is sample.Weights, of which a kernel does most.
func (d *Device) weighIDs(keys []uint64, x []float32, w sample.Weighing) (n int, total uint64) {
	done, n, total := kern.Weights(d.opt.Level, keys, x, w.Top, w.Scale, w.Bound, w.Least, uint64(sample.MaxVocab-1-w.First))
	w.First += done
	more, sum := sample.Weights(keys[n:], x[done:], w)
	return n + more, total + sum
}

// history returns the history of a row with the ids that the host lacks.
func (d *Device) history(worker, index int) []int32 {
	row := &d.step.batch.Rows[index]
	need := row.Start + row.Len
	if !row.Params.Penalizes() || len(row.History) >= need {
		return row.History
	}
	ids := d.workers[worker].history[:need]
	// Behind what the host has come ids of steps under way, then those of this one.
	for pos := copy(ids, row.History); pos < need; pos++ {
		if pos >= row.Start {
			ids[pos] = d.step.tokens[int(d.step.first[index])+pos-row.Start]
			continue
		}
		id, ok := d.results.sampledAt(row.Slot, int32(pos))
		if !ok {
			return ids[:pos] // the host chose to pass no history
		}
		ids[pos] = id
	}
	return ids
}
