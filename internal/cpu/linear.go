package cpu

import (
	"ossian/internal/cpu/kern"
	"ossian/internal/model"
)

// activations returns x in the form in which matrices take it. q, k and v share one
// quantised copy; experts, which choose rows, make their own.
func (d *Device) activations(x *buf) *kern.Acts {
	if d.actsOf != x || d.epoch != x.epoch {
		d.acts.Set(x.x, x.rows, x.width)
		d.actsOf, d.epoch = x, x.epoch
	}
	return &d.acts
}

// Linear implements model.Device.
func (d *Device) Linear(dst, x model.Buf, w, bias model.Weight) {
	to, from := at(dst), at(x)
	if from.rows > 0 && w.(*weight).gated && w.(*weight).matrix.Gated(from.rows) {
		d.owe(to, from, w.(*weight), bias)
		return
	}
	d.lastTo = to
	if from.rows > 0 {
		d.follow(w.(*weight))
		w.(*weight).matrix.Mul(d.pool, to.x, d.activations(from), vector(bias), d.experts.whole[:])
	}
	to.wrote(from.rows)
}

// follow notes that a weight is multiplied now, and tells workers what followed it the last time,
// so that those without work fetch it.
func (d *Device) follow(weight *weight) {
	if d.last != nil {
		d.last.next = nil
		if count, _, _ := weight.matrix.Shape(); count == 1 {
			d.last.next = weight.matrix
		}
	}
	d.last = weight
	d.pool.Expect(weight.next)
}

// An owed product is one whose results a gate usually takes: it is computed with the gate, and
// its results do not go through memory. If somebody else looks at them, or writes what they are
// made of, it is computed first (at).
type owed struct {
	device   *Device
	to, from *buf // nil = nothing is owed
	w        *weight
	bias     model.Weight
}

// owe notes the product of Linear.
func (d *Device) owe(to, from *buf, w *weight, bias model.Weight) {
	d.owed = owed{device: d, to: to, from: from, w: w, bias: bias}
	to.owed, from.owed = &d.owed, &d.owed
	to.rows = from.rows
}

// cancel returns what is owed, and owes nothing more.
func (o *owed) cancel() owed {
	was := *o
	o.to.owed, o.from.owed = nil, nil
	*o = owed{}
	return was
}

// settle computes it without a gate.
func (o *owed) settle() {
	was := o.cancel()
	d := was.device
	d.follow(was.w)
	was.w.matrix.Mul(d.pool, was.to.x, d.activations(was.from), vector(was.bias), d.experts.whole[:])
	was.to.wrote(was.from.rows)
}

// gateOwed is GLU of an owed product, and reports whether there is one.
func (d *Device) gateOwed(dst *buf, gateUp model.Buf) bool {
	p, _ := gateUp.(*buf)
	if p == nil || p.owed != &d.owed || d.owed.to != p {
		return false
	}
	was := d.owed.cancel()
	d.follow(was.w)
	was.w.matrix.MulGated(d.pool, dst.x, d.activations(was.from), vector(was.bias), d.experts.whole[:], d.run.gate)
	dst.wrote(was.from.rows)
	return true
}

// Linears implements model.Device: each Linear uses the form of x that the first one made.
func (d *Device) Linears(dst []model.Buf, x model.Buf, w, bias []model.Weight) {
	for i := range dst {
		d.Linear(dst[i], x, w[i], bias[i])
	}
}
