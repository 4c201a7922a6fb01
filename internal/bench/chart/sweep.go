package chart

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/bench/report"
)

// A Sweep is the results of many runs, each with its settings (bench.md 3.3).
type Sweep struct {
	rows []row
	raw  []byte // the results as they were read, between the brackets of an array
	size int    // bytes that were read

	failures []Failure // by name
}

// A row is one run.
type row struct {
	file   string          // its runs measure one combination of settings
	cells  map[string]cell // by column
	ossian *report.Extension
}

// A cell is a number, or a text.
type cell struct {
	text  string
	value float64 // NaN = a text
}

// maxRaw is how many bytes of results a report of a sweep carries.
const maxRaw = 64 << 20

// summaryFile has the results of a combination.
const summaryFile = "summary.json"

// ReadSweep reads every summary.json in a folder and below it, the runs of combinations that have
// none because the sweep did not come to its end, and what is written down of failures.
func ReadSweep(dir string) (*Sweep, error) {
	sweep := new(Sweep)
	runs, summed := map[string][]string{}, map[string]bool{} // by folder
	err := filepath.WalkDir(filepath.Clean(dir)+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
		switch name := filepath.Base(path); {
		case err != nil || d.IsDir():
			return err
		case name == summaryFile:
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			summed[filepath.Dir(path)] = true
			return sweep.add(path, bytes.TrimSpace(text))
		case runFile.MatchString(name):
			runs[filepath.Dir(path)] = append(runs[filepath.Dir(path)], path)
		case strings.HasSuffix(name, "."+endFailure) || strings.HasSuffix(name, "-"+endFailure):
			sweep.addFailure(dir, path)
		}
		return nil
	})
	for _, folder := range slices.Sorted(maps.Keys(runs)) {
		if err == nil && !summed[folder] {
			sweep.addRuns(dir, runs[folder])
		}
	}
	if err == nil && len(sweep.rows) == 0 && len(sweep.failures) == 0 {
		err = fmt.Errorf("%s: no summary.json in it or below; name the folder of a sweep's results", dir)
	}
	by := append(sweep.kinds(), "max_concurrency", "request_rate", "run_number")
	slices.SortStableFunc(sweep.rows, func(a, b row) int { return a.compare(&b, by) })
	return sweep, err
}

// add takes the results in a summary.
func (s *Sweep) add(name string, text []byte) error {
	if !bytes.HasPrefix(text, []byte("[")) {
		return fmt.Errorf("%s: expected an array of results", name)
	}
	results, err := report.Import(name, text)
	if err != nil {
		return err
	}
	for i := range results {
		s.rows = append(s.rows, newRow(name, &results[i]))
	}
	// All of the raw results, or none: half of them would be taken for the whole.
	if s.size += len(text); s.size > maxRaw {
		s.raw = nil
		return nil
	}
	if len(s.raw) > 0 {
		s.raw = append(s.raw, ",\n"...)
	}
	s.raw = append(s.raw, bytes.TrimSpace(text[1:len(text)-1])...)
	return nil
}

// newRow is a result as a row: words and numbers under one kind of names.
func newRow(file string, result *report.Result) row {
	out := row{file, map[string]cell{}, result.Ossian}
	for key, text := range result.Info {
		out.cells[columnName(key)] = word(text)
	}
	for key, v := range result.Values {
		out.cells[columnName(key)] = numeric(v)
	}
	return out
}

// word is a text as a cell.
func word(text string) cell {
	found := cell{text, math.NaN()}
	if text == "inf" || text == "-inf" { // which JSON cannot say otherwise
		found.value, _ = strconv.ParseFloat(text, 64)
	}
	return found
}

// numeric is a number as a cell.
func numeric(value float64) cell {
	if math.Abs(value) < 1e15 {
		return cell{strconv.FormatFloat(value, 'f', -1, 64), value}
	}
	return cell{strconv.FormatFloat(value, 'g', -1, 64), value}
}

// numberIn is that in the first of columns that has one; NaN = none has.
func (r *row) numberIn(columns ...string) float64 {
	for _, name := range columns {
		if c, ok := r.cells[name]; ok && !math.IsNaN(c.value) {
			return c.value
		}
	}
	return math.NaN()
}

// describe names a run by columns: "a=1, b=x".
func (r *row) describe(columns []string) string {
	parts := make([]string, len(columns))
	for i, name := range columns {
		parts[i] = name + "=" + cmp.Or(r.cells[name].text, "none")
	}
	return strings.Join(parts, ", ")
}

