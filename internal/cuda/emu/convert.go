package emu

import (
	"math"
	"strings"
)

// This file is cvt. Every conversion goes through the exact value of its source: an integer, or a
// float64, which holds all floating types.

// A number is the value of a source.
type number struct {
	float  bool
	x      float64
	i      uint64 // an integer, of 64 bits with its sign
	signed bool
}

// reader returns how a type is read from the bits of a register.
func reader(t string) func(v uint64) number {
	size := typeBits(t)
	switch t {
	case "f16", "bf16":
		kind := float16s[t]
		return func(v uint64) number { return number{float: true, x: kind.read(uint32(v) & 0xffff)} }
	case "f32":
		return func(v uint64) number { return number{float: true, x: float64(f32(uint32(v)))} }
	case "f64":
		return func(v uint64) number { return number{float: true, x: f64(v)} }
	case "s8", "s16", "s32", "s64":
		return func(v uint64) number { return number{i: uint64(int64(v<<(64-size)) >> (64 - size)), signed: true} }
	case "u8", "u16", "u32", "u64":
		return func(v uint64) number { return number{i: v & (^uint64(0) >> (64 - size))} }
	}
	return nil
}

// A conversion holds the modifiers of a cvt.
type conversion struct {
	from, to  string
	rounding  string
	ftz, sat  bool
	relu      bool
	sourceF64 bool
}

// cvt decodes a conversion.
func (p *parser) cvt() {
	var c conversion
	c.from = p.last()
	c.to = p.last()
	c.rounding = p.one("rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi")
	c.ftz, c.sat, c.relu = p.has("ftz"), p.has("sat"), p.has("relu")
	if strings.HasSuffix(c.to, "x2") {
		p.convertPair(c)
		return
	}
	p.want(2, 2)
	if typeBits(c.from) < 8 || typeBits(c.to) < 8 {
		p.fail("conversion %s is not known", p.in.text)
	}
	read, write := reader(c.from), c.writer()
	if read == nil || write == nil {
		p.fail("conversion %s is not known", p.in.text)
	}
	fromBits, toBits := typeBits(c.from), typeBits(c.to)
	x, to := p.wide(p.args[1], fromBits), p.dstWide(p.args[0], toBits)
	p.in.kind, p.in.dst = pure32, to.n
	if to.bits == 64 {
		p.in.kind = pure64
	}
	get, put := p.get(x.bits), p.put(to.bits)
	signed := c.to[0] == 's' && to.bits > toBits
	p.in.run = func(w *warp, _ uint32) {
		for lane := range 32 {
			v := write(read(get(w, x.n, lane)))
			if signed {
				v = uint64(int64(v<<(64-toBits)) >> (64 - toBits))
			}
			put(w, to.n, lane, v)
		}
	}
	p.fastConvert(&c, x, to)
}

// fastConvert replaces the closures of the most frequent conversions.
func (p *parser) fastConvert(c *conversion, x, to reg) {
	if c.sat || c.ftz || c.relu {
		return
	}
	d, s := to.n, x.n
	switch c.to + "<" + c.from {
	case "s64<s32":
		p.in.run = func(w *warp, _ uint32) {
			D, X := &w.d[d], &w.r[s]
			for i := range D {
				D[i] = uint64(int64(int32(X[i])))
			}
		}
	case "u64<u32", "s64<u32":
		if x.bits == 32 {
			p.in.run = func(w *warp, _ uint32) {
				D, X := &w.d[d], &w.r[s]
				for i := range D {
					D[i] = uint64(X[i])
				}
			}
		}
	case "u32<u64", "u32<s64", "s32<s64":
		if to.bits == 32 {
			p.in.run = func(w *warp, _ uint32) {
				D, X := &w.r[d], &w.d[s]
				for i := range D {
					D[i] = uint32(X[i])
				}
			}
		}
	case "bf16<f32":
		if c.rounding == "rn" && to.bits == 16 {
			p.lanes1(s, func(a uint32) uint32 { return toBF16(f32(a)) })
		}
	}
}

// convertPair rounds two float32 to a pair of 16 bits; the first operand goes to the upper half.
func (p *parser) convertPair(c conversion) {
	c.to = strings.TrimSuffix(c.to, "x2")
	write := c.writer()
	if c.from != "f32" || write == nil || typeBits(c.to) != 16 || (c.rounding != "rn" && c.rounding != "rz") {
		p.fail("conversion %s is not known", p.in.text)
	}
	p.want(3, 3)
	p.result(32)
	read := reader("f32")
	plain := c.to == "bf16" && c.rounding == "rn" && !c.relu && !c.sat
	p.lanes2(p.src(p.args[1], 32), p.src(p.args[2], 32), func(a, b uint32) uint32 {
		if plain {
			return toBF16(f32(a))<<16 | toBF16(f32(b))
		}
		return uint32(write(read(uint64(a)))<<16 | write(read(uint64(b))))
	})
}

