package forecast

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"

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
	// A part of a workload, and one without its times of arrival, have its name.
	key := strings.Join([]string{engine.Name, model, workload.Name, strconv.Itoa(workload.NumPrompts), strconv.FormatFloat(workload.RequestRate, 'g', -1, 64), ""}, "\x00")
	scenario := predict.Scenario{Machine: f.machine}
	flags := map[string]string{}
	for _, set := range []map[string]string{engine.Flags, setting.Flags} {
		for flag, value := range set {
			flags[flag] = value
		}
	}
	for flag, value := range flags {
		if Set(&scenario.Settings, flag, value) != nil {
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
	if scenario.Workload, err = Workload(workload, int64(f.seed)); err != nil {
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
