package cpu

import (
	"ossian/internal/model"
)

// Last implements model.Device.
func (d *Device) Last(dst, x model.Buf) {
	d.op.dst, d.op.x = at(dst), at(x)
	n := len(d.step.samples)
	d.each(n, d.op.dst.width, d.run.last)
	d.op.dst.wrote(n)
}

func (d *Device) lastRow(_, i int) {
	row := d.step.samples[i]
	last := int(d.step.first[row]) + d.step.batch.Rows[row].Len - 1
	copy(d.op.dst.row(i), d.op.x.row(last))
}

// Sample implements model.Device.
//
// A row's History may lack ids at its end that the host does not know yet. When
// penalties need them, they are filled in from the tokens of this step and from
// what the slot sampled in the last Depth steps; History, filled in, holds
// Start+Len ids.
func (d *Device) Sample(logits model.Buf) {
	d.op.x = at(logits)
	r := d.results.next()
	rows := d.step.batch.Rows
	for i := range rows {
		if rows[i].Sample && rows[i].Params.Logprobs {
			r.Logprobs = r.logprobs[:len(rows)]
		}
	}
	for i := range r.Logprobs {
		r.logprobs[i] = r.logprobs[i][:0]
	}
	d.each(len(d.step.samples), chunkElems, d.run.sample)
	for _, i := range d.step.samples {
		d.results.remember(rows[i].Slot, int32(rows[i].Start+rows[i].Len), r.ids[i])
	}
}

func (d *Device) sampleRow(worker, i int) {
	r := d.results.next()
	n := int(d.step.samples[i])
	row := &d.step.batch.Rows[n]
	logits := d.op.x.row(i)
	s := &d.workers[worker].sampler
	id := s.Pick(logits, row.Mask, row.Params, d.history(worker, n), row.Step)
	r.ids[n] = id
	r.Tokens[n] = r.ids[n : n+1 : n+1]
	if row.Params.Logprobs {
		r.logprobs[n] = s.Logprobs(r.logprobs[n], logits, id, row.Params.TopLogprobs)
	}
}

// history returns the history of a row with the ids that the host lacks.
func (d *Device) history(worker, n int) []int32 {
	row := &d.step.batch.Rows[n]
	p := row.Params
	need := row.Start + row.Len
	penalised := p.FrequencyPenalty != 0 || p.PresencePenalty != 0 || p.RepetitionPenalty != 0 && p.RepetitionPenalty != 1
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
