package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"ossian/internal/tensor"
)

// near fails unless got is within tol·size of want, and both finite or both not.
func near(t *testing.T, what string, got float32, want, size, tol float64) {
	t.Helper()
	if float64(got) == want || (got != got && want != want) {
		return
	}
	if !(math.Abs(float64(got)-want) <= tol*size) {
		t.Fatalf("%s: got %v, want %v ± %v", what, got, want, tol*size)
	}
}

// everyLength calls f with each level, every length 0 to 257 and both ends of
// guarded pages.
func everyLength(t *testing.T, f func(t *testing.T, l Level, n int, floats func(n int) []float32)) {
	for _, l := range levels() {
		t.Run(l.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			for n := range 258 {
				f(t, l, n, func(n int) []float32 { return clone(t, randomFloats(rng, n), rng.IntN(2) == 0) })
			}
		})
	}
}

func TestSumSq(t *testing.T) {
	everyLength(t, func(t *testing.T, l Level, n int, floats func(int) []float32) {
		x := floats(n)
		var want float64
		for _, v := range x {
			want += float64(v) * float64(v)
		}
		near(t, fmt.Sprint(n, " elements"), SumSq(l, x), want, want, 1e-6)
	})
}

func TestScaleMul(t *testing.T) {
	everyLength(t, func(t *testing.T, l Level, n int, floats func(int) []float32) {
		x, w, dst := floats(n), floats(n), floats(n)
		ScaleMul(l, dst, x, w, 1.7)
		for i, got := range dst {
			if want := float32(x[i]*1.7) * w[i]; got != want {
				t.Fatalf("%d elements: element %d is %v, want %v", n, i, got, want)
			}
		}
	})
}

func TestMulAdd(t *testing.T) {
	everyLength(t, func(t *testing.T, l Level, n int, floats func(int) []float32) {
		x, dst := floats(n), floats(n)
		sum, scaled := append([]float32(nil), dst...), append([]float32(nil), dst...)
		Add(l, sum, x)
		MulAdd(l, scaled, x, -0.3)
		for i := range dst {
			near(t, "Add", sum[i], float64(dst[i]+x[i]), 0, 0)
			near(t, "MulAdd", scaled[i], float64(dst[i])-0.3*float64(x[i]), math.Abs(float64(dst[i]))+math.Abs(float64(x[i])), 1e-7)
		}
	})
}

func TestTimes(t *testing.T) {
	everyLength(t, func(t *testing.T, l Level, n int, floats func(int) []float32) {
		x, dst := floats(n), floats(n)
		Times(l, dst, x, 1.7)
		same := append([]float32(nil), x...)
		Times(l, same, same, 1.7)
		for i, got := range dst {
			if want := x[i] * 1.7; got != want || same[i] != want {
				t.Fatalf("%d elements: element %d is %v, in place %v, want %v", n, i, got, same[i], want)
			}
		}
	})
}

func TestRotate(t *testing.T) {
	everyLength(t, func(t *testing.T, l Level, n int, floats func(int) []float32) {
		a, b, cos, sin := floats(n), floats(n), floats(n), floats(n)
		x, y := append([]float32(nil), a...), append([]float32(nil), b...)
		Rotate(l, a, b, cos, sin)
		for i := range a {
			wantA, wantB := float32(x[i]*cos[i])-float32(y[i]*sin[i]), float32(y[i]*cos[i])+float32(x[i]*sin[i])
			if a[i] != wantA || b[i] != wantB {
				t.Fatalf("%d pairs: pair %d is %v, %v, want %v, %v", n, i, a[i], b[i], wantA, wantB)
			}
		}
	})
}

func TestSwiGLU(t *testing.T) {
	everyLength(t, func(t *testing.T, l Level, n int, floats func(int) []float32) {
		gu, dst := floats(2*n), floats(n)
		for i := range gu {
			gu[i] *= float32(int(1) << (i % 12)) // up to thousands, on both sides of the limits
		}
		SwiGLU(l, dst, gu)
		for i, got := range dst {
			g, u := float64(gu[2*i]), float64(gu[2*i+1])
			want := g / (1 + math.Exp(-g)) * u
			near(t, fmt.Sprintf("silu(%v)·%v", g, u), got, want, math.Abs(want)+1e-25, 2e-6)
		}
		SwiGLUClamped(l, dst, gu, 1.702, 7)
		for i, got := range dst {
			g, u := min(float64(gu[2*i]), 7), max(min(float64(gu[2*i+1]), 7), -7)
			want := g / (1 + math.Exp(-float64(float32(1.702))*g)) * (u + 1)
			near(t, fmt.Sprintf("clamped %v, %v", g, u), got, want, math.Abs(want)+1e-25, 2e-5)
		}
	})
}

