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

// Narrows implements model.Narrower.
func (d *Device) Narrows() {}

// pickRow copies the activations of a token whose logits are wanted.
func (d *Device) pickRow(_, i int) {
	wanted := &d.step.wanted[d.op.from+i]
	copy(d.op.dst.row(i), d.op.x.row(int(d.step.first[wanted.row]+wanted.token)))
}

// Sample implements model.Device.
//
// A row's History may lack ids at its end that the host does not know yet. When
// penalties need them, they are filled in from the tokens of this step and from
// what the slot sampled in the last Depth steps; History, filled in, holds the ids
// up to the token behind which is sampled.
func (d *Device) Sample(logits model.Buf, from int) {
	d.op.x, d.op.from = at(logits), from
	d.each(d.op.x.rows, chunkElems, d.run.sample)
}

// sampleRow scores a target or draws an id, whichever row i of the logits is for.
func (d *Device) sampleRow(worker, i int) {
	result, number := d.results.next(), d.op.from+i
	wanted := &d.step.wanted[number]
	row := &d.step.batch.Rows[wanted.row]
	logits := d.op.x.row(i)
	sampler := &d.workers[worker].sampler
	if wanted.place == forTarget {
		score := &result.Scores[wanted.row][wanted.token]
		*score = sampler.Score(score.Logprobs[:0], logits, row.Targets[wanted.token], row.Params.TopPromptLogprobs)
		return
	}
	place := int(wanted.place)
	id := sampler.Pick(logits, row.MaskAt(place), row.Params, d.history(worker, wanted), row.OutputIndex+uint64(place))
	result.drawn[number] = id
	if row.Params.Logprobs {
		result.likely[number] = sampler.Logprobs(result.likely[number][:0], logits, id, row.Params.TopLogprobs)
	}
}

// weighIDs is sample.Weights, of which a kernel does most.
func (d *Device) weighIDs(keys []uint64, x []float32, w sample.Weighing) (n int, total uint64) {
	done, n, total := kern.Weights(d.opt.Level, keys, x, w.Top, w.Scale, w.Bound, w.Least, uint64(sample.MaxVocab-1-w.First))
	w.First += done
	more, sum := sample.Weights(keys[n:], x[done:], w)
	return n + more, total + sum
}

// history returns the history of an output with the ids that the host lacks and the guesses.
func (d *Device) history(worker int, wanted *output) []int32 {
	index := int(wanted.row)
	row := &d.step.batch.Rows[index]
	need := row.Start + int(wanted.token) + 1
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
