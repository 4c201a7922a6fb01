package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// An Experiment is a folder of results and how they come about: the layout of vLLM's
// sweeps (bench.md 3.3). A run whose result is there is not measured again.
type Experiment struct {
	Dir      string
	Resume   bool // Dir is there and is completed; otherwise it must not be there
	Runs     int  // of each combination
	Warmup   int  // prompts of a run before these that does not count; 0 = none
	Continue bool // after failures; what failed is written down
	DryRun   bool // only say what would be done
	Out      io.Writer
}

// A Grid is what Serve, Workload and SLA measure: the product of its settings.
type Grid struct {
	Serve, Bench []Object
	Links        []Link
	Open         func(serve Object) (Measurer, error) // for one setting of the server
}

// begin checks that the folder is as it should be.
func (e *Experiment) begin() error {
	if e.Runs < 1 || e.Warmup < 0 {
		return fmt.Errorf("%d runs, %d prompts to warm up: want 1 or more, and 0 or more", e.Runs, e.Warmup)
	}
	_, err := os.Stat(e.Dir)
	switch {
	case err == nil && !e.Resume:
		return fmt.Errorf("%s is there already: --resume completes it, --experiment-name NAME or --output-dir FOLDER makes another", e.Dir)
	case errors.Is(err, os.ErrNotExist) && e.Resume:
		return fmt.Errorf("%s is not there: nothing to resume; --experiment-name and --output-dir say where it is", e.Dir)
	case errors.Is(err, os.ErrNotExist):
		return nil
	}
	return err
}

// cell is the folder of a combination.
func (e *Experiment) cell(serve, bench Object, more ...string) string {
	var parts []string
	if len(serve) > 0 {
		parts = append(parts, "SERVE-", serve.Name())
	}
	if len(bench) > 0 {
		parts = append(parts, "BENCH-", bench.Name())
	}
	return filepath.Join(e.Dir, fileName(strings.Join(append(parts, more...), "-")))
}

// longestName is how many bytes file systems take for a folder's name.
const longestName = 255

// distinct checks that folders can be made whose names are longer by some bytes, and that
// no combination would take the results of another for its own.
func (e *Experiment) distinct(g Grid, longer int) error {
	seen := map[string]bool{}
	for _, serve := range g.Serve {
		for _, bench := range g.Bench {
			dir := e.cell(serve, bench)
			if !linked(g.Links, serve, bench) {
				continue
			}
			if seen[dir] {
				return fmt.Errorf("two combinations have the folder %s; give one of them another %s", dir, nameKey)
			}
			seen[dir] = true
			if n := len(filepath.Base(dir)); n+longer > longestName {
				return fmt.Errorf("the folder %s has a name of %d bytes, at most %d are possible; give the combination a short %s", dir, n, longestName-longer, nameKey)
			}
		}
	}
	return nil
}

// Serve measures every combination (bench.md 3.3).
func (e *Experiment) Serve(ctx context.Context, g Grid) error {
	return e.each(ctx, g, 0, func(ctx context.Context, m Measurer, serve, bench Object) ([]Object, error) {
		return e.runs(ctx, m, serve, bench, e.cell(serve, bench))
	})
}

// each explores every combination that is linked, and writes the table of all results. Names
// of folders become longer by some bytes.
func (e *Experiment) each(ctx context.Context, g Grid, longer int, explore func(ctx context.Context, m Measurer, serve, bench Object) ([]Object, error)) error {
	if err := errors.Join(e.begin(), e.distinct(g, longer)); err != nil {
		return err
	}
	var all []Object
	for _, serve := range g.Serve {
		m, err := g.Open(serve)
		if err != nil {
			return err
		}
		for _, bench := range g.Bench {
			if err != nil || !linked(g.Links, serve, bench) {
				continue
			}
			var runs []Object
			runs, err = explore(ctx, m, serve, bench)
			all = append(all, runs...)
		}
		m.Close()
		if err == nil {
			continue
		}
		if ctx.Err() != nil || !e.Continue {
			return e.early(err)
		}
		name := serve.Name()
		if name == "" {
			name = "default"
		}
		path := filepath.Join(e.Dir, fileName("SERVE-"+name+"-failure.json"))
		if err := e.note(path, failure{err: err, serve: serve}); err != nil {
			return err
		}
	}
	return e.finish(all)
}

