package race

import (
	"math"
	"math/rand/v2"
	"testing"

	"ossian/internal/soak"
)

// missed simulates independent normal values and says at which count, of at most until,
// the interval of the limit first misses their mean, 0; 0 for never.
func missed(l *limit, until int, draw func() float64) int {
	mean, squares := 0.0, 0.0
	for n := 1; n <= until; n++ {
		away := draw() - mean
		mean += away / float64(n)
		squares += away * away * float64(n-1) / float64(n)
		if n >= firstLook && math.Abs(mean) > l.at(n)*math.Sqrt(squares/float64(n-1)/float64(n)) {
			return n
		}
	}
	return 0
}

// What the computation promises: by each block the share of the level that is spent by it,
// no more and no less, before and after the last planned one. The simulation shares
// nothing with the computation but the definition of the interval.
func TestLimitSpendsItsLevel(t *testing.T) {
	runs := soak.Cases(t, 20000, 400000)
	for _, c := range []struct {
		level   float64
		planned int
	}{{0.05, 20}, {0.05, 6}, {0.2, 3}, {0.01, 20}, {0.05, 40}} {
		l := newLimit(c.level, c.planned)
		until := 2 * c.planned
		rng := rand.New(rand.NewPCG(7, uint64(c.planned)))
		first := make([]int, until+1)
		for range runs {
			first[missed(l, until, rng.NormFloat64)]++
		}
		sum := 0
		for n := firstLook; n <= until; n++ {
			sum += first[n]
			if n != c.planned/2 && n != c.planned && n != until {
				continue
			}
			want := c.level * spent(n, c.planned) * float64(runs)
			if spread := math.Sqrt(max(want, 1)); math.Abs(float64(sum)-want) > 4*spread+0.02*want {
				t.Errorf("level %v, %d planned: %d of %d miss by block %d, want %.0f", c.level, c.planned, sum, runs, n, want)
			}
		}
		t.Logf("level %v, %d planned: %.3f %% miss by block %d", c.level, c.planned, 100*float64(sum)/float64(runs), until)
	}
}

// The limits are those of Student's t where they are known in closed form, and never
// below the t of one look.
func TestLimitOfFirstLook(t *testing.T) {
	l := newLimit(0.1, 3) // all but what is kept for later is spent on the first look
	share := 0.1 * (1 - spendLater)
	// With 2 degrees of freedom P(|t| > x) = 1 - x/√(2+x²).
	if x := l.at(firstLook); math.Abs(1-x/math.Sqrt(2+x*x)-share) > 1e-12 {
		t.Errorf("t after %d blocks is %v, which is exceeded with %v, want %v", firstLook, x, 1-x/math.Sqrt(2+x*x), share)
	}
}

// Holm's procedure needs that a smaller level gives a wider interval at every block.
func TestLimitsAreNested(t *testing.T) {
	for _, planned := range []int{3, 6, 20, 60} {
		narrow := newLimit(0.05, planned)
		for _, candidates := range []int{2, 3, 5, 10, 40, 400} {
			wide := newLimit(0.05/float64(candidates), planned)
			for n := firstLook; n <= planned+10; n++ {
				if !(wide.at(n) > narrow.at(n)) || math.IsInf(wide.at(n), 0) {
					t.Fatalf("%d planned, %d candidates: t after %d blocks is %v, at the greater level %v", planned, candidates, n, wide.at(n), narrow.at(n))
				}
			}
			narrow = wide
		}
	}
}
