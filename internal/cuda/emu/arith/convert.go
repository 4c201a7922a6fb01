package arith

import (
	"math"
	"strings"
)

// TypeBits returns the size of a type; 0 where it is none.
func TypeBits(t string) int {
	switch t {
	case "b8", "u8", "s8", "e4m3", "e5m2":
		return 8
	case "b16", "u16", "s16", "f16", "bf16":
		return 16
	case "b32", "u32", "s32", "f32", "f16x2", "bf16x2":
		return 32
	case "b64", "u64", "s64", "f64":
		return 64
	case "pred":
		return 1
	}
	return 0
}

// A Number is the value of a source.
type Number struct {
	float  bool
	x      float64
	i      uint64 // an integer, of 64 bits with its sign
	signed bool
}

// Reader returns how a type is read from the bits of a register.
func Reader(t string) func(v uint64) Number {
	size := TypeBits(t)
	switch t {
	case "f16", "bf16":
		kind := Float16s[t]
		return func(v uint64) Number { return Number{float: true, x: kind.Read(uint32(v) & 0xffff)} }
	case "f32":
		return func(v uint64) Number { return Number{float: true, x: float64(F32(uint32(v)))} }
	case "f64":
		return func(v uint64) Number { return Number{float: true, x: F64(v)} }
	case "s8", "s16", "s32", "s64":
		return func(v uint64) Number { return Number{i: uint64(int64(v<<(64-size)) >> (64 - size)), signed: true} }
	case "u8", "u16", "u32", "u64":
		return func(v uint64) Number { return Number{i: v & (^uint64(0) >> (64 - size))} }
	}
	return nil
}

// A Conversion holds the modifiers of a cvt.
type Conversion struct {
	From, To  string // types
	Rounding  string
	FTZ, Sat  bool
	Relu      bool
	sourceF64 bool
}

// Writer returns how a value becomes the destination's bits; nil where there is no such Conversion.
func (c *Conversion) Writer() func(n Number) uint64 {
	size := TypeBits(c.To)
	fromFloat := c.From[0] == 'f' || c.From[0] == 'b'
	switch c.To {
	case "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64":
		signed := c.To[0] == 's'
		if fromFloat {
			round := rounders[c.Rounding]
			if round == nil || !strings.HasSuffix(c.Rounding, "i") {
				return nil
			}
			c.sourceF64 = c.From == "f64"
			return func(n Number) uint64 { return c.integer(round(c.flushed(n.x)), size, signed) }
		}
		return func(n Number) uint64 {
			if c.Sat {
				return clamp(n, size, signed)
			}
			return n.i & (^uint64(0) >> (64 - size))
		}
	case "f16", "bf16", "f32", "f64":
		if !c.possible(fromFloat) {
			return nil
		}
		return func(n Number) uint64 { return c.floating(n) }
	}
	return nil
}

// possible says whether a rounding fits a Conversion to a floating type.
func (c *Conversion) possible(fromFloat bool) bool {
	from, to := TypeBits(c.From), TypeBits(c.To)
	switch {
	case strings.HasSuffix(c.Rounding, "i"):
		return c.From == c.To && to >= 32
	case !fromFloat:
		return c.Rounding == "rn" || ((c.Rounding == "rz" || c.Rounding == "rm" || c.Rounding == "rp") && to == 32 && from <= 32)
	case to < from:
		return c.Rounding == "rn" || (c.Rounding != "" && (c.To == "f32" || c.Rounding == "rz"))
	case c.From == c.To || to > from:
		return c.Rounding == ""
	}
	return false
}

// rounders round to an integer.
var rounders = map[string]func(x float64) float64{"rni": math.RoundToEven, "rzi": math.Trunc, "rmi": math.Floor, "rpi": math.Ceil}

// flushed applies ftz to a float32 source.
func (c *Conversion) flushed(x float64) float64 {
	if c.FTZ && c.From == "f32" && math.Abs(x) < 0x1p-126 {
		return math.Copysign(0, x)
	}
	return x
}

// integer clamps a whole number to an integer type. NaN becomes 0, or, where 64 bits are involved,
// the value with the top bit alone.
func (c *Conversion) integer(x float64, size int, signed bool) uint64 {
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
func clamp(n Number, size int, signed bool) uint64 {
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
func (c *Conversion) floating(n Number) uint64 {
	x := n.x
	switch {
	case !n.float && c.To == "f64":
		if n.signed {
			return Bits64(float64(int64(n.i)))
		}
		return Bits64(float64(n.i))
	case !n.float && c.Rounding == "rn" && c.To == "f32" && n.signed:
		return uint64(Bits32(float32(int64(n.i))))
	case !n.float && c.Rounding == "rn" && c.To == "f32":
		return uint64(Bits32(float32(n.i)))
	case !n.float && n.signed:
		x = OddSum(float64(int64(n.i)>>32)*(1<<32), float64(n.i&0xffff_ffff))
	case !n.float:
		x = OddSum(float64(n.i>>32)*(1<<32), float64(n.i&0xffff_ffff))
	}
	x = c.flushed(x)
	if round := rounders[c.Rounding]; round != nil && x == x {
		x = math.Copysign(round(x), x)
	}
	if x == x && (c.Sat || c.Relu) {
		if x = max(x, 0); c.Sat {
			x = min(x, 1)
		}
	} else if c.Sat {
		x = 0
	}
	switch {
	case x != x && c.From == "f64" && (c.To == "f32" || c.To == "f64"):
		return c.nan64(math.Float64bits(x))
	case c.To == "f64":
		return Bits64(x)
	case c.To == "f32":
		return uint64(c.narrow32(x))
	}
	if c.Rounding == "rz" {
		return uint64(truncated(x, c.To))
	}
	return uint64(Float16s[c.To].Make(x))
}

// nan64 converts NaN of 64 bits, of which an H100 keeps the sign and what fits of the rest.
func (c *Conversion) nan64(bits uint64) uint64 {
	if c.To == "f64" {
		return bits | 1<<51
	}
	return bits>>63<<31 | 0x7fc0_0000 | bits>>29&0x7f_ffff
}

// narrow32 rounds to float32 as the Conversion says.
func (c *Conversion) narrow32(x float64) uint32 {
	v := Bits32(float32(x))
	if (c.Rounding == "rz" || c.Rounding == "rm" || c.Rounding == "rp") && x == x {
		v = Bits32(Directed(x, c.Rounding))
	}
	if c.FTZ {
		v = Flush(v)
	}
	return v
}

// truncated rounds to 16 bits towards zero.
func truncated(x float64, to string) uint32 {
	kind := Float16s[to]
	v := kind.Make(x)
	if math.Abs(kind.Read(v)) > math.Abs(x) {
		v--
	}
	return v
}
