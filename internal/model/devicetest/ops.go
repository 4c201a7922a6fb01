package devicetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"ossian/internal/model"
	"ossian/internal/tensor"
)

// numeric are the types of weights.
var numeric = []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.MXFP4, tensor.MXFP4HF,
	tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.IQ4_NL, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K}

// quantised reports whether dt is stored in blocks.
func quantised(dt tensor.DType) bool {
	block, _ := dt.Block()
	return block > 1
}

// label tells the two orders of MXFP4 apart.
func label(dt tensor.DType) string { return fmt.Sprintf("%v#%d", dt, dt) }

// widths returns row lengths of type dt that are no multiple of a vector.
func widths(dt tensor.DType) []int {
	switch block, _ := dt.Block(); block {
	case 1:
		return []int{1, 7, 33, 96}
	case 32:
		return []int{32, 96, 288}
	default:
		return []int{block, 3 * block}
	}
}

// embed tests Embed for every type.
func (s Subject) embed(t *testing.T) {
	for _, dt := range numeric {
		for _, use := range []model.Use{model.AsTable, model.AsTiedTable} {
			t.Run(fmt.Sprintf("%s/%d", label(dt), use), func(t *testing.T) {
				for _, width := range widths(dt) {
					sp := spec()
					sp.Hidden = width
					bench := s.open(t, sp, limits(sp))
					table, want := s.encode("table", dt, bench.normal(sp.Vocab*width, 1), sp.Vocab, width)
					if bench.lacks(table, use) {
						continue
					}
					weight := bench.upload(table, use)
					dst := bench.buf(0, width, nil)
					bench.begin(3)
					bench.dev.Embed(dst, weight)
					row := wide(want[width : 2*width]) // begin feeds id 1
					near(t, "embedding", bench.dev.Read(dst), slices.Concat(row, row, row), make([]float64, 3*width))
					bench.end()
				}
			})
		}
	}
}

// wide converts to float64.
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

