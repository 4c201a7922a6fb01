package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"ossian/internal/tensor"
)

// encoded returns a tensor of a type made of floats, and what it holds.
func encoded(t *testing.T, dtype tensor.DType, floats []float32, shape ...int) (tensor.Tensor, []float32) {
	t.Helper()
	cols := shape[len(shape)-1]
	rows := len(floats) / cols
	made := tensor.Tensor{Name: "weights", DType: dtype, Shape: shape, Data: make([]byte, rows*dtype.RowBytes(cols))}
	if dtype == tensor.MXFP4HF {
		made.Scales = make([]byte, len(floats)/32)
	}
	tensor.Encode(dtype, made.Data, made.Scales, floats)
	return made, decoded(made)
}

// decoded returns all elements of a tensor.
func decoded(t tensor.Tensor) []float32 {
	floats := make([]float32, t.Elems())
	for i := range t.Rows() {
		t.Row(i).Floats(floats[i*t.Cols():][:t.Cols()])
	}
	return floats
}

// normals returns normally distributed numbers.
func normals(rng *rand.Rand, count int, scale float64) []float32 {
	floats := make([]float32, count)
	for i := range floats {
		floats[i] = float32(rng.NormFloat64() * scale)
	}
	return floats
}

// whole packs all of a tensor.
func whole(t *testing.T, source tensor.Tensor, paired bool) (*packed, []byte) {
	t.Helper()
	p, err := pack(source, paired)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, p.bytes())
	// In pieces of three groups, the last one first.
	for first := (p.groups() - 1) / 3 * 3; first >= 0; first -= 3 {
		count := min(3, p.groups()-first)
		if err := p.fill(data[first*p.groupBytes():][:count*p.groupBytes()], first); err != nil {
			t.Fatal(err)
		}
	}
	return p, data
}

// unpacked returns element (row, k) of an expert as kernels/weights.cuh defines the layouts: the
// fragment that mma.m16n8k16 takes from lane and word.
func unpacked(p *packed, data []byte, expert, row, k int) float64 {
	unit := data[(expert*p.perExpert+row/16)*p.groupBytes()+k/64*p.format.unitBytes:][:p.format.unitBytes]
	// Row g or g+8 and k 2t, 2t+1 or 2t+8, 2t+9 of a step decide lane, word and half.
	g, below := row%8, row%16/8
	step, inStep := k%64/16, k%16
	lane, word, odd := 4*g+inStep%8/2, below+2*(inStep/8), inStep%2
	scale := func(size int) int { return size * (2*(step/2) + below) } // of this row and half of the unit
	switch p.format {
	case formatBF16:
		bits := binary.LittleEndian.Uint16(unit[512*step+16*lane+4*word+2*odd:])
		return float64(tensor.BF16ToFloat(bits))
	case formatQ8:
		code := int8(unit[512*(step/2)+16*lane+8*(step%2)+2*word+odd])
		return float64(code) * float64(tensor.Half(binary.LittleEndian.Uint16(unit[1024+8*g+scale(2):])))
	}
	code := binary.LittleEndian.Uint32(unit[16*lane+4*step:]) >> (12 - 4*word + 16*odd) & 15
	magnitudes := [8]float64{0, 0.5, 1, 1.5, 2, 3, 4, 6}
	value := math.Ldexp(magnitudes[code&7], int(unit[512+4*g+scale(1)])-127)
	if code&8 != 0 {
		value = -value
	}
	return value
}

var packTypes = []tensor.DType{tensor.MXFP4, tensor.MXFP4HF, tensor.Q8_0, tensor.BF16, tensor.F16, tensor.F32}

// TestPackRoundTrip compares every packed element with that of the tensor, padding with zero.
func TestPackRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dtype := range packTypes {
		for _, shape := range [][]int{{16, 64}, {3, 32}, {40, 96}, {2, 34, 160}, {3, 16, 64}} {
			for _, paired := range []bool{false, true} {
				if paired && shape[len(shape)-2]%2 != 0 {
					continue
				}
				t.Run(fmt.Sprintf("%v/%d/%v/%v", dtype, dtype, shape, paired), func(t *testing.T) {
					elements := 1
					for _, size := range shape {
						elements *= size
					}
					source, want := encoded(t, dtype, normals(rng, elements, 1), shape...)
					p, data := whole(t, source, paired)
					if p.lifts() != nil {
						t.Error("rows were lifted that need it not")
					}
					comparePacked(t, p, data, want)
				})
			}
		}
	}
}

