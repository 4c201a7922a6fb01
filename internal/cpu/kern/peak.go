package kern

// What a core can do at most: multiply-adds in registers, beside which kernels are measured.

// A Factor is what kernels multiply.
type Factor uint8

const (
	Floats Factor = iota
	Ints          // int8
	Pairs         // of BF16
)

// Factor returns what the kernels of m multiply.
func (m *Matrix) Factor() Factor {
	switch {
	case m.quantised():
		return Ints
	case m.rounded() && m.opt.Level.pairs():
		return Pairs
	}
	return Floats
}

// PeakOps returns the operations of one loop of Peak: twelve registers of multiply-adds, or tiles.
func (l Level) PeakOps(f Factor) float64 {
	lanes := 8.0 // of float32
	switch {
	case l == AMX && f == Pairs:
		return 12 * 2 * 16 * 16 * bf16Block
	case l.wide():
		lanes = 16
	case l.neon():
		lanes = 4
	}
	ops := 12 * 2 * lanes
	switch {
	case f == Pairs && l.wide(), f == Ints && l == NEON:
		ops *= 2
	case f == Ints && l == I8MM:
		ops *= 8
	case f == Ints:
		ops *= 4
	}
	return ops
}
