package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/soak"
	"ossian/internal/tensor"
)

// A mixture is a layer of experts on a card and in float64.
type mixture struct {
	dtype                  tensor.DType
	hidden, inner, experts int
	activation             int32
	up, down               *matrix
	upBias, downBias       []float32
	upBiasAt, downBiasAt   driver.Ptr
	upW, downW             []float32
}

func newMixture(r *rig, rng *rand.Rand, dtype tensor.DType, hidden, inner, experts int, activation int32) *mixture {
	r.t.Helper()
	return newMixtureOf(r, rng, dtype, hidden, inner, experts, activation, false)
}

// newMixtureOf has rows that are lifted among those of MXFP4, if lift is set.
func newMixtureOf(r *rig, rng *rand.Rand, dtype tensor.DType, hidden, inner, experts int, activation int32, lift bool) *mixture {
	r.t.Helper()
	m := &mixture{dtype: dtype, hidden: hidden, inner: inner, experts: experts, activation: activation}
	up, upW := encoded(r.t, dtype, normals(rng, experts*2*inner*hidden, 0.2), experts, 2*inner, hidden)
	down, downW := encoded(r.t, dtype, normals(rng, experts*hidden*inner, 0.2), experts, hidden, inner)
	if f, _ := formatOf(dtype); f == formatMXFP4 && lift {
		upW, downW = lifted(up, 19*hidden), lifted(down, 3*inner)
	}
	m.up, m.down = onCard(r, up, true), onCard(r, down, false)
	m.upW, m.downW = rounded(dtype, upW), rounded(dtype, downW)
	if activation == swigluLimited {
		m.upBias, m.downBias = normals(rng, experts*2*inner, 1), normals(rng, experts*hidden, 1)
		m.upBiasAt, m.downBiasAt = upload(r, m.upBias), upload(r, m.downBias)
	}
	return m
}

// lifted gives a block of MXFP4 an exponent that pack.go lowers, and returns the weights.
func lifted(source tensor.Tensor, element int) []float32 {
	if source.DType == tensor.MXFP4HF {
		source.Scales[element/32] = 150
	} else {
		source.Data[17*(element/32)] = 150
	}
	return decoded(source)
}

// assigned are the experts of tokens and their weights, ids ascending.
type assigned struct {
	topK         int
	ids, weights []float32
}

func newAssigned(rng *rand.Rand, tokens, experts, topK int) assigned {
	a := assigned{topK: topK}
	for range tokens {
		// The last expert is never chosen, the first one by almost all.
		taken := make([]bool, experts)
		for n := 0; n < topK; {
			expert := rng.IntN(experts - 1)
			if n == 0 && rng.IntN(8) > 0 {
				expert = 0
			}
			if !taken[expert] {
				taken[expert] = true
				n++
			}
		}
		for expert, is := range taken {
			if is {
				a.ids = append(a.ids, float32(expert))
				a.weights = append(a.weights, rng.Float32())
			}
		}
	}
	return a
}

// run returns what experts makes of tokens from one on.
func (m *mixture) run(r *rig, x activations, a assigned, from, tokens int) [][]float32 {
	r.t.Helper()
	const stride = 64
	spread := func(values []float32) driver.Ptr {
		rows := make([]float32, tokens*stride)
		for i := range tokens {
			copy(rows[i*stride:], values[(from+i)*a.topK:][:a.topK])
		}
		return upload(r, rows)
	}
	dstStride := pad64(m.hidden)
	dst := r.alloc(4 * tokens * dstStride)
	r.must(r.drv.SetAsync(dst, 0xff, uint64(4*tokens*dstStride), r.q.stream))
	part := x.from(from)
	r.q.experts(&expertArgs{dst: dst, dstStride: dstStride, x: part.at, xStride: part.stride, ids: spread(a.ids), weights: spread(a.weights), stride: stride,
		up: m.up, down: m.down, upBias: m.upBiasAt, downBias: m.downBiasAt, scratch: r.alloc(expertScratch(m.up, m.down, tokens, a.topK)),
		tokens: tokens, topK: a.topK, activation: m.activation})
	return rowsOf(download[float32](r, dst, tokens*dstStride), m.hidden, dstStride)
}

