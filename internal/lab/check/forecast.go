package check

// The predictor asked about changes of a server's settings: two simulations of one workload, as the
// server is and as it would be, timed by one calibration. What they have in common cancels, so that
// the interval is that of the ratio. Kernels that no calibration knows make no gain at all.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
	"ossian/internal/plan"
)

// A Forecast predicts gains with package lab/predict. It is a Predictor.
type Forecast struct {
	Machine     machine.Machine
	Calibration *predict.Calibration               // nil = the shipped one, if there is one
	Model       func(*Server) (*plan.Model, error) // what the server serves
}

// Gain implements Predictor: the change of the output throughput, which for a fixed workload is that
// of its duration.
func (f *Forecast) Gain(ctx context.Context, server *Server, changes []*Change, workload *Measurement) (Effect, error) {
	now, err := settingsOf(server.Settings)
	if err != nil {
		return Effect{}, err
	}
	then := now
	for _, change := range changes {
		if err := apply(&then, change); err != nil {
			return Effect{}, err
		}
	}
	load, err := workloadOf(server, workload)
	if err != nil {
		return Effect{}, err
	}
	before, spread, err := f.simulate(ctx, server, now, load)
	if err != nil {
		return Effect{}, err
	}
	after, _, err := f.simulate(ctx, server, then, load)
	if err != nil {
		return Effect{}, err
	}
	effect := ratio(before, after, spread)
	effect.Workload = load.Name
	return effect, nil
}

// simulate runs one setting and refuses what is a bound only.
func (f *Forecast) simulate(ctx context.Context, server *Server, settings predict.Settings, load predict.Workload) (*timed, *predict.Calibration, error) {
	model, err := f.Model(server)
	if err != nil {
		return nil, nil, err
	}
	name, version := server.Engine, server.Version
	if server.Played != nil && server.Played.Engine != "" {
		name, version, _ = strings.Cut(server.Played.Engine, "@")
	}
	profile, err := predict.Engine(name, version)
	if err != nil {
		return nil, nil, err
	}
	scenario := predict.Scenario{Model: model, Machine: f.Machine, Engine: profile, Settings: settings, Workload: load, Calibration: f.Calibration, Strict: true}
	calibration := f.Calibration
	if calibration == nil {
		calibration = predict.Shipped(f.Machine.Name, profile.Name, profile.Version)
	}
	simulation, err := predict.Simulate(ctx, scenario)
	if err != nil {
		return nil, nil, err
	}
	timing := simulation.Retime(calibration)
	return &timed{duration: simulation.Prediction().Metrics[duration], slopes: timing.Slopes[duration]}, calibration, nil
}

// duration is the metric that is compared.
const duration = "duration_s"

// timed is what a simulation said of a duration.
type timed struct {
	duration predict.Estimate
	slopes   map[string]float64 // of its logarithm, by parameter
}

// ratio is the gain between two durations. The logarithm of their ratio moves with the difference of
// the slopes; what the model itself is off by, of which much is common to both, counts once.
func ratio(before, after *timed, calibration *predict.Calibration) Effect {
	difference := maps.Clone(before.slopes)
	for name, slope := range after.slopes {
		difference[name] -= slope
	}
	spread := &calibration.Spread
	quantile := spread.Quantiles[duration]
	// How much intervals widen outside of the calibration's rows shows in those of the durations.
	widen := 1.0
	for _, one := range []*timed{before, after} {
		if own := quantile * spread.Error(one.slopes); own > 0 {
			widen = math.Max(widen, math.Log(one.duration.High/one.duration.Value)/own)
		}
	}
	half := widen * quantile * spread.Error(difference)
	middle := math.Log(before.duration.Value / after.duration.Value)
	percent := func(log float64) float64 { return 100 * math.Expm1(log) }
	return Effect{Origin: Predicted, Metric: "output_throughput", Percent: percent(middle), Low: percent(middle - half), High: percent(middle + half)}
}

