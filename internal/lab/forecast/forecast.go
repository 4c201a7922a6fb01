// Package forecast lets campaigns ask package predict: settings as a plan writes them become scenarios,
// and what cannot be predicted is said to be unknown, so that nothing is dropped for it (lab.md 4, item
// 2). It guesses no machine, no version and no kernel.
package forecast

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"ossian/internal/lab"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
)

// A Forecaster predicts on one machine. It implements lab.Predictor.
type Forecaster struct {
	machine  machine.Machine
	versions map[string]string // of engines, by their kind
	seed     uint64
	known    map[string]lab.Prediction // by setting and workload
}

// New returns a Forecaster for a machine by name. Versions are those of engines by kind, as they say
// them; an engine whose version is not known is not predicted.
func New(name string, versions map[string]string, seed uint64) (*Forecaster, error) {
	found, err := machine.Lookup(name)
	if err != nil {
		return nil, err
	}
	return &Forecaster{machine: found, versions: versions, seed: seed, known: map[string]lab.Prediction{}}, nil
}

// Predict implements lab.Predictor.
func (f *Forecaster) Predict(engine planfile.Engine, setting ledger.Setting, model string, workload planfile.Workload) lab.Prediction {
	key := engine.Name + "\x00" + model + "\x00" + workload.Name
	scenario := predict.Scenario{Machine: f.machine}
	flags := map[string]string{}
	for _, set := range []map[string]string{engine.Flags, setting.Flags} {
		for flag, value := range set {
			flags[flag] = value
		}
	}
	for flag, value := range flags {
		if !apply(&scenario.Settings, flag, value) {
			return lab.Prediction{} // a flag outside the model
		}
	}
	key += settingsKey(scenario.Settings)
	if known, is := f.known[key]; is {
		return known
	}
	prediction := f.predict(scenario, engine, model, workload)
	f.known[key] = prediction
	return prediction
}

// predict asks for a scenario whose settings are known.
func (f *Forecaster) predict(scenario predict.Scenario, engine planfile.Engine, model string, workload planfile.Workload) lab.Prediction {
	var err error
	if scenario.Engine, err = predict.Engine(engine.Kind, version(f.versions[engine.Kind])); err != nil {
		return lab.Prediction{}
	}
	if scenario.Model, err = predict.Model(model); err != nil {
		return lab.Prediction{}
	}
	var does bool
	if scenario.Workload, does = f.load(workload); !does {
		return lab.Prediction{}
	}
	var misfit *predict.FitError
	if _, err := predict.Fits(scenario); errors.As(err, &misfit) {
		return lab.Prediction{Misfit: misfit.Error()}
	}
	scenario.Strict = true // a bound is no prediction: it would drop what is merely not known
	found, err := predict.Run(context.Background(), scenario)
	if err != nil {
		return lab.Prediction{}
	}
	out := lab.Prediction{Metrics: map[string]ledger.Interval{}}
	for name, estimate := range found.Metrics {
		if name == "duration_s" {
			name = "duration"
		}
		if !math.IsNaN(estimate.Value) && !math.IsInf(estimate.High-estimate.Low, 0) {
			out.Metrics[name] = ledger.Interval{Value: estimate.Value, Low: estimate.Low, High: estimate.High}
		}
	}
	return out
}

// version is the first word of what an engine says that looks like one.
func version(said string) string {
	for _, word := range strings.Fields(said) {
		word = strings.TrimPrefix(word, "v")
		if word != "" && word[0] >= '0' && word[0] <= '9' && strings.Contains(word, ".") {
			return word
		}
	}
	return said
}

// apply puts a flag into settings, and reports whether the model of predictions knows it.
func apply(settings *predict.Settings, flag, value string) bool {
	number, err := strconv.Atoi(value)
	switch strings.ReplaceAll(flag, "_", "-") {
	case "max-num-seqs":
		settings.MaxSeqs = number
	case "max-num-batched-tokens":
		settings.MaxTokens = number
	case "max-model-len":
		settings.MaxLen = number
	case "tensor-parallel-size":
		settings.TP = number
	case "num-gpu-blocks-override":
		settings.Blocks = number
	case "gpu-memory-utilization":
		settings.MemoryShare, err = strconv.ParseFloat(value, 64)
	case "kv-cache-dtype":
		settings.KVType, err = value, nil
	case "async-scheduling":
		settings.Async, err = truth(value)
	case "enable-prefix-caching":
		settings.PrefixCaching, err = truth(value)
	default:
		return false
	}
	return err == nil
}

func truth(value string) (*bool, error) {
	is, err := strconv.ParseBool(value)
	return &is, err
}

// settingsKey tells settings apart.
func settingsKey(s predict.Settings) string {
	out := strings.Join([]string{strconv.Itoa(s.TP), strconv.Itoa(s.MaxSeqs), strconv.Itoa(s.MaxTokens), strconv.Itoa(s.MaxLen), s.KVType,
		strconv.FormatFloat(s.MemoryShare, 'g', -1, 64), strconv.Itoa(s.Blocks)}, "\x00")
	for _, is := range []*bool{s.Async, s.PrefixCaching} {
		out += "\x00"
		if is != nil {
			out += strconv.FormatBool(*is)
		}
	}
	return out
}

// Mean tokens of a request of ShareGPT as its published runs count them (bench.md 1.7).
const (
	shareGPTInput  = 215
	shareGPTOutput = 194
)

// load is a workload of the plan; false: its lengths are in a file that predictions do not read.
func (f *Forecaster) load(workload planfile.Workload) (predict.Workload, bool) {
	var out predict.Workload
	count := workload.NumPrompts
	switch workload.Dataset {
	case "random":
		out = predict.Random(count, workload.InputLen, workload.OutputLen, int64(f.seed))
	case "sharegpt":
		output := shareGPTOutput
		if workload.OutputLen > 0 {
			output = workload.OutputLen
		}
		out = predict.ShareGPT(count, count*shareGPTInput, count*output, int64(f.seed))
	default:
		return out, false
	}
	out.Name, out.Concurrency, out.Chat = workload.Name, workload.MaxConcurrency, workload.Endpoint == "chat"
	if workload.RequestRate > 0 { // a Poisson process, as the client's
		dice := rand.New(rand.NewPCG(f.seed, 1))
		at := 0.0
		for i := range out.Requests {
			at += dice.ExpFloat64() / workload.RequestRate
			out.Requests[i].At = time.Duration(at * float64(time.Second))
		}
	}
	return out, true
}
