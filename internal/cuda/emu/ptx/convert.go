package ptx

import (
	"strings"

	"ossian/internal/cuda/emu/arith"
	"ossian/internal/cuda/emu/exec"
)

// This file is cvt. Every conversion goes through the exact value of its source: an integer, or a
// float64, which holds all floating types.

// cvt decodes a conversion.
func (p *parser) cvt() {
	var c arith.Conversion
	c.From = p.last()
	c.To = p.last()
	c.Rounding = p.one("rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi")
	c.FTZ, c.Sat, c.Relu = p.has("ftz"), p.has("sat"), p.has("relu")
	if arith.TypeBits(c.From) < 8 || arith.TypeBits(strings.TrimSuffix(c.To, "x2")) < 8 {
		p.fail("conversion %s is not known", p.in.Text)
	}
	if strings.HasSuffix(c.To, "x2") {
		p.convertPair(c)
		return
	}
	p.want(2, 2)
	read, write := arith.Reader(c.From), c.Writer()
	if read == nil || write == nil {
		p.fail("conversion %s is not known", p.in.Text)
	}
	fromBits, toBits := arith.TypeBits(c.From), arith.TypeBits(c.To)
	x, to := p.wide(p.args[1], fromBits), p.dstWide(p.args[0], toBits)
	p.in.Kind, p.in.Dst = exec.Pure32, to.n
	if to.bits == 64 {
		p.in.Kind = exec.Pure64
	}
	get, put := p.get(x.bits), p.put(to.bits)
	signed := c.To[0] == 's' && to.bits > toBits
	p.in.Run = func(w *exec.Warp, _ uint32) {
		var last, v uint64
		for lane := range 32 {
			if from := get(w, x.n, lane); lane == 0 || from != last { // lanes often have the same
				last, v = from, write(read(from))
				if signed {
					v = uint64(int64(v<<(64-toBits)) >> (64 - toBits))
				}
			}
			put(w, to.n, lane, v)
		}
	}
	p.fastConvert(&c, x, to)
}

// fastConvert replaces the closures of the most frequent conversions.
func (p *parser) fastConvert(c *arith.Conversion, x, to reg) {
	if c.Sat || c.FTZ || c.Relu {
		return
	}
	d, s := to.n, x.n
	switch c.To + "<" + c.From {
	case "s64<s32":
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X := &w.D[d], &w.R[s]
			for i := range D {
				D[i] = uint64(int64(int32(X[i])))
			}
		}
	case "u64<u32", "s64<u32":
		if x.bits == 32 {
			p.in.Run = func(w *exec.Warp, _ uint32) {
				D, X := &w.D[d], &w.R[s]
				for i := range D {
					D[i] = uint64(X[i])
				}
			}
		}
	case "u32<u64", "u32<s64", "s32<s64":
		if to.bits == 32 {
			p.in.Run = func(w *exec.Warp, _ uint32) {
				D, X := &w.R[d], &w.D[s]
				for i := range D {
					D[i] = uint32(X[i])
				}
			}
		}
	case "bf16<f32":
		if c.Rounding == "rn" && to.bits == 16 {
			p.lanes1(s, func(a uint32) uint32 { return arith.ToBF16(arith.F32(a)) })
		}
	}
}

// convertPair rounds two float32 to a pair of 16 bits; the first operand goes to the upper half.
func (p *parser) convertPair(c arith.Conversion) {
	c.To = strings.TrimSuffix(c.To, "x2")
	write := c.Writer()
	if c.From != "f32" || write == nil || arith.TypeBits(c.To) != 16 || (c.Rounding != "rn" && c.Rounding != "rz") {
		p.fail("conversion %s is not known", p.in.Text)
	}
	p.want(3, 3)
	p.result(32)
	read := arith.Reader("f32")
	plain := c.To == "bf16" && c.Rounding == "rn" && !c.Relu && !c.Sat
	p.lanes2(p.src(p.args[1], 32), p.src(p.args[2], 32), func(a, b uint32) uint32 {
		if plain {
			return arith.ToBF16(arith.F32(a))<<16 | arith.ToBF16(arith.F32(b))
		}
		return uint32(write(read(uint64(a)))<<16 | write(read(uint64(b))))
	})
}
