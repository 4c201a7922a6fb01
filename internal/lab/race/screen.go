package race

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A Prediction is the predicted objective of a candidate with its 95 % interval. An opaque
// one differs in what the predictor does not know (lab.md 4, item 2), and so does one of
// which it knows a bound only.
type Prediction struct {
	Name             string
	Value, Low, High float64
	Opaque           bool
}

// A Screened is a prediction with what becomes of its candidate.
type Screened struct {
	Prediction
	Rank    int // from 1, the best predicted first; 0 for opaque ones
	Dropped bool
	Reason  string
}

// Screen says, in the order given, which candidates need not be measured: those whose
// whole interval is worse than the whole interval of the best predicted one. Opaque ones
// are never dropped, and nothing is dropped for their sake.
func Screen(predictions []Prediction, lowerIsBetter bool) ([]Screened, error) {
	sign := 1.0
	if lowerIsBetter {
		sign = -1
	}
	out := make([]Screened, len(predictions))
	var order []int
	for i, prediction := range predictions {
		out[i] = Screened{Prediction: prediction, Reason: "kept: opaque to the predictor"}
		if prediction.Opaque {
			continue
		}
		if !(prediction.Low <= prediction.Value && prediction.Value <= prediction.High) || math.IsInf(prediction.High-prediction.Low, 0) {
			return nil, fmt.Errorf("race: prediction of %s is %v in [%v, %v]: want finite ends with the value between them", prediction.Name, prediction.Value, prediction.Low, prediction.High)
		}
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sign*out[b].Value, sign*out[a].Value) })
	for place, i := range order {
		best := out[order[0]]
		out[i].Rank = place + 1
		out[i].Reason = fmt.Sprintf("kept: its predicted interval reaches that of %s", best.Name)
		if place == 0 {
			out[i].Reason = "kept: best predicted"
		}
		worse := out[i].High < best.Low
		if lowerIsBetter {
			worse = out[i].Low > best.High
		}
		if worse {
			out[i].Dropped = true
			out[i].Reason = fmt.Sprintf("dropped: predicted %.4g [%.4g, %.4g], wholly worse than %s with %.4g [%.4g, %.4g]",
				out[i].Value, out[i].Low, out[i].High, best.Name, best.Value, best.Low, best.High)
		}
	}
	return out, nil
}
