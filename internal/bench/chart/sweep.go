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

// ReadSweep reads every summary.json in a folder and below it.
func ReadSweep(dir string) (*Sweep, error) {
	s := new(Sweep)
	err := filepath.WalkDir(filepath.Clean(dir)+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "summary.json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return s.add(path, bytes.TrimSpace(text))
	})
	if err == nil && len(s.rows) == 0 {
		err = fmt.Errorf("%s: no summary.json in it or below; name the folder of a sweep's results", dir)
	}
	by := append(s.kinds(), "max_concurrency", "request_rate", "run_number")
	slices.SortStableFunc(s.rows, func(a, b row) int { return a.compare(&b, by) })
	return s, err
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

func newRow(file string, r *report.Result) row {
	out := row{file, map[string]cell{}, r.Ossian}
	for key, word := range r.Info {
		c := cell{word, math.NaN()}
		if word == "inf" || word == "-inf" { // which JSON cannot say otherwise
			c.value, _ = strconv.ParseFloat(word, 64)
		}
		out.cells[column(key)] = c
	}
	for key, v := range r.Values {
		out.cells[column(key)] = numeric(v)
	}
	return out
}

func numeric(v float64) cell {
	if math.Abs(v) < 1e15 {
		return cell{strconv.FormatFloat(v, 'f', -1, 64), v}
	}
	return cell{strconv.FormatFloat(v, 'g', -1, 64), v}
}

// number is that in the first of columns that has one; NaN = none has.
func (r *row) number(columns ...string) float64 {
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
		a, has := r.cells[name]
		b, had := other.cells[name]
		switch {
		case has && !had:
			return -1
		case had && !has:
			return 1
		}
		if c := cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.text, b.text)); c != 0 {
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

// Plot draws what p says, of the runs that the filters keep; the bins come behind these.
// Runs with the same settings repeat a measurement: they are one point, at their means,
// with a bar from the least to the most. skipped is how many runs lack X or Y. Errors
// list the columns that there are.
func (s *Sweep) Plot(p PlotConfig) (figures []*Figure, skipped int, err error) {
	if err := s.checkPlot(&p); err != nil {
		return nil, 0, err
	}
	rows := p.choose(s.rows)
	if len(rows) == 0 {
		return nil, 0, fmt.Errorf("none of %d runs passes the filters", len(s.rows))
	}
	known := slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return math.IsNaN(r.number(p.X)) || math.IsNaN(r.number(p.Y)) })
	if len(known) == 0 {
		return nil, 0, fmt.Errorf("none of %d runs has both %q and %q", len(rows), p.X, p.Y)
	}
	by := slices.Concat(p.Figures, p.Rows, p.Columns, p.Curves)
	slices.SortStableFunc(known, func(a, b *row) int { return a.compare(b, by) })
	same := s.measurement()
	if !measured(p.X) || slices.ContainsFunc(p.Bins, func(b Bin) bool { return b.Column == p.X }) {
		same = func(r *row) string { return r.describe([]string{p.X}) }
	}
	var files []string
	for _, group := range grouped(known, func(r *row) string { return r.describe(p.Figures) }) {
		f := p.figure(group, same)
		figures, files = append(figures, f), append(files, f.Name)
	}
	for i, name := range unique(files) {
		figures[i].Name = name
	}
	return figures, len(rows) - len(known), nil
}

func (s *Sweep) checkPlot(p *PlotConfig) error {
	errs := []error{s.check("the x axis", true, p.X), s.check("the y axis", true, p.Y), s.check("figures by", false, p.Figures...),
		s.check("rows by", false, p.Rows...), s.check("columns by", false, p.Columns...), s.check("curves by", false, p.Curves...)}
	for _, f := range p.Filters {
		errs = append(errs, s.check("filter by", false, f.Column))
	}
	for _, b := range p.Bins {
		errs = append(errs, s.check("bin by", true, b.Column))
	}
	return cmp.Or(errs...)
}