// want is the result for one token in float64, and a bound of its terms, for rounding of the
// activation to bf16 included: 2^-9 of each of its values.
func (m *mixture) want(x []float64, ids, weights []float32) (want, tolerance []float64) {
	want, tolerance = make([]float64, m.hidden), make([]float64, m.hidden)
	for k, id := range ids {
		expert, weight := int(id), float64(weights[k])
		activated, errors := make([]float64, m.inner), make([]float64, m.inner)
		for i := range activated {
			activated[i], errors[i] = m.activated(x, expert, i)
		}
		for row := range want {
			weights := m.downW[(expert*m.hidden+row)*m.inner:][:m.inner]
			bias := 0.0
			if m.downBias != nil {
				bias = float64(m.downBias[expert*m.hidden+row])
			}
			sum, bound := product(weights, activated, bias)
			want[row] += weight * sum
			tolerance[row] += weight * 1e-5 * bound
			for i, w := range weights {
				tolerance[row] += weight * math.Abs(float64(w)) * errors[i]
			}
		}
	}
	return want, tolerance
}

// activated is one value between the products, and by how much it may be off: 1e-5 of the terms of
// both sums times the activation's slope, which is below 9, and half a unit of bf16.
func (m *mixture) activated(x []float64, expert, column int) (value, off float64) {
	pair := func(i int) (float64, float64) {
		at := expert*2*m.inner + 2*column + i
		bias := 0.0
		if m.upBias != nil {
			bias = float64(m.upBias[at])
		}
		return product(m.upW[at*m.hidden:][:m.hidden], x, bias)
	}
	gate, gateBound := pair(0)
	up, upBound := pair(1)
	slope := 9.0
	if m.activation == silu {
		value = gate / (1 + math.Exp(-gate)) * up
		slope = 1.2 * max(math.Abs(up), math.Abs(gate))
	} else {
		gate, up = min(gate, 7), max(min(up, 7), -7)
		value = gate / (1 + math.Exp(-1.702*gate)) * (up + 1)
	}
	return value, math.Abs(value)*0x1p-8 + slope*1e-5*(gateBound+upBound)
}

// TestExperts compares experts of every type with float64, and the bits of tokens alone and among
// others: tiles of 8, 16, 32 and 128.
func TestExperts(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(15, 16))
	for _, test := range []struct {
		dtype                        tensor.DType
		hidden, inner, experts, topK int
		activation                   int32
	}{
		{tensor.MXFP4HF, 352, 32, 4, 2, swigluLimited},
		{tensor.MXFP4, 64, 544, 3, 2, silu},
		{tensor.BF16, 40, 20, 4, 2, swigluLimited},
		// More units in a chunk than any kernel has stages.
		{tensor.MXFP4, 416, 480, 2, 1, swigluLimited},
		{tensor.BF16, 416, 480, 2, 1, silu},
		{tensor.Q8_0, 416, 480, 2, 1, swigluLimited},
		// Sums in one chunk and in several, of the first matrix and of the second one.
		{tensor.BF16, 520, 16, 3, 2, swigluLimited},
		{tensor.BF16, 16, 520, 3, 2, swigluLimited},
		{tensor.MXFP4HF, 544, 32, 3, 2, silu},
		{tensor.Q8_0, 32, 544, 3, 2, silu},
		{tensor.F32, 6, 12, 2, 1, silu},
		{tensor.Q8_0, 1056, 64, 3, 2, swigluLimited},
	} {
		t.Run(fmt.Sprintf("%v/%d/%dx%d", test.dtype, test.dtype, test.hidden, test.inner), func(t *testing.T) {
			r := newRig(t)
			m := newMixtureOf(r, rng, test.dtype, test.hidden, test.inner, test.experts, test.activation, test.hidden != 352)
			most := 101 * test.experts / test.topK // so that the largest tiles are used
			x := newActivations(r, normals(rng, most*test.hidden, 1), test.hidden)
			a := newAssigned(rng, most, test.experts, test.topK)
			all := m.run(r, x, a, 0, most)
			for token := 0; token < most; token += 7 { // float64 is slow, and all have the same bits as alone
				want, tolerance := m.want(x.rows[token], a.ids[token*a.topK:][:a.topK], a.weights[token*a.topK:][:a.topK])
				for i, v := range all[token] {
					if !(math.Abs(float64(v)-want[i]) <= tolerance[i]) {
						t.Fatalf("token %d, element %d: %v, want %v within %v", token, i, v, want[i], tolerance[i])
					}
				}
			}
			for i, part := range [][2]int{{11, 1}, {20, 5}, {0, 8}, {3, 15}, {60, 38}, {7, 3}, {30, 14}, {70, 28}} {
				r.q.multiprocessors = largeCard
				if i%2 > 0 { // blocks with several warps for a chunk
					r.q.multiprocessors = 1
				}
				for i, row := range m.run(r, x, a, part[0], part[1]) {
					sameBits(t, fmt.Sprintf("token %d of %d", i, part[1]), row, all[part[0]+i])
				}
			}
		})
	}
}

