package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A family is a packed form of weights, as the type of that name in package kern.
type family struct {
	name string
	lut  *Mem  // nibble families: quant of each nibble
	kind scale // form of the scales
	adds int   // AVX2: how many products of two quants fit an int16 together
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
	{"mx4", &lutFP4, e8m0, 4}, // 4·2·24·127 = 24384
	{"q4", &lutNibble, half, 8},
	{"q4m", &lutNibble, halfMin, 8}, // 8·2·15·127 = 30480
	{"q4k", &lutNibble, k45, 8},
	{"q8", nil, half, 1},     // 2·128·127 = 32512
	{"q5m", nil, halfMin, 4}, // 4·2·31·127 = 31496
	{"q5k", nil, k45, 4},
	{"q6k", nil, k6, 2}, // 2·2·63·127 = 32004
}

const tileBytes = 44

func (f family) quantBytes() int {
	if f.lut != nil {
		return 256
	}
	return 512
}

func (f family) scaleBytes() int { return [...]int{16, 32, 64, 32, 32}[f.kind] }
func (f family) headBytes() int  { return [...]int{0, 0, 0, 64, 32}[f.kind] }
func (f family) minima() bool    { return f.kind == halfMin || f.kind == k45 }

// words gives the order of the eight words of a block: which word of the
// activations multiplies the low and high nibbles, or the bytes, as they come.
func (f family) word(i int) int {
	if f.lut != nil {
		return i/2 + i%2*4
	}
	return i
}

func (f family) begin(T int, isa string) {
	function(fmt.Sprintf("%sTile%d%s", f.name, T, isa), "func(w, s, a *byte, nb int, bias, y *float32)",
		fmt.Sprintf("multiplies a row group with a tile of %d rows; see tileGo.", T))
}

// loops runs body for every block; K-quants have eight blocks after each head.
func (f family) loops(id string, w, s, a, nb reg.GPVirtual, T int, head, body func()) {
	left := nb
	if f.headBytes() > 0 {
		Label("super" + id)
		head()
		ADDQ(Imm(uint64(f.headBytes())), s)
		left = GP64()
		MOVQ(U32(8), left)
	}
	Label("block" + id)
	body()
	ADDQ(U32(f.quantBytes()), w)
	ADDQ(Imm(uint64(f.scaleBytes())), s)
	ADDQ(U32(tileBytes*T), a)
	DECQ(left)
	JNZ(LabelRef("block" + id))
	if f.headBytes() > 0 {
		SUBQ(Imm(8), nb)
		JNZ(LabelRef("super" + id))
	}
}

// dot emits VPDPBUSD acc += u8·s8, with s8 broadcast if it is in memory. avo 0.5.0 has
// no AVX512_VNNI, the assembler does.
func dot(s8 Op, u8, acc reg.VecVirtual) {
	var suffixes []string
	if _, ok := s8.(Mem); ok {
		suffixes = []string{"BCST"}
	}
	Instruction(&ir.Instruction{Opcode: "VPDPBUSD", Suffixes: suffixes, Operands: []Op{s8, u8, acc},
		Inputs: []Op{s8, u8, acc}, Outputs: []Op{acc}, ISA: []string{"AVX512_VNNI"}})
}

// ahead is the distance of software prefetches, worth a third of the bandwidth
// in decode (kernels.md 3).
const ahead = 4096

// tile512 writes a tile kernel of 16 rows × T.
func tile512(f family, T int) {
	f.begin(T, "AVX512")
	w, s, a, nb := param("w"), param("s"), param("a"), param("nb")
	tab := f.table512()
	next := GP64()
	IMUL3Q(U32(8*(f.quantBytes()+f.scaleBytes())+f.headBytes()), nb, next)
	SHRQ(Imm(3), next)
	acc := f.group512(T, w, s, a, nb, next, tab)
	bias, y := param("bias"), param("y")
	for t := range acc {
		VADDPS(Mem{Base: bias}, acc[t], acc[t])
		VMOVUPS(acc[t], Mem{Base: y, Disp: 64 * t})
	}
	end()
}

// rowStreams are the numbers of streams that the kernels for one row read: of row groups far apart,
// side by side.
var rowStreams = []int{1, 2}

// oneRowName is the name of a kernel of many row groups × 1.
func (f family) oneRowName(isa isa, fine bool, streams int) string {
	kind := ""
	if fine {
		kind = "Fine"
	}
	return fmt.Sprintf("%sOneRow%s%d%s", f.name, kind, streams, isa.name)
}

// A stream is where a kernel for one row reads: from the group of its loop on, or so many bytes
// behind it.
type stream struct {
	apart reg.GPVirtual
	first bool
}

