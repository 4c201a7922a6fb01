// Package predict says how fast a server would be on a machine that need not be there: the real
// scheduler and the real block pools in virtual time, on the workload's own token ids, driven by a
// clock of kernel classes (lab.md 5). Users give a Scenario and get every number of bench.md 1.6
// with an interval; they need not know steps, batches or kernels.
//
// What a kernel reaches of its machine is never guessed: it comes from a Calibration. Without
// one the prediction is a bound, says so, and Strict refuses it.
package predict

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"ossian/internal/lab/predict/machine"
	"ossian/internal/plan"
)

// A Scenario is everything that a prediction depends on.
type Scenario struct {
	Model       *plan.Model
	Machine     machine.Machine
	Engine      Profile
	Settings    Settings
	Workload    Workload
	Session     []Workload   // what the server has seen before, in this order
	Calibration *Calibration // nil = the shipped one of machine, engine and version, or what counts of Ossian's kernels say, if there is one
	Strict      bool         // unknown kernels are an error
}

// An Estimate is a number with its 95 % interval.
type Estimate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// A Prediction is what a client would see, and where the time goes.
type Prediction struct {
	Metrics      map[string]Estimate `json:"metrics"` // keys of bench.md 1.8: duration_s, mean_ttft_ms, …
	Shares       map[string]float64  `json:"shares"`  // of the duration, by class, "front end" and "waiting"; their sum is 1
	Preemptions  int                 `json:"preemptions"`
	CachedTokens int                 `json:"cached_tokens"` // of prompts, found in the prefix cache
	PeakKV       float64             `json:"peak_kv"`       // highest share of the fullest pool that sequences held
	Steps        int                 `json:"steps"`
	Memory       Memory              `json:"memory"`
	Unknown      []string            `json:"unknown,omitempty"` // kernels without an efficiency: the prediction is a bound
	Assumptions  []string            `json:"assumptions,omitempty"`
}

// ErrUnknownKernel is what a strict prediction fails with (lab.md 5).
var ErrUnknownKernel = errors.New("unknown kernel")

// check refuses a scenario with parts missing.
func (s *Scenario) check() error {
	switch {
	case s.Model == nil || s.Model.Spec == nil:
		return errors.New("scenario has no model")
	case s.Machine.Memory.Value <= 0 || s.Machine.Bandwidth.Value <= 0 || s.Machine.BF16.Value <= 0:
		return fmt.Errorf("machine %q lacks memory, bandwidth or arithmetic", s.Machine.Name)
	case s.Engine.limits == nil:
		return fmt.Errorf("engine %q has no profile: take one from Engine", s.Engine.Name)
	}
	return nil
}

// A Simulation is a scenario that has run once: its schedule can be timed again.
type Simulation struct {
	scenario    *Scenario
	r           resolved
	memory      Memory
	clock       *Clock
	calibration *Calibration
	unknown     []string
	run         *run
	weights     [3][]float64 // of the steps in summed metrics; made when first wanted
}

// Run predicts. Errors to test for: *FitError, ErrUnknownKernel.
func Run(ctx context.Context, s Scenario) (Prediction, error) {
	sim, err := Simulate(ctx, s)
	if err != nil {
		return Prediction{}, err
	}
	return sim.Prediction(), nil
}

// Simulate runs a scenario in virtual time.
func Simulate(ctx context.Context, s Scenario) (*Simulation, error) {
	all, err := SimulateSession(ctx, s)
	if err != nil {
		return nil, err
	}
	return all[len(all)-1], nil
}

// SimulateSession runs a scenario and returns a simulation of each workload of its session, and
// of its own as the last.
func SimulateSession(ctx context.Context, s Scenario) ([]*Simulation, error) {
	sim := Simulation{}
	if err := sim.prepare(&s); err != nil {
		return nil, err
	}
	world, err := newWorld(&s, sim.r, sim.memory, sim.clock)
	if err != nil {
		return nil, err
	}
	var all []*Simulation
	for i := range len(s.Session) + 1 {
		scenario := s
		if i < len(s.Session) {
			scenario.Workload, scenario.Session = s.Session[i], s.Session[:i]
		}
		one := sim
		one.scenario = &scenario
		if one.run, err = world.play(ctx, &scenario.Workload); err != nil {
			return nil, err
		}
		world.nextRun(len(scenario.Workload.Requests))
		all = append(all, &one)
	}
	return all, nil
}

// prepare checks a scenario and makes what its runs need.
func (sim *Simulation) prepare(s *Scenario) (err error) {
	if err := s.check(); err != nil {
		return err
	}
	for _, load := range append(slices.Clone(s.Session), s.Workload) {
		if err := load.check(); err != nil {
			return err
		}
	}
	if sim.r, err = s.resolve(); err != nil {
		return err
	}
	if sim.memory, err = Fits(*s); err != nil {
		return err
	}
	if sim.calibration, sim.unknown, err = s.calibrated(sim.r); err != nil {
		return err
	}
	sim.clock = newClock(s, sim.r, sim.calibration)
	return nil
}

