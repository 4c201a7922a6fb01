package kern

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// spinTime is how long a worker without work looks for some before it parks:
// longer than the serial gaps between the operations of a forward pass, since
// waking a parked worker costs up to 100 µs (kernels.md 7).
const spinTime = 400 * time.Microsecond

// A Pool runs numbered chunks of work on persistent workers. One goroutine at a
// time may call Run; it is worker 0.
//
// claim holds chunks<<32 | next. A worker owns a chunk once its compare-and-swap
// has moved next on, and Run does not return before every owned chunk is done:
// the job in f is therefore always that of the chunk a worker owns, however long
// the worker slept before, and even if claim looked the same in between.
type Pool struct {
	claim atomic.Uint64
	_     [56]byte // claim and done change at every chunk: a cache line each
	done  atomic.Uint32
	_     [60]byte

	f       func(worker, chunk int) // written by Run while no chunk is owned
	workers int
	quit    atomic.Bool

	mu     sync.Mutex // parked workers
	wake   sync.Cond
	parked atomic.Int32

	waiting atomic.Bool   // Run has parked
	last    chan struct{} // one token for each waiting that a worker took back
	exited  sync.WaitGroup
}

// NewPool starts workers-1 goroutines; workers >= 1. They spin for a short while
// after each job and then park. GOMAXPROCS should be at least workers+1 where
// other goroutines must stay responsive.
func NewPool(workers int) *Pool {
	if workers < 1 {
		panic(fmt.Sprintf("kern: pool of %d workers", workers))
	}
	p := &Pool{workers: workers, last: make(chan struct{}, 1)}
	p.wake.L = &p.mu
	for w := 1; w < workers; w++ {
		p.exited.Go(func() { p.serve(w) })
	}
	return p
}

// Workers returns the number of workers, the caller of Run included.
func (p *Pool) Workers() int { return p.workers }

// Run calls f for the chunks 0..chunks-1, each once, and returns when all are
// done. A worker runs one chunk at a time. Run does not allocate.
func (p *Pool) Run(chunks int, f func(worker, chunk int)) {
	if chunks > math.MaxInt32 {
		panic(fmt.Sprintf("kern: %d chunks, limit %d", chunks, math.MaxInt32))
	}
	if chunks <= 1 || p.workers == 1 {
		for c := range chunks {
			f(0, c)
		}
		return
	}
	p.f = f
	p.done.Store(0)
	p.claim.Store(uint64(chunks) << 32)
	if p.parked.Load() > 0 {
		p.mu.Lock()
		p.wake.Broadcast()
		p.mu.Unlock()
	}
	p.work(0)
	p.wait(uint32(chunks))
	p.f = nil
}

// Close ends the workers and returns when they are gone. No Run may follow.
func (p *Pool) Close() {
	p.quit.Store(true)
	p.mu.Lock()
	p.wake.Broadcast()
	p.mu.Unlock()
	p.exited.Wait()
}

func (p *Pool) serve(w int) {
	for !p.quit.Load() {
		p.work(w)
		if !p.spin() {
			p.park()
		}
	}
}

// work runs chunks until none is left to own.
func (p *Pool) work(w int) {
	for {
		s := p.claim.Load()
		chunks, next := uint32(s>>32), uint32(s)
		if next >= chunks {
			return
		}
		if !p.claim.CompareAndSwap(s, s+1) {
			continue
		}
		p.f(w, int(next))
		if p.done.Add(1) == chunks && p.waiting.CompareAndSwap(true, false) {
			p.last <- struct{}{}
		}
	}
}

func (p *Pool) pending() bool {
	s := p.claim.Load()
	return uint32(s) < uint32(s>>32)
}

// spin waits for work for a bounded time and reports whether there is some.
func (p *Pool) spin() bool {
	for start := time.Now(); time.Since(start) < spinTime; {
		for range 64 {
			if p.pending() || p.quit.Load() {
				return true
			}
			pause()
		}
		runtime.Gosched() // with fewer Ps than workers the caller needs this one
	}
	return false
}

// park sleeps until there is work. parked rises before pending is read, and Run
// reads parked after it published work: one of the two sees the other.
func (p *Pool) park() {
	p.mu.Lock()
	p.parked.Add(1)
	for !p.pending() && !p.quit.Load() {
		p.wake.Wait()
	}
	p.parked.Add(-1)
	p.mu.Unlock()
}

// wait returns when all chunks are done. A worker that finished an earlier job
// late may take waiting back too soon, hence the loop.
func (p *Pool) wait(chunks uint32) {
	for start := time.Now(); time.Since(start) < spinTime; {
		for range 64 {
			if p.done.Load() == chunks {
				return
			}
			pause()
		}
		runtime.Gosched()
	}
	for p.done.Load() != chunks {
		p.waiting.Store(true)
		if p.done.Load() == chunks && p.waiting.CompareAndSwap(true, false) {
			return
		}
		<-p.last
	}
}
