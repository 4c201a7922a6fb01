package main

import "fmt"

// A family is a packed form of weights, as the type of that name in package kern.
type family struct {
	name    string
	nibbles bool
	kind    scale // form of the scales
	adds    int   // how many products of a quant fit an int16 together
}

type scale int

const (
	e8m0    scale = iota // exponent bytes
	half                 // f16
	halfMin              // f16 and f16 minimum
	k45                  // f16 pairs per 256, u8 scale and minimum
	k6                   // f16 per 256, two s8 scales
)

var families = []family{
	{"mx4", true, e8m0, 8}, // 8·24·127 = 24384
	{"q4", true, half, 8},
	{"q4m", true, halfMin, 8},
	{"q4k", true, k45, 8},
	{"q8", false, half, 2},     // 2·128·127 = 32512, of quants less 128
	{"q5m", false, halfMin, 8}, // 8·31·127 = 31496
	{"q5k", false, k45, 8},
	{"q6k", false, k6, 4}, // 4·63·127 = 32004
}

const tileBytes = 44

func (f family) quantBytes() int {
	if f.nibbles {
		return 256
	}
	return 512
}

func (f family) scaleBytes() int { return [...]int{16, 32, 64, 32, 32}[f.kind] }
func (f family) headBytes() int  { return [...]int{0, 0, 0, 64, 32}[f.kind] }
func (f family) minima() bool    { return f.kind == halfMin || f.kind == k45 }

// words is how many 16-byte words of quants a block of four rows has.
func (f family) words() int { return f.quantBytes() / 64 }

// An isa is what the products of int8 are made with.
type isa struct {
	name string
	rows []int // T of the tiles
}

var (
	neon    = isa{"NEON", []int{1, 2}}          // widening products, sums of 16 bits
	dotprod = isa{"DotProd", []int{1, 2, 3, 4}} // SDOT: four rows by one, four elements of each
	i8mm    = isa{"I8MM", []int{2, 3, 4}}       // USMMLA: two rows by two, eight elements of each
)

// e2m1 is twice the value of each code of an E2M1 number, + 12.
var e2m1 = [16]byte{12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0}

// ahead is the distance of prefetches, that of the kernels for amd64.
const ahead = 4096

// A tile is the kernel of 16 weight rows × T that is written. The rows go through the registers
// in quads, four at a time: a 16-byte word of quants has four elements of each.
type tile struct {
	*assembler
	isa isa
	f   family
	T   int

	w, s, x, head gp
	mask, table   vec      // of nibbles
	flip          vec      // of quants of eight bits where they have to be signed
	acts          [2][]vec // elements 0-15 and 16-31 of each activation row
	acc           [4][]vec // of each quad, by activation row
	d, dmin       [4]vec   // of K-quants, where there is room
	keep, masked  bool     // there is; there is a mask in a register
}

// tile writes the kernel of a family; see tileGo.
func (a *assembler) tile(isa isa, f family, T int) {
	a.begin(isa, f, T)
	k := a.newTile(isa, f, T)
	nb := a.param("nb")
	for q := range k.acc {
		k.acc[q] = a.take(T)
		for _, v := range k.acc[q] {
			a.zero(v)
		}
	}
	k.constants()
	k.loops(nb, k.block)
	k.write()
}

func (a *assembler) begin(isa isa, f family, T int) {
	a.function(fmt.Sprintf("%sTile%d%s", f.name, T, isa.name), "func(w, s, a *byte, nb int, bias, y *float32)",
		fmt.Sprintf("multiplies a row group with a tile of %d rows; see tileGo.", T))
}

func (a *assembler) newTile(isa isa, f family, T int) tile {
	return tile{assembler: a, isa: isa, f: f, T: T, w: a.param("w"), s: a.param("s"), x: a.param("a")}
}

