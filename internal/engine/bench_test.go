package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sched"
	"ossian/internal/sim"
)

// A stepper is an engine whose loop the test runs itself, step by step, with n
// streams that have spoken and will not end.
type stepper struct {
	e       *Engine
	streams []*Stream
}

func newStepper(tb testing.TB, n, depth int) *stepper {
	tb.Helper()
	r, err := sim.NewScript(sim.Config{Next: sim.List(7), Info: runner.Info{MaxSeqs: n, MaxTokens: 4096, MaxLen: 1 << 20, BlockSize: 64, Depth: depth,
		Groups: []runner.Group{{Blocks: 1 << 17}}}})
	if err != nil {
		tb.Fatal(err)
	}
	e, err := New(r, Config{}, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	e.life = e.firstLife
	p := &stepper{e: e}
	for i := range n {
		s, err := e.Submit(context.Background(), Request{Tokens: []int32{int32(i % 512), 1, 2}, MaxTokens: 1 << 19})
		if err != nil {
			tb.Fatal(err)
		}
		p.streams = append(p.streams, s)
	}
	for range 2000 { // histories get room
		p.step(tb)
		p.receive(tb)
	}
	return p
}

func (p *stepper) step(tb testing.TB) {
	l := p.e.life
	l.mail()
	if err := l.launch(); err != nil {
		tb.Fatal(err)
	}
	res, err := l.collect()
	if err != nil {
		tb.Fatal(err)
	}
	if err := l.deliver(res); err != nil {
		tb.Fatal(err)
	}
}

func (p *stepper) receive(tb testing.TB) {
	for _, s := range p.streams {
		for len(s.ready) > 0 {
			if _, err := s.take(); err != nil {
				tb.Fatal(err)
			}
			<-s.ready
		}
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	for depth := 1; depth <= 2; depth++ {
		p := newStepper(t, 32, depth)
		if n := testing.AllocsPerRun(30, func() { p.step(t); p.receive(t) }); n != 0 {
			t.Errorf("depth %d: a step of 32 streams allocates %v times", depth, n)
		}
	}
}

// BenchmarkStep is what a step costs besides the device: scheduler, scripted runner
// and delivery.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{1, 32, 256, 4096} {
		b.Run(fmt.Sprintf("streams=%d", n), func(b *testing.B) {
			p := newStepper(b, n, 1)
			b.ReportAllocs()
			for b.Loop() {
				p.step(b)
				b.StopTimer()
				p.receive(b)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/token")
		})
	}
}

// BenchmarkDeliver is the part of a step that hands tokens to streams and takes
// them out again.
func BenchmarkDeliver(b *testing.B) {
	p := newStepper(b, 1, 1)
	s, now, outputs := p.streams[0], time.Now(), []sched.Output{{Token: 7}}
	b.ReportAllocs()
	for b.Loop() {
		s.push(outputs, sched.FinishNone, now)
		if _, err := s.take(); err != nil {
			b.Fatal(err)
		}
		<-s.ready
	}
}

// BenchmarkStreams is 10,000 streams with a goroutine each that reads, in lockstep:
// memory of a stream with its sequence and goroutine, and how many tokens per
// second reach the readers.
func BenchmarkStreams(b *testing.B) {
	const n, tokens = 10_000, 20
	for b.Loop() {
		r, err := sim.NewScript(sim.Config{Next: sim.List(7), Info: runner.Info{MaxSeqs: n, MaxTokens: 2 * n, MaxLen: 512, BlockSize: 16}})
		if err != nil {
			b.Fatal(err)
		}
		e, err := New(r, Config{}, slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		idle := heap()
		var wg sync.WaitGroup
		for i := range n {
			prompt := []int32{int32(i % 512), int32(i / 512), 1, 2, 3, 4, 5, 6}
			s, err := e.Submit(context.Background(), Request{Tokens: prompt, MaxTokens: tokens})
			if err != nil {
				b.Fatal(err)
			}
			wg.Go(func() {
				if got, err := read(s); err != io.EOF || len(got) != tokens {
					b.Errorf("got %d tokens, %v", len(got), err)
				}
			})
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		began := time.Now()
		go func() { ended <- e.Run(ctx) }()
		for e.Stats().Steps < tokens/2 {
			runtime.Gosched()
		}
		b.ReportMetric(float64(heap()-idle)/n, "B/stream")
		wg.Wait()
		b.ReportMetric(n*tokens/time.Since(began).Seconds(), "tokens/s")
		stop()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
		if f := e.Stats(); f.Sampled != n*tokens || f.Running != 0 {
			b.Errorf("%+v, want %d tokens", f, n*tokens)
		}
	}
}

// heap returns the live heap and the stacks in use, in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