// at returns what lies at base + disp of the first stream.
func (s stream) at(base reg.GPVirtual) place {
	return func(disp int) Mem {
		if s.first {
			return Mem{Base: base, Disp: disp}
		}
		return Mem{Base: base, Index: s.apart, Scale: 1, Disp: disp}
	}
}

// A place is memory from an address on.
type place func(disp int) Mem

// oneRow writes a kernel of many row groups × 1, size bytes each, one behind the other in each
// stream, and groups in each; those of the second stream lie behind those of the first. Their
// biases are step bytes apart; with fine, the tile has a row of residuals too. Every block asks
// for as many bytes as it reads, ahead bytes behind these.
func oneRow(isa isa, f family, fine bool, streams int) {
	T, doc := 1, ""
	if fine {
		T, doc = 2, " and its residuals"
	}
	function(f.oneRowName(isa, fine, streams), "func(w, a *byte, nb, groups, size, ahead, second int, bias *float32, step int, y *float32)",
		fmt.Sprintf("multiplies %d times so many row groups with a tile of 1 row%s; see tileGo.", streams, doc))
	base, groups, size, far := param("w"), param("groups"), param("size"), param("ahead")
	bias, step, y := param("bias"), param("step"), param("y")
	ADDQ(base, far)
	places := []stream{{first: true}}
	var apartY, apartBias reg.GPVirtual
	if streams == 2 {
		apart := GP64()
		MOVQ(groups, apart)
		IMULQ(size, apart)
		places = append(places, stream{apart: apart})
	}
	body := f.body256(places)
	if isa.size == 64 {
		body = f.body512(T, places)
	}
	Label("group")
	w, s, a, nb := GP64(), GP64(), param("a"), param("nb")
	MOVQ(base, w)
	IMUL3Q(U32(f.quantBytes()), nb, s)
	ADDQ(base, s)
	acc := body(w, s, a, nb, far)
	if streams == 2 {
		apartY, apartBias = param("groups"), param("groups")
		IMULQ(step, apartBias)
		SHLQ(Imm(6), apartY)
	}
	for i, sums := range acc {
		if fine {
			VADDPS(sums[1], sums[0], sums[0])
			sums = sums[:1]
		}
		for part, v := range sums {
			VADDPS(stream{apartBias, i == 0}.at(bias)(part*isa.size), v, v)
			VMOVUPS(v, stream{apartY, i == 0}.at(y)(part*isa.size))
		}
	}
	ADDQ(size, base)
	ADDQ(step, bias)
	ADDQ(Imm(64), y)
	DECQ(groups)
	JNZ(LabelRef("group"))
	end()
}

// blockBytes is what a block takes of a row group, all in all.
func (f family) blockBytes() int { return f.quantBytes() + f.scaleBytes() + f.headBytes()/8 }

// fetch asks for the quants and scales of a block far from its streams and moves on, and for the
// scales of the same block of the next group: they lie behind all quants, so they are wanted before
// the former gets there. Bytes of two streams come faster than the first-level cache can ask for
// them: if second is not 0, they are fetched into the second level.
func (f family) fetch(places []stream, far, s reg.GPVirtual) {
	bytes := f.lut == nil && len(places) > 1
	if bytes {
		second, err := Param("second").Resolve()
		if err != nil {
			panic(err)
		}
		CMPQ(second.Addr, Imm(0))
		JEQ(LabelRef("first"))
		f.fetchBlock(places, far, s, PREFETCHT1)
		JMP(LabelRef("asked"))
		Label("first")
	}
	f.fetchBlock(places, far, s, PREFETCHT0)
	if bytes {
		Label("asked")
	}
	ADDQ(U32(f.blockBytes()), far)
}

// fetchBlock is fetch by one instruction.
func (f family) fetchBlock(places []stream, far, s reg.GPVirtual, ask func(Op)) {
	for _, place := range places {
		for i := 0; i < f.blockBytes(); i += 64 {
			ask(place.at(far)(i))
		}
	}
	fetchNext(places, s, ask)
}

// fetchNext asks for the scales that lie a group behind s.
func fetchNext(places []stream, s reg.GPVirtual, ask func(Op)) {
	next := GP64()
	MOVQ(param("size"), next)
	ADDQ(s, next)
	for _, place := range places {
		ask(place.at(next)(0))
	}
}

// body512 returns what writes a row group of each stream × T: sums [stream][row].
func (f family) body512(T int, places []stream) func(w, s, a, nb, far reg.GPVirtual) [][]reg.VecVirtual {
	tab := f.table512()
	return func(w, s, a, nb, far reg.GPVirtual) [][]reg.VecVirtual {
		acc := make([][]reg.VecVirtual, len(places))
		d, dmin := make([]reg.VecVirtual, len(places)), make([]reg.VecVirtual, len(places))
		for i := range places {
			d[i], dmin[i] = ZMM(), ZMM()
			for range T {
				acc[i] = append(acc[i], ZMM())
			}
			for _, v := range acc[i] {
				VXORPS(v, v, v)
			}
		}
		f.loops("", w, s, a, nb, T, func() {
			fetchNext(places, s, PREFETCHT0)
			for i, place := range places {
				f.head512(place.at(s), d[i], dmin[i])
			}
		}, func() {
			f.fetch(places, far, s)
			for i, place := range places {
				f.block512(T, a, place.at(w), place.at(s), tab, d[i], dmin[i], acc[i])
			}
		})
		return acc
	}
}

