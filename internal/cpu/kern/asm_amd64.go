//go:build !purego

package kern

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// Available reports whether this machine and this build have the level.
func (l Level) Available() bool {
	features := &cpu.X86
	switch l {
	case Go:
		return true
	case AVX2:
		return features.HasAVX2 && features.HasFMA && features.HasF16C
	case AMX:
		return AVX512.Available() && hasTiles()
	case AVX512:
		return features.HasAVX2 && features.HasFMA && features.HasF16C && features.HasAVX512F && features.HasAVX512BW && features.HasAVX512VL && features.HasAVX512DQ && features.HasAVX512VBMI && features.HasAVX512VNNI
	}
	return false
}

// The functions below choose among the generated kernels of a level above Go; those with a
// kernel for each family or number of rows are in dispatch_amd64.go. Their callers have checked
// lengths.

// dotsAsm covers the 4 × T products with the kernels' own shapes.
func dotsAsm(l Level, f family, w *[dotRows]unsafe.Pointer, x *[maxDot]unsafe.Pointer, n, T, next int, y *float32, ldy int) {
	rows, cols := 4, 6
	if l == AVX2 {
		rows, cols = 2, 3
	}
	for t := 0; t < T; t += cols {
		for r := 0; r < dotRows; r += rows {
			dotsKernel(l, f, min(cols, T-t), (**byte)(unsafe.Pointer(&w[r])), (**byte)(unsafe.Pointer(&x[t])), n, next, (*float32)(unsafe.Add(unsafe.Pointer(y), 4*(t*ldy+r))), ldy)
		}
	}
}

// chained reports whether the machine multiplies pairs of BF16 twice as fast as float32, which
// decides the order of sums (bf16Go): AMD's do, Intel's take as long or have tiles.
var chained = cpu.X86.HasAVX512BF16 && vendor() == amd

// amd and intel are what vendor returns for them: "Auth" and "Genu".
const amd, intel = 0x68747541, 0x756e6547

// fetchesPages is whether the processor fetches pages as Intel's do.
var fetchesPages = vendor() == intel

// hasOneRow reports whether the level has kernels for one activation row, with its residual if fine.
func (l Level) hasOneRow(fine bool) bool { return l.wide() || (l == AVX2 && !fine) }

// pairs reports whether the level multiplies pairs of BF16 as they lie. Else activations are
// kept as float32 of the same values.
func (l Level) pairs() bool { return l == AMX || (l.wide() && chained) }

// hasBF16 reports whether the level has kernels for BF16 in row groups.
func (l Level) hasBF16() bool { return l > Go }

func bf16Asm(l Level, T, G int, w, a *byte, nb, size, ahead int, y *float32) {
	bf16Kernel(l, T, G, w, a, nb, size, ahead, y)
}

// pairsAsm and roundPairsAsm have kernels for AVX-512 only.
func pairsAsm(p *pairsProduct) {
	pairsKernel(p.rows, p.groups, &p.w[0], &p.a[0], p.nb, p.size, p.ahead, p.drift, &p.y[0], 4*p.ldy, 4*p.gap)
}

func roundPairsAsm(dst *byte, x *float32, nb, step int) { roundPairsAVX512(dst, x, nb, step) }

// bf16TilesAsm runs a product in one of the machine's tiles of activations, or two at a time.
func bf16TilesAsm(p *tileProduct) {
	config, c, row := &tileConfigs[p.rows-1][0], unsafe.SliceData(p.c), 2*bf16Block*p.rows
	switch {
	case p.rows <= maxTile:
		bf16TilesShortAMX(config, &p.w[0], &p.a[0], p.nb, row, p.groups, p.size, p.tiles, p.step, c, 4*p.ldc, &p.y[0], 4*p.ldy)
	case p.tiles == 1:
		bf16TilesTallAMX(config, &p.w[0], &p.a[0], p.nb, row, p.groups, p.size, p.tiles, p.step, c, 4*p.ldc, &p.y[0], 4*p.ldy)
	default:
		bf16TilesManyAMX(config, &p.w[0], &p.a[0], p.nb, row, p.groups, p.size, p.tiles, p.step, c, 4*p.ldc, &p.y[0], 4*p.ldy)
	}
}

// packKeysAsm and packValuesAsm have kernels for AVX-512 only.
func packKeysAsm(dst *byte, rows **uint16, groups, blocks int) {
	packKeysAVX512(dst, (**byte)(unsafe.Pointer(rows)), groups, blocks)
}

func packValuesAsm(dst *byte, rows **uint16, pairs, columns, size int) (finite bool) {
	return packValuesAVX512(dst, (**byte)(unsafe.Pointer(rows)), pairs, columns, size) == 0
}

func keysAsm(queries *byte, groups **uint16, n, blocks, stride int, scratch *byte, y *float32, ldy int) {
	keysAMX(&tileConfigs[groupRows-1][0], queries, (**byte)(unsafe.Pointer(groups)), n, blocks, stride, scratch, y, ldy)
}

func asBF16Asm(x *float32, n int) { asBF16AVX512(x, n) }

// scoresAsm returns how many of the n keys it has done: as many as fill registers.
func scoresAsm(l Level, dst []float32, ldd int, q []float32, heads, d int, k unsafe.Pointer, ldk int, f family, n, next int) (done int) {
	keys, step := 4, 4
	if l == AVX2 {
		keys, step = 2, 3
	}
	done = n &^ (keys - 1)
	for h := 0; h < heads && done > 0; h += step {
		scoresKernel(l, f, min(step, heads-h), &dst[h*ldd], 4*ldd, &q[h*d], 4*d, (*byte)(k), ldk, d, done, next)
		next = 0 // once is enough
	}
	return done
}

// Peak runs n loops of multiply-adds within registers.
func (l Level) Peak(f Factor, n int) {
	switch {
	case l == AMX && f == Pairs:
		peakBF16AMX(&tileConfigs[maxTileAMX-1][0], n)
	case l.wide() && f == Ints:
		peakInt8AVX512(n)
	case l.wide() && f == Pairs:
		peakBF16AVX512(n)
	case l.wide():
		peakF32AVX512(n)
	case f == Ints:
		peakInt8AVX2(n)
	default:
		peakF32AVX2(n)
	}
}

// weightsAsm has a kernel for AVX-512 only.
func weightsAsm(keys *uint64, x *float32, n int, from, scale float64, bound float32, least, code uint64) (kept int, total uint64) {
	return weightsAVX512(keys, x, n, from, scale, bound, least, code)
}
