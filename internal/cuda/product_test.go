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

// onCard packs a tensor into memory of the rig's card.
func onCard(r *rig, source tensor.Tensor, paired bool) *matrix {
	r.t.Helper()
	p, data := whole(r.t, source, paired)
	var lift driver.Ptr
	if p.lifts() != nil {
		lift = upload(r, p.lifts())
	}
	return p.in(upload(r, data), lift)
}

// activations are rows of bf16 in device memory, zero from their width up to a multiple of 64, and
// what they hold.
type activations struct {
	at     driver.Ptr
	stride int
	rows   [][]float64
}

// newActivations rounds rows of width floats to bf16.
func newActivations(r *rig, floats []float32, width int) activations {
	r.t.Helper()
	x := activations{stride: pad64(width)}
	data := make([]uint16, len(floats)/width*x.stride)
	for i := range len(floats) / width {
		row := make([]float64, width)
		for k := range row {
			bits := tensor.ToBF16(floats[i*width+k])
			data[i*x.stride+k], row[k] = bits, float64(tensor.BF16ToFloat(bits))
		}
		x.rows = append(x.rows, row)
	}
	x.at = upload(r, data)
	return x
}

// from returns the rows from one on.
func (x activations) from(row int) activations {
	return activations{x.at + driver.Ptr(2*row*x.stride), x.stride, x.rows[row:]}
}

// rowsOf takes rows of width elements out of ones of stride.
func rowsOf(floats []float32, width, stride int) (rows [][]float32) {
	for at := 0; at < len(floats); at += stride {
		rows = append(rows, floats[at:at+width])
	}
	return rows
}

// compare ends the test at the first element that is further from want than bound · 1e-5, and where
// the bound is not what one expects: a test of zeros would pass.
func compare(t *testing.T, what string, got []float32, want, bound []float64) {
	t.Helper()
	for i, v := range got {
		if !(math.Abs(float64(v)-want[i]) <= 1e-5*bound[i]) {
			t.Fatalf("%s, element %d: %v, want %v within %v", what, i, v, want[i], 1e-5*bound[i])
		}
	}
	if slices.Max(bound) == 0 {
		t.Fatalf("%s: nothing was compared", what)
	}
}

// sameBits ends the test where two rows differ in any bit.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i, v := range got {
		if math.Float32bits(v) != math.Float32bits(want[i]) {
			t.Fatalf("%s, element %d: %v (%08x), want the bits of %v (%08x)", what, i, v, math.Float32bits(v), want[i], math.Float32bits(want[i]))
		}
	}
}

// product is Σ w·x + bias of one row of weights, and Σ |terms|.
func product(weights []float32, x []float64, bias float64) (sum, bound float64) {
	sum, bound = bias, math.Abs(bias)
	for k, v := range weights {
		sum += float64(v) * x[k]
		bound += math.Abs(float64(v) * x[k])
	}
	return sum, bound
}

// rounded returns what a device holds of weights: those of F32 and F16 as BF16.
func rounded(dtype tensor.DType, weights []float32) []float32 {
	if f, _ := formatOf(dtype); f != formatBF16 {
		return weights
	}
	weights = slices.Clone(weights)
	for i, v := range weights {
		weights[i] = tensor.BF16ToFloat(tensor.ToBF16(v))
	}
	return weights
}

// linearShapes are rows and columns: every number of chunks, rests of groups and of units, a block of
// whole groups that has room for one more, and more units in a chunk than any kernel has stages.
var linearShapes = [][2]int{{1, 32}, {40, 96}, {48, 160}, {24, 480}, {72, 544}, {131, 1056}}

// runLinear returns what linear makes of the first tokens of x. Nothing may be written behind its rows.
func runLinear(r *rig, x activations, w *matrix, bias driver.Ptr, tokens int) [][]float32 {
	r.t.Helper()
	stride := pad64(w.rows)
	dst := r.alloc(4 * tokens * stride)
	r.must(r.drv.SetAsync(dst, 0xff, uint64(4*tokens*stride), r.q.stream)) // NaN where nothing is written
	r.q.linear(dst, stride, x.at, x.stride, w, bias, tokens)
	sums := download[float32](r, dst, tokens*stride)
	for token := range tokens {
		for i, v := range sums[token*stride+w.rows : (token+1)*stride] {
			if math.Float32bits(v) != ^uint32(0) {
				r.t.Fatalf("token %d has %v at place %d, behind its %d rows", token, v, w.rows+i, w.rows)
			}
		}
	}
	return rowsOf(sums, w.rows, stride)
}

