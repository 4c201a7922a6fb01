package exec

import (
	"math"

	"ossian/internal/cuda/emu/arith"
)

// This file is products of 64 rows by a warpgroup (PTX ISA: wgmma.mma_async). A warp makes the 16 rows
// of its own. It does so when it waits for the group, not a moment earlier, so that what changed
// too early makes a wrong product, and what is still on its way a fault.

// A Product is one decoded instruction.
type Product struct {
	Sums    []int // registers: four for each 8 columns
	A       []int // registers of A's fragment; nil: ADesc describes A in shared memory
	ADesc   int   // registers of 64 bits
	BDesc   int
	Scale   int  // predicate that says whether what Sums hold is added to; -1: see Add
	Negated bool // the predicate is
	Add     bool
	NegA    bool
	NegB    bool
	Kind    string                             // for counters
	Widen   func(v uint32) (low, high float32) // elements of a word
}

// A begun is a product under way.
type begun struct {
	*Product
	a, b      uint64 // descriptors
	add       bool
	committed bool
	inst      *Inst
}

// A warpgroup has its four warps take part in the same products.
type warpgroup struct {
	begun []begun // those that not all four have begun
	done  [4]int  // begun by each warp
}

// BeginProduct begins a product.
func (w *Warp) BeginProduct(p *Product, m uint32) {
	w.WholeWarpgroup(m)
	next := begun{Product: p, b: w.uniform(p.BDesc), add: p.Add, inst: w.inst}
	if p.A == nil {
		next.a = w.uniform(p.ADesc)
	}
	if p.Scale >= 0 {
		bits := w.P[p.Scale]
		if bits != 0 && bits != AllLanes {
			w.Fail(LaunchFailed, "scale-d differs between lanes: %08x", bits)
		}
		next.add = (bits != 0) != p.Negated
	}
	w.together(next)
	w.products = append(w.products, next)
	w.Block.Count.Multiplied(p.Kind, 1)
}

// WholeWarpgroup ends the launch where lanes, or warps of the warpgroup, are missing.
func (w *Warp) WholeWarpgroup(m uint32) {
	w.All(m)
	if w.ID/4*4+4 > len(w.Block.warps) {
		w.Fail(LaunchFailed, "the block has %d warps: the warpgroup that begins with warp %d lacks some", len(w.Block.warps), w.ID/4*4)
	}
}

// uniform returns what all lanes have in a register.
func (w *Warp) uniform(reg int) uint64 {
	for lane, v := range w.D[reg] {
		if v != w.D[reg][0] {
			w.FailLane(LaunchFailed, lane, "descriptor %#x, lane 0 has %#x", v, w.D[reg][0])
		}
	}
	return w.D[reg][0]
}

// together compares what the warps of a warpgroup begin.
func (w *Warp) together(next begun) {
	g := &w.Block.asynchronous().groups[w.ID/4]
	least := min(g.done[0], g.done[1], g.done[2], g.done[3])
	i := g.done[w.ID%4] - least
	g.done[w.ID%4]++
	if i < len(g.begun) {
		if o := &g.begun[i]; o.Product != next.Product || o.a != next.a || o.b != next.b || o.add != next.add {
			w.Fail(LaunchFailed, "another warp of the warpgroup has begun another product instead: %s, descriptors %#x, %#x, here %#x, %#x",
				o.inst.Text, o.a, o.b, next.a, next.b)
		}
	} else {
		g.begun = append(g.begun, next)
	}
	for min(g.done[0], g.done[1], g.done[2], g.done[3]) > least {
		g.begun = g.begun[1:]
		least++
	}
}

// CommitProducts makes a group of the products since the last one.
func (w *Warp) CommitProducts(m uint32) {
	w.All(m)
	for i := range w.products {
		w.products[i].committed = true
	}
	w.productGroups = append(w.productGroups, len(w.products))
}

// WaitProducts completes all groups of products but the last n.
func (w *Warp) WaitProducts(m uint32, n int) {
	w.All(m)
	k := len(w.productGroups) - n
	if k <= 0 {
		return
	}
	upto := w.productGroups[k-1]
	w.productGroups = append(w.productGroups[:0], w.productGroups[k:]...)
	for i := range w.products[:upto] {
		w.multiply(&w.products[i])
	}
	w.products = append(w.products[:0], w.products[upto:]...)
	for i := range w.productGroups {
		w.productGroups[i] -= upto
	}
}

// multiply makes a warp's 16 rows of a product, with the sums of mma (arith.Dot), as an H100 has them.
func (w *Warp) multiply(p *begun) {
	waiting := w.inst
	w.inst = p.inst // is what is at fault
	var x [16]arith.Sixteen
	for i := range x {
		if p.A == nil {
			w.operandRow(p.Product, p.a, w.ID%4*16+i, 1, &x[i])
		}
	}
	for lane := range 32 {
		for k, r := range p.A {
			row, col := &x[lane/4+k&1*8], lane%4*2+k>>1*8
			low, high := p.Widen(w.R[r][lane])
			row.Set(col, low)
			row.Set(col+1, high)
		}
	}
	sign := float32(1)
	if p.NegA != p.NegB {
		sign = -1
	}
	for c := range 2 * len(p.Sums) {
		var y arith.Sixteen
		w.operandRow(p.Product, p.b, c, sign, &y)
		for i := range 16 {
			reg, lane := p.Sums[c/8*4+i/8*2+c&1], i%8*4+c%8/2
			start := float32(0)
			if p.add {
				start = math.Float32frombits(w.R[reg][lane])
			}
			w.R[reg][lane] = math.Float32bits(arith.Dot(start, &x[i], &y))
		}
	}
	w.inst = waiting
}

// operandRow reads the 16 elements of a row of an operand in shared memory, as its descriptor says:
// rows of 128 bytes, swizzled, 8 of them together, and multiplies them by sign.
func (w *Warp) operandRow(p *Product, descriptor uint64, row int, sign float32, out *arith.Sixteen) {
	start, stride := descriptor&0x3fff<<4, descriptor>>32&0x3fff<<4
	if layout, offset := descriptor>>62, descriptor>>49&7; layout != 1 || offset != 0 || start>>7&7 != 0 || stride%1024 != 0 {
		w.Fail(LaunchFailed, "matrix descriptor %#x: start %#x, stride %d, base offset %d, layout %d: the emulator knows rows with a swizzle of 128 bytes (layout 1), 8 at a multiple of 1024",
			descriptor, start, stride, offset, layout)
	}
	at := start + uint64(row/8)*stride + uint64(row%8)*128
	for half := range 2 {
		b := w.AsyncRead(Swizzle(at+uint64(16*half)), 16)
		for i := range 4 {
			low, high := p.Widen(le.Uint32(b[4*i:]))
			out.Set(8*half+2*i, sign*low)
			out.Set(8*half+2*i+1, sign*high)
		}
	}
}