// plain reports whether quants are the nibbles themselves.
func (f family) plain() bool { return f.lut == &lutNibble }

// table512 loads what turns nibbles into quants: a table, or a mask.
func (f family) table512() (tab reg.VecVirtual) {
	switch {
	case f.plain():
		tab = ZMM()
		VPBROADCASTD(lowNibbles, tab)
	case f.lut != nil:
		tab = ZMM()
		VBROADCASTI32X4(*f.lut, tab) // VPERMB reads 6 bits of an index: four copies serve as a mask
	}
	return tab
}

// split512 turns words of two nibbles each, q, into the quants of the low and of the high ones.
func (f family) split512(tab, q, high reg.VecVirtual) {
	VPSRLW(Imm(4), q, high)
	for _, v := range []reg.VecVirtual{q, high} {
		if f.plain() { // any unit can do that, one or two a look-up
			VPANDD(tab, v, v)
		} else {
			VPERMB(tab, v, v)
		}
	}
}

// group512 multiplies a row group with T rows. next is the way from the scales to those
// of the next group, which are fetched: a stream that begins anew with each group.
func (f family) group512(T int, w, s, a, nb, next reg.GPVirtual, tab reg.VecVirtual) []reg.VecVirtual {
	acc := make([]reg.VecVirtual, T)
	for t := range acc {
		acc[t] = ZMM()
		VXORPS(acc[t], acc[t], acc[t])
	}
	d, dmin, here := ZMM(), ZMM(), stream{first: true}
	f.loops("", w, s, a, nb, T, func() { f.head512(here.at(s), d, dmin) }, func() {
		for i := 0; i < f.quantBytes(); i += 64 {
			PREFETCHT0(Mem{Base: w, Disp: ahead + i})
		}
		PREFETCHT0(Mem{Base: s, Index: next, Scale: 1})
		f.block512(T, a, here.at(w), here.at(s), tab, d, dmin, acc)
	})
	return acc
}

// head512 loads the scales that eight blocks of a K-quant share.
func (f family) head512(s place, d, dmin reg.VecVirtual) {
	VCVTPH2PS(s(0), d)
	if f.kind == k45 {
		VCVTPH2PS(s(32), dmin)
	}
}

// block512 adds a block's products with T rows.
func (f family) block512(T int, a reg.GPVirtual, w, s place, tab, d, dmin reg.VecVirtual, acc []reg.VecVirtual) {
	if f.plain() && T <= 2 {
		sc, mn := f.scales512(s, d, dmin)
		f.nibbles512(T, a, w, tab, sc, mn, acc)
		return
	}
	q := f.unpack512(w, tab)
	if f.kind == k6 {
		tokens6(T, a, s, q, d, acc)
		return
	}
	sc, mn := f.scales512(s, d, dmin)
	if f.kind == e8m0 {
		tokensE8M0(T, a, q, sc, acc)
		return
	}
	f.tokens512(T, a, q, sc, mn, acc)
}

// tileT are the rows of the kernels for one row group.
func (f family) tileT(isa isa) []int {
	switch {
	case isa.size == 32:
		return []int{1, 2, 3, 4}
	case f.lut == nil && f.pairs():
		return []int{1, 2, 3, 4, 5, 6}
	case f.pairs():
		return []int{1, 2, 3, 4, 5, 6, 7}
	}
	return []int{1, 2, 3, 4, 5, 6, 7, 8, 12, 16}
}

// pairT are the rows of the kernels for two row groups.
var pairT = []int{2, 3, 4, 5, 6}

// fineT are those with as many residuals as rows.
var fineT = []int{2, 4, 6}

// pairs reports whether the family has kernels for two row groups.
func (f family) pairs() bool { return f.kind != k6 }