// early is the error of an experiment that has not come to its end. How it goes on is an
// error of its own: who interrupts it hears only of that.
func (e *Experiment) early(err error) error {
	return fmt.Errorf("%w; %w", err, fmt.Errorf("the same command with --resume --experiment-name %s goes on from here", filepath.Base(e.Dir)))
}

// finish writes the table of all runs.
func (e *Experiment) finish(all []Object) error {
	if e.DryRun {
		fmt.Fprintf(e.Out, "results would be in %s\n", e.Dir)
		return nil
	}
	if err := os.MkdirAll(e.Dir, 0o777); err != nil {
		return err
	}
	fmt.Fprintf(e.Out, "results are in %s\n", e.Dir)
	return writeWhole(filepath.Join(e.Dir, "summary.csv"), table(all))
}

// note writes down what failed.
func (e *Experiment) note(path string, f failure) error {
	fmt.Fprintf(e.Out, "failed: %v; see %s\n", f.err, path)
	return f.write(path)
}

// runs makes the runs of a combination, as far as they are not there, and returns all.
func (e *Experiment) runs(ctx context.Context, m Measurer, serve, bench Object, dir string) ([]Object, error) {
	return e.series(ctx, m, serve, bench, dir, func(int) Object { return bench })
}

// series is runs where each run may have settings that the results do not show.
func (e *Experiment) series(ctx context.Context, m Measurer, serve, bench Object, dir string, setting func(run int) Object) ([]Object, error) {
	if e.Warmup > 0 {
		warm := run{-1, serve, bench.With("num_prompts", integer(e.Warmup)), filepath.Join(dir, "warmup.json")}
		if _, err := e.run(ctx, m, warm, warm.bench); err != nil {
			return nil, err
		}
	}
	var all []Object
	for i := range e.Runs {
		r, err := e.run(ctx, m, run{i, serve, bench, filepath.Join(dir, fmt.Sprintf("run=%d.json", i))}, setting(i))
		if err != nil {
			return nil, err
		}
		if r != nil {
			all = append(all, r)
		}
	}
	if len(all) == 0 || e.DryRun {
		return nil, nil
	}
	return all, writeRuns(filepath.Join(dir, "summary.json"), all)
}

// A run is one measurement; warm-ups have the number -1.
type run struct {
	number       int
	serve, bench Object
	path         string
}

// result is what is kept of a run: what the client wrote, with the parameters.
func (r *run) result(written Object) Object {
	return written.With("run_number", integer(r.number)).withAll(r.serve, r.bench)
}

// run returns the result of a run, which is measured with setting unless it is there; nil
// in a dry run, and where it failed and the experiment goes on.
func (e *Experiment) run(ctx context.Context, m Measurer, r run, setting Object) (Object, error) {
	switch there, err := readRun(r.path); {
	case there != nil:
		fmt.Fprintf(e.Out, "found %s\n", r.path)
		return r.result(there), nil
	case err != nil: // such as half a file
		fmt.Fprintf(e.Out, "measured again: %v\n", err)
	}
	fmt.Fprintf(e.Out, "run %d: %s\n", r.number, r.path)
	if e.DryRun {
		return nil, m.Measure(ctx, setting, r.path)
	}
	if err := os.Remove(r.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err // some clients would add to it
	}
	if err := os.MkdirAll(filepath.Dir(r.path), 0o777); err != nil {
		return nil, err
	}
	err := m.Measure(ctx, setting, r.path)
	if err == nil {
		var out Object
		if out, err = e.keep(r); err == nil {
			return out, nil
		}
	}
	stem := strings.TrimSuffix(r.path, ".json")
	if aside := os.Rename(r.path, stem+".invalid.json"); aside != nil && !errors.Is(aside, os.ErrNotExist) {
		return nil, errors.Join(err, aside)
	}
	if _, dead := errors.AsType[*ServerError](err); dead || ctx.Err() != nil || !e.Continue {
		return nil, err
	}
	return nil, e.note(stem+".failure.json", failure{&r.number, err, r.serve, r.bench})
}

// keep adds the parameters of a run to its result.
func (e *Experiment) keep(r run) (Object, error) {
	written, err := readRun(r.path)
	if err != nil {
		return nil, err
	}
	if written == nil {
		return nil, fmt.Errorf("%s: the client has ended well and written no result", r.path)
	}
	out := r.result(written)
	return out, writeJSON(r.path, out.append(nil), 4)
}

