package cpu

import (
	"ossian/internal/cpu/kern"
	"ossian/internal/model"
	"ossian/internal/sample"
)

// Select implements model.Device.
func (d *Device) Select(dst, x model.Buf, from int) {
	d.op.dst, d.op.x, d.op.from = at(dst), at(x), from
	n := min(len(d.op.dst.x)/d.op.dst.width, len(d.step.wanted)-from)
	d.each(n, d.op.dst.width, d.run.pick)
	d.op.dst.wrote(n)
}

func (d *Device) pickRow(_, i int) {
	w := &d.step.wanted[d.op.from+i]
	copy(d.op.dst.row(i), d.op.x.row(int(d.step.first[w.row]+w.token)))
}

// Sample implements model.Device.
//
// A row's History may lack ids at its end that the host does not know yet. When
// penalties need them, they are filled in from the tokens of this step and from
// what the slot sampled in the last Depth steps; History, filled in, holds
// Start+Len ids.
func (d *Device) Sample(logits model.Buf, from int) {
	d.op.x, d.op.from = at(logits), from
	n := d.op.x.rows
	d.each(n, chunkElems, d.run.sample)
	r := d.results.next()
	for _, w := range d.step.wanted[from : from+n] {
		if w.sample {
			row := &d.step.batch.Rows[w.row]
			d.results.remember(row.Slot, int32(row.Start+row.Len), r.ids[w.row])
		}
	}
}

func (d *Device) sampleRow(worker, i int) {
	r := d.results.next()
	w := &d.step.wanted[d.op.from+i]
	n := int(w.row)
	row := &d.step.batch.Rows[n]
	logits := d.op.x.row(i)
	s := &d.workers[worker].sampler
	if !w.sample {
		score := &r.Scores[n][w.token]
		*score = s.Score(score.Logprobs[:0], logits, row.Targets[w.token], row.Params.TopPromptLogprobs)
		return
	}
	id := s.Pick(logits, row.Mask, row.Params, d.history(worker, n), row.Step)
	r.ids[n] = id
	r.Tokens[n] = r.ids[n : n+1 : n+1]
	if row.Params.Logprobs {
		r.logprobs[n] = s.Logprobs(r.logprobs[n], logits, id, row.Params.TopLogprobs)
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
func (d *Device) history(worker, n int) []int32 {
	row := &d.step.batch.Rows[n]
	p := row.Params
	need := row.Start + row.Len
	penalised := p.FrequencyPenalty != 0 || p.PresencePenalty != 0 || (p.RepetitionPenalty != 0 && p.RepetitionPenalty != 1)
	if !penalised || len(row.History) >= need {
		return row.History
	}
	h := d.workers[worker].history[:need]
	for i := copy(h, row.History); i < need; i++ {
		if i >= row.Start {
			h[i] = d.step.tokens[int(d.step.first[n])+i-row.Start]
			continue
		}
		id, ok := d.results.sampledAt(row.Slot, int32(i))
		if !ok {
			return h[:i] // the host chose to pass no history
		}
		h[i] = id
	}
	return h
}
