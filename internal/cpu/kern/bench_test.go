package kern

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"ossian/internal/tensor"
)

// benchBytes is more than any cache of the machine holds.
const benchBytes = 256 << 20

// readAll loads all of mem, 64 bits at a time, on all workers: the limit that
// products with few rows run into.
func readAll(p *Pool, mem []byte, sums []uint64) {
	words := unsafe.Slice((*uint64)(unsafe.Pointer(&mem[0])), len(mem)/8)
	n := len(sums) / 8
	p.Run(n, func(_, c int) { sums[8*c] = sumWords(words[c*len(words)/n : (c+1)*len(words)/n]) })
}

func sumWords(w []uint64) (sum uint64) {
	var s [8]uint64
	for ; len(w) >= 8; w = w[8:] {
		s[0] += w[0]
		s[1] += w[1]
		s[2] += w[2]
		s[3] += w[3]
		s[4] += w[4]
		s[5] += w[5]
		s[6] += w[6]
		s[7] += w[7]
	}
	for _, v := range s {
		sum += v
	}
	return sum
}

// BenchmarkMul measures products at the shapes of gpt-oss-20b: W1 of an expert,
// the attention output and a slice of the unembedding, or near them where the
// type's blocks do not fit. The stack is larger than the caches and each
// iteration takes the next matrix, and then reads the one after it for the DRAM
// limit at that moment. Other programs disturb it, so the best iteration counts.
func BenchmarkMul(b *testing.B) {
	for _, dt := range dtypes {
		for _, s := range [][2]int{{5760, 2880}, {2880, 4096}, {16384, 2880}} {
			out, in := s[0], s[1]
			if n, _ := dt.Block(); in%n != 0 {
				in = 2816
			}
			for _, l := range levels() {
				if l > Go {
					b.Run(fmt.Sprintf("%s/%dx%d/%v", name(dt), out, in, l), func(b *testing.B) { benchMul(b, dt, out, in, l) })
				}
			}
		}
	}
}

// benchTensor repeats 16 random rows, since encoding a stack would take minutes.
func benchTensor(b *testing.B, dt tensor.DType, out, in int) *tensor.Tensor {
	rows := randomTensor(rand.New(rand.NewPCG(7, 7)), dt, 1, 16, in)
	n := dt.RowBytes(in)
	e := max(2, benchBytes/(out*n))
	shape := []int{e, out, in}
	if dt > tensor.BF16 {
		return &tensor.Tensor{Name: name(dt), DType: dt, Shape: shape, Parts: []tensor.Tensor{*rows},
			Map: func(row int) (part, sub int) { return 0, row % 16 }}
	}
	data, err := Alloc(e * out * n) // rows as stored are read where they are
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { Free(data) })
	for i := range e * out {
		copy(data[i*n:], rows.Row(i%16).Data)
	}
	return &tensor.Tensor{Name: name(dt), DType: dt, Shape: shape, Data: data}
}

