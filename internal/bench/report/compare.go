package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/stat"
)

// A comparedMetric is a row of the tables.
type comparedMetric struct {
	label, key string
	lower      bool // is better
}

// compared are the rows of tables, in the compiled client's order (bench.md 1.10), and
// what Ossian adds to them.
var comparedMetrics = []comparedMetric{
	{"Request throughput (req/s)", "request_throughput", false},
	{"Request goodput (req/s)", "request_goodput", false},
	{"Input throughput (tok/s)", "input_throughput", false},
	{"Output throughput (tok/s)", "output_throughput", false},
	{"Total token throughput (tok/s)", "total_token_throughput", false},
	{"Peak output tokens/s", "max_output_tokens_per_s", false},
	{"Peak concurrent requests", "max_concurrent_requests", false},
	{"Mean TTFT (ms)", "mean_ttft_ms", true},
	{"Median TTFT (ms)", "median_ttft_ms", true},
	{"P99 TTFT (ms)", "p99_ttft_ms", true},
	{"Mean TPOT (ms)", "mean_tpot_ms", true},
	{"Median TPOT (ms)", "median_tpot_ms", true},
	{"P99 TPOT (ms)", "p99_tpot_ms", true},
	{"Mean ITL (ms)", "mean_itl_ms", true},
	{"Median ITL (ms)", "median_itl_ms", true},
	{"P99 ITL (ms)", "p99_itl_ms", true},
	{"Mean E2EL (ms)", "mean_e2el_ms", true},
	{"Median E2EL (ms)", "median_e2el_ms", true},
	{"P99 E2EL (ms)", "p99_e2el_ms", true},
	{"Completed requests", "completed", false},
	{"Failed requests", "failed", true},
	{"Duration (s)", "duration", true},
	{"SS Request throughput (req/s)", "steady_request_throughput", false},
	{"SS Output throughput (tok/s)", "steady_output_throughput", false},
	{"SS Input throughput (tok/s)", "steady_input_throughput", false},
	{"SS Total token throughput (tok/s)", "steady_total_token_throughput", false},
	{"SS Mean TTFT (ms)", "steady_mean_ttft_ms", true},
	{"SS Median TTFT (ms)", "steady_median_ttft_ms", true},
	{"SS Mean TPOT (ms)", "steady_mean_tpot_ms", true},
	{"SS Median TPOT (ms)", "steady_median_tpot_ms", true},
	{"SS P90 TPOT (ms)", "steady_p90_tpot_ms", true},
	{"SS P99 TPOT (ms)", "steady_p99_tpot_ms", true},
}

// latencyKey takes the key of a latency apart: p95_ttft_ms is "P95 TTFT (ms)".
func latencyKey(key string) (label string, ok bool) {
	statistic, rest, found := strings.Cut(key, "_")
	name, ms := strings.CutSuffix(rest, "_ms")
	if !found || !ms || !slices.Contains([]string{"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"}, name) {
		return "", false
	}
	switch statistic {
	case "mean", "median", "std", "max":
		statistic = strings.ToUpper(statistic[:1]) + statistic[1:]
	default:
		number, isP := strings.CutPrefix(statistic, "p")
		if p, err := strconv.ParseFloat(number, 64); !isP || err != nil || !(p >= 0 && p <= 100) {
			return "", false
		}
		statistic = "P" + number
	}
	return statistic + " " + strings.ToUpper(strings.ReplaceAll(name, "_", " ")) + " (ms)", true
}

// A Verdict says what a difference means for the user.
type Verdict string

// The verdicts. Only Better and Worse are claims.
const (
	Same     Verdict = "same"            // equal values
	Better   Verdict = "better"          // B is, and it is not chance
	Worse    Verdict = "worse"           // likewise
	Chance   Verdict = "not significant" // may be chance
	Untested Verdict = "not tested"      // one value on each side says nothing about chance
	Spoilt   Verdict = "does not hold"   // a finding of a run touches the metric
)

// A Row compares one metric.
type Row struct {
	Label    string        `json:"metric"`
	Key      string        `json:"key"`
	A        float64       `json:"a"` // means over the runs of a side
	B        float64       `json:"b"`
	Delta    float64       `json:"delta"`
	Percent  float64       `json:"percent"` // of A; 0 where A is (all but) 0
	Lower    bool          `json:"lower_is_better"`
	Verdict  Verdict       `json:"verdict"`
	Interval stat.Interval `json:"interval"` // of Delta with 95 % confidence; for tested rows
	P        float64       `json:"p"`        // chance of so large a difference without a cause; 1 for rows not tested
	By       string        `json:"by"`       // what was compared: runs, stretches
}

// A Comparison is B against A.
type Comparison struct {
	A        []string `json:"a"` // sources
	B        []string `json:"b"`
	Rows     []Row    `json:"rows"`
	Warnings []string `json:"warnings"`

	Outputs     []Outputs `json:"outputs,omitempty"`      // A against B first, then repetitions of one side
	OutputsNote string    `json:"outputs_note,omitempty"` // why there are none
}

