package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ossian/internal/soak"
)

// A fake measures what follows from the settings, and can fail.
type fake struct {
	measured map[string]int // by path: how often a result was written
	fail     func(path string) error
	result   func(bench Object) string
	closed   int
}

func (f *fake) Measure(_ context.Context, bench Object, path string) error {
	if f.fail != nil {
		if err := f.fail(path); err != nil {
			return err
		}
	}
	f.measured[final(path)]++
	return os.WriteFile(path, []byte(f.result(bench)), 0o666)
}

func (f *fake) Close() { f.closed++ }

// final is the path of the run whose client writes to a path.
func final(path string) string { return strings.TrimSuffix(path, measuringEnd) + ".json" }

// curve is a server of up to 100 requests/s whose latency grows with the load.
func curve(bench Object) string {
	load, ok := bench.Number("request_rate")
	if !ok {
		load, _ = bench.Number("max_concurrency")
	}
	rate := 100 * load / (load + 20)
	return fmt.Sprintf(`{"request_throughput": %v, "output_throughput": %v, "mean_e2el_ms": %v, "p99_ttft_ms": %v, "rtfx": NaN}`, rate, 10*rate, 1000*load/rate, 5*load)
}

func grid(t *testing.T, m Measurer) Grid {
	return Grid{Serve: []Object{one(t, `{"a": 1}`), one(t, `{"a": 2}`)}, Bench: []Object{one(t, `{"b": "x"}`), one(t, `{"b": "y"}`)},
		Open: func(Object) (Measurer, error) { return m, nil }}
}

// kinds are all sweeps over the same grid.
func kinds(t *testing.T) map[string]func(ctx context.Context, e *Experiment, m Measurer) error {
	return map[string]func(ctx context.Context, e *Experiment, m Measurer) error{
		"serve": func(ctx context.Context, e *Experiment, m Measurer) error { return e.Serve(ctx, grid(t, m)) },
		"workload": func(ctx context.Context, e *Experiment, m Measurer) error {
			return e.Workload(ctx, grid(t, m), Workload{Rate, 4, 50})
		},
		"sla": func(ctx context.Context, e *Experiment, m Measurer) error {
			return e.SLA(ctx, grid(t, m), Concurrency, []SLA{{{"p99_ttft_ms", "<=", 200}}, {{"p99_ttft_ms", "<", 60}, {"mean_e2el_ms", "<=", 500}}})
		},
		"load": func(ctx context.Context, e *Experiment, m Measurer) error {
			_, err := e.Load(ctx, m, load(nil))
			return err
		},
	}
}

func load(told func(Point, []Object)) LoadSearch {
	if told == nil {
		told = func(Point, []Object) {}
	}
	return LoadSearch{Search: usual, Variable: Concurrency, SLA: SLA{{"p99_ttft_ms", "<=", 150}}, Prompts: 4, PerLoad: 2, Seed: 7,
		Expired: func() bool { return false }, Measured: told}
}

var errCut = errors.New("cut")

// A sweep that is cut off in any of its runs, with half a result in the file or none, is
// completed by --resume: the files are those of an undisturbed sweep, and no run whose
// result was there is measured again.
func TestResume(t *testing.T) {
	for name, explore := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			whole := &fake{measured: map[string]int{}, result: curve}
			dir := filepath.Join(t.TempDir(), "e")
			if err := explore(t.Context(), &Experiment{Dir: dir, Runs: 2, Out: io.Discard}, whole); err != nil {
				t.Fatal(err)
			}
			want := files(t, dir)
			total := len(whole.measured)
			if total < 8 || want["summary.csv"] == "" {
				t.Fatalf("%d runs, files %v", total, want)
			}
			step := max(1, total/soak.Cases(t, 3, 1000)) + 1
			for cut := 0; cut < total; cut += step {
				resume(t, explore, cut, total, want)
			}
		})
	}
}