// pair512 writes a kernel of two row groups × T: every activation is loaded once for
// both. One row group at a time, the loads are what limits a tile: a core does two
// dot products in the time of two loads, and every one of them has a load of its own.
// The second group lies size bytes behind the first; the 32 results of row t go to
// y[t]. From ahead on, so many lines for every block are fetched into the second-level
// cache.
//
// With fine, the second half of the rows are residuals of the first: a row's results
// are its own, then those of its residual, then the bias, added in that order.
func pair512(f family, T int, fine bool) {
	name, doc := fmt.Sprintf("%sPair%dAVX512", f.name, T), fmt.Sprintf("multiplies two row groups with a tile of %d rows; see tileGo.", T)
	if fine {
		name, doc = fmt.Sprintf("%sFine%dAVX512", f.name, T), fmt.Sprintf("multiplies two row groups with a tile of %d rows and their residuals; see tileGo.", T/2)
	}
	function(name, "func(w, s, a, ahead *byte, lines, nb, size int, bias *float32, y **float32)", doc)
	w, s, a, next, nb, size := param("w"), param("s"), param("a"), param("ahead"), param("nb"), param("size")
	at := func(base reg.GPVirtual, g, disp int) Mem {
		if g == 0 {
			return Mem{Base: base, Disp: disp}
		}
		return Mem{Base: base, Index: size, Scale: 1, Disp: disp}
	}
	rows := T
	if fine {
		rows = T / 2
	}
	if rows >= manyRows {
		touch(param("y"), rows)
	}
	tab := f.table512()
	var acc, sum [2][]reg.VecVirtual
	for g := range acc {
		acc[g], sum[g] = make([]reg.VecVirtual, T), make([]reg.VecVirtual, T)
		for t := range T {
			acc[g][t], sum[g][t] = ZMM(), ZMM()
			VXORPS(acc[g][t], acc[g][t], acc[g][t])
		}
	}
	head := GP64()
	f.loops("", w, s, a, nb, T, func() { MOVQ(s, head) }, func() {
		lines := param("lines")
		Label("ahead")
		PREFETCHT1(Mem{Base: next})
		ADDQ(Imm(64), next)
		DECQ(lines)
		JNZ(LabelRef("ahead"))
		var magic [2]reg.VecVirtual
		for g := range sum {
			if f.kind == e8m0 {
				magic[g] = ZMM()
				VPMOVZXBD(at(s, g, 0), magic[g])
				VPSLLD(Imm(23), magic[g], magic[g])
				VPADDD_BCST(magicE8M0, magic[g], magic[g]) // see tokensE8M0
			}
			for t, v := range sum[g] {
				start := Mem{Base: a, Disp: 36*T + 4*t}
				switch {
				case f.minima():
					VPXORD(v, v, v)
				case f.kind == e8m0:
					VPADDD_BCST(start, magic[g], v)
				default:
					VPBROADCASTD(start, v)
				}
			}
		}
		for z := range f.quantBytes() / 64 {
			var q [2][2]reg.VecVirtual // of the low and high nibbles, or of the bytes
			words := 1
			for g := range 2 {
				q[0][g] = ZMM()
				VMOVDQU64(at(w, g, 64*z), q[0][g])
				if f.lut != nil {
					words = 2
					q[1][g] = ZMM()
					f.split512(tab, q[0][g], q[1][g])
				}
			}
			for h := range words {
				for t := range T {
					x := ZMM()
					VPBROADCASTD(Mem{Base: a, Disp: 32*t + 4*z + 16*h}, x)
					for g := range 2 {
						dot(x, q[h][g], sum[g][t])
					}
				}
			}
		}
		var sc, mn [2]reg.VecVirtual
		for g := range 2 {
			switch f.kind {
			case half, halfMin:
				sc[g] = ZMM()
				VCVTPH2PS(at(s, g, 0), sc[g])
				if f.kind == halfMin {
					mn[g] = ZMM()
					VCVTPH2PS(at(s, g, 32), mn[g])
				}
			case k45:
				for i, v := range []*reg.VecVirtual{&sc[g], &mn[g]} {
					*v = ZMM()
					d := ZMM()
					VPMOVZXBD(at(s, g, 16*i), *v)
					VCVTPH2PS(at(head, g, 32*i), d)
					VCVTDQ2PS(*v, *v)
					VMULPS(d, *v, *v)
				}
			}
		}
		for t := range T {
			x := ZMM()
			VBROADCASTSS(Mem{Base: a, Disp: 32*T + 4*t}, x)
			for g := range 2 {
				v := sum[g][t]
				if f.kind == e8m0 {
					VSUBPS(magic[g], v, v)
					VFMADD231PS(x, v, acc[g][t])
					continue
				}
				VCVTDQ2PS(v, v)
				VMULPS(x, v, v)
				VFMADD231PS(v, sc[g], acc[g][t])
			}
			if f.minima() {
				y := ZMM()
				VBROADCASTSS(Mem{Base: a, Disp: 40*T + 4*t}, y)
				for g := range 2 {
					VFMADD231PS(y, mn[g], acc[g][t])
				}
			}
		}
	})
	bias, y, row := param("bias"), param("y"), GP64()
	for t := range rows {
		MOVQ(Mem{Base: y, Disp: 8 * t}, row)
		for g := range acc {
			if fine {
				VADDPS(acc[g][rows+t], acc[g][t], acc[g][t])
			}
			VADDPS(Mem{Base: bias, Disp: 64 * g}, acc[g][t], acc[g][t])
			VMOVUPS(acc[g][t], Mem{Base: row, Disp: 64 * g})
		}
	}
	end()
}