// TestLinear compares products of every type with float64, and the bits of every number of tokens
// and of both kernels.
func TestLinear(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	for _, dtype := range packTypes {
		for _, shape := range linearShapes {
			rows, cols := shape[0], shape[1]
			t.Run(fmt.Sprintf("%v/%d/%dx%d", dtype, dtype, rows, cols), func(t *testing.T) {
				r := newRig(t)
				source, weights := encoded(t, dtype, normals(rng, rows*cols, 1), rows, cols)
				w, bias := onCard(r, source, false), normals(rng, rows, 1)
				const most = 130
				x := newActivations(r, normals(rng, most*cols, 1), cols)
				biasAt := upload(r, bias)
				r.q.multiprocessors = 1 // tiles of 128 tokens, and blocks as large as there are
				all := runLinear(r, x, w, biasAt, most)
				weights = rounded(dtype, weights)
				for token, row := range all {
					want, bound := make([]float64, rows), make([]float64, rows)
					for i := range want {
						want[i], bound[i] = product(weights[i*cols:][:cols], x.rows[token], float64(bias[i]))
					}
					compare(t, fmt.Sprintf("token %d", token), row, want, bound)
				}
				// The last tokens, behind which there is nothing to be read; places in tiles differ.
				for i, tokens := range []int{1, 8, 9, 15, 17, 37, 65, 5, 16, 25} {
					r.q.multiprocessors = largeCard
					if i > 6 { // blocks with several warps for a chunk
						r.q.multiprocessors = 1
					}
					first := most - tokens
					for i, row := range runLinear(r, x.from(first), w, biasAt, tokens) {
						sameBits(t, fmt.Sprintf("token %d of %d", i, tokens), row, all[first+i])
					}
				}
			})
		}
	}
}

// TestLinearWithoutBias holds that a missing bias adds nothing, not even a zero, in tiles of any size.
func TestLinearWithoutBias(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for _, dtype := range []tensor.DType{tensor.BF16, tensor.MXFP4HF, tensor.Q8_0} {
		r := newRig(t)
		const rows, cols, most = 40, 96, 17
		source, weights := encoded(t, dtype, normals(rng, rows*cols, 1), rows, cols)
		w, x := onCard(r, source, false), newActivations(r, normals(rng, most*cols, 1), cols)
		for _, tokens := range []int{1, 9, most} {
			for token, row := range runLinear(r, x, w, 0, tokens) {
				want, bound := make([]float64, rows), make([]float64, rows)
				for i := range want {
					want[i], bound[i] = product(weights[i*cols:][:cols], x.rows[token], 0)
				}
				compare(t, fmt.Sprintf("%v, token %d of %d", dtype, token, tokens), row, want, bound)
			}
		}
	}
}

// TestLinearManyRows has so many rows that sums have one chunk, whatever their length.
func TestLinearManyRows(t *testing.T) {
	r := newRig(t)
	rng := rand.New(rand.NewPCG(7, 8))
	const rows, cols = 65536 + 24, 64
	source, weights := encoded(t, tensor.MXFP4HF, normals(rng, rows*cols, 1), rows, cols)
	x := newActivations(r, normals(rng, 2*cols, 1), cols)
	for token, row := range runLinear(r, x, onCard(r, source, false), 0, 2) {
		want, bound := make([]float64, rows), make([]float64, rows)
		for i := range want {
			want[i], bound[i] = product(weights[i*cols:][:cols], x.rows[token], 0)
		}
		compare(t, fmt.Sprint("token ", token), row, want, bound)
	}
	for _, test := range []struct{ rows, cols, want int }{{65536, 8192, 1}, {65535, 8192, 4}, {64, 1024, 4}, {64, 1023, 2}, {64, 512, 2}, {64, 511, 1}} {
		if got := (&matrix{rows: test.rows, cols: test.cols}).chunks(); got != test.want {
			t.Errorf("%d × %d has %d chunks, want %d", test.rows, test.cols, got, test.want)
		}
	}
}

// TestLinearLargeExponents holds rows of MXFP4 whose exponents were lowered when they were packed.
func TestLinearLargeExponents(t *testing.T) {
	r := newRig(t)
	rng := rand.New(rand.NewPCG(9, 10))
	const rows = 40 // three groups
	source, _ := encoded(t, tensor.MXFP4, normals(rng, rows*64, 1), rows, 64)
	for block, exponent := range map[int]byte{2 * 5: 140, 2*5 + 1: 127, 2 * 20: 200, 2*20 + 1: 190} {
		source.Data[17*block] = exponent
	}
	weights := decoded(source)
	bias := normals(rng, rows, 1)
	x := newActivations(r, normals(rng, 70*64, 1), 64)
	w := onCard(r, source, false)
	if w.lift == 0 {
		t.Fatal("no row is lifted")
	}
	for _, tokens := range []int{5, 15, 31, 70} {
		for token, row := range runLinear(r, x, w, upload(r, bias), tokens) {
			want, bound := make([]float64, rows), make([]float64, rows)
			for i := range want {
				want[i], bound[i] = product(weights[i*64:][:64], x.rows[token], float64(bias[i]))
			}
			compare(t, fmt.Sprintf("token %d of %d", token, tokens), row, want, bound)
		}
	}
}

