package kern

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

func TestPoolRunsEveryChunkOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 8} {
		p := NewPool(workers)
		counts := make([]int32, 1000) // not atomic: the race detector sees chunks that run twice
		for job := range 300 {
			n := job * 7 % 64
			if job%50 == 0 {
				n = len(counts)
			}
			clear(counts)
			p.Run(n, func(w, c int) {
				if w < 0 || w >= workers {
					t.Errorf("worker %d of %d", w, workers)
				}
				counts[c]++
			})
			for c, got := range counts {
				want := int32(0)
				if c < n {
					want = 1
				}
				if got != want {
					t.Fatalf("%d workers, job %d, chunk %d of %d: ran %d times, want %d", workers, job, c, n, got, want)
				}
			}
		}
		p.Close()
	}
}

// TestPoolParks lets every side sleep: workers between jobs, the caller behind a
// slow last chunk, and workers behind their own last chunk.
func TestPoolParks(t *testing.T) {
	p := NewPool(3)
	defer p.Close()
	deadline := time.Now().Add(time.Minute)
	for ; p.parked.Load() != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 2 workers parked", p.parked.Load())
		}
	}
	var ran atomic.Int32
	var helped atomic.Bool
	for !helped.Load() && time.Now().Before(deadline) {
		ran.Store(0)
		p.Run(3, func(w, _ int) {
			if w != 0 {
				helped.Store(true)
				time.Sleep(20 * time.Millisecond) // long enough for Run to park
			}
			time.Sleep(time.Millisecond)
			ran.Add(1)
		})
		if ran.Load() != 3 {
			t.Fatalf("Run returned after %d of 3 chunks", ran.Load())
		}
	}
	if !helped.Load() {
		t.Error("no parked worker woke up in a minute")
	}
}

// TestPoolPanics: a chunk that panics on a goroutine of the pool panics in Run, with the
// stack of where it was, after all others have run.
func TestPoolPanics(t *testing.T) {
	p := NewPool(3)
	defer p.Close()
	for range 20 {
		var ran atomic.Int32
		struck := make(chan struct{})
		strike := sync.OnceFunc(func() { close(struck) })
		func() {
			defer func() {
				e, ok := recover().(*workerPanic)
				if !ok || fmt.Sprint(e) != "boom" || !bytes.Contains(e.Stack(), []byte("TestPoolPanics")) {
					t.Errorf("Run ended with %v, want boom and its stack", e)
				}
			}()
			p.Run(30, func(w, _ int) {
				ran.Add(1)
				if w == 0 {
					<-struck
					return
				}
				strike()
				panic("boom")
			})
		}()
		if ran.Load() != 30 {
			t.Fatalf("%d of 30 chunks ran", ran.Load())
		}
	}
	p.Run(30, func(int, int) {}) // nothing is left of it
}

// TestPoolExpects lets workers fetch matrices of every kind while products and other work
// go on, and holds their parts to the matrix: all of it, each byte once, in order.
func TestPoolExpects(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, dt := range dtypes {
		p := NewPool(3)
		m := pack(t, randomTensor(rng, dt, 1, 85, 256), Options{Level: Detect()}, p)
		var all, part []byte
		if all = m.mem; all == nil {
			all = unsafe.Slice((*byte)(m.base), m.out*m.stride)
		}
		for w := range 3 {
			part = append(part, m.part(w, 3)...)
		}
		if !bytes.Equal(part, all) {
			t.Errorf("%s: parts of %d bytes differ from the matrix of %d", name(dt), len(part), len(all))
		}
		for i := range 20 {
			p.Expect([]*Matrix{m, nil, m}[i%3])
			p.Run(7, func(_, c int) { time.Sleep(time.Duration(c) * 20 * time.Microsecond) })
		}
		p.Close()
	}
}

func TestPoolDoesNotAllocate(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	f := func(_, _ int) {}
	if n := testing.AllocsPerRun(100, func() { p.Run(8, f) }); n != 0 {
		t.Errorf("Run allocates %v times", n)
	}
}

func BenchmarkPool(b *testing.B) {
	p := NewPool(2)
	defer p.Close()
	f := func(_, _ int) {}
	for b.Loop() {
		p.Run(32, f)
	}
}
