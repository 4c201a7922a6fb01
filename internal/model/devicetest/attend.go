package devicetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/tensor"
)

func (s Subject) attend(t *testing.T) {
	type shape struct{ heads, kvHeads, dim, block int }
	for _, sh := range []shape{{4, 2, 6, 16}, {8, 1, 64, 16}, {3, 3, 16, 8}, {7, 1, 40, 64}, {6, 2, 128, 16}} {
		for _, window := range []int{1, 33, 300} {
			for _, sinks := range []bool{false, true} {
				if sinks == (window < sh.block) {
					continue // half of the combinations are enough, and take half the time
				}
				t.Run(fmt.Sprintf("%dx%dx%d/block=%d/window=%d/sinks=%v", sh.heads, sh.kvHeads, sh.dim, sh.block, window, sinks), func(t *testing.T) {
					sp := spec()
					sp.Layers, sp.Windows = 2, []int{window, 0}
					sp.Heads, sp.KVHeads, sp.HeadDim, sp.Sinks = sh.heads, sh.kvHeads, sh.dim, sinks
					lim := limits(sp)
					lim.BlockSize = sh.block
					s.attendCase(t, s.open(t, sp, lim))
				})
			}
		}
	}
}

// attendCase feeds three sequences in uneven chunks, the last past the windows
// and past a split of 256 keys.
func (s Subject) attendCase(t *testing.T, b *bench) {
	sp := b.spec
	lengths := []int{9, 70, 270}
	a := &attendOracle{b: b}
	for _, n := range lengths {
		a.k = append(a.k, s.cached(b.normal(n*sp.KVDim(), 1), sp.HeadDim))
		a.v = append(a.v, s.cached(b.normal(n*sp.KVDim(), 1), sp.HeadDim))
	}
	var sinks model.Weight
	if sp.Sinks {
		a.sinks = b.normal(sp.Heads, 3)
		sinks = b.vector(a.sinks, sp.Heads)
	}
	qb, dst := b.buf(0, sp.QDim(), nil), b.buf(0, sp.QDim(), nil)
	kb, vb := b.buf(0, sp.KVDim(), nil), b.buf(0, sp.KVDim(), nil)
	lay := newLayout(b, len(lengths))
	for step := 0; ; step++ {
		batch := lay.batch(uneven(b, lay, lengths, step))
		if len(batch.Rows) == 0 {
			return
		}
		var k, v []float32
		for _, r := range batch.Rows {
			k = append(k, a.k[r.Slot][r.Start*sp.KVDim():][:r.Len*sp.KVDim()]...)
			v = append(v, a.v[r.Slot][r.Start*sp.KVDim():][:r.Len*sp.KVDim()]...)
		}
		q := b.normal(len(batch.Tokens)*sp.QDim(), 1)
		b.beginBatch(batch)
		for layer := range sp.Layers {
			b.dev.Write(qb, q)
			b.dev.Write(kb, k)
			b.dev.Write(vb, v)
			b.dev.Store(layer, kb, vb)
			b.dev.Attend(dst, qb, layer, sinks)
			want, tol := a.expect(batch, q, sp.Windows[layer])
			near(t, fmt.Sprintf("step %d layer %d", step, layer), b.dev.Read(dst), want, tol)
		}
		b.end()
		lay.advance(batch)
	}
}

// uneven plans a step: every other one single tokens, the others chunks.
func uneven(b *bench, lay *layout, lengths []int, step int) (spans []span) {
	for i, n := range lengths {
		left := n - lay.seqs[i].done
		want := 1
		if step%2 == 0 {
			want = 1 + b.rng.IntN(b.lim.MaxTokens/len(lengths))
		}
		if n := min(left, want); n > 0 {
			spans = append(spans, span{i, n})
		}
	}
	return spans
}

// cached rounds vectors of dim elements to what the device keeps.
func (s Subject) cached(x []float32, dim int) []float32 {
	switch s.KV {
	case tensor.BF16:
		for i, v := range x {
			x[i] = tensor.BF16ToFloat(tensor.ToBF16(v))
		}
	case tensor.F8_E4M3:
		for v := range slices.Chunk(x, dim) {
			top := 0.0
			for _, e := range v {
				top = max(top, math.Abs(float64(e)))
			}
			scale := math.Ldexp(1, math.Ilogb(top)-7)
			for i, e := range v {
				v[i] = float32(float64(tensor.E4M3ToFloat(tensor.ToE4M3(float32(float64(e)/scale)))) * scale)
			}
		}
	}
	return x
}

type attendOracle struct {
	b     *bench
	k, v  [][]float32 // [sequence][token·KVDim]
	sinks []float32
}

// expect is attention by models.md 1.2 for all tokens of a batch.
func (a *attendOracle) expect(batch *runner.Batch, q []float32, window int) (want, tol []float64) {
	for _, r := range batch.Rows {
		for p := r.Start; p < r.Start+r.Len; p++ {
			first := 0
			if window > 0 {
				first = max(p-window+1, 0)
			}
			for h := range a.b.spec.Heads {
				n := a.b.spec.HeadDim
				out, size := a.head(r.Slot, first, p, h, q[h*n:][:n])
				want = append(want, out...)
				tol = append(tol, slices.Repeat([]float64{1e-4 * size}, n)...)
			}
			q = q[a.b.spec.QDim():]
		}
	}
	return want, tol
}

// head returns the output of one query head over the keys first..last and the
// largest value seen.
func (a *attendOracle) head(seq, first, last, h int, q []float32) (out []float64, size float64) {
	sp := a.b.spec
	at := h / (sp.Heads / sp.KVHeads) * sp.HeadDim
	scores := make([]float64, last-first+1)
	for i := range scores {
		k := a.k[seq][(first+i)*sp.KVDim()+at:]
		for d, x := range q {
			scores[i] += float64(x) * float64(k[d])
		}
		scores[i] /= math.Sqrt(float64(sp.HeadDim))
	}
	top := slices.Max(scores)
	sum := 0.0
	if a.sinks != nil {
		top = max(top, float64(a.sinks[h]))
		sum = math.Exp(float64(a.sinks[h]) - top)
	}
	out = make([]float64, sp.HeadDim)
	for i, sc := range scores {
		p := math.Exp(sc - top)
		sum += p
		v := a.v[seq][(first+i)*sp.KVDim()+at:]
		for d := range out {
			out[d] += p * float64(v[d])
			size = max(size, math.Abs(float64(v[d])))
		}
	}
	for d := range out {
		out[d] /= sum
	}
	return out, size
}
