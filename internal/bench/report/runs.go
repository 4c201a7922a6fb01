package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/stat"
)

// multiRunKeys are the rows of the table over several runs, in the compiled client's order.
var multiRunKeys = []string{"request_throughput", "output_throughput", "total_token_throughput", "max_output_tokens_per_s",
	"mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "p99_tpot_ms", "mean_itl_ms",
	"mean_e2el_ms", "p99_e2el_ms", "completed", "failed", "duration"}

// A Spread says how a metric varies from run to run.
type Spread struct {
	Label    string
	Key      string
	N        int
	Mean     float64
	Std      float64 // of the population
	Min, Max float64
	CV       float64        // percent
	Interval *stat.Interval // of the mean, 95 %; nil = one run
}

// spreads returns those of the metrics that every one of the runs has (--num-runs).
func spreads(runs []Result, keys []string) []Spread {
	var out []Spread
	for _, key := range keys {
		at := slices.IndexFunc(comparedMetrics, func(m comparedMetric) bool { return m.key == key })
		missing := slices.ContainsFunc(runs, func(spread Result) bool { _, ok := spread.Values[key]; return !ok })
		if missing || len(runs) == 0 {
			continue
		}
		values := valuesAt(runs, key)
		spread := Spread{Label: comparedMetrics[at].label, Key: key, N: len(values), Mean: stat.Mean(values), Std: stat.Std(values),
			Min: slices.Min(values), Max: slices.Max(values), CV: 100 * stat.CV(values)}
		if i, ok := stat.MeanInterval(values, stat.Confidence); ok {
			spread.Interval = &i
		}
		out = append(out, spread)
	}
	return out
}

// RunsTable is the table over several runs (bench.md 1.10), and behind it the interval of
// each mean and its coefficient of variation (6, item 8).
func RunsTable(runs []Result) string {
	// The tool's tables first, each as it prints them, and ours behind.
	rows := spreads(runs, multiRunKeys)
	page := &consolePage{frame: 80}
	page.title(fmt.Sprintf(" Multi-Run Summary (%d runs) ", len(runs)), "=")
	fmt.Fprintf(page, "%-35s %10s %10s %10s %10s\n", "Metric", "Mean", "Std", "Min", "Max")
	fmt.Fprintf(page, "%s%s\n", strings.Repeat("-", 35), strings.Repeat(" "+strings.Repeat("-", 10), 4))
	page.spreads(rows)
	page.line("=")
	if len(rows) > 0 && rows[0].Key == "request_throughput" && rows[0].Mean > 0 {
		fmt.Fprintf(page, "Throughput CV: %.1f%% (lower = more stable across runs)\n", rows[0].CV)
	}
	if len(runs) > 0 && runs[0].Profile == bench.VLLMRust.String() {
		page.steadyRuns(runs)
	}
	fmt.Fprintf(page, "\n%-35s %10s %10s %25s\n", "Metric", "Mean", "CV", "95 % interval of the mean")
	for _, spread := range rows {
		interval := "one run: none"
		if spread.Interval != nil {
			interval = fmt.Sprintf("[%.2f, %.2f]", spread.Interval.Low, spread.Interval.High)
		}
		fmt.Fprintf(page, "%-35s %10s %9.1f%% %25s\n", spread.Label, tableNumber(spread.Mean, ""), spread.CV, interval)
	}
	return page.String()
}

// spreads writes a row for each metric.
func (p *consolePage) spreads(rows []Spread) {
	for _, r := range rows {
		fmt.Fprintf(p, "%-35s %10s %10s %10s %10s\n", r.Label, tableNumber(r.Mean, ""), tableNumber(r.Std, ""),
			tableNumber(r.Min, ""), tableNumber(r.Max, ""))
	}
}

// steadyRuns is the compiled client's table of the runs that had a steady window.
func (p *consolePage) steadyRuns(runs []Result) {
	var steady []Result
	for _, r := range runs {
		if _, ok := r.Values["steady_request_throughput"]; ok {
			steady = append(steady, r)
		}
	}
	if len(steady) == 0 {
		p.WriteString("\nSteady-state: no runs had a valid window\n")
		return
	}
	var keys []string // of the steady state: all that are compared
	for _, m := range comparedMetrics {
		if strings.HasPrefix(m.key, "steady_") {
			keys = append(keys, m.key)
		}
	}
	rows := spreads(steady, keys)
	for i := range rows {
		rows[i].Label = strings.TrimPrefix(rows[i].Label, "SS ")
	}
	p.WriteByte('\n')
	p.title(fmt.Sprintf(" Steady-State Summary (%d/%d runs) ", len(steady), len(runs)), "=")
	fmt.Fprintf(p, "%-35s %10s %10s %10s %10s\n", "Metric", "Mean", "Std", "Min", "Max")
	p.spreads(rows)
}

// Table is one line per result, whatever wrote it; what a result does not say is "-".
func Table(results []Result) string {
	columns := []struct{ title, key string }{{"Req/s", "request_throughput"}, {"Output tok/s", "output_throughput"},
		{"Total tok/s", "total_token_throughput"}, {"Mean TTFT", "mean_ttft_ms"}, {"P99 TTFT", "p99_ttft_ms"},
		{"Mean TPOT", "mean_tpot_ms"}, {"Mean E2EL", "mean_e2el_ms"}, {"Done", "completed"}, {"Failed", "failed"}}
	wide := len("Result") // the first column is as wide as its longest name, counted in characters
	for i := range results {
		wide = max(wide, len([]rune(results[i].Source)))
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%-*s %-10s", wide, "Result", "Profile")
	for _, c := range columns {
		fmt.Fprintf(&text, " %12s", c.title)
	}
	text.WriteByte('\n')
	for i := range results {
		result := &results[i]
		fmt.Fprintf(&text, "%-*s %-10s", wide, result.Source, cmp.Or(result.Profile, "-"))
		for _, c := range columns {
			cell := "-"
			if v, ok := result.Values[c.key]; ok {
				cell = tableNumber(v, "")
			}
			fmt.Fprintf(&text, " %12s", cell)
		}
		text.WriteByte('\n')
	}
	return text.String()
}
