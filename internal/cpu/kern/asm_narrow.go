//go:build purego || !amd64

package kern

// Kernels that only levels of amd64 have, and that others are never asked for, do not exist in this
// build.
const noKernels = "kern: this build has no such kernels; use kern.Detect to choose a level"

func oneRowKernel(Level, family, bool, int, *byte, *byte, int, int, int, int, int, *float32, int, *float32) {
	panic(noKernels)
}

func (l Level) hasOneRow(bool) bool { return false }

const fetchesPages = false

func pairKernel(family, int, bool, *byte, *byte, *byte, *byte, int, int, int, *float32, **float32) {
	panic(noKernels)
}

func pairsAsm(*pairsProduct) { panic(noKernels) }

func roundPairsAsm(*byte, *float32, int, int) { panic(noKernels) }

func bf16TilesAsm(*tileProduct) { panic(noKernels) }

func weightsAsm(*uint64, *float32, int, float64, float64, float32, uint64, uint64) (int, uint64) {
	panic(noKernels)
}

func packKeysAsm(*byte, **uint16, int, int) { panic(noKernels) }

func packValuesAsm(*byte, **uint16, int, int, int) bool { panic(noKernels) }

func asBF16Asm(*float32, int) { panic(noKernels) }

func keysAsm(*byte, **uint16, int, int, int, *byte, *float32, int) { panic(noKernels) }

func keysPairsKernel(int, *byte, **byte, int, int, int, *float32, int) { panic(noKernels) }

func weighRowsKernel(int, *float32, int, *float32, int, **byte, int, int) { panic(noKernels) }

func weighPairsKernel(int, *float32, int, *byte, int, **byte, int, int) { panic(noKernels) }