// alpha is the chance that a comparison claims any difference where there is none. BEN-6
// allows 5 %; a fifth of it leaves room for what the test assumes.
const alpha = 0.01

// Compare sets the runs of b against those of a: Welch's test over the runs where both
// sides have at least two, else over the stretches of the one run, with
// Holm's correction for the number of rows. It fails where a side is empty or nothing
// is on both sides; it warns where the runs are not of the same thing.
func Compare(a, b []Result) (*Comparison, error) {
	if len(a) == 0 || len(b) == 0 {
		return nil, fmt.Errorf("compare: %d results against %d; at least one on each side is needed", len(a), len(b))
	}
	comparison := &Comparison{A: sources(a), B: sources(b), Rows: []Row{}, Warnings: warnings(a, b)}
	// Claims are made last, as the correction needs to know of all tests.
	var chances []float64
	var tested []int // rows, one for each of the chances
	for _, m := range rowsOf(a, b) {
		row, ok := compareOne(m, a, b)
		if !ok {
			continue
		}
		if m.key != "completed" && m.key != "failed" && !standsIn(slices.Concat(a, b), m.key) { // whose counts are what findings rest on
			row.Verdict, row.By = Spoilt, ""
		}
		if row.Verdict == Chance {
			tested = append(tested, len(comparison.Rows))
			chances = append(chances, row.P)
		}
		comparison.Rows = append(comparison.Rows, row)
	}
	comparison.addOutputs(a, b)
	if len(comparison.Rows) == 0 {
		return nil, errors.New("compare: no metric is in every result of both sides")
	}
	for i, claim := range stat.Significant(chances, alpha) {
		row := &comparison.Rows[tested[i]]
		switch {
		case claim && (row.Delta < 0) == row.Lower:
			row.Verdict = Better
		case claim:
			row.Verdict = Worse
		}
	}
	return comparison, nil
}

// standsIn reports whether a metric stands in every result.
func standsIn(results []Result, key string) bool {
	return !slices.ContainsFunc(results, func(r Result) bool { return !r.Stands(key) })
}

// sources are where results come from.
func sources(rs []Result) []string {
	out := make([]string, len(rs))
	for i := range rs {
		out[i] = rs[i].Source
	}
	return out
}

// rowsOf are the rows for metrics that every result has: the fixed ones, and what other
// percentiles there are.
func rowsOf(a, b []Result) []comparedMetric {
	all := slices.Concat(a, b)
	everywhere := func(key string) bool {
		return !slices.ContainsFunc(all, func(r Result) bool { _, ok := r.Values[key]; return !ok })
	}
	var out []comparedMetric
	known := map[string]bool{}
	for _, metric := range comparedMetrics {
		known[metric.key] = true
		if everywhere(metric.key) {
			out = append(out, metric)
		}
	}
	// What one result lacks is no row, so the keys of any one will do.
	for _, key := range slices.Sorted(maps.Keys(a[0].Values)) {
		label, ok := latencyKey(key)
		if ok && !known[key] && !strings.HasPrefix(key, "std_") && everywhere(key) {
			out = append(out, comparedMetric{label, key, true})
		}
	}
	return out
}

// compareOne makes a row; its verdict is Chance where a test was made and the values
// differ.
func compareOne(metric comparedMetric, a, b []Result) (Row, bool) {
	va, vb := valuesAt(a, metric.key), valuesAt(b, metric.key)
	row := Row{Label: metric.label, Key: metric.key, A: stat.Mean(va), B: stat.Mean(vb), Lower: metric.lower, Verdict: Untested, P: 1}
	row.Delta = row.B - row.A
	if !finite(row.Delta) {
		return Row{}, false
	}
	if percent := 100 * row.Delta / math.Abs(row.A); finite(percent) {
		row.Percent = percent
	}
	if row.Delta == 0 {
		row.Verdict = Same
	}
	// With one run on each side only its stretches can be compared.
	row.By = "runs"
	if len(a) == 1 && len(b) == 1 {
		row.By = "stretches"
		va, vb = a[0].Batches[metric.key], b[0].Batches[metric.key]
	}
	difference, ok := stat.Welch(va, vb)
	if !ok || !finite(difference.P) || !finite(difference.Interval.High-difference.Interval.Low) {
		row.By = ""
		return row, true
	}
	if row.Verdict != Same {
		row.Verdict = Chance
	}
	row.Interval, row.P = difference.Interval, difference.P
	if (difference.Delta < 0) != (row.Delta < 0) { // the stretches, each of the same weight, say the opposite of the run
		row.P = 1
	}
	return row, true
}

// valuesAt is a metric of each result; 0 where one lacks it.
func valuesAt(rs []Result, key string) []float64 {
	out := make([]float64, len(rs))
	for i := range rs {
		out[i] = rs[i].Values[key]
	}
	return out
}