// manyRows is how many rows of results are more than stores wait for by the way.
const manyRows = 4

// touch asks for the lines of the 32 results of each row, which are written long after.
func touch(y reg.GPVirtual, rows int) {
	row := GP64()
	for t := range rows {
		MOVQ(Mem{Base: y, Disp: 8 * t}, row)
		PREFETCHT0(Mem{Base: row})
		PREFETCHT0(Mem{Base: row, Disp: 64})
	}
}

// unpack512 loads the quants of a block as bytes, word by word of the activations.
func (f family) unpack512(w place, tab reg.VecVirtual) (q [8]reg.VecVirtual) {
	for i := range q {
		q[i] = ZMM()
	}
	for z := range 8 {
		if f.lut == nil {
			VMOVDQU64(w(64*z), q[z])
			continue
		}
		if z < 4 {
			VMOVDQU64(w(64*z), q[z])
			f.split512(tab, q[z], q[z+4])
		}
	}
	return q
}

func (f family) scales512(s place, d, dmin reg.VecVirtual) (sc, mn reg.VecVirtual) {
	sc = ZMM()
	switch f.kind {
	case e8m0:
		VPMOVZXBD(s(0), sc)
		VPSLLD(Imm(23), sc, sc)
		VPADDD_BCST(magicE8M0, sc, sc) // see tokensE8M0
	case half:
		VCVTPH2PS(s(0), sc)
	case halfMin:
		mn = ZMM()
		VCVTPH2PS(s(0), sc)
		VCVTPH2PS(s(32), mn)
	case k45:
		mn = ZMM()
		VPMOVZXBD(s(0), sc)
		VPMOVZXBD(s(16), mn)
		VCVTDQ2PS(sc, sc)
		VCVTDQ2PS(mn, mn)
		VMULPS(d, sc, sc)
		VMULPS(dmin, mn, mn)
	}
	return sc, mn
}

// tokens512 adds a block's products with T rows.
func (f family) tokens512(T int, a reg.GPVirtual, q [8]reg.VecVirtual, sc, mn reg.VecVirtual, acc []reg.VecVirtual) {
	interleave(T, a, q, func(t int, sum reg.VecVirtual) { f.start512(T, a, t, sum) },
		func(t int, sum reg.VecVirtual) { f.finish512(T, a, t, sum, sc, mn, acc) })
}

// nibbles512 is tokens512 for one or two rows and quants that are nibbles. The high ones are
// multiplied where they lie, sixteen times as large, for a sum of their own, which is divided
// once: a shift in place of four, and nothing is rounded.
func (f family) nibbles512(T int, a reg.GPVirtual, w place, mask, sc, mn reg.VecVirtual, acc []reg.VecVirtual) {
	low, high, sums := ZMM(), ZMM(), [2][2]reg.VecVirtual{}
	for t := range T {
		sums[t] = [2]reg.VecVirtual{ZMM(), ZMM()}
		f.start512(T, a, t, sums[t][0])
		VPXORD(sums[t][1], sums[t][1], sums[t][1])
	}
	for z := range 4 {
		VMOVDQU64(w(64*z), high)
		VPANDD(mask, high, low)
		VPANDND(high, mask, high)
		for t := range T {
			dot(Mem{Base: a, Disp: 32*t + 4*z}, low, sums[t][0])
			dot(Mem{Base: a, Disp: 32*t + 4*(z+4)}, high, sums[t][1])
		}
	}
	for t := range T {
		VPSRAD(Imm(4), sums[t][1], sums[t][1])
		VPADDD(sums[t][1], sums[t][0], sums[t][0])
		f.finish512(T, a, t, sums[t][0], sc, mn, acc)
	}
}

// start512 sets the sum of a block and row t to what it starts with.
func (f family) start512(T int, a reg.GPVirtual, t int, sum reg.VecVirtual) {
	if f.minima() {
		VPXORD(sum, sum, sum)
		return
	}
	VPBROADCASTD(Mem{Base: a, Disp: 36*T + 4*t}, sum)
}

// finish512 scales the sum of a block and row t and adds it.
func (f family) finish512(T int, a reg.GPVirtual, t int, sum, sc, mn reg.VecVirtual, acc []reg.VecVirtual) {
	VCVTDQ2PS(sum, sum)
	VMULPS_BCST(Mem{Base: a, Disp: 32*T + 4*t}, sum, sum)
	VFMADD231PS(sum, sc, acc[t])
	if f.minima() {
		VFMADD231PS_BCST(Mem{Base: a, Disp: 40*T + 4*t}, mn, acc[t])
	}
}

