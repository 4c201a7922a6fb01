package tensor

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

func encode(dt DType, src []float32) Row {
	r := Row{DType: dt, Data: make([]byte, dt.RowBytes(len(src)))}
	if dt == MXFP4HF {
		r.Scales = make([]byte, len(src)/32)
	}
	Encode(dt, r.Data, r.Scales, src)
	return r
}

func decode(r Row) []float32 {
	out := make([]float32, r.Len())
	r.Floats(out)
	return out
}

// The error of a value is bounded by half a step of its block, plus what rounding
// the block's own scale to its type costs.
func TestEncodeError(t *testing.T) {
	bounds := map[DType]float64{ // of the largest magnitude in the block
		F32: 0, F16: 0x1p-11, BF16: 0x1p-8, Q8_0: 0.57 / 127, Q4_0: 1.01 / 8, Q4_1: 1.02 / 15, Q5_0: 1.01 / 16, Q5_1: 1.02 / 31, IQ4_NL: 0.12,
		MXFP4: 0.25, MXFP4HF: 0.25, Q4_K: 0.1, Q5_K: 0.05, Q6_K: 0.04,
	}
	for _, dt := range floatTypes {
		t.Run(dt.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, uint64(dt)))
			for _, scale := range []float64{0x1p-7, 1, 300} {
				src := make([]float32, 1024)
				for i := range src {
					src[i] = float32(rng.NormFloat64() * scale)
				}
				got := decode(encode(dt, src))
				block, _ := dt.Block()
				for i := 0; i < len(src); i += block {
					big, _, _ := extremes(src[i : i+block])
					limit := bounds[dt]*math.Abs(float64(big)) + 0x1p-25 // half a step of a subnormal half
					for j := range block {
						if d := math.Abs(float64(got[i+j] - src[i+j])); d > limit {
							t.Fatalf("element %d of a block up to %v: %v became %v", j, big, src[i+j], got[i+j])
						}
					}
				}
			}
		})
	}
}

// What a decoder yields is representable, so encoding it must give it back.
func TestEncodeKeepsRepresentable(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, dt := range []DType{F32, F16, BF16, MXFP4, MXFP4HF, Q8_0, Q4_0} {
		t.Run(dt.String(), func(t *testing.T) {
			src := make([]float32, 512)
			for i := range src {
				src[i] = float32(rng.NormFloat64())
			}
			once := decode(encode(dt, src))
			twice := decode(encode(dt, once))
			for i := range once {
				if once[i] != twice[i] {
					t.Fatalf("element %d: %v became %v", i, once[i], twice[i])
				}
			}
		})
	}
}

func TestEncodeExact(t *testing.T) {
	ramp := make([]float32, 32) // 0, 1, … 31
	for i := range ramp {
		ramp[i] = float32(i)
	}
	q4 := append([]byte{0xc0, 0xc3}, make([]byte, 16)...) // d = 31/-8 = -3.875
	for j := range 16 {
		// trunc(x/d + 8.5)
		q4[2+j] = byte(8.5-float64(j)/3.875) | byte(8.5-float64(j+16)/3.875)<<4
	}
	fp4codes := func(pack func(b []byte, codes []byte)) []byte {
		// max 31: exponent 4-2+127 = 129, step 2^2: values j/4 to {0 .5 1 1.5 2 3 4 6}, ties down
		codes := []byte{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}
		codes[1], codes[3], codes[5], codes[7] = 0, 1, 2, 3
		codes[10], codes[14], codes[20] = 4, 5, 6
		b := make([]byte, 16)
		pack(b, codes)
		return b
	}
	split := func(b, c []byte) {
		for j := range b {
			b[j] = c[j] | c[j+16]<<4
		}
	}
	pairs := func(b, c []byte) {
		for j := range b {
			b[j] = c[2*j] | c[2*j+1]<<4
		}
	}
	for _, c := range []struct {
		name         string
		dt           DType
		src          []float32
		data, scales []byte
	}{
		{"q4_0", Q4_0, ramp, q4, nil},
		{"mxfp4", MXFP4, ramp, append([]byte{129}, fp4codes(split)...), nil},
		{"mxfp4 hf", MXFP4HF, ramp, fp4codes(pairs), []byte{129}},
		{"mxfp4 zero", MXFP4, make([]float32, 32), make([]byte, 17), nil},
		{"q4_0 zero", Q4_0, make([]float32, 32), append([]byte{0, 0x80}, bytes.Repeat([]byte{0x88}, 16)...), nil},
		{"q8_0 zero", Q8_0, make([]float32, 32), make([]byte, 34), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := encode(c.dt, c.src)
			if !bytes.Equal(got.Data, c.data) || !bytes.Equal(got.Scales, c.scales) {
				t.Errorf("got %x %x, want %x %x", got.Data, got.Scales, c.data, c.scales)
			}
		})
	}
}

func TestEncodeConstants(t *testing.T) {
	for _, dt := range floatTypes {
		for _, v := range []float32{0, 1, -1, 0.0625} {
			src := make([]float32, 256)
			for i := range src {
				src[i] = v
			}
			for i, g := range decode(encode(dt, src)) {
				if math.Abs(float64(g-v)) > math.Abs(float64(v))/60 {
					t.Fatalf("%v: element %d of a row of %v is %v", dt, i, v, g)
				}
			}
		}
	}
}

func TestScaleMinPacking(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	var b [12]byte
	var sc, mn [8]byte
	for range 1000 {
		clear(b[:])
		for i := range 8 {
			sc[i], mn[i] = byte(rng.Uint32()&63), byte(rng.Uint32()&63)
			putScaleMin(b[:], i, sc[i], mn[i])
		}
		for i := range 8 {
			if s, m := ScaleMin(b[:], i); s != sc[i] || m != mn[i] {
				t.Fatalf("sub-block %d: %d %d, want %d %d", i, s, m, sc[i], mn[i])
			}
		}
	}
}