// warnings says what makes a comparison doubtful, each reason once.
func warnings(a, b []Result) []string {
	out := []string{}
	add := func(format string, values ...any) {
		if text := fmt.Sprintf(format, values...); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	// All are held against the first: what differs from it is not of the same thing.
	first := &a[0]
	for _, result := range slices.Concat(a, b)[1:] {
		for _, key := range []string{"model_id", "dataset_name", "request_rate"} {
			if value, y := first.word(key), result.word(key); value != y && value != "" && y != "" {
				add("%s differs: %s and %s", key, value, y)
			}
		}
		for _, key := range []string{"num_prompts", "max_concurrency", "total_input_tokens"} {
			value, hasX := first.Values[key]
			y, hasY := result.Values[key]
			if hasX && hasY && math.Abs(value-y) > 0.01*max(value, y) {
				add("%s differs: %s and %s; the workloads are not the same", key, fourDigits(value), fourDigits(y))
			}
		}
		if value, y := first.Profile, result.Profile; value != y && value != "" && y != "" {
			add("profile differs: %s and %s; their numbers are not defined alike (bench serve --compat)", value, y)
		}
		if value, y := first.Ossian, result.Ossian; value != nil && y != nil && value.Workload.Cache != y.Workload.Cache {
			add("prefix cache before the run differs: %s and %s (bench serve --cache)", cmp.Or(value.Workload.Cache, "as it was"), cmp.Or(y.Workload.Cache, "as it was"))
		}
		if value, y := first.Ossian, result.Ossian; value != nil && y != nil && value.Workload.Hash != y.Workload.Hash {
			add("workload differs: %s and %s (hash of the prompts)", value.Workload.Hash, y.Workload.Hash)
		}
	}
	for _, result := range slices.Concat(a, b) {
		named := false
		for _, finding := range result.Findings() {
			if !finding.Warning {
				add("%s is not a valid run: %s, which touches %s", result.Source, finding.ID, finding.Touched())
				named = true
			}
		}
		if result.Ossian != nil && !result.Ossian.Valid && !named {
			add("%s is not a valid run", result.Source)
		}
		if result.Values["failed"] > 0 {
			add("%s has failed requests; their times are in no number", result.Source)
		}
	}
	if len(a) == 1 && len(b) == 1 {
		add("one run on each side: what differs from run to run is not covered; bench serve --num-runs repeats")
	} else if len(a) == 1 || len(b) == 1 {
		add("one side has one run: nothing can be tested; give several on both sides")
	}
	return out
}

// word is what r says about key, in words; "" = nothing.
func (r *Result) word(key string) string {
	if word, ok := r.Info[key]; ok {
		return word
	}
	if v, ok := r.Values[key]; ok {
		return fourDigits(v)
	}
	return ""
}

// String is the table (bench.md 1.10), with an interval and a verdict behind each row.
func (c *Comparison) String() string {
	page := &consolePage{frame: 90}
	page.title(" Benchmark Comparison ", "=")
	fmt.Fprintf(page, "  A: %s\n  B: %s\n\n", strings.Join(c.A, ", "), strings.Join(c.B, ", "))
	fmt.Fprintf(page, "%-35s %12s %12s %10s %8s  %-26s %s\n", "Metric", "A", "B", "Delta", "Change", "95 % interval of Delta", "Verdict")
	fmt.Fprintf(page, "%s %s %s %s %s  %s %s\n", strings.Repeat("-", 35), strings.Repeat("-", 12), strings.Repeat("-", 12),
		strings.Repeat("-", 10), strings.Repeat("-", 8), strings.Repeat("-", 26), strings.Repeat("-", 15))
	// Each row with what speaks for it; a row that was not tested has no interval.
	for _, row := range c.Rows {
		interval := ""
		if row.By != "" {
			interval = fmt.Sprintf("[%+.2f, %+.2f]", row.Interval.Low, row.Interval.High)
		}
		fmt.Fprintf(page, "%-35s %12s %12s %10s %7s%s  %-26s %s\n", row.Label, tableNumber(row.A, ""), tableNumber(row.B, ""),
			tableNumber(row.Delta, "+"), row.changeText(), row.mark(), interval, row.Verdict)
	}
	page.line("=")
	page.WriteString("\nLegend: + = improvement, - = regression (from A to B); better and worse are more than\n" +
		"chance: of 100 comparisons without a difference at most one gets such a verdict.\n")
	for i := range c.Outputs {
		fmt.Fprintln(page, &c.Outputs[i])
	}
	if c.OutputsNote != "" {
		fmt.Fprintf(page, "Outputs are not compared: %s\n", c.OutputsNote)
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(page, "WARNING: %s\n", w)
	}
	return page.String()
}

// tableNumber writes whole numbers without decimals, others with two.
func tableNumber(value float64, sign string) string {
	if value == math.Floor(value) && math.Abs(value) < 1e12 {
		return fmt.Sprintf("%"+sign+"d", int64(value))
	}
	return fmt.Sprintf("%"+sign+".2f", value)
}

// changeText is the change in percent of A.
func (r *Row) changeText() string {
	if r.A == 0 && r.B != 0 {
		return "inf%"
	}
	return fmt.Sprintf("%+.1f%%", r.Percent)
}

// mark is + where B is better, - where it is worse.
func (r *Row) mark() string {
	switch {
	case math.Abs(r.Delta) < 1e-10:
		return " "
	case (r.Delta < 0) == r.Lower:
		return "+"
	}
	return "-"
}
