package predict

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"ossian/internal/lab/predict/machine"
	"ossian/internal/model"
)

// Names of parameters are paths: class of kernel, the kernel's type where there are several, and
// what about it. A calibration that lacks one of them does not know that kernel (lab.md 5).
const (
	bandwidthOf = "/bandwidth" // share of the machine's bandwidth that the kernel reaches when it reads
	computeOf   = "/compute"   // share of the machine's arithmetic that it reaches when it computes

	elementwiseShare = "elementwise/bandwidth"
	layerTime        = "elementwise/layer_us" // gaps between the kernels of a layer
	reduceScale      = "allreduce/scale"      // of the table of the machine
	hostStep         = "host/step_ms"         // of a step between kernels
	hostSequence     = "host/sequence_us"     // of a sequence in it
	hostParallel     = "host/parallel_ms"     // of a step that several devices share
	hostHidden       = "host/async_hidden"    // share that asynchronous scheduling hides
	expertExponent   = "experts/exponent"     // of the power law over the ranks of experts
)

// frontName is the parameter of what one chat request takes before the scheduler sees it, in
// milliseconds. The template decides it: rendering takes most of the time. Completion requests
// have never been seen to take any.
func frontName(spec *model.Spec) string {
	switch {
	case spec.Family == "gpt-oss":
		return "front/harmony_ms"
	case strings.Contains(spec.Name, "2507"): // their templates have no reasoning to take out
		return "front/qwen3-2507_ms"
	case strings.HasPrefix(spec.Family, "qwen3"):
		return "front/qwen3_ms"
	}
	return "front/" + spec.Family + "_ms"
}

// handOver is how much of that time, in seconds, passes behind the rendering of all that wait:
// half of what chats of gpt-oss take, and of templates that take longer no more.
const handOver = 0.95e-3

// A Calibration is what is known of an engine's kernels on a machine: parameters by name, the
// versions of the engine that they were seen with, and how far predictions were off.
type Calibration struct {
	Machine    string                       `json:"machine"`
	Engine     string                       `json:"engine"`
	Versions   map[string]int               `json:"versions"` // rows seen of each version of the engine
	Parameters map[string]machine.Parameter `json:"parameters"`
	Spread     Spread                       `json:"spread"`
	Range      Range                        `json:"range"`                    // what the rows covered
	Rows       []string                     `json:"rows,omitempty"`           // ids of the rows that it was fitted to
	Left       []string                     `json:"not_identified,omitempty"` // parameters of which the rows say little
	// Counted reports that nobody measured: parameters follow from what kernels do (counted.go), with
	// constants that were fitted to Kernels measured ones; 0 = from data sheets alone.
	Counted bool `json:"counted,omitempty"`
	Kernels int  `json:"counted_kernels,omitempty"`
	// Tiles are how many times as long as their shares say kernels take of a class, by its name, at 1, √2,
	// 2, 2√2 … tokens (of "output": sampled rows): tiles are not full, or too few for the card.
	Tiles map[string][]float64 `json:"tiles,omitempty"`
}

// A Spread is how sure predictions are. The logarithm of a metric with the slopes g has the
// standard error √(gᵀ·Covariance·g + Discrepancy²); so many of these as Quantiles say of the
// metric make a 95 % interval, which is conformal on rows that were left out of the fit.
type Spread struct {
	Names       []string  `json:"names"`      // of the fitted parameters
	Covariance  []float64 `json:"covariance"` // of their logarithms, row after row
	Discrepancy float64   `json:"discrepancy"`

	Quantile  float64            `json:"quantile"`  // of duration_s
	Quantiles map[string]float64 `json:"quantiles"` // of duration_s, mean_ttft_ms, mean_tpot_ms

	// Pair is the half width of a 95 % interval of the logarithm of how two settings of one model
	// on one workload differ in duration, where most of what a prediction is off by is common to
	// both: conformal on such pairs of rows. 0 = there were too few.
	Pair float64 `json:"pair"`
}

