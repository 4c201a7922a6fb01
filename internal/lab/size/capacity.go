package size

import (
	"context"
	"fmt"
	"math"

	"ossian/internal/bench/sweep"
	"ossian/internal/lab/predict"
)

// A Replica is one server under load. More than one goroutine may ask.
type Replica interface {
	// At is what a client would see at a rate of requests per second, as long as the rate lasts.
	At(ctx context.Context, rate float64) (Seen, error)
	// Full is how many requests per second it answers at most, with requests that are all there
	// from the beginning. Its interval is the prediction's own error of the time that work takes.
	Full(ctx context.Context) (predict.Estimate, error)
}

// Seen is what a client sees.
type Seen struct {
	Metrics  map[string]predict.Estimate // keys of bench.md 1.8
	Seconds  float64                     // for which requests were sent
	Tokens   float64                     // of a request in the mean, prompt and answer
	Output   float64                     // of an answer in the mean
	Bound    bool                        // it is a bound: kernels without an efficiency
	Unknown  []string
	Assumed  []string
	Settings predict.Settings
}

// A view is which end of the intervals is believed.
type view int

const (
	expected   view = iota
	cautious        // the worse end
	optimistic      // the better end
)

// of returns the end of a latency's interval.
func (v view) of(e predict.Estimate) float64 {
	switch v {
	case cautious:
		return e.High
	case optimistic:
		return e.Low
	}
	return e.Value
}

// A Violation is an objective that does not hold, or the rate itself, which queues outgrow.
type Violation struct {
	Objective string  `json:"objective"` // as it was given
	Metric    string  `json:"metric"`
	Value     float64 `json:"value"`
	Target    float64 `json:"target"`
	By        float64 `json:"by"` // share by which the value is on the wrong side
}

// String says by how much.
func (v Violation) String() string {
	return fmt.Sprintf("%s is %s, by %.0f %%", v.Objective, digits(v.Value), 100*v.By)
}

// digits prints three significant digits without an exponent.
func digits(v float64) string {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return fmt.Sprint(v)
	}
	places := max(2-int(math.Floor(math.Log10(math.Abs(v)))), 0)
	return fmt.Sprintf("%.*f", min(places, 9), v)
}

// queueShare is which share of the time of sending the mean wait may grow to. At x times more
// than a server can do the queue grows steadily and the mean wait is x/2 of that time; a server
// that keeps up has a wait that does not depend on it.
const queueShare = 0.01

// worst returns the objective that is missed by the largest share; By ≤ 0: all hold. Objectives are
// of latencies.
func worst(seen *Seen, sla sweep.SLA, v view) (Violation, error) {
	out := Violation{By: math.Inf(-1)}
	consider := func(one Violation) {
		if one.By > out.By {
			out = one
		}
	}
	for _, objective := range sla {
		estimate, ok := seen.Metrics[objective.Metric]
		if !ok {
			return out, fmt.Errorf("objective %s: no such metric is predicted", objective.Metric)
		}
		value := v.of(estimate)
		by := value/objective.Target - 1
		if by == 0 && objective.Op == "<" { // which excludes the bound
			by = math.SmallestNonzeroFloat64
		}
		consider(Violation{objectiveText(objective), objective.Metric, value, objective.Target, by})
	}
	if seen.Seconds > 0 {
		wait := v.of(seen.Metrics["mean_ttft_ms"]) / 1e3
		consider(Violation{"a queue that does not grow", "mean_ttft_ms", 1e3 * wait, 1e3 * queueShare * seen.Seconds, wait/(queueShare*seen.Seconds) - 1})
	}
	return out, nil
}

// A search finds the highest rate that a replica keeps. Its predicate is taken to be monotone:
// what is kept at a rate is kept below it.
type search struct {
	replica Replica
	sla     sweep.SLA
	seen    map[float64]*Seen
}

// at asks once for each rate.
func (s *search) at(ctx context.Context, rate float64) (*Seen, error) {
	if seen, ok := s.seen[rate]; ok {
		return seen, nil
	}
	seen, err := s.replica.At(ctx, rate)
	if err != nil {
		return nil, err
	}
	if s.seen == nil {
		s.seen = map[float64]*Seen{}
	}
	s.seen[rate] = &seen
	return &seen, nil
}

