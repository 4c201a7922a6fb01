//go:build !purego

package kern

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// Available reports whether this machine and this build have the level.
func (l Level) Available() bool {
	switch l {
	case Go:
		return true
	case NEON:
		return cpu.ARM64.HasASIMD
	case DotProd:
		return cpu.ARM64.HasASIMD && cpu.ARM64.HasASIMDDP
	case I8MM:
		return cpu.ARM64.HasASIMD && cpu.ARM64.HasASIMDDP && cpu.ARM64.HasI8MM
	}
	return false
}

// nativeBF16 reports whether the machine multiplies odd and even BF16 (FEAT_BF16), which all
// with I8MM should, since both came with Armv8.6.
var nativeBF16 = hasBF16()

// The functions below choose among the generated kernels; those with a kernel for each family
// or number of rows are in dispatch_arm64.go, and operations on rows are kernels themselves.
// Their callers have checked lengths.

// The weight rows (or keys) and activation rows (or queries) of a kernel in float32.
const neonRows, neonColumns = 2, 3

// dotsAsm covers the 4 × T products with the kernels' own shapes.
func dotsAsm(_ Level, f family, w *[dotRows]unsafe.Pointer, x *[maxDot]unsafe.Pointer, n, T, next int, y *float32, ldy int) {
	for t := 0; t < T; t += neonColumns {
		for r := 0; r < dotRows; r += neonRows {
			rows, columns, to := (**byte)(unsafe.Pointer(&w[r])), (**byte)(unsafe.Pointer(&x[t])), (*float32)(unsafe.Add(unsafe.Pointer(y), 4*(t*ldy+r)))
			if f == e4m3 { // T is 1
				dotsE4M31(rows, columns, n, next, to, ldy)
				continue
			}
			dotsRows(f, min(neonColumns, T-t), rows, columns, n, next, to, ldy)
		}
	}
}

// chained: the order of sums of bf16Go is that of the instructions that all levels can follow.
var chained = true

// pairs reports whether the level multiplies elements of pairs of BF16 as they lie.
func (l Level) pairs() bool { return l == I8MM && nativeBF16 }

// hasBF16 reports whether the level has kernels for BF16 in row groups.
func (l Level) hasBF16() bool { return l > Go }

func bf16Asm(l Level, T, _ int, w, a *byte, nb, _, _, _ int, y *float32) {
	bf16Kernel(l.pairs(), T, w, a, nb, y)
}

// scoresAsm returns how many of the n keys it has done: as many as fill registers.
func scoresAsm(_ Level, dst []float32, ldd int, q []float32, heads, d int, k unsafe.Pointer, ldk int, f family, n, next int) (done int) {
	done = n &^ (neonRows - 1)
	for h := 0; h < heads && done > 0; h += neonColumns {
		scoresKernel(f, min(neonColumns, heads-h), &dst[h*ldd], 4*ldd, &q[h*d], 4*d, (*byte)(k), ldk, d, done, next)
		next = 0 // once is enough
	}
	return done
}

// Peak runs n loops of multiply-adds within registers.
func (l Level) Peak(f Factor, n int) {
	switch {
	case f == Pairs:
		peakBF16(n)
	case f == Floats:
		peakF32(n)
	case l == I8MM:
		peakInt8I8MM(n)
	case l == DotProd:
		peakInt8DotProd(n)
	default:
		peakInt8NEON(n)
	}
}
