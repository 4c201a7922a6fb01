package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"ossian/internal/bench/dataset"
	"ossian/internal/bench/offline"
	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
	"ossian/internal/plan"
	"ossian/internal/runner"
)

// A Subject is what is calibrated: a model on this machine's processors.
type Subject struct {
	Runner  runner.Runner // is closed in the end
	Model   *plan.Model   // with the types that the device keeps
	Host    machine.Machine
	Engine  predict.Profile
	Seconds float64 // to measure for; half of it goes to steps
}

// A Trial is a whole run on the engine beside its prediction.
type Trial struct {
	Name     string             `json:"name"`
	Batch    int                `json:"batch"`
	Prompt   int                `json:"prompt"`
	Output   int                `json:"output"`
	Fitted   bool               `json:"fitted"`
	Measured map[string]float64 `json:"measured"`
	Ratio    map[string]float64 `json:"ratio"` // predicted over measured
	steps    float64
	rows     float64 // of all steps together
	scenario predict.Scenario
}

// Evidence is what a calibration rests on.
type Evidence struct {
	Steps  []*Step `json:"steps"`
	Trials []Trial `json:"trials"`
}

// Run is a load on an engine: batch prompts of some tokens, all at once, and answers of some.
type Run struct{ Batch, Prompt, Output int }

// hostRuns tell what a step costs beside its kernels.
var hostRuns = []Run{{1, 64, 48}, {8, 128, 48}, {32, 64, 32}}

// Calibrate measures steps on the runner, then whole runs on an engine around it, and fits the
// clock to the first and the host's part to the second. runs are measured too, and predicted, but
// not fitted to.
func Calibrate(ctx context.Context, subject Subject, runs []Run) (*File, *Evidence, error) {
	closed := false
	defer func() {
		if !closed {
			_ = subject.Runner.Close()
		}
	}()
	info := subject.Runner.Info()
	steps, err := measure(ctx, subject.Runner, time.Duration(subject.Seconds/2*float64(time.Second)))
	if err != nil {
		return nil, nil, err
	}
	scenario := predict.Scenario{Model: subject.Model, Machine: subject.Host, Engine: subject.Engine,
		Settings: predict.Settings{MaxSeqs: info.MaxSeqs, MaxTokens: info.MaxTokens, MaxLen: info.MaxLen}}
	f, err := newFit(scenario, steps)
	if err != nil {
		return nil, nil, err
	}
	deviations, err := f.solve()
	if err != nil {
		return nil, nil, err
	}
	calibration := f.calibration()
	for name, se := range deviations {
		p := calibration.Parameters[name]
		p.SE = se
		calibration.Parameters[name] = p
	}
	calibration.Left = f.left(deviations)
	scenario.Calibration = calibration
	closed = true // by the rig
	trials, err := play(ctx, subject.Runner, scenario, runs)
	if err != nil {
		return nil, nil, err
	}
	hostCosts(calibration, trials)
	for i := range trials {
		if err := trials[i].compare(ctx, calibration); err != nil {
			return nil, nil, err
		}
	}
	cover(calibration, steps, trials)
	return &File{calibration, &subject.Host}, &Evidence{steps, trials}, nil
}

// Confirm measures one run on an engine around a runner, which it closes, and compares it with the
// prediction of a scenario, whose workload it replaces.
func Confirm(ctx context.Context, r runner.Runner, scenario predict.Scenario, run Run) (Trial, error) {
	rig, err := offline.Start(ctx, offline.Config{Runner: r, NoPrefixCache: true})
	if err != nil {
		return Trial{}, err
	}
	trial := newTrial(run, false)
	if err = trial.measure(ctx, rig, scenario, 1); err == nil {
		err = trial.compare(ctx, scenario.Calibration)
	}
	return trial, errors.Join(err, rig.Close())
}

// newTrial names a run.
func newTrial(run Run, fitted bool) Trial {
	return Trial{Name: fmt.Sprintf("%d × %d/%d", run.Batch, run.Prompt, run.Output), Batch: run.Batch, Prompt: run.Prompt, Output: run.Output, Fitted: fitted}
}

