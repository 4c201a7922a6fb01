package emu

import (
	"runtime"
	"sync"
	"sync/atomic"

	"ossian/internal/cuda/driver"
)

// A block is what executes one block of a grid after another: its warps, its shared memory with the
// shadow of that, and counters. Several work on a grid at the same time, each with whole blocks.
type block struct {
	k       *kernel
	card    *card
	grid    [3]uint32
	size    [3]uint32 // threads
	threads int
	at      [3]uint32
	index   int64 // of the block in the grid
	params  []byte
	warps   []*warp
	shared  []byte
	cells   []cell
	reads   []uint32 // where warps synchronise in part: by cell and warp, its time at its last read
	bars    [16]named
	checks  bool
	limit   int64
	count   Count
	watches []*watch
	seed    uint64
	hopper  any // state of what sm_90 adds
}

// A grid is one execution of a kernel.
type grid struct {
	k       *kernel
	card    *card
	blocks  [3]uint32
	threads [3]uint32
	shared  int // dynamic
	params  []byte
}

// run executes all blocks. The result does not depend on how many are executed at a time: kernels
// whose blocks may see each other's work (atomics, volatile accesses) run one block after another.
func (g *grid) run() (count Count, failed *fault) {
	total := int64(g.blocks[0]) * int64(g.blocks[1]) * int64(g.blocks[2])
	workers := min(int64(g.card.workers()), total)
	if g.k.serial {
		workers = 1
	}
	var next atomic.Int64
	var mu sync.Mutex // guards count, failed and first
	first := total    // index of the first block at fault
	work := func() {
		b := g.worker()
		defer g.release(b)
		for {
			i := next.Add(1) - 1
			mu.Lock()
			stop := i >= first || i >= total
			mu.Unlock()
			if stop {
				break
			}
			if f := b.exec(i); f != nil {
				mu.Lock()
				if i < first {
					first, failed = i, f
				}
				mu.Unlock()
			}
		}
		mu.Lock()
		count.add(&b.count)
		mu.Unlock()
	}
	if workers == 1 {
		work()
	} else {
		var group sync.WaitGroup
		for range workers {
			group.Go(work)
		}
		group.Wait()
	}
	count.Launches = 1
	return count, failed
}

// shape is what a block was made for.
type shape struct {
	k       *kernel
	threads int
	shared  int
}

// worker returns a block to execute with, an old one if possible.
func (g *grid) worker() *block {
	threads := int(g.threads[0] * g.threads[1] * g.threads[2])
	key := shape{g.k, threads, g.shared}
	c := g.card
	c.poolMu.Lock()
	var b *block
	if list := c.pool[key]; len(list) > 0 {
		b, c.pool[key] = list[len(list)-1], list[:len(list)-1]
	}
	c.poolMu.Unlock()
	if b == nil {
		b = newBlock(g, threads)
	}
	b.grid, b.size, b.params = g.blocks, g.threads, g.params
	b.watches = c.watching()
	b.count = Count{}
	return b
}

func (g *grid) release(b *block) {
	key := shape{g.k, b.threads, g.shared}
	g.card.poolMu.Lock()
	defer g.card.poolMu.Unlock()
	if g.card.pool == nil {
		g.card.pool = map[shape][]*block{}
	}
	if list := g.card.pool[key]; len(list) < runtime.GOMAXPROCS(0) {
		g.card.pool[key] = append(list, b)
	}
}

func newBlock(g *grid, threads int) *block {
	k := g.k
	shared := k.shared + g.shared
	b := &block{k: k, card: g.card, threads: threads, shared: make([]byte, shared), checks: !g.card.Unchecked, seed: g.card.Seed}
	warps := (threads + 31) / 32
	if b.checks {
		b.cells = make([]cell, (shared+k.grain-1)/k.grain)
		if k.named {
			b.reads = make([]uint32, len(b.cells)*warps)
		}
	}
	for i := range warps {
		b.warps = append(b.warps, &warp{id: i, block: b, r: make([]lanes32, len(k.regs32)), d: make([]lanes64, len(k.regs64)), p: make([]uint32, k.preds),
			found: make([]*alloc, k.sites), know: make([]uint32, warps), local: make([]byte, 32*k.local), lset: make([]byte, 32*k.local)})
	}
	return b
}

// exec runs the block of an index.
func (b *block) exec(index int64) (failed *fault) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(fault)
			if !ok {
				panic(r)
			}
			failed = &f
		}
	}()
	b.index = index
	b.at = [3]uint32{uint32(index % int64(b.grid[0])), uint32(index / int64(b.grid[0]) % int64(b.grid[1])), uint32(index / int64(b.grid[0]) / int64(b.grid[1]))}
	clear(b.cells)
	clear(b.reads)
	b.bars = [16]named{}
	b.hopper = nil
	for i := range b.shared { // what nobody wrote is not zero
		b.shared[i] = poisonByte
	}
	for _, w := range b.warps {
		w.reset(b.threads)
	}
	b.limit = b.card.limit() + b.count.Warp
	b.turns()
	return nil
}

// turns lets the warps run until all have ended. A warp whose wait failed has no progress for a
// while; when nobody has, the block hangs.
func (b *block) turns() {
	for idle := 0; ; idle++ {
		left, waiting := 0, 0
		for _, w := range b.warps {
			if !w.done && !w.waits {
				before := b.count.Warp
				w.exec()
				if b.count.Warp > before+8 || w.done || w.waits {
					idle = 0
				}
			}
			if !w.done {
				left++
			}
			if w.waits {
				waiting++
			}
		}
		switch {
		case left == 0:
			b.end()
			return
		case b.meet():
			idle = 0
		case waiting == left:
			b.stuck()
		case idle > 10000:
			for _, w := range b.warps {
				if !w.done && !w.waits {
					w.fail(launchTimeout, "no progress: what it waits for does not come")
				}
			}
		}
	}
}

// end checks what a block leaves behind.
func (b *block) end() {
	for _, w := range b.warps {
		if len(w.copies) > 0 {
			w.in = nil
			w.fail(launchFailed, "%d asynchronous copies are on their way at the end: nobody waits for them", len(w.copies))
		}
	}
}

// checkSize says what a driver refuses about a launch.
func (k *kernel) checkSize(l *driver.Launch) string {
	threads := uint64(l.Block.X) * uint64(l.Block.Y) * uint64(l.Block.Z)
	switch {
	case l.Grid.X == 0 || l.Grid.Y == 0 || l.Grid.Z == 0 || threads == 0:
		return describe("a grid of %v blocks of %v threads is empty", l.Grid, l.Block)
	case l.Grid.X > 1<<31-1 || l.Grid.Y > 65535 || l.Grid.Z > 65535:
		return describe("a grid of %v blocks: 2147483647, 65535, 65535 are possible", l.Grid)
	case l.Block.X > 1024 || l.Block.Y > 1024 || l.Block.Z > 64 || threads > 1024:
		return describe("a block of %v threads: 1024 in all are possible, 64 in z", l.Block)
	case k.maxThreads > 0 && threads > uint64(k.maxThreads):
		return describe("a block of %d threads: the kernel says .maxntid %d", threads, k.maxThreads)
	case k.exactly && threads != uint64(k.maxThreads):
		return describe("a block of %d threads: the kernel says .reqntid %d", threads, k.maxThreads)
	case len(l.Params) != k.paramBytes:
		return describe("%d bytes of parameters: the kernel has %d", len(l.Params), k.paramBytes)
	}
	return ""
}
