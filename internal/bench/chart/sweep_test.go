package chart

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sweepOf reads a sweep from summaries, by folder.
func sweepOf(t *testing.T, summaries map[string]string) *Sweep {
	t.Helper()
	s, err := ReadSweep(folderOf(t, summaries))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func folderOf(t *testing.T, summaries map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range summaries {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "summary.json"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// result is a run of a sweep: what vLLM's client writes, as far as curves need it, and
// the settings in front.
func result(settings string, run int, concurrency string, rate, latency float64) string {
	return fmt.Sprintf(`{%s"model_id":"tiny","request_rate":"inf","max_concurrency":%s,"completed":10,"failed":0,"duration":5,"request_throughput":%v,
		"output_throughput":%v,"total_token_throughput":%v,"max_concurrent_requests":32,"median_ttft_ms":%v,"p99_ttft_ms":%v,"median_tpot_ms":2,"p99_tpot_ms":3,
		"median_e2el_ms":%v,"p99_e2el_ms":%v,"run_number":%d}`, settings, concurrency, rate, 10*rate, 30*rate, latency/10, latency/5, latency/2, latency, run)
}

// example is two settings of a server at three loads, measured twice.
func example() map[string]string {
	out := map[string]string{}
	for k, seqs := range []int{4, 16} {
		for i, c := range []string{"1", "8", "null"} {
			var runs []string
			for n := range 2 {
				rate, latency := float64(10*(i+1)+k), float64(100*(i+1)+10*k+20*n)
				runs = append(runs, result(fmt.Sprintf(`"max-num-seqs":%d,"enforce_eager":%v,`, seqs, k == 1), n, c, rate, latency))
			}
			out[fmt.Sprintf("exp/SERVE--max-num-seqs=%d-BENCH--max_concurrency=%s", seqs, c)] = "[" + strings.Join(runs, ",") + "]"
		}
	}
	return out
}

// plotted reads the marks of a figure's only panel from its SVG, by the colour of their
// line, in the units of the axes.
func plotted(t *testing.T, f *Figure) map[string][]Point {
	t.Helper()
	svg, _ := svgOf(t, f)
	fr := newFrame(&f.Panels[0][0])
	axis := regexp.MustCompile(`d="M([\d.]+),([\d.]+)L([\d.]+),([\d.]+)L([\d.]+),([\d.]+)"`).FindStringSubmatch(svg) // down, then to the right
	if axis == nil {
		t.Fatal("no axes")
	}
	at := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	back := func(s *scale, from, to, v float64) float64 {
		share := (v - from) / (to - from)
		if s.log {
			return s.low * math.Pow(s.high/s.low, share)
		}
		return s.low + share*(s.high-s.low)
	}
	out := map[string][]Point{}
	for _, m := range regexp.MustCompile(`d="M([\d.]+),([\d.]+)A2\.5,2\.5 [^"]*"\s*style="fill:(#[0-9A-Fa-f]{6})`).FindAllStringSubmatch(svg, -1) {
		out[m[3]] = append(out[m[3]], Point{back(&fr.x, at(axis[3]), at(axis[5]), at(m[1])-2.5), back(&fr.y, at(axis[4]), at(axis[2]), at(m[2]))})
	}
	return out
}

func near(a, b []Point) bool {
	return slices.EqualFunc(a, b, func(p, q Point) bool {
		return math.Abs(p.X-q.X) <= 0.003*math.Abs(q.X)+0.01 && math.Abs(p.Y-q.Y) <= 0.003*math.Abs(q.Y)+0.01
	})
}

// The marks stand where the means of the repeated runs are.
func TestPlottedValues(t *testing.T) {
	const blue, red = "#0072B2", "#D55E00"
	s := sweepOf(t, example())
	for _, c := range []struct {
		name   string
		config PlotConfig
		want   map[string][]Point
	}{
		{"curves over a measured rate", PlotConfig{X: "request_throughput", Y: "p99_e2el_ms", Curves: Columns("max-num-seqs")},
			map[string][]Point{blue: {{10, 110}, {20, 210}, {30, 310}}, red: {{11, 120}, {21, 220}, {31, 320}}}},
		{"one curve", PlotConfig{X: "request_throughput", Y: "p99_e2el_ms"},
			map[string][]Point{blue: {{10, 110}, {11, 120}, {20, 210}, {21, 220}, {30, 310}, {31, 320}}}},
		{"over a setting, all of the same load together", PlotConfig{X: "max_concurrency", Y: "p99_e2el_ms"},
			map[string][]Point{blue: {{1, 115}, {8, 215}}}},
		{"filtered", PlotConfig{X: "request_throughput", Y: "p99_e2el_ms", Filters: filters(t, "enforce_eager==True,max_concurrency<8")},
			map[string][]Point{blue: {{11, 120}}}},
		{"in bins", PlotConfig{X: "request_throughput", Y: "median_e2el_ms", Bins: []Bin{{"request_throughput", 20}}},
			map[string][]Point{blue: {{0, 57.5}, {20, 132.5}}}},
		{"logarithmic", PlotConfig{X: "request_throughput", Y: "p99_e2el_ms", LogX: true, LogY: true, Filters: filters(t, "max_num_seqs==4")},
			map[string][]Point{blue: {{10, 110}, {20, 210}, {30, 310}}}},
	} {
		figures, _, err := s.Plot(c.config)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := plotted(t, figures[0])
		if len(got) != len(c.want) || !near(got[blue], c.want[blue]) || !near(got[red], c.want[red]) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func filters(t *testing.T, text string) []Filter {
	t.Helper()
	f, err := ParseFilters(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Repeated runs leave a bar from the least to the most.
func TestPlotSpread(t *testing.T) {
	s := sweepOf(t, map[string]string{"a": "[" + result("", 0, "4", 10, 100) + "," + result("", 1, "4", 14, 180) + "]"})
	figures, skipped, err := s.Plot(PlotConfig{X: "request_throughput", Y: "p99_e2el_ms"})
	if err != nil || skipped != 0 {
		t.Fatal(skipped, err)
	}
	lines := figures[0].Panels[0][0].Lines
	if len(lines) != 2 || !slices.Equal(lines[0].Points, []Point{{12, 100}, {12, 180}}) || !slices.Equal(lines[1].Points, []Point{{12, 140}}) {
		t.Errorf("lines %+v", lines)
	}
}

func TestPlotGrid(t *testing.T) {
	s := sweepOf(t, example())
	for _, c := range []struct {
		name   string
		config PlotConfig
		want   string // of each figure: name, rows x columns, titles of panels, names of lines
	}{
		{"one panel", PlotConfig{}, "F 1x1 [] []"},
		{"figures", PlotConfig{Figures: []string{"max_num_seqs"}}, "F-max_num_seqs=4 1x1 [] [];F-max_num_seqs=16 1x1 [] []"},
		{"rows and columns", PlotConfig{Rows: []string{"max_num_seqs"}, Columns: []string{"max_concurrency"}},
			"F 2x3 [max_num_seqs=4, max_concurrency=1 max_num_seqs=4, max_concurrency=8 max_num_seqs=4, max_concurrency=none " +
				"max_num_seqs=16, max_concurrency=1 max_num_seqs=16, max_concurrency=8 max_num_seqs=16, max_concurrency=none] []"},
		{"a combination that is missing", PlotConfig{Rows: []string{"max_num_seqs"}, Columns: []string{"max_concurrency"}, Filters: filters(t, "p99_e2el_ms<205")},
			"F 2x2 [max_num_seqs=4, max_concurrency=1 max_num_seqs=4, max_concurrency=8 max_num_seqs=16, max_concurrency=1 max_num_seqs=16, max_concurrency=8] []"},
		{"curves by two columns", PlotConfig{Curves: []string{"max_num_seqs", "enforce_eager"}}, "F 1x1 [] [max_num_seqs=4, enforce_eager=false max_num_seqs=16, enforce_eager=true]"},
	} {
		c.config.Name, c.config.X, c.config.Y = "F", "request_throughput", "p99_e2el_ms"
		figures, _, err := s.Plot(c.config)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var all []string
		for _, f := range figures {
			svgOf(t, f)
			var titles []string
			for _, row := range f.Panels {
				for _, p := range row {
					if p.Title != "" {
						titles = append(titles, p.Title)
					}
				}
			}
			all = append(all, fmt.Sprintf("%s %dx%d %v %v", f.Name, len(f.Panels), len(f.Panels[0]), titles, f.names()))
		}
		if got := strings.Join(all, ";"); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

// A load without bound is not dropped, and the panels of a figure share their ranges.
func TestPlotAxes(t *testing.T) {
	runs := []string{result(`"dtype":"a",`, 0, "1", 10, 100), result(`"dtype":"b",`, 0, "1", 20, 900)}
	runs[0] = strings.Replace(runs[0], `"request_rate":"inf"`, `"request_rate":4`, 1)
	s := sweepOf(t, map[string]string{"a": "[" + strings.Join(runs, ",") + "]"})
	figures, _, err := s.Plot(PlotConfig{X: "request_rate", Y: "p99_e2el_ms", Columns: []string{"dtype"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, text := svgOf(t, figures[0]); strings.Count(text, "inf") != 2 {
		t.Errorf("no \"inf\" on each axis: %q", text)
	}
	a, b := newFrame(&figures[0].Panels[0][0]), newFrame(&figures[0].Panels[0][1])
	if a.y.high != 1000 || b.y.high != 1000 || a.x.high != b.x.high || a.x.high < 5 {
		t.Errorf("axes reach to %v, %v and %v, %v", a.x.high, a.y.high, b.x.high, b.y.high)
	}
	if got := figures[0].Panels[0][1].Lines[0].Points; !slices.Equal(got, []Point{{5, 900}}) {
		t.Errorf("the run without bound stands at %v", got)
	}
}

func TestSweepErrors(t *testing.T) {
	s := sweepOf(t, example())
	for _, c := range []struct {
		name   string
		config PlotConfig
		want   []string
	}{
		{"x", PlotConfig{X: "nothing", Y: "p99_e2el_ms"}, []string{`the x axis "nothing": no run has this column; there are: completed, duration, enforce_eager, failed, max_concurrency`, "total_token_throughput"}},
		{"y", PlotConfig{X: "duration", Y: "no", Curves: []string{"none"}}, []string{`the y axis "no"`}},
		{"curves", PlotConfig{X: "duration", Y: "duration", Curves: []string{"model_id", "none"}}, []string{`curves by "none"`, "model_id"}},
		{"a text", PlotConfig{X: "model_id", Y: "p99_e2el_ms"}, []string{`the x axis "model_id": its values are texts such as "tiny"; expected numbers`}},
		{"filter", PlotConfig{X: "duration", Y: "duration", Filters: filters(t, "dtype==auto")}, []string{`filter by "dtype"`, "max_num_seqs"}},
		{"bin", PlotConfig{X: "duration", Y: "duration", Bins: []Bin{{"model_id", 2}}}, []string{`bin by "model_id": its values are texts`}},
		{"nothing left", PlotConfig{X: "duration", Y: "duration", Filters: filters(t, "failed>3")}, []string{"none of 12 runs passes the filters"}},
		{"no run has both", PlotConfig{X: "max_concurrency", Y: "duration", Filters: filters(t, "request_throughput>=30")}, []string{`none of 4 runs has both "max_concurrency" and "duration"`}},
	} {
		_, _, err := s.Plot(c.config)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q", c.name, err, want)
			}
		}
	}
	if _, err := s.Pareto("users", ""); err == nil || !strings.Contains(err.Error(), "max_concurrency") {
		t.Errorf("error %v for a column of users that there is not", err)
	}
	for _, c := range []struct {
		name      string
		summaries map[string]string
		want      string
	}{
		{"nothing", nil, "no summary.json in it or below"},
		{"not an array", map[string]string{"a": "{}"}, "expected an array of results"},
		{"broken", map[string]string{"a": "[{"}, filepath.Join("a", "summary.json")},
		{"no results", map[string]string{"a": `[{"x":1}]`}, "request_throughput"},
	} {
		if _, err := ReadSweep(folderOf(t, c.summaries)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := ReadSweep(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a folder that there is not was read")
	}
}

// bench.md 3.6: who the users are, how many devices there are, and what is the best.
func TestSweepPareto(t *testing.T) {
	one := func(members string) string {
		return `{"request_throughput":1,"output_throughput":120` + members + `}`
	}
	for _, c := range []struct {
		name, run      string
		users, devices string
		want           Point
	}{
		{"concurrency", one(`,"max_concurrency":4,"request_rate":2`), "", "", Point{30, 120}},
		{"rate", one(`,"max_concurrency":null,"request_rate":2,"max_concurrent_requests":9`), "", "", Point{60, 120}},
		{"without bound", one(`,"request_rate":"inf","max_concurrent_requests":6`), "", "", Point{20, 120}},
		{"a column of users", one(`,"max_concurrency":4,"clients":3`), "clients", "", Point{40, 120}},
		{"parallel sizes", one(`,"max_concurrency":4,"tensor-parallel-size":2,"pp":3,"data_parallel_size":0`), "", "", Point{30, 20}},
		{"a column of devices", one(`,"max_concurrency":4,"tp":2,"num-gpus":8`), "", "num-gpus", Point{30, 15}},
	} {
		s := sweepOf(t, map[string]string{"a": "[" + c.run + "]"})
		f, err := s.Pareto(c.users, c.devices)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := f.Figure.Panels[0][0].Lines[1].Points; !slices.Equal(got, []Point{c.want}) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	s := sweepOf(t, map[string]string{"a": "[" + one(`,"max_concurrency":1`) + "," + one("") + "," + one(`,"max_concurrency":2`) + "]"})
	f, err := s.Pareto("", "")
	if err != nil || f.Points != 2 || f.Best != 2 || f.Skipped != 1 {
		t.Errorf("%+v, %v: want 2 points, both on the frontier, and one left out", f, err)
	}
	if _, err := sweepOf(t, map[string]string{"a": "[" + one("") + "]"}).Pareto("", ""); err == nil || !strings.Contains(err.Error(), "how many users") {
		t.Errorf("error %v where no run has users", err)
	}
}

func TestMeasured(t *testing.T) {
	for name, want := range map[string]bool{"p99_e2el_ms": true, "p99.9_itl_ms": true, "mean_ttft_ms": true, "output_throughput": true, "total_input_tokens": true,
		"run_number": true, "seed": true, "date": true, "_benchmark_name": true, "avg_conversation_duration_ms": true, "conversations_failed": true, "slo_attainment_by_metric": true, "max_num_batched_tokens": false, "max_concurrency": false, "request_rate": false, "stream_interval_ms": false, "model_id": false, "gpu_memory_utilization": false} {
		if got := measured(name); got != want {
			t.Errorf("measured(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestFileName(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{"x", "F-a=x"}, {"org/model", "F-a=org_model"}, {"../../etc", "F-a=______etc"}, {`C:\x|"y"*?<>`, "F-a=C__x__y_____"}, {"", "F-a=none"},
	} {
		r := row{cells: map[string]cell{"a": {c.value, math.NaN()}}}
		if got := fileName("F", []string{"a"}, &r); got != c.want {
			t.Errorf("%q: %q, want %q", c.value, got, c.want)
		}
	}
	long := row{cells: map[string]cell{"a": {strings.Repeat("x", 1000), math.NaN()}}}
	if got := fileName("F", []string{"a"}, &long); len(got) > 200 {
		t.Errorf("a name of %d bytes", len(got))
	}
	s := sweepOf(t, map[string]string{"a": "[" + result(`"m":"a/b",`, 0, "1", 1, 1) + "," + result(`"m":"a_b",`, 0, "1", 1, 1) + "]"})
	f, _, err := s.Plot(PlotConfig{Name: "F", X: "duration", Y: "duration", Figures: []string{"m"}})
	if err != nil || len(f) != 2 || f[0].Name == f[1].Name {
		t.Errorf("two figures in one file: %v", err)
	}
}

func sweepPage(t *testing.T, s *Sweep, further ...*Figure) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.HTML(&b, "Sweep", further); err != nil {
		t.Fatal(err)
	}
	checkHarmless(t, b.String())
	return b.String()
}

// unpack returns the raw data of a page.
func unpack(t *testing.T, page string) []map[string]any {
	t.Helper()
	for _, e := range elements(t, page) {
		if e.attrs["class"] != "download" {
			continue
		}
		packed, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(e.attrs["href"], "data:application/gzip;base64,"))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		var runs []map[string]any
		if err := json.NewDecoder(z).Decode(&runs); err != nil {
			t.Fatal(err)
		}
		return runs
	}
	t.Fatal("no download")
	return nil
}

func TestSweepPage(t *testing.T) {
	s := sweepOf(t, example())
	figures, _, err := s.Plot(PlotConfig{X: "request_throughput", Y: "p99_ttft_ms"})
	if err != nil {
		t.Fatal(err)
	}
	page := sweepPage(t, s, figures...)
	for _, want := range []string{"12 runs, 6 measurements", "Throughput and latency over load", "the line is the frontier", "Not checked: another tool made these numbers",
		"enforce_eager=false, max_num_seqs=4, 8 at once #2", "p99_ttft_ms"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if n := strings.Count(page, "<details"); n != 12 || strings.Count(page, "<figure") != 3 {
		t.Errorf("details of %d runs, %d figures; want 12, 3", n, strings.Count(page, "<figure"))
	}
	if runs := unpack(t, page); len(runs) != 12 || runs[0]["model_id"] != "tiny" {
		t.Errorf("raw data of %d runs", len(runs))
	}
	s.raw, s.size = nil, 100<<20
	if page := sweepPage(t, s); !strings.Contains(page, "left out here for their size, 100 MB") || strings.Contains(page, "download=") {
		t.Error("the page does not say that the raw data are missing")
	}
}

// Our own results bring verdicts, command lines, machines and versions.
func TestSweepPageOfOurs(t *testing.T) {
	summaries := map[string]string{}
	for i, run := range sweep("tiny", 1, 8) {
		run.Summary.Ossian.Environment = map[string]string{"client_cpu": "A Processor", "server_version": fmt.Sprint("1.", i)}
		text, err := run.Summary.JSON(true)
		if err != nil {
			t.Fatal(err)
		}
		summaries[fmt.Sprint(i)] = "[" + string(text) + "]"
	}
	page := sweepPage(t, sweepOf(t, summaries))
	for _, want := range []string{"2 runs, 2 measurements", "<td>client cpu</td><td>A Processor</td>", "<td>1.0; 1.1</td>", "ossian bench serve --model tiny", `class="verdict `, "8 at once"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if strings.Contains(page, "another tool") {
		t.Error("own results are taken for those of another tool")
	}
}

func TestSweepPageHostile(t *testing.T) {
	text, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	key := string(text)
	run := func(c string) string {
		return result(key+":"+key+`,"label":`+key+`,"ossian":{"args":[`+key+`],"environment":{`+key+":"+key+`},"findings":[{"what":`+key+`}]},`, 0, c, 10, 100)
	}
	s := sweepOf(t, map[string]string{"a": "[" + run("1") + "," + run("2") + "]"})
	figures, _, err := s.Plot(PlotConfig{X: "duration", Y: "duration", Figures: []string{"label"}, Rows: []string{"label"}, Columns: []string{"label"}, Curves: []string{"label"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) != 1 || strings.ContainsAny(figures[0].Name, `/\<>":`) {
		t.Errorf("figures %+v", figures)
	}
	sweepPage(t, s, figures...)
}
