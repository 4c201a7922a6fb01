//go:build purego || (!amd64 && !arm64)

package kern

import "unsafe"

// Available reports whether this machine and this build have the level.
func (l Level) Available() bool { return l == Go }

func pause() {}

func prefetch(*byte, int) {}

// The kernels of the levels above Go do not exist in this build, and Available
// says so.

func quantiseAsm(Level, *float32, int, *byte, *byte, int, int) { panic(noKernels) }

func residualAsm(Level, *float32, int, *byte, *byte, int, *float32) { panic(noKernels) }

func tileKernel(Level, family, int, *byte, *byte, *byte, int, *float32, *float32) { panic(noKernels) }

func dotsAsm(Level, family, *[dotRows]unsafe.Pointer, *[maxDot]unsafe.Pointer, int, int, int, *float32, int) {
	panic(noKernels)
}

var chained = false // no build of this kind has kernels for pairs

func (l Level) pairs() bool { return false }

func (l Level) hasBF16() bool { return false }

func bf16Asm(Level, int, int, *byte, *byte, int, int, int, *float32) { panic(noKernels) }

func scoresAsm(Level, []float32, int, []float32, int, int, unsafe.Pointer, int, family, int, int) int {
	panic(noKernels)
}

func weighKernel(Level, family, int, *float32, int, *float32, int, *byte, int, int, int, int) {
	panic(noKernels)
}

// Peak has nothing to run without kernels.
func (l Level) Peak(Factor, int) { panic(noKernels) }

func scaleMulAsm(Level, *float32, *float32, *float32, int, float32) { panic(noKernels) }

func mulAddAsm(Level, *float32, *float32, int, float32) { panic(noKernels) }

func timesAsm(Level, *float32, *float32, int, float32) { panic(noKernels) }

func rotateAsm(Level, *float32, *float32, *float32, *float32, int) { panic(noKernels) }

func swigluAsm(Level, *float32, *float32, int, float32, float32, float32) { panic(noKernels) }

func expSumAsm(Level, *float32, int, float32) float32 { panic(noKernels) }

func toBF16Asm(Level, *uint16, *float32, int) { panic(noKernels) }

func maxBitsAsm(Level, *float32, int) uint32 { panic(noKernels) }

func largestAsm(Level, *float32, int) float32 { panic(noKernels) }

func toE4M3Asm(Level, *uint8, *float32, int, float32) { panic(noKernels) }
