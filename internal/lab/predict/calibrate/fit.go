package calibrate

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
)

// A fit asks for the parameters with which the predicted logarithms come closest to the measured
// ones: Gauss-Newton on the simulated Jacobian, residuals beyond 8 % with less weight (Huber), and
// a ridge that pulls every parameter to its prior (lab.md 5).

const (
	noise       = 0.06  // a published number says its logarithm with this standard error
	discrepancy = 0.035 // of the model itself: what no parameter mends, as a logarithm
	huber       = 0.08  // from here on a residual counts linearly
	rounds      = 8     // of Gauss-Newton on one schedule
	widest      = 0.5   // largest step of a logarithm in a round
	schedules   = 2     // times that the rows are simulated with the parameters fitted so far
)

// observed are the metrics that a fit uses, and how much each counts. The 99th percentile of the
// gaps tells mixed steps from pure ones, but only where a chunk is a token.
var observed = []struct {
	key       string
	weight    float64
	tokenTrue bool // only where the client sees one token in a chunk
}{
	{"duration_s", 1, false}, {"mean_ttft_ms", 1, false}, {"mean_tpot_ms", 1, false},
	{"median_itl_ms", 0.7, false}, {"p99_itl_ms", 0.5, true},
}

// targets are what predictions are judged by (lab.md 10, P1).
var targets = []string{"duration_s", "mean_ttft_ms", "mean_tpot_ms"}

// A model holds the simulated rows of one machine and engine, and the parameters to be fitted.
type model struct {
	rows   []Row
	sims   []*predict.Simulation
	names  []string // of the parameters that are fitted, in order
	base   *predict.Calibration
	logs   []float64            // of the parameters, as fitted so far
	values []map[string]float64 // [row] of the observed metrics, where last evaluated
	jac    [][]jacobian         // [row][observed metric]

	examples [][]string // [row] what it is an example of, once asked
}

// A jacobian is how the logarithm of one observed metric moves with those of the parameters.
type jacobian []float64

// newModel simulates the rows with the priors.
func newModel(ctx context.Context, rows []Row) (*model, error) {
	if len(rows) == 0 {
		return nil, fmt.Errorf("no rows to calibrate with")
	}
	first, err := rows[0].Scenario(rows)
	if err != nil {
		return nil, err
	}
	versions := map[string]int{}
	for i := range rows {
		s, err := rows[i].Scenario(rows)
		if err != nil {
			return nil, err
		}
		if s.Machine.Name != first.Machine.Name || s.Engine.Name != first.Engine.Name {
			return nil, fmt.Errorf("row %s is of %s on %s, row %s of %s on %s: a calibration is of one engine on one machine",
				rows[i].ID, s.Engine.Name, s.Machine.Name, rows[0].ID, first.Engine.Name, first.Machine.Name)
		}
		versions[s.Engine.Version]++
	}
	m := &model{rows: rows, base: Prior(first.Machine.Name, first.Engine.Name, versions)}
	if err := m.simulate(ctx); err != nil {
		return nil, err
	}
	for _, sim := range m.sims {
		for _, name := range sim.Parameters() {
			p, known := priors[name]
			if !known {
				return nil, fmt.Errorf("parameter %s has no prior: its kernel cannot be calibrated", name)
			}
			if !p.fixed && !slices.Contains(m.names, name) {
				m.names = append(m.names, name)
			}
		}
	}
	slices.Sort(m.names)
	for _, name := range m.names {
		m.logs = append(m.logs, math.Log(priors[name].value))
	}
	return m, nil
}

// simulate runs all rows in virtual time with the base parameters; those of a session together.
func (m *model) simulate(ctx context.Context) error {
	m.sims = make([]*predict.Simulation, len(m.rows))
	for i := len(m.rows) - 1; i >= 0; i-- { // the last of a session has all before it
		if m.sims[i] != nil {
			continue
		}
		s, err := m.rows[i].Scenario(m.rows)
		if err != nil {
			return err
		}
		s.Calibration = m.base
		all, err := predict.SimulateSession(ctx, s)
		if err != nil {
			return fmt.Errorf("row %s: %w", m.rows[i].ID, err)
		}
		for j, at := i, len(all)-1; at >= 0; j-- {
			if j == i || (m.rows[i].Session != "" && m.rows[j].Session == m.rows[i].Session) {
				m.sims[j] = all[at]
				at--
			}
		}
	}
	return nil
}

// parameters are their values at some logarithms.
func (m *model) parameters(logs []float64) map[string]float64 {
	values := map[string]float64{}
	for i, name := range m.names {
		values[name] = math.Exp(logs[i])
		if priors[name].unit == "share" && !isMixed(name) {
			values[name] = math.Min(values[name], 1)
		}
	}
	return values
}

// evaluate times the rows of these numbers at the parameters as they are, and fills their Jacobian.
func (m *model) evaluate(which []int) {
	if m.jac == nil {
		m.jac, m.values = make([][]jacobian, len(m.rows)), make([]map[string]float64, len(m.rows))
	}
	calibration := m.base.With(m.parameters(m.logs))
	for _, i := range which {
		timing := m.sims[i].Retime(calibration)
		m.values[i], m.jac[i] = timing.Values, make([]jacobian, len(observed))
		for o, metric := range observed {
			m.jac[i][o] = make(jacobian, len(m.names))
			for p, name := range m.names {
				m.jac[i][o][p] = timing.Slopes[metric.key][name]
			}
		}
	}
}

// usable returns the weight of an observed metric of a row, 0 where it says nothing.
func (m *model) usable(row, metric int) float64 {
	o := observed[metric]
	if m.rows[row].Metrics[o.key] <= 0 || (o.tokenTrue && m.rows[row].Profile != "lmdeploy") {
		return 0
	}
	return o.weight
}

