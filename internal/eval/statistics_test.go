package eval

import (
	"compress/gzip"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"ossian/internal/soak"
	"ossian/internal/stat"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9) {
		t.Errorf("%s: %.15g, numpy and scipy give %.15g", what, got, want)
	}
}

// TestStatistics: scores, intervals and differences are those of numpy and scipy
// (testdata/README.md).
func TestStatistics(t *testing.T) {
	file, err := os.Open("testdata/statistics.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Repeats     int
		Wins, Other []int
		Mean        float64
		SRun        *float64 `json:"s_run"`
		SQuestions  float64  `json:"s_questions"`
		T, Wilson   []float64
		Pass, Agree float64
		Difference  float64
		SPaired     float64 `json:"s_paired"`
		Least       float64
		P           *float64
	}
	if err := json.NewDecoder(unpacked).Decode(&cases); err != nil {
		t.Fatal(err)
	}
	exact := 0
	for _, c := range cases {
		var a, b []Tally
		right := 0.0
		for i := range c.Wins {
			a, b = append(a, Tally{c.Wins[i], c.Repeats}), append(b, Tally{c.Other[i], c.Repeats})
			right += float64(c.Wins[i])
		}
		s, ok := newScore(a)
		if !ok || (s.Run == nil) != (c.SRun == nil) {
			t.Fatalf("%d questions: %+v", len(a), s)
		}
		near(t, "mean", s.Mean, c.Mean)
		if s.Run != nil {
			near(t, "s_run", s.Run.S, *c.SRun)
		}
		near(t, "s_questions", s.Sample.S, c.SQuestions)
		want := c.T
		if q := float64(len(a)); c.Repeats == 1 && (min(right, q-right) < few || c.SQuestions == 0) {
			want = c.Wilson
		}
		near(t, "low", s.Sample.Low, max(want[0], 0))
		near(t, "high", s.Sample.High, min(want[1], 1))
		if len(c.Wilson) > 0 {
			w := stat.Wilson(right, float64(len(a)), stat.Confidence)
			near(t, "wilson low", w.Low, c.Wilson[0])
			near(t, "wilson high", w.High, c.Wilson[1])
		}
		near(t, "pass", s.Pass, c.Pass)
		near(t, "agree", s.Agree, c.Agree)
		if s.Bootstrap.Low > s.Mean || s.Bootstrap.High < s.Mean {
			t.Errorf("bootstrap %v around %v", s.Bootstrap, s.Mean)
		}
		d, ok := newDifference(a, b)
		if !ok {
			t.Fatalf("%d questions: no difference", len(a))
		}
		near(t, "difference", d.Delta, c.Difference)
		near(t, "s_paired", d.Paired.S, c.SPaired)
		near(t, "least", d.Least, c.Least)
		if c.P != nil {
			near(t, "p", d.P, *c.P)
			exact++
		}
	}
	if exact < 2 {
		t.Errorf("%d exact tests compared", exact)
	}
}

// TestEdges: scores of nothing and of one question.
func TestEdges(t *testing.T) {
	if _, ok := newScore([]Tally{{0, 0}}); ok {
		t.Error("a score of nothing")
	}
	s, ok := newScore([]Tally{{1, 1}, {0, 0}})
	if !ok || s.Questions != 1 || s.Sample != nil || s.Run != nil || s.Mean != 1 {
		t.Errorf("one question: %+v", s)
	}
	if _, ok := newDifference([]Tally{{1, 1}, {0, 0}}, []Tally{{1, 1}, {1, 1}}); ok {
		t.Error("a difference of one question")
	}
	s, _ = newScore([]Tally{{4, 4}, {4, 4}, {4, 4}})
	if s.Sample.High != 1 || s.Sample.Low > 0.5 || s.Run.S != 0 {
		t.Errorf("all right: %+v, %+v", s.Sample, s.Run)
	}
	d, _ := newDifference([]Tally{{4, 4}, {4, 4}}, []Tally{{4, 4}, {4, 4}})
	if d.P != 1 || d.Delta != 0 {
		t.Errorf("the same: %+v", d)
	}
}

// Models for simulations: the chance of a right answer to each question is drawn from a beta
// distribution, as those of hard benchmarks look: many always right, some never.
var models = []distuv.Beta{{Alpha: 2, Beta: 1}, {Alpha: 1.2, Beta: 0.8}, {Alpha: 3, Beta: 3}}

// TestCoverage: the interval for the same questions holds the mean of their chances, and that for
// questions like these the mean of the distribution, in 93 to 97 % of simulated models.
func TestCoverage(t *testing.T) {
	simulated := soak.Cases(t, 2000, 20000)
	for _, q := range []int{30, 198} {
		for _, repeats := range []int{1, 4, 8} {
			random := rand.New(rand.NewPCG(uint64(q), uint64(repeats)))
			run, sample := 0, 0
			for i := range simulated {
				model := models[i%len(models)]
				model.Src = random
				tallies, truth := make([]Tally, q), 0.0
				for k := range tallies {
					p := model.Rand()
					truth += p / float64(q)
					tallies[k] = answered(random, p, repeats)
				}
				s := scoreWithoutBootstrap(tallies)
				if s.Sample.Low <= model.Mean() && model.Mean() <= s.Sample.High {
					sample++
				}
				if s.Run != nil && s.Run.Low <= truth && truth <= s.Run.High {
					run++
				}
			}
			for what, held := range map[string]int{"run": run, "questions": sample} {
				share := float64(held) / float64(simulated)
				if what == "run" && repeats == 1 {
					continue
				}
				t.Logf("%d questions, %d answers each, ±%s: %.1f %%", q, repeats, what, 100*share)
				if share < 0.93 || share > 0.97 {
					t.Errorf("%d questions, %d answers each: ±%s holds the truth in %.1f %% of %d models", q, repeats, what, 100*share, simulated)
				}
			}
		}
	}
}

func answered(random *rand.Rand, p float64, repeats int) Tally {
	tally := Tally{Asked: repeats}
	for range repeats {
		if random.Float64() < p {
			tally.Right++
		}
	}
	return tally
}

// scoreWithoutBootstrap is newScore without what takes longest.
func scoreWithoutBootstrap(tallies []Tally) Score {
	old := resamplings
	resamplings = 1
	defer func() { resamplings = old }()
	s, _ := newScore(tallies)
	return s
}

// TestFalseAlarms: of two runs of one model that do not differ, at most 6 % are said to.
func TestFalseAlarms(t *testing.T) {
	pairs := soak.Cases(t, 600, 20000)
	old := flips
	flips = 1000
	defer func() { flips = old }()
	for _, c := range []struct{ q, repeats int }{{30, 1}, {30, 8}, {198, 1}} {
		random := rand.New(rand.NewPCG(7, uint64(c.q*c.repeats)))
		alarms := 0
		for i := range pairs {
			model := models[i%len(models)]
			model.Src = random
			var a, b []Tally
			for range c.q {
				p := model.Rand()
				a, b = append(a, answered(random, p, c.repeats)), append(b, answered(random, p, c.repeats))
			}
			d, _ := newDifference(a, b)
			all := []Comparison{{Diff: d}}
			if holm(all, []int{0}); all[0].Diff.Shown {
				alarms++
			}
		}
		share := float64(alarms) / float64(pairs)
		t.Logf("%d questions, %d answers each: %.1f %% false alarms", c.q, c.repeats, 100*share)
		if share > 0.06 {
			t.Errorf("%d questions, %d answers each: %.1f %% of %d pairs without a difference are said to differ", c.q, c.repeats, 100*share, pairs)
		}
	}
}