// A Workload is what serve_workload explores (bench.md 3.4).
type Workload struct {
	Variable Variable
	Levels   int // with serial and batch inference
	Prompts  int // of the client's command, where the parameters say nothing
}

// Workload measures every combination at loads from serial to batch inference.
func (e *Experiment) Workload(ctx context.Context, g Grid, w Workload) error {
	if w.Levels < 2 {
		return fmt.Errorf("%d levels: want 2 or more", w.Levels)
	}
	if err := g.free(w.Variable); err != nil {
		return err
	}
	return e.each(ctx, g, 40, func(ctx context.Context, m Measurer, serve, bench Object) ([]Object, error) {
		return e.workload(ctx, m, serve, bench, w)
	})
}

// free checks that nothing sets what is searched for.
func (g Grid) free(v Variable) error {
	for _, b := range g.Bench {
		if b.Has(string(v)) {
			return fmt.Errorf("the client's parameters set %s, which is to be explored", v)
		}
	}
	return nil
}

func (e *Experiment) workload(ctx context.Context, m Measurer, serve, bench Object, w Workload) ([]Object, error) {
	prompts := w.Prompts
	for _, key := range spellings("num_prompts") {
		if n, ok := bench.Number(key); ok {
			prompts = int(n)
		}
	}
	at := func(bench Object, value int) ([]Object, error) {
		name := string(w.Variable)
		dir := e.cell(serve, bench, "WL-", fmt.Sprintf("%s=%d", name, value))
		return e.runs(ctx, m, serve, bench.With(name, integer(value)), dir)
	}
	serial, err := at(bench.With(string(Concurrency), integer(1)), 1)
	if err != nil {
		return serial, err
	}
	batch, err := at(bench.With(string(Concurrency), integer(prompts)), prompts)
	if err != nil {
		return append(serial, batch...), err
	}
	if len(serial) == 0 || len(batch) == 0 {
		fmt.Fprintln(e.Out, "no levels in between: they follow from serial and batch inference")
		return nil, nil
	}
	low, err := w.Variable.estimate(serial)
	if err != nil {
		return nil, err
	}
	high, err := w.Variable.estimate(batch)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(e.Out, "%s: serial inference %.0f, batch inference %.0f\n", w.Variable, math.Ceil(low), math.Floor(high))
	all := serial
	for _, value := range levels(low, high, w.Levels) {
		runs, err := at(bench, value)
		all = append(all, runs...)
		if err != nil {
			return all, err
		}
	}
	return append(all, batch...), nil
}

// SLA searches, for every combination and each of the objectives, the largest value of the
// variable that keeps them (bench.md 3.5). Values measured for one are not measured again
// for another.
func (e *Experiment) SLA(ctx context.Context, g Grid, v Variable, objectives []SLA) error {
	if err := g.free(v); err != nil {
		return err
	}
	return e.each(ctx, g, 0, func(ctx context.Context, m Measurer, serve, bench Object) (all []Object, err error) {
		for _, o := range objectives {
			runs, err := e.sla(ctx, m, serve, bench, v, o)
			all = append(all, runs...)
			if err != nil {
				return all, err
			}
		}
		return all, nil
	})
}

func (e *Experiment) sla(ctx context.Context, m Measurer, serve, bench Object, v Variable, o SLA) (all []Object, err error) {
	dir := e.cell(serve, bench)
	var tried []trial
	for {
		value, ok := nextTrial(tried)
		if !ok {
			break
		}
		runs, err := e.runs(ctx, m, serve, bench.With(string(v), integer(value)), filepath.Join(dir, fmt.Sprintf("%s=%d", v, value)))
		all = append(all, runs...)
		if err != nil {
			return all, err
		}
		if e.DryRun {
			fmt.Fprintf(e.Out, "other values of %s follow from the results\n", v)
			return nil, nil
		}
		if len(runs) == 0 {
			return all, fmt.Errorf("%s=%d: no run succeeded, so that nobody knows whether %s", v, value, o.text(" and "))
		}
		margin, err := o.margin(runs)
		if err != nil {
			return all, err
		}
		fmt.Fprintf(e.Out, "%s=%d: %s: margin %.2f\n", v, value, o.text(" and "), margin)
		tried = append(tried, trial{value, margin})
	}
	if pass, _ := edge(tried); slices.ContainsFunc(tried, func(t trial) bool { return t.margin <= 0 }) {
		fmt.Fprintf(e.Out, "largest %s that keeps %s: %d\n", v, o.text(" and "), pass)
	} else {
		fmt.Fprintf(e.Out, "no %s keeps %s: not even %d\n", v, o.text(" and "), leastValue)
	}
	return all, writeRuns(filepath.Join(dir, fileName("SLA--"+o.text("-")+".json")), all)
}