// Error returns the standard error of the logarithm of a metric with these slopes.
func (s *Spread) Error(slopes map[string]float64) float64 {
	n, variance := len(s.Names), s.Discrepancy*s.Discrepancy
	for a, left := range s.Names {
		if slopes[left] == 0 {
			continue
		}
		for b, right := range s.Names {
			variance += slopes[left] * s.Covariance[a*n+b] * slopes[right]
		}
	}
	return math.Sqrt(variance)
}

// A Range is what the rows of a calibration covered; beyond it intervals widen.
type Range struct {
	Context   float64 `json:"context"`   // tokens of the longest sequence
	Sequences float64 `json:"sequences"` // most in a step
	Devices   []int   `json:"devices"`   // numbers of devices
}

// Value returns a parameter's value.
func (c *Calibration) Value(name string) (float64, bool) {
	p, ok := c.Parameters[name]
	return p.Value, ok
}

// With returns a copy of c in which some parameters have other values; the other fields are shared.
func (c *Calibration) With(values map[string]float64) *Calibration {
	changed := *c
	changed.Parameters = maps.Clone(c.Parameters)
	for name, value := range values {
		p := changed.Parameters[name]
		p.Value = value
		changed.Parameters[name] = p
	}
	return &changed
}

// Covers reports whether the calibration is of that machine, engine and version.
func (c *Calibration) Covers(machineName, engine, version string) bool {
	return c != nil && c.Machine == machineName && c.Engine == engine && c.Versions[version] > 0
}

// bound is the calibration of nothing: every kernel reaches what the machine offers, and the host
// takes no time. Predictions with it are bounds (lab.md 5).
func bound(names []string) *Calibration {
	c := &Calibration{Parameters: map[string]machine.Parameter{}}
	for _, name := range names {
		c.Parameters[name] = boundOf(name)
	}
	return c
}

// boundOf is the best that a parameter can be.
func boundOf(name string) machine.Parameter {
	value, unit := 1.0, "share"
	switch {
	case name == layerTime, name == hostSequence:
		value, unit = 0, "us"
	case name == hostStep, name == hostParallel, strings.HasPrefix(name, "front/"):
		value, unit = 0, "ms"
	case name == reduceScale:
		unit = "of the table"
	case name == expertExponent:
		value, unit = expertPower, ""
	case isMixed(name):
		value = 0
	}
	return machine.Parameter{Value: value, Unit: unit, Origin: machine.Spec}
}

// Lent is a copy of c for another machine, as if kernels reached the same shares of it and its host
// were as fast: an assumption, so that intervals are twice as wide.
func (c *Calibration) Lent(to string) *Calibration {
	lent := c.With(nil)
	lent.Machine = to
	lent.Spread.Quantile *= 2
	lent.Spread.Quantiles = maps.Clone(c.Spread.Quantiles)
	for key := range lent.Spread.Quantiles {
		lent.Spread.Quantiles[key] *= 2
	}
	return lent
}

// HostAlone is a copy of c in which nothing but the host and the gaps between kernels take longer than
// they must: every kernel reaches what the machine offers.
func (c *Calibration) HostAlone() *Calibration {
	changed := c.With(nil)
	for name := range c.Parameters {
		if !strings.HasPrefix(name, "host/") && !strings.HasPrefix(name, "front/") && name != layerTime {
			changed.Parameters[name] = boundOf(name)
		}
	}
	return changed
}

// Check reports parameters that cannot be.
func (c *Calibration) Check() error {
	for _, name := range slices.Sorted(maps.Keys(c.Parameters)) {
		if p := c.Parameters[name]; math.IsNaN(p.Value) || math.IsInf(p.Value, 0) || p.Value < 0 {
			return fmt.Errorf("calibration of %s on %s: parameter %s is %v, expected a number of 0 or more", c.Engine, c.Machine, name, p.Value)
		}
	}
	if n := len(c.Spread.Names); len(c.Spread.Covariance) != n*n {
		return fmt.Errorf("calibration of %s on %s: covariance of %d numbers for %d parameters, expected %d", c.Engine, c.Machine, len(c.Spread.Covariance), n, n*n)
	}
	return nil
}
