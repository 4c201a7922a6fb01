package main

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// A gp is a general register.
type gp int

// An assembler writes the kernels as text of Go's assembler, and the Go declarations for
// them. Registers are handed out and given back by hand; running out of them is a panic, never a
// spill. One function is under way at a time.
type assembler struct {
	code, stubs bytes.Buffer
	tables      map[string][16]byte

	vecs   []vec // free
	gps    []gp
	params map[string]param // of the function under way
	labels int
}

type param struct {
	offset int
	kind   string
}

// parameters finds names and types in a signature as "func(w, s *byte, nb int)".
var parameters = regexp.MustCompile(`^func\((.*?)\)( \w+)?$`)

// function begins a kernel. Its parameters lie in the frame as Go's stack ABI has them.
func (a *assembler) function(name, signature, doc string) {
	match := parameters.FindStringSubmatch(signature)
	a.params = map[string]param{}
	offset := 0
	place := func(name, kind string) {
		size := 8
		switch kind {
		case "float32", "uint32":
			size = 4
		case "Level":
			size = 1
		}
		offset = (offset + size - 1) / size * size
		a.params[name] = param{offset, kind}
		offset += size
	}
	var waiting []string // names whose type follows
	for field := range strings.SplitSeq(match[1], ", ") {
		name, kind, typed := strings.Cut(field, " ")
		waiting = append(waiting, name)
		if typed {
			for _, w := range waiting {
				place(w, kind)
			}
			waiting = nil
		}
	}
	if result := strings.TrimSpace(match[2]); result != "" {
		offset = (offset + 7) &^ 7
		place("ret", result)
	}
	a.vecs, a.gps, a.labels = nil, nil, 0
	for v := range vec(32) {
		a.vecs = append(a.vecs, v)
	}
	for r := range gp(26) {
		if r != 18 { // the platform's; from 26 on the linker's, the assembler's, Go's
			a.gps = append(a.gps, r)
		}
	}
	fmt.Fprintf(&a.stubs, "\n// %s %s\n//\n//go:noescape\nfunc %s%s\n", name, doc, name, strings.TrimPrefix(signature, "func"))
	fmt.Fprintf(&a.code, "\n// func %s%s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", name, strings.TrimPrefix(signature, "func"), name, offset)
}

// line writes an instruction that Go's assembler knows.
func (a *assembler) line(format string, args ...any) {
	fmt.Fprintf(&a.code, "\t"+format+"\n", args...)
}

func (a *assembler) ret() { a.line("RET") }

// vec takes a free vector register.
func (a *assembler) vec() vec {
	v := a.vecs[0]
	a.vecs = a.vecs[1:]
	return v
}

// take takes n of them.
func (a *assembler) take(n int) (v []vec) {
	for range n {
		v = append(v, a.vec())
	}
	return v
}

// free gives vector registers back.
func (a *assembler) free(v ...vec) {
	a.vecs = append(a.vecs, v...)
	slices.Sort(a.vecs)
}

// gp takes a free general register.
func (a *assembler) gp() gp {
	r := a.gps[0]
	a.gps = a.gps[1:]
	return r
}

func (a *assembler) freeGP(r ...gp) {
	a.gps = append(a.gps, r...)
	slices.Sort(a.gps)
}

// param loads a pointer or an integer.
func (a *assembler) param(name string) gp {
	r := a.gp()
	a.line("MOVD %s+%d(FP), R%d", name, a.params[name].offset, r)
	return r
}

// paramLanes loads a float32 into every lane.
func (a *assembler) paramLanes(name string) vec {
	v := a.vec()
	a.line("FMOVS %s+%d(FP), F%d", name, a.params[name].offset, v)
	a.line("VDUP V%d.S[0], V%d.S4", v, v)
	return v
}

// result stores the low 32 bits of v as the result.
func (a *assembler) result(v vec) { a.line("FMOVS F%d, ret+%d(FP)", v, a.params["ret"].offset) }

// label begins a loop and returns its name.
func (a *assembler) label() string {
	a.labels++
	name := fmt.Sprintf("loop%d", a.labels)
	fmt.Fprintf(&a.code, "%s:\n", name)
	return name
}

// again jumps to a label unless r, counted down by step, is 0.
func (a *assembler) again(label string, r gp, step int) {
	a.line("SUBS $%d, R%d, R%d", step, r, r)
	a.line("BNE %s", label)
}

// add adds a constant, or a register, to r.
func (a *assembler) add(r gp, n int)   { a.line("ADD $%d, R%d, R%d", n, r, r) }
func (a *assembler) addReg(r, by gp)   { a.line("ADD R%d, R%d, R%d", by, r, r) }
func (a *assembler) copyTo(r, from gp) { a.line("MOVD R%d, R%d", from, r) }

// load loads 4, 8 or 16 bytes from r + offset; a store is the same the other way.
func (a *assembler) load(v vec, bytes int, r gp, offset int) {
	a.line("%s %d(R%d), F%d", moves[bytes], offset, r, v)
}

