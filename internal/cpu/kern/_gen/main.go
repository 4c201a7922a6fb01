// Command gen writes the amd64 kernels of package kern:
//
//	go run . -out ../kern_amd64.s -stubs ../kern_amd64.go -pkg kern -dispatch ../dispatch_amd64.go
//
// The Go twins in that package (tileGo, dotGo, …) say what each kernel computes
// and in which order; kernels.md has the reasons for layouts and tile shapes.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	file := flag.String("dispatch", "", "where to write the Go file that chooses among the kernels")
	ConstraintExpr("amd64,!purego")
	constants()
	for _, f := range families {
		for _, T := range f.tileT(avx512) {
			tile512(f, T)
		}
		for _, streams := range rowStreams {
			oneRow(avx2, f, false, streams)
			oneRow(avx512, f, false, streams)
			oneRow(avx512, f, true, streams)
		}
		if f.pairs() {
			for _, T := range pairT {
				pair512(f, T, false)
			}
			for _, T := range fineT {
				pair512(f, T, true)
			}
		}
		for _, T := range f.tileT(avx2) {
			tile256(f, T)
		}
	}
	for _, isa := range []isa{avx2, avx512} {
		quantise(isa)
		residual(isa)
		for _, f := range []string{"BF16", "F16", "F32"} {
			for T := 1; T <= isa.dotT; T++ {
				dots(isa, f, T)
			}
		}
		dots(isa, "E4M3", 1) // for what is left of scores
		for _, f := range []string{"BF16", "F32", "E4M3"} {
			for T := 1; T <= isa.headT; T++ {
				scores(isa, f, T)
			}
			for heads := 1; heads <= weighHeads; heads++ {
				weigh(isa, f, heads)
			}
		}
		scaleMul(isa)
		mulAdd(isa)
		times(isa)
		rotate(isa)
		expSum(isa)
		swiglu(isa)
		toBF16(isa)
		maxBits(isa)
		largest(isa)
		toE4M3(isa)
		peak(isa, "Int8")
		peak(isa, "F32")
	}
	bf16All()
	roundPairs()
	for _, shape := range []string{"Short", "Tall", "Many"} {
		amxBF16(shape)
	}
	packKeys()
	packValues()
	asBF16()
	keysAMX()
	for heads := 1; heads <= weighHeads; heads++ {
		weighRows(heads)
	}
	for queries := 1; queries <= pairedKeys; queries++ {
		keysPairs(queries)
	}
	order := [2]Mem{quads("weighPairsFirst", 0, 1, 8, 9, 2, 3, 10, 11), quads("weighPairsSecond", 4, 5, 12, 13, 6, 7, 14, 15)}
	for heads := 1; heads <= weighHeads; heads++ {
		weighPairs(heads, order)
	}
	peak(avx512, "BF16")
	peakAMX()
	weights()
	pause()
	vendor()
	prefetch()
	Generate()
	if err := encode(flag.Lookup("out").Value.String()); err != nil {
		log.Fatal(err)
	}
	if err := dispatch(*file); err != nil {
		log.Fatal(err)
	}
}

// weighHeads is the most heads of a weigh kernel.
const weighHeads = 4

// An isa is what the elementwise kernels need to know of an instruction set.
type isa struct {
	name  string
	is    string // the condition on a level l
	size  int    // bytes of a register
	vec   func() reg.VecVirtual
	dotR  int // weight rows and …
	dotT  int // … most activation rows of a dots kernel
	headT int // most heads of a scores kernel
}

var (
	avx2   = isa{name: "AVX2", is: "l == AVX2", size: 32, vec: YMM, dotR: 2, dotT: 3, headT: 3}
	avx512 = isa{name: "AVX512", is: "l.wide()", size: 64, vec: ZMM, dotR: 4, dotT: 6, headT: 4}
)

// lanes is the number of float32 sums in the reductions of both sets; AVX2 holds
// them in two registers.
const lanes = 16

