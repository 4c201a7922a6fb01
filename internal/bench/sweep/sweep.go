// Package sweep measures servers under many settings: parameter files and their products,
// a server process for each setting, loads that are found by search, and the files that
// keep the results, so that a sweep that was cut off goes on where it was (bench.md
// 3.3-3.5 and 6, item 9). What measures is the caller's: a program, or a function.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// An Experiment is a folder of results and how they come about: the layout of vLLM's
// sweeps (bench.md 3.3). A run whose result is there is not measured again.
type Experiment struct {
	Dir      string
	Resume   bool      // Dir is there and is completed; otherwise it must not be there
	Runs     int       // of each combination
	Warmup   int       // prompts of a run before these that does not count; 0 = none
	Continue bool      // after failures: the experiment is whole, and a *FailedError names them
	DryRun   bool      // only say what would be done
	Out      io.Writer // what is going on

	failed []string // what was written down in this attempt
}

// A FailedError says that an experiment came to its end and that runs of it, or servers, failed.
// All others are whole.
type FailedError struct {
	Failures []string // where each is written down, and why it failed
}

// Error names each failure on a line of its own.
func (e *FailedError) Error() string {
	what := "failures"
	if len(e.Failures) == 1 {
		what = "failure"
	}
	return fmt.Sprintf("%d %s, all else was measured:\n  %s", len(e.Failures), what, strings.Join(e.Failures, "\n  "))
}

// A Measurer measures a server.
type Measurer interface {
	// Measure has the client of the measurement, under the settings, write its result as
	// JSON to the file at path. After a *ServerError there is nothing more to measure.
	Measure(ctx context.Context, bench Object, path string) error
	// Close ends what Measure has started.
	Close()
}

