package report

import (
	"fmt"
	"slices"
	"strings"

	"ossian/internal/bench"
)

// Heading is a line above one of several runs, as the compiled client prints it.
func Heading(text, fill string) string {
	p := &consolePage{frame: 70}
	p.title(" "+text+" ", fill)
	return p.String()
}

// A Point is one run of a sweep.
type Point struct {
	Label   string // of its row: concurrency=4
	Summary *Summary
}

// SweepTable is the table of a sweep in the form of the compiled client (bench.md 1.10);
// name is that of what was varied. Percentiles come behind P50 and P90.
func SweepTable(name string, points []Point, percentiles []float64) string {
	shown := []float64{50, 90}
	for _, p := range percentiles {
		if !slices.Contains(shown, p) {
			shown = append(shown, p)
		}
	}
	// A column is as wide as its title, and twelve characters at least where it is a time.
	titles := []string{"Req/s", "Inputs/s", "Tok/s", "Total tok/s", "SS req/s", "SS out tok/s"}
	widths := []int{10, 10, 10, 12, 10, 12}
	for _, p := range shown {
		for _, metric := range []string{"TTFT", "TPOT"} {
			title := fmt.Sprintf("P%s %s(ms)", percentileName(p), metric)
			titles, widths = append(titles, title), append(widths, max(12, len(title)))
		}
	}
	rules := make([]string, len(widths))
	page := &consolePage{frame: 20}
	for i, w := range widths {
		rules[i] = strings.Repeat("-", w)
		page.frame += 1 + w
	}
	line := func(label string, cells []string) {
		fmt.Fprintf(page, "%-20s", label)
		for i, c := range cells {
			fmt.Fprintf(page, " %*s", widths[i], c)
		}
		page.WriteByte('\n')
	}
	page.title(" Sweep Summary ", "=")
	line(name, titles)
	line(strings.Repeat("-", 20), rules)
	best := 0
	for i, p := range points {
		line(p.Label, p.cells(shown))
		if p.Summary.RequestRate > points[best].Summary.RequestRate {
			best = i
		}
	}
	page.line("=")
	if len(points) > 0 {
		fmt.Fprintf(page, "Best throughput: %.2f req/s at %s\n", points[best].Summary.RequestRate, points[best].Label)
	}
	return page.String()
}

// cells is the row of p; a "-" is what it has not.
func (p *Point) cells(percentiles []float64) []string {
	summary := p.Summary
	steady := summary.Ossian.Steady // in tokens
	if summary.Setup.Profile == bench.VLLMRust {
		steady = summary.Steady
	}
	two := func(f float64) string { return fmt.Sprintf("%.2f", f) }
	out := []string{two(summary.RequestRate), "-", two(summary.OutputRate), two(summary.TotalRate), "-", "-"}
	if steady != nil {
		out[4], out[5] = two(steady.RequestRate), two(steady.OutputRate)
	}
	for _, at := range percentiles {
		out = append(out, two(summary.TTFT.P(at)), two(summary.TPOT.P(at)))
	}
	return out
}
