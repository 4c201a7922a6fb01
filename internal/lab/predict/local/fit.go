package local

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
)

// A parameter's start, and how far its logarithm may go from there before the steps must say so.
type start struct {
	value, spread float64
	unit          string
	fixed         bool
}

// startOf is where the fit of a parameter of the clock begins.
func startOf(name string) start {
	switch {
	case name == "host/step_ms", name == "host/sequence_us", strings.HasPrefix(name, "front/"):
		return start{0, 0, name[strings.LastIndexByte(name, '_')+1:], true} // measured on whole runs, not on steps
	case name == "experts/exponent":
		return start{0.6, 1, "", false}
	case name == "elementwise/layer_us":
		return start{5, 2, "us", false}
	case strings.HasSuffix(name, "/mixed"):
		return start{0.1, 1.5, "share", false}
	case strings.HasPrefix(name, "attention/"):
		return start{0.3, 1.5, "share", false}
	case strings.HasSuffix(name, "/compute"):
		return start{0.5, 1.5, "share", false}
	}
	return start{0.8, 1.5, "share", false}
}

const (
	noise  = 0.02 // of a median, as a logarithm
	huber  = 0.08 // from here on a residual counts linearly: the machine was disturbed
	rounds = 40
	widest = 0.7 // largest change of a logarithm in a round
)

// A fit finds the parameters with which the clock says what steps take.
type fit struct {
	scenario predict.Scenario
	steps    []*Step
	names    []string
	starts   []start
	logs     []float64
}

// newFit asks the clock which parameters it has.
func newFit(scenario predict.Scenario, steps []*Step) (*fit, error) {
	f := &fit{scenario: scenario, steps: steps}
	_, names, err := predict.NewClock(scenario) // without a calibration all are unknown
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		s := startOf(name)
		f.names, f.starts = append(f.names, name), append(f.starts, s)
		f.logs = append(f.logs, math.Log(math.Max(s.value, 1e-12)))
	}
	return f, nil
}

// calibration has the parameters as they are.
func (f *fit) calibration() *predict.Calibration {
	c := newCalibration(f.scenario)
	for i, name := range f.names {
		value := math.Exp(f.logs[i])
		if f.starts[i].fixed {
			value = f.starts[i].value
		}
		c.Parameters[name] = machine.Parameter{Value: value, Unit: f.starts[i].unit, Origin: machine.Measured}
	}
	return c
}

// residuals are the logarithms of what the clock says over what was measured.
func (f *fit) residuals() ([]float64, error) {
	scenario := f.scenario
	scenario.Calibration = f.calibration()
	clock, unknown, err := predict.NewClock(scenario)
	if err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("the calibration lacks %v", unknown)
	}
	out := make([]float64, len(f.steps))
	for i, step := range f.steps {
		load := clock.Load(step.Rows)
		times := clock.Times(&load)
		step.Fitted = sum(times[:])
		out[i] = math.Log(step.Fitted / step.Seconds)
	}
	return out, nil
}

// free are the places of the parameters that are fitted.
func (f *fit) free() (places []int) {
	for i := range f.starts {
		if !f.starts[i].fixed {
			places = append(places, i)
		}
	}
	return places
}

// cost is what the fit makes small: residuals, linear where they are large, and the ridge.
func (f *fit) cost(residuals []float64) (total float64) {
	for _, r := range residuals {
		if r = math.Abs(r); r > huber {
			r = math.Sqrt(huber * (2*r - huber))
		}
		total += r * r / (noise * noise)
	}
	for _, i := range f.free() {
		d := (f.logs[i] - math.Log(f.starts[i].value)) / f.starts[i].spread
		total += d * d
	}
	return total
}

