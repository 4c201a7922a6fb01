package cuda

import (
	"ossian/internal/cuda/driver"
	"ossian/internal/model"
	"ossian/internal/tensor"
)

// Matrices of the same rows, queries, keys and values, in one launch: each alone takes a card longer to
// begin than to read. Nothing of the kernels is changed for that. Groups of such matrices lie one behind
// the other, as do their biases, and rows of what they write side by side: to a kernel that is one matrix.
// What cannot lie so is multiplied one by one, with the same bits, since sums depend on the columns.

// besideRows is what rows of a matrix have to be a multiple of for another to lie behind: a group.
const besideRows = 16

// A room is memory that is kept for a parameter.
type room struct {
	at    driver.Ptr
	bytes int64
}

// Beside implements model.Device: it takes memory for all, where they can lie one behind the other.
func (d *Device) Beside(together []tensor.Tensor, use model.Use) error {
	if d.card != nil {
		defer d.card.enter()()
	}
	d.kept = nil
	var sizes []int64
	total := int64(0)
	for i := range together {
		bytes, ok := besideBytes(&together[i], &together[0], use)
		if !ok {
			return nil // Upload tells what is wrong with it, if anything is
		}
		sizes, total = append(sizes, bytes), total+bytes
	}
	before := d.memory.bytes
	at, err := d.memory.card(total)
	if err != nil {
		return err
	}
	d.weights += d.memory.bytes - before
	for _, bytes := range sizes {
		d.kept = append(d.kept, room{at, bytes})
		at += driver.Ptr(bytes)
	}
	return nil
}

// besideBytes is what a parameter takes, and whether it can lie beside the first one.
func besideBytes(t, first *tensor.Tensor, use model.Use) (bytes int64, ok bool) {
	if use == model.AsVector {
		return 4 * int64(t.Elems()), t.DType.Numeric() && t.Elems()%besideRows == 0
	}
	packing, err := pack(*t, false)
	if err != nil || len(t.Shape) != 2 {
		return 0, false
	}
	kind, err := formatOf(first.DType)
	return packing.bytes(), err == nil && packing.format == kind && packing.rows%besideRows == 0 && packing.cols == first.Cols()
}

// room returns where a parameter goes: to what Beside keeps for it, or into memory of its own.
func (d *Device) room(bytes int64) (driver.Ptr, error) {
	kept := d.kept
	if len(kept) > 0 && kept[0].bytes == bytes {
		d.kept = kept[1:]
		return kept[0].at, nil
	}
	d.kept = nil
	return d.memory.card(bytes)
}

// Alloc implements model.Device. Rows of several buffers are side by side where each begins as aligned as
// kernels want.
func (d *Device) Alloc(rows int, widths ...int) (all []model.Buf, err error) {
	if d.card != nil {
		defer d.card.enter()()
	}
	// Side by side they are one buffer, of which each has columns: kernels see the stride alone.
	total, side := 0, len(widths) > 1
	for _, width := range widths {
		total, side = total+width, side && width > 0 && width%besideRows == 0
	}
	whole := &buffer{}
	if side {
		if whole, err = d.alloc(rows, total); err != nil {
			return nil, err
		}
	}
	for _, width := range widths {
		part := &buffer{at: whole.at, capacity: rows, width: width, stride: whole.stride}
		whole.at += driver.Ptr(4 * width)
		if !side {
			if part, err = d.alloc(rows, width); err != nil {
				return nil, err
			}
		}
		all = append(all, part)
	}
	return all, nil
}

// Linears implements model.Device.
func (d *Device) Linears(dst []model.Buf, x model.Buf, w, bias []model.Weight) {
	all, ok := together(dst, w, bias)
	if !ok {
		for i := range dst {
			d.Linear(dst[i], x, w[i], bias[i])
		}
		return
	}
	d.settle()
	to, from := at(dst[0]), at(x)
	d.queue.linear(to.at, to.stride, d.bf16(from), from.stride, all, vector(bias[0]), from.rows)
	for _, part := range dst {
		at(part).wrote(from.rows, asFloat32)
	}
}

// together returns the matrix that weights are as one, if they, their biases and their results lie so that
// there is one, and if its sums have the order of theirs.
func together(dst []model.Buf, w, bias []model.Weight) (*matrix, bool) {
	first, to, add := w[0].(*weight).matrix, at(dst[0]), vector(bias[0])
	// Each has to begin where the ones before it end: weights, biases and columns of the result alike.
	all := *first
	all.rows = 0
	for i := range w {
		m, part, before := w[i].(*weight).matrix, at(dst[i]), driver.Ptr(4*all.rows)
		behind := first.data + driver.Ptr(all.groups()*all.units()*all.format.unitBytes)
		biased := (add != 0 && vector(bias[i]) == add+before) || (add == 0 && vector(bias[i]) == 0)
		if all.rows%besideRows != 0 || m.data != behind || m.format != first.format || m.cols != first.cols || m.lift != 0 || !biased ||
			part.at != to.at+before || part.stride != to.stride || part.width != m.rows {
			return nil, false
		}
		all.rows += m.rows
	}
	return &all, all.chunks() == first.chunks()
}
