package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/dataset"
	"ossian/internal/bench/report"
)

// A shape is a run that tests make: request i is sent at i times every, has its first
// token after ttft+i*more, then tokens-1 more at gap, the last of them after slow.
type shape struct {
	requests, tokens             int
	every, ttft, more, gap, slow time.Duration
	failed                       int // the first requests fail
	concurrency                  int
	rate                         float64 // 0 = all at once
	label, model, text, err      string
}

func (s shape) run() Run {
	r := &bench.Recording{Began: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	r.Setup = bench.Setup{Backend: "openai", URL: "http://127.0.0.1:8000/v1/completions", ModelID: s.model, Label: s.label,
		Tokenizer: s.model, Dataset: "random", Stream: true, Args: []string{"ossian", "bench", "serve", "--model", s.model},
		Arrivals: bench.Arrivals{Rate: math.Inf(1), Burstiness: 1, Concurrency: s.concurrency}}
	if s.rate > 0 {
		r.Setup.Arrivals.Rate = s.rate
	}
	for i := range s.requests {
		at := time.Duration(i) * s.every
		q := bench.Sample{Index: i, Scheduled: at, Released: at, Sent: at, Input: 100 + i%7, Asked: s.tokens, Status: 200,
			Counts: bench.Counts{Prompt: -1, Completion: s.tokens, Cached: -1, Reasoning: -1}, Text: s.text}
		at += s.ttft + time.Duration(i)*s.more
		if i < s.failed {
			q.Status, q.Err, q.Done = 500, s.err, at
			r.Samples = append(r.Samples, q)
			continue
		}
		for k := range s.tokens {
			if k > 0 {
				at += s.gap
			}
			if k > 0 && k == s.tokens-1 {
				at += s.slow
			}
			q.Chunks = append(q.Chunks, bench.Chunk{At: at, Lag: -1, Tokens: -1, Kind: bench.Choices | bench.Text})
		}
		q.Done = at
		r.Duration = max(r.Duration, at)
		r.Samples = append(r.Samples, q)
	}
	return Run{Recording: r, Summary: report.Summarize(r, nil)}
}

func usual() shape {
	return shape{requests: 40, tokens: 20, every: 50 * time.Millisecond, ttft: 30 * time.Millisecond, more: 3 * time.Millisecond,
		gap: 10 * time.Millisecond, slow: 60 * time.Millisecond, model: "tiny"}
}

// sweep is a usual run at each concurrency; 0 = without bound.
func sweep(model string, concurrency ...int) []Run {
	var out []Run
	for i, c := range concurrency {
		s := usual()
		s.model, s.concurrency, s.more = model, c, time.Duration(i+1)*time.Millisecond
		out = append(out, s.run())
	}
	return out
}

// svgOf returns f as SVG, checked to be well-formed XML, and the texts in it.
func svgOf(t *testing.T, f *Figure) (svg, text string) {
	t.Helper()
	var b, words bytes.Buffer
	if err := f.SVG(&b); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String(), words.String()
		}
		if err != nil {
			t.Fatalf("figure %s: %v", f.Name, err)
		}
		switch token := token.(type) {
		case xml.CharData:
			words.Write(token)
		case xml.StartElement:
			for _, a := range token.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Fatalf("figure %s: %s %s=%q", f.Name, token.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
}

func TestFigures(t *testing.T) {
	one := shape{requests: 1, tokens: 1, ttft: time.Millisecond, model: "one"}
	lost := usual()
	lost.failed, lost.err = lost.requests, "connection refused"
	long := usual()
	long.ttft, long.gap, long.requests = 40*time.Second, 3*time.Second, 3
	rates := []Run{}
	for _, rate := range []float64{2, 4, 0} {
		s := usual()
		s.rate = rate
		rates = append(rates, s.run())
	}
	named := []Run{usual().run(), usual().run()}
	named[0].Name, named[1].Name = "before", "after"
	for _, c := range []struct {
		name  string
		runs  []Run
		want  []string // figures
		texts []string // in some figure
	}{
		{"one token", []Run{one.run()}, []string{"ttft", "e2el", "over_time"}, []string{"TTFT (ms)"}},
		{"nothing sent", []Run{shape{}.run()}, []string{"over_time"}, nil},
		{"all failed", []Run{lost.run()}, []string{"over_time"}, nil},
		{"a run", []Run{usual().run()}, []string{"ttft", "tpot", "itl", "e2el", "over_time"},
			[]string{"TTFT (ms)", "ITL (ms)", "Share of gaps (%)", "Requests in flight", "tokens/s"}},
		{"seconds", []Run{long.run()}, []string{"ttft", "tpot", "itl", "e2el", "over_time"}, []string{"TTFT (s)", "E2EL (s)"}},
		{"two runs", named, []string{"ttft", "tpot", "itl", "e2el", "over_time"}, []string{"before", "after"}},
		{"concurrency", sweep("tiny", 1, 8, 64, 0), []string{"load", "pareto", "ttft", "tpot", "itl", "e2el", "over_time"},
			[]string{"Requests at once", "1 at once", "64 at once", "inf", "tokens/s/user"}},
		{"rates", rates, []string{"load", "pareto", "ttft", "tpot", "itl", "e2el", "over_time"}, []string{"Request rate (requests/s)", "2 req/s", "inf req/s"}},
		{"models and loads", append(sweep("small", 1, 2), sweep("large", 1, 2)...), []string{"load", "pareto", "ttft", "tpot", "itl", "e2el", "over_time"},
			[]string{"small, 1 at once", "large, 2 at once"}},
		{"more runs than colours", sweep("tiny", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), []string{"load", "pareto", "ttft", "tpot", "itl", "e2el", "over_time"},
			[]string{"10 at once"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var names []string
			all := ""
			for _, f := range figures(newSeries(c.runs)) {
				names = append(names, f.Name)
				_, text := svgOf(t, f)
				all += text
			}
			if !slices.Equal(names, c.want) {
				t.Errorf("figures %v, want %v", names, c.want)
			}
			for _, want := range c.texts {
				if !strings.Contains(all, want) {
					t.Errorf("no figure says %q", want)
				}
			}
		})
	}
}

func TestPNG(t *testing.T) {
	f := figures(newSeries([]Run{usual().run()}))[0]
	for range 4 {
		f.Panels[0] = append(f.Panels[0], f.Panels[0][0])
	}
	for _, c := range []struct {
		name   string
		figure *Figure
		wide   int
	}{
		{"two panels", figures(newSeries([]Run{usual().run()}))[0], 1440},
		{"six panels", f, 3120},
	} {
		var b bytes.Buffer
		if err := c.figure.PNG(&b); err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		if got := img.Bounds().Dx(); got != c.wide {
			t.Errorf("%s: %d pixels wide, want %d", c.name, got, c.wide)
		}
		colours := map[[3]uint32]bool{}
		for y := range img.Bounds().Dy() {
			for x := range img.Bounds().Dx() {
				r, g, b, _ := img.At(x, y).RGBA()
				colours[[3]uint32{r >> 8, g >> 8, b >> 8}] = true
			}
		}
		if !colours[[3]uint32{0x00, 0x72, 0xb2}] || !colours[[3]uint32{0xff, 0xff, 0xff}] { // the first of the palette
			t.Errorf("%s: no data on white", c.name)
		}
	}
}

func TestSave(t *testing.T) {
	dir := t.TempDir()
	f := DatasetStats(bench.Workload{{Input: 3, Output: 5}})
	for name, magic := range map[string]string{"a.svg": "<?xml", "b.PNG": "\x89PNG"} {
		p := filepath.Join(dir, name)
		if err := f.Save(p); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(p); err != nil || !strings.HasPrefix(string(text), magic) {
			t.Errorf("%s begins with %.8q: %v", name, text, err)
		}
	}
	if err := f.Save(filepath.Join(dir, "c.pdf")); err == nil || !strings.Contains(err.Error(), ".svg or .png") {
		t.Errorf("error %v for a format that there is not", err)
	}
	if err := f.Save(filepath.Join(dir, "none", "a.svg")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v for a folder that there is not", err)
	}
}

// Every text says how wide it is, so that any font fits.
func TestAnyFont(t *testing.T) {
	f := &Figure{Title: "<Title> & more", Panels: [][]Panel{{{Title: "Panel", Lines: []Line{{Name: "a"}, {Name: "b"}}}}}}
	svg, _ := svgOf(t, f)
	if texts, sized := strings.Count(svg, "<text "), strings.Count(svg, `<text textLength="`); texts == 0 || texts != sized {
		t.Errorf("%d of %d texts have a width", sized, texts)
	}
	if want := fmt.Sprintf(`textLength="%.1f" lengthAdjust="spacingAndGlyphs"`, bold(12).Width(f.Title)); !strings.Contains(svg, want) {
		t.Errorf("the title is not %s", want)
	}
}

// Colours of a name are the same in all panels; no two names share one.
func TestColours(t *testing.T) {
	for _, n := range []int{1, 7, 8, 40} {
		f := &Figure{Panels: [][]Panel{{{}, {}}}}
		for i := range n {
			f.Panels[0][i%2].Lines = append(f.Panels[0][i%2].Lines, Line{Name: fmt.Sprint(i)}, Line{Name: fmt.Sprint(i)})
		}
		paint := f.colours()
		seen := map[string]bool{}
		for i := range n {
			seen[fmt.Sprint(paint(fmt.Sprint(i)))] = true
		}
		if len(seen) != n {
			t.Errorf("%d names have %d colours", n, len(seen))
		}
	}
}

func TestManyRequests(t *testing.T) {
	s := usual()
	s.requests, s.tokens, s.every = 100_000, 3, 100*time.Microsecond
	s.more = time.Microsecond
	r := s.run()
	for _, f := range figures(newSeries([]Run{r})) {
		svg, _ := svgOf(t, f)
		if len(svg) > 400_000 {
			t.Errorf("%s of %d requests is %d bytes", f.Name, s.requests, len(svg))
		}
	}
}

func TestDatasetStats(t *testing.T) {
	var w bench.Workload
	for i := range 1000 {
		w = append(w, dataset.Query{Input: 100 + i, Output: 10})
	}
	f := DatasetStats(w)
	svg, text := svgOf(t, f)
	for _, want := range []string{"Lengths of 1000 requests", "Tokens of prompt", "Tokens of output", "Tokens of both", "Each request", "tokens", "requests"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	if len(f.Panels) != 2 || len(f.Panels[0]) != 2 || len(svg) > 300_000 {
		t.Errorf("%d rows, %d bytes", len(f.Panels), len(svg))
	}
	if n := len(f.Panels[0][0].Lines[0].Points); n != 32 { // 30 bins and the ends of the outline
		t.Errorf("histogram of prompts has %d points, want 32", n)
	}
	svgOf(t, DatasetStats(nil))
}

func TestFrontier(t *testing.T) {
	for _, c := range []struct {
		name   string
		points []Point
		want   []Point
	}{
		{"none", nil, nil},
		{"one", []Point{{1, 1}}, []Point{{1, 1}}},
		{"a trade", []Point{{1, 9}, {9, 1}}, []Point{{1, 9}, {9, 1}}},
		{"one is worse", []Point{{1, 9}, {2, 2}, {3, 5}, {9, 1}}, []Point{{1, 9}, {3, 5}, {9, 1}}},
		{"worse for all at the same rate", []Point{{1, 3}, {1, 2}}, []Point{{1, 3}}},
		{"equal", []Point{{1, 3}, {2, 3}}, []Point{{1, 3}, {2, 3}}},
		{"twice the same", []Point{{2, 3}, {2, 3}, {3, 1}}, []Point{{2, 3}, {2, 3}, {3, 1}}},
	} {
		if got := frontier(c.points); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Runs are points of one curve whatever their names are, and those that repeat each other
// are one point.
func TestLoadCurves(t *testing.T) {
	runs := sweep("tiny", 8, 1, 1)
	for i := range runs {
		runs[i].Name = fmt.Sprint("run ", i)
	}
	all := overviews(newSeries(runs))
	p := loadCurves(all, loadOf(all)).Panels[0][0]
	last := p.Lines[len(p.Lines)-1]
	mean := (all[1].output + all[2].output) / 2
	if len(p.Lines) != 2 || last.Name != "tiny" || !slices.Equal(last.Points, []Point{{1, mean}, {8, all[0].output}}) {
		t.Errorf("lines %+v", p.Lines)
	}
}

func TestNames(t *testing.T) {
	label := func(label string, concurrency int) Run {
		s := usual()
		s.requests, s.label, s.concurrency = 1, label, concurrency
		return s.run()
	}
	named := []Run{label("a", 1), label("a", 2), label("a", 2)}
	named[0].Name, named[1].Name, named[2].Name = "c=1", "c=2", "c=2"
	for _, c := range []struct {
		name string
		runs []Run
		want []string
	}{
		{"given", named, []string{"c=1", "c=2", "c=2 #2"}},
		{"one", []Run{label("a", 3)}, []string{"a"}},
		{"model", []Run{label("", 3)}, []string{"tiny"}},
		{"labels", []Run{label("a", 3), label("b", 3)}, []string{"a", "b"}},
		{"repeats", []Run{label("a", 3), label("a", 3)}, []string{"a", "a #2"}},
		{"loads", []Run{label("a", 3), label("a", 0)}, []string{"3 at once", "inf at once"}},
		{"both", []Run{label("a", 3), label("b", 4), label("b", 4)}, []string{"a, 3 at once", "b, 4 at once", "b, 4 at once #2"}},
	} {
		var got []string
		for _, s := range newSeries(c.runs) {
			got = append(got, s.name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
