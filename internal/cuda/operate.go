package cuda

import (
	"ossian/internal/cuda/driver"
	"ossian/internal/model"
)

// Operations of model.Device: each finds out where its operands lie and in which form, gives its
// kernels to the stream, and notes what became of the buffers.

// Embed implements model.Device.
func (d *Device) Embed(dst model.Buf, table model.Weight) {
	d.settle()
	to := at(dst)
	d.queue.embed(to.at, to.stride, table.(*weight).matrix, d.step.arrays.tokens, d.step.arrays.count)
	to.wrote(d.step.arrays.count, asFloat32)
}

// AddNorm implements model.Device.
func (d *Device) AddNorm(dst, sum, x model.Buf, w model.Weight) {
	to, total, count := at(dst), at(sum), d.step.arrays.count
	j, ok := d.waiting.(*joining)
	if ok && at(x) == j.dst && total != j.dst && j.dst.rows == count && total.width == int(j.width) && normsExperts(int(j.topK), total.width) {
		d.waiting = nil
		d.queue.addNormExperts(to.at, d.float32(total, "AddNorm"), vector(w), j.combineArgs, count, d.spec.Eps)
		j.dst.wrote(0, spent)
	} else {
		d.settle()
		add := driver.Ptr(0)
		if x != nil {
			add = d.float32(at(x), "AddNorm")
		}
		d.queue.addNorm(to.at, d.float32(total, "AddNorm"), add, vector(w), total.width, count, d.spec.Eps)
	}
	total.wrote(count, asFloat32)
	to.wrote(count, asBF16)
}

// Linear implements model.Device.
func (d *Device) Linear(dst, x model.Buf, w, bias model.Weight) {
	d.settle()
	to, from := at(dst), at(x)
	d.queue.linear(to.at, to.stride, d.bf16(from), from.stride, w.(*weight).matrix, vector(bias), from.rows)
	to.wrote(from.rows, asFloat32)
}

// Rotate implements model.Device.
func (d *Device) Rotate(q, k model.Buf, qNorm, kNorm model.Weight) {
	d.settle()
	queries, keys := at(q), at(k)
	d.waiting = &turning{rotation{queries: d.rows(queries, "Rotate"), keys: d.rows(keys, "Rotate"), qNorm: vector(qNorm), kNorm: vector(kNorm), eps: d.spec.Eps}, keys}
}

// Store implements model.Device.
func (d *Device) Store(layer int, k, v model.Buf) {
	keys, values := d.rows(at(k), "Store"), d.rows(at(v), "Store")
	if t, ok := d.waiting.(*turning); ok && t.keys == at(k) && values.at != keys.at && values.at != t.queries.at {
		d.waiting = nil
		d.queue.rotateAndStore(t.rotation, values, &d.layers[layer], &d.heads, &d.step.arrays)
		t.keys.wrote(0, spent)
		return
	}
	d.settle()
	d.queue.store(keys, values, &d.layers[layer], &d.heads, &d.step.arrays)
}

// Attend implements model.Device.
func (d *Device) Attend(dst, q model.Buf, layer int, sinks model.Weight) {
	d.settle()
	to := at(dst)
	d.queue.attend(to.at, d.rows(at(q), "Attend"), &d.layers[layer], vector(sinks), &d.heads, &d.step.arrays, d.attendScratch)
	to.wrote(d.step.arrays.count, asBF16)
}

// GLU implements model.Device.
func (d *Device) GLU(dst, gateUp model.Buf) {
	d.settle()
	to, from := at(dst), at(gateUp)
	d.queue.glu(to.at, d.float32(from, "GLU"), to.width, from.rows, d.spec.FFN.Activation)
	to.wrote(from.rows, asBF16)
}

// Route implements model.Device.
func (d *Device) Route(ids, weights, logits model.Buf) {
	d.settle()
	chosen, share, from := at(ids), at(weights), at(logits)
	ffn := &d.spec.FFN
	d.waiting = &routing{ids: chosen.at, weights: share.at, stride: chosen.stride, logits: d.rows(from, "Route"),
		tokens: from.rows, experts: from.width, topK: ffn.TopK, renorm: ffn.Renorm}
	chosen.wrote(from.rows, asFloat32)
	share.wrote(from.rows, asFloat32)
}

// Experts implements model.Device.
func (d *Device) Experts(dst, x, ids, weights model.Buf, up, upBias, down, downBias model.Weight) {
	to, from, chosen, share := at(dst), at(x), at(ids), at(weights)
	activation := silu
	if d.spec.FFN.Activation == model.SwiGLU {
		activation = swigluLimited
	}
	args := &expertArgs{dst: to.at, dstStride: to.stride, x: d.bf16(from), xStride: from.stride,
		ids: d.float32(chosen, "Experts"), weights: d.float32(share, "Experts"), stride: chosen.stride,
		up: up.(*weight).matrix, upBias: vector(upBias), down: down.(*weight).matrix, downBias: vector(downBias),
		scratch: d.expertScratch, tokens: from.rows, topK: d.spec.FFN.TopK, activation: activation}
	args.chooseProducts(d.queue)
	to.wrote(from.rows, asFloat32)
	if args.tokens == 0 || args.tokens > expertPiece {
		d.settle()
		d.queue.experts(args)
		return
	}
	if r, ok := d.waiting.(*routing); ok && r.ids == args.ids && r.weights == args.weights && r.tokens == args.tokens && r.tokens <= planTokens {
		d.waiting = nil
		d.queue.routePlan(r, args)
	} else {
		d.settle()
		d.queue.expertPlan(args)
	}
	d.queue.expertProducts(args)
	d.waiting = &joining{args.combined(), to}
}

// reserveExperts takes what experts keep between their kernels.
func (d *Device) reserveExperts() (err error) {
	ffn := &d.spec.FFN
	if ffn.Experts == 0 {
		return nil
	}
	up := &matrix{experts: ffn.Experts, rows: 2 * ffn.Inner, cols: d.spec.Hidden}
	down := &matrix{experts: ffn.Experts, rows: d.spec.Hidden, cols: ffn.Inner}
	d.expertScratch, err = d.memory.card(int64(expertScratch(up, down, d.lim.MaxTokens, ffn.TopK)))
	return err
}

// Select implements model.Device.
func (d *Device) Select(dst, x model.Buf, from int) {
	d.settle()
	to, source := at(dst), at(x)
	rows, picks := min(to.capacity, d.step.wanted-from), d.step.picks+driver.Ptr(4*from)
	if source.form == asFloat32 {
		d.queue.join(joinArgs{dst: to.at, src: source.at, index: picks, width: int32(to.width), tail: int32(to.stride - to.width),
			dstStride: int32(to.stride), srcStride: int32(source.stride)}, asBF16, asFloat32, rows)
	} else {
		d.queue.selectRows(to.at, d.bf16(source), picks, to.width, rows)
	}
	to.wrote(rows, asBF16)
}

// Sample implements model.Device.
func (d *Device) Sample(logits model.Buf, from int) {
	d.settle()
	rows := at(logits)
	d.sampler.sample(d.queue, d.rows(rows, "Sample"), rows.width, from, rows.rows)
}
