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

// attend tests Store and Attend with many shapes, windows and blocks.
func (s Subject) attend(t *testing.T) {
	for i, sh := range []attendShape{{4, 2, 6, 16}, {8, 1, 64, 16}, {3, 3, 16, 8}, {7, 1, 40, 64}, {6, 2, 128, 16}} {
		for k, window := range []int{1, 33, 300} {
			if s.Half > 0 && (i+k)%2 != s.Half-1 {
				continue
			}
			for _, sinks := range []bool{false, true} {
				if sinks == (window < sh.block) {
					continue // half of the combinations are enough, and take half the time
				}
				t.Run(sh.label(window, sinks), func(t *testing.T) {
					lengths := []int{9, 70, 270} // the last past the windows and past a split of 256 keys
					s.attendCase(t, s.openAttend(t, sh, window, sinks), lengths, uneven)
				})
			}
		}
	}
}

// windows tests sequences that grow beyond windows by single tokens, alone and beside others, and
// by chunks, with windows that are and are not whole blocks, with and without sinks: where the
// first key that a token no longer sees is, and that it counts the token itself.
func (s Subject) windows(t *testing.T) {
	sh := attendShape{4, 2, 64, 16}
	for i, window := range []int{16, 37, 128} {
		for k, sinks := range []bool{false, true} {
			if s.Half > 0 && (i+k)%2 != s.Half-1 {
				continue
			}
			t.Run(sh.label(window, sinks), func(t *testing.T) {
				bench := s.openAttend(t, sh, window, sinks)
				s.attendCase(t, bench, []int{2*window + 5, 2*window + 4, window + 1}, over(window))
			})
		}
	}
}

// An attendShape is heads and blocks of a test of attention.
type attendShape struct{ heads, kvHeads, dim, block int }

func (sh attendShape) label(window int, sinks bool) string {
	return fmt.Sprintf("%dx%dx%d/block=%d/window=%d/sinks=%v", sh.heads, sh.kvHeads, sh.dim, sh.block, window, sinks)
}

// openAttend opens the device with two layers, of which the first has the window.
func (s Subject) openAttend(t *testing.T, sh attendShape, window int, sinks bool) *bench {
	t.Helper()
	sp := spec()
	sp.Layers, sp.Windows = 2, []int{window, 0}
	sp.Heads, sp.KVHeads, sp.HeadDim, sp.Sinks = sh.heads, sh.kvHeads, sh.dim, sinks
	lim := limits(sp)
	lim.BlockSize = sh.block
	return s.open(t, sp, lim)
}

// attendCase feeds sequences of these lengths in the chunks that a function plans for each step.
func (s Subject) attendCase(t *testing.T, bench *bench, lengths []int, plan func(bench *bench, lay *layout, lengths []int, step int) []span) {
	sp := bench.spec
	oracle := &attendOracle{bench: bench}
	for _, count := range lengths {
		oracle.k = append(oracle.k, s.cached(bench.normal(count*sp.KVDim(), 1), sp.HeadDim))
		oracle.v = append(oracle.v, s.cached(bench.normal(count*sp.KVDim(), 1), sp.HeadDim))
	}
	var sinks model.Weight
	if sp.Sinks {
		oracle.sinks = bench.normal(sp.Heads, 3)
		sinks = bench.vector(oracle.sinks, sp.Heads)
	}
	qb, dst := bench.buf(0, sp.QDim(), nil), bench.buf(0, sp.QDim(), nil)
	kb, vb := bench.buf(0, sp.KVDim(), nil), bench.buf(0, sp.KVDim(), nil)
	lay := newLayout(bench, len(lengths))
	// Each step stores the same keys and values in both layers and attends with new queries;
	// windowed layers lose blocks in between.
	for step := 0; ; step++ {
		batch := lay.batch(plan(bench, lay, lengths, step))
		if len(batch.Rows) == 0 {
			return
		}
		var keys, values []float32
		for _, row := range batch.Rows {
			keys = append(keys, oracle.k[row.Slot][row.Start*sp.KVDim():][:row.Len*sp.KVDim()]...)
			values = append(values, oracle.v[row.Slot][row.Start*sp.KVDim():][:row.Len*sp.KVDim()]...)
		}
		queries := bench.normal(len(batch.Tokens)*sp.QDim(), 1)
		bench.beginBatch(batch)
		for layer := range sp.Layers {
			bench.dev.Write(qb, queries)
			bench.dev.Write(kb, keys)
			bench.dev.Write(vb, values)
			bench.dev.Store(layer, kb, vb)
			bench.dev.Attend(dst, qb, layer, sinks)
			want, tol := oracle.expect(batch, s.acts(queries), sp.Windows[layer])
			near(t, fmt.Sprintf("step %d layer %d", step, layer), bench.dev.Read(dst), want, s.widen(want, tol))
		}
		bench.end()
		lay.advance(batch)
	}
}

