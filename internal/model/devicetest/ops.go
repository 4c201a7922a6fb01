package devicetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"ossian/internal/model"
	"ossian/internal/tensor"
)

var numeric = []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.MXFP4, tensor.MXFP4HF,
	tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K}

// quantised reports whether dt is stored in blocks.
func quantised(dt tensor.DType) bool {
	n, _ := dt.Block()
	return n > 1
}

// label tells the two orders of MXFP4 apart.
func label(dt tensor.DType) string { return fmt.Sprintf("%v#%d", dt, dt) }

// widths returns row lengths of type dt that are no multiple of a vector.
func widths(dt tensor.DType) []int {
	switch n, _ := dt.Block(); n {
	case 1:
		return []int{1, 7, 33, 96}
	case 32:
		return []int{32, 96, 288}
	default:
		return []int{n, 3 * n}
	}
}

func (s Subject) embed(t *testing.T) {
	for _, dt := range numeric {
		for _, use := range []model.Use{model.AsTable, model.AsTiedTable} {
			t.Run(fmt.Sprintf("%s/%d", label(dt), use), func(t *testing.T) {
				for _, width := range widths(dt) {
					sp := spec()
					sp.Hidden = width
					b := s.open(t, sp, limits(sp))
					table, want := encode("table", dt, b.normal(sp.Vocab*width, 1), sp.Vocab, width)
					w := b.upload(table, use)
					dst := b.buf(0, width, nil)
					b.begin(3)
					b.dev.Embed(dst, w)
					row := wide(want[width : 2*width]) // begin feeds id 1
					near(t, "embedding", b.dev.Read(dst), slices.Concat(row, row, row), make([]float64, 3*width))
					b.end()
				}
			})
		}
	}
}

func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// relative returns tol times the size of each value.
func relative(x []float64, tol float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = tol*math.Abs(v) + 1e-30
	}
	return y
}

// rmsNorm is models.md 1.2.
func rmsNorm(x, w []float64, eps float32) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = w[i] * v / math.Sqrt(sum/float64(len(x))+float64(eps))
	}
	return y
}

func (s Subject) addNorm(t *testing.T) {
	const rows = 5
	for _, width := range []int{1, 7, 96, 577} {
		for _, add := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/add=%v", width, add), func(t *testing.T) {
				sp := spec()
				sp.Hidden = width
				b := s.open(t, sp, limits(sp))
				sum, x, w := b.normal(rows*width, 3), b.normal(rows*width, 1), b.normal(width, 1)
				sum[2*width] = float32(math.NaN()) // must stay in its row
				weight, dst, total := b.vector(w, width), b.buf(0, width, nil), b.buf(0, width, sum)
				delta := model.Buf(nil)
				if add {
					delta = b.buf(0, width, x)
				}
				b.begin(rows)
				b.dev.Write(total, sum)
				b.dev.AddNorm(dst, total, delta, weight)
				var want, wantSum []float64
				for i := range rows {
					r := make([]float64, width)
					for k := range r {
						r[k] = float64(sum[i*width+k])
						if add {
							r[k] = float64(sum[i*width+k] + x[i*width+k])
						}
					}
					wantSum = append(wantSum, r...)
					want = append(want, rmsNorm(r, wide(w), sp.Eps)...)
				}
				near(t, "sum", b.dev.Read(total), wantSum, make([]float64, len(wantSum)))
				near(t, "norm", b.dev.Read(dst), want, relative(want, 2e-6))
				b.end()
			})
		}
	}
}

// product is bias + w·x of one row with the bound of its error: 1e-5 of the
// absolute terms, and for int8 activations half a step of each block of 32.
func (s Subject) product(dt tensor.DType, w, x []float32, bias float32) (y, tol float64) {
	sum := math.Abs(float64(bias))
	for k, v := range x {
		y += float64(w[k]) * float64(v)
		sum += math.Abs(float64(w[k]) * float64(v))
	}
	tol = 1e-5*sum + 1e-30
	if s.Int8 && quantised(dt) {
		for k := 0; k < len(x); k += 32 {
			top, abs := 0.0, 0.0
			for i := k; i < k+32; i++ {
				top = max(top, math.Abs(float64(x[i])))
				abs += math.Abs(float64(w[i]))
			}
			tol += top / 254 * 1.001 * abs
		}
	}
	return y + float64(bias), tol
}