// constants makes what the loop needs in registers.
func (k *tile) constants() {
	// A tile of pairs of mx4 has no register left: it makes the mask anew.
	if k.masked = k.f.nibbles && !(k.isa.name == i8mm.name && k.f.name == "mx4"); k.masked {
		k.mask = k.vec()
		k.bytes(k.mask, 15)
	}
	if k.f.name == "mx4" {
		k.table = k.vec()
		k.assembler.table(k.table, "e2m1", e2m1)
	}
	if k.flipped() {
		k.flip = k.vec()
		k.bytes(k.flip, 128)
	}
	k.keep = k.f.kind == k45 && k.T <= 2
	for q := range k.d {
		if k.keep {
			k.d[q], k.dmin[q] = k.vec(), k.vec()
		}
	}
}

// flipped reports whether quants of eight bits are taken less their zero, and no sum has to
// start from that of the activations.
func (k *tile) flipped() bool { return k.f.name == "q8" && k.isa.name != i8mm.name }

// loops runs body for every block; K-quants have eight blocks after each head.
func (k *tile) loops(nb gp, body func()) {
	left, super := nb, ""
	if k.f.headBytes() > 0 {
		k.head, left = k.gp(), k.gp()
		super = k.label()
		k.copyTo(k.head, k.s)
		k.add(k.s, k.f.headBytes())
		k.line("MOVD $8, R%d", left)
		k.heads()
	}
	block := k.label()
	body()
	k.add(k.w, k.f.quantBytes())
	k.add(k.s, k.f.scaleBytes())
	k.add(k.x, tileBytes*k.T)
	k.again(block, left, 1)
	if super != "" {
		k.again(super, nb, 8)
	}
}

// heads loads the factors of eight blocks, where there is room.
func (k *tile) heads() {
	for q := range k.d {
		if k.keep {
			k.halves(k.d[q], k.head, 8*q)
			k.halves(k.dmin[q], k.head, 32+8*q)
		}
	}
}

// halves loads four f16 as float32.
func (k *tile) halves(v vec, r gp, offset int) {
	k.load(v, 8, r, offset)
	k.op("fcvtl", v, v)
}

// block multiplies a block of 32 elements.
func (k *tile) block() {
	k.prefetches()
	if k.f.kind == k6 {
		for q := range k.acc {
			k.quad6(q)
		}
		return
	}
	k.loadActs(0)
	k.loadActs(1)
	step := 1 // quads at a time, so that sums do not wait for themselves
	if k.isa.name == dotprod.name {
		step = [...]int{1: 4, 2: 2, 3: 1, 4: 1}[k.T]
	}
	for first := 0; first < len(k.acc); first += step {
		sums := k.sums(first, step, 0, k.f.words(), 36)
		for i := range sums {
			k.use(first+i, sums[i])
		}
	}
	k.freeActs(0)
	k.freeActs(1)
}

// prefetches asks for quants ahead.
func (k *tile) prefetches() {
	for i := 0; i < k.f.quantBytes(); i += 64 {
		k.prefetch(k.w, ahead+i)
	}
}

// loadActs loads a half of the block of each activation row.
func (k *tile) loadActs(h int) {
	for t := range k.T {
		v := k.vec()
		k.load(v, 16, k.x, 32*t+16*h)
		k.acts[h] = append(k.acts[h], v)
	}
}

func (k *tile) freeActs(h int) {
	k.free(k.acts[h]...)
	k.acts[h] = nil
}

// quad6 multiplies a quad of q6k: a scale for each half, applied to the integers.
func (k *tile) quad6(q int) {
	var total []vec
	for h := range 2 {
		k.loadActs(h)
		sums := k.sums(q, 1, 4*h, 4*h+4, 36+4*h)[0]
		k.freeActs(h)
		scale := k.vec()
		k.scale6(scale, q, h)
		for t, sum := range sums {
			if h == 0 {
				k.op("mul", sum, sum, scale)
			} else {
				k.op("mla", total[t], sum, scale)
			}
		}
		k.free(scale)
		if h == 0 {
			total = sums
		} else {
			k.free(sums...)
		}
	}
	k.use(q, total)
}