// modelled are the settings that the predictor knows: how a value is set, and what no value is.
var modelled = map[string]func(s *predict.Settings, value string) error{
	"tensor_parallel_size":   count(func(s *predict.Settings) *int { return &s.TP }),
	"max_num_seqs":           count(func(s *predict.Settings) *int { return &s.MaxSeqs }),
	"max_num_batched_tokens": count(func(s *predict.Settings) *int { return &s.MaxTokens }),
	"max_model_len":          count(func(s *predict.Settings) *int { return &s.MaxLen }),
	"kv_cache_dtype": func(s *predict.Settings, value string) error {
		s.KVType = value
		return nil
	},
	"gpu_memory_utilization": func(s *predict.Settings, value string) (err error) {
		s.MemoryShare = 0
		if value != "" && value != "None" {
			s.MemoryShare, err = strconv.ParseFloat(value, 64)
		}
		return err
	},
	"async_scheduling":      truth(func(s *predict.Settings) **bool { return &s.Async }),
	"enable_prefix_caching": truth(func(s *predict.Settings) **bool { return &s.PrefixCaching }),
}

// unset stands for a setting that nobody gives: the engine's default.
const unset = ""

// count sets a number.
func count(field func(*predict.Settings) *int) func(*predict.Settings, string) error {
	return func(s *predict.Settings, value string) (err error) {
		*field(s) = 0
		if value != unset && value != "None" {
			*field(s), err = strconv.Atoi(value)
		}
		return err
	}
}

// truth sets a switch.
func truth(field func(*predict.Settings) **bool) func(*predict.Settings, string) error {
	return func(s *predict.Settings, value string) error {
		*field(s) = nil
		if yes, known := truthOf(value); known {
			*field(s) = &yes
		}
		return nil
	}
}

// settingsOf are those of a server as it is.
func settingsOf(seen map[string]string) (settings predict.Settings, err error) {
	for _, name := range slices.Sorted(maps.Keys(modelled)) {
		value, told := seen[name]
		if name == "kv_cache_dtype" && !told {
			value, told = seen["cache_dtype"]
		}
		if !told {
			continue
		}
		if err := modelled[name](&settings, value); err != nil {
			return settings, fmt.Errorf("%s is %q, which is no setting that is predicted", name, value)
		}
	}
	return settings, nil
}

// apply changes settings; what the predictor has no model of is an error.
func apply(settings *predict.Settings, change *Change) error {
	if len(change.Env) > 0 || change.Shell != "" {
		return errors.New("not a setting that is predicted")
	}
	wanted := maps.Clone(change.Set)
	if wanted == nil {
		wanted = map[string]string{}
	}
	for name, value := range wanted {
		if value == "" { // a switch
			wanted[name] = "True"
		}
	}
	for _, name := range change.Remove {
		wanted[name] = unset
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		set, ok := modelled[canonical(name)]
		switch {
		case !ok:
			return fmt.Errorf("--%s is outside of what is predicted", name)
		case canonical(name) == "enable_prefix_caching":
			return errors.New("how much prompts begin alike is not known, on which a prefix cache depends")
		}
		if err := set(settings, wanted[name]); err != nil {
			return fmt.Errorf("--%s %s: %w", name, wanted[name], err)
		}
	}
	return nil
}

// Bounds of the workload that is predicted: enough requests to be steady, few enough to be quick.
const (
	leastRequests = 64
	mostRequests  = 512
)

// workloadOf is what is predicted for: what was measured, else what clients have sent.
func workloadOf(server *Server, measured *Measurement) (predict.Workload, error) {
	input, output, atOnce, whose := server.Served.Input, server.Served.Output, server.Served.AtOnce, "what clients sent, by its means"
	if measured != nil {
		input, output, atOnce, whose = measured.Input, measured.Output, measured.Concurrency, "what was measured"
	}
	if input < 1 || output < 1 || atOnce < 1 {
		return predict.Workload{}, errors.New("no workload to predict for: nothing was measured, and nothing is being served")
	}
	requests := min(max(4*atOnce, leastRequests), mostRequests)
	load := predict.Random(requests, int(math.Round(input)), int(math.Round(output)), 1)
	load.Concurrency = atOnce
	load.Name = strings.Join([]string{whose, fmt.Sprintf("%d/%d tokens", int(math.Round(input)), int(math.Round(output))), fmt.Sprintf("%d at once", atOnce)}, ", ")
	return load, nil
}