// kept reports whether every objective holds at a rate.
func (s *search) kept(ctx context.Context, rate float64, v view) (bool, error) {
	seen, err := s.at(ctx, rate)
	if err != nil {
		return false, err
	}
	violation, err := worst(seen, s.sla, v)
	return violation.By <= 0, err
}

// Bounds of what is searched: requests per second.
const (
	slowest = 1e-4
	fastest = 1e6
)

// Rates are looked at on a grid, so that what was predicted at one serves every view.
func gridRate(step int) float64 { return math.Exp(float64(step) * refined) }

// highest bisects steps of the grid from a guess on, until they differ by at most width steps;
// 0 = not even the slowest rate is kept.
func (s *search) highest(ctx context.Context, guess float64, width int, v view) (float64, error) {
	if ok, err := s.kept(ctx, slowest, v); err != nil || !ok {
		return 0, err // not even alone
	}
	at := int(math.Round(math.Log(guess) / refined))
	low, high := math.MinInt, math.MaxInt
	for stride := 8 * width; low == math.MinInt || high == math.MaxInt; stride = min(2*stride, 300) {
		ok, err := s.kept(ctx, gridRate(at), v)
		if err != nil {
			return 0, err
		}
		if ok {
			low, at = at, at+stride
		} else {
			high, at = at, at-stride
		}
		switch {
		case gridRate(at) <= slowest:
			return 0, nil
		case gridRate(at) > fastest:
			return gridRate(low), nil
		}
	}
	for high-low > width {
		middle := (low + high) / 2
		ok, err := s.kept(ctx, gridRate(middle), v)
		if err != nil {
			return 0, err
		}
		if ok {
			low = middle
		} else {
			high = middle
		}
	}
	return math.Sqrt(gridRate(low) * gridRate(high)), nil
}

// Capacity returns the rate that a replica keeps without missing an objective of a latency. A Value of
// 0 has the violation that stands in the way of the slowest rate.
//
// Its interval follows from the prediction's own error. If all work took f times as long, a server
// would see at rate r what it now sees at f·r, in times f times as long: it would keep C(target/f)/f.
// The targets meet the ends of the latencies' intervals, and the rate itself that of Full.
func Capacity(ctx context.Context, replica Replica, sla sweep.SLA) (predict.Estimate, Violation, error) {
	if err := CheckObjectives(sla); err != nil {
		return predict.Estimate{}, Violation{}, err
	}
	full, err := replica.Full(ctx)
	if err != nil {
		return full, Violation{}, err
	}
	s := search{replica: replica, sla: sla}
	return s.capacity(ctx, full, full.Value, 1)
}

const (
	refined = 0.01 // logarithm of the ratio of neighbouring rates
	coarse  = 8    // steps between which a rough search stops
)

// capacity searches from a guess on until the ends are width steps apart; only the finest search looks
// at the ends of intervals. full is the replica's Full.
func (s *search) capacity(ctx context.Context, full predict.Estimate, guess float64, width int) (out predict.Estimate, violation Violation, err error) {
	if out.Value, err = s.highest(ctx, guess, width, expected); err != nil {
		return out, violation, err
	}
	if out.Value == 0 {
		seen, err := s.at(ctx, slowest)
		if err != nil {
			return out, violation, err
		}
		violation, err = worst(seen, s.sla, expected)
		return out, violation, err
	}
	out.Low, out.High = out.Value, out.Value
	if width > 1 || s.exact() {
		return out, violation, nil
	}
	if out.Low, err = s.highest(ctx, out.Value, width, cautious); err != nil {
		return out, violation, err
	}
	out.High, err = s.highest(ctx, out.Value, width, optimistic)
	out.Low = math.Min(out.Low, out.Value) * full.Low / full.Value
	out.High = math.Max(out.High, out.Value) * full.High / full.Value
	return out, violation, err
}

// exact reports whether what was seen has no intervals, as bounds have none.
func (s *search) exact() bool {
	for _, seen := range s.seen {
		return seen.Bound
	}
	return false
}