// compare orders runs by columns, numbers by size; those without a value come last.
func (r *row) compare(other *row, columns []string) int {
	for _, name := range columns {
		ours, has := r.cells[name]
		theirs, had := other.cells[name]
		switch {
		case has && !had:
			return -1
		case had && !has:
			return 1
		}
		if c := cmp.Or(cmp.Compare(ours.value, theirs.value), cmp.Compare(ours.text, theirs.text)); c != 0 {
			return c
		}
	}
	return 0
}

// columns returns the names of all columns, sorted.
func (s *Sweep) columns() []string {
	all := map[string]bool{}
	for i := range s.rows {
		for name := range s.rows[i].cells {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// check fails if no run has a column, or, where numbers are needed, none with a number.
func (s *Sweep) check(what string, numbers bool, columns ...string) error {
	for _, name := range columns {
		text, there, number := "", false, false
		for i := range s.rows {
			if c, ok := s.rows[i].cells[name]; ok {
				text, there, number = c.text, true, number || !math.IsNaN(c.value)
			}
		}
		switch {
		case !there:
			return fmt.Errorf("%s %q: no run has this column; there are: %s", what, name, strings.Join(s.columns(), ", "))
		case numbers && !number:
			return fmt.Errorf("%s %q: its values are texts such as %q; expected numbers", what, name, text)
		}
	}
	return nil
}

// latencyColumn are the statistics of latencies.
var latencyColumn = regexp.MustCompile(`^(mean|median|std|p[0-9.]+)_.*_ms$`)

// measured reports whether a column is what a run found, or tells it from its repetitions,
// not how it was to measure (bench.md 1.8, 3.3, 4). Behind _ are names of settings.
func measured(column string) bool {
	switch column {
	case "date", "run_number", "seed", "duration", "completed", "failed", "request_goodput", "max_output_tokens_per_s", "max_concurrent_requests",
		"rtfx", "concurrency", "accept_length", "slo_attainment", "slo_attainment_by_metric",
		"conversations_completed", "conversations_failed", "avg_turns_completed", "avg_conversation_duration_ms":
		return true
	}
	for _, prefix := range []string{"_", "total_", "probe_", "spec_decode_", "steady_"} {
		if strings.HasPrefix(column, prefix) {
			return true
		}
	}
	return strings.HasSuffix(column, "_throughput") || latencyColumn.MatchString(column)
}

// settings are the columns that are not measured.
func (s *Sweep) settings() []string {
	return slices.DeleteFunc(s.columns(), measured)
}

// measurement tells runs that repeat each other from others.
func (s *Sweep) measurement() func(*row) string {
	settings := s.settings()
	return func(r *row) string { return r.file + "\n" + r.describe(settings) }
}

// A PlotConfig says what figures show of a sweep. X and Y are columns, and so are the
// members of the lists.
type PlotConfig struct {
	Name       string // of the figures' files, before what tells them apart
	X, Y       string
	Figures    []string // a figure for each combination of their values
	Rows       []string // a row of panels for each
	Columns    []string // a column of panels
	Curves     []string // a curve in a panel
	Filters    []Filter
	Bins       []Bin
	LogX, LogY bool
}

// Plot draws what config says, of the runs that the filters keep; the bins come behind these.
// Runs with the same settings repeat a measurement: they are one point, at their means,
// with a bar from the least to the most. skipped is how many runs lack X or Y. Errors
// list the columns that there are.
//
// Of invalid runs those are drawn of which X and Y hold all the same (report.Result.Stands).
func (s *Sweep) Plot(config PlotConfig) (figures []*Figure, skipped int, err error) {
	if s, err = s.shown(config.X, config.Y); err != nil {
		return nil, 0, err
	}
	if err := s.checkPlot(&config); err != nil {
		return nil, 0, err
	}
	rows := config.keptRows(s.rows)
	if len(rows) == 0 {
		return nil, 0, fmt.Errorf("none of %d runs passes the filters", len(s.rows))
	}
	known := slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return math.IsNaN(r.numberIn(config.X)) || math.IsNaN(r.numberIn(config.Y)) })
	if len(known) == 0 {
		return nil, 0, fmt.Errorf("none of %d runs has both %q and %q", len(rows), config.X, config.Y)
	}
	by := slices.Concat(config.Figures, config.Rows, config.Columns, config.Curves)
	slices.SortStableFunc(known, func(a, b *row) int { return a.compare(b, by) })
	// One point for the runs that repeat each other; where X is a setting, or is put into bins,
	// for all that have the same X.
	same := s.measurement()
	if !measured(config.X) || slices.ContainsFunc(config.Bins, func(b Bin) bool { return b.Column == config.X }) {
		same = func(r *row) string { return r.describe([]string{config.X}) }
	}
	var files []string
	for _, group := range grouped(known, func(r *row) string { return r.describe(config.Figures) }) {
		f := config.figure(group, same)
		figures, files = append(figures, f), append(files, f.Name)
	}
	for i, name := range unique(files) {
		figures[i].Name = name
	}
	return figures, len(rows) - len(known), nil
}

// checkPlot fails at the first column that nothing can be drawn by.
func (s *Sweep) checkPlot(config *PlotConfig) error {
	errs := []error{s.check("the x axis", true, config.X), s.check("the y axis", true, config.Y), s.check("figures by", false, config.Figures...),
		s.check("rows by", false, config.Rows...), s.check("columns by", false, config.Columns...), s.check("curves by", false, config.Curves...)}
	for _, f := range config.Filters {
		errs = append(errs, s.check("filter by", false, f.Column))
	}
	for _, b := range config.Bins {
		errs = append(errs, s.check("bin by", true, b.Column))
	}
	return cmp.Or(errs...)
}

// keptRows returns the runs that the filters keep, with bins in place of numbers.
func (p *PlotConfig) keptRows(rows []row) []*row {
	var out []*row
	for _, run := range rows {
		dropped := slices.ContainsFunc(p.Filters, func(f Filter) bool {
			c, ok := run.cells[f.Column]
			return !f.keeps(c, ok)
		})
		if dropped {
			continue
		}
		run.cells = maps.Clone(run.cells)
		for _, b := range p.Bins {
			if c := run.cells[b.Column]; c.text != "" && drawable(c.value) {
				run.cells[b.Column] = numeric(b.of(c.value))
			}
		}
		out = append(out, &run)
	}
	return out
}

// figure draws runs; those with the same key are one point. Panels share the ranges of
// their axes.
func (p *PlotConfig) figure(rows []*row, key func(*row) string) *Figure {
	xAxis, yAxis := Axis{Title: p.X, Log: p.LogX}, Axis{Title: p.Y, Log: p.LogY}
	for _, r := range rows {
		xAxis.Holds, yAxis.Holds = append(xAxis.Holds, r.numberIn(p.X)), append(yAxis.Holds, r.numberIn(p.Y))
	}
	xAxis.placeUnbounded(xAxis.Holds)
	if xAxis.Inf > 0 {
		xAxis.Holds = append(xAxis.Holds, xAxis.Inf)
	}
	// Every row of panels has all columns, empty ones too, so that columns stand below each other.
	figure := &Figure{Name: fileName(p.Name, p.Figures, rows[0]), Title: rows[0].describe(p.Figures)}
	columns := grouped(rows, func(r *row) string { return r.describe(p.Columns) })
	slices.SortFunc(columns, func(a, b []*row) int { return a[0].compare(b[0], p.Columns) })
	for _, beside := range grouped(rows, func(r *row) string { return r.describe(p.Rows) }) {
		var panels []Panel
		for _, below := range columns {
			title := below[0].describe(p.Columns)
			inside := slices.DeleteFunc(slices.Clone(beside), func(r *row) bool { return r.describe(p.Columns) != title })
			if by := beside[0].describe(p.Rows); by != "" {
				title = strings.TrimSuffix(by+", "+title, ", ")
			}
			panels = append(panels, Panel{Title: title, X: xAxis, Y: yAxis, Lines: p.lines(inside, &xAxis, key)})
		}
		figure.Panels = append(figure.Panels, panels)
	}
	if len(figure.Panels) == 1 && len(columns) == 1 {
		figure.Height = 320
	}
	return figure
}

// lines returns the curves of a panel.
func (p *PlotConfig) lines(rows []*row, xAxis *Axis, key func(*row) string) []Line {
	var out []Line
	for _, curve := range grouped(rows, func(r *row) string { return r.describe(p.Curves) }) {
		var points [][]Point
		for _, repeats := range grouped(curve, key) {
			var repeated []Point
			for _, r := range repeats {
				repeated = append(repeated, Point{xAxis.place(r.numberIn(p.X)), r.numberIn(p.Y)})
			}
			points = append(points, repeated)
		}
		out = append(out, through(curve[0].describe(p.Curves), Marks, points)...)
	}
	return out
}

// fileName is the name of a figure's file without its end: what tells it from others,
// without what file names cannot hold.
func fileName(stem string, columns []string, r *row) string {
	for _, name := range columns {
		stem += "-" + r.describe([]string{name})
	}
	stem = strings.NewReplacer("/", "_", `\`, "_", "..", "__", ":", "_", "*", "_", "?", "_", `"`, "_", "<", "_", ">", "_", "|", "_").Replace(clean(stem))
	return clip(strings.Trim(stem, "'"), 180)
}

// A Frontier is a figure of what users get against what devices give.
type Frontier struct {
	Figure  *Figure
	Points  int // runs
	Best    int // of them on the frontier
	Skipped int // runs that do not say how many users they had
}

// Pareto draws output throughput per device over that per user, and their frontier
// (bench.md 3.6). users and devices are columns; "" stands for max_concurrency, and for
// the product of the parallel sizes. Runs without a number of users have request_rate of
// them, or as many as max_concurrent_requests.
func (s *Sweep) Pareto(users, devices string) (*Frontier, error) {
	s, err := s.shown("output_throughput")
	if err != nil {
		return nil, err
	}
	users, devices = columnName(users), columnName(devices)
	asked := slices.DeleteFunc([]string{users, devices}, func(name string) bool { return name == "" })
	if err := cmp.Or(s.check("throughput", true, "output_throughput"), s.check("users or devices", true, asked...)); err != nil {
		return nil, err
	}
	all := s.overviews()
	varied := loadOf(all)
	// Users share the throughput of all, and devices make it together.
	var points []tradeoff
	for i := range all {
		run := &s.rows[i]
		n := run.positiveIn(cmp.Or(users, "max_concurrency"), "request_rate", "max_concurrent_requests")
		if total := all[i].output; n > 0 && !math.IsNaN(total) {
			points = append(points, tradeoff{"", varied.text(&all[i]), total / n, total / run.devices(devices)})
		}
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("none of %d runs says how many users it had: expected max_concurrency, request_rate or max_concurrent_requests above 0, or another column named for it", len(all))
	}
	f := pareto(points, "Tokens/s/user", "Tokens/s/GPU")
	f.Name = "PARETO"
	return &Frontier{f, len(points), len(f.Panels[0][0].Lines[0].Points), len(all) - len(points)}, nil
}

// devices is how many devices a run had, by a column or its parallel sizes.
func (r *row) devices(column string) float64 {
	if n := r.positiveIn(column); n > 0 {
		return n
	}
	product := 1.0
	for _, names := range [][]string{{"tensor_parallel_size", "tp"}, {"pipeline_parallel_size", "pp"}, {"data_parallel_size", "dp"}} {
		if n := r.positiveIn(names...); n > 0 {
			product *= n
		}
	}
	return product
}

// positiveIn is the number above zero, not infinite, in the first of columns that has one.
func (r *row) positiveIn(columns ...string) float64 {
	for _, name := range columns {
		if v := r.numberIn(name); v > 0 && !math.IsInf(v, 0) {
			return v
		}
	}
	return math.NaN()
}

// kinds are the settings in which runs differ, their loads and how long these lasted apart.
func (s *Sweep) kinds() []string {
	var out []string
	for _, name := range s.settings() {
		if slices.Contains([]string{"max_concurrency", "request_rate", "num_prompts"}, name) {
			continue
		}
		if len(grouped(s.rows, func(r row) string { return r.cells[name].text })) > 1 {
			out = append(out, name)
		}
	}
	return out
}

// overviews sums the runs up.
func (s *Sweep) overviews() []overview {
	kinds := s.kinds() // settings that name a run; else its label, or its model, does
	out := make([]overview, len(s.rows))
	for i := range s.rows {
		run := &s.rows[i]
		sums := overview{kind: cmp.Or(run.describe(kinds), run.cells["label"].text, run.cells["model_id"].text, "run"), peak: run.numberIn("max_concurrent_requests"),
			failed: run.numberIn("failed"), requests: run.numberIn("request_throughput"), output: run.numberIn("output_throughput"), total: run.numberIn("total_token_throughput")}
		sums.arrivals = bench.Arrivals{Rate: math.Inf(1)}
		if v := run.positiveIn("request_rate"); v > 0 {
			sums.arrivals.Rate = v
		}
		if v := run.positiveIn("max_concurrency"); v >= 1 && v < 1e9 {
			sums.arrivals.Concurrency = int(v)
		}
		for metric, to := range map[string]*[2]float64{"ttft": &sums.ttft, "tpot": &sums.tpot, "e2el": &sums.e2el} {
			*to = [2]float64{run.numberIn("median_"+metric+"_ms", "p50_"+metric+"_ms"), run.numberIn("p99_" + metric + "_ms")}
		}
		out[i] = sums
	}
	return out
}
