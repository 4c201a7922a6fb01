package bench

import (
	"fmt"
	"math"
	"time"
)

// Gamma draws from a gamma distribution. To send at the times of the Python tools it
// has to be the generator that numpy's global functions use, in the state in which the
// making of the workload left it.
type Gamma func(shape, scale float64) float64

const longest = 1e9 // seconds of a schedule: more is a mistake, and time.Duration ends at nine times that

// Times returns when each query of w is to be sent, since the start of the run
// (bench.md 1.3). Under LMDeploy and SGLang the first is sent at once and a gap follows
// each; otherwise a gap precedes each, and without a ramp all are stretched so that the
// last comes at n/rate. It fails if a or a time in w makes no sense.
func (a Arrivals) Times(p Profile, w Workload, gamma Gamma) ([]time.Duration, error) {
	times := make([]time.Duration, len(w))
	if a.Timed {
		for i := range w {
			if w[i].At < 0 {
				return nil, fmt.Errorf("query %d: sent at %v; times count from the start of the run", i, w[i].At)
			}
			times[i] = w[i].At
		}
		return times, nil
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	for i, s := range a.delays(p, len(w), gamma) {
		if !(s >= 0 && s <= longest) {
			return nil, fmt.Errorf("query %d would be sent after %g s; raise the request rate", i, s)
		}
		times[i] = time.Duration(math.Round(s * 1e9))
	}
	return times, nil
}

func (a Arrivals) check() error {
	switch a.Ramp.Strategy {
	case "":
		if !(a.Rate > 0) {
			return fmt.Errorf("request rate %g: want a number above 0, or inf", a.Rate)
		}
	case "linear", "exponential":
		if !math.IsInf(a.Rate, 1) {
			return fmt.Errorf("request rate %g: a ramp sets the rate itself; leave it at inf", a.Rate)
		}
		if r := a.Ramp; !(r.Start > 0 && r.Start <= r.End && r.End < math.Inf(1)) {
			return fmt.Errorf("ramp from %g to %g requests per second: want 0 < start <= end", r.Start, r.End)
		}
	default:
		return fmt.Errorf("ramp strategy %q: want linear or exponential", a.Ramp.Strategy)
	}
	if !(a.Burstiness > 0) {
		return fmt.Errorf("burstiness %g: want a number above 0, or inf", a.Burstiness)
	}
	return nil
}

// delays returns the schedule of n queries in seconds.
func (a Arrivals) delays(p Profile, n int, gamma Gamma) []float64 {
	d := make([]float64, n)
	sum := 0.0
	for i := range d {
		gap := a.gap(a.rate(i, n), gamma)
		if p.plain() {
			d[i] = sum
			sum += gap
			continue
		}
		sum += gap
		d[i] = sum
	}
	if a.Ramp.Strategy == "" && !p.plain() && sum != 0 {
		stretch := float64(n) / a.Rate / sum
		for i := range d {
			d[i] *= stretch
		}
	}
	return d
}

// rate is the request rate when query i of n is sent.
func (a Arrivals) rate(i, n int) float64 {
	done := float64(i) / float64(max(n-1, 1))
	switch s, e := a.Ramp.Start, a.Ramp.End; a.Ramp.Strategy {
	case "linear":
		return s + (e-s)*done
	case "exponential":
		return s * math.Pow(e/s, done)
	}
	return a.Rate
}

func (a Arrivals) gap(rate float64, gamma Gamma) float64 {
	if math.IsInf(rate, 1) {
		return 0
	}
	if math.IsInf(a.Burstiness, 1) {
		return 1 / rate
	}
	return gamma(a.Burstiness, 1/(rate*a.Burstiness))
}