// tokensE8M0 is tokens512 for scales that are powers of two. A sum starts with the
// bits of 3·2^22 times the scale, so that its bits are those of the scaled sum plus
// that number: one subtraction, exact, converts and scales. On processors that have
// other units for additions than for products and dots, a sixth fewer of the latter.
func tokensE8M0(T int, a reg.GPVirtual, q [8]reg.VecVirtual, magic reg.VecVirtual, acc []reg.VecVirtual) {
	interleave(T, a, q, func(t int, sum reg.VecVirtual) {
		VPADDD_BCST(Mem{Base: a, Disp: 36*T + 4*t}, magic, sum)
	}, func(t int, sum reg.VecVirtual) {
		VSUBPS(magic, sum, sum)
		VFMADD231PS_BCST(Mem{Base: a, Disp: 32*T + 4*t}, sum, acc[t])
	})
}

// interleave emits the dot products of a block for T rows, three rows at a time to
// hide their latency; start and use say what a sum is before and what becomes of it.
func interleave(T int, a reg.GPVirtual, q [8]reg.VecVirtual, start, use func(t int, sum reg.VecVirtual)) {
	// One set of registers for all rows: avo takes zeroing for a use, and would
	// keep every row's sum alive through the loop.
	sum := [3]reg.VecVirtual{ZMM(), ZMM(), ZMM()}
	for t0 := 0; t0 < T; t0 += len(sum) {
		n := min(len(sum), T-t0)
		for i := range n {
			start(t0+i, sum[i])
		}
		for k := range q {
			for i := range n {
				dot(Mem{Base: a, Disp: 32*(t0+i) + 4*k}, q[k], sum[i])
			}
		}
		for i := range n {
			use(t0+i, sum[i])
		}
	}
}

// tokens6 is tokens512 for a scale per half block.
func tokens6(T int, a reg.GPVirtual, s place, q [8]reg.VecVirtual, d reg.VecVirtual, acc []reg.VecVirtual) {
	var sc [2]reg.VecVirtual
	for h := range sc {
		sc[h] = ZMM()
		VPMOVSXBD(s(16*h), sc[h])
		VCVTDQ2PS(sc[h], sc[h])
	}
	var sum [2][2]reg.VecVirtual
	for t0 := 0; t0 < T; t0 += 2 {
		n := min(2, T-t0)
		for i := range n {
			for h := range sc {
				sum[i][h] = ZMM()
				VPBROADCASTD(Mem{Base: a, Disp: (36+4*h)*T + 4*(t0+i)}, sum[i][h])
			}
		}
		for k := range 4 {
			for i := range n {
				for h := range sc {
					dot(Mem{Base: a, Disp: 32*(t0+i) + 16*h + 4*k}, q[4*h+k], sum[i][h])
				}
			}
		}
		for i := range n {
			VCVTDQ2PS(sum[i][0], sum[i][0])
			VCVTDQ2PS(sum[i][1], sum[i][1])
			VMULPS(sc[0], sum[i][0], sum[i][0])
			VFMADD231PS(sum[i][1], sc[1], sum[i][0])
			VMULPS_BCST(Mem{Base: a, Disp: 32*T + 4*(t0+i)}, sum[i][0], sum[i][0])
			VFMADD231PS(sum[i][0], d, acc[t0+i])
		}
	}
}

// tile256 writes a tile kernel as two passes of 8 rows × T.
func tile256(f family, T int) {
	f.begin(T, "AVX2")
	for h := range 2 {
		w, s, a, nb := param("w"), param("s"), param("a"), param("nb")
		acc := make([]reg.VecVirtual, T)
		for t := range acc {
			acc[t] = YMM()
			VXORPS(acc[t], acc[t], acc[t])
		}
		head, here := GP64(), stream{first: true}
		f.loops(label("%d", h), w, s, a, nb, T, func() { MOVQ(s, head) }, func() {
			if h == 0 {
				for i := 0; i < f.quantBytes(); i += 64 {
					PREFETCHT0(Mem{Base: w, Disp: ahead + i})
				}
			}
			if f.kind == k6 {
				f.block6(T, h, here.at(w), here.at(s), a, here.at(head), acc)
				return
			}
			sum := f.dots256(T, h, 0, 8, 36*T, here.at(w), a)
			sc, mn := f.scales256(h, here.at(s), here.at(head))
			for t := range acc {
				f.finish256(T, a, sum[t], sc, mn, t, acc[t])
			}
		})
		bias, y := param("bias"), param("y")
		for t := range acc {
			VADDPS(Mem{Base: bias, Disp: 32 * h}, acc[t], acc[t])
			VMOVUPS(acc[t], Mem{Base: y, Disp: 64*t + 32*h})
		}
	}
	end()
}