// calibrated returns the calibration that a scenario is predicted with, and the parameters that it
// lacks; where any is missing it is the bound.
func (s *Scenario) calibrated(r resolved) (*Calibration, []string, error) {
	costs := newCosts(s, r)
	names := costs.parameters(r)
	calibration := s.Calibration
	if calibration == nil {
		calibration = Shipped(s.Machine.Name, s.Engine.Name, s.Engine.Version)
	}
	if calibration == nil {
		calibration = s.counted(r)
	}
	var unknown []string
	if !calibration.Covers(s.Machine.Name, s.Engine.Name, s.Engine.Version) {
		unknown = names
	} else {
		for _, name := range names {
			if _, ok := calibration.Value(name); !ok {
				unknown = append(unknown, name)
			}
		}
	}
	if len(unknown) == 0 {
		return calibration, nil, calibration.Check()
	}
	if s.Strict {
		return nil, nil, fmt.Errorf("%w: %s %s on %s: no efficiency of %v: calibrate with a row of this engine version and machine, or take the bound", ErrUnknownKernel, s.Engine.Name, s.Engine.Version, s.Machine.Name, unknown)
	}
	return bound(names), unknown, nil
}

// NewClock returns the clock of a scenario whose workload may be empty, for a device that plays a
// machine; unknown as in Prediction.
func NewClock(s Scenario) (clock *Clock, unknown []string, err error) {
	if err := s.check(); err != nil {
		return nil, nil, err
	}
	r, err := s.resolve()
	if err != nil {
		return nil, nil, err
	}
	calibration, unknown, err := s.calibrated(r)
	if err != nil {
		return nil, nil, err
	}
	return newClock(&s, r, calibration), unknown, nil
}

// Prediction makes the result of a run.
func (sim *Simulation) Prediction() Prediction {
	run := sim.run
	p := Prediction{Shares: sim.shares(), Metrics: map[string]Estimate{}, Memory: sim.memory, Unknown: sim.unknown, Steps: len(run.steps),
		Preemptions:  int(run.after.Preemptions - run.before.Preemptions),
		CachedTokens: int(run.after.CacheHits - run.before.CacheHits), PeakKV: run.peak,
		Assumptions: slices.Clone(sim.scenario.Workload.Assumptions)}
	if name := frontName(sim.scenario.Model.Spec); sim.scenario.Workload.Chat {
		if _, known := sim.calibration.Value(name); !known {
			p.Assumptions = append(p.Assumptions, "no time in the front end: that of chats with this template was never measured ("+name+")")
		}
	}
	if note := sim.calibration.countedNote(); note != "" {
		p.Assumptions = append(p.Assumptions, note)
	}
	for key, value := range run.metrics() {
		p.Metrics[key] = Estimate{value, value, value}
	}
	if len(sim.unknown) == 0 {
		sim.widen(p.Metrics)
	}
	return p
}

// widen gives metrics their intervals. Of a bound nothing is known, so it has none.
func (sim *Simulation) widen(metrics map[string]Estimate) {
	if sim.calibration.Counted {
		sim.widenCounted(metrics)
		return
	}
	if len(sim.calibration.Spread.Quantiles) == 0 { // nothing is known of how far it is off
		return
	}
	timing := sim.Retime(sim.calibration)
	factor, quantiles := sim.extrapolation(), sim.calibration.Spread.Quantiles
	for key, e := range metrics {
		spread := 0.0
		for _, like := range likeness(key) {
			quantile, ok := quantiles[like]
			if !ok { // gaps between tokens
				quantile = quantiles["mean_tpot_ms"]
			}
			spread = math.Max(spread, factor*quantile*sim.calibration.Spread.Error(timing.Slopes[like]))
		}
		metrics[key] = Estimate{e.Value, e.Value * math.Exp(-spread), e.Value * math.Exp(spread)}
	}
}

// extrapolation is by how much intervals widen outside what the rows of the calibration covered:
// by a quarter for each doubling of context or batch, by half for another number of devices; and
// twofold for a version of the engine of which there was one row.
func (sim *Simulation) extrapolation() float64 {
	covered := sim.calibration.Range
	if covered.Context == 0 {
		return 1
	}
	longest, most := 0, 0
	for _, request := range sim.scenario.Workload.Requests {
		longest = max(longest, len(request.Prompt)+request.Output)
	}
	for i := range sim.run.steps {
		most = max(most, sim.run.steps[i].load.Sequences)
	}
	widen := 1.0
	widen += 0.25 * math.Max(math.Log2(float64(longest)/covered.Context), 0)
	widen += 0.25 * math.Max(math.Log2(float64(most)/covered.Sequences), 0)
	if !slices.Contains(covered.Devices, sim.r.tp) {
		widen += 0.5
	}
	if sim.calibration.Versions[sim.scenario.Engine.Version] == 1 { // of which one row alone was seen
		widen *= 2
	}
	return widen
}

// shares divides the duration among the classes.
func (sim *Simulation) shares() map[string]float64 {
	run := sim.run
	var sum [numClasses]float64
	for i := range run.steps {
		for class, seconds := range sim.clock.Times(&run.steps[i].load) {
			sum[class] += seconds
		}
	}
	total := run.front + run.idle
	for _, seconds := range sum {
		total += seconds
	}
	shares := map[string]float64{"front end": run.front / total, "waiting": run.idle / total}
	for class, seconds := range sum {
		shares[Class(class).String()] = seconds / total
	}
	return shares
}
