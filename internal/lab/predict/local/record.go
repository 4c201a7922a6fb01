package local

import (
	"math"

	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
)

// newCalibration is an empty one of a scenario's engine and machine. It covers the engine's version
// from the start: the fit runs the clock with it.
func newCalibration(s predict.Scenario) *predict.Calibration {
	return &predict.Calibration{Machine: s.Machine.Name, Engine: s.Engine.Name, Versions: map[string]int{s.Engine.Version: 1}, Parameters: map[string]machine.Parameter{}}
}

// leastOff is the smallest standard error that is believed of a prediction, as a logarithm.
const leastOff = 0.01

// cover says what was covered, and how far predictions were off. The standard error is the root of the
// mean square over steps and whole runs; intervals are as wide as the largest miss of a whole run
// asks for, and at least as the normal distribution has them.
func cover(c *predict.Calibration, steps []*Step, trials []Trial) {
	total, n := 0.0, 0.0
	for _, step := range steps {
		r := math.Log(step.Fitted / step.Seconds)
		total, n = total+r*r, n+1
		for i := range step.Rows {
			c.Range.Context = math.Max(c.Range.Context, float64(step.Rows[i].Start+step.Rows[i].Len))
		}
		c.Range.Sequences = math.Max(c.Range.Sequences, float64(len(step.Rows)))
	}
	off := math.Max(math.Sqrt(total/n), leastOff)
	quantiles := map[string]float64{}
	for _, key := range []string{"duration_s", "mean_ttft_ms", "mean_tpot_ms"} {
		quantiles[key] = 1.96
		for i := range trials {
			if ratio, ok := trials[i].Ratio[key]; ok {
				quantiles[key] = math.Max(quantiles[key], math.Abs(math.Log(ratio))/off)
			}
		}
	}
	c.Spread = predict.Spread{Discrepancy: off, Quantile: quantiles["duration_s"], Quantiles: quantiles}
	c.Range.Devices = []int{1}
	for version := range c.Versions {
		c.Versions[version] = len(steps) + len(trials)
	}
}
