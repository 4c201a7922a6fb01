package verify

// What rules ask of a prediction (lab.md 5, 7). The package that predicts implements
// Predictor; without one, rules that would need it say a caution instead.

import "ossian/internal/lab/verify/document"

// A Workload is the load of one run.
type Workload = document.Workload

// A Setting is one server under one load.
type Setting struct {
	Model   string   // as the document names it
	TP      int      // devices that share the model; 0 = not stated
	Weights string   // mxfp4, fp8, bf16, ...; "" = as published
	Flags   []string // of the serve command
	Load    Workload
	Before  []Workload // what the same server has served before, first one first
	AtOnce  int        // requests that were open at the same time at most; 0 = not known
}

// An Estimate is a predicted figure with its 95 % interval.
type Estimate struct{ Value, Low, High float64 }

// A Prediction is what a predictor says about one setting.
type Prediction struct {
	Duration  Estimate // seconds
	MeanTTFT  Estimate // milliseconds
	MeanTPOT  Estimate // milliseconds
	CacheFull bool     // the KV cache was full while requests waited
	Preempted int      // sequences that lost their blocks
}

// A Capacity is what a machine holds and can at most do.
type Capacity struct {
	WeightBytes float64 // of the model in the stated form, all devices together
	MemoryBytes float64 // of all devices that the setting uses
	MostTokens  float64 // output tokens per second that memory, bandwidth and FLOPs allow as many sequences as run at once; 0 = not known
}

// A Predictor knows one model on one machine.
type Predictor interface {
	// Name is MODEL@MACHINE.
	Name() string
	// Capacity says what fits, without simulating.
	Capacity(Setting) (Capacity, error)
	// Predict simulates a setting. An error means that it cannot be predicted: unknown
	// kernels, lengths that are not stated.
	Predict(Setting) (Prediction, error)
}

// Against adds predictors: rules that need a machine use each whose model the document is
// about. With several, machines that no row contradicts are named where the document names
// none.
func Against(predictors ...Predictor) Option {
	return func(set *settings) { set.against = append(set.against, predictors...) }
}