// addNorm tests AddNorm with and without something to add.
func (s Subject) addNorm(t *testing.T) {
	const rows = 5
	for _, width := range []int{1, 7, 96, 577} {
		for _, add := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/add=%v", width, add), func(t *testing.T) {
				sp := spec()
				sp.Hidden = width
				bench := s.open(t, sp, limits(sp))
				sum, added, scale := bench.normal(rows*width, 3), bench.normal(rows*width, 1), bench.normal(width, 1)
				sum[2*width] = float32(math.NaN()) // must stay in its row
				weight, dst, total := bench.vector(scale, width), bench.buf(0, width, nil), bench.buf(0, width, sum)
				delta := model.Buf(nil)
				if add {
					delta = bench.buf(0, width, added)
				}
				bench.begin(rows)
				bench.dev.Write(total, sum)
				bench.dev.AddNorm(dst, total, delta, weight)
				var want, wantSum []float64
				for i := range rows {
					row := make([]float64, width)
					for k := range row {
						row[k] = float64(sum[i*width+k])
						if add {
							row[k] = float64(sum[i*width+k] + added[i*width+k])
						}
					}
					wantSum = append(wantSum, row...)
					want = append(want, rmsNorm(row, wide(scale), sp.Eps)...)
				}
				near(t, "sum", bench.dev.Read(total), wantSum, make([]float64, len(wantSum)))
				near(t, "norm", bench.dev.Read(dst), want, s.widen(want, relative(want, 2e-6)))
				bench.end()
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

// linear tests Linear for every type, with odd shapes.
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

// linearCase holds one product, with and without bias, to product.
func (s Subject) linearCase(t *testing.T, dt tensor.DType, rows, in, out int) {
	sp := spec()
	bench := s.open(t, sp, limits(sp))
	weights, decoded := s.encode("w", dt, bench.normal(out*in, 1), out, in)
	if bench.lacks(weights, model.AsMatrix) {
		return
	}
	matrix := bench.upload(weights, model.AsMatrix)
	bias := bench.normal(out, 1)
	from, dst := bench.buf(0, in, nil), bench.buf(0, out, nil)
	for _, withBias := range []bool{false, true} {
		acts := bench.normal(rows*in, 1) // other activations in the same buffer: nothing made from the first may be left
		up := model.Weight(nil)
		if withBias {
			up = bench.vector(bias, out)
		}
		bench.begin(rows)
		bench.dev.Write(from, acts)
		bench.dev.Linear(dst, from, matrix, up)
		var want, tol []float64
		acts = s.acts(acts)
		for i := range rows {
			for o := range out {
				add := float32(0)
				if withBias {
					add = bias[o]
				}
				y, e := s.product(dt, decoded[o*in:][:in], acts[i*in:][:in], add)
				want, tol = append(want, y), append(tol, e)
			}
		}
		near(t, fmt.Sprintf("%v [%d,%d]·[%d,%d] bias %v", dt, rows, in, out, in, withBias), bench.dev.Read(dst), want, tol)
		bench.end()
	}
}

// linears holds matrices that are multiplied together to the bits of each alone: ones that a device may lay
// one behind the other, and ones that it hardly can.
func (s Subject) linears(t *testing.T) {
	const in, rows = 64, 5
	for _, outs := range [][]int{{64, 32, 16}, {16, 7, 32}, {6, 16, 1}} {
		for _, types := range [][]tensor.DType{{tensor.BF16, tensor.BF16, tensor.BF16}, {tensor.Q8_0, tensor.Q8_0, tensor.Q8_0}, {tensor.BF16, tensor.Q8_0, tensor.BF16}} {
			for _, biased := range []bool{false, true} {
				s.linearsCase(t, types, rows, in, outs, biased)
			}
		}
	}
}

func (s Subject) linearsCase(t *testing.T, types []tensor.DType, rows, in int, outs []int, biased bool) {
	sp := spec()
	bench := s.open(t, sp, limits(sp))
	var matrices, biases []tensor.Tensor
	for i, out := range outs {
		w, _ := s.encode("w", types[i], bench.normal(out*in, 1), out, in)
		b, _ := s.encode("b", tensor.F32, bench.normal(out, 1), out)
		matrices, biases = append(matrices, w), append(biases, b)
	}
	together := func(all []tensor.Tensor, use model.Use) (weights []model.Weight) {
		if err := bench.dev.Beside(all, use); err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			weights = append(weights, bench.upload(one, use))
		}
		return weights
	}
	weights, added := together(matrices, model.AsMatrix), make([]model.Weight, len(outs))
	if biased {
		added = together(biases, model.AsVector)
	}
	acts := bench.normal(rows*in, 1)
	from := bench.buf(0, in, nil)
	dst, err := bench.dev.Alloc(bench.lim.MaxTokens, outs...)
	if err != nil {
		t.Fatal(err)
	}
	bench.begin(rows)
	bench.dev.Write(from, acts)
	bench.dev.Linears(dst, from, weights, added)
	// Matrices that are multiplied together must give what each gives alone, to the bit.
	for i, out := range outs {
		alone := bench.buf(0, out, nil)
		bench.dev.Linear(alone, from, weights[i], added[i])
		got, want := bench.dev.Read(dst[i]), bench.dev.Read(alone)
		near(t, fmt.Sprintf("matrix %d of %v, %v, bias %v", i, outs, types, biased), got, wide(want), make([]float64, len(want)))
	}
	bench.end()
}

// linearNaN checks that a row that is no number spoils no other.
func (s Subject) linearNaN(t *testing.T) {
	const in, out, rows = 256, 9, 4
	for _, dt := range numeric {
		for _, bad := range []float64{math.NaN(), math.Inf(1)} {
			bench := s.open(t, spec(), limits(spec()))
			weights, _ := s.encode("w", dt, bench.normal(out*in, 1), out, in)
			if bench.lacks(weights, model.AsMatrix) {
				continue
			}
			matrix := bench.upload(weights, model.AsMatrix)
			acts := bench.normal(rows*in, 1)
			// The same product before and after a row is spoilt.
			read := func(acts []float32) []float32 {
				from, dst := bench.buf(0, in, acts), bench.buf(0, out, nil)
				bench.begin(rows)
				bench.dev.Write(from, acts)
				bench.dev.Linear(dst, from, matrix, nil)
				got := bench.dev.Read(dst)
				bench.end()
				return got
			}
			want := read(acts)
			acts[2*in+5] = float32(bad)
			got := read(acts)
			for i, value := range got {
				if finite := !math.IsNaN(float64(value)) && !math.IsInf(float64(value), 0); i/out == 2 && finite {
					t.Errorf("%v: %v in row 2 gives %v", dt, bad, value)
				} else if i/out != 2 && value != want[i] {
					t.Errorf("%v: %v in row 2 changes row %d from %v to %v", dt, bad, i/out, want[i], value)
				}
			}
		}
	}
}

// rotate tests Rotate with and without norms, plain and stretched.
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

// rotateCase rotates rows of two sequences at different positions.
func (s Subject) rotateCase(t *testing.T, sp *model.Spec) {
	bench := s.open(t, sp, limits(sp))
	lay := newLayout(bench, 2)
	batch := lay.batch([]span{{seq: 0, n: 3}, {seq: 1, n: 2}})
	lay.advance(batch)
	batch = lay.batch([]span{{seq: 1, n: 4}, {seq: 0, n: 1}}) // positions 2-5 and 3
	positions := []int{2, 3, 4, 5, 3}
	queries, keys := bench.normal(5*sp.QDim(), 1), bench.normal(5*sp.KVDim(), 1)
	qn, kn := bench.normal(sp.HeadDim, 1), bench.normal(sp.HeadDim, 1)
	var qw, kw model.Weight
	if sp.QKNorm {
		qw, kw = bench.vector(qn, sp.HeadDim), bench.vector(kn, sp.HeadDim)
	}
	qb, kb := bench.buf(0, sp.QDim(), queries), bench.buf(0, sp.KVDim(), keys)
	bench.beginBatch(batch)
	bench.dev.Write(qb, queries)
	bench.dev.Write(kb, keys)
	bench.dev.Rotate(qb, kb, qw, kw)
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
				for pair, freq := range inv {
					sin, cos := math.Sincos(float64(pos) * freq)
					turned[pair] = (head[pair]*cos - head[pair+half]*sin) * factor
					turned[pair+half] = (head[pair+half]*cos + head[pair]*sin) * factor
				}
				want = append(want, turned...)
				for pair := range turned {
					tol = append(tol, 2e-6*(math.Abs(head[pair%half])+math.Abs(head[pair%half+half])))
				}
			}
		}
		near(t, what, got, want, s.widen(want, tol))
	}
	check("q", bench.dev.Read(qb), queries, qn)
	check("k", bench.dev.Read(kb), keys, kn)
	bench.end()
}

