package kern

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"unsafe"

	"ossian/internal/tensor"
)

// clone copies s between guard pages.
func clone[T any](t testing.TB, s []T, front bool) []T {
	g := guarded[T](t, len(s), front)
	copy(g, s)
	return g
}

func TestQuantise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	special := []float32{0, 1e-45, -1e-38, 1e-31, math.MaxFloat32, -math.MaxFloat32, inf, -inf, nan, 127, 63.5, -0.5, 1.5, 2.5}
	for _, nb := range []int{1, 2, 3, 9} {
		for _, T := range []int{1, 3, 16} {
			for round := range 20 {
				x := randomFloats(rng, 32*nb)
				for i := range x {
					if round > 5 && rng.IntN(10) == 0 {
						x[i] = special[rng.IntN(len(special))]
					}
				}
				want := make([]byte, tileBytes*T*nb)
				row := rng.IntN(T)
				Go.quantise(x, want, T, row)
				checkQuants(t, x, want, T, row)
				for _, l := range levels()[1:] {
					got := guarded[byte](t, len(want), round%2 == 0)
					l.quantise(clone(t, x, round%2 == 0), got, T, row)
					for i := range got {
						if got[i] != want[i] && !sameNaN(got[i&^3:][:4], want[i&^3:][:4]) {
							t.Fatalf("%v, %d blocks, row %d of %d: byte %d is %d, want %d", l, nb, row, T, i, got[i], want[i])
						}
					}
				}
			}
		}
	}
}

func sameNaN(a, b []byte) bool {
	x, y := math.Float32frombits(binary.LittleEndian.Uint32(a)), math.Float32frombits(binary.LittleEndian.Uint32(b))
	return x != x && y != y
}

// checkQuants holds the definition against float64: a quant times the scale is
// within half a scale of the activation.
func checkQuants(t *testing.T, x []float32, a []byte, T, row int) {
	t.Helper()
	for b := range len(x) / 32 {
		blk := a[b*tileBytes*T:]
		scale := float64(math.Float32frombits(binary.LittleEndian.Uint32(blk[32*T+4*row:])))
		var sums [2]int32
		for k, v := range x[32*b:][:32] {
			q := int8(blk[32*row+k])
			sums[k/16] += int32(q)
			if q == -128 {
				t.Fatalf("block %d, element %d: quant -128", b, k)
			}
			if d := math.Abs(float64(q)*scale - float64(v)); scale-scale == 0 && d > 0.50001*scale {
				t.Fatalf("block %d, element %d: %v became %d·%v", b, k, v, q, scale)
			}
		}
		for i, want := range sums {
			if got := int32(binary.LittleEndian.Uint32(blk[32*T+4*T*(1+i)+4*row:])); got != want {
				t.Fatalf("block %d: sum %d is %d, want %d", b, i, got, want)
			}
		}
	}
}

// TestTiles runs every tile kernel on buffers of exactly the right size between
// guard pages, with quants over their whole range, and against the extremes at
// which 16-bit sums would saturate.
func TestTiles(t *testing.T) {
	for f := mx4; f < packed; f++ {
		for _, nb := range []int{1, 2, 5, 8, 24} {
			if layouts[f].head > 0 && nb%super != 0 {
				continue
			}
			for T := 1; T <= maxTile; T++ {
				if T <= maxPair || f.tileRows(AVX512, T) == T { // AVX-512 has the largest tiles
					t.Run(fmt.Sprintf("family%d/%d blocks/T=%d", f, nb, T), func(t *testing.T) { testTile(t, f, nb, T) })
				}
			}
		}
	}
}

