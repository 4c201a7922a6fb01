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
	if from.rows > 0 {
		d.follow(w.(*weight))
		w.(*weight).matrix.Mul(d.pool, to.x, d.activations(from), vector(bias), d.experts.whole[:])
	}
	to.wrote(from.rows)
}

// follow notes that w is multiplied now, and tells workers what followed it the last time,
// so that those without work fetch it.
func (d *Device) follow(w *weight) {
	if d.last != nil {
		d.last.next = nil
		if count, _, _ := w.matrix.Shape(); count == 1 {
			d.last.next = w.matrix
		}
	}
	d.last = w
	d.pool.Expect(w.next)
}

// Linears implements model.Device: each Linear uses the form of x that the first one made.
func (d *Device) Linears(dst []model.Buf, x model.Buf, w, bias []model.Weight) {
	for i := range dst {
		d.Linear(dst[i], x, w[i], bias[i])
	}
}