func resume(t *testing.T, explore func(context.Context, *Experiment, Measurer) error, cut, total int, want map[string]string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "e")
	m := &fake{measured: map[string]int{}, result: curve}
	n := 0
	m.fail = func(path string) error {
		if n++; n <= cut {
			return nil
		}
		if cut%2 == 0 { // as when the machine stops
			_ = os.WriteFile(path+".part", []byte("{"), 0o666)
		}
		return errCut
	}
	err := explore(t.Context(), &Experiment{Dir: dir, Runs: 2, Out: io.Discard}, m)
	if !errors.Is(err, errCut) || !strings.Contains(err.Error(), "--resume --experiment-name e") {
		t.Fatalf("cut after %d: %v", cut, err)
	}
	half := ""
	for path := range m.measured {
		if half = path; cut%3 == 0 { // half a result, as a client leaves it that is killed
			if err := os.WriteFile(path, []byte(`{"output_throughput": 1`), 0o666); err != nil {
				t.Fatal(err)
			}
			break
		}
		half = ""
	}
	m.fail = nil
	if err := explore(t.Context(), &Experiment{Dir: dir, Resume: true, Runs: 2, Out: io.Discard}, m); err != nil {
		t.Fatalf("resumed after %d: %v", cut, err)
	}
	got := files(t, dir)
	maps.DeleteFunc(got, func(name, _ string) bool { return strings.HasSuffix(name, ".part") })
	if !reflect.DeepEqual(got, want) {
		t.Errorf("cut after %d: files differ from those of a whole sweep:\n%v\n%v", cut, got, want)
	}
	for path, times := range m.measured {
		if times != 1 && path != half {
			t.Errorf("cut after %d: %s was measured %d times", cut, path, times)
		}
	}
	if len(m.measured) != total {
		t.Errorf("cut after %d: %d runs, want %d", cut, len(m.measured), total)
	}
}

// Failures are written down and named at the end, and nothing else is lost; a server that is
// dead costs its own combinations only.
func TestContinue(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "e")
	m := &fake{measured: map[string]int{}, result: curve}
	m.fail = func(path string) error {
		switch {
		case strings.Contains(path, "a=1-BENCH--b=x") && strings.HasSuffix(path, "run=0"+measuringEnd):
			_ = os.WriteFile(path, []byte(`{"output_throughput": 1}`), 0o666)
			return errors.New("exit status 1")
		case strings.Contains(path, "a=1-BENCH--b=y"):
			return errors.New("nothing works")
		case strings.Contains(path, "a=2"):
			return &ServerError{[]string{"s"}, errors.New("it has ended")}
		}
		return nil
	}
	e := &Experiment{Dir: dir, Runs: 2, Continue: true, Out: io.Discard}
	err := e.Serve(t.Context(), grid(t, m))
	failed, ok := errors.AsType[*FailedError](err)
	if !ok || len(failed.Failures) != 4 || failed.Failures[0] != "SERVE--a=1-BENCH--b=x/run=0.failure.json: exit status 1" || !strings.Contains(err.Error(), "4 failures, all else was measured:\n") {
		t.Fatal(err)
	}
	got := files(t, dir)
	for name, want := range map[string]string{
		"SERVE--a=1-BENCH--b=x/run=0.failure.json": "{\n  \"run_number\": 0,\n  \"error_type\": \"RunError\",\n  \"error\": \"exit status 1\",\n  \"serve_overrides\": {\n    \"a\": 1\n  },\n  \"bench_overrides\": {\n    \"b\": \"x\"\n  }\n}",
		"SERVE--a=1-BENCH--b=x/run=0.invalid.json": `{"output_throughput": 1}`,
		"SERVE-a=2-failure.json":                   "{\n  \"error_type\": \"ServerError\",\n  \"error\": \"server [\\\"s\\\"]: it has ended\",\n  \"serve_overrides\": {\n    \"a\": 2\n  }\n}",
		"SERVE--a=1-BENCH--b=y/run=0.failure.json": "",
		"SERVE--a=1-BENCH--b=y/run=1.failure.json": "",
		"SERVE--a=1-BENCH--b=x/run=1.json":         "",
		"SERVE--a=1-BENCH--b=x/summary.json":       "",
		"summary.csv":                              "",
	} {
		if text, ok := got[name]; !ok || (want != "" && text != want) {
			t.Errorf("%s: %q, want %q", name, text, want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("more files: %v", got)
	}
	if m.closed != 2 {
		t.Errorf("closed %d servers, want 2", m.closed)
	}
	m.fail = nil
	e.Resume = true
	if err := e.Serve(t.Context(), grid(t, m)); err != nil {
		t.Fatal(err)
	}
	got = files(t, dir)
	if rows := strings.Count(got["summary.csv"], "\n"); rows != 9 {
		t.Errorf("%d lines in the table, want those of 8 runs", rows)
	}
	for name := range got { // the sweep is whole now
		if strings.Contains(name, "failure") || strings.Contains(name, "invalid") {
			t.Errorf("%s is still there", name)
		}
	}
	e.Continue = false
	m.fail = func(string) error { return errCut }
	if err := (&Experiment{Dir: dir + "2", Runs: 1, Out: io.Discard}).Serve(t.Context(), grid(t, m)); !errors.Is(err, errCut) {
		t.Errorf("%v, want the first failure", err)
	}
}

// A dry run of any kind says what it would do and does nothing.
func TestDryRun(t *testing.T) {
	for name, explore := range kinds(t) {
		dir := filepath.Join(t.TempDir(), "e")
		m := &fake{measured: map[string]int{}, fail: func(string) error { return nil }, result: curve}
		var out strings.Builder
		e := &Experiment{Dir: dir, Runs: 2, Warmup: 1, DryRun: true, Out: &out}
		dry := &dryMeasurer{m, &out}
		if err := explore(t.Context(), e, dry); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dir); err == nil || !strings.Contains(out.String(), dir) {
			t.Errorf("%s: folder %v, output %s", name, err, &out)
		}
	}
}