// over returns what plans steps in which sequences grow up to a window in chunks, over its border
// token by token, and on in chunks; the second sequence is a step behind.
func over(window int) func(bench *bench, lay *layout, lengths []int, step int) []span {
	return func(bench *bench, lay *layout, lengths []int, step int) (spans []span) {
		for i, length := range lengths {
			done, count := lay.seqs[i].done, bench.lim.MaxTokens/len(lengths)
			switch {
			case i == 1 && step == 0:
				continue
			case done < window-2:
				count = min(count, window-2-done)
			case done < window+3:
				count = 1
			}
			if count = min(count, length-done); count > 0 {
				spans = append(spans, span{i, count})
			}
		}
		return spans
	}
}

// uneven plans a step: every other one single tokens, the others chunks.
func uneven(bench *bench, lay *layout, lengths []int, step int) (spans []span) {
	for i, length := range lengths {
		left := length - lay.seqs[i].done
		want := 1
		if step%2 == 0 {
			want = 1 + bench.rng.IntN(bench.lim.MaxTokens/len(lengths))
		}
		if length := min(left, want); length > 0 {
			spans = append(spans, span{i, length})
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
		for vector := range slices.Chunk(x, dim) {
			top := 0.0
			for _, e := range vector {
				top = max(top, math.Abs(float64(e)))
				// The power of two that brings the largest element into [128, 256), below 448,
				// E4M3's largest.
			}
			scale := math.Ldexp(1, math.Ilogb(top)-7)
			for i, e := range vector {
				vector[i] = float32(float64(tensor.E4M3ToFloat(tensor.ToE4M3(float32(float64(e)/scale)))) * scale)
			}
		}
	}
	return x
}

// An attendOracle is attention in float64 over the keys and values of all sequences.
type attendOracle struct {
	bench *bench
	k, v  [][]float32 // [sequence][token·KVDim]
	sinks []float32
}

// expect is attention by models.md 1.2 for all tokens of a batch.
func (a *attendOracle) expect(batch *runner.Batch, query []float32, window int) (want, tol []float64) {
	share := 1e-4 // of the largest value
	if a.bench.s.Acts == tensor.BF16 {
		share = 4e-3 // half a unit in the last place of every probability
	}
	for _, row := range batch.Rows {
		for pos := row.Start; pos < row.Start+row.Len; pos++ {
			first := 0
			if window > 0 {
				first = max(pos-window+1, 0)
			}
			for head := range a.bench.spec.Heads {
				dim := a.bench.spec.HeadDim
				out, size := a.head(row.Slot, first, pos, head, query[head*dim:][:dim])
				want = append(want, out...)
				tol = append(tol, slices.Repeat([]float64{share * size}, dim)...)
			}
			query = query[a.bench.spec.QDim():]
		}
	}
	return want, tol
}

// head returns the output of one query head over the keys first..last and the
// largest value seen.
func (a *attendOracle) head(seq, first, last, head int, q []float32) (out []float64, size float64) {
	sp := a.bench.spec
	at := head / (sp.Heads / sp.KVHeads) * sp.HeadDim
	scores := make([]float64, last-first+1)
	for i := range scores {
		key, sum := a.k[seq][(first+i)*sp.KVDim()+at:][:len(q)], 0.0
		for d, x := range q {
			sum += float64(x) * float64(key[d])
		}
		scores[i] = sum / math.Sqrt(float64(sp.HeadDim))
	}
	// Softmax; the sink takes part in the sum and has no value.
	top := slices.Max(scores)
	sum := 0.0
	if a.sinks != nil {
		top = max(top, float64(a.sinks[head]))
		sum = math.Exp(float64(a.sinks[head]) - top)
	}
	out = make([]float64, sp.HeadDim)
	for i, sc := range scores {
		weight := math.Exp(sc - top)
		sum += weight
		for d, v := range a.v[seq][(first+i)*sp.KVDim()+at:][:len(out)] {
			out[d] += weight * float64(v)
			if abs := math.Abs(float64(v)); abs > size {
				size = abs
			}
		}
	}
	for d := range out {
		out[d] /= sum
	}
	return out, size
}
