package kern

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
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
// Each worker has a part of the chunks, one behind the other, which it takes in order
// without meeting anybody; when it has none left it takes from those of others. A worker
// owns a chunk once its compare-and-swap has moved the next of a part on, and Run does
// not return before every owned chunk is done: the job in f is therefore always that of
// the chunk a worker owns, however long the worker slept before, and even if a part
// looked the same in between.
type Pool struct {
	parts []part
	jobs  atomic.Uint64 // number of jobs so far
	_     [56]byte      // what changes within a job has a cache line of its own
	done  atomic.Uint32 // chunks
	_     [60]byte

	f       func(worker, chunk int) // these two are written by Run while no chunk is owned
	chunks  uint32
	next    atomic.Pointer[Matrix]      // what the product after this one reads
	failed  atomic.Pointer[workerPanic] // the first panic of a job, for Run
	workers int
	quit    atomic.Bool

	mu     sync.Mutex // of wake: guards no field; a worker looks at jobs and quit under it before it sleeps
	wake   sync.Cond
	parked atomic.Int32 // workers that sleep, or are about to

	waiting atomic.Bool   // Run has parked
	last    chan struct{} // one token for each waiting that a worker took back
	exited  sync.WaitGroup
}

// A part is the chunks of a worker that nobody owns: end<<32 | next.
type part struct {
	atomic.Uint64
	_ [56]byte
}

// NewPool starts workers-1 goroutines; workers >= 1. They spin for a short while
// after each job and then park. GOMAXPROCS should be at least workers+1 where
// other goroutines must stay responsive.
func NewPool(workers int) *Pool {
	if workers < 1 {
		panic(fmt.Sprintf("kern: pool of %d workers", workers))
	}
	pool := &Pool{parts: make([]part, workers), workers: workers, last: make(chan struct{}, 1)}
	pool.wake.L = &pool.mu
	for worker := 1; worker < workers; worker++ {
		pool.exited.Go(func() {
			debug.SetPanicOnFault(true) // a page of a mapped file that was cut ends a job, not the program
			pool.serve(worker)
		})
	}
	return pool
}

// Workers returns the number of workers, the caller of Run included.
func (p *Pool) Workers() int { return p.workers }

// Run calls f for the chunks 0..chunks-1, each once, and returns when all are
// done. A worker runs one chunk at a time. Run does not allocate. It panics if a chunk
// does, on whatever worker; the pool can then only be closed.
func (p *Pool) Run(chunks int, f func(worker, chunk int)) {
	if chunks > math.MaxInt32 {
		panic(fmt.Sprintf("kern: %d chunks, limit %d", chunks, math.MaxInt32))
	}
	if chunks <= 1 || p.workers == 1 {
		for chunk := range chunks {
			f(0, chunk)
		}
		return
	}
	// A worker that is late from the last job may own a chunk as soon as its part is stored:
	// f, chunks and done come before.
	p.f, p.chunks = f, uint32(chunks)
	p.done.Store(0)
	for worker := range p.parts {
		p.parts[worker].Store(uint64((worker+1)*chunks/p.workers)<<32 | uint64(worker*chunks/p.workers))
	}
	p.jobs.Add(1)
	if p.parked.Load() > 0 {
		p.mu.Lock()
		p.wake.Broadcast()
		p.mu.Unlock()
	}
	p.work(0)
	p.wait(uint32(chunks))
	p.f = nil
	if failed := p.failed.Swap(nil); failed != nil {
		panic(failed)
	}
}

// A workerPanic is what Run panics with if a chunk did on another goroutine, where nobody
// could recover and the program would end.
type workerPanic struct {
	value any
	stack []byte
}

// String returns the panic's value as text.
func (e *workerPanic) String() string { return fmt.Sprint(e.value) }

// Stack returns that of the chunk.
func (e *workerPanic) Stack() []byte { return e.stack }

// chunk runs a chunk on a worker. A panic on another goroutine than Run's is kept for Run.
func (p *Pool) chunk(worker, chunk int) {
	if worker > 0 {
		defer func() {
			if failed := recover(); failed != nil {
				p.failed.CompareAndSwap(nil, &workerPanic{failed, debug.Stack()})
			}
		}()
	}
	p.f(worker, chunk)
}

