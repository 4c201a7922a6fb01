package modeltest

import (
	"fmt"
	"math"

	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A Diff is how far distributions over the next token are apart. Rows are logits
// or log probabilities: a constant added to a row changes nothing.
type Diff struct {
	Rows   int
	MaxAbs float64 // largest difference of a log probability that exceeds e^-20 in one of the two
	RelL2  float64 // of all log probabilities, to those wanted
	KL     float64 // mean over rows of KL(want ‖ got), in nats
	Argmax float64 // fraction of rows whose most likely id is the same or tied within Tie
}

// Tie is the gap between the two largest logits below which either may win,
// models.md 5.2.
const Tie = 2e-3

// Compare compares distributions row by row. A nil row of got is skipped: a
// runner gives none for the tokens inside a chunk.
func Compare(got, want [][]float64) (Diff, error) {
	if len(got) != len(want) {
		return Diff{}, fmt.Errorf("%d rows of logits, want %d", len(got), len(want))
	}
	var found Diff
	var num, den float64 // squares of differences and of what is wanted, over all rows
	agree := 0
	for i := range got {
		if got[i] == nil {
			continue
		}
		if len(got[i]) != len(want[i]) {
			return Diff{}, fmt.Errorf("row %d has %d logits, want %d", i, len(got[i]), len(want[i]))
		}
		gotLog, wantLog := logSoftmax(got[i]), logSoftmax(want[i])
		likeliest, best := 0, 0
		for id := range wantLog {
			diff := gotLog[id] - wantLog[id]
			if max(gotLog[id], wantLog[id]) > -20 || diff != diff {
				found.MaxAbs = max(found.MaxAbs, math.Abs(diff))
			}
			num += diff * diff
			den += wantLog[id] * wantLog[id]
			// Σ want·(log want - log got); what has no probability adds nothing.
			if prob := math.Exp(wantLog[id]); prob > 0 {
				found.KL -= prob * diff
			}
			if gotLog[id] > gotLog[likeliest] {
				likeliest = id
			}
			if wantLog[id] > wantLog[best] {
				best = id
			}
		}
		if wantLog[best]-wantLog[likeliest] < Tie {
			agree++
		}
		found.Rows++
	}
	if found.Rows == 0 {
		return Diff{}, fmt.Errorf("no rows to compare")
	}
	found.RelL2 = math.Sqrt(num / den)
	found.KL /= float64(found.Rows)
	found.Argmax = float64(agree) / float64(found.Rows)
	return found, nil
}

// A Tolerance bounds a Diff; 0 does not bound.
type Tolerance struct{ MaxAbs, RelL2, KL, Argmax float64 }

// Float32 is for an engine with float32 activations against the oracle, models.md 5.2.
func Float32() Tolerance { return Tolerance{MaxAbs: 2e-3, Argmax: 1} }

// Int8 is for an engine with int8 activations against the oracle, models.md 5.2.
func Int8() Tolerance { return Tolerance{KL: 1e-2, Argmax: 0.97} }

// Check reports the first bound that d exceeds.
func (d Diff) Check(t Tolerance) error {
	for _, limit := range []struct {
		name       string
		got, bound float64
	}{{"largest log probability difference", d.MaxAbs, t.MaxAbs}, {"relative L2", d.RelL2, t.RelL2}, {"mean KL", d.KL, t.KL}} {
		if limit.bound > 0 && !(limit.got <= limit.bound) {
			return fmt.Errorf("%s over %d rows is %.3g, want at most %.3g", limit.name, d.Rows, limit.got, limit.bound)
		}
	}
	if d.Argmax < t.Argmax {
		return fmt.Errorf("most likely id agrees in %.4g of %d rows, want at least %.4g", d.Argmax, d.Rows, t.Argmax)
	}
	return nil
}

// Distributions feeds tokens to a runner in chunks and returns the log
// probabilities after each chunk's last token, [tokens][vocab], nil inside chunks.
// The runner must be idle; slot 0 and the first blocks of each group are used.
func Distributions(r runner.Runner, tokens []int32, chunk int) ([][]float64, error) {
	info := r.Info()
	params := &sample.Params{Logprobs: true, TopLogprobs: info.Vocab}
	tables := make([][]runner.BlockID, len(info.Groups))
	for group := range tables {
		for k := range (len(tokens) + info.BlockSize - 1) / info.BlockSize {
			tables[group] = append(tables[group], runner.BlockID(k))
		}
	}
	// The chosen id and all others, by likelihood, are asked for as log probabilities.
	out := make([][]float64, len(tokens))
	for start := 0; start < len(tokens); start += chunk {
		end := min(start+chunk, len(tokens))
		batch := &runner.Batch{Tokens: tokens[start:end], Rows: []runner.Row{{Start: start, Len: end - start, Tables: tables,
			Sample: true, OutputIndex: uint64(start), Params: params, History: tokens[:end]}}}
		if err := runner.Check(batch, info); err != nil {
			return nil, err
		}
		if err := r.Launch(batch); err != nil {
			return nil, fmt.Errorf("tokens %d to %d: %w", start, end, err)
		}
		res, err := r.Collect()
		if err != nil {
			return nil, fmt.Errorf("tokens %d to %d: %w", start, end, err)
		}
		if len(res.Logprobs) != 1 || len(res.Logprobs[0]) != 1+info.Vocab {
			return nil, fmt.Errorf("tokens %d to %d: log probabilities of %d rows, want 1 with the chosen id and all %d", start, end, len(res.Logprobs), info.Vocab)
		}
		out[end-1] = make([]float64, info.Vocab)
		for _, logprob := range res.Logprobs[0][1:] {
			out[end-1][logprob.ID] = float64(logprob.Logprob)
		}
	}
	return out, nil
}

// logSoftmax returns the log probabilities of logits.
func logSoftmax(x []float64) []float64 {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, v)
	}
	for _, v := range x {
		sum += math.Exp(v - top)
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v - top - math.Log(sum)
	}
	return y
}
