package chart

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// put writes files of a folder.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// invalid is the result of a run with a finding that touches metrics.
func invalid(rate, latency float64, touches string) string {
	return strings.TrimSuffix(result("", 0, "8", rate, latency), "}") + `,"ossian":{"valid":false,"findings":[{"id":"bursts","what":"x","warning":false,"touches":[` + touches + `]}]}}`
}

// failure is what a sweep writes about a run.
func failure(serve, reason string) string {
	return fmt.Sprintf(`{"run_number": 0, "error_type": "RunError", "error": "%s", "serve_overrides": {%s}, "bench_overrides": {"note": "x"}}`, reason, serve)
}

// A sweep with failures is drawn from the runs that count, and from invalid ones as far as
// what is drawn of them holds; what failed is named.
func TestSweepFailures(t *testing.T) {
	dir := folderOf(t, map[string]string{"SERVE--seqs=1": "[" + result(`"seqs":1,`, 0, "8", 10, 100) + "]"})
	put(t, dir, map[string]string{
		"SERVE--seqs=2/run=0.invalid.json": invalid(20, 200, `"itl","max_output_tokens_per_s"`),
		"SERVE--seqs=2/run=0.failure.json": failure(`"seqs": 2`, "exit status 1"),
		"SERVE--seqs=3/run=0.invalid.json": invalid(30, 300, `"*"`),
		"SERVE--seqs=3/run=0.failure.json": failure(`"seqs": 3`, "exit status 1"),
		"SERVE--seqs=4/run=0.failure.json": failure(`"seqs": 4`, `ran longer than\u0007 1m0s`),
		"SERVE-seqs=5-failure.json":        `{"error_type": "ServerError", "error": "it has ended", "serve_overrides": {"seqs": 5}}`,
		"SERVE--seqs=6/run=0.failure.json": `{"error"`,
		"SERVE--seqs=7/run=0.json":         result(`"seqs":7,`, 0, "8", 70, 700), // of a sweep that was cut
		"SERVE--seqs=7/run=1.json":         `{"output_thr`,
		"SERVE--seqs=1/run=0.json":         result(`"seqs":1,`, 0, "8", 10, 100), // which the summary has
		"SERVE--seqs=1/warmup.json":        result(`"seqs":1,`, -1, "8", 1, 1),
	})
	s, err := ReadSweep(dir)
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, f := range s.Failures() {
		named = append(named, f.Name+": "+f.Reason)
	}
	want := []string{"SERVE--seqs=2/run=0: exit status 1", "SERVE--seqs=3/run=0: exit status 1", "SERVE--seqs=4/run=0: ran longer than  1m0s",
		"SERVE--seqs=6/run=0: run=0.failure.json does not say why: unexpected end of JSON input", "SERVE-seqs=5: it has ended", "SERVE--seqs=7/run=1: line 1: result 1: the JSON ends early"}
	for i, w := range want {
		if len(named) != len(want) || !strings.HasPrefix(named[i], w) {
			t.Fatalf("failures:\n%s\nwant\n%s", strings.Join(named, "\n"), strings.Join(want, "\n"))
		}
	}
	for _, c := range []struct {
		y    string
		want []float64 // by seqs 1, 2, 7
	}{{"p99_e2el_ms", []float64{100, 200, 700}}, {"output_throughput", []float64{100, 200, 700}}} {
		figures, skipped, err := s.Plot(PlotConfig{Name: "F", X: "seqs", Y: c.y})
		if err != nil || skipped != 0 {
			t.Fatalf("%s: %v, skipped %d", c.y, err, skipped)
		}
		points := figures[0].Panels[0][0].Lines[0].Points
		if len(points) != 3 || points[0].Y != c.want[0] || points[1] != (Point{2, c.want[1]}) || points[2].Y != c.want[2] {
			t.Errorf("%s: %v", c.y, points)
		}
	}
	// A peak of the run with bursts does not hold.
	put(t, dir, map[string]string{"SERVE--seqs=1/summary.json": "[" + strings.Replace(result(`"seqs":1,`, 0, "8", 10, 100), `"duration"`, `"max_output_tokens_per_s":9,"duration"`, 1) + "]"})
	if s, err = ReadSweep(dir); err != nil {
		t.Fatal(err)
	}
	figures, _, err := s.Plot(PlotConfig{Name: "F", X: "seqs", Y: "max_output_tokens_per_s"})
	if err != nil || len(figures[0].Panels[0][0].Lines[0].Points) != 1 {
		t.Errorf("%v, %v", err, figures)
	}
	front, err := s.Pareto("", "")
	if err != nil || front.Points != 3 {
		t.Errorf("%v, %+v", err, front)
	}
	var page bytes.Buffer
	if err := s.HTML(&page, "x", figures); err != nil || !strings.Contains(page.String(), "2 runs, 2 measurements, 6 failed or invalid") || !strings.Contains(page.String(), "it has ended") {
		t.Errorf("%v: %d bytes", err, page.Len())
	}
}

// A sweep of nothing but failures can be read, and says that there is nothing to draw.
func TestSweepOfFailures(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"SERVE--a=1/run=0.failure.json": failure(`"a": 1`, "exit status 1"), "SERVE--a=2/run=0.failure.json": failure(`"a": 2`, "exit status 1")})
	s, err := ReadSweep(dir)
	if err != nil || len(s.Failures()) != 2 {
		t.Fatalf("%v, %+v", err, s)
	}
	if _, _, err := s.Plot(PlotConfig{X: "a", Y: "b"}); err == nil || !strings.Contains(err.Error(), "every run failed or is invalid, 2 in all") {
		t.Error(err)
	}
	if _, err := s.Pareto("", ""); err == nil || !strings.Contains(err.Error(), "every run failed") {
		t.Error(err)
	}
}

// Whatever is in the files, a sweep is read or refused, and every failure has a name and a reason.
func FuzzSweepFailures(f *testing.F) {
	f.Add(failure(`"a": 1`, "x"), invalid(1, 2, `"itl"`))
	f.Add(`{"error": 1}`, `{`)
	f.Add(`[]`, `[]`)
	f.Add(`{"error": "x", "serve_overrides": {"a": null, "b": [1], "c": "inf"}}`, `{"duration":1,"completed":1}`)
	f.Fuzz(func(t *testing.T, failure, invalid string) {
		dir := t.TempDir()
		put(t, dir, map[string]string{"a/run=0.failure.json": failure, "a/run=0.invalid.json": invalid, "b/run=0.json": invalid})
		s, err := ReadSweep(dir)
		if err != nil {
			return
		}
		for _, f := range s.Failures() {
			if f.Name == "" || f.Reason == "" {
				t.Errorf("%+v", f)
			}
		}
		_, _, _ = s.Plot(PlotConfig{X: "request_throughput", Y: "a"})
	})
}