func TestSwiGLUSpecials(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, l := range levels() {
		for _, n := range []int{1, 16} { // tail and whole registers
			for _, tt := range []struct {
				name string
				g, u float32
				want func(v float32) bool
			}{
				{"NaN gate", nan, 1, func(v float32) bool { return v != v }},
				{"NaN up", 1, nan, func(v float32) bool { return v != v }},
				{"large gate", inf, 1, func(v float32) bool { return v > 6.9 && v < 14.1 }},
				{"large negative gate", -1e4, 1, func(v float32) bool { return v <= 0 && v > -1e-30 }},
			} {
				gu, dst := make([]float32, 2*n), make([]float32, n)
				gu[0], gu[1] = tt.g, tt.u
				SwiGLUClamped(l, dst, gu, 1.702, 7)
				if !tt.want(dst[0]) {
					t.Errorf("%v, %d elements, %s: got %v", l, n, tt.name, dst[0])
				}
			}
		}
	}
}

func TestMax(t *testing.T) {
	everyLength(t, func(t *testing.T, l Level, n int, floats func(int) []float32) {
		x := floats(n)
		for at := range x { // each place, among negative ones too
			was := x[at]
			x[at] = 100
			if got := Max(l, x); got != 100 {
				t.Fatalf("%d numbers, the largest at %d: %v, want 100", n, at, got)
			}
			x[at] = was
		}
		for i := range x {
			x[i] = -1 - float32(i)
		}
		if n > 0 && Max(l, x) != -1 {
			t.Errorf("%d negative numbers: %v, want -1", n, Max(l, x))
		}
	})
}

func TestExpSum(t *testing.T) {
	everyLength(t, func(t *testing.T, l Level, n int, floats func(int) []float32) {
		x := floats(n)
		m := float32(math.Inf(-1))
		for i := range x {
			x[i] *= float32(i%30) * 4
			if i%13 == 5 {
				x[i] = float32(math.Inf(-1)) // masked scores
			}
			m = max(m, x[i])
		}
		was := append([]float32(nil), x...)
		sum := ExpSum(l, x, m)
		var want float64
		for i, v := range was {
			e := math.Exp(float64(v - m))
			if v-m < expMin {
				e = 0
			}
			near(t, fmt.Sprintf("exp(%v)", v-m), x[i], e, e, 6e-7)
			want += e
		}
		near(t, fmt.Sprint("sum of ", n), sum, want, want, 2e-6)
	})
}

func TestExp(t *testing.T) {
	for x := float32(-90); x < 88; x += 0.0137 {
		want := math.Exp(float64(x))
		if x < expMin {
			want = 0
		}
		near(t, fmt.Sprintf("exp(%v)", x), expGo(x), want, want, 6e-7)
	}
}

// TestVecLevelsAgree: levels above Go give the same bits in every row operation, on arm64 Go too.
func TestVecLevelsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for n := range 258 {
		x := randomFloats(rng, 2*n)
		for i := range x {
			x[i] *= float32(i % 40)
		}
		var got [][]float32
		for _, l := range levels() {
			if l < exact() {
				continue
			}
			y, e, s := make([]float32, n), append([]float32(nil), x[:n]...), append([]float32(nil), x[:n]...)
			SwiGLUClamped(l, y, x, 1.702, 7)
			sum := ExpSum(l, e, 160)
			MulAdd(l, s, x[n:], 0.7)
			got = append(got, append(append(append(append(y, e...), s...), sum), SumSq(l, x)))
		}
		for _, v := range got {
			for i := range v {
				if math.Float32bits(v[i]) != math.Float32bits(got[0][i]) {
					t.Fatalf("%d elements, result %d: %x and %x", n, i, v[i], got[0][i])
				}
			}
		}
	}
}

func TestToBF16(t *testing.T) {
	everyLength(t, func(t *testing.T, l Level, n int, floats func(int) []float32) {
		x, dst := floats(n), guarded[uint16](t, n, n%2 == 0)
		for i := range x {
			switch i % 9 {
			case 0:
				x[i] = math.Float32frombits(0x3f808000 + uint32(i)<<16) // a tie
			case 1:
				x[i] = math.Float32frombits(0x7f800001 + uint32(i)) // NaN with low bits only
			case 2:
				x[i] = math.MaxFloat32
			}
		}
		ToBF16(l, dst, x)
		for i, got := range dst {
			if want := tensor.ToBF16(x[i]); got != want {
				t.Fatalf("%d elements: %x became %x, want %x", n, math.Float32bits(x[i]), got, want)
			}
		}
	})
}