// A Grid is what Serve, Workload and SLA measure: the product of its settings.
type Grid struct {
	Serve, Bench []Object                             // settings of the server, of the client
	Links        []Link                               // which of the combinations count; none = all
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

// folder is that of a combination; more is behind its name.
func (e *Experiment) folder(serve, bench Object, more ...string) string {
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
func (e *Experiment) distinct(grid Grid, longer int) error {
	seen := map[string]bool{}
	for _, serve := range grid.Serve {
		for _, bench := range grid.Bench {
			dir := e.folder(serve, bench)
			if !linked(grid.Links, serve, bench) {
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
func (e *Experiment) Serve(ctx context.Context, grid Grid) error {
	return e.each(ctx, grid, 0, func(ctx context.Context, measurer Measurer, serve, bench Object) ([]Object, error) {
		return e.runs(ctx, measurer, serve, bench, e.folder(serve, bench))
	})
}

// each explores every combination that is linked, and writes the table of all results. Names
// of folders become longer by some bytes.
func (e *Experiment) each(ctx context.Context, grid Grid, longer int, explore func(ctx context.Context, measurer Measurer, serve, bench Object) ([]Object, error)) error {
	if err := errors.Join(e.begin(), e.distinct(grid, longer)); err != nil {
		return err
	}
	e.failed = nil
	var all []Object
	for _, serve := range grid.Serve {
		runs, err := e.server(ctx, grid, serve, explore)
		if err != nil { // the table would be of half the runs: --resume writes it
			return e.early(err)
		}
		all = append(all, runs...)
	}
	if err := e.finish(all); err != nil || len(e.failed) == 0 {
		return err
	}
	return &FailedError{e.failed}
}

// server explores the combinations of one setting of the server. What fails ends it, or with
// Continue is written down: a combination in which nothing can be found costs itself, a
// server that is dead its other combinations too.
func (e *Experiment) server(ctx context.Context, grid Grid, serve Object, explore func(ctx context.Context, measurer Measurer, serve, bench Object) ([]Object, error)) (all []Object, err error) {
	measurer, err := grid.Open(serve)
	if err != nil {
		return nil, err
	}
	defer measurer.Close()
	name := serve.Name()
	if name == "" {
		name = "default"
	}
	note := filepath.Join(e.Dir, fileName("SERVE-"+name+"-failure.json"))
	for _, bench := range grid.Bench {
		if !linked(grid.Links, serve, bench) {
			continue
		}
		runs, err := explore(ctx, measurer, serve, bench)
		all = append(all, runs...)
		own := e.folder(serve, bench, "failure") + ".json"
		// The note of an earlier failure goes once the combination succeeds.
		switch _, dead := errors.AsType[*ServerError](err); {
		case err == nil:
			if err := e.forget(own); err != nil {
				return nil, err
			}
		case ctx.Err() != nil || !e.Continue:
			return nil, err
		case dead:
			return all, e.note(note, failure{err: err, serve: serve})
		default:
			if err := e.note(own, failure{err: err, serve: serve, bench: bench}); err != nil {
				return nil, err
			}
		}
	}
	return all, e.forget(note)
}

// forget removes what an earlier attempt wrote about a failure.
func (e *Experiment) forget(paths ...string) error {
	if e.DryRun {
		return nil
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
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
func (e *Experiment) note(path string, failure failure) error {
	short, err := filepath.Rel(e.Dir, path)
	if err != nil {
		short = path
	}
	e.failed = append(e.failed, fmt.Sprintf("%s: %v", short, failure.err))
	fmt.Fprintf(e.Out, "failed: %v; see %s\n", failure.err, path)
	return failure.write(path)
}

// runs makes the runs of a combination, as far as they are not there, and returns all.
func (e *Experiment) runs(ctx context.Context, measurer Measurer, serve, bench Object, dir string) ([]Object, error) {
	return e.series(ctx, measurer, serve, bench, dir, func(int) Object { return bench })
}

// series is runs where each run may have settings that the results do not show.
func (e *Experiment) series(ctx context.Context, measurer Measurer, serve, bench Object, dir string, setting func(run int) Object) ([]Object, error) {
	// A warm-up is kept like a run, so that a sweep that goes on does not repeat it.
	if e.Warmup > 0 {
		warm := run{-1, serve, bench.With("num_prompts", jsonInteger(e.Warmup)), filepath.Join(dir, "warmup.json")}
		if _, err := e.measureRun(ctx, measurer, warm, warm.bench); err != nil {
			return nil, err
		}
	}
	var all []Object
	for i := range e.Runs {
		result, err := e.measureRun(ctx, measurer, run{i, serve, bench, filepath.Join(dir, fmt.Sprintf("run=%d.json", i))}, setting(i))
		if err != nil {
			return nil, err
		}
		if result != nil {
			all = append(all, result)
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
	return written.With("run_number", jsonInteger(r.number)).withAll(r.serve, r.bench)
}

// measureRun returns the result of a run, which is measured with setting unless it is there;
// nil in a dry run, and where it failed and the experiment goes on. What the client writes is
// beside the path of the run until it has ended well, so that a result which is there counts,
// whenever the experiment was killed:
//
//	missing → .measuring.json, what the client wrote → the path, with parameters
//	                                                 → .invalid.json, with the reason in .failure.json
func (e *Experiment) measureRun(ctx context.Context, measurer Measurer, run run, setting Object) (Object, error) {
	switch there, err := readRun(run.path); {
	case there != nil:
		fmt.Fprintf(e.Out, "found %s\n", run.path)
		return run.result(there), nil
	case err != nil: // such as half a file
		fmt.Fprintf(e.Out, "measured again: %v\n", err)
	}
	fmt.Fprintf(e.Out, "run %d: %s\n", run.number, run.path)
	if e.DryRun {
		return nil, measurer.Measure(ctx, setting, run.path)
	}
	stem := strings.TrimSuffix(run.path, ".json")
	measuring := stem + measuringEnd
	if err := e.forget(run.path, measuring); err != nil { // some clients would add to it
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(run.path), 0o777); err != nil {
		return nil, err
	}
	err := measurer.Measure(ctx, setting, measuring)
	if err == nil {
		var out Object
		if out, err = e.keep(run, measuring); err == nil {
			return out, e.forget(measuring, stem+".failure.json", stem+".invalid.json")
		}
	}
	// Put aside, it is there for whoever looks for what was wrong.
	if aside := os.Rename(measuring, stem+".invalid.json"); aside != nil && !errors.Is(aside, os.ErrNotExist) {
		return nil, errors.Join(err, aside)
	}
	if _, dead := errors.AsType[*ServerError](err); dead || ctx.Err() != nil {
		return nil, err
	}
	// Whoever looks at the folder finds why, also where the first failure ends the experiment.
	if noted := e.note(stem+".failure.json", failure{&run.number, err, run.serve, run.bench}); noted != nil || !e.Continue {
		return nil, errors.Join(err, noted)
	}
	return nil, nil
}

// measuringEnd is the end of the file that a client writes, in place of .json of the run.
const measuringEnd = ".measuring.json"

// keep writes what the client of a run wrote to the run's own path, with its parameters.
func (e *Experiment) keep(run run, written string) (Object, error) {
	found, err := readRun(written)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("%s: the client has ended well and written no result", written)
	}
	out := run.result(found)
	return out, writeJSON(run.path, out.append(nil), 4)
}