// finish256 adds the sum of a block and row t, and what its minimum makes of the row.
func (f family) finish256(T int, a reg.GPVirtual, sum, sc, mn reg.VecVirtual, t int, acc reg.VecVirtual) {
	f.add256(a, 32*T+4*t, sum, sc, acc)
	if f.minima() {
		b := YMM()
		VBROADCASTSS(Mem{Base: a, Disp: 40*T + 4*t}, b)
		VFMADD231PS(b, mn, acc)
	}
}

// add256 adds an integer sum to acc, times the activations' scale at a+disp and that
// of the weights; a power of two comes first, since it rounds nothing.
func (f family) add256(a reg.GPVirtual, disp int, sum, sc, acc reg.VecVirtual) {
	b := YMM()
	VBROADCASTSS(Mem{Base: a, Disp: disp}, b)
	VCVTDQ2PS(sum, sum)
	if f.kind == e8m0 {
		VMULPS(sc, sum, sum)
		VFMADD231PS(sum, b, acc)
		return
	}
	VMULPS(b, sum, sum)
	VFMADD231PS(sum, sc, acc)
}

// block6 adds a block of q6k.
func (f family) block6(T, h int, w, s place, a reg.GPVirtual, head place, acc []reg.VecVirtual) {
	var sums [2][]reg.VecVirtual
	for half := range sums {
		sums[half] = f.dots256(T, h, 4*half, 4*half+4, (36+4*half)*T, w, a)
		f.scale6(h, half, s, sums[half], sums[0])
	}
	f.add6(32*T, h, a, head, sums[0], acc)
}

// scale6 multiplies the sums of a half block with its scale and adds them to those of the first.
func (f family) scale6(h, half int, s place, sums, first []reg.VecVirtual) {
	sc := YMM()
	VPMOVSXBD(s(16*half+8*h), sc)
	VCVTDQ2PS(sc, sc)
	for t, sum := range sums {
		VCVTDQ2PS(sum, sum)
		if half == 0 {
			VMULPS(sc, sum, sum)
		} else {
			VFMADD231PS(sum, sc, first[t])
		}
	}
}

// add6 adds the sums of a block, times the scales at a+disp and that of the head.
func (f family) add6(disp, h int, a reg.GPVirtual, head place, sums, acc []reg.VecVirtual) {
	d := YMM()
	VCVTPH2PS(head(16*h), d)
	for t, sum := range sums {
		b := YMM()
		VBROADCASTSS(Mem{Base: a, Disp: disp + 4*t}, b)
		VMULPS(b, sum, sum)
		VFMADD231PS(sum, d, acc[t])
	}
}

// body256 returns what writes a row group of each stream × 1: sums [stream][half].
func (f family) body256(places []stream) func(w, s, a, nb, far reg.GPVirtual) [][]reg.VecVirtual {
	return func(w, s, a, nb, far reg.GPVirtual) [][]reg.VecVirtual {
		acc := make([][]reg.VecVirtual, len(places))
		for i := range acc {
			acc[i] = []reg.VecVirtual{YMM(), YMM()}
			for _, v := range acc[i] {
				VXORPS(v, v, v)
			}
		}
		head := GP64()
		f.loops("", w, s, a, nb, 1, func() {
			fetchNext(places, s, PREFETCHT0)
			MOVQ(s, head)
		}, func() {
			f.fetch(places, far, s)
			for i, place := range places {
				f.block256(a, place.at(w), place.at(s), place.at(head), acc[i])
			}
		})
		return acc
	}
}

// block256 adds a block's products with one row to the sums of both halves of a group.
func (f family) block256(a reg.GPVirtual, w, s, head place, acc []reg.VecVirtual) {
	if f.kind == k6 {
		var sums [2][2]reg.VecVirtual // [half of the block][half of the group]
		for half := range sums {
			sums[half] = f.row256(4*half, 4*half+4, 36+4*half, w, a)
			for h := range acc {
				f.scale6(h, half, s, sums[half][h:][:1], sums[0][h:][:1])
			}
		}
		for h := range acc {
			f.add6(32, h, a, head, sums[0][h:][:1], acc[h:][:1])
		}
		return
	}
	for h, sum := range f.row256(0, 8, 36, w, a) {
		sc, mn := f.scales256(h, s, head)
		f.finish256(1, a, sum, sc, mn, 0, acc[h])
	}
}

