package cuda

import (
	"fmt"
	"strings"
	"unsafe"

	"ossian/internal/cuda/driver"
	"ossian/internal/model"
	"ossian/internal/tensor"
)

// A weight is an uploaded parameter in the form its use needs.
type weight struct {
	matrix *matrix    // AsMatrix, AsTable, AsTiedTable: one form serves products and embedding
	vector driver.Ptr // AsVector: float32
}

// Upload implements model.Device. Matrices and tables are packed for the tensor cores, F32 and F16
// rounded to BF16 on the way; vectors become float32. Nothing of t is read after the return. A
// type that there are no kernels for is refused before anything of t is read.
func (d *Device) Upload(t tensor.Tensor, use model.Use) (model.Weight, error) {
	if d.card != nil {
		defer d.card.enter()()
	}
	w := &weight{}
	before := d.memory.bytes
	var err error
	if use == model.AsVector {
		err = d.uploadVector(w, &t)
	} else {
		err = d.uploadMatrix(w, &t, use)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name(), err)
	}
	d.weights += d.memory.bytes - before
	return w, nil
}

// uploadVector brings a norm, bias or sink to the card.
func (d *Device) uploadVector(w *weight, t *tensor.Tensor) (err error) {
	if !t.DType.Numeric() {
		return fmt.Errorf("tensor %q: %v elements are not numbers", t.Name, t.DType)
	}
	if w.vector, err = d.room(int64(t.Elems()) * 4); err != nil || d.card == nil {
		return err
	}
	elems, cols := make([]float32, t.Elems()), t.Cols()
	for i := range t.Rows() {
		t.Row(i).Floats(elems[i*cols:][:cols])
	}
	t.Release()
	return d.stage.floats(d, w.vector, elems)
}

// uploadMatrix packs a matrix or table, piece by piece, into memory of the card.
func (d *Device) uploadMatrix(w *weight, t *tensor.Tensor, use model.Use) error {
	packing, err := pack(*t, d.paired(t))
	if err != nil {
		return err
	}
	at, err := d.room(packing.bytes())
	if err != nil {
		return err
	}
	w.matrix = packing.in(at, 0)
	name := packing.format.name
	if use != model.AsMatrix {
		d.needs["embed_"+name] = true
	}
	switch {
	case len(t.Shape) == 3:
		d.needs["up_"+name+"_8"] = true
	case use != model.AsTable:
		d.needs["linear_"+name+"_8"] = true
	}
	kind, _ := keptAs(t)
	d.types[kind] += packing.bytes()
	if d.card == nil {
		return nil
	}
	if err := d.stage.groups(d, at, packing); err != nil {
		return err
	}
	t.Release()
	// Factors of rows with large scales are known when all rows have been packed.
	if lifts := packing.lifts(); lifts != nil {
		if w.matrix.lift, err = d.memory.card(int64(len(lifts)) * 4); err != nil {
			return err
		}
		return d.stage.floats(d, w.matrix.lift, lifts)
	}
	return nil
}

// paired reports whether a tensor has the gates and ups of experts, whose kernel wants both of a
// pair in one lane. Gates and ups of a dense layer are multiplied as any matrix is.
func (d *Device) paired(t *tensor.Tensor) bool {
	ffn := &d.spec.FFN
	return len(t.Shape) == 3 && t.Shape[1] == 2*ffn.Inner && t.Shape[2] == d.spec.Hidden
}

// A stage is pinned memory through which weights stream to the card: while one half is being
// copied the other one is filled. It exists while a model is loaded.
type stage struct {
	halves [2][]byte
	copied [2]driver.Event // the half may be filled again
	turn   int
}

// stageBytes is the size of half a stage, but for groups of rows that are larger.
const stageBytes = 32 << 20

// next returns a half with room for bytes, or for as much as a stage holds if a piece of least
// bytes fits in.
func (s *stage) next(d *Device, bytes int64, least int) ([]byte, error) {
	want := max(int(min(bytes, stageBytes)), least)
	s.turn = 1 - s.turn
	drv := d.card.drv
	if s.copied[s.turn] == 0 {
		event, err := drv.EventCreate(false)
		if err != nil {
			return nil, err
		}
		s.copied[s.turn] = event
	} else if err := drv.EventSync(s.copied[s.turn]); err != nil {
		return nil, err
	}
	half := s.halves[s.turn]
	if len(half) < want {
		if half != nil {
			s.halves[s.turn] = nil
			if err := drv.MemFreeHost(half); err != nil {
				return nil, err
			}
		}
		var err error
		if half, err = drv.MemAllocHost(want); err != nil {
			return nil, fmt.Errorf("%d bytes of pinned host memory to load weights through: %w", want, err)
		}
		s.halves[s.turn] = half
	}
	return half, nil
}

