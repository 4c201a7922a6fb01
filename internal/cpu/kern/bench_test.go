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
	data, err := alloc(e * out * n) // rows as stored are read where they are
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { free(data) })
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
