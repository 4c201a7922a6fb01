package tensor

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// numbered returns an F32 tensor whose elements are first, first+1, …
func numbered(name string, first int, shape ...int) Tensor {
	t := Tensor{Name: name, DType: F32, Shape: shape}
	src := make([]float32, t.Elems())
	for i := range src {
		src[i] = float32(first + i)
	}
	t.Data = encode(F32, src).Data
	return t
}

func rows(t *Tensor) [][]float32 {
	var out [][]float32
	for i := range t.Rows() {
		out = append(out, decode(t.Row(i)))
	}
	return out
}

func TestComposed(t *testing.T) {
	a, b := numbered("a", 0, 2, 3), numbered("b", 10, 2, 3)
	must := func(v Tensor, err error) Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	reverse := func(row int) int { return 1 - row }
	for _, c := range []struct {
		name  string
		got   Tensor
		shape []int
		rows  [][]float32
	}{
		{"interleave", must(Interleave("x", a, b)), []int{4, 3}, [][]float32{{0, 1, 2}, {10, 11, 12}, {3, 4, 5}, {13, 14, 15}}},
		{"stack", must(Stack("x", []Tensor{a, b})), []int{2, 2, 3}, [][]float32{{0, 1, 2}, {3, 4, 5}, {10, 11, 12}, {13, 14, 15}}},
		{"reorder", Reorder(a, reverse), []int{2, 3}, [][]float32{{3, 4, 5}, {0, 1, 2}}},
		{"interleave stacks", must(Interleave("x", must(Stack("s", []Tensor{a, b})), must(Stack("s", []Tensor{b, a})))), []int{2, 4, 3},
			[][]float32{{0, 1, 2}, {10, 11, 12}, {3, 4, 5}, {13, 14, 15}, {10, 11, 12}, {0, 1, 2}, {13, 14, 15}, {3, 4, 5}}},
		{"stack of interleaved", must(Stack("x", []Tensor{must(Interleave("i", a, b)), must(Interleave("i", b, a))})), []int{2, 4, 3},
			[][]float32{{0, 1, 2}, {10, 11, 12}, {3, 4, 5}, {13, 14, 15}, {10, 11, 12}, {0, 1, 2}, {13, 14, 15}, {3, 4, 5}}},
		{"stack of vectors", must(Stack("x", []Tensor{numbered("v", 0, 3), numbered("w", 5, 3)})), []int{2, 3}, [][]float32{{0, 1, 2}, {5, 6, 7}}},
		{"interleave elements", must(InterleaveElems("x", a, b)), []int{2, 6}, [][]float32{{0, 10, 1, 11, 2, 12}, {3, 13, 4, 14, 5, 15}}},
		{"interleave elements of vectors", must(InterleaveElems("x", numbered("v", 0, 2), numbered("w", 5, 2))), []int{4}, [][]float32{{0, 5, 1, 6}}},
		{"reorder elements", ReorderElems(a, func(i int) int { return i ^ 1 }), []int{2, 3}, [][]float32{{1, 0, 3}, {2, 5, 4}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !slices.Equal(c.got.Shape, c.shape) {
				t.Errorf("shape %v, want %v", c.got.Shape, c.shape)
			}
			if got := rows(&c.got); fmt.Sprint(got) != fmt.Sprint(c.rows) {
				t.Errorf("rows %v, want %v", got, c.rows)
			}
			if want := int64(4 * c.got.Elems()); c.got.Bytes() != want {
				t.Errorf("%d bytes, want %d", c.got.Bytes(), want)
			}
		})
	}
}