type dryMeasurer struct {
	*fake
	out io.Writer
}

func (d *dryMeasurer) Measure(_ context.Context, bench Object, path string) error {
	fmt.Fprintln(d.out, path, bench.Name())
	return nil
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	m := &fake{measured: map[string]int{}, result: curve}
	if err := (&Experiment{Dir: dir, Runs: 1, Out: io.Discard}).Serve(t.Context(), grid(t, m)); err == nil || !strings.Contains(err.Error(), "--resume completes it") {
		t.Errorf("a folder that is there: %v", err)
	}
	if err := (&Experiment{Dir: dir + "/none", Resume: true, Runs: 1, Out: io.Discard}).Serve(t.Context(), grid(t, m)); err == nil || !strings.Contains(err.Error(), "nothing to resume") {
		t.Errorf("a folder that is not there: %v", err)
	}
	if err := (&Experiment{Dir: dir + "/none", Out: io.Discard}).Serve(t.Context(), grid(t, m)); err == nil {
		t.Error("no runs are accepted")
	}
	e := &Experiment{Dir: dir + "/new", Runs: 1, Out: io.Discard}
	g := grid(t, m)
	g.Bench = []Object{one(t, `{"max-concurrency": 3}`)}
	if err := e.Workload(t.Context(), g, Workload{Concurrency, 4, 5}); err == nil || !strings.Contains(err.Error(), "is to be explored") {
		t.Errorf("a variable that is set: %v", err)
	}
	if err := e.Workload(t.Context(), g, Workload{Rate, 1, 5}); err == nil {
		t.Error("one level is accepted")
	}
	g.Bench = []Object{one(t, `{"s": "x/y"}`), one(t, `{"s": "x_y"}`)}
	if err := e.Serve(t.Context(), g); err == nil || !strings.Contains(err.Error(), "BENCH--s=x_y; give one") {
		t.Errorf("two combinations with one folder: %v", err)
	}
	if len(m.measured) > 0 {
		t.Errorf("measured %v", m.measured)
	}
}

