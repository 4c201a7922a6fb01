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
// it. How weights are asked for with one row depends on the machine (Fetch). BF16, F16 and F32
// rows are multiplied in float32 where they lie, four by up to six, and the next four rows are
// asked for meanwhile. BF16 weights that Options.BF16 multiplies with activations in BF16 lie in row
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

// Of each kind of processor, a level includes those before it.
const (
	Go      Level = iota // portable Go
	AVX2                 // amd64: AVX2, FMA and F16C
	AVX512               // amd64: AVX-512 F, BW, VL, DQ, VBMI and VNNI
	AMX                  // amd64: tiles of BF16 and int8, which the operating system must grant
	NEON                 // arm64: what every one has
	DotProd              // arm64: dot products of int8 (FEAT_DotProd)
	I8MM                 // arm64: matrix products of int8 (FEAT_I8MM), and BF16 ones where they are
)

// levelNames are the names by which users choose levels.
var levelNames = [...]string{"go", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm"}

// wide reports whether the level has the kernels of AVX-512.
func (level Level) wide() bool { return level == AVX512 || level == AMX }

// neon reports whether the level is one of arm64.
func (level Level) neon() bool { return level >= NEON }

// String returns the name by which users choose the level.
func (level Level) String() string {
	if int(level) < len(levelNames) {
		return levelNames[level]
	}
	return fmt.Sprintf("Level(%d)", uint8(level))
}

// Levels returns those of this machine and this build, the best last.
func Levels() (levels []Level) {
	for level := range Level(len(levelNames)) {
		if level.Available() {
			levels = append(levels, level)
		}
	}
	return levels
}

// Detect returns the best of them.
func Detect() Level {
	levels := Levels()
	return levels[len(levels)-1]
}

// Options choose how a matrix is computed.
type Options struct {
	Level Level // must be Available; the zero value is portable Go
	Exact bool  // multiply decoded weights with float32 activations instead of int8 ones: slow, for tests against references
	Q8    bool  // keep BF16, F16 and F32 weights as blocks of 32 8-bit values with an f16 scale each; rows must be whole blocks
	BF16  bool  // BF16 weights in row groups with activations rounded to BF16, if their rows are whole blocks of 32; there are instructions for such pairs
	Fetch Fetch // one of Level's; the zero value is the first of them
	Fine  bool  // 15-bit activations for quantised weights: a second row of int8 holds what the first leaves; twice the arithmetic, the same bytes
}