func (s Subject) linear(t *testing.T) {
	for _, dt := range numeric {
		t.Run(label(dt), func(t *testing.T) {
			for _, in := range widths(dt) {
				for _, out := range []int{1, 7, 50} {
					for _, rows := range []int{1, 2, 5, 33} {
						s.linearCase(t, dt, rows, in, out)
					}
				}
			}
		})
	}
}

func (s Subject) linearCase(t *testing.T, dt tensor.DType, rows, in, out int) {
	sp := spec()
	b := s.open(t, sp, limits(sp))
	weights, w := encode("w", dt, b.normal(out*in, 1), out, in)
	matrix := b.upload(weights, model.AsMatrix)
	bias := b.normal(out, 1)
	from, dst := b.buf(0, in, nil), b.buf(0, out, nil)
	for _, withBias := range []bool{false, true} {
		x := b.normal(rows*in, 1) // other activations in the same buffer: nothing made from the first may be left
		up := model.Weight(nil)
		if withBias {
			up = b.vector(bias, out)
		}
		b.begin(rows)
		b.dev.Write(from, x)
		b.dev.Linear(dst, from, matrix, up)
		var want, tol []float64
		for i := range rows {
			for o := range out {
				add := float32(0)
				if withBias {
					add = bias[o]
				}
				y, e := s.product(dt, w[o*in:][:in], x[i*in:][:in], add)
				want, tol = append(want, y), append(tol, e)
			}
		}
		near(t, fmt.Sprintf("%v [%d,%d]·[%d,%d] bias %v", dt, rows, in, out, in, withBias), b.dev.Read(dst), want, tol)
		b.end()
	}
}

// linearNaN checks that a row that is no number spoils no other.
func (s Subject) linearNaN(t *testing.T) {
	const in, out, rows = 256, 9, 4
	for _, dt := range numeric {
		for _, bad := range []float64{math.NaN(), math.Inf(1)} {
			b := s.open(t, spec(), limits(spec()))
			weights, _ := encode("w", dt, b.normal(out*in, 1), out, in)
			matrix := b.upload(weights, model.AsMatrix)
			x := b.normal(rows*in, 1)
			read := func(x []float32) []float32 {
				from, dst := b.buf(0, in, x), b.buf(0, out, nil)
				b.begin(rows)
				b.dev.Write(from, x)
				b.dev.Linear(dst, from, matrix, nil)
				got := b.dev.Read(dst)
				b.end()
				return got
			}
			want := read(x)
			x[2*in+5] = float32(bad)
			got := read(x)
			for i, g := range got {
				if finite := !math.IsNaN(float64(g)) && !math.IsInf(float64(g), 0); i/out == 2 && finite {
					t.Errorf("%v: %v in row 2 gives %v", dt, bad, g)
				} else if i/out != 2 && g != want[i] {
					t.Errorf("%v: %v in row 2 changes row %d from %v to %v", dt, bad, i/out, want[i], g)
				}
			}
		}
	}
}

func (s Subject) rotate(t *testing.T) {
	ropes := map[string]model.RoPE{
		"plain": {Base: 10000},
		"yarn":  {Base: 150000, Scaling: model.ScalingYaRN, Factor: 32, Original: 64, BetaFast: 32, BetaSlow: 1},
	}
	for name, rope := range ropes {
		for _, norm := range []bool{false, true} {
			for _, dim := range []int{2, 6, 64} {
				t.Run(fmt.Sprintf("%s/norm=%v/%d", name, norm, dim), func(t *testing.T) {
					sp := spec()
					sp.RoPE, sp.HeadDim, sp.QKNorm = rope, dim, norm
					s.rotateCase(t, sp)
				})
			}
		}
	}
}