// solve runs Gauss-Newton with damping (Levenberg and Marquardt) and returns the standard errors of
// the logarithms.
func (f *fit) solve() (errors map[string]float64, err error) {
	free := f.free()
	residuals, err := f.residuals()
	if err != nil {
		return nil, err
	}
	damping := 1.0
	var normal *mat.SymDense
	for range rounds {
		var gradient []float64
		if normal, gradient, err = f.linear(free, residuals); err != nil {
			return nil, err
		}
		before, logs := f.cost(residuals), slices.Clone(f.logs)
		step, ok := damped(normal, gradient, damping)
		if ok {
			for k, i := range free {
				f.logs[i] -= math.Max(-widest, math.Min(widest, step[k]))
			}
			if residuals, err = f.residuals(); err != nil {
				return nil, err
			}
		}
		if after := f.cost(residuals); ok && after < before {
			if damping /= 4; before-after < 1e-6*before {
				break
			}
			continue
		}
		f.logs = logs // it made things worse: a shorter step
		if damping *= 6; damping > 1e8 {
			break
		}
		if residuals, err = f.residuals(); err != nil {
			return nil, err
		}
	}
	return f.errors(free, normal), nil
}

// linear returns JᵀWJ and JᵀWr with the ridge, J by differences.
func (f *fit) linear(free []int, residuals []float64) (*mat.SymDense, []float64, error) {
	const h = 1e-4
	jac := make([][]float64, len(free))
	for k, i := range free {
		was := f.logs[i]
		f.logs[i] += h
		moved, err := f.residuals()
		f.logs[i] = was
		if err != nil {
			return nil, nil, err
		}
		for n := range moved {
			moved[n] = (moved[n] - residuals[n]) / h
		}
		jac[k] = moved
	}
	normal, gradient := mat.NewSymDense(len(free), nil), make([]float64, len(free))
	for n, r := range residuals {
		weight := 1 / (noise * noise)
		if math.Abs(r) > huber {
			weight *= huber / math.Abs(r)
		}
		for a := range free {
			gradient[a] += weight * jac[a][n] * r
			for b := a; b < len(free); b++ {
				normal.SetSym(a, b, normal.At(a, b)+weight*jac[a][n]*jac[b][n])
			}
		}
	}
	for a, i := range free {
		ridge := 1 / (f.starts[i].spread * f.starts[i].spread)
		normal.SetSym(a, a, normal.At(a, a)+ridge)
		gradient[a] += ridge * (f.logs[i] - math.Log(f.starts[i].value))
	}
	return normal, gradient, nil
}

// damped solves the normal equations with a larger diagonal.
func damped(normal *mat.SymDense, gradient []float64, damping float64) ([]float64, bool) {
	n := normal.SymmetricDim()
	heavier := mat.NewSymDense(n, nil)
	heavier.CopySym(normal)
	for i := range n {
		heavier.SetSym(i, i, normal.At(i, i)*(1+1e-3*damping))
	}
	var cholesky mat.Cholesky
	if !cholesky.Factorize(heavier) {
		return nil, false
	}
	step := mat.NewVecDense(n, nil)
	if err := cholesky.SolveVecTo(step, mat.NewVecDense(n, gradient)); err != nil {
		return nil, false
	}
	return step.RawVector().Data, true
}

// errors are the standard errors of the fitted logarithms.
func (f *fit) errors(free []int, normal *mat.SymDense) map[string]float64 {
	out := map[string]float64{}
	var cholesky mat.Cholesky
	var inverse mat.SymDense
	if normal == nil || !cholesky.Factorize(normal) || cholesky.InverseTo(&inverse) != nil {
		return out
	}
	for k, i := range free {
		out[f.names[i]] = math.Sqrt(inverse.At(k, k))
	}
	return out
}

// identified is how much smaller than its spread at the start a standard error must be.
const identified = 0.5

// left are the parameters of which the steps say little.
func (f *fit) left(errors map[string]float64) (names []string) {
	for i, name := range f.names {
		if se, ok := errors[name]; !f.starts[i].fixed && (!ok || se > identified*f.starts[i].spread) {
			names = append(names, name)
		}
	}
	return names
}