// TestEmbed compares rows of packed tables with those of the tensor, exactly.
func TestEmbed(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for i, dtype := range packTypes {
		cols := []int{160, 256, 544, 512, 288, 256}[i] // below, at and above what a block takes in one turn or two
		t.Run(fmt.Sprintf("%v/%d", dtype, dtype), func(t *testing.T) {
			r := newRig(t)
			const rows = 37
			source, table := encoded(t, dtype, normals(rng, rows*cols, 1), rows, cols)
			if dtype == tensor.MXFP4HF {
				source.Scales[5*cols/32] = 150 // a row that is lifted
				table = decoded(source)
			}
			table = rounded(dtype, table)
			ids := []int32{36, 0, 5, 5, 31, 16, 15}
			stride := pad64(cols)
			dst := r.alloc(4 * len(ids) * stride)
			r.q.embed(dst, stride, onCard(r, source, false), upload(r, ids), len(ids))
			for i, row := range rowsOf(download[float32](r, dst, len(ids)*stride), stride, stride) {
				want := slices.Concat(table[int(ids[i])*cols:][:cols], make([]float32, stride-cols))
				if !slices.Equal(row, want) {
					t.Fatalf("row %d: %v, want %v", ids[i], row, want)
				}
			}
		})
	}
}

// TestProductTraffic holds products to what they must read and no more: every weight once for tokens of
// one tile, hardly a bank conflict, and a product of the tensor cores per 16 rows, 8 tokens and k16.
func TestProductTraffic(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	const rows, cols = 128, 1344
	for _, dtype := range []tensor.DType{tensor.MXFP4HF, tensor.BF16, tensor.Q8_0} {
		for _, tokens := range []int{1, 8, 16, 32, 128} {
			t.Run(fmt.Sprintf("%v/%d", dtype, tokens), func(t *testing.T) {
				r := newRig(t)
				r.q.multiprocessors = 2 // so that 128 tokens are one tile
				source, _ := encoded(t, dtype, normals(rng, rows*cols, 1), rows, cols)
				w := onCard(r, source, false)
				bytes := w.groups() * w.units() * w.format.unitBytes
				r.machine.Watch("weights", w.data, uint64(bytes))
				runLinear(r, newActivations(r, normals(rng, tokens*cols, 1), cols), w, 0, tokens)
				counters := r.counters()
				if sectors := counters.Watched["weights"].Sectors; float64(sectors) > 1.05*float64(bytes)/32 || sectors < int64(bytes/32) {
					t.Errorf("%d sectors of weights were read, there are %d", sectors, bytes/32)
				}
				for kernel, count := range counters.Kernels {
					if count.Shared == 0 || float64(count.Conflicts) > 0.05*float64(count.Shared) {
						t.Errorf("%s: %d of %d wavefronts in shared memory are of bank conflicts", kernel, count.Conflicts, count.Shared)
					}
					products := int64(0)
					for _, n := range count.MMA {
						products += n
					}
					if want := int64(rows / 16 * w.units() * 4 * tileOf(rows, tokens, r.q.multiprocessors) / 8); products != want {
						t.Errorf("%s: %d products of the tensor cores, want %d", kernel, products, want)
					}
					t.Logf("%s: %d instructions of warps for a unit of weights", kernel, count.Warp/int64(w.groups()*w.units()))
				}
			})
		}
	}
}

// TestLinearRandom compares products of random sizes with float64, and tokens alone with all.
func TestLinearRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	for range soak.Cases(t, 6, 200) {
		dtype := packTypes[rng.IntN(len(packTypes))]
		rows, cols, tokens := 1+rng.IntN(200), 32*(1+rng.IntN(50)), 1+rng.IntN(200)
		t.Run(fmt.Sprintf("%v/%dx%d/%d", dtype, rows, cols, tokens), func(t *testing.T) {
			r := newRig(t)
			r.q.multiprocessors = 1 + rng.IntN(20)
			source, weights := encoded(t, dtype, normals(rng, rows*cols, 1), rows, cols)
			weights = rounded(dtype, weights)
			w := onCard(r, source, false)
			x := newActivations(r, normals(rng, tokens*cols, 1), cols)
			all := runLinear(r, x, w, 0, tokens)
			for range 5 {
				token := rng.IntN(tokens)
				want, bound := make([]float64, rows), make([]float64, rows)
				for i := range want {
					want[i], bound[i] = product(weights[i*cols:][:cols], x.rows[token], 0)
				}
				compare(t, fmt.Sprint("token ", token), all[token], want, bound)
				sameBits(t, fmt.Sprint("token ", token), runLinear(r, x.from(token), w, 0, 1)[0], all[token])
			}
		})
	}
}
