package cpu

import (
	"errors"
	"math"

	"ossian/internal/cpu/kern"
	"ossian/internal/model"
)

// experts are the buffers of a mixture layer. Pair t·TopK+j is token t at the
// j-th of its experts.
type experts struct {
	whole [1]kern.Job // all rows, matrix 0

	wide  buf       // [T·TopK, max(2·Inner, Hidden)] gate and up of each pair, later the expert's output
	inner buf       // [T·TopK, Inner]
	acts  kern.Acts // of inner

	count []int32 // [Experts] pairs per expert
	token []int32 // [T·TopK] tokens in the order of experts
	pair  []int32 // [T·TopK] their pairs
	up    []kern.Job
	down  []kern.Job
}

// reserve takes the buffers for the largest step; a dense model needs none.
func (e *experts) reserve(device *Device) error {
	ffn := &device.spec.FFN
	if ffn.Experts == 0 {
		return nil
	}
	pairs := device.lim.MaxTokens * ffn.TopK
	var errs [4]error
	e.wide.x, errs[0] = carve[float32](&device.mem, pairs*max(2*ffn.Inner, device.spec.Hidden))
	e.inner.x, errs[1] = carve[float32](&device.mem, pairs*ffn.Inner)
	e.wide.width, e.inner.width = 2*ffn.Inner, ffn.Inner
	e.token, errs[2] = carve[int32](&device.mem, pairs)
	e.pair, errs[3] = carve[int32](&device.mem, pairs)
	e.count = make([]int32, ffn.Experts)
	e.up, e.down = make([]kern.Job, 0, ffn.Experts), make([]kern.Job, 0, ffn.Experts)
	return errors.Join(errs[:]...)
}

// Route implements model.Device. A NaN logit loses to every number, and a token
// of which no logit is finite still gets TopK experts: the lowest.
func (d *Device) Route(ids, weights, logits model.Buf) {
	d.op.x, d.op.y, d.op.z = at(ids), at(weights), at(logits)
	tokens := d.op.z.rows
	d.each(tokens, 8*d.op.z.width, d.run.route)
	d.op.x.wrote(tokens)
	d.op.y.wrote(tokens)
}

// routeRow chooses the experts of a token, models.md 1.2 and 2.2: softmax over
// the chosen logits (Renorm) or over all of them.
func (d *Device) routeRow(_, token int) {
	ids, weights, logits := d.op.x.row(token), d.op.y.row(token), d.op.z.row(token)
	chosen := 0 // chosen so far, the largest first
	for expert, logit := range logits {
		place := chosen
		for place > 0 && above(logit, logits[int(ids[place-1])]) {
			place--
		}
		if place == len(ids) {
			continue
		}
		chosen = min(chosen+1, len(ids))
		copy(ids[place+1:chosen], ids[place:])
		ids[place] = float32(expert)
	}
	// The weights are summed in ascending order of experts, as Experts combines them.
	best := float64(logits[int(ids[0])])
	sortAscending(ids)
	sum := 0.0
	for _, logit := range logits {
		if !d.spec.FFN.Renorm {
			sum += exp(float64(logit) - best)
		}
	}
	for _, expert := range ids {
		if d.spec.FFN.Renorm {
			sum += exp(float64(logits[int(expert)]) - best)
		}
	}
	for place, expert := range ids {
		weights[place] = float32(exp(float64(logits[int(expert)])-best) / sum)
	}
}

// above orders logits: NaN below everything.
func above(a, b float32) bool { return a > b || (a == a && b != b) }

// exp is e^x; what is not a number, and so no reason to choose, counts as 0.
func exp(x float64) float64 {
	if x != x {
		return 0
	}
	return math.Exp(x)
}

// sortAscending is an insertion sort: TopK is about 4 or 8.
func sortAscending(x []float32) {
	for i := 1; i < len(x); i++ {
		for j := i; j > 0 && x[j] < x[j-1]; j-- {
			x[j], x[j-1] = x[j-1], x[j]
		}
	}
}

// Experts implements model.Device: dst = Σ weight·(down·activation(up·x + b) + b)
// over the chosen experts of each token, in ascending order of experts whatever
// else is in the step. Only experts that a token chose are read.
func (d *Device) Experts(dst, x, ids, weights model.Buf, up, upBias, down, downBias model.Weight) {
	mixture, from := &d.experts, at(x)
	mixture.group(at(ids))
	d.follow(up.(*weight))
	// Gate and up of all pairs, the activation, down of all pairs, then the sum for each token.
	up.(*weight).matrix.Mul(d.pool, mixture.wide.x, d.activations(from), vector(upBias), mixture.up)
	pairs := from.rows * d.spec.FFN.TopK
	mixture.wide.rows = pairs
	d.glu(&mixture.inner, &mixture.wide)
	mixture.acts.Set(mixture.inner.x, pairs, mixture.inner.width)
	d.follow(down.(*weight))
	down.(*weight).matrix.Mul(d.pool, mixture.wide.x, &mixture.acts, vector(downBias), mixture.down)
	d.op.dst, d.op.y = at(dst), at(weights)
	d.each(from.rows, d.spec.FFN.TopK*d.spec.Hidden, d.run.combine)
	d.op.dst.wrote(from.rows)
}

// group makes one job for each expert that a token chose.
func (e *experts) group(ids *buf) {
	chosen := ids.x[:ids.rows*ids.width]
	clear(e.count)
	for _, id := range chosen {
		e.count[int(id)]++
	}
	e.up, e.down = e.up[:0], e.down[:0]
	// count becomes where each expert's pairs begin, then where its next pair goes; the slices
	// in the jobs are filled afterwards.
	at := int32(0)
	for id, number := range e.count {
		e.count[id] = at // from here on where the expert's next pair goes
		if number == 0 {
			continue
		}
		tokens, pairs := e.token[at:at+number], e.pair[at:at+number]
		e.up = append(e.up, kern.Job{E: id, X: tokens, Y: pairs})
		e.down = append(e.down, kern.Job{E: id, X: pairs, Y: pairs})
		at += number
	}
	for pair, id := range chosen {
		at := &e.count[int(id)]
		e.token[*at], e.pair[*at] = int32(pair/ids.width), int32(pair)
		*at++
	}
}

// combineRow adds up what the chosen experts gave for a token.
func (d *Device) combineRow(_, token int) {
	hidden, topK := d.spec.Hidden, d.spec.FFN.TopK
	dst := d.op.dst.row(token)
	clear(dst)
	for j, weight := range d.op.y.row(token) {
		kern.MulAdd(d.opt.Level, dst, d.experts.wide.x[(token*topK+j)*hidden:][:hidden], weight)
	}
}