// send has the beginning of the half at hand copied to the card.
func (s *stage) send(d *Device, dst driver.Ptr, data []byte) error {
	if err := d.card.drv.CopyToAsync(dst, data, d.queue.stream); err != nil {
		return err
	}
	return d.card.drv.EventRecord(s.copied[s.turn], d.queue.stream)
}

// groups packs a tensor and copies it to the card.
func (s *stage) groups(d *Device, dst driver.Ptr, packing *packed) error {
	size := packing.groupBytes()
	for first := 0; first < packing.groups(); {
		left := packing.groups() - first
		half, err := s.next(d, int64(left)*int64(size), size)
		if err != nil {
			return err
		}
		count := min(left, len(half)/size)
		if err := packing.fill(half[:count*size], first); err != nil {
			return err
		}
		if err := s.send(d, dst+driver.Ptr(first)*driver.Ptr(size), half[:count*size]); err != nil {
			return err
		}
		first += count
	}
	return nil
}

// floats copies float32 numbers to the card.
func (s *stage) floats(d *Device, dst driver.Ptr, x []float32) error {
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
	for len(data) > 0 {
		half, err := s.next(d, int64(len(data)), 4)
		if err != nil {
			return err
		}
		n := copy(half, data)
		if err := s.send(d, dst, half[:n]); err != nil {
			return err
		}
		dst, data = dst+driver.Ptr(n), data[n:]
	}
	return nil
}

// close waits for what is being copied and frees the stage, which may be used again.
func (s *stage) close(d *Device) (first error) {
	keep := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	for i := range s.halves {
		if s.copied[i] != 0 {
			keep(d.card.drv.EventSync(s.copied[i]))
			keep(d.card.drv.EventDestroy(s.copied[i]))
		}
		if s.halves[i] != nil {
			keep(d.card.drv.MemFreeHost(s.halves[i]))
		}
	}
	*s = stage{}
	return first
}

// keptAs returns the type in which the card keeps matrices and tables of a tensor's type.
func keptAs(t *tensor.Tensor) (tensor.DType, error) {
	f, err := formatOf(t.DType)
	if err != nil {
		return tensor.Invalid, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	switch f {
	case formatMXFP4:
		return tensor.MXFP4, nil
	case formatQ8:
		return tensor.Q8_0, nil
	}
	return tensor.BF16, nil
}

// isVector reports whether a parameter is one of the vectors, which every device keeps in float32.
func isVector(param model.Param) bool {
	name := param.Name
	return strings.HasSuffix(name, "norm") || strings.HasSuffix(name, "_bias") || strings.HasSuffix(name, ".sinks")
}

// Supports returns nil if there are kernels for a model with these parameters: for their types and
// for its sizes. No weight is read. The first parameter whose type is lacking is named, in
// the order of model.Params.
func Supports(s *model.Spec, params map[string]tensor.Tensor) error {
	if err := checkSpec(s); err != nil {
		return err
	}
	for _, param := range model.Params(s) {
		stored, ok := params[param.Name]
		if !ok || isVector(param) {
			continue // what is missing model.NewDecoder tells
		}
		if _, err := keptAs(&stored); err != nil {
			return fmt.Errorf("cuda: %w", err)
		}
	}
	return nil
}

// Kept returns params with the types that a device keeps them in, which is what a step reads. The
// tensors tell types and shapes only.
func Kept(s *model.Spec, params map[string]tensor.Tensor) (map[string]tensor.Tensor, error) {
	kept := make(map[string]tensor.Tensor, len(params))
	for _, param := range model.Params(s) {
		stored, ok := params[param.Name]
		if !ok {
			continue
		}
		form := tensor.Tensor{Name: stored.Name, DType: tensor.F32, Shape: stored.Shape}
		if !isVector(param) {
			var err error
			if form.DType, err = keptAs(&stored); err != nil {
				return nil, fmt.Errorf("cuda: %w", err)
			}
		}
		kept[param.Name] = form
	}
	return kept, nil
}