func TestComposeRefuses(t *testing.T) {
	a := numbered("a", 0, 2, 3)
	wide := numbered("wide", 0, 2, 32)
	quant := Tensor{Name: "quant", DType: Q8_0, Shape: []int{2, 32}}
	for _, c := range []struct {
		name, want string
		f          func() (Tensor, error)
	}{
		{"row length", "rows of", func() (Tensor, error) { return Interleave("x", a, numbered("b", 0, 2, 4)) }},
		{"row count", "equal matrices", func() (Tensor, error) { return Interleave("x", a, numbered("b", 0, 3, 3)) }},
		{"vectors", "equal matrices", func() (Tensor, error) { return Interleave("x", numbered("v", 0, 3), numbered("w", 0, 3)) }},
		{"nothing", "nothing to stack", func() (Tensor, error) { return Stack("x", nil) }},
		{"stack rows", "equal shapes", func() (Tensor, error) { return Stack("x", []Tensor{a, numbered("b", 0, 3, 3)}) }},
		{"stack types", "one type expected", func() (Tensor, error) { return Stack("x", []Tensor{wide, quant}) }},
		{"elements of blocks", "single elements", func() (Tensor, error) { return InterleaveElems("x", quant, quant) }},
		{"elements of scalars", "vectors", func() (Tensor, error) { return InterleaveElems("x", numbered("s", 0), numbered("s", 0)) }},
		{"elements count", "equal matrices", func() (Tensor, error) { return InterleaveElems("x", a, numbered("b", 0, 3, 3)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.f()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// Parts of several types: rows stay what they are where two are interleaved, and become F32
// where single elements are stacked or interleaved.
func TestTypesDiffer(t *testing.T) {
	as := func(dtype DType, first int) Tensor {
		wide := numbered(dtype.String(), first, 2, 32)
		made := Tensor{Name: dtype.String(), DType: dtype, Shape: wide.Shape, Data: make([]byte, 2*dtype.RowBytes(32))}
		for i := range 2 {
			Encode(dtype, made.Row(i).Data, nil, decode(wide.Row(i)))
		}
		return made
	}
	f32, bf16, q8 := as(F32, 0), as(BF16, 64), as(Q8_0, 1)
	mixed, err := Interleave("x", q8, bf16)
	if err != nil || mixed.DType != Mixed || mixed.Bytes() != q8.Bytes()+bf16.Bytes() {
		t.Fatalf("%v of %d bytes, %v", mixed.DType, mixed.Bytes(), err)
	}
	for i, dtype := range []DType{Q8_0, BF16, Q8_0, BF16} {
		if row, want := mixed.Row(i), mixed.Parts[i%2].Row(i/2); row.DType != dtype || !slices.Equal(row.Data, want.Data) {
			t.Errorf("row %d is %v, want %v", i, row.DType, dtype)
		}
	}
	stacked, err := Stack("x", []Tensor{bf16, f32})
	if err != nil || stacked.DType != F32 {
		t.Fatal(stacked.DType, err)
	}
	vector, err := InterleaveElems("x", bf16, f32)
	if err != nil || vector.DType != F32 {
		t.Fatal(vector.DType, err)
	}
	for i := range 2 {
		if got, want := decode(stacked.Row(i)), decode(bf16.Row(i)); !slices.Equal(got, want) {
			t.Errorf("row %d of the stack is %v, want %v", i, got, want)
		}
		if got, want := decode(stacked.Row(2+i)), decode(f32.Row(i)); !slices.Equal(got, want) {
			t.Errorf("row %d of the stack is %v, want %v", 2+i, got, want)
		}
		got := decode(vector.Row(i))
		for k, v := range got {
			if want := decode([]Tensor{bf16, f32}[k%2].Row(i))[k/2]; v != want {
				t.Errorf("element %d of vector %d is %v, want %v", k, i, v, want)
			}
		}
	}
}

// Columns is [experts, out, in] stored as [experts, in, out].
func TestColumns(t *testing.T) {
	stored := numbered("x", 0, 2, 3, 4) // [experts, in, out]
	turned := Tensor{Name: "x", DType: F32, Shape: []int{2, 4, 3}, Data: stored.Data, Columns: true}
	for i := range turned.Rows() {
		for k, v := range decode(turned.Row(i)) {
			if want := float32(i/4*12 + k*4 + i%4); v != want {
				t.Errorf("row %d, element %d is %v, want %v", i, k, v, want)
			}
		}
	}
}

func TestRow(t *testing.T) {
	hf := Tensor{Name: "hf", DType: MXFP4HF, Shape: []int{3, 2, 64}, Data: make([]byte, 3*2*32), Scales: make([]byte, 12)}
	for i := range hf.Scales {
		hf.Scales[i] = byte(i)
		binary.LittleEndian.PutUint16(hf.Data[16*i:], uint16(i))
	}
	for i := range hf.Rows() {
		r := hf.Row(i)
		if r.Len() != 64 || len(r.Data) != 32 || !slices.Equal(r.Scales, []byte{byte(2 * i), byte(2*i + 1)}) || r.Data[16] != byte(2*i+1) {
			t.Errorf("row %d is %+v", i, r)
		}
	}
	scalar := numbered("scalar", 7)
	if scalar.Rows() != 1 || scalar.Cols() != 1 || decode(scalar.Row(0))[0] != 7 {
		t.Errorf("scalar has %d rows of %d", scalar.Rows(), scalar.Cols())
	}
}

func TestRelease(t *testing.T) {
	dropped := map[string]int{}
	part := func(name string) Tensor {
		p := numbered(name, 0, 2, 2)
		p.Drop = func() { dropped[name]++ }
		return p
	}
	x, err := Interleave("x", part("a"), Reorder(part("b"), func(i int) int { return i }))
	if err != nil {
		t.Fatal(err)
	}
	x.Release()
	if dropped["a"] != 1 || dropped["b"] != 1 {
		t.Errorf("dropped %v, want each part once", dropped)
	}
}

func TestDTypeNames(t *testing.T) {
	for dt := Invalid; dt < numDTypes; dt++ {
		if dt.String() == "" || (dt != Invalid && dt != Mixed && dt.RowBytes(256) == 0) {
			t.Errorf("type %d: name %q, %d bytes per 256", dt, dt, dt.RowBytes(256))
		}
		if want := slices.Contains(floatTypes, dt); dt.Numeric() != want {
			t.Errorf("%v: numeric %v, want %v", dt, dt.Numeric(), want)
		}
	}
	if got := DType(200).String(); got != "DType(200)" {
		t.Errorf("unknown type is %q", got)
	}
}
