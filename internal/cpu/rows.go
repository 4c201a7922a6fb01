package cpu

import (
	"math"

	"ossian/internal/cpu/kern"
	"ossian/internal/model"
)

// AddNorm implements model.Device: models.md 1.2, in float32 with the sum of
// squares in a fixed order.
func (d *Device) AddNorm(dst, sum, x model.Buf, w model.Weight) {
	d.op.dst, d.op.y, d.op.x, d.op.w = at(dst), at(sum), at(x), vector(w)
	rows := d.op.y.rows
	d.each(rows, d.op.y.width, d.run.norm)
	d.op.y.wrote(rows)
	d.op.dst.wrote(rows)
}

// normRow is AddNorm for row i.
func (d *Device) normRow(_, i int) {
	sum := d.op.y.row(i)
	if d.op.x != nil {
		kern.Add(d.opt.Level, sum, d.op.x.row(i))
	}
	d.rmsNorm(d.op.dst.row(i), sum, d.op.w)
}

// Join implements model.Joiner.
func (d *Device) Join(dst model.Buf, col int, x model.Buf, rows []int32) {
	d.op.dst, d.op.x, d.op.from, d.op.picks = at(dst), at(x), col, rows
	count := d.op.x.rows
	if rows != nil {
		count = len(rows)
	}
	d.each(count, d.op.x.width, d.run.join)
	d.op.dst.wrote(count)
}

// joinRow copies a row of Join.
func (d *Device) joinRow(_, i int) {
	from := i
	if d.op.picks != nil {
		from = int(d.op.picks[i])
	}
	copy(d.op.dst.row(i)[d.op.from:], d.op.x.row(from))
}

// rmsNorm is dst = w·x/sqrt(mean(x²)+eps); dst may be x.
func (d *Device) rmsNorm(dst, x, w []float32) {
	mean := float64(kern.SumSq(d.opt.Level, x)) / float64(len(x))
	kern.ScaleMul(d.opt.Level, dst, x, w, float32(1/math.Sqrt(mean+float64(d.spec.Eps))))
}

// GLU implements model.Device.
func (d *Device) GLU(dst, gateUp model.Buf) {
	to := at(dst)
	if d.gateOwed(to, gateUp) {
		return
	}
	from := at(gateUp)
	if d.lastTo == from && d.last != nil { // this matrix has a gate: next time they may be one
		d.last.gated = true
	}
	d.glu(to, from)
}

// glu is GLU on buffers of this package.
func (d *Device) glu(dst, gateUp *buf) {
	d.op.dst, d.op.x = dst, gateUp
	rows := gateUp.rows
	d.each(rows, 4*dst.width, d.run.glu)
	dst.wrote(rows)
}

// gluRow is GLU for row i.
func (d *Device) gluRow(_, i int) {
	d.gate(d.op.dst.row(i), d.op.x.row(i))
}

// gate is GLU for pairs of a row.
func (d *Device) gate(dst, pairs []float32) {
	if d.spec.FFN.Activation == model.SwiGLU {
		kern.SwiGLUClamped(d.opt.Level, dst, pairs, model.SwiGLUAlpha, model.SwiGLULimit)
		return
	}
	kern.SwiGLU(d.opt.Level, dst, pairs)
}

// Rotate implements model.Device: models.md 1.3 and 2.2.
func (d *Device) Rotate(q, k model.Buf, qNorm, kNorm model.Weight) {
	d.op.x, d.op.y, d.op.w, d.op.w2 = at(q), at(k), vector(qNorm), vector(kNorm)
	rows := d.op.x.rows
	d.each(rows, d.op.x.width, d.run.rotate)
	d.op.x.wrote(rows)
	d.op.y.wrote(rows)
}

// rotateRow is Rotate for row i.
func (d *Device) rotateRow(_, i int) {
	turn := d.step.turn[i*d.spec.HeadDim:][:d.spec.HeadDim]
	d.rotateHeads(d.op.x.row(i), d.op.w, turn)
	d.rotateHeads(d.op.y.row(i), d.op.w2, turn)
}

// rotateHeads normalises, if norm is not nil, and turns each head of x.
func (d *Device) rotateHeads(x, norm, turn []float32) {
	dim := d.spec.HeadDim
	for ; len(x) > 0; x = x[dim:] {
		head := x[:dim]
		if norm != nil {
			d.rmsNorm(head, head, norm)
		}
		kern.Rotate(d.opt.Level, head[:dim/2], head[dim/2:], turn[:dim/2], turn[dim/2:dim])
	}
}