// A LoadSearch is what Load does.
type LoadSearch struct {
	Search
	Variable Variable
	SLA      SLA
	Prompts  int                   // of a run at least
	PerLoad  float64               // prompts of a run per unit of load: seconds of arrivals, or requests of each user
	Seed     int64                 // of the first run; each has its own, so that no prompt comes twice
	Expired  func() bool           // whether the time for it is over
	Measured func(Point, []Object) // tells of a point with its runs
}

// Load searches the load worth offering (bench.md 6, item 9) and writes what it found to
// load.json beside the results.
func (e *Experiment) Load(ctx context.Context, m Measurer, l LoadSearch) (Conclusion, error) {
	if err := errors.Join(l.Check(), e.begin()); err != nil {
		return Conclusion{}, err
	}
	if e.DryRun {
		fmt.Fprintf(e.Out, "%s: %v, until something ends the climb\n", l.Variable, l.ladder())
		return Conclusion{}, e.finish(nil)
	}
	var points []Point
	var all []Object
	for !l.Expired() {
		load, more := l.Next(points)
		if !more {
			break
		}
		bench := Object{{nameKey, quoted(string(l.Variable) + "=" + string(number(load)))}, {string(l.Variable), number(load)}}
		prompts := max(l.Prompts, int(math.Ceil(l.PerLoad*load)))
		seed := l.Seed + int64(len(points)*e.Runs)
		runs, err := e.series(ctx, m, nil, bench, e.cell(nil, bench), func(i int) Object {
			return bench.With("num_prompts", integer(prompts)).With("seed", strconv.AppendInt(nil, seed+int64(i), 10))
		})
		if err != nil {
			return Conclusion{}, e.early(err)
		}
		p, err := l.point(load, runs)
		if err != nil {
			return Conclusion{}, e.early(fmt.Errorf("%s: %w", bench.Name(), err))
		}
		points, all = append(points, p), append(all, runs...)
		l.Measured(p, runs)
	}
	c := l.Conclude(points)
	if err := e.finish(all); err != nil {
		return c, err
	}
	text, err := compactJSON(struct {
		Variable Variable `json:"variable"`
		SLA      string   `json:"sla"`
		Conclusion
		Points []Point `json:"points"`
	}{l.Variable, l.SLA.text(","), c, points})
	if err != nil {
		return c, err
	}
	return c, writeJSON(filepath.Join(e.Dir, "load.json"), text, 4)
}

// point is what the runs at a load say.
func (l *LoadSearch) point(load float64, runs []Object) (p Point, err error) {
	p.Load = load
	if len(runs) == 0 {
		return p, errors.New("no run succeeded")
	}
	if p.Throughput, err = Mean(runs, "output_throughput"); err != nil {
		return p, err
	}
	for _, r := range runs {
		if p.Untrusted == "" {
			p.Untrusted = untrusted(r)
		}
	}
	if p.Untrusted == "" { // metrics of a run in which nothing succeeded may be missing
		p.Margin, err = l.SLA.margin(runs)
	}
	return p, err
}

// untrusted names what speaks against a result, by what ossian says of its own.
func untrusted(r Object) string {
	raw, ok := r.Get(ownKey)
	if !ok {
		return ""
	}
	var x struct {
		Valid    *bool
		Findings []struct {
			ID      string
			Warning bool
		}
	}
	if err := json.Unmarshal(raw, &x); err != nil || x.Valid == nil || *x.Valid {
		return ""
	}
	var why []string
	for _, f := range x.Findings {
		if !f.Warning {
			why = append(why, f.ID)
		}
	}
	return strings.Join(why, " ")
}
