package cpu

import (
	"fmt"
	"maps"

	"ossian/internal/cpu/kern"
	"ossian/internal/model"
	"ossian/internal/tensor"
)

// Memory is what a device with its decoder takes, in bytes.
type Memory struct {
	Weights     int64                  // repacked matrices that no file has, and vectors as float32
	Mapped      int64                  // matrices read where the checkpoint or Config.Packed is mapped: page cache
	KV          int64                  // pools of keys and values, touched as they fill
	Activations int64                  // buffers of a step, touched by the largest step
	Types       map[tensor.DType]int64 // Weights and Mapped of matrices by type; both orders of MXFP4 are MXFP4, what Config.Weights puts in 8 bits is Q8_0
}

// Total returns the sum.
func (m Memory) Total() int64 { return m.Weights + m.Mapped + m.KV + m.Activations }

// add counts a matrix; file says that what is repacked is in a file.
func (m *Memory) add(t *tensor.Tensor, options kern.Options, file bool) {
	packed, mapped := kern.PackedBytes(t, options), int64(0)
	switch {
	// What is not packed stays in the checkpoint's own file.
	case packed == 0:
		mapped = int64(t.Rows()) * int64(t.DType.RowBytes(t.Cols()))
	case file:
		packed, mapped = 0, packed
	}
	m.Weights += packed
	m.Mapped += mapped
	if m.Types == nil {
		m.Types = make(map[tensor.DType]int64)
	}
	kind := t.DType
	// Types as kernels compute them, whatever form they are stored in.
	switch {
	case kind == tensor.MXFP4HF:
		kind = tensor.MXFP4
	case options.Q8:
		kind = tensor.Q8_0
	}
	m.Types[kind] += packed + mapped
}

// Footprint returns what New, the upload of params and NewDecoder with these
// arguments will take, from shapes and types alone: no weight is read. It covers
// the largest step; what remains for the process is the Go runtime and what
// surrounds the device. An embedding table that is not also the output projection
// is not counted: a step touches a row of it for each token.
func Footprint(spec *model.Spec, lim model.Limits, cfg Config, params map[string]tensor.Tensor) (Memory, error) {
	for name, param := range params {
		for _, part := range param.Typed() {
			if block, _ := part.DType.Block(); part.Cols()%block != 0 {
				return Memory{}, fmt.Errorf("cpu: parameter %q: rows of %d elements are not whole %v blocks of %d", name, part.Cols(), part.DType, block)
			}
		}
	}
	return Counted(spec, lim, cfg, func(device *Device) error {
		_, err := model.NewDecoder(spec, params, device, lim, nil)
		return err
	})
}

// Counted is Footprint for what build makes on a device, which uploads and allocates only.
func Counted(s *model.Spec, lim model.Limits, cfg Config, build func(*Device) error) (Memory, error) {
	device, err := newDevice(s, lim, cfg, true)
	if err != nil {
		return Memory{}, err
	}
	if err := build(device); err != nil {
		return Memory{}, err
	}
	return device.Memory(), nil
}

// Kept returns params with the types that a device keeps them in, which is what a step
// reads. The tensors tell types and shapes only.
func Kept(s *model.Spec, cfg Config, params map[string]tensor.Tensor) (map[string]tensor.Tensor, error) {
	cfg, opt, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	device := &Device{spec: s, cfg: cfg, opt: opt}
	kept := make(map[string]tensor.Tensor, len(params))
	for name, param := range params {
		var parts []tensor.Tensor
		for _, part := range param.Typed() {
			form := tensor.Tensor{Name: part.Name, DType: part.DType, Shape: part.Shape}
			// As Upload decides it: an embedding that is no output matrix is only looked up.
			if (name != "embed" || s.Tied) && len(part.Shape) > 1 && device.eightBits(&form) {
				form.DType = tensor.Q8_0
			}
			parts = append(parts, form)
		}
		kept[name] = parts[0]
		if len(parts) > 1 {
			kept[name] = tensor.Tensor{Name: param.Name, DType: tensor.Mixed, Shape: param.Shape, Parts: parts}
		}
	}
	return kept, nil
}

// Memory returns what the device takes. Pools and buffers are counted in full
// although the system provides pages as they are first touched.
func (d *Device) Memory() Memory {
	memory := d.used
	memory.Types = maps.Clone(memory.Types)
	memory.Activations = d.mem.size - d.vectors - memory.KV + d.heap()
	memory.Weights += d.vectors
	return memory
}

// heap is the Go memory that operations keep: int8 tiles of activations, 44 bytes for 32
// elements, or rows in BF16 and their sums, results of matrices of two types, and the samplers'
// candidates.
func (d *Device) heap() int64 {
	spec, ffn := d.spec, &d.spec.FFN
	dense := ffn.DenseInner
	if ffn.Experts == 0 {
		dense = ffn.Inner
	}
	elems, rounded := d.lim.MaxTokens*max(spec.Hidden, spec.QDim(), dense), 0
	if d.used.Types[tensor.BF16] > 0 && d.rounds() {
		rounded = d.opt.Level.BF16Bytes(elems)
		if d.opt.Level == kern.AMX {
			rounded += d.cfg.Threads * kern.SumsBytes
		}
	}
	// A row of int8 for each row of activations, two where they are finer.
	rows := func(stored bool) int {
		if d.fine(stored) {
			return 2 // the residual of finer activations is a second row
		}
		return 1
	}
	stored := d.cfg.Weights != "q8"
	if ffn.Experts > 0 { // their rows are tiled apart, and projections are kept in Q8_0
		elems = elems*rows(false) + d.lim.MaxTokens*ffn.TopK*(spec.Hidden+ffn.Inner)*rows(stored)
	} else {
		types := 0 // each has tiles of its own
		for dtype := range d.used.Types {
			if block, _ := dtype.Block(); block > 1 {
				types++
			}
		}
		elems *= types * rows(stored)
	}
	return int64(elems)/32*44 + int64(rounded) + int64(d.halves)*4 + int64(d.cfg.Threads)*int64(spec.Vocab)*16
}
