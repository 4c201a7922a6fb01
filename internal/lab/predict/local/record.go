package local

import (
	"math"

	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
)

// newCalibration is an empty one of a scenario's engine and machine.
func newCalibration(s predict.Scenario) *predict.Calibration {
	return &predict.Calibration{Machine: s.Machine.Name, Engine: s.Engine.Name, Versions: []string{s.Engine.Version}, Parameters: map[string]machine.Parameter{}}
}

// cover says what was covered, and how far predictions were off: twice the root of the mean square
// over the steps, which stands for intervals until other runs say better.
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
	for i := range trials {
		r := math.Log(trials[i].Ratio["duration_s"])
		total, n = total+r*r, n+1
	}
	c.Range.Devices = []int{1}
	spread := 2 * math.Sqrt(total/n)
	c.Spread = map[string]float64{"duration": spread, "ttft": spread, "tpot": spread}
}