func testTile(t *testing.T, f family, nb, T int) {
	rng := rand.New(rand.NewPCG(uint64(f), uint64(nb)))
	for _, extreme := range []bool{false, true} {
		g := randomGroup(rng, f, nb, extreme)
		a := make([]byte, tileBytes*T*nb)
		for row := range T {
			x := randomFloats(rng, 32*nb)
			for i := range x {
				if extreme {
					x[i] = float32(1 - 2*(row%2))
				}
			}
			Go.quantise(x, a, T, row)
			f.finish(a, nb, T, row)
		}
		var bias [groupRows]float32
		copy(bias[:], randomFloats(rng, groupRows))
		y := map[Level]*[maxTile * groupRows]float32{}
		for _, l := range levels() {
			if T > most(f, l) {
				continue
			}
			y[l] = new([maxTile * groupRows]float32)
			front := nb%2 == 0
			l.tile(group{f, clone(t, g.quants, front), clone(t, g.scales, front)}, clone(t, a, front), nb, T, &bias, y[l])
		}
		for l, got := range y {
			for i, v := range got {
				if twin := y[Go][i]; math.Abs(float64(v-twin)) > 1e-5*float64(nb)*math.Abs(float64(twin))+1e-4 {
					t.Fatalf("%v, extreme=%v: element %d is %v, want %v", l, extreme, i, v, twin)
				}
				if first := y[exact()]; first != nil && l > exact() && math.Float32bits(v) != math.Float32bits(first[i]) {
					t.Fatalf("extreme=%v: element %d is %x with %v, %x with %v", extreme, i, v, l, first[i], exact())
				}
			}
		}
	}
}

