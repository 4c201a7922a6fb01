package cpu

import (
	"fmt"

	"ossian/internal/cpu/kern"
	"ossian/internal/model"
	"ossian/internal/tensor"
)

// A weight is an uploaded parameter in the form its use needs.
type weight struct {
	matrix *kern.Matrix  // AsMatrix, AsTiedTable
	table  tensor.Tensor // AsTable, and AsTiedTable where the matrix is less exact
	vector []float32     // AsVector
	next   *kern.Matrix  // what was multiplied after it the last time; nil = that depends on the tokens
	gated  bool          // the results of its last product were gated
}

// close frees the packed form.
func (w *weight) close() {
	if w.matrix != nil {
		w.matrix.Close()
	}
}

// row decodes row i of a table into dst.
func (w *weight) row(i int, dst []float32) {
	if w.table.DType == tensor.Invalid {
		w.matrix.Row(0, i, dst)
		return
	}
	w.table.Row(i).Floats(dst)
}

// Upload implements model.Device. Quantised matrices and those that Config.Weights
// puts in 8 bits are repacked, or mapped from Config.Packed; other F32, F16 and BF16 ones
// and tables of any type stay where t has them, so its bytes must stay readable until Close.
// Vectors become float32.
func (d *Device) Upload(t tensor.Tensor, use model.Use) (model.Weight, error) {
	if !t.DType.Numeric() && t.DType != tensor.Mixed {
		return nil, fmt.Errorf("cpu: tensor %q: %v elements are not numbers", t.Name, t.DType)
	}
	made := &weight{}
	switch use {
	case model.AsVector:
		elems, err := carve[float32](&d.mem, t.Elems())
		if err != nil {
			return nil, err
		}
		made.vector = elems
		d.vectors += int64(t.Elems()) * 4
		if d.mem.dry {
			break
		}
		for i, cols := 0, t.Cols(); i < t.Rows(); i++ {
			t.Row(i).Floats(elems[i*cols:][:cols])
		}
		t.Release()
	case model.AsTable:
		made.table = t
	default:
		if err := d.uploadMatrix(made, &t, use); err != nil {
			return nil, err
		}
	}
	d.weights = append(d.weights, made)
	return made, nil
}

// uploadMatrix makes the matrix of a weight: of a Mixed tensor two, of which each has a form of its own.
func (d *Device) uploadMatrix(weight *weight, t *tensor.Tensor, use model.Use) error {
	parts := t.Typed()
	for i := range parts {
		part := &parts[i]
		opt := d.options(part)
		d.used.add(part, opt, d.cfg.Packed != nil)
		if use == model.AsTiedTable && opt.Q8 { // embeddings are read as they were
			weight.table = *part
		}
		if d.seen != nil && kern.PackedBytes(part, opt) > 0 {
			d.seen(packedPart{t: *part, opt: opt, table: weight.table.DType != tensor.Invalid})
		}
		if d.mem.dry {
			continue
		}
		matrix, err := d.matrix(part, opt)
		switch {
		case err != nil:
			weight.close()
			return fmt.Errorf("cpu: %w", err)
		case i == 0:
			weight.matrix = matrix
		default:
			weight.matrix = kern.Interleave(weight.matrix, matrix)
		}
	}
	if len(parts) > 1 { // the results of both, before they are one
		rows := d.lim.MaxTokens
		if len(t.Shape) == 3 {
			rows *= d.spec.FFN.TopK
		}
		d.halves = max(d.halves, rows*t.Shape[len(t.Shape)-2])
	}
	return nil
}

// Embed implements model.Device.
func (d *Device) Embed(dst model.Buf, table model.Weight) {
	d.op.dst, d.op.table = at(dst), table.(*weight)
	d.each(len(d.step.tokens), d.op.dst.width, d.run.embed)
	d.op.dst.wrote(len(d.step.tokens))
}

// embedRow writes the embedding of a token.
func (d *Device) embedRow(_, i int) {
	d.op.table.row(int(d.step.tokens[i]), d.op.dst.row(i))
}