// writer returns how a value becomes the destination's bits; nil where there is no such conversion.
func (c *conversion) writer() func(n number) uint64 {
	size := typeBits(c.to)
	fromFloat := c.from[0] == 'f' || c.from[0] == 'b'
	switch c.to {
	case "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64":
		signed := c.to[0] == 's'
		if fromFloat {
			round := rounders[c.rounding]
			if round == nil || !strings.HasSuffix(c.rounding, "i") {
				return nil
			}
			c.sourceF64 = c.from == "f64"
			return func(n number) uint64 { return c.integer(round(c.flushed(n.x)), size, signed) }
		}
		return func(n number) uint64 {
			if c.sat {
				return clamp(n, size, signed)
			}
			return n.i & (^uint64(0) >> (64 - size))
		}
	case "f16", "bf16", "f32", "f64":
		if !c.possible(fromFloat) {
			return nil
		}
		return func(n number) uint64 { return c.floating(n) }
	}
	return nil
}

// possible says whether a rounding fits a conversion to a floating type.
func (c *conversion) possible(fromFloat bool) bool {
	from, to := typeBits(c.from), typeBits(c.to)
	switch {
	case strings.HasSuffix(c.rounding, "i"):
		return c.from == c.to && to >= 32
	case !fromFloat:
		return c.rounding == "rn" || ((c.rounding == "rz" || c.rounding == "rm" || c.rounding == "rp") && to == 32 && from <= 32)
	case to < from:
		return c.rounding == "rn" || (c.rounding != "" && (c.to == "f32" || c.rounding == "rz"))
	case c.from == c.to || to > from:
		return c.rounding == ""
	}
	return false
}

// rounders round to an integer.
var rounders = map[string]func(x float64) float64{"rni": math.RoundToEven, "rzi": math.Trunc, "rmi": math.Floor, "rpi": math.Ceil}

// flushed applies ftz to a float32 source.
func (c *conversion) flushed(x float64) float64 {
	if c.ftz && c.from == "f32" && math.Abs(x) < 0x1p-126 {
		return math.Copysign(0, x)
	}
	return x
}

// integer clamps a whole number to an integer type. NaN becomes 0, or, where 64 bits are involved,
// the value with the top bit alone.
func (c *conversion) integer(x float64, size int, signed bool) uint64 {
	mask := ^uint64(0) >> (64 - size)
	if x != x {
		if c.sourceF64 || size == 64 {
			return 1 << (size - 1)
		}
		return 0
	}
	if !signed {
		switch {
		case x <= 0:
			return 0
		case x >= math.Ldexp(1, size):
			return mask
		}
		return uint64(x)
	}
	switch limit := math.Ldexp(1, size-1); {
	case x < -limit:
		return 1 << (size - 1)
	case x >= limit:
		return mask >> 1
	}
	return uint64(int64(x)) & mask
}

// clamp limits an integer to the range of another type.
func clamp(n number, size int, signed bool) uint64 {
	mask := ^uint64(0) >> (64 - size)
	most, least := mask, int64(0)
	if signed {
		most, least = mask>>1, -1<<(size-1)
	}
	if n.signed && int64(n.i) < 0 {
		return uint64(max(int64(n.i), least)) & mask
	}
	return min(n.i, most)
}

// floating makes bits of a floating type.
func (c *conversion) floating(n number) uint64 {
	x := n.x
	switch {
	case !n.float && c.to == "f64":
		if n.signed {
			return bits64(float64(int64(n.i)))
		}
		return bits64(float64(n.i))
	case !n.float && c.rounding == "rn" && c.to == "f32" && n.signed:
		return uint64(bits32(float32(int64(n.i))))
	case !n.float && c.rounding == "rn" && c.to == "f32":
		return uint64(bits32(float32(n.i)))
	case !n.float && n.signed:
		x = oddSum(float64(int64(n.i)>>32)*(1<<32), float64(n.i&0xffff_ffff))
	case !n.float:
		x = oddSum(float64(n.i>>32)*(1<<32), float64(n.i&0xffff_ffff))
	}
	x = c.flushed(x)
	if round := rounders[c.rounding]; round != nil && x == x {
		x = math.Copysign(round(x), x)
	}
	if x == x && (c.sat || c.relu) {
		if x = max(x, 0); c.sat {
			x = min(x, 1)
		}
	} else if c.sat {
		x = 0
	}
	switch c.to {
	case "f64":
		return bits64(x)
	case "f32":
		return uint64(c.narrow32(x))
	}
	if c.rounding == "rz" {
		return uint64(truncated(x, c.to))
	}
	return uint64(float16s[c.to].make(x))
}

// narrow32 rounds to float32 as the conversion says.
func (c *conversion) narrow32(x float64) uint32 {
	v := bits32(float32(x))
	if (c.rounding == "rz" || c.rounding == "rm" || c.rounding == "rp") && x == x {
		v = bits32(directed(x, c.rounding))
	}
	if c.ftz {
		v = flush(v)
	}
	return v
}

// truncated rounds to 16 bits towards zero.
func truncated(x float64, to string) uint32 {
	kind := float16s[to]
	v := kind.make(x)
	if math.Abs(kind.read(v)) > math.Abs(x) {
		v--
	}
	return v
}
