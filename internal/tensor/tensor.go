// Package tensor describes weights as they lie in checkpoint files: element
// types, shapes, block layouts and their exact decoding to float32. Readers of a
// Tensor need not know which container it came from, nor whether its rows lie in
// one place: they ask for rows.
package tensor

import "fmt"

// A DType is how elements are stored. Block formats pack a fixed number of
// consecutive elements of a row; formats.md 4 gives their byte layouts.
type DType uint8

const (
	Invalid DType = iota
	F32           // IEEE single, little-endian
	F16           // IEEE half
	BF16          // upper half of an IEEE single
	MXFP4         // 32 elements in 17 bytes: E8M0 scale, 16 bytes; low nibbles are elements 0-15, high 16-31 (GGUF)
	MXFP4HF       // 32 elements in 16 bytes, low nibble 2b, high nibble 2b+1; scales in Tensor.Scales (safetensors)
	Q8_0          // 32 elements in 34 bytes: a scale, a signed byte each
	Q4_0          // 32 elements in 18 bytes: a scale, a nibble each
	Q4_1          // 32 elements in 20 bytes: a scale, a minimum, a nibble each
	Q5_0          // 32 elements in 22 bytes: a scale, 5 bits each
	Q5_1          // 32 elements in 24 bytes: a scale, a minimum, 5 bits each
	IQ4_NL        // 32 elements in 18 bytes: a scale, a nibble each that stands for one of 16 values
	Q4_K          // 256 elements in 144 bytes: 4 bits each, 8 sub-blocks with scale and minimum
	Q5_K          // 256 elements in 176 bytes: 5 bits each, otherwise as Q4_K
	Q6_K          // 256 elements in 210 bytes: 6 bits each, 16 sub-blocks with a scale
	U8            // raw bytes; the carrier of MXFP4HF blocks and scales in safetensors
	I32           // 32-bit integers
	I64           // 64-bit integers
	Bool          // one byte, 0 or 1
	F8_E4M3       // 8-bit float of OCP, see ToE4M3; cached keys and values only, with a scale per vector
	Mixed         // no type of elements: that of tensors of two types, see Interleave
	numDTypes
)

// dtypes has the name of each type, and the elements and bytes of a block.
var dtypes = [numDTypes]struct {
	name         string
	elems, bytes int
}{
	Invalid: {"invalid", 1, 0},
	F32:     {"F32", 1, 4},
	F16:     {"F16", 1, 2},
	BF16:    {"BF16", 1, 2},
	MXFP4:   {"MXFP4", 32, 17},
	MXFP4HF: {"MXFP4", 32, 16},
	Q8_0:    {"Q8_0", 32, 34},
	Q4_0:    {"Q4_0", 32, 18},
	Q4_1:    {"Q4_1", 32, 20},
	Q5_0:    {"Q5_0", 32, 22},
	Q5_1:    {"Q5_1", 32, 24},
	IQ4_NL:  {"IQ4_NL", 32, 18},
	Q4_K:    {"Q4_K", 256, 144},
	Q5_K:    {"Q5_K", 256, 176},
	Q6_K:    {"Q6_K", 256, 210},
	U8:      {"U8", 1, 1},
	I32:     {"I32", 1, 4},
	I64:     {"I64", 1, 8},
	Bool:    {"BOOL", 1, 1},
	F8_E4M3: {"F8_E4M3", 1, 1},
	Mixed:   {"mixed", 1, 0},
}

// String returns the name people use for t. Both nibble orders of MXFP4 are "MXFP4".
func (t DType) String() string {
	if t >= numDTypes {
		return fmt.Sprintf("DType(%d)", uint8(t))
	}
	return dtypes[t].name
}

// Block returns how many elements one block holds and how many bytes it takes
// in Tensor.Data (the separate scales of MXFP4HF not counted).
func (t DType) Block() (elems, bytes int) { return dtypes[t].elems, dtypes[t].bytes }

// RowBytes returns the bytes of a row of cols elements, which must be a whole
// number of blocks.
func (t DType) RowBytes(cols int) int {
	elems, size := t.Block()
	if cols%elems != 0 {
		panic(fmt.Sprintf("tensor: a row of %d elements is not a whole number of %v blocks of %d", cols, t, elems))
	}
	return cols / elems * size
}

