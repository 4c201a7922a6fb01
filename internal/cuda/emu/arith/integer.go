package arith

import "math/bits"

// Combine32 are operations of two 32-bit integers; types that do not matter are left out.
var Combine32 = map[string]func(a, b uint32) uint32{
	"add.u32": func(a, b uint32) uint32 { return a + b }, "add.s32": func(a, b uint32) uint32 { return a + b },
	"sub.u32": func(a, b uint32) uint32 { return a - b }, "sub.s32": func(a, b uint32) uint32 { return a - b },
	"mul.lo.u32": func(a, b uint32) uint32 { return a * b }, "mul.lo.s32": func(a, b uint32) uint32 { return a * b },
	"mul.hi.u32": func(a, b uint32) uint32 { return uint32(uint64(a) * uint64(b) >> 32) },
	"mul.hi.s32": func(a, b uint32) uint32 { return uint32(int64(int32(a)) * int64(int32(b)) >> 32) },
	"div.u32": func(a, b uint32) uint32 {
		if b == 0 { // unspecified by the standard; hardware gives this
			return ^uint32(0)
		}
		return a / b
	},
	"div.s32": func(a, b uint32) uint32 {
		if b == 0 {
			return ^uint32(0)
		}
		return uint32(int32(a) / int32(b))
	},
	"rem.u32": func(a, b uint32) uint32 {
		if b == 0 {
			return a
		}
		return a % b
	},
	"rem.s32": func(a, b uint32) uint32 {
		if b == 0 {
			return a
		}
		return uint32(int32(a) % int32(b))
	},
	"min.u32": func(a, b uint32) uint32 { return min(a, b) }, "min.s32": func(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) },
	"max.u32": func(a, b uint32) uint32 { return max(a, b) }, "max.s32": func(a, b uint32) uint32 { return uint32(max(int32(a), int32(b))) },
	"and.b32": func(a, b uint32) uint32 { return a & b }, "or.b32": func(a, b uint32) uint32 { return a | b }, "xor.b32": func(a, b uint32) uint32 { return a ^ b },
	"mul24.lo.u32": func(a, b uint32) uint32 { return a & 0xffffff * (b & 0xffffff) },
	"mul24.lo.s32": func(a, b uint32) uint32 { return uint32(int32(a) << 8 >> 8 * (int32(b) << 8 >> 8)) },
}

// Combine64 are operations of two 64-bit integers.
var Combine64 = map[string]func(a, b uint64) uint64{
	"add.u64": func(a, b uint64) uint64 { return a + b }, "add.s64": func(a, b uint64) uint64 { return a + b },
	"sub.u64": func(a, b uint64) uint64 { return a - b }, "sub.s64": func(a, b uint64) uint64 { return a - b },
	"mul.lo.u64": func(a, b uint64) uint64 { return a * b }, "mul.lo.s64": func(a, b uint64) uint64 { return a * b },
	"mul.hi.u64": func(a, b uint64) uint64 { hi, _ := bits.Mul64(a, b); return hi },
	"mul.hi.s64": func(a, b uint64) uint64 {
		hi, _ := bits.Mul64(a, b) // of the unsigned readings; each negative factor counts 2^64 too much
		return hi - uint64(int64(a)>>63)&b - uint64(int64(b)>>63)&a
	},
	"div.u64": func(a, b uint64) uint64 {
		if b == 0 {
			return ^uint64(0)
		}
		return a / b
	},
	"div.s64": func(a, b uint64) uint64 {
		if b == 0 {
			return ^uint64(0)
		}
		return uint64(int64(a) / int64(b))
	},
	"rem.u64": func(a, b uint64) uint64 {
		if b == 0 {
			return a
		}
		return a % b
	},
	"rem.s64": func(a, b uint64) uint64 {
		if b == 0 {
			return a
		}
		return uint64(int64(a) % int64(b))
	},
	"min.u64": func(a, b uint64) uint64 { return min(a, b) }, "min.s64": func(a, b uint64) uint64 { return uint64(min(int64(a), int64(b))) },
	"max.u64": func(a, b uint64) uint64 { return max(a, b) }, "max.s64": func(a, b uint64) uint64 { return uint64(max(int64(a), int64(b))) },
	"and.b64": func(a, b uint64) uint64 { return a & b }, "or.b64": func(a, b uint64) uint64 { return a | b }, "xor.b64": func(a, b uint64) uint64 { return a ^ b },
}

// Unary32 are operations of one 32-bit integer.
var Unary32 = map[string]func(a uint32) uint32{
	"abs.s32": func(a uint32) uint32 { return uint32(max(int32(a), -int32(a))) },
	"neg.s32": func(a uint32) uint32 { return -a }, "not.b32": func(a uint32) uint32 { return ^a },
	"cnot.b32": func(a uint32) uint32 {
		if a == 0 {
			return 1
		}
		return 0
	},
}

// Unary64 are operations of one 64-bit integer.
var Unary64 = map[string]func(a uint64) uint64{
	"abs.s64": func(a uint64) uint64 { return uint64(max(int64(a), -int64(a))) },
	"neg.s64": func(a uint64) uint64 { return -a }, "not.b64": func(a uint64) uint64 { return ^a },
}

// AddOrSubtract returns a ± b ± in in so many bits, with the carry or borrow.
func AddOrSubtract(subtract bool, size int, a, b, in uint64) (v, carry uint64) {
	switch {
	case size == 64 && subtract:
		return bits.Sub64(a, b, in)
	case size == 64:
		return bits.Add64(a, b, in)
	case subtract:
		v = a - b - in
		return v & 0xffff_ffff, v >> 63
	}
	v = a + b + in
	return v & 0xffff_ffff, v >> 32
}

// MultiplyPart returns half of a product.
func MultiplyPart(t, part string, a, b uint64) uint64 {
	if TypeBits(t) == 64 {
		return Combine64["mul."+part+"."+t](a, b)
	}
	return uint64(Combine32["mul."+part+"."+t](uint32(a), uint32(b)))
}

// Extract is the definition of bfe: beyond the top there are copies of the sign, or zeros.
func Extract(v uint64, at, n, size uint32, signed bool) uint64 {
	if n == 0 {
		return 0
	}
	if signed {
		wide := int64(v<<(64-size)) >> (64 - size)
		if at+n < size {
			return uint64(wide << (64 - at - n) >> (64 - n))
		}
		return uint64(wide >> min(at, 63))
	}
	if at >= 64 {
		return 0
	}
	v >>= at
	if n < 64 {
		v &= 1<<n - 1
	}
	return v
}

// Shuffle says whose register a lane reads, and whether that lane is of its segment.
func Shuffle(mode string, lane, b int, c uint32) (source int, ok bool) {
	clamp, segment := int(c&31), int(c>>8&31)
	highest := lane&segment | clamp&^segment
	lowest := lane & segment
	switch mode {
	case "up":
		source = lane - b
		ok = source >= highest // clamp is 0 for up
	case "down":
		source = lane + b
		ok = source <= highest
	case "bfly":
		source = lane ^ b
		ok = source <= highest
	default:
		source = lowest | b&^segment
		ok = source <= highest
	}
	if !ok {
		source = lane
	}
	return source, ok
}