// normal returns the matrix of the normal equations of rows and their right side; robust = large
// residuals count less.
func (m *model) normal(which []int, robust bool) (*mat.SymDense, *mat.VecDense) {
	n := len(m.names)
	matrix, right := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
	for p, name := range m.names { // the ridge
		spread := priors[name].spread
		matrix.SetSym(p, p, 1/(spread*spread))
		right.SetVec(p, (math.Log(priors[name].value)-m.logs[p])/(spread*spread))
	}
	for _, i := range which {
		for o := range observed {
			weight := m.usable(i, o) / (noise * noise)
			residual := m.residual(i, o)
			if size := math.Abs(residual); robust && size > huber {
				weight *= huber / size
			}
			if weight == 0 {
				continue
			}
			row := m.jac[i][o]
			for a := range n {
				if row[a] == 0 {
					continue
				}
				right.SetVec(a, right.AtVec(a)+weight*row[a]*residual)
				for b := a; b < n; b++ {
					matrix.SetSym(a, b, matrix.At(a, b)+weight*row[a]*row[b])
				}
			}
		}
	}
	return matrix, right
}

// residual is log(measured / predicted) of an observed metric.
func (m *model) residual(row, metric int) float64 {
	key := observed[metric].key
	if measured, predicted := m.rows[row].Metrics[key], m.values[row][key]; measured > 0 && predicted > 0 {
		return math.Log(measured / predicted)
	}
	return 0
}

// gaussNewton moves the parameters to where rows are fitted best.
func (m *model) gaussNewton(which []int) error {
	for range rounds {
		m.evaluate(which)
		matrix, right := m.normal(which, true)
		var factor mat.Cholesky
		if !factor.Factorize(matrix) {
			return fmt.Errorf("the normal equations have no solution")
		}
		var change mat.VecDense
		if err := factor.SolveVecTo(&change, right); err != nil {
			return fmt.Errorf("normal equations: %w", err)
		}
		moved := 0.0
		for p := range m.logs {
			by := math.Max(-widest, math.Min(widest, change.AtVec(p)))
			m.logs[p] += by
			if priors[m.names[p]].unit == "share" && !isMixed(m.names[p]) {
				m.logs[p] = math.Min(m.logs[p], 0)
			}
			moved = math.Max(moved, math.Abs(by))
		}
		if moved < 1e-3 {
			break
		}
	}
	return nil
}

// isMixed reports whether a share may exceed 1.
func isMixed(name string) bool {
	return name == "attention/full/mixed" || name == "attention/sinks/mixed"
}

// covariance of the logarithms of the parameters, given rows.
func (m *model) covariance(which []int) (*mat.SymDense, error) {
	matrix, _ := m.normal(which, false)
	var factor mat.Cholesky
	if !factor.Factorize(matrix) {
		return nil, fmt.Errorf("the normal equations have no solution")
	}
	var inverse mat.SymDense
	err := factor.InverseTo(&inverse)
	return &inverse, err
}

// refresh simulates all rows with the parameters as they are now.
func (m *model) refresh(ctx context.Context) error {
	m.base = m.base.With(m.parameters(m.logs))
	return m.simulate(ctx)
}

// calibration is what the rows of these numbers have given.
func (m *model) calibration(which []int) (*predict.Calibration, error) {
	covariance, err := m.covariance(which)
	if err != nil {
		return nil, err
	}
	c := &predict.Calibration{Machine: m.base.Machine, Engine: m.base.Engine, Parameters: map[string]machine.Parameter{}}
	for name, p := range priors {
		if p.fixed {
			c.Parameters[name] = machine.Parameter{Value: p.value, Unit: p.unit, Origin: machine.Published, SE: p.spread}
		}
	}
	seen := map[string]bool{}
	for _, i := range which {
		for _, name := range m.sims[i].Parameters() {
			seen[name] = true
		}
	}
	values := m.parameters(m.logs)
	for p, name := range m.names {
		se := math.Sqrt(covariance.At(p, p))
		if !seen[name] { // no row has that kernel: it stays unknown
			continue
		}
		c.Parameters[name] = machine.Parameter{Value: digits(values[name]), Unit: priors[name].unit, Origin: machine.Fitted, SE: digits(se)}
		if se > 0.7*priors[name].spread {
			c.Left = append(c.Left, name)
		}
	}
	c.Versions = map[string]int{}
	for _, i := range which {
		c.Rows = append(c.Rows, m.rows[i].ID)
		profile, err := predict.Engine(m.rows[i].Engine, m.rows[i].EngineVersion)
		if err != nil {
			return nil, err
		}
		c.Versions[profile.Version]++
		covered := m.sims[i].Covered()
		c.Range.Context = math.Max(c.Range.Context, covered.Context)
		c.Range.Sequences = math.Max(c.Range.Sequences, covered.Sequences)
		c.Range.Devices = append(c.Range.Devices, covered.Devices...)
	}
	slices.Sort(c.Range.Devices)
	c.Range.Devices = slices.Compact(c.Range.Devices)
	return c, nil
}

// digits leaves five significant digits: more would only make files long.
func digits(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 4-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// spread is how sure predictions are that rest on the rows of these numbers; its quantiles are
// still to be found.
func (m *model) spread(which []int) (predict.Spread, error) {
	covariance, err := m.covariance(which)
	if err != nil {
		return predict.Spread{}, err
	}
	s := predict.Spread{Names: m.names, Discrepancy: discrepancy}
	for a := range m.names {
		for b := range m.names {
			s.Covariance = append(s.Covariance, digits(covariance.At(a, b)))
		}
	}
	return s, nil
}