// TestExpertPieces holds steps that are computed in several pieces.
func TestExpertPieces(t *testing.T) {
	r := newRig(t)
	rng := rand.New(rand.NewPCG(17, 18))
	m := newMixture(r, rng, tensor.BF16, 8, 8, 3, silu)
	const tokens = expertPiece + 5
	x := newActivations(r, normals(rng, tokens*m.hidden, 1), m.hidden)
	a := newAssigned(rng, tokens, m.experts, 1)
	all := m.run(r, x, a, 0, tokens)
	for _, token := range []int{0, expertPiece - 1, expertPiece, tokens - 1} {
		sameBits(t, fmt.Sprint("token ", token), m.run(r, x, a, token, 1)[0], all[token])
	}
}

// TestExpertScratch holds that fewer tokens never need more memory than was asked for.
func TestExpertScratch(t *testing.T) {
	for _, experts := range []int{1, 4, 32, 128} {
		a := expertArgs{up: &matrix{experts: experts, rows: 128, cols: 64}, down: &matrix{experts: experts, rows: 64, cols: 64}, topK: 4}
		for _, most := range []int{1, 7, 64, 1000, expertPiece, 8192} {
			bytes := expertScratch(a.up, a.down, most, a.topK)
			for tokens := 1; tokens <= min(most, expertPiece); tokens++ {
				if need := a.space(tokens).bytes; need > bytes {
					t.Fatalf("%d experts, %d of %d tokens need %d bytes, there are %d", experts, tokens, most, need, bytes)
				}
			}
		}
	}
}

// TestExpertsRandom compares experts of random sizes with float64, and tokens alone with all.
func TestExpertsRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 28))
	for range soak.Cases(t, 3, 100) {
		dtype := packTypes[rng.IntN(len(packTypes))]
		hidden, inner, experts := 32*(1+rng.IntN(8)), 32*(1+rng.IntN(5)), 2+rng.IntN(20)
		topK, tokens := 1+rng.IntN(min(experts-1, 5)), 1+rng.IntN(60)
		t.Run(fmt.Sprintf("%v/%dx%d/%d of %d/%d", dtype, hidden, inner, topK, experts, tokens), func(t *testing.T) {
			r := newRig(t)
			r.q.multiprocessors = 1 + rng.IntN(20)
			m := newMixture(r, rng, dtype, hidden, inner, experts, int32(rng.IntN(2)))
			x := newActivations(r, normals(rng, tokens*hidden, 1), hidden)
			a := newAssigned(rng, tokens, experts, topK)
			all := m.run(r, x, a, 0, tokens)
			for range 2 {
				token := rng.IntN(tokens)
				want, tolerance := m.want(x.rows[token], a.ids[token*topK:][:topK], a.weights[token*topK:][:topK])
				for i, v := range all[token] {
					if !(math.Abs(float64(v)-want[i]) <= tolerance[i]) {
						t.Fatalf("token %d, element %d: %v, want %v within %v", token, i, v, want[i], tolerance[i])
					}
				}
				sameBits(t, fmt.Sprint("token ", token), m.run(r, x, a, token, 1)[0], all[token])
			}
		})
	}
}

// TestExpertsTraffic holds that weights of chosen experts are read once, those of others not at all.
func TestExpertsTraffic(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 30))
	for _, dtype := range []tensor.DType{tensor.MXFP4HF, tensor.BF16, tensor.Q8_0} {
		t.Run(fmt.Sprint(dtype), func(t *testing.T) {
			r := newRig(t)
			m := newMixture(r, rng, dtype, 128, 64, 8, swigluLimited)
			x := newActivations(r, normals(rng, 6*m.hidden, 1), m.hidden)
			a := newAssigned(rng, 6, m.experts, 2)
			bytes := func(w *matrix) int { return w.groups() * w.units() * w.format.unitBytes } // of an expert
			r.machine.Watch("up", m.up.data, uint64(m.experts*bytes(m.up)))
			r.machine.Watch("down", m.down.data, uint64(m.experts*bytes(m.down)))
			m.run(r, x, a, 0, 6)
			chosen := map[float32]bool{}
			for _, id := range a.ids {
				chosen[id] = true
			}
			counters := r.counters()
			for name, w := range map[string]*matrix{"up": m.up, "down": m.down} {
				if got, want := counters.Watched[name].Sectors, len(chosen)*bytes(w)/32; got < int64(want) || float64(got) > 1.05*float64(want) {
					t.Errorf("%s: %d sectors were read, %d experts have %d", name, got, len(chosen), want)
				}
			}
			for kernel, count := range counters.Kernels {
				if float64(count.Conflicts) > 0.05*float64(count.Shared) {
					t.Errorf("%s: %d of %d wavefronts in shared memory are of bank conflicts", kernel, count.Conflicts, count.Shared)
				}
			}
		})
	}
}