// scale6 loads the scales of a half of q6k for a quad.
func (k *tile) scale6(v vec, q, h int) {
	k.load(v, 4, k.s, 16*h+4*q)
	k.op("sxtl8h", v, v)
	k.op("sxtl4s", v, v)
}

// sums returns the integer sums of the words from..to-1 of n quads, by activation row, which
// start from what the tile has from offset·T on.
func (k *tile) sums(first, n, from, to, offset int) [][]vec {
	if k.isa.name == neon.name {
		return [][]vec{k.sums16(first, from, to, offset)}
	}
	sums := make([][]vec, n)
	for i := range sums {
		sums[i] = k.take(k.T)
		k.start(sums[i], offset)
	}
	for z := from; z < to; z++ {
		for i := range sums {
			k.word(first+i, z, func(w vec, h, lane int) {
				for t, sum := range sums[i] {
					k.lane("sdot", sum, w, k.acts[h][t], lane)
				}
			})
		}
	}
	return sums
}

// started reports whether sums start from those of the activations.
func (k *tile) started() bool { return !k.flipped() && !k.f.minima() }

// start gives sums, by activation row, the values they start from.
func (k *tile) start(sums []vec, offset int) {
	if !k.started() {
		for _, sum := range sums {
			k.zero(sum)
		}
		return
	}
	starts, lane := k.tokens(offset)
	for t, sum := range sums {
		k.dup(sum, starts, lane+t)
	}
	k.free(starts)
}

// sums16 is sums for one quad without dot products: products of two bytes are added in 16 bits,
// as many as fit, two rows in a register.
func (k *tile) sums16(q, from, to, offset int) (sums []vec) {
	parts, wide, done := k.take(2*k.T), []vec(nil), 0
	last := to - from
	if k.f.nibbles {
		last *= 2
	}
	if last > k.f.adds {
		wide = k.take(2 * k.T)
	}
	x := k.vec()
	for z := from; z < to; z++ {
		k.word(q, z, func(w vec, h, lane int) {
			low, high := "smlal", "smlal2"
			if done%k.f.adds == 0 {
				low, high = "smull", "smull2"
			}
			for t := range k.T {
				k.dup(x, k.acts[h][t], lane)
				k.op(low, parts[2*t], w, x)
				k.op(high, parts[2*t+1], w, x)
			}
			done++
			if done%k.f.adds != 0 || wide == nil {
				return
			}
			add := "sadalp"
			if done == k.f.adds {
				add = "saddlp"
			}
			for i, part := range parts {
				k.op(add, wide[i], part)
			}
		})
	}
	k.free(x)
	if wide == nil {
		for _, part := range parts {
			k.op("saddlp", part, part)
		}
		parts, wide = nil, parts
	}
	k.free(parts...)
	for t := range k.T {
		k.op("addp", wide[2*t], wide[2*t], wide[2*t+1])
		sums = append(sums, wide[2*t])
		k.free(wide[2*t+1])
	}
	k.addStart(sums, offset)
	return sums
}

// addStart adds what sums would have started from.
func (k *tile) addStart(sums []vec, offset int) {
	if !k.started() {
		return
	}
	starts, lane := k.tokens(offset)
	start := k.vec()
	for t, sum := range sums {
		k.dup(start, starts, lane+t)
		k.addInt(sum, sum, start)
	}
	k.free(starts, start)
}

// tokens loads the words of all activation rows that the tile has from offset·T on; the first
// is in that lane. Nothing beyond the tile is read.
func (k *tile) tokens(offset int) (v vec, lane int) {
	v = k.vec()
	switch k.T {
	case 1:
		k.load(v, 4, k.x, offset)
	case 2:
		k.load(v, 8, k.x, 2*offset)
	case 3:
		k.load(v, 16, k.x, 3*offset-4)
		lane = 1
	case 4:
		k.load(v, 16, k.x, 4*offset)
	}
	return v, lane
}