// choose returns the runs that the filters keep, with bins in place of numbers.
func (p *PlotConfig) choose(rows []row) []*row {
	var out []*row
	for _, r := range rows {
		dropped := slices.ContainsFunc(p.Filters, func(f Filter) bool {
			c, ok := r.cells[f.Column]
			return !f.keeps(c, ok)
		})
		if dropped {
			continue
		}
		r.cells = maps.Clone(r.cells)
		for _, b := range p.Bins {
			if c := r.cells[b.Column]; c.text != "" && drawable(c.value) {
				r.cells[b.Column] = numeric(b.of(c.value))
			}
		}
		out = append(out, &r)
	}
	return out
}

// figure draws runs; those with the same key are one point. Panels share the ranges of
// their axes.
func (p *PlotConfig) figure(rows []*row, key func(*row) string) *Figure {
	x, y := Axis{Title: p.X, Log: p.LogX}, Axis{Title: p.Y, Log: p.LogY}
	for _, r := range rows {
		x.Holds, y.Holds = append(x.Holds, r.number(p.X)), append(y.Holds, r.number(p.Y))
	}
	x.bound(x.Holds)
	if x.Inf > 0 {
		x.Holds = append(x.Holds, x.Inf)
	}
	f := &Figure{Name: fileName(p.Name, p.Figures, rows[0]), Title: rows[0].describe(p.Figures)}
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
			panels = append(panels, Panel{Title: title, X: x, Y: y, Lines: p.lines(inside, &x, key)})
		}
		f.Panels = append(f.Panels, panels)
	}
	if len(f.Panels) == 1 && len(columns) == 1 {
		f.Height = 320
	}
	return f
}

// lines returns the curves of a panel.
func (p *PlotConfig) lines(rows []*row, x *Axis, key func(*row) string) []Line {
	var out []Line
	for _, curve := range grouped(rows, func(r *row) string { return r.describe(p.Curves) }) {
		var points [][]Point
		for _, repeats := range grouped(curve, key) {
			var g []Point
			for _, r := range repeats {
				g = append(g, Point{x.place(r.number(p.X)), r.number(p.Y)})
			}
			points = append(points, g)
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
	users, devices = column(users), column(devices)
	asked := slices.DeleteFunc([]string{users, devices}, func(name string) bool { return name == "" })
	if err := cmp.Or(s.check("throughput", true, "output_throughput"), s.check("users or devices", true, asked...)); err != nil {
		return nil, err
	}
	all := s.overviews()
	l := loadOf(all)
	var points []tradeoff
	for i := range all {
		r := &s.rows[i]
		n := r.positive(cmp.Or(users, "max_concurrency"), "request_rate", "max_concurrent_requests")
		if total := all[i].output; n > 0 && !math.IsNaN(total) {
			points = append(points, tradeoff{"", l.text(&all[i]), total / n, total / r.devices(devices)})
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
	if n := r.positive(column); n > 0 {
		return n
	}
	product := 1.0
	for _, names := range [][]string{{"tensor_parallel_size", "tp"}, {"pipeline_parallel_size", "pp"}, {"data_parallel_size", "dp"}} {
		if n := r.positive(names...); n > 0 {
			product *= n
		}
	}
	return product
}

// positive is the number above zero, not infinite, in the first of columns that has one.
func (r *row) positive(columns ...string) float64 {
	for _, name := range columns {
		if v := r.number(name); v > 0 && !math.IsInf(v, 0) {
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
	kinds := s.kinds()
	out := make([]overview, len(s.rows))
	for i := range s.rows {
		r := &s.rows[i]
		o := overview{kind: cmp.Or(r.describe(kinds), r.cells["label"].text, r.cells["model_id"].text, "run"), peak: r.number("max_concurrent_requests"),
			failed: r.number("failed"), requests: r.number("request_throughput"), output: r.number("output_throughput"), total: r.number("total_token_throughput")}
		o.arrivals = bench.Arrivals{Rate: math.Inf(1)}
		if v := r.positive("request_rate"); v > 0 {
			o.arrivals.Rate = v
		}
		if v := r.positive("max_concurrency"); v >= 1 && v < 1e9 {
			o.arrivals.Concurrency = int(v)
		}
		for metric, to := range map[string]*[2]float64{"ttft": &o.ttft, "tpot": &o.tpot, "e2el": &o.e2el} {
			*to = [2]float64{r.number("median_"+metric+"_ms", "p50_"+metric+"_ms"), r.number("p99_" + metric + "_ms")}
		}
		out[i] = o
	}
	return out
}
