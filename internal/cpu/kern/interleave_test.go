package kern

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/tensor"
)

// A matrix of two types gives the bits that its halves give alone, whatever the jobs.
func TestInterleave(t *testing.T) {
	p := NewPool(3)
	defer p.Close()
	pairs := [][2]tensor.DType{{tensor.Q8_0, tensor.Q4_0}, {tensor.Q6_K, tensor.Q4_K}, {tensor.Q5_1, tensor.F32},
		{tensor.BF16, tensor.F16}, {tensor.MXFP4, tensor.Q5_0}, {tensor.F32, tensor.Q5_K}}
	jobs := map[string][]Job{
		"all rows":  {{E: 1}},
		"scattered": {{E: 2, X: []int32{8, 0, 3}, Y: []int32{1, 6, 2}}, {E: 0, X: []int32{3}, Y: []int32{0}}},
	}
	const e, half, in, rows = 3, 21, 512, 9
	for _, l := range levels() {
		for _, pair := range pairs {
			for what, list := range jobs {
				t.Run(fmt.Sprintf("%v/%v, %v/%s", l, pair[0], pair[1], what), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(21, uint64(pair[0])))
					o := Options{Level: l, Fine: what == "scattered"}
					gateOf, upOf := randomTensor(rng, pair[0], e, half, in), randomTensor(rng, pair[1], e, half, in)
					gate, up := pack(t, gateOf, o, p), pack(t, upOf, o, p)
					joined := Interleave(pack(t, gateOf, o, p), pack(t, upOf, o, p))
					x, bias := randomFloats(rng, rows*in), randomFloats(rng, e*2*half)
					var a Acts
					a.Set(x, rows, in)
					product := func(m *Matrix, bias []float32) []float32 {
						_, out, _ := m.Shape()
						dst := make([]float32, rows*out)
						m.Mul(p, dst, &a, bias, list)
						return dst
					}
					got, gates, ups := product(joined, bias), product(gate, nil), product(up, nil)
					for _, job := range list {
						for i := range job.rows(&a) {
							for k := range half {
								at := job.target(i)*2*half + 2*k
								b := bias[job.E*2*half+2*k:]
								if g, u := gates[job.target(i)*half+k]+b[0], ups[job.target(i)*half+k]+b[1]; got[at] != g || got[at+1] != u {
									t.Fatalf("row %d, gate and up %d: %v and %v, want %v and %v", i, k, got[at], got[at+1], g, u)
								}
							}
						}
					}
					interleaved, err := tensor.Interleave("x", *gateOf, *upOf)
					if err != nil {
						t.Fatal(err)
					}
					checkRows(t, joined, &interleaved)
					if joined.Bytes() != gate.Bytes()+up.Bytes() || joined.Like(gate) || !joined.Like(joined) {
						t.Errorf("%d bytes of %d and %d", joined.Bytes(), gate.Bytes(), up.Bytes())
					}
				})
			}
		}
	}
}

// What lies in columns is packed into rows, in memory or into a file, and multiplies as
// rows do.
func TestColumns(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	const e, out, in, rows = 2, 37, 96, 5
	for _, l := range levels() {
		for _, dt := range []tensor.DType{tensor.BF16, tensor.F16, tensor.F32} {
			for _, o := range []Options{{Level: l}, {Level: l, BF16: true}, {Level: l, Q8: true}} {
				t.Run(fmt.Sprintf("%v/%v/Q8=%v", l, dt, o.Q8), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(22, uint64(dt)))
					plain := randomTensor(rng, dt, e, out, in)
					turned := &tensor.Tensor{Name: "columns", DType: dt, Shape: plain.Shape, Columns: true, Data: make([]byte, len(plain.Data))}
					size := dt.RowBytes(1)
					for i := range e * out {
						row := plain.Row(i).Data
						for k := range in {
							copy(turned.Data[((i/out*in+k)*out+i%out)*size:][:size], row[k*size:])
						}
					}
					want, got := pack(t, plain, o, p), pack(t, turned, o, p)
					if bytes := PackedBytes(turned, o); bytes != got.Bytes() || bytes == 0 {
						t.Errorf("%d bytes, PackedBytes says %d", got.Bytes(), bytes)
					}
					mem, decode := written(t, turned, o, p)
					if !bytes.Equal(mem, got.mem) {
						t.Error("other bytes than Pack's")
					}
					again, err := Map(turned, o, slices.Clone(mem), decode)
					if err != nil || !again.Resembles(turned) {
						t.Fatalf("mapped: %v", err)
					}
					if !o.Q8 {
						checkRows(t, want, turned)
					}
					x, bias := randomFloats(rng, rows*in), randomFloats(rng, e*out)
					product := func(m *Matrix) []float32 {
						var a Acts
						a.Set(x, rows, in)
						dst := make([]float32, rows*out)
						m.Mul(p, dst, &a, bias, []Job{{E: 1}})
						return dst
					}
					for _, m := range []*Matrix{got, again} {
						if !o.Q8 {
							checkRows(t, m, plain)
						}
						if !slices.Equal(product(m), product(want)) {
							t.Error("other results than those of rows")
						}
					}
				})
			}
		}
	}
}