func (a *assembler) store(v vec, bytes int, r gp, offset int) {
	a.line("%s F%d, %d(R%d)", moves[bytes], v, offset, r)
}

var moves = map[int]string{4: "FMOVS", 8: "FMOVD", 16: "FMOVQ"}

// prefetch asks for the line at r + offset.
func (a *assembler) prefetch(r gp, offset int) { a.line("PRFM %d(R%d), PLDL1KEEP", offset, r) }

// op writes an instruction of the table with one source or two; lane one by a lane.
func (a *assembler) op(name string, d vec, sources ...vec) {
	word, text := encode(name, d, sources[0], sources[len(sources)-1])
	if one := instructions[name].m == ""; one != (len(sources) == 1) {
		panic("sources of " + name)
	}
	a.raw(word, text)
}

func (a *assembler) lane(name string, d, n, m vec, lane int) {
	word, text := encodeLane(name, d, n, m, lane)
	a.raw(word, text)
}

// half writes an instruction whose second source is a 16-bit lane of one of the first 16
// registers.
func (a *assembler) half(name string, d, n, m vec, lane int) {
	word, text := encodeHalf(name, d, n, m, lane)
	a.raw(word, text)
}

func (a *assembler) raw(word uint32, text string) { a.line("WORD $0x%08x // %s", word, text) }

// fmla adds n·m to d.
func (a *assembler) fmla(d, n, m vec) { a.line("VFMLA V%d.S4, V%d.S4, V%d.S4", m, n, d) }

// fmls subtracts n·m from d.
func (a *assembler) fmls(d, n, m vec) { a.line("VFMLS V%d.S4, V%d.S4, V%d.S4", m, n, d) }

// three writes an instruction that Go's assembler knows, with an arrangement for all.
func (a *assembler) three(name, arrangement string, d, n, m vec) {
	a.line("%s V%d.%s, V%d.%s, V%d.%s", name, m, arrangement, n, arrangement, d, arrangement)
}

func (a *assembler) zero(v vec)         { a.three("VEOR", "B16", v, v, v) }
func (a *assembler) and(d, n, m vec)    { a.three("VAND", "B16", d, n, m) }
func (a *assembler) or(d, n, m vec)     { a.three("VORR", "B16", d, n, m) }
func (a *assembler) eor(d, n, m vec)    { a.three("VEOR", "B16", d, n, m) }
func (a *assembler) move(d, n vec)      { a.three("VORR", "B16", d, n, n) }
func (a *assembler) addInt(d, n, m vec) { a.three("VADD", "S4", d, n, m) }
func (a *assembler) subInt(d, n, m vec) { a.three("VSUB", "S4", d, n, m) }

// zip1 and zip2 interleave the low, the high halves of n and m.
func (a *assembler) zip1(arrangement string, d, n, m vec) { a.three("VZIP1", arrangement, d, n, m) }
func (a *assembler) zip2(arrangement string, d, n, m vec) { a.three("VZIP2", arrangement, d, n, m) }

// even and odd take every other element of n and then of m.
func (a *assembler) even(arrangement string, d, n, m vec) { a.three("VUZP1", arrangement, d, n, m) }
func (a *assembler) odd(arrangement string, d, n, m vec)  { a.three("VUZP2", arrangement, d, n, m) }

// shl and shr shift each element by a constant, zeros coming in.
func (a *assembler) shl(arrangement string, d, n vec, by int) {
	a.line("VSHL $%d, V%d.%s, V%d.%s", by, n, arrangement, d, arrangement)
}

func (a *assembler) shr(arrangement string, d, n vec, by int) {
	a.line("VUSHR $%d, V%d.%s, V%d.%s", by, n, arrangement, d, arrangement)
}

// dup puts a lane of n into every one.
func (a *assembler) dup(d, n vec, lane int) { a.line("VDUP V%d.S[%d], V%d.S4", n, lane, d) }

// lookup looks each byte of n up in a table of 16.
func (a *assembler) lookup(d, table, n vec) {
	a.line("VTBL V%d.B16, [V%d.B16], V%d.B16", n, table, d)
}

// bytes makes 16 equal bytes.
func (a *assembler) bytes(v vec, b byte) { a.line("VMOVI $%d, V%d.B16", b, v) }

// word32 makes four equal words.
func (a *assembler) word32(v vec, w uint32) {
	r := a.gp()
	a.line("MOVD $0x%08x, R%d", w, r)
	a.line("VDUP R%d, V%d.S4", r, v)
	a.freeGP(r)
}

// number makes four equal float32.
func (a *assembler) number(v vec, x float64) { a.word32(v, math.Float32bits(float32(x))) }

// table loads 16 constant bytes.
func (a *assembler) table(v vec, name string, b [16]byte) {
	r := a.gp()
	a.line("MOVD $%s<>(SB), R%d", name, r)
	a.line("FMOVQ (R%d), F%d", r, v)
	a.freeGP(r)
	a.tables[name] = b
}
