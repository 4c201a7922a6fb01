package calibrate

import (
	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
)

// A prior is what is believed of a parameter before a row is seen: a value and by how much, as a
// standard deviation of its logarithm, it may be off. It never becomes a prediction by itself;
// it keeps a fit from giving parameters that the rows do not identify absurd values.
type prior struct {
	value, spread float64
	unit          string
	fixed         bool // published, not fitted
}

// priors are the usual shares of data-sheet numbers that kernels reach, as published
// measurements of such kernels on accelerators give them, and usual times of a Python host.
var priors = withTypes(map[string]prior{
	"dense/bf16/bandwidth":    {0.85, 0.1, "share", false},
	"dense/bf16/compute":      {0.75, 0.15, "share", false},
	"experts/bf16/bandwidth":  {0.7, 0.3, "share", false},
	"experts/bf16/compute":    {0.4, 0.4, "share", false},
	"experts/mxfp4/bandwidth": {0.6, 0.3, "share", false},
	"experts/mxfp4/compute":   {0.4, 0.4, "share", false},

	"attention/full/bandwidth":  {0.7, 0.25, "share", false},
	"attention/full/compute":    {0.55, 0.3, "share", false},
	"attention/full/mixed":      {0.6, 0.5, "share", false},
	"attention/sinks/bandwidth": {0.4, 0.5, "share", false},
	"attention/sinks/compute":   {0.25, 0.5, "share", false},
	"attention/sinks/mixed":     {0.1, 0.7, "share", false},

	"elementwise/bandwidth": {0.6, 0.3, "share", false},
	"elementwise/layer_us":  {30, 0.5, "us", false},
	"allreduce/scale":       {1, 0.3, "of the table", false},
	"host/step_ms":          {2, 0.6, "ms", false},
	"host/sequence_us":      {15, 0.6, "us", false},
	"host/parallel_ms":      {1, 0.7, "ms", false},
	"host/async_hidden":     {0.7, 0.25, "share", false},
	"front/harmony_ms":      {1.9, 0.05, "ms", true},
	"front/qwen3_ms":        {12.6, 0.1, "ms", true},
	"front/qwen3-2507_ms":   {7.8, 0.15, "ms", true},
	"experts/exponent":      {1.2, 0.1, "", true},
})

// withTypes adds the types of matrices of which less is known.
func withTypes(all map[string]prior) map[string]prior {
	for _, class := range []string{"dense/", "experts/"} {
		for _, kind := range []string{"f32", "q8", "q6", "q5", "q4", "mxfp4"} {
			for what, value := range map[string]float64{"/bandwidth": 0.7, "/compute": 0.45} {
				if _, known := all[class+kind+what]; !known {
					all[class+kind+what] = prior{value, 0.4, "share", false}
				}
			}
		}
	}
	return all
}

// Prior returns a calibration of nothing but priors. Predictions with it are for fitting only.
func Prior(machineName, engine string, versions map[string]int) *predict.Calibration {
	c := &predict.Calibration{Machine: machineName, Engine: engine, Versions: versions, Parameters: map[string]machine.Parameter{}}
	for name, p := range priors {
		c.Parameters[name] = machine.Parameter{Value: p.value, Unit: p.unit, Origin: machine.Published, SE: p.spread}
	}
	return c
}