// Close ends the workers and returns when they are gone. No Run may follow.
func (p *Pool) Close() {
	p.quit.Store(true)
	p.mu.Lock()
	p.wake.Broadcast()
	p.mu.Unlock()
	p.exited.Wait()
}

// serve is the life of a worker: working → spinning → parked → working …, until quit.
func (p *Pool) serve(worker int) {
	for !p.quit.Load() {
		seen := p.jobs.Load()
		p.work(worker)
		if !p.spin(worker, seen) {
			p.park(seen)
		}
	}
}

// work runs chunks until none is left to own, those of the worker's part first.
func (p *Pool) work(worker int) {
	ran := uint32(0)
	for i := range p.parts {
		part := &p.parts[(worker+i)%len(p.parts)]
		for {
			state := part.Load()
			if uint32(state) >= uint32(state>>32) {
				break
			}
			if part.CompareAndSwap(state, state+1) {
				p.chunk(worker, int(uint32(state)))
				ran++
			}
		}
	}
	if ran == 0 {
		return
	}
	chunks := p.chunks // Run may go on once all are done
	if p.done.Add(ran) == chunks && p.waiting.CompareAndSwap(true, false) {
		p.last <- struct{}{}
	}
}

// idle reports whether there was no job after the one seen and none is to come.
func (p *Pool) idle(seen uint64) bool { return p.jobs.Load() == seen && !p.quit.Load() }

// spin waits for a job after the one seen for a bounded time and reports whether there is one.
func (p *Pool) spin(worker int, seen uint64) bool {
	var ahead fetcher
	for start := time.Now(); time.Since(start) < spinTime; {
		for range 64 {
			if !p.idle(seen) {
				return true
			}
			ahead.fetch(p, worker)
		}
		runtime.Gosched() // with fewer Ps than workers the caller needs this one
	}
	return false
}

// park sleeps until there is a job after the one seen. parked rises before jobs is read,
// and Run reads parked after it published a job: one of the two sees the other.
func (p *Pool) park(seen uint64) {
	p.mu.Lock()
	p.parked.Add(1)
	for p.idle(seen) {
		p.wake.Wait()
	}
	p.parked.Add(-1)
	p.mu.Unlock()
}

// Expect says that the product after the one about to run is with m, which is no stack:
// workers without work fetch the beginning of their parts of it. nil = nothing is known. m
// stays open until the pool is closed.
func (p *Pool) Expect(m *Matrix) { p.next.Store(m) }

// A fetcher is what a worker has fetched of the expected matrix since it has no work.
type fetcher struct {
	m    *Matrix
	rest []byte
}

const (
	fetchLines = 8         // at once: in less time than a worker may take to see a job
	fetchMost  = 256 << 10 // bytes: a share of the second-level cache
)

// fetch fetches some more for a worker, or pauses if that is all.
func (f *fetcher) fetch(pool *Pool, worker int) {
	if next := pool.next.Load(); next != f.m {
		f.m, f.rest = next, nil
		if next != nil {
			f.rest = next.part(worker, pool.workers)
			f.rest = f.rest[:min(len(f.rest), fetchMost)]
		}
	}
	if len(f.rest) < 64*fetchLines {
		pause()
		return
	}
	prefetch(&f.rest[0], fetchLines)
	f.rest = f.rest[64*fetchLines:]
}

// wait returns when all chunks are done. A worker that finished an earlier job
// late may take waiting back too soon, hence the loop.
func (p *Pool) wait(chunks uint32) {
	var ahead fetcher
	for start := time.Now(); time.Since(start) < spinTime; {
		for range 64 {
			if p.done.Load() == chunks {
				return
			}
			ahead.fetch(p, 0)
		}
		runtime.Gosched()
	}
	// Who adds the last chunk to done takes waiting back and leaves a token in last; if that is
	// seen here first, waiting is taken back here and there will be none.
	for p.done.Load() != chunks {
		p.waiting.Store(true)
		if p.done.Load() == chunks && p.waiting.CompareAndSwap(true, false) {
			return
		}
		<-p.last
	}
}
