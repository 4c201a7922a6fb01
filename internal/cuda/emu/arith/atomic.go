package arith

// Change returns what an operation makes of the old value.
func Change(op, t string) func(old, b, c uint64) uint64 {
	key := op + "." + t
	if op == "add" && (t == "f32" || t == "f64") {
		if t == "f64" {
			return func(old, b, _ uint64) uint64 { return Bits64(F64(old) + F64(b)) }
		}
		return func(old, b, _ uint64) uint64 { return uint64(Bits32(F32(uint32(old)) + F32(uint32(b)))) }
	}
	switch key {
	case "exch.b32", "exch.b64":
		return func(_, b, _ uint64) uint64 { return b }
	case "cas.b32", "cas.b64":
		return func(old, b, c uint64) uint64 {
			if old == b {
				return c
			}
			return old
		}
	case "inc.u32":
		return func(old, b, _ uint64) uint64 {
			if old >= b {
				return 0
			}
			return old + 1
		}
	case "dec.u32":
		return func(old, b, _ uint64) uint64 {
			if old == 0 || old > b {
				return b
			}
			return old - 1
		}
	}
	if f, ok := Combine64[key]; ok {
		return func(old, b, _ uint64) uint64 { return f(old, b) }
	}
	if f, ok := Combine32[key]; ok {
		return func(old, b, _ uint64) uint64 { return uint64(f(uint32(old), uint32(b))) }
	}
	return nil
}