func TestScoresAndWeigh(t *testing.T) {
	for _, d := range []int{1, 15, 16, 17, 32, 47, 48, 64, 80, 128, 256} {
		for _, heads := range []int{1, 2, 3, 4, 5, 7, 8, 13} {
			for _, n := range []int{1, 2, 3, 4, 5, 16} {
				t.Run(fmt.Sprintf("%d dims, %d heads, %d tokens", d, heads, n), func(t *testing.T) {
					testAttention(t, d, heads, n, func(v float32) float32 { return v })
					testAttention(t, d, heads, n, tensor.ToBF16)
					testAttention(t, d, heads, n, func(v float32) uint8 { return tensor.ToE4M3(256 * v) })
				})
			}
		}
	}
}

func testAttention[F Float](t *testing.T, d, heads, n int, store func(float32) F) {
	rng := rand.New(rand.NewPCG(uint64(d), uint64(heads*n)))
	ldk, lds := d+d%3, n+2
	kv := guarded[F](t, (n-1)*ldk+d, heads%2 == 0)
	for i := range kv {
		kv[i] = store(float32(rng.NormFloat64()))
	}
	q, p := clone(t, randomFloats(rng, heads*d), false), clone(t, randomFloats(rng, (heads-1)*lds+n), false)
	var twin, twinAcc []float32
	for _, l := range levels() {
		s := guarded[float32](t, (heads-1)*lds+n, false)
		Scores(l, s, lds, q, heads, d, kv, ldk, n, &kv[len(kv)-1]) // fetching ahead faults nowhere
		acc := clone(t, q, true)
		Weigh(l, acc, heads, d, p, lds, kv, ldk, n, &kv[len(kv)-1])
		if l == Go {
			twin, twinAcc = s, acc
		}
		parts := clone(t, q, true) // in two calls: the same bits
		Weigh(l, parts, heads, d, p, lds, kv, ldk, n/2, nil)
		Weigh(l, parts, heads, d, p[n/2:], lds, kv[n/2*ldk:], ldk, n-n/2, nil)
		for i := range acc {
			if acc[i] != parts[i] {
				t.Fatalf("%v: element %d is %v, in two parts %v", l, i, acc[i], parts[i])
			}
			near(t, fmt.Sprintf("%v: weighted element %d", l, i), acc[i], float64(twinAcc[i]), float64(n+1), 1e-6)
		}
		for i := range s {
			near(t, fmt.Sprintf("%v: score %d", l, i), s[i], float64(twin[i]), float64(d), 1e-6)
		}
		for h := range heads {
			for j := range n {
				var want float64
				for i := range d {
					want += float64(q[h*d+i]) * float64(widen(kv[j*ldk+i]))
				}
				near(t, fmt.Sprintf("%v: head %d, key %d", l, h, j), s[h*lds+j], want, float64(d), 1e-6)
				var alone [1]float32
				Scores(l, alone[:], 1, q[h*d:], 1, d, kv[j*ldk:], ldk, 1, nil)
				if alone[0] != s[h*lds+j] {
					t.Fatalf("%v: head %d, key %d: %v, alone %v", l, h, j, s[h*lds+j], alone[0])
				}
			}
			alone := clone(t, q[h*d:][:d], true)
			Weigh(l, alone, 1, d, p[h*lds:], lds, kv, ldk, n, nil)
			for i, v := range alone {
				if v != acc[h*d+i] {
					t.Fatalf("%v: head %d, element %d: %v, alone %v", l, h, i, acc[h*d+i], v)
				}
			}
		}
	}
}

func TestVecDoesNotAllocate(t *testing.T) {
	const n = 100
	x, y, z, c := make([]float32, 2*n), make([]float32, 2*n), make([]uint16, 2*n), make([]uint8, 2*n)
	for _, l := range levels() {
		if got := testing.AllocsPerRun(10, func() {
			SumSq(l, x)
			ScaleMul(l, x, x, y, 2)
			Add(l, x, y)
			SwiGLU(l, x[:n], y)
			ExpSum(l, x, 1)
			ToBF16(l, z, x)
			Scores(l, x, 2, y, 2, 50, z, 50, 2, nil)
			Weigh(l, x, 2, 50, y, 2, z, 50, 2, nil)
			ToE4M3(l, c, x)
			Scores(l, x, 2, y, 2, 50, c, 50, 2, nil)
			Weigh(l, x, 2, 50, y, 2, c, 50, 2, nil)
		}); got != 0 {
			t.Errorf("%v: %v allocations", l, got)
		}
	}
}

// code is value/256 of an E4M3 code by the OCP definition, in float64.
func code(c int) float64 {
	sign, exp, frac := float64(1-2*(c>>7)), c>>3&15, float64(c&7)
	switch {
	case c&0x7f == 0x7f:
		return math.NaN()
	case exp == 0:
		return sign * math.Ldexp(frac, -17)
	}
	return sign * math.Ldexp(8+frac, exp-18)
}