// activate is models.md 1.2 and 2.2.
func activate(a model.Activation, gate, up float64) float64 {
	if a == model.SwiGLU {
		gate, up = math.Min(gate, model.SwiGLULimit), math.Max(math.Min(up, model.SwiGLULimit), -model.SwiGLULimit)
		return gate / (1 + math.Exp(-model.SwiGLUAlpha*gate)) * (up + 1)
	}
	return gate / (1 + math.Exp(-gate)) * up
}

// glu tests both activations, clamps and large values included.
func (s Subject) glu(t *testing.T) {
	for _, activation := range []model.Activation{model.SiLU, model.SwiGLU} {
		for _, inner := range []int{1, 15, 16, 35, 576} {
			t.Run(fmt.Sprintf("%d/%d", activation, inner), func(t *testing.T) {
				const rows = 3
				sp := spec()
				sp.FFN.Inner, sp.FFN.Activation = inner, activation
				bench := s.open(t, sp, limits(sp))
				gateUp := bench.normal(rows*2*inner, 3)
				gateUp[0], gateUp[1] = -80, 5 // e^80 inside
				if inner > 2 {
					copy(gateUp[2:], []float32{1e4, -1e4, -1e4, 1e4})
					gateUp[4*inner] = float32(math.NaN())
				}
				var want, tol []float64
				for i := 0; i < len(gateUp); i += 2 {
					y := activate(activation, float64(gateUp[i]), float64(gateUp[i+1]))
					want, tol = append(want, y), append(tol, 2e-6*math.Abs(y)+1e-30)
				}
				gu, dst := bench.buf(0, 2*inner, gateUp), bench.buf(0, inner, nil)
				bench.begin(rows)
				bench.dev.Write(gu, gateUp)
				bench.dev.GLU(dst, gu)
				near(t, "activation", bench.dev.Read(dst), want, s.widen(want, tol))
				bench.end()
			})
		}
	}
}
