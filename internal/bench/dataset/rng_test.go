package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// digest is the hash of numbers that _tools/bench/dataset_goldens.py writes.
func digest(values []int) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = strconv.Itoa(v)
	}
	sum := sha256.Sum256([]byte(strings.Join(words, ",")))
	return hex.EncodeToString(sum[:8])
}

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}

// times calls draw n times.
func times[T any](n int, draw func() T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = draw()
	}
	return list
}

// near reports whether real numbers are equal but for the last bits, in which
// logarithms differ.
func near(got, want []float64) bool {
	return slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(b) })
}

func mustLegacy(t testing.TB, seed int64) *Legacy {
	t.Helper()
	g, err := NewLegacy(seed)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func mustPCG(t testing.TB, seed int64) *PCG64 {
	t.Helper()
	g, err := NewPCG64(seed)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func shuffled(seed int64, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	NewPython(seed).Shuffle(n, func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// The table of bench.md 2.1, columns of seed 0 and 42.
func TestGeneratorsPublished(t *testing.T) {
	t.Parallel()
	equal(t, "(a) u32, 0", times(3, NewPython(0).Uint32), []uint32{3626764237, 1654615998, 3255389356})
	equal(t, "(a) u32, 42", times(3, NewPython(42).Uint32), []uint32{2746317213, 478163327, 107420369})
	equal(t, "(a) shuffle, 0", shuffled(0, 12), []int{1, 9, 8, 5, 10, 2, 3, 7, 4, 0, 11, 6})
	equal(t, "(a) shuffle, 42", shuffled(42, 12), []int{7, 5, 2, 8, 9, 6, 11, 3, 4, 0, 1, 10})
	equal(t, "(a) shuffle, 1", shuffled(1, 12), []int{7, 11, 0, 8, 5, 6, 3, 10, 4, 1, 9, 2})

	for _, c := range []struct {
		name string
		draw func(g *Legacy) float64
		want [2][3]float64
	}{
		{"uniform", (*Legacy).Float64, [2][3]float64{{0.5488135039, 0.7151893664, 0.6027633761}, {0.3745401188, 0.9507143064, 0.7319939418}}},
		{"exponential", (*Legacy).exponential, [2][3]float64{{0.7958745082, 1.2559307630, 0.9232231458}, {0.4692680900, 3.0101214309, 1.3167456935}}},
		{"gamma 1", func(g *Legacy) float64 { return g.Gamma(1, 1) }, [2][3]float64{{0.7958745082, 1.2559307630, 0.9232231458}, {0.4692680900, 3.0101214309, 1.3167456935}}},
		{"gamma 0.5", func(g *Legacy) float64 { return g.Gamma(0.5, 1) }, [2][3]float64{{0.3040018898, 0.3782717201, 0.1794833890}, {0.1402803006, 0.6590180328, 0.0243418162}}},
		{"gamma 2", func(g *Legacy) float64 { return g.Gamma(2, 1) }, [2][3]float64{{5.1388295763, 2.2384809118, 5.4271322744}, {2.3936793899, 1.4944647302, 1.3822835844}}},
	} {
		for i, seed := range []int64{0, 42} {
			g := mustLegacy(t, seed)
			for k, want := range c.want[i] {
				if got := c.draw(g); math.Abs(got-want) > 0.5000001e-10 {
					t.Errorf("(b) %s, seed %d, %d: got %.12f, want %.10f", c.name, seed, k, got, want)
				}
			}
		}
	}
	for seed, want := range map[int64][]int{0: {704, 871, 521, 789, 582, 984}, 42: {614, 947, 782, 618, 583, 532}} {
		g := mustLegacy(t, seed)
		equal(t, "(b) randint", times(6, func() int { return g.Randint(512, 1025) }), want)
	}

	for seed, want := range map[int64][]uint64{0: {11749869230777074271, 4976686463289251617}, 42: {14276969152011380360, 8095878257575067585}} {
		equal(t, "(c) u64", times(2, mustPCG(t, seed).Uint64), want)
	}
	for _, c := range []struct {
		seed   int64
		bounds [][3]int // low, high, how many
		want   []int
	}{
		{0, [][3]int{{0, 199998, 6}}, []int{170123, 127391, 102226, 53956, 61565, 8194}},
		{42, [][3]int{{0, 199998, 6}}, []int{17850, 154789, 130912, 87774, 86602, 171717}},
		{0, [][3]int{{0, 151643, 4}}, []int{128991, 96590, 77510, 40911}},
		{42, [][3]int{{0, 151643, 4}}, []int{13534, 117365, 99261, 66552}},
		{0, [][3]int{{512, 1537, 6}, {64, 193, 4}}, []int{1383, 1164, 1035, 788, 827, 553, 73, 66, 86, 168}},
		{42, [][3]int{{512, 1537, 6}, {64, 193, 4}}, []int{603, 1305, 1182, 961, 955, 1392, 75, 153, 89, 76}},
	} {
		g := mustPCG(t, c.seed)
		var got []int
		for _, b := range c.bounds {
			got = append(got, times(b[2], func() int { return g.Integers(b[0], b[1]) })...)
		}
		equal(t, fmt.Sprintf("(c) integers %v, seed %d", c.bounds, c.seed), got, c.want)
	}
}

// The schedules of bench.md 2.1: five arrivals at 10 a second.
func TestGammaSchedule(t *testing.T) {
	t.Parallel()
	for burstiness, want := range map[float64][]float64{
		1:   {0.09225866, 0.237847554, 0.34486861, 0.436121845, 0.5},
		0.5: {0.078640916, 0.176494368, 0.222924139, 0.272457924, 0.5},
		2:   {0.170861916, 0.245289591, 0.425737339, 0.448898273, 0.5},
	} {
		g, at, sum := mustLegacy(t, 0), make([]float64, 5), 0.0
		for i := range at {
			sum += g.Gamma(burstiness, 1/(10*burstiness))
			at[i] = sum
		}
		for i := range at {
			if got := at[i] * 0.5 / sum; math.Abs(got-want[i]) > 1e-9 {
				t.Errorf("burstiness %v, arrival %d: got %.9f, want %.9f", burstiness, i, got, want[i])
			}
		}
	}
}

// rng.json holds what CPython and numpy draw.
func TestGeneratorsReference(t *testing.T) {
	t.Parallel()
	type reals struct {
		Shape float64
		First []float64
		Sum   float64
	}
	var want struct {
		Python []struct {
			Seed                       int64
			U32                        []uint32
			Random                     []float64
			Choice, Choices, Shuffle12 []int
			Shuffle1000                string
		}
		Legacy []struct {
			Seed                             int64
			Uniform                          []float64
			Exponential                      reals
			Gamma                            []reals
			Randint                          []int
			Randint1000, Permutation, Sample string
		}
		PCG []struct {
			Seed                   int64
			U64                    []string
			Integers               []int
			Integers1000, Wide1000 string
		}
	}
	readJSON(t, "rng.json", &want)
	if len(want.Python) != 8 || len(want.Legacy) != 4 || len(want.PCG) != 5 {
		t.Fatalf("rng.json has %d, %d and %d seeds, want 8, 4 and 5", len(want.Python), len(want.Legacy), len(want.PCG))
	}
	for _, w := range want.Python {
		name := fmt.Sprintf("random, seed %d: ", w.Seed)
		equal(t, name+"u32", times(3, NewPython(w.Seed).Uint32), w.U32)
		g := NewPython(w.Seed)
		equal(t, name+"random", times(3, g.Float64), w.Random)
		var choice []int
		for _, n := range []int{1, 2, 7, 1000, 94145} {
			choice = append(choice, g.Below(n))
		}
		equal(t, name+"choice", choice, w.Choice)
		equal(t, name+"choices", times(4, func() int { return g.Pick(200018) }), w.Choices)
		equal(t, name+"shuffle of 12", shuffled(w.Seed, 12), w.Shuffle12)
		equal(t, name+"shuffle of 1000", []string{digest(shuffled(w.Seed, 1000))}, []string{w.Shuffle1000})
	}
	for _, w := range want.Legacy {
		name := fmt.Sprintf("numpy.random, seed %d: ", w.Seed)
		equal(t, name+"uniform", times(3, mustLegacy(t, w.Seed).Float64), w.Uniform)
		check := func(what string, w reals, draw func() float64) {
			t.Helper()
			got, sum := times(1000, draw), 0.0
			for _, v := range got {
				sum += v
			}
			if !near(append(got[:3:3], sum), append(w.First, w.Sum)) {
				t.Errorf("%s: got %v and sum %v, want %v and %v", name+what, got[:3], sum, w.First, w.Sum)
			}
		}
		g := mustLegacy(t, w.Seed)
		check("exponential", w.Exponential, func() float64 { return g.Gamma(1, 0.25) })
		for _, gamma := range w.Gamma {
			g := mustLegacy(t, w.Seed)
			check(fmt.Sprintf("gamma %v", gamma.Shape), gamma, func() float64 { return g.Gamma(gamma.Shape, 2.5) })
		}
		g = mustLegacy(t, w.Seed)
		equal(t, name+"randint", times(6, func() int { return g.Randint(512, 1025) }), w.Randint)
		g = mustLegacy(t, w.Seed)
		sums := []string{digest(times(1000, func() int { return g.Randint(0, 199998) }))}
		sums = append(sums, digest(mustLegacy(t, w.Seed).Permutation(1000)[:700]))
		g = mustLegacy(t, w.Seed)
		sums = append(sums, digest(times(1200, func() int { return g.Randint(0, 1000) })))
		equal(t, name+"1000 of randint, permutation, sample", sums, []string{w.Randint1000, w.Permutation, w.Sample})
	}
	for _, w := range want.PCG {
		name := fmt.Sprintf("default_rng, seed %d: ", w.Seed)
		g := mustPCG(t, w.Seed)
		equal(t, name+"u64", times(2, func() string { return strconv.FormatUint(g.Uint64(), 10) }), w.U64)
		g = mustPCG(t, w.Seed)
		got := times(5, func() int { return g.Integers(512, 1537) })
		got = append(got, times(3, func() int { return g.Integers(7, 8) })...)
		got = append(got, times(4, func() int { return g.Integers(64, 193) })...)
		equal(t, name+"integers", got, w.Integers)
		g = mustPCG(t, w.Seed)
		sums := []string{digest(times(1000, func() int { return g.Integers(0, 199998) }))}
		sums = append(sums, digest(times(1000, func() int { return g.Integers(0, 1<<32-2) })))
		equal(t, name+"1000 integers", sums, []string{w.Integers1000, w.Wide1000})
	}
}

func TestSeedsRefused(t *testing.T) {
	t.Parallel()
	for _, seed := range []int64{-1, 1 << 32, math.MinInt64} {
		if _, err := NewLegacy(seed); err == nil {
			t.Errorf("NewLegacy(%d) gives no error; numpy's seed does", seed)
		}
	}
	if _, err := NewPCG64(-1); err == nil {
		t.Error("NewPCG64(-1) gives no error; numpy's default_rng does")
	}
}

// A shape of 0 is what a burstiness of 0 would be: numpy draws nothing then.
func TestGammaZero(t *testing.T) {
	t.Parallel()
	g := mustLegacy(t, 0)
	if v := g.Gamma(0, 3); v != 0 {
		t.Errorf("gamma of shape 0 is %v, want 0", v)
	}
	if v := g.Float64(); math.Abs(v-0.5488135039) > 1e-9 {
		t.Errorf("gamma of shape 0 drew from the generator")
	}
}