// TestExpertsPlan compares the order of assignments and the tiles with the definition: more experts than
// lanes, more assignments than a warp takes at a time, experts that have none or all.
func TestExpertsPlan(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for _, test := range []struct{ tokens, experts, topK, tile int }{
		{1, 1, 1, 8}, {3, 5, 2, 8}, {8, 4, 1, 8}, {9, 4, 4, 16}, {700, 70, 5, 32}, {1300, 3, 2, 128}, {256, 257, 4, 8}, {2048, 33, 1, 128},
	} {
		t.Run(fmt.Sprintf("%d of %d for %d, tiles of %d", test.topK, test.experts, test.tokens, test.tile), func(t *testing.T) {
			r := newRig(t)
			const stride = 64
			assignments := test.tokens * test.topK
			most := assignments/test.tile + min(test.experts, assignments) + 3
			ids, chosen := make([]float32, test.tokens*stride), make([][]int32, test.experts)
			for token := range test.tokens {
				for k, expert := range rng.Perm(test.experts)[:test.topK] {
					if test.topK == 1 {
						expert = min(expert, 2) // one of them has almost all
					}
					ids[token*stride+k] = float32(expert)
					chosen[expert] = append(chosen[expert], int32(token*test.topK+k))
				}
			}
			order, tiles := r.alloc(4*assignments), r.alloc(16*most)
			launch(r.q, "experts_plan", driver.Dim3{X: uint32(test.experts), Y: 1, Z: 1}, 1024, uint32(4*test.experts), &planArgs{ids: upload(r, ids),
				order: order, tiles: tiles, stride: stride, tokens: int32(test.tokens), topK: int32(test.topK), tile: int32(test.tile), numTiles: int32(most)})
			var wantOrder, wantTiles []int32
			for expert, places := range chosen {
				for first := 0; first < len(places); first += test.tile {
					wantTiles = append(wantTiles, int32(expert), int32(len(wantOrder)+first), int32(min(test.tile, len(places)-first)), 0)
				}
				wantOrder = append(wantOrder, places...)
			}
			wantTiles = append(wantTiles, make([]int32, 4*most-len(wantTiles))...)
			if got := download[int32](r, order, assignments); !slices.Equal(got, wantOrder) {
				t.Errorf("order %v, want %v", got, wantOrder)
			}
			if got := download[int32](r, tiles, 4*most); !slices.Equal(got, wantTiles) {
				t.Errorf("tiles %v, want %v", got, wantTiles)
			}
		})
	}
}

// TestExpertsCombine adds up to more experts than the compiler has unrolled.
func TestExpertsCombine(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	for _, topK := range []int{1, 2, 4, 5, 8, 11} {
		r := newRig(t)
		const tokens, width, stride = 2, 700, 704
		planes, weights := normals(rng, tokens*topK*stride, 1), normals(rng, tokens*64, 1)
		dst := r.alloc(4 * tokens * stride)
		launch(r.q, "experts_combine", driver.Dim3{X: tokens, Y: 2, Z: 1}, 128, 0, &combineArgs{dst: dst, planes: upload(r, planes), weights: upload(r, weights),
			dstStride: stride, planeStride: stride, weightStride: 64, width: width, topK: int32(topK)})
		r.must(r.drv.SetAsync(dst+4*width, 0, 4*(stride-width), r.q.stream))
		r.must(r.drv.SetAsync(dst+4*(stride+width), 0, 4*(stride-width), r.q.stream))
		for token, row := range rowsOf(download[float32](r, dst, tokens*stride), width, stride) {
			for i, got := range row {
				want := weights[token*64] * planes[token*topK*stride+i]
				for k := 1; k < topK; k++ { // exact in float64 but for its last bit, then rounded
					want = float32(math.FMA(float64(weights[token*64+k]), float64(planes[(token*topK+k)*stride+i]), float64(want)))
				}
				if math.Abs(float64(got-want)) > 1e-6*float64(topK) {
					t.Fatalf("%d experts, token %d, column %d: %v, want %v", topK, token, i, got, want)
				}
			}
		}
	}
}
