package bench

import (
	"fmt"
	"math"
	"time"
)

// Arrivals is the arrival process (bench.md 1.3).
type Arrivals struct {
	Rate        float64 // requests per second; +Inf = all at once
	Burstiness  float64 // shape of the gamma distribution; 1 = Poisson, +Inf = even gaps
	Concurrency int     // most requests at once; 0 = no bound
	Ramp        Ramp
	Timed       bool // the queries say when they are sent
}

// A Ramp lets the rate rise; Strategy "" = none.
type Ramp struct {
	Strategy   string // linear, exponential
	Start, End float64
}

// Gamma draws from a gamma distribution. To send at the times of the Python tools it
// has to be the generator that numpy's global functions use, in the state in which the
// making of the workload left it.
type Gamma func(shape, scale float64) float64

const longestSchedule = 1e9 // seconds of a schedule: more is a mistake, and time.Duration ends at nine times that

// Times returns when each query of a workload is to be sent, since the start of the run
// (bench.md 1.3). Under LMDeploy and SGLang the first is sent at once and a gap follows
// each; otherwise a gap precedes each, and without a ramp all are stretched so that the
// last comes at n/rate. It fails if the arrivals or a time in the workload make no sense.
func (a Arrivals) Times(profile Profile, workload Workload, gamma Gamma) ([]time.Duration, error) {
	times := make([]time.Duration, len(workload))
	if a.Timed { // the queries know
		for i := range workload {
			if workload[i].At < 0 {
				return nil, fmt.Errorf("query %d: sent at %v; times count from the start of the run", i, workload[i].At)
			}
			times[i] = workload[i].At
		}
		return times, nil
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	for i, seconds := range a.delays(profile, len(workload), gamma) {
		if !(seconds >= 0 && seconds <= longestSchedule) {
			return nil, fmt.Errorf("query %d would be sent after %g s; raise the request rate", i, seconds)
		}
		times[i] = time.Duration(math.Round(seconds * 1e9))
	}
	return times, nil
}

// check refuses arrivals that no schedule can be made of.
func (a Arrivals) check() error {
	switch a.Ramp.Strategy { // conditions are such that NaN fails them
	case "":
		if !(a.Rate > 0) {
			return fmt.Errorf("request rate %g: want a number above 0, or inf", a.Rate)
		}
	case "linear", "exponential":
		if !math.IsInf(a.Rate, 1) {
			return fmt.Errorf("request rate %g: a ramp sets the rate itself; leave it at inf", a.Rate)
		}
		if ramp := a.Ramp; !(ramp.Start > 0 && ramp.Start <= ramp.End && ramp.End < math.Inf(1)) {
			return fmt.Errorf("ramp from %g to %g requests per second: want 0 < start <= end", ramp.Start, ramp.End)
		}
	default:
		return fmt.Errorf("ramp strategy %q: want linear or exponential", a.Ramp.Strategy)
	}
	if !(a.Burstiness > 0) {
		return fmt.Errorf("burstiness %g: want a number above 0, or inf", a.Burstiness)
	}
	return nil
}

// delays returns the schedule of so many queries in seconds.
func (a Arrivals) delays(profile Profile, count int, gamma Gamma) []float64 {
	delays := make([]float64, count)
	total := 0.0
	for i := range delays {
		gap := a.gap(a.rate(i, count), gamma)
		if profile.plain() {
			delays[i] = total
			total += gap
			continue
		}
		total += gap
		delays[i] = total
	}
	// Drawn gaps add up to n/rate on average only; vLLM stretches them until they do.
	if a.Ramp.Strategy == "" && !profile.plain() && total != 0 {
		stretch := float64(count) / a.Rate / total
		for i := range delays {
			delays[i] *= stretch
		}
	}
	return delays
}

// rate is the request rate when query i of n is sent.
func (a Arrivals) rate(i, n int) float64 {
	done := float64(i) / float64(max(n-1, 1))
	switch start, end := a.Ramp.Start, a.Ramp.End; a.Ramp.Strategy {
	case "linear":
		return start + (end-start)*done
	case "exponential":
		return start * math.Pow(end/start, done)
	}
	return a.Rate
}

// gap draws the seconds from one query to the next.
func (a Arrivals) gap(rate float64, gamma Gamma) float64 {
	if math.IsInf(rate, 1) {
		return 0
	}
	if math.IsInf(a.Burstiness, 1) {
		return 1 / rate
	}
	return gamma(a.Burstiness, 1/(rate*a.Burstiness))
}
