// Package kern holds the arithmetic of the CPU device: packed weight matrices,
// the products of weights with activations, the vector operations of a
// transformer's rows, and the worker pool that runs them. Callers need not know
// instruction sets, weight layouts, alignment or tiles.
//
// Weights in blocks, and floats that Options.Q8 puts in blocks, lie in row groups of
// 16, word by word (family). Activations that meet them become int8 with a float32
// scale for every 32, or two such rows, the second what the first leaves
// (Options.Fine). One family of generated tiles, 16 weight rows × 1 to 8, 12 or 16
// activation rows over the whole length, serves one token and many; tileGo defines
// it. Weights are asked for 4 KB ahead. BF16, F16 and F32 rows are multiplied in
// float32 where they lie, four by up to six, and the next four rows are asked for
// meanwhile. BF16 weights that Options.BF16 multiplies with activations in BF16 lie in row
// groups too, for the tiles of Intel's processors or for vectors (bf16.go).
// Options.Exact decodes any weight and multiplies in float32: the reference for what
// quantised activations cost. mul.go says how a product gets to its kernel.
//
// Every result is batch invariant (models.md 5.1): the bits of an output element
// depend on its weight row and its activation row only, never on the number of
// rows, on how they are grouped into jobs and tiles, or on the number of workers.
package kern

import "fmt"

// A Level is an instruction set. All levels of a machine compute the same sums in the same
// order; those above Go agree bit for bit, Go may round a product before it is added where
// they do not (less than 1e-6 of the sum of absolute terms), though not of BF16 (bf16.go).
type Level uint8

const (
	Go     Level = iota // portable Go
	AVX2                // AVX2, FMA and F16C
	AVX512              // AVX-512 F, BW, VL, DQ, VBMI and VNNI
	AMX                 // that and tiles of BF16 and int8, which the operating system must grant
)

// wide reports whether the level has the kernels of AVX-512.
func (level Level) wide() bool { return level == AVX512 || level == AMX }

// String returns the name by which users choose the level.
func (level Level) String() string {
	switch level {
	case Go:
		return "go"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	case AMX:
		return "amx"
	}
	return fmt.Sprintf("Level(%d)", uint8(level))
}

// Detect returns the best level of this machine and this build.
func Detect() Level {
	for level := AMX; level > Go; level-- {
		if level.Available() {
			return level
		}
	}
	return Go
}

// Options choose how a matrix is computed.
type Options struct {
	Level Level // must be Available; the zero value is portable Go
	Exact bool  // multiply decoded weights with float32 activations instead of int8 ones: slow, for tests against references
	Q8    bool  // keep BF16, F16 and F32 weights as blocks of 32 8-bit values with an f16 scale each; rows must be whole blocks
	BF16  bool  // BF16 weights in row groups with activations rounded to BF16, if their rows are whole blocks of 32; there are instructions for such pairs
	Fine  bool  // 15-bit activations for quantised weights: a second row of int8 holds what the first leaves; twice the arithmetic, the same bytes
}