// TestFma: one rounding, also where the sum in float64 lies halfway between two float32 and
// where results are subnormal.
func TestFma(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 200_000 {
		scale := rng.IntN(40) - 150
		if rng.IntN(2) == 0 {
			scale = rng.IntN(60) - 30
		}
		a, b := 1+float64(rng.IntN(64))*0x1p-15, 1-float64(rng.IntN(64))*0x1p-15
		x, y := float32(math.Ldexp(a, scale/2-12)), float32(math.Ldexp(b, scale-scale/2-12+rng.IntN(3)))
		z := float32(math.Ldexp(1+float64(rng.IntN(1<<23))*0x1p-23, scale))
		if rng.IntN(2) == 0 {
			z = -z
		}
		exact := new(big.Float).SetPrec(1000)
		exact.Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
		exact.Add(exact, big.NewFloat(float64(z)))
		if want, _ := exact.Float32(); fma(x, y, z) != want {
			t.Fatalf("%x·%x + %x is %x, want %x", x, y, z, fma(x, y, z), want)
		}
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	if fma(inf, 1, 0) != inf || fma(1, 1, -inf) != -inf || fma(0, 0, 0) != 0 || fma(1, -1, 1) != 0 {
		t.Error("infinities or zeros are lost")
	}
	if v := fma(nan, 1, 1); v == v {
		t.Error("a NaN is lost")
	}
}

// most returns the most rows of a level's tiles.
func most(f family, l Level) (rows int) {
	for n := 1; n <= maxTile; n++ {
		rows = max(rows, f.tileRows(l, n))
	}
	if l.wide() && f.pairs(l) {
		rows = maxPair + 1
	}
	return rows
}

// TestPairs holds the kernels for two row groups to those for one, bit for bit, with
// everything between guard pages.
func TestPairs(t *testing.T) {
	if !AVX512.Available() {
		t.Skip("this machine or build has no kernels for two row groups")
	}
	rng := rand.New(rand.NewPCG(5, 5))
	for f := mx4; f < packed; f++ {
		if !f.pairs(AVX512) {
			continue
		}
		for _, nb := range []int{1, 3, 8, 24} {
			if layouts[f].head > 0 && nb%super != 0 {
				continue
			}
			for T := minPair; T <= maxPair; T++ {
				extreme, front := rng.IntN(2) == 0, rng.IntN(2) == 0
				m := randomGroups(t, rng, f, nb, 2, extreme, front)
				a := guarded[byte](t, tileBytes*T*nb, front)
				for row := range T {
					AVX512.quantise(randomFloats(rng, 32*nb), a, T, row)
					f.finish(a, nb, T, row)
				}
				bias := (*[2 * groupRows]float32)(clone(t, randomFloats(rng, 2*groupRows), front))
				var rows [maxPair]*[2 * groupRows]float32
				for i := range T {
					rows[i] = (*[2 * groupRows]float32)(guarded[float32](t, 2*groupRows, front))
				}
				for _, fine := range []bool{false, true} {
					n := T
					if fine && T%2 == 1 {
						continue
					} else if fine {
						n = T / 2
					}
					m.opt.Fine = fine
					m.pair(0, 0, a, T, &m.mem[len(m.mem)-1], T, bias, &rows) // fetching ahead faults nowhere
					for g := range 2 {
						var want [maxTile * groupRows]float32
						start := (*[groupRows]float32)(bias[g*groupRows:])
						if fine {
							start = &noBias
						}
						AVX512.tile(m.group(0, g), a, nb, T, start, &want)
						for k := 0; k < n && fine; k++ {
							addResiduals(want[k*groupRows:][:groupRows], want[(n+k)*groupRows:], bias[g*groupRows:])
						}
						for i := range n * groupRows {
							if got := rows[i/groupRows][g*groupRows+i%groupRows]; math.Float32bits(got) != math.Float32bits(want[i]) {
								t.Fatalf("family %d, %d blocks, T=%d, fine=%v: group %d, element %d is %v, alone %v", f, nb, T, fine, g, i, got, want[i])
							}
						}
					}
				}
			}
		}
	}
}

// TestOneRow holds the kernels for many row groups and one row to those for one group, bit
// for bit, with everything between guard pages.
func TestOneRow(t *testing.T) {
	for _, l := range levels() {
		t.Run(l.String(), func(t *testing.T) {
			if !l.hasOneRow(false) {
				t.Skip("no kernels for many row groups")
			}
			testOneRow(t, l)
		})
	}
}

func testOneRow(t *testing.T, l Level) {
	rng := rand.New(rand.NewPCG(6, 6))
	for f := mx4; f < packed; f++ {
		for _, nb := range []int{1, 3, 8, 24} {
			if layouts[f].head > 0 && nb%super != 0 {
				continue
			}
			for groups := 1; groups <= 5; groups++ {
				for way := range 4 {
					fine := way%2 == 1
					if !l.hasOneRow(fine) {
						continue
					}
					extreme, front := rng.IntN(2) == 0, rng.IntN(2) == 0
					m := randomGroups(t, rng, f, nb, groups, extreme, front)
					m.opt.Level, m.opt.Fine, m.opt.Fetch = l, fine, Fetch{Streams: 1 + way/2, Ahead: rng.IntN(8192)}
					T := 1
					if fine {
						T = 2
					}
					a := guarded[byte](t, tileBytes*T*nb, front)
					for row := range T {
						l.quantise(randomFloats(rng, 32*nb), a, T, row)
						f.finish(a, nb, T, row)
					}
					bias := clone(t, randomFloats(rng, groups*groupRows), front)
					got, without := guarded[float32](t, groups*groupRows, front), guarded[float32](t, groups*groupRows, front)
					m.oneRow(0, 0, groups, a, bias, got)
					m.oneRow(0, 0, groups, a, nil, without)
					for g := range groups {
						var want [maxTile * groupRows]float32
						l.tile(m.group(0, g), a, nb, T, &noBias, &want)
						for i := range groupRows {
							sum, k := want[i], g*groupRows+i
							if fine {
								sum += want[groupRows+i]
							}
							if got[k] != sum+bias[k] || without[k] != sum {
								t.Fatalf("family %d, %d blocks, fine=%v, %v: group %d of %d, element %d is %v and without bias %v; want %v and %v",
									f, nb, fine, m.opt.Fetch, g, groups, i, got[k], without[k], sum+bias[k], sum)
							}
						}
					}
				}
			}
		}
	}
}

// randomGroups makes a matrix of groups row groups.
func randomGroups(t *testing.T, rng *rand.Rand, f family, nb, groups int, extreme, front bool) *Matrix {
	m := &Matrix{e: 1, out: groups * groupRows, in: 32 * nb, fam: f, groups: groups, size: f.groupBytes(nb), opt: Options{Level: AVX512}}
	for range groups {
		g := randomGroup(rng, f, nb, extreme)
		part := make([]byte, m.size)
		copy(part[copy(part, g.quants):], g.scales)
		m.mem = append(m.mem, part...)
	}
	m.mem = clone(t, m.mem, front)
	return m
}

// randomGroup makes quants and scales of any value that packing can give; with
// extreme, the largest quants only, of either sign where there is one.
func randomGroup(rng *rand.Rand, f family, nb int, extreme bool) group {
	b := make([]byte, nb*(layouts[f].quants+layouts[f].scales)+nb/super*layouts[f].head)
	g := f.group(b, nb)
	top := map[family]int{q5m: 32, q5k: 32, q6k: 64}[f]
	for i := range g.quants {
		v := byte(rng.Uint32())
		if extreme {
			v = []byte{0xff, 0x00, 0x77}[i/4%16%3] // the same for all of a row
		}
		if top > 0 {
			v %= byte(top)
		}
		g.quants[i] = v
	}
	for i := range g.scales {
		g.scales[i] = byte(rng.Uint32())
	}
	halves := func(s []byte, n int) {
		for i := range n {
			binary.LittleEndian.PutUint16(s[2*i:], tensor.ToHalf(float32(rng.NormFloat64())))
		}
	}
	for blk := range nb {
		s := g.scales[f.scalesAt(blk):]
		switch f {
		case mx4:
			for i := range groupRows {
				s[i] = byte(120 + rng.IntN(12))
				if extreme {
					s[i] = []byte{0, 1, 64, 223}[rng.IntN(4)]
				}
			}
		case q4, q8:
			halves(s, groupRows)
		case q4m, q5m:
			halves(s, 2*groupRows)
		}
		if h := layouts[f].head; h > 0 && blk%super == 0 {
			halves(g.scales[f.scalesAt(blk)-h:], h/2)
		}
	}
	return g
}

// TestDots runs the row kernels on every length and both ends of guarded pages,
// the weights at odd addresses as a mapped file may have them.
func TestDots(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, f := range []family{bf16, f16, f32} {
		size := 2
		if f == f32 {
			size = 4
		}
		for n := 1; n <= 257; n++ {
			T := 1 + n%maxDot
			values := make([][]float32, dotRows)
			var w [dotRows]unsafe.Pointer
			for r := range w {
				odd := guarded[byte](t, n*size+n%2, false)
				values[r] = randomFloats(rng, n)
				for k := range values[r] {
					values[r][k] = putElement(f, odd[k*size:], values[r][k])
				}
				w[r] = unsafe.Pointer(&odd[0])
			}
			var x [maxDot]unsafe.Pointer
			xs := make([][]float32, T)
			for i := range xs {
				xs[i] = clone(t, randomFloats(rng, n), n%2 == 0)
				x[i] = unsafe.Pointer(&xs[i][0])
			}
			for _, l := range levels()[1:] {
				var y [maxDot * dotRows]float32
				l.dots(f, &w, &x, n, T, n*size, y[:], dotRows)
				for i := range T * dotRows {
					want := dotGo(values[i%dotRows], xs[i/dotRows])
					var sum float64
					for k, v := range values[i%dotRows] {
						sum += math.Abs(float64(v) * float64(xs[i/dotRows][k]))
					}
					if math.Abs(float64(y[i]-want)) > 1e-6*sum {
						t.Fatalf("%v, family %d, %d elements, row %d of %d: got %v, want %v", l, f, n, i, T, y[i], want)
					}
				}
			}
		}
	}
}

func putElement(f family, b []byte, v float32) float32 {
	switch f {
	case bf16:
		h := tensor.ToBF16(v)
		binary.LittleEndian.PutUint16(b, h)
		return tensor.BF16ToFloat(h)
	case f16:
		h := tensor.ToHalf(v)
		binary.LittleEndian.PutUint16(b, h)
		return tensor.Half(h)
	}
	binary.LittleEndian.PutUint32(b, math.Float32bits(v))
	return v
}
