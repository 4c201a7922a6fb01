// Package kern holds the arithmetic of the CPU device: packed weight matrices,
// the products of weights with activations, the vector operations of a
// transformer's rows, and the worker pool that runs them. Callers need not know
// instruction sets, weight layouts, alignment or tiles.
//
// Every result is batch invariant (models.md 5.1): the bits of an output element
// depend on its weight row and its activation row only, never on the number of
// rows, on how they are grouped into jobs and tiles, or on the number of workers.
package kern

import "fmt"

// A Level is an instruction set. All levels compute the same sums in the same
// order; AVX2 and AVX512 agree bit for bit, Go may round a product before it is
// added where they do not (less than 1e-6 of the sum of absolute terms).
type Level uint8

const (
	Go     Level = iota // portable Go
	AVX2                // AVX2, FMA and F16C
	AVX512              // AVX-512 F, BW, VL, DQ, VBMI and VNNI
)

// String returns the name by which users choose the level.
func (l Level) String() string {
	switch l {
	case Go:
		return "go"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// Detect returns the best level of this machine and this build.
func Detect() Level {
	for l := AVX512; l > Go; l-- {
		if l.Available() {
			return l
		}
	}
	return Go
}

// Options choose how a matrix is computed.
type Options struct {
	Level Level // must be Available; the zero value is portable Go
	Exact bool  // multiply decoded weights with float32 activations instead of int8 ones: slow, for tests against references
	Fine  bool  // 15-bit activations for quantised weights: a second row of int8 holds what the first leaves; twice the arithmetic, the same bytes
}