// TestE4M3Codes: every level reads every code exactly, wherever it lies in a row.
func TestE4M3Codes(t *testing.T) {
	const dim, keys = 37, 7 // whole registers and a tail, whole groups of keys and a rest
	for _, l := range levels() {
		for c := range 256 {
			for at := range dim {
				k, q, dst := make([]uint8, keys*dim), make([]float32, dim), make([]float32, keys)
				for j := range keys {
					k[j*dim+at] = uint8(c)
				}
				q[at] = 1
				Scores(l, dst, keys, q, 1, dim, k, dim, keys, nil)
				for j, got := range dst {
					near(t, fmt.Sprintf("%v: code %#x at %d of key %d", l, c, at, j), got, code(c), 0, 0)
				}
			}
		}
		v, p := make([]uint8, 256+dim), []float32{1}
		for i := range v {
			v[i] = uint8(i)
		}
		for _, heads := range []int{1, 4} {
			acc, p := make([]float32, heads*len(v)), append(p, 1, 1, 1)
			Weigh(l, acc, heads, len(v), p, 1, v, len(v), 1, nil)
			for i, got := range acc {
				near(t, fmt.Sprintf("%v: weighted code %#x", l, i%len(v)%256), got, code(i%len(v)%256), 0, 0)
			}
		}
	}
}

// nearestE4M3 searches all codes for the value/256 nearest to y, the even one of two.
func nearestE4M3(y float64) uint8 {
	best := 0
	for c := range 0x7f {
		d, b := math.Abs(code(c)-math.Abs(y)), math.Abs(code(best)-math.Abs(y))
		if d < b || (d == b && c&1 == 0) {
			best = c
		}
	}
	if math.Signbit(y) {
		best |= 0x80
	}
	return uint8(best)
}

func TestToE4M3(t *testing.T) {
	everyLength(t, func(t *testing.T, l Level, n int, floats func(int) []float32) {
		x, dst := floats(n), guarded[uint8](t, n, n%2 == 0)
		for i := range x {
			switch i % 5 {
			case 0: // halfway between codes, whatever the scale
				x[i] = float32(math.Ldexp(float64(17+2*(i%8)), i%30-25))
			case 1:
				x[i] *= float32(math.Ldexp(1, -(i % 20)))
			}
			x[i] *= float32(math.Ldexp(1, n%200-100))
		}
		scale := ToE4M3(l, dst, x)
		top := 0.0
		for _, v := range x {
			top = max(top, math.Abs(float64(v)))
		}
		factor := math.Ldexp(1, math.Ilogb(top)+1) // the largest becomes 0.5 to 1, as a code 128 to 256
		if n > 0 && float64(Scale(scale)) != factor {
			t.Fatalf("%d elements up to %v: scale %v, want %v", n, top, Scale(scale), factor)
		}
		for i, got := range dst {
			if want := nearestE4M3(float64(x[i]) / factor); got != want {
				t.Fatalf("%d elements: %v of %v became %#x, want %#x", n, x[i], factor, got, want)
			}
		}
	})
}

func TestToE4M3Specials(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, l := range levels() {
		for _, n := range []int{16, 21} { // the last element is in a register, in a tail
			for _, tt := range []struct {
				name        string
				fill, last  float32
				scale, code uint8 // of the last
				first       uint8
			}{
				{"zeros", 0, 0, 8, 0, 0},
				{"negative zero", 1, float32(math.Copysign(0, -1)), 128, 0x80, 0x70},
				{"subnormal", 0x1p-149, 0x1p-149, 8, 0, 0},
				{"smallest scale", 0x1p-119, 0x1p-120, 9, 0x68, 0x70},
				{"below it", 0x1p-121, -0x1p-121, 8, 0xe8, 0x68},
				{"beside a large one", 1, 0x1p60, 188, 0x70, 0},
				{"largest", math.MaxFloat32, -math.MaxFloat32, 254, 0xfe, 0x7e},
				{"NaN", 1, nan, 255, 0x7f, 0x7f},
				{"infinite", 1, -inf, 255, 0x7f, 0x7f},
			} {
				x, dst := make([]float32, n), make([]uint8, n)
				for i := range x {
					x[i] = tt.fill
				}
				x[n-1] = tt.last
				if got := ToE4M3(l, dst, x); got != tt.scale || dst[n-1] != tt.code || dst[0] != tt.first {
					t.Errorf("%v, %s of %d: scale %d, codes %#x … %#x, want %d, %#x … %#x", l, tt.name, n, got, dst[0], dst[n-1], tt.scale, tt.first, tt.code)
				}
			}
		}
	}
}