// comparePacked walks over all places of a packed matrix, those of padding included.
func comparePacked(t *testing.T, p *packed, data []byte, want []float32) {
	t.Helper()
	for expert := range p.experts {
		for place := range p.perExpert * 16 {
			row := place
			if p.paired {
				row = place/16*16 + place%8*2 + place%16/8
			}
			for k := range p.units * 64 {
				expected := float32(0)
				if row < p.rows && k < p.cols {
					expected = want[(expert*p.rows+row)*p.cols+k]
				}
				if p.format == formatBF16 {
					expected = tensor.BF16ToFloat(tensor.ToBF16(expected))
				}
				lift := 1.0
				if p.lift != nil && row < p.rows {
					lift = float64(p.lift[expert*p.rows+row])
				}
				if got := unpacked(p, data, expert, place, k) * lift; got != float64(expected) {
					t.Fatalf("expert %d, row %d, k %d: %v, want %v", expert, row, k, got, expected)
				}
			}
		}
	}
}

// TestPackLargeExponents holds rows whose MXFP4 exponents are above 128.
func TestPackLargeExponents(t *testing.T) {
	source, _ := encoded(t, tensor.MXFP4HF, normals(rand.New(rand.NewPCG(3, 4)), 20*64, 1), 20, 64)
	source.Scales[2*3], source.Scales[2*3+1] = 130, 120
	source.Scales[2*17], source.Scales[2*17+1] = 250, 126
	p, data := whole(t, source, false)
	comparePacked(t, p, data, decoded(source))
	for row, lift := range p.lifts() {
		want := map[int]float64{3: 4, 17: 0x1p122}[row]
		if float64(lift) != max(want, 1) {
			t.Errorf("row %d is lifted by %v, want %v", row, lift, max(want, 1))
		}
	}
	for place := range p.perExpert * 16 {
		for _, scale := range []int{0, 1} {
			if e := data[place/16*p.groupBytes()+512+4*(place%8)+2*scale+place%16/8]; e > 128 {
				t.Errorf("row %d has the exponent %d in packed form", place, e)
			}
		}
	}
	// What would be too small beside the row's largest ones is zero.
	source.Scales[2*17+1] = 100
	p, data = whole(t, source, false)
	if got := unpacked(p, data, 0, 17, 40); got != 0 {
		t.Errorf("2^-150 of a row's largest weights: %v, want 0", got)
	}
}

// TestPackRefuses holds the errors of what cannot be packed.
func TestPackRefuses(t *testing.T) {
	rows, _ := encoded(t, tensor.BF16, make([]float32, 15*64), 15, 64)
	vector, _ := encoded(t, tensor.BF16, make([]float32, 64), 64)
	k, _ := encoded(t, tensor.Q4_K, make([]float32, 256), 1, 256)
	nan, _ := encoded(t, tensor.MXFP4HF, make([]float32, 64), 2, 32)
	nan.Scales[1] = 255
	none := tensor.Tensor{Name: "weights", DType: tensor.BF16, Shape: []int{0, 64}}
	for _, test := range []struct {
		source tensor.Tensor
		paired bool
		want   string
	}{
		{rows, true, `tensor "weights" has 15 rows: as many gates as ups`},
		{vector, false, "shape [64]: [rows, columns] or [experts, rows, columns] expected"},
		{k, false, "type Q4_K cannot be used on a CUDA device"},
		{nan, false, "row 1 has the scale 255"},
		{none, false, "no size may be 0"},
	} {
		p, err := pack(test.source, test.paired)
		if err == nil {
			err = p.fill(make([]byte, p.bytes()), 0)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want one with %q", err, test.want)
		}
	}
}

func BenchmarkPack(b *testing.B) {
	for _, dtype := range []tensor.DType{tensor.MXFP4HF, tensor.MXFP4, tensor.BF16, tensor.Q8_0} {
		b.Run(fmt.Sprintf("%v-%d", dtype, dtype), func(b *testing.B) {
			source := tensor.Tensor{Name: "weights", DType: dtype, Shape: []int{2880, 2880}, Data: make([]byte, 2880*dtype.RowBytes(2880))}
			if dtype == tensor.MXFP4HF {
				source.Scales = make([]byte, 2880*90)
			}
			p, err := pack(source, false)
			if err != nil {
				b.Fatal(err)
			}
			data := make([]byte, p.bytes())
			b.SetBytes(p.bytes())
			for b.Loop() {
				if err := p.fill(data, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