// A Tensor is a read-only view of weights. It is either plain (Data, perhaps
// Scales) or composed: row i of a composed tensor is a row of one of its Parts.
// Composition is how separate gate and up projections, per-expert tensors and
// permuted heads become one tensor without being copied. Data and Scales of a
// composed tensor are nil. Where parts are of several types of single elements, the
// whole is F32, to which rows are converted as they are asked for; a Mixed tensor has
// parts of any two types, and its rows are what those of the parts are.
type Tensor struct {
	Name   string
	DType  DType
	Shape  []int  // slowest-varying first: [out, in], [experts, out, in]
	Data   []byte // rows one after another; not aligned
	Scales []byte // MXFP4HF only: one E8M0 byte per block, rows one after another

	Columns bool // plain, of single elements, [experts, out, in]: Data holds [experts, in, out], and rows are gathered

	Parts []Tensor                      // composed tensors only; all of one row length, that of the whole or 1
	Map   func(row int) (part, sub int) // row of the whole (element, when parts have rows of 1) -> part and row in it
	Drop  func()                        // tells the source that the bytes will not be read again soon; nil = nothing to tell
}

// A Row is one row of a tensor: Len elements in whole blocks in Data, and for MXFP4HF one
// scale byte per block in Scales. It mostly shares the memory of the file and must not be changed.
type Row struct {
	DType        DType
	Data, Scales []byte
}

// Cols returns the length of the fastest-varying dimension, 1 for a scalar.
func (t *Tensor) Cols() int {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[len(t.Shape)-1]
}

// Rows returns the product of all dimensions but the last.
func (t *Tensor) Rows() int {
	rows := 1
	for _, dim := range t.Shape[:max(len(t.Shape)-1, 0)] {
		rows *= dim
	}
	return rows
}

// Elems returns the number of elements.
func (t *Tensor) Elems() int { return t.Rows() * t.Cols() }

// Typed returns the tensors of one type that t consists of: t, or the Parts of a Mixed one.
func (t *Tensor) Typed() []Tensor {
	if t.DType == Mixed {
		return t.Parts
	}
	return []Tensor{*t}
}

// Bytes returns the size of the stored form, scales included.
func (t *Tensor) Bytes() int64 {
	total := int64(len(t.Data)) + int64(len(t.Scales))
	for i := range t.Parts {
		total += t.Parts[i].Bytes()
	}
	return total
}

// Row returns row i, 0 <= i < Rows().
func (t *Tensor) Row(i int) Row {
	cols := t.Cols()
	// A composed tensor's rows are rows of its parts, or are made of several of one element.
	if t.Parts != nil {
		if size := cols / t.Parts[0].Cols(); size > 1 {
			return t.gather(i*size, size)
		}
		return t.part(i)
	}
	size := t.DType.RowBytes(cols)
	if t.Columns {
		return t.column(i, size)
	}
	row := Row{DType: t.DType, Data: t.Data[i*size : (i+1)*size]}
	if t.DType == MXFP4HF {
		row.Scales = t.Scales[i*cols/32 : (i+1)*cols/32]
	}
	return row
}

// part returns the row of a part that is row i of t, in the type of t.
func (t *Tensor) part(i int) Row {
	part, sub := t.Map(i)
	row := t.Parts[part].Row(sub)
	if t.DType == F32 && row.DType != F32 {
		floats := make([]float32, row.Len())
		row.Floats(floats)
		row = Row{DType: F32, Data: make([]byte, 4*len(floats))}
		Encode(F32, row.Data, nil, floats)
	}
	return row
}

// column copies row i, which is a column of what is stored. Neighbours share its cache lines.
func (t *Tensor) column(i, size int) Row {
	out, in := t.Shape[1], t.Shape[2]
	elem := size / in
	stored := t.Data[i/out*out*size:][:out*size]
	row := Row{DType: t.DType, Data: make([]byte, size)}
	for k := range in {
		copy(row.Data[k*elem:][:elem], stored[(k*out+i%out)*elem:])
	}
	return row
}

// gather copies n rows of the parts into one row. Only tensors of single
// elements, which are small, are composed that way (InterleaveElems).
func (t *Tensor) gather(first, n int) Row {
	row := Row{DType: t.DType}
	for i := first; i < first+n; i++ {
		row.Data = append(row.Data, t.part(i).Data...)
	}
	return row
}

// Release tells the sources of t that its bytes will not be read again soon.
func (t *Tensor) Release() {
	if t.Drop != nil {
		t.Drop()
	}
	for i := range t.Parts {
		t.Parts[i].Release()
	}
}