func (s Subject) rotateCase(t *testing.T, sp *model.Spec) {
	b := s.open(t, sp, limits(sp))
	lay := newLayout(b, 2)
	batch := lay.batch([]span{{seq: 0, n: 3}, {seq: 1, n: 2}})
	lay.advance(batch)
	batch = lay.batch([]span{{seq: 1, n: 4}, {seq: 0, n: 1}}) // positions 2-5 and 3
	positions := []int{2, 3, 4, 5, 3}
	q, k := b.normal(5*sp.QDim(), 1), b.normal(5*sp.KVDim(), 1)
	qn, kn := b.normal(sp.HeadDim, 1), b.normal(sp.HeadDim, 1)
	var qw, kw model.Weight
	if sp.QKNorm {
		qw, kw = b.vector(qn, sp.HeadDim), b.vector(kn, sp.HeadDim)
	}
	qb, kb := b.buf(0, sp.QDim(), q), b.buf(0, sp.KVDim(), k)
	b.beginBatch(batch)
	b.dev.Write(qb, q)
	b.dev.Write(kb, k)
	b.dev.Rotate(qb, kb, qw, kw)
	inv, factor := model.Frequencies(sp.RoPE, sp.HeadDim)
	check := func(what string, got, x, norm []float32) {
		var want, tol []float64
		heads := len(x) / 5 / sp.HeadDim
		for i, pos := range positions {
			for h := range heads {
				head := wide(x[(i*heads+h)*sp.HeadDim:][:sp.HeadDim])
				if sp.QKNorm {
					head = rmsNorm(head, wide(norm), sp.Eps)
				}
				turned, half := make([]float64, sp.HeadDim), sp.HeadDim/2
				for n, f := range inv {
					sin, cos := math.Sincos(float64(pos) * f)
					turned[n] = (head[n]*cos - head[n+half]*sin) * factor
					turned[n+half] = (head[n+half]*cos + head[n]*sin) * factor
				}
				want = append(want, turned...)
				for n := range turned {
					tol = append(tol, 2e-6*(math.Abs(head[n%half])+math.Abs(head[n%half+half])))
				}
			}
		}
		near(t, what, got, want, tol)
	}
	check("q", b.dev.Read(qb), q, qn)
	check("k", b.dev.Read(kb), k, kn)
	b.end()
}

// activate is models.md 1.2 and 2.2.
func activate(a model.Activation, gate, up float64) float64 {
	if a == model.SwiGLU {
		gate, up = math.Min(gate, model.SwiGLULimit), math.Max(math.Min(up, model.SwiGLULimit), -model.SwiGLULimit)
		return gate / (1 + math.Exp(-model.SwiGLUAlpha*gate)) * (up + 1)
	}
	return gate / (1 + math.Exp(-gate)) * up
}

func (s Subject) glu(t *testing.T) {
	for _, a := range []model.Activation{model.SiLU, model.SwiGLU} {
		for _, inner := range []int{1, 15, 16, 35, 576} {
			t.Run(fmt.Sprintf("%d/%d", a, inner), func(t *testing.T) {
				const rows = 3
				sp := spec()
				sp.FFN.Inner, sp.FFN.Activation = inner, a
				b := s.open(t, sp, limits(sp))
				x := b.normal(rows*2*inner, 3)
				x[0], x[1] = -80, 5 // e^80 inside
				if inner > 2 {
					copy(x[2:], []float32{1e4, -1e4, -1e4, 1e4})
					x[4*inner] = float32(math.NaN())
				}
				var want, tol []float64
				for i := 0; i < len(x); i += 2 {
					y := activate(a, float64(x[i]), float64(x[i+1]))
					want, tol = append(want, y), append(tol, 2e-6*math.Abs(y)+1e-30)
				}
				gu, dst := b.buf(0, 2*inner, x), b.buf(0, inner, nil)
				b.begin(rows)
				b.dev.Write(gu, x)
				b.dev.GLU(dst, gu)
				near(t, "activation", b.dev.Read(dst), want, tol)
				b.end()
			})
		}
	}
}