// Load finds the limit of the curve and says so in its file; each run has its own seed and
// as many prompts as its load asks for.
func TestLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "e")
	seeds := map[string]bool{}
	m := &fake{measured: map[string]int{}, result: func(bench Object) string {
		n, _ := bench.Number("num_prompts")
		c, _ := bench.Number("max_concurrency")
		seed, _ := bench.Get("seed")
		if seeds[string(seed)] || n != max(4, 2*c) {
			t.Errorf("%s after seeds %v", bench.append(nil), seeds)
		}
		seeds[string(seed)] = true
		return curve(bench)
	}}
	told := 0
	c, err := (&Experiment{Dir: dir, Runs: 2, Out: io.Discard}).Load(t.Context(), m, load(func(Point, []Object) { told++ }))
	if err != nil || c.Limit != 30 || c.Broken != 31 || !c.Located || c.Peak != 29 || c.Recommended != 29 || c.StoppedBy != StopSLA {
		t.Errorf("%+v, %v", c, err)
	}
	if len(m.measured) != 2*told || !seeds["7"] || !seeds["8"] {
		t.Errorf("%d runs, %d points told of, seeds %v", len(m.measured), told, seeds)
	}
	got := files(t, dir)
	for _, part := range []string{`"variable": "max_concurrency"`, `"sla": "p99_ttft_ms<=150.00"`, `"stopped_by": "sla"`, `"sla_limit": 30`, `"recommended": 29`, `"points": [`} {
		if !strings.Contains(got["load.json"], part) {
			t.Errorf("no %s in\n%s", part, got["load.json"])
		}
	}
	if !strings.Contains(got["BENCH--max_concurrency=32/summary.json"], `"max_concurrency": 32`) {
		t.Errorf("files %v", got)
	}
}

// Time that is over ends the search, and results that ossian does not trust end the climb.
func TestLoadEnds(t *testing.T) {
	m := &fake{measured: map[string]int{}, result: curve}
	l := load(nil)
	l.Expired = func() bool { return len(m.measured) >= 3 }
	c, err := (&Experiment{Dir: filepath.Join(t.TempDir(), "e"), Runs: 1, Out: io.Discard}).Load(t.Context(), m, l)
	if err != nil || c.StoppedBy != StopBudget || c.Limit != 4 || len(m.measured) != 3 {
		t.Errorf("%+v, %v after %d runs", c, err, len(m.measured))
	}
	m = &fake{measured: map[string]int{}, result: func(bench Object) string {
		valid := "true"
		if c, _ := bench.Number("max_concurrency"); c > 5 {
			valid = `false, "findings": [{"id": "failures"}, {"id": "empty-outputs", "warning": true}]`
		}
		return strings.TrimSuffix(curve(bench), "}") + `, "ossian": {"valid": ` + valid + `}}`
	}}
	dir := filepath.Join(t.TempDir(), "e")
	c, err = (&Experiment{Dir: dir, Runs: 1, Out: io.Discard}).Load(t.Context(), m, load(nil))
	if err != nil || c.StoppedBy != StopUntrusted || c.Limit != 5 || c.Broken != 6 || c.Why != "failures" {
		t.Errorf("%+v, %v", c, err)
	}
	if csv := files(t, dir)["summary.csv"]; strings.Contains(csv, "ossian") || !strings.Contains(csv, "output_throughput") {
		t.Errorf("table %s", csv)
	}
	l = load(nil)
	l.SLA = SLA{{"no_such_ms", "<", 1}}
	if _, err := (&Experiment{Dir: filepath.Join(t.TempDir(), "e"), Runs: 1, Out: io.Discard}).Load(t.Context(), m, l); err == nil || !strings.Contains(err.Error(), "no_such_ms") {
		t.Errorf("an unknown metric: %v", err)
	}
}
