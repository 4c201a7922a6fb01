package eval

import (
	"math"

	"ossian/internal/stat"
)

// Resamplings and draws, each with the seed 0, so that a result is the same again. Tests that need
// many scores set fewer.
var (
	resamplings = 10_000
	flips       = 100_000
)

// A Tally is how often a question was answered, and rightly so.
type Tally struct{ Right, Asked int }

func (t Tally) share() float64 { return float64(t.Right) / float64(t.Asked) }

// variance is the estimate of the variance of one answer to the question; false with one answer.
func (t Tally) variance() (float64, bool) {
	if t.Asked < 2 {
		return 0, false
	}
	p := t.share()
	return p * (1 - p) * float64(t.Asked) / float64(t.Asked-1), true
}

// A Spread is how far a score may be off: its standard error, and the interval of 95 %.
type Spread struct {
	S float64 `json:"s"`
	stat.Interval
}

// A Score is the share of right answers with what can be said of it.
type Score struct {
	Mean      float64       `json:"mean"`          // of the shares of the questions
	Deviation float64       `json:"std"`           // of the single 0 and 1, as the published evaluation prints it
	Questions int           `json:"questions"`     // that were answered once at least
	Answers   int           `json:"answers"`       // in all
	Run       *Spread       `json:"run,omitempty"` // would the same questions give this again? null with one answer each
	Sample    *Spread       `json:"sample"`        // how good is the model on such questions? null for one question
	Pass      float64       `json:"pass"`          // share of questions that were answered rightly once at least
	Agree     float64       `json:"agree"`         // share of questions whose answers are all right or all wrong
	Bootstrap stat.Interval `json:"bootstrap"`     // over questions, a check of Sample
	variance  float64       // mean over questions of the variance of one answer
}

// few is how many right or wrong answers make a share near 0 or 1: Student's interval needs more.
const few = 10

// newScore computes the score of questions; those that were never answered are in none. false of
// nothing.
func newScore(tallies []Tally) (score Score, ok bool) {
	var shares []float64
	var run, weight, squares, right float64 // squares: of variances by their degrees of freedom
	repeated := true
	for _, tally := range tallies {
		if tally.Asked == 0 {
			continue
		}
		share := tally.share()
		shares = append(shares, share)
		score.Answers += tally.Asked
		right += float64(tally.Right)
		if tally.Right > 0 {
			score.Pass++
		}
		if tally.Right == 0 || tally.Right == tally.Asked {
			score.Agree++
		}
		one, ok := tally.variance()
		if !ok {
			repeated = false
			continue
		}
		of := one / float64(tally.Asked) // of the share
		run, weight = run+of, weight+one
		squares += of * of / float64(tally.Asked-1)
	}
	questions := float64(len(shares))
	if questions == 0 {
		return score, false
	}
	score.Questions, score.Mean = len(shares), stat.Mean(shares)
	score.Pass, score.Agree, score.variance = score.Pass/questions, score.Agree/questions, weight/questions
	all := right / float64(score.Answers)
	score.Deviation = math.Sqrt(all * (1 - all))
	if repeated {
		score.Run = runSpread(score.Mean, run, squares, questions)
	}
	score.Sample = sampleSpread(shares, right, score.Answers)
	score.Bootstrap = stat.BootstrapMean(shares, resamplings, stat.Confidence, 0)
	return score, true
}

// runSpread is that of the mean over the same questions: the variances of their shares, estimated
// apart, with Satterthwaite's degrees of freedom, for questions that are always answered alike tell
// nothing of the others' variance.
func runSpread(mean, sum, squares, q float64) *Spread {
	spread := &Spread{S: math.Sqrt(sum) / q, Interval: stat.Interval{Low: mean, High: mean}}
	if sum > 0 {
		half := stat.QuantileT(sum*sum/squares, (1+stat.Confidence)/2) * spread.S
		spread.Low, spread.High = max(mean-half, 0), min(mean+half, 1)
	}
	return spread
}

// sampleSpread is that of the mean over questions like these: Student's interval over questions,
// of which repeats are no more. Near 0 and 1, with one answer each or without any spread, it is
// Wilson's.
func sampleSpread(shares []float64, right float64, answers int) *Spread {
	questions := float64(len(shares))
	interval, ok := stat.MeanInterval(shares, stat.Confidence)
	if !ok {
		return nil
	}
	mean := stat.Mean(shares)
	spread := &Spread{S: stat.Std(shares) / math.Sqrt(questions-1), Interval: interval}
	single := answers == len(shares) && min(right, questions-right) < few
	if single || spread.S == 0 {
		spread.Interval = stat.Wilson(mean*questions, questions, stat.Confidence)
	}
	spread.Low, spread.High = max(spread.Low, 0), min(spread.High, 1)
	return spread
}

// A Difference is what two runs on the same questions differ by.
type Difference struct {
	Delta     float64 `json:"delta"`           // mean of b - mean of a, over the questions that both answered
	Questions int     `json:"questions"`       // of these
	Paired    Spread  `json:"paired"`          // of Delta, over questions
	Run       float64 `json:"run,omitempty"`   // standard error of Delta by chance alone: both runs' s_run; 0 = not known
	P         float64 `json:"p"`               // chance of so large a difference if there is none, by flipping signs
	Least     float64 `json:"least,omitempty"` // the smallest difference that this size shows with 80 % power; 0 = not known
	Shown     bool    `json:"shown"`           // after Holm, over all runs compared
}

// power is the chance with which the least difference is found.
const power = 0.8

// newDifference compares two runs question by question; false of fewer than two in common.
func newDifference(a, b []Tally) (difference Difference, ok bool) {
	var each []float64
	run, known := 0.0, true
	for i := range min(len(a), len(b)) {
		if a[i].Asked == 0 || b[i].Asked == 0 {
			continue
		}
		each = append(each, b[i].share()-a[i].share())
		// Both runs vary by chance, and the variance of their difference is the sum of both.
		for _, t := range []Tally{a[i], b[i]} {
			one, ok := t.variance()
			known = known && ok
			run += one / float64(t.Asked)
		}
	}
	interval, ok := stat.MeanInterval(each, stat.Confidence)
	if !ok {
		return difference, false
	}
	questions := float64(len(each))
	difference = Difference{Delta: stat.Mean(each), Questions: len(each), P: stat.SignFlip(each, flips, 0)}
	difference.Paired = Spread{stat.Std(each) / math.Sqrt(questions-1), interval}
	difference.Least = (stat.QuantileT(questions-1, (1+stat.Confidence)/2) + stat.QuantileT(questions-1, power)) * difference.Paired.S
	if known {
		difference.Run = math.Sqrt(run) / questions
	}
	return difference, true
}

// holm marks which of the comparisons at some places show a difference.
func holm(all []Comparison, at []int) {
	var values []float64
	for _, i := range at {
		values = append(values, all[i].Diff.P)
	}
	for k, shown := range stat.Significant(values, 1-stat.Confidence) {
		all[at[k]].Diff.Shown = shown
	}
}