// word loads word z of a quad and calls times with quants of four elements of each row, and
// which elements of the activations they meet: lane of half h.
func (k *tile) word(q, z int, times func(w vec, h, lane int)) {
	w := k.vec()
	k.load(w, 16, k.w, 64*z+16*q)
	if !k.f.nibbles {
		if k.flipped() {
			k.eor(w, w, k.flip)
		}
		times(w, z/4, z%4)
		k.free(w)
		return
	}
	low := k.vec()
	k.unpack(low, w)
	times(low, 0, z)
	times(w, 1, z)
	k.free(low, w)
}

// unpack turns nibbles into quants: the low ones of w in low, the high ones in w.
func (k *tile) unpack(low, w vec) {
	mask := k.mask
	if !k.masked {
		mask = low
		k.bytes(mask, 15)
	}
	k.and(low, w, mask)
	k.shr("B16", w, w, 4)
	if k.f.name == "mx4" {
		k.lookup(low, k.table, low)
		k.lookup(w, k.table, w)
	}
}

// use adds the integer sums of a quad to acc, as tileGo does, and frees their registers.
func (k *tile) use(q int, sums []vec) {
	scale := k.scales(q)
	x, lane := k.tokens(32)
	for t, sum := range sums {
		k.op("scvtf", sum, sum)
		if k.f.kind == e8m0 {
			k.op("fmul", sum, sum, scale)
			k.lane("fmla", k.acc[q][t], sum, x, lane+t)
			continue
		}
		k.lane("fmul", sum, sum, x, lane+t)
		k.fmla(k.acc[q][t], sum, scale)
	}
	k.free(scale, x)
	if k.f.minima() {
		minimum := k.minimum(q)
		x, lane := k.tokens(40)
		for t := range sums {
			k.lane("fmla", k.acc[q][t], minimum, x, lane+t)
		}
		k.free(minimum, x)
	}
	k.free(sums...)
}

// scales loads the scales of a quad.
func (k *tile) scales(q int) vec {
	v := k.vec()
	switch k.f.kind {
	case e8m0:
		k.load(v, 4, k.s, 4*q)
		k.line("VUSHLL $7, V%d.B8, V%d.H8", v, v)
		k.op("shll", v, v) // bits 23 on
		least := k.vec()
		k.raw(moveHigh(least, 0x40)) // 2^-127, the value of exponent 0
		k.three("VUMAX", "S4", v, v, least)
		k.free(least)
	case half, halfMin:
		k.halves(v, k.s, 8*q)
	case k45:
		k.factor(v, q, 0, k.d[q])
	case k6:
		k.halves(v, k.head, 8*q)
	}
	return v
}

// minimum loads the minima of a quad.
func (k *tile) minimum(q int) vec {
	v := k.vec()
	if k.f.kind == halfMin {
		k.halves(v, k.s, 32+8*q)
		return v
	}
	k.factor(v, q, 1, k.dmin[q])
	return v
}

// factor loads scales (0) or minima (1) of K-quants: a byte times an f16 of the head, unit.
func (k *tile) factor(v vec, q, which int, unit vec) {
	k.load(v, 4, k.s, 16*which+4*q)
	k.line("VUSHLL $0, V%d.B8, V%d.H8", v, v)
	k.line("VUSHLL $0, V%d.H4, V%d.S4", v, v)
	k.op("scvtf", v, v)
	if k.keep {
		k.op("fmul", v, v, unit)
		return
	}
	unit = k.vec()
	k.halves(unit, k.head, 32*which+8*q)
	k.op("fmul", v, v, unit)
	k.free(unit)
}

// write adds the biases and stores the results.
func (k *tile) write() {
	bias, y := k.param("bias"), k.param("y")
	for q := range k.acc {
		b := k.vec()
		k.load(b, 16, bias, 16*q)
		for t, v := range k.acc[q] {
			k.op("fadd", v, v, b)
			k.store(v, 16, y, 64*t+16*q)
		}
		k.free(b)
	}
	k.ret()
}