// play measures runs on an engine.
func play(ctx context.Context, r runner.Runner, scenario predict.Scenario, runs []Run) (trials []Trial, err error) {
	info := r.Info()
	rig, err := offline.Start(ctx, offline.Config{Runner: r, NoPrefixCache: true})
	if err != nil {
		return nil, err
	}
	defer func() {
		if failed := rig.Close(); err == nil {
			err = failed
		}
	}()
	for i, run := range slices.Concat(hostRuns, runs) {
		if run.Prompt+run.Output > info.MaxLen || run.Batch > info.MaxSeqs {
			continue
		}
		trial := newTrial(run, i < len(hostRuns))
		if err := trial.measure(ctx, rig, scenario, int64(i)); err != nil {
			return nil, err
		}
		trials = append(trials, trial)
	}
	return trials, nil
}

// repeats of a run: what else the machine does only lengthens one, so the shortest counts.
const repeats = 3

// enough seconds of one run, after which it is not repeated: what is long is disturbed by little.
const enough = 4

// measure runs a load a few times.
func (t *Trial) measure(ctx context.Context, rig *offline.Rig, scenario predict.Scenario, seed int64) error {
	off := false
	scenario.Settings.PrefixCaching = &off
	scenario.Workload = predict.Random(t.Batch, t.Prompt, t.Output, seed)
	t.scenario = scenario
	var queries []dataset.Query
	for _, request := range scenario.Workload.Requests {
		ids := slices.Clone(request.Prompt)
		for i := range ids {
			ids[i] %= int32(scenario.Model.Spec.Vocab)
		}
		queries = append(queries, dataset.Query{IDs: ids, Input: t.Prompt, Output: t.Output})
	}
	t.rows = float64(t.Batch * t.Output)
	for began, n := time.Now(), 0; n < repeats && (n == 0 || time.Since(began).Seconds() < enough); n++ {
		result, err := rig.Throughput(ctx, offline.Load{Queries: queries, N: 1})
		if err != nil {
			return fmt.Errorf("run %s: %w", t.Name, err)
		}
		if t.Measured != nil && t.Measured["duration_s"] <= result.Elapsed {
			continue
		}
		t.Measured = map[string]float64{"duration_s": result.Elapsed, "total_token_throughput": result.TokenRate,
			"mean_ttft_ms": result.Ossian.TTFT.Mean, "mean_tpot_ms": result.Ossian.TPOT.Mean}
		all := result.Ossian.Steps
		t.steps = float64(all.Prefill.Steps + all.Mixed.Steps + all.Decode.Steps)
	}
	return nil
}

// compare predicts the run.
func (t *Trial) compare(ctx context.Context, calibration *predict.Calibration) error {
	t.scenario.Calibration = calibration
	p, err := predict.Run(ctx, t.scenario)
	if err != nil {
		return fmt.Errorf("run %s: %w", t.Name, err)
	}
	t.Ratio = map[string]float64{}
	for key, measured := range t.Measured {
		t.Ratio[key] = p.Metrics[key].Value / measured
	}
	return nil
}

// hostCosts fits what a step and a sequence in it cost beside the kernels to what whole runs took
// longer than their steps: least squares of the shares, neither below 0.
func hostCosts(calibration *predict.Calibration, trials []Trial) {
	var aa, ab, bb, ay, by float64
	for i := range trials {
		t := &trials[i]
		if !t.Fitted {
			continue
		}
		if err := t.compare(context.Background(), calibration); err != nil {
			continue
		}
		whole := t.Measured["duration_s"]
		a, b, y := t.steps/whole, t.rows/whole, 1-t.Ratio["duration_s"]
		aa, ab, bb, ay, by = aa+a*a, ab+a*b, bb+b*b, ay+a*y, by+b*y
	}
	perStep, perRow := 0.0, 0.0
	if det := aa*bb - ab*ab; det > 1e-9*aa*bb {
		perStep, perRow = (ay*bb-by*ab)/det, (by*aa-ay*ab)/det
	}
	if perStep < 0 && bb > 0 {
		perStep, perRow = 0, by/bb
	} else if perRow < 0 && aa > 0 {
		perStep, perRow = ay/aa, 0
	}
	set := func(name, unit string, value float64) {
		if _, ok := calibration.Parameters[name]; ok {
			calibration.Parameters[name] = machine.Parameter{Value: math.Max(value, 0), Unit: unit, Origin: machine.Measured}
		}
	}
	set("host/step_ms", "ms", 1e3*perStep)
	set("host/sequence_us", "us", 1e6*perRow)
}