// Interleave returns the tensor whose rows are a0, b0, a1, b1, … per matrix:
// [..., n, in] and [..., n, in] give [..., 2n, in]. It joins separate gate and up
// projections into the order in which gpt-oss stores them. Of two types they give a
// Mixed tensor, whose Parts are a and b.
func Interleave(name string, a, b Tensor) (Tensor, error) {
	if err := sameLength(name, a, b); err != nil {
		return Tensor{}, err
	}
	dtype := a.DType
	if b.DType != dtype {
		dtype = Mixed
	}
	dims := len(a.Shape)
	if dims < 2 || a.Rows() != b.Rows() {
		return Tensor{}, fmt.Errorf("tensor %q: %q has shape %v, %q has %v: equal matrices expected", name, a.Name, a.Shape, b.Name, b.Shape)
	}
	shape := append([]int(nil), a.Shape...)
	shape[dims-2] *= 2
	return Tensor{Name: name, DType: dtype, Shape: shape, Parts: []Tensor{a, b},
		Map: func(row int) (part, sub int) { return row & 1, row >> 1 }}, nil
}

// Stack returns the tensor whose leading dimension counts the parts, which must
// all have one shape: n times [out, in] gives [n, out, in]. They are of one type, or all
// of single elements.
func Stack(name string, parts []Tensor) (Tensor, error) {
	if len(parts) == 0 {
		return Tensor{}, fmt.Errorf("tensor %q: nothing to stack", name)
	}
	rows, dtype := parts[0].Rows(), parts[0].DType
	for _, part := range parts[1:] {
		if err := sameLength(name, parts[0], part); err != nil {
			return Tensor{}, err
		}
		// Types of single elements are decoded alike, so such parts may differ.
		if part.DType != parts[0].DType {
			if !part.DType.single() || !parts[0].DType.single() {
				return Tensor{}, fmt.Errorf("tensor %q: %q is %v, %q is %v: one type expected, or F32, F16 and BF16", name, parts[0].Name, parts[0].DType, part.Name, part.DType)
			}
			dtype = F32
		}
		if part.Rows() != rows {
			return Tensor{}, fmt.Errorf("tensor %q: %q has shape %v, %q has %v: equal shapes expected", name, parts[0].Name, parts[0].Shape, part.Name, part.Shape)
		}
	}
	return Tensor{Name: name, DType: dtype, Shape: append([]int{len(parts)}, parts[0].Shape...), Parts: parts,
		Map: func(row int) (part, sub int) { return row / rows, row % rows }}, nil
}

// Reorder returns t with row i taken from row from(i).
func Reorder(t Tensor, from func(row int) int) Tensor {
	return Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape, Parts: []Tensor{t},
		Map: func(row int) (part, sub int) { return 0, from(row) }}
}

// InterleaveElems is Interleave for biases: its elements are a0, b0, a1, b1, … per
// vector: [..., n] and [..., n] give [..., 2n]. Both must be plain.
func InterleaveElems(name string, a, b Tensor) (Tensor, error) {
	for _, t := range []Tensor{a, b} {
		if !t.DType.single() || len(t.Shape) == 0 {
			return Tensor{}, fmt.Errorf("tensor %q: %q is %v of shape %v: vectors of single elements expected", name, t.Name, t.DType, t.Shape)
		}
	}
	woven, err := Interleave(name, column(a), column(b))
	if err != nil {
		return Tensor{}, err
	}
	woven.Shape = woven.Shape[:len(woven.Shape)-1]
	if woven.DType == Mixed {
		woven.DType = F32
	}
	return woven, nil
}

// ReorderElems returns t, plain and of single elements, with element i taken from element from(i).
func ReorderElems(t Tensor, from func(elem int) int) Tensor {
	r := Reorder(column(t), from)
	r.Shape = t.Shape
	return r
}

// column views every element of a plain tensor as a row: [..., n] as [..., n, 1].
func column(t Tensor) Tensor {
	if t.Parts != nil {
		panic(fmt.Sprintf("tensor: elements of the composed tensor %q", t.Name))
	}
	t.Shape = append(append([]int(nil), t.Shape...), 1)
	return t
}

// single reports whether a type stores numbers one by one: F32, F16 or BF16.
func (t DType) single() bool { return t == F32 || t == F16 || t == BF16 }

// sameLength says why rows of first and second cannot be rows of one tensor.
func sameLength(name string, first, second Tensor) error {
	if first.Cols() != second.Cols() {
		return fmt.Errorf("tensor %q: rows of %q have %d elements, rows of %q %d", name, first.Name, first.Cols(), second.Name, second.Cols())
	}
	return nil
}