// dots256 returns the integer sums of words from..to-1 for 8 rows, started from
// the int32 at a+start. VPMADDUBSW saturates at int16, so sums widen after every
// f.adds products. q8 reaches 255: there |w| is multiplied with ±x instead, and
// no start is needed.
func (f family) dots256(T, h, from, to, start int, w place, a reg.GPVirtual) []reg.VecVirtual {
	sum, part := make([]reg.VecVirtual, T), make([]reg.VecVirtual, T)
	for t := range sum {
		sum[t] = f.start256(a, start+4*t)
	}
	for i := from; i < to; i += 2 {
		q, sign := f.pair256(i, h, w)
		for t := range sum {
			var b [2]reg.VecVirtual
			for j := range b {
				b[j] = YMM()
				VPBROADCASTD(Mem{Base: a, Disp: 32*t + 4*f.word(i+j)}, b[j])
				if f.adds == 1 {
					VPSIGNB(sign[j], b[j], b[j])
				}
				VPMADDUBSW(b[j], q[j], b[j])
			}
			f.widen256(i-from, b, &part[t], sum[t])
		}
	}
	return sum
}

// row256 is dots256 for one row and both halves of a group, which share the words of the row.
func (f family) row256(from, to, start int, w place, a reg.GPVirtual) (sum [2]reg.VecVirtual) {
	var part, x [2]reg.VecVirtual
	for h := range sum {
		sum[h], x[h] = f.start256(a, start), YMM()
	}
	for i := from; i < to; i += 2 {
		for j := range x {
			VPBROADCASTD(Mem{Base: a, Disp: 4 * f.word(i+j)}, x[j])
		}
		for h := range sum {
			q, sign := f.pair256(i, h, w)
			for j, v := range x {
				if f.adds == 1 {
					VPSIGNB(sign[j], v, sign[j])
					v = sign[j]
				}
				VPMADDUBSW(v, q[j], q[j])
			}
			f.widen256(i-from, q, &part[h], sum[h])
		}
	}
	return sum
}

// start256 returns what the integer sums of a block start with: the int32 at a+start, or 0.
func (f family) start256(a reg.GPVirtual, start int) reg.VecVirtual {
	sum := YMM()
	if f.name == "q8" || f.minima() {
		VPXOR(sum, sum, sum)
		return sum
	}
	VPBROADCASTD(Mem{Base: a, Disp: start}, sum)
	return sum
}

// widen256 adds products of words number i and i+1 of a sum to part or, as int32, to sum.
func (f family) widen256(i int, products [2]reg.VecVirtual, part *reg.VecVirtual, sum reg.VecVirtual) {
	widen := func(v reg.VecVirtual) {
		VPMADDWD(ones16, v, v)
		VPADDD(v, sum, sum)
	}
	if f.adds == 1 {
		widen(products[0])
		widen(products[1])
		return
	}
	VPADDW(products[1], products[0], products[0])
	if i%f.adds == 0 {
		*part = products[0]
	} else {
		VPADDW(products[0], *part, *part)
	}
	if (i+2)%f.adds == 0 {
		widen(*part)
	}
}

// pair256 loads words i and i+1 of a block for 8 rows, unsigned; sign is the
// signed word where that is not the whole quant.
func (f family) pair256(i, h int, w place) (q, sign [2]reg.VecVirtual) {
	q[0], q[1] = YMM(), YMM()
	if f.lut != nil {
		VMOVDQU(w(64*(i/2)+32*h), q[0])
		VPSRLW(Imm(4), q[0], q[1])
		VPAND(lowNibbles, q[0], q[0])
		VPAND(lowNibbles, q[1], q[1])
		if f.lut != &lutNibble {
			tab := YMM()
			VMOVDQU(*f.lut, tab)
			VPSHUFB(q[0], tab, q[0])
			VPSHUFB(q[1], tab, q[1])
		}
		return q, sign
	}
	for j := range q {
		VMOVDQU(w(64*(i+j)+32*h), q[j])
		if f.adds == 1 {
			sign[j] = YMM()
			VPXOR(signBits, q[j], sign[j])
			VPABSB(sign[j], q[j])
		}
	}
	return q, sign
}

func (f family) scales256(h int, s, head place) (sc, mn reg.VecVirtual) {
	sc = YMM()
	switch f.kind {
	case e8m0:
		VPMOVZXBD(s(8*h), sc)
		VPSLLD(Imm(23), sc, sc)
		VPMAXUD(minE8M0, sc, sc)
	case half:
		VCVTPH2PS(s(16*h), sc)
	case halfMin:
		mn = YMM()
		VCVTPH2PS(s(16*h), sc)
		VCVTPH2PS(s(32+16*h), mn)
	case k45:
		mn = YMM()
		for i, v := range []reg.VecVirtual{sc, mn} {
			d := YMM()
			VPMOVZXBD(s(16*i+8*h), v)
			VCVTPH2PS(head(32*i+16*h), d)
			VCVTDQ2PS(v, v)
			VMULPS(d, v, v)
		}
	}
	return sc, mn
}
