package sample

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestLogprobs(t *testing.T) {
	half, third := float32(-math.Ln2), float32(-math.Log(3))
	tests := []struct {
		name   string
		logits []float32
		id     int32
		top    int
		want   []Logprob
	}{
		{"chosen only", []float32{0, 0}, 1, 0, []Logprob{{1, half}}},
		{"ties by id", []float32{2, 2, -inf}, 1, 3, []Logprob{{1, half}, {0, half}, {1, half}, {2, -inf}}},
		{"at most the vocabulary", []float32{5}, 0, 9, []Logprob{{0, 0}, {0, 0}}},
		{"NaN is impossible", []float32{nan, 1, 1, 1}, 0, 1, []Logprob{{0, -inf}, {1, third}}},
		{"NaN does not displace -Inf of a lower id", []float32{-inf, nan, -inf, 4}, 3, 2, []Logprob{{3, 0}, {3, 0}, {0, -inf}}},
		{"-Inf does not displace NaN of a lower id", []float32{nan, -inf, 4}, 2, 2, []Logprob{{2, 0}, {2, 0}, {0, -inf}}},
		{"infinities share", []float32{inf, 7, inf}, 2, 1, []Logprob{{2, half}, {0, half}}},
		{"nothing finite", []float32{nan, -inf}, 1, 1, []Logprob{{1, -inf}, {0, -inf}}},
		{"far apart", []float32{0, -1000}, 1, 0, []Logprob{{1, -1000}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Logprobs(tt.logits, tt.id, tt.top); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// The order of additions shows where numbers are lost beside larger ones: what a run of 1,024 ids
// adds up to is not lost beside the first run, in which each of the same numbers is.
func TestLogprobsRuns(t *testing.T) {
	const tiny = -38 // exp(-38) is 3.1e-17, below half a unit of 1 in float64
	logits := slices.Repeat([]float32{tiny}, 2*Run+1)
	logits[0] = 0
	for _, tt := range []struct {
		ids  int
		want float64 // how far the total is above 1
	}{{Run, 0}, {Run + 1, 0}, {2 * Run, Run * math.Exp(tiny)}, {2*Run + 1, Run * math.Exp(tiny)}} {
		// The unit of 1 in float64 is 2^-52: so exactly is the sum of a run added.
		got := -float64(Logprobs(logits[:tt.ids], 0, 0)[0].Logprob)
		if math.Abs(got-tt.want) > 0x1p-52 || (tt.want == 0) != (got == 0) {
			t.Errorf("%d ids: total is %g above 1, want %g", tt.ids, got, tt.want)
		}
	}
}

func TestLogprobsRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	var s Sampler
	for range 300 {
		logits := make([]float32, 1+rng.IntN(500))
		for i := range logits {
			logits[i] = float32(rng.IntN(100)) / 4 // many ties
		}
		id, top := rng.IntN(len(logits)), rng.IntN(len(logits)+1)
		got := s.Logprobs(nil, logits, int32(id), top)
		prob := softmax(logits, 1)
		for _, l := range got {
			if d := math.Abs(float64(l.Logprob) - math.Log(prob[l.ID])); d > 1e-5 {
				t.Fatalf("log probability of %d is off by %v", l.ID, d)
			}
		}
		ids := make([]int32, len(logits))
		for i := range ids {
			ids[i] = int32(i)
		}
		slices.SortStableFunc(ids, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
		for i, l := range got[1:] {
			if l.ID != ids[i] {
				t.Fatalf("place %d has id %d, want %d", i, l.ID, ids[i])
			}
		}
		if got[0].ID != int32(id) || len(got) != top+1 {
			t.Fatalf("%d entries with %v first, want %d with id %d", len(got), got[0], top+1, id)
		}
		if score := s.Score(nil, logits, int32(id), top); score.Rank != 1+slices.Index(ids, int32(id)) || !slices.Equal(score.Logprobs, got) {
			t.Fatalf("score of id %d is %+v, want rank %d and %v", id, score, 1+slices.Index(ids, int32(id)), got)
		}
	}
}
