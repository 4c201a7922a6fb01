package exec

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// A Block executes one block of a grid after another: its warps, its shared memory with the shadow of
// that, and counters. Several work on a grid at the same time, each with whole blocks.
type Block struct {
	Kernel  *Kernel
	Device  *Device
	Grid    [3]uint32
	Size    [3]uint32 // threads
	Threads int
	At      [3]uint32
	Index   int64 // of the block in the grid
	Params  []byte
	Shared  []byte
	Count   Count

	warps  []*Warp
	cells  []cell
	reads  []uint32 // where warps synchronise in part: by cell and warp, its time at its last read
	bars   [16]named
	checks bool
	shift  int // of a place in shared memory to its cell
	limit  int64
	async  *async // nil: nothing of it yet
	stamp  uint64 // launch and block (order.go)
	epoch  uint64 // fences passed

	backwards bool // the last warp runs first

	known   clock  // what other blocks have written
	order   *order // of the launch; nil where blocks do not talk
	watches []*Watch
}

// A Grid is one execution of a kernel.
type Grid struct {
	Kernel  *Kernel
	Device  *Device
	Blocks  [3]uint32
	Threads [3]uint32
	Shared  int // bytes of dynamic shared memory
	Params  []byte

	order *order // nil where blocks do not talk
}

// Run executes all blocks. The result does not depend on how many are executed at a time: kernels
// whose blocks may see each other's work (atomics, volatile accesses) run one block after another,
// and no block may read what another one wrote where nothing orders them. Every second launch begins with the last
// block, since no order is promised; every second pair of them begins each block with
// the last warp, and of kernels with mbarriers every second block does.
func (g *Grid) Run() (count Count, failed *Fault) {
	total := int64(g.Blocks[0]) * int64(g.Blocks[1]) * int64(g.Blocks[2])
	workers := min(g.Device.workers(), total)
	launch := g.Device.Memory.launches.Add(1)
	if g.Kernel.Serial {
		workers = 1
		g.order = &order{map[uint64]clock{}}
	}
	var next atomic.Int64
	var mu sync.Mutex // guards count, failed and first
	first := total    // index of the first block at fault
	work := func() {
		b := g.worker()
		defer func() { g.Device.keep(shape{g.Kernel, b.Threads, g.Shared}, b) }()
		for {
			i := next.Add(1) - 1
			mu.Lock()
			stop := i >= first || i >= total
			mu.Unlock()
			if stop {
				break
			}
			index := i
			if launch%2 == 0 && !g.Kernel.Serial {
				index = total - 1 - i
			}
			if f := b.exec(index, g.stampOf(launch, index)); f != nil {
				mu.Lock()
				if i < first {
					first, failed = i, f
				}
				mu.Unlock()
			}
		}
		mu.Lock()
		count.Add(&b.Count)
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

// worker returns a block to execute with, an old one if possible.
func (g *Grid) worker() *Block {
	threads := int(g.Threads[0] * g.Threads[1] * g.Threads[2])
	b := g.Device.take(shape{g.Kernel, threads, g.Shared})
	if b == nil {
		b = newBlock(g, threads)
	}
	b.Grid, b.Size, b.Params = g.Blocks, g.Threads, g.Params
	b.watches = g.Device.Memory.watching()
	b.Count = Count{}
	b.order = g.order
	return b
}

func newBlock(g *Grid, threads int) *Block {
	k := g.Kernel
	shared, warps := k.Shared+g.Shared, (threads+31)/32
	b := &Block{Kernel: k, Device: g.Device, Threads: threads, Shared: make([]byte, shared), checks: !g.Device.Unchecked, shift: bits.TrailingZeros(uint(k.Grain))}
	if b.checks {
		b.cells = make([]cell, (shared+k.Grain-1)/k.Grain)
		if k.Named || k.Async {
			b.reads = make([]uint32, len(b.cells)*warps)
		}
	}
	for i := range warps {
		b.warps = append(b.warps, &Warp{ID: i, Block: b, R: slices.Clone(k.Regs32), D: slices.Clone(k.Regs64), P: make([]uint32, k.Preds),
			found: make([]*Alloc, k.Sites), know: make([]uint32, k.parties(warps)), local: make([]byte, 32*k.Local), lset: make([]byte, 32*k.Local)})
	}
	return b
}

// exec runs the block of an index.
func (b *Block) exec(index int64, stamp uint64) (failed *Fault) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(Fault)
			if !ok {
				panic(r)
			}
			failed = &f
		}
	}()
	b.Index, b.stamp, b.epoch, b.known = index, stamp, 0, nil
	b.backwards = stamp>>(stampLaunch+5)&1 != 0
	if b.Kernel.Async { // each launch of several blocks has both orders
		b.backwards = b.backwards != (index&1 != 0)
	}
	b.At = [3]uint32{uint32(index % int64(b.Grid[0])), uint32(index / int64(b.Grid[0]) % int64(b.Grid[1])), uint32(index / int64(b.Grid[0]) / int64(b.Grid[1]))}
	clear(b.cells)
	clear(b.reads)
	b.bars = [16]named{}
	b.async = nil
	Fill(b.Shared, PoisonByte) // what nobody wrote is not zero
	for _, w := range b.warps {
		w.reset()
	}
	b.limit = b.Device.Limit + b.Count.Warp
	b.turns()
	return nil
}

// turns lets the warps run until all have ended. A warp whose wait failed has no progress for a
// while; when nobody has, the block hangs.
func (b *Block) turns() {
	for idle := 0; ; idle++ {
		left, waiting := 0, 0
		for i, w := range b.warps {
			if b.backwards {
				w = b.warps[len(b.warps)-1-i]
			}
			if !w.done && !w.waits {
				before := b.Count.Warp
				w.exec()
				if b.Count.Warp > before+8 || w.done || w.waits {
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
		case b.meet(), b.land(idle):
			idle = 0
		case waiting == left:
			b.stuck()
		case idle > 10000:
			for _, w := range b.warps {
				if !w.done && !w.waits {
					w.Fail(LaunchTimeout, "no progress: what it waits for does not come")
				}
			}
		}
	}
}

// end checks what a block leaves behind.
func (b *Block) end() {
	b.endAsync()
	for _, w := range b.warps {
		if len(w.copies) > 0 {
			w.inst = nil
			w.Fail(LaunchFailed, "%d asynchronous copies are on their way at the end: nobody waits for them", len(w.copies))
		}
	}
}

// whole rounds threads up to whole warps.
func whole(threads int) int { return (threads + 31) / 32 * 32 }