func benchMul(b *testing.B, dt tensor.DType, out, in int, l Level) {
	p := NewPool(2)
	defer p.Close()
	w := benchTensor(b, dt, out, in)
	e := w.Shape[0]
	m, err := Pack(w, Options{Level: l}, p)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	mem := m.mem
	if mem == nil {
		mem = w.Data
	}
	sums := make([]uint64, 8*64)
	for _, T := range []int{1, 4, 8, 16, 64} {
		b.Run(fmt.Sprintf("T=%d", T), func(b *testing.B) {
			x := randomFloats(rand.New(rand.NewPCG(8, 8)), T*in)
			dst := make([]float32, T*out)
			var a Acts
			job := make([]Job, 1)
			mul, read := time.Hour, time.Hour
			bytes := len(mem) / e &^ 63
			for b.Loop() {
				a.Set(x, T, in)
				start := time.Now()
				m.Mul(p, dst, &a, nil, job)
				mul = min(mul, time.Since(start))
				job[0].E = (job[0].E + 1) % e
				start = time.Now()
				readAll(p, mem[job[0].E*bytes:][:bytes], sums)
				read = min(read, time.Since(start))
				job[0].E = (job[0].E + 1) % e
			}
			b.ReportMetric(float64(bytes)/float64(mul), "GB/s")
			b.ReportMetric(float64(bytes)/float64(read), "DRAM-GB/s")
			b.ReportMetric(100*float64(read)/float64(mul), "%DRAM")
			b.ReportMetric(2*float64(T)*float64(out)*float64(in)/float64(mul), "Gop/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkExperts is the routed half of a decode step: four experts of 32, one
// row each, both products of gpt-oss-20b.
func BenchmarkExperts(b *testing.B) {
	for _, l := range levels()[1:] {
		b.Run(l.String(), func(b *testing.B) {
			p := NewPool(2)
			defer p.Close()
			m, err := Pack(benchTensor(b, tensor.MXFP4, 5760, 2880), Options{Level: l}, p)
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			x := randomFloats(rand.New(rand.NewPCG(8, 8)), 2880)
			dst := make([]float32, 4*5760)
			jobs := make([]Job, 4)
			for i := range jobs {
				jobs[i] = Job{X: []int32{0}, Y: []int32{int32(i)}}
			}
			var a Acts
			best := time.Hour
			for next := 0; b.Loop(); {
				for i := range jobs {
					jobs[i].E = next % m.e
					next++
				}
				a.Set(x, 1, 2880)
				start := time.Now()
				m.Mul(p, dst, &a, nil, jobs)
				best = min(best, time.Since(start))
			}
			b.ReportMetric(4*float64(m.Bytes())/float64(m.e)/float64(best), "GB/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkPack measures loading, in bytes of the checkpoint's form.
func BenchmarkPack(b *testing.B) {
	for _, dt := range dtypes {
		if dt <= tensor.BF16 {
			continue
		}
		b.Run(name(dt), func(b *testing.B) {
			p := NewPool(2)
			defer p.Close()
			w := benchTensor(b, dt, 5760, 2816)
			b.SetBytes(int64(w.Rows()) * int64(len(w.Row(0).Data)+len(w.Row(0).Scales)))
			for b.Loop() {
				m, err := Pack(w, Options{}, p)
				if err != nil {
					b.Fatal(err)
				}
				m.Close()
			}
		})
	}
}

// BenchmarkVec measures the row operations at the sizes of gpt-oss, on one core
// and in the cache.
func BenchmarkVec(b *testing.B) {
	const hidden, ctx, heads, dim = 2880, 1024, 8, 64
	rng := rand.New(rand.NewPCG(9, 9))
	x, y, gu := randomFloats(rng, hidden), randomFloats(rng, hidden), randomFloats(rng, 2*hidden)
	kv, half := make([]uint16, ctx*dim), make([]uint16, hidden)
	for i := range kv {
		kv[i] = tensor.ToBF16(float32(rng.NormFloat64()))
	}
	q, scores := randomFloats(rng, heads*dim), randomFloats(rng, heads*ctx)
	tile := make([]byte, tileBytes*hidden/32)
	for _, l := range levels() {
		for _, op := range []struct {
			name string
			run  func()
		}{
			{"SumSq", func() { SumSq(l, x) }},
			{"ScaleMul", func() { ScaleMul(l, y, x, gu[:hidden], 1) }},
			{"Add", func() { Add(l, y, x) }},
			{"SwiGLUClamped", func() { SwiGLUClamped(l, y, gu, 1.702, 7) }},
			{"ToBF16", func() { ToBF16(l, half, x) }},
			{"Quantise", func() { l.quantise(x, tile, 1, 0); mx4.finish(tile, hidden/32, 1, 0) }},
			{"ExpSum1024", func() { ExpSum(l, scores[:ctx], 5) }},
			{"Scores1024x8x64", func() { Scores(l, scores, ctx, q, heads, dim, kv, dim, ctx, nil) }},
			{"Weigh1024x8x64", func() { Weigh(l, q, heads, dim, scores, ctx, kv, dim, ctx, nil) }},
		} {
			b.Run(fmt.Sprintf("%v/%s", l, op.name), func(b *testing.B) {
				for b.Loop() {
					op.run()
				}
			})
		}
	}
}