// regs returns the registers of one set of lanes.
func (i isa) regs() []reg.VecVirtual {
	v := make([]reg.VecVirtual, lanes*4/i.size)
	for k := range v {
		v[k] = i.vec()
	}
	return v
}

func (i isa) zeroed() []reg.VecVirtual {
	v := i.regs()
	for _, r := range v {
		VXORPS(r, r, r)
	}
	return v
}

// function begins a kernel.
func function(name, signature, doc string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + " " + doc)
}

func param(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// broadcast loads a float32 parameter into every lane of v.
func broadcast(name string, v reg.VecVirtual) reg.VecVirtual {
	p, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(p.Addr, v)
	return v
}

func end() {
	VZEROUPPER()
	RET()
}

// reduce sums the lanes of up to four registers of partial sums, as reduce in Go
// does: halves[i] holds lanes l+(l+8). The sums land in the low lanes of an XMM.
func (i isa) reduce(halves []reg.VecVirtual) reg.VecVirtual {
	pair := func(a, b reg.VecVirtual) reg.VecVirtual { // VHADDPS cannot name registers from 16 on
		even, odd := YMM(), YMM()
		VSHUFPS(Imm(0x88), b, a, even)
		VSHUFPS(Imm(0xdd), b, a, odd)
		VADDPS(odd, even, even)
		return even
	}
	at := func(i int) reg.VecVirtual { return halves[min(i, len(halves)-1)] }
	a := pair(at(0), at(1))
	b := a
	if len(halves) > 2 {
		b = pair(at(2), at(3))
	}
	s := pair(a, b)
	h := XMM()
	if i.size == 64 {
		VEXTRACTF32X4(Imm(1), s, h)
	} else {
		VEXTRACTF128(Imm(1), s, h)
	}
	VADDPS(h, s.AsX(), s.AsX())
	return s
}

// halve folds one set of lanes to eight.
func (i isa) halve(v []reg.VecVirtual) reg.VecVirtual {
	h := YMM()
	if i.size == 32 {
		VADDPS(v[1], v[0], h)
		return h
	}
	VEXTRACTF64X4(Imm(1), v[0], h)
	VADDPS(h, v[0].AsY(), h)
	return h
}

// float loads elements of a row of type f at m as float32.
func float(isa isa, f string, m Mem, v reg.VecVirtual) {
	switch f {
	case "BF16":
		VPMOVZXWD(m, v)
		VPSLLD(Imm(16), v, v)
	case "F16":
		VCVTPH2PS(m, v)
	case "E4M3":
		e4m3(isa, m, v)
	default:
		VMOVUPS(m, v)
	}
}

// e4m3 loads codes as halves, which is 1/256 of their values. The sign comes with a
// copy in bit 14. Adding a unit of the last place flips bit 14 for NaN alone: the
// exclusive or of the two leaves 0 there, and for NaN 1, a half's NaN.
func e4m3(isa isa, m Mem, v reg.VecVirtual) {
	if isa.size == 64 {
		h, n := YMM(), YMM()
		VPMOVSXBW(m, h)
		VPSLLW(Imm(7), h, h)
		VPADDW(e4m3Unit, h, n)
		VPTERNLOGD(Imm(0x78), e4m3Copy, n, h) // h ^ n & copy
		VCVTPH2PS(h, v)
		return
	}
	h, n := XMM(), XMM()
	VPMOVSXBW(m, h)
	VPSLLW(Imm(7), h, h)
	VPADDW(e4m3Unit, h, n)
	VPAND(e4m3Copy, n, n)
	VPXOR(n, h, h)
	VCVTPH2PS(h, v)
}

func elementSize(f string) int {
	switch f {
	case "F32":
		return 4
	case "E4M3":
		return 1
	}
	return 2
}

var (
	lutFP4, lutNibble, lowNibbles, ones16        Mem
	minE8M0, magicE8M0                           Mem
	absMask, signBits, tiny, minus127, packOrder Mem
	evens, odds, e4m3Unit, e4m3Copy              Mem
	highHalf, flushing                           Mem
)

func constants() {
	lutFP4 = table("lutFP4", 12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0)
	lutNibble = table("lutNibble", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	lowNibbles = repeat("lowNibbles", 0x0f0f0f0f)
	ones16 = repeat("ones16", 0x00010001)
	minE8M0 = repeat("minE8M0", 0x00400000)             // 2^-127, the value of exponent 0
	magicE8M0 = repeat("magicE8M0", 0x4b400000-127<<23) // plus exponent<<23: the bits of 3·2^(exponent-127+22)
	absMask = repeat("absMask", 0x7fffffff)
	tiny = repeat("tiny", math.Float32bits(1e-30))
	minus127 = repeat("minus127", 0xffffff81)
	signBits = repeat("signBits", 0x80808080)
	e4m3Unit = repeat("e4m3Unit", 0x00800080)
	e4m3Copy = repeat("e4m3Copy", 0x40004000)
	highHalf = GLOBL("highHalf", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(0xffff0000))
	}
	flushing = words("flushing", 0x9fc0) // MXCSR: no exceptions, to nearest, denormals are 0
	packOrder = words("packOrder", 0, 4, 1, 5, 2, 6, 3, 7)
	evens = words("evens", 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
	odds = words("odds", 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
}

// table makes a table of 16 bytes, twice for AVX2.
func table(name string, v ...byte) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 32 {
		DATA(i, U8(v[i%len(v)]))
	}
	return m
}

// repeat makes a constant of eight equal words.
func repeat(name string, v uint32) Mem { return words(name, v, v, v, v, v, v, v, v) }

func words(name string, v ...uint32) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i, w := range v {
		DATA(4*i, U32(w))
	}
	return m
}

// constant makes a float32; avo would print F32(1) as the integer 1.
func constant(name string, v float64) Mem { return repeat(name, math.Float32bits(float32(v))) }

func pause() {
	function("pause", "func()", "tells the core that its thread is waiting in a loop.")
	PAUSE()
	RET()
}

func vendor() {
	function("vendor", "func() uint32", "returns the first four letters of the name of the processor's maker.")
	XORL(reg.EAX, reg.EAX)
	XORL(reg.ECX, reg.ECX)
	CPUID()
	Store(reg.EBX, ReturnIndex(0))
	RET()
}

// peak writes a loop of multiply-adds on twelve registers, enough to hide their
// latency: what no kernel can beat. AVX2 has no single instruction for int8; its
// sums here are of 16 bits.
func peak(isa isa, kind string) {
	function("peak"+kind+isa.name, "func(n int)", "runs n times twelve multiply-adds within registers.")
	n, x := param("n"), isa.vec()
	VXORPS(x, x, x)
	acc := make([]reg.VecVirtual, 12)
	for i := range acc {
		acc[i] = isa.vec()
		VXORPS(acc[i], acc[i], acc[i])
	}
	Label("loop")
	for _, r := range acc {
		switch {
		case kind == "F32":
			VFMADD231PS(x, x, r)
		case kind == "BF16":
			bf16Pairs(x, x, r)
		case isa.size == 64:
			dot(x, x, r)
		default:
			part := isa.vec()
			VPMADDUBSW(x, x, part)
			VPADDW(part, r, r)
		}
	}
	DECQ(n)
	JNZ(LabelRef("loop"))
	end()
}

func prefetch() {
	function("prefetch", "func(p *byte, lines int)", "asks for lines of 64 bytes, one or more.")
	p, n := param("p"), param("lines")
	Label("loop")
	PREFETCHT0(Mem{Base: p})
	ADDQ(Imm(64), p)
	DECQ(n)
	JNZ(LabelRef("loop"))
	RET()
}

func label(format string, a ...any) string { return fmt.Sprintf(format, a...) }
