package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Workload is what serve_workload explores (bench.md 3.4).
type Workload struct {
	Variable Variable
	Levels   int // with serial and batch inference
	Prompts  int // of the client's command, where the parameters say nothing
}

// Workload measures every combination at loads from serial to batch inference.
func (e *Experiment) Workload(ctx context.Context, grid Grid, workload Workload) error {
	if workload.Levels < 2 {
		return fmt.Errorf("%d levels: want 2 or more", workload.Levels)
	}
	if err := grid.free(workload.Variable); err != nil {
		return err
	}
	return e.each(ctx, grid, 40, func(ctx context.Context, measurer Measurer, serve, bench Object) ([]Object, error) {
		return e.exploreWorkload(ctx, measurer, serve, bench, workload)
	})
}

// free checks that nothing sets what is searched for.
func (g Grid) free(variable Variable) error {
	for _, settings := range g.Bench {
		if settings.Has(string(variable)) {
			return fmt.Errorf("the client's parameters set %s, which is to be explored", variable)
		}
	}
	return nil
}

// exploreWorkload measures one combination: one request at once, then all at once, then
// levels between the two loads that these came to.
func (e *Experiment) exploreWorkload(ctx context.Context, measurer Measurer, serve, bench Object, workload Workload) ([]Object, error) {
	prompts := workload.Prompts
	for _, key := range spellings("num_prompts") {
		if number, ok := bench.Number(key); ok {
			prompts = int(number)
		}
	}
	// Folders are named by the level, also for the two ends, which are set by concurrency.
	at := func(bench Object, value int) ([]Object, error) {
		name := string(workload.Variable)
		dir := e.folder(serve, bench, "WL-", fmt.Sprintf("%s=%d", name, value))
		return e.runs(ctx, measurer, serve, bench.With(name, jsonInteger(value)), dir)
	}
	serial, err := at(bench.With(string(Concurrency), jsonInteger(1)), 1)
	if err != nil {
		return serial, err
	}
	batch, err := at(bench.With(string(Concurrency), jsonInteger(prompts)), prompts)
	if err != nil {
		return append(serial, batch...), err
	}
	if len(serial) == 0 || len(batch) == 0 {
		fmt.Fprintln(e.Out, "no levels in between: they follow from serial and batch inference")
		return nil, nil
	}
	low, err := workload.Variable.estimate(serial)
	if err != nil {
		return nil, err
	}
	high, err := workload.Variable.estimate(batch)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(e.Out, "%s: serial inference %.0f, batch inference %.0f\n", workload.Variable, math.Ceil(low), math.Floor(high))
	all := serial
	for _, value := range levels(low, high, workload.Levels) {
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
func (e *Experiment) SLA(ctx context.Context, grid Grid, variable Variable, objectives []SLA) error {
	if err := grid.free(variable); err != nil {
		return err
	}
	return e.each(ctx, grid, 0, func(ctx context.Context, measurer Measurer, serve, bench Object) (all []Object, err error) {
		for _, sla := range objectives {
			runs, err := e.searchSLA(ctx, measurer, serve, bench, variable, sla)
			all = append(all, runs...)
			if err != nil {
				return all, err
			}
		}
		return all, nil
	})
}

// searchSLA searches for one combination and one set of objectives. What an earlier search
// measured is found in its folder by runs.
func (e *Experiment) searchSLA(ctx context.Context, measurer Measurer, serve, bench Object, variable Variable, sla SLA) (all []Object, err error) {
	dir := e.folder(serve, bench)
	var tried []trial
	for {
		value, ok := nextTrial(tried)
		if !ok {
			break
		}
		runs, err := e.runs(ctx, measurer, serve, bench.With(string(variable), jsonInteger(value)), filepath.Join(dir, fmt.Sprintf("%s=%d", variable, value)))
		all = append(all, runs...)
		if err != nil {
			return all, err
		}
		if e.DryRun {
			fmt.Fprintf(e.Out, "other values of %s follow from the results\n", variable)
			return nil, nil
		}
		if len(runs) == 0 {
			return all, fmt.Errorf("%s=%d: no run succeeded, so that nobody knows whether %s", variable, value, sla.text(" and "))
		}
		margin, err := sla.margin(runs)
		if err != nil {
			return all, err
		}
		fmt.Fprintf(e.Out, "%s=%d: %s: margin %.2f\n", variable, value, sla.text(" and "), margin)
		tried = append(tried, trial{value, margin})
	}
	// Where no value passed, edge returns the smallest all the same.
	if pass, _ := edge(tried); slices.ContainsFunc(tried, func(t trial) bool { return t.margin <= 0 }) {
		fmt.Fprintf(e.Out, "largest %s that keeps %s: %d\n", variable, sla.text(" and "), pass)
	} else {
		fmt.Fprintf(e.Out, "no %s keeps %s: not even %d\n", variable, sla.text(" and "), leastValue)
	}
	return all, writeRuns(filepath.Join(dir, fileName("SLA--"+sla.text("-")+".json")), all)
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
func (e *Experiment) Load(ctx context.Context, measurer Measurer, search LoadSearch) (Conclusion, error) {
	if err := errors.Join(search.Check(), e.begin()); err != nil {
		return Conclusion{}, err
	}
	if e.DryRun {
		fmt.Fprintf(e.Out, "%s: %v, until something ends the climb\n", search.Variable, search.ladder())
		return Conclusion{}, e.finish(nil)
	}
	var points []Point
	var all []Object
	// Next depends on the points alone, so that a search that goes on finds its runs again:
	// names of settings and seeds follow from the load and the number of points.
	for !search.Expired() {
		load, more := search.Next(points)
		if !more {
			break
		}
		bench := Object{{nameKey, jsonText(string(search.Variable) + "=" + string(jsonNumber(load)))}, {string(search.Variable), jsonNumber(load)}}
		prompts := max(search.Prompts, int(math.Ceil(search.PerLoad*load)))
		seed := search.Seed + int64(len(points)*e.Runs)
		runs, err := e.series(ctx, measurer, nil, bench, e.folder(nil, bench), func(i int) Object {
			return bench.With("num_prompts", jsonInteger(prompts)).With("seed", strconv.AppendInt(nil, seed+int64(i), 10))
		})
		if err != nil {
			return Conclusion{}, e.early(err)
		}
		point, err := search.pointOf(load, runs)
		if err != nil {
			return Conclusion{}, e.early(fmt.Errorf("%s: %w", bench.Name(), err))
		}
		points, all = append(points, point), append(all, runs...)
		search.Measured(point, runs)
	}
	conclusion := search.Conclude(points)
	if err := e.finish(all); err != nil {
		return conclusion, err
	}
	text, err := compactJSON(struct {
		Variable Variable `json:"variable"`
		SLA      string   `json:"sla"`
		Conclusion
		Points []Point `json:"points"`
	}{search.Variable, search.SLA.text(","), conclusion, points})
	if err != nil {
		return conclusion, err
	}
	return conclusion, writeJSON(filepath.Join(e.Dir, "load.json"), text, 4)
}

// pointOf is what the runs at a load say.
func (l *LoadSearch) pointOf(load float64, runs []Object) (point Point, err error) {
	point.Load = load
	if len(runs) == 0 {
		return point, errors.New("no run succeeded")
	}
	if point.Throughput, err = Mean(runs, "output_throughput"); err != nil {
		return point, err
	}
	// Only what the search looks at has to hold.
	keys := []string{"output_throughput"}
	for _, objective := range l.SLA {
		keys = append(keys, objective.Metric)
	}
	for _, run := range runs {
		if point.Untrusted == "" {
			point.Untrusted = untrusted(run, keys)
		}
	}
	if point.Untrusted == "" { // metrics of a run in which nothing succeeded may be missing
		point.Margin, err = l.SLA.margin(runs)
	}
	return point, err
}

// untrusted names what speaks against metrics of a result, by what ossian says of its own.
func untrusted(result Object, keys []string) string {
	raw, ok := result.Get(ownKey)
	if !ok {
		return ""
	}
	// A result of another tool, or of another form, says nothing against itself.
	var own struct {
		Valid    *bool
		Findings []struct {
			ID      string
			Warning bool
			Touches []string // keys, names of latencies, or *; nil = of an older file, which does not say
		}
	}
	if err := json.Unmarshal(raw, &own); err != nil || own.Valid == nil || *own.Valid {
		return ""
	}
	var why []string
	for _, finding := range own.Findings {
		about := finding.Touches == nil || slices.ContainsFunc(finding.Touches, func(touched string) bool {
			return touched == "*" || slices.ContainsFunc(keys, func(key string) bool { return key == touched || strings.HasSuffix(key, "_"+touched+"_ms") })
		})
		if !finding.Warning && about {
			why = append(why, finding.ID)
		}
	}
	return strings.Join(why, " ")
}
