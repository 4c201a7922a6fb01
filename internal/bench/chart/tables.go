package chart

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/bench/report"
)

// columns are those of the table of runs, in milliseconds where they are times.
var columns = []struct {
	name  string
	value func(*overview) string
}{
	{"concurrency", func(o *overview) string { return loadText(byConcurrency.of(o)) }},
	{"req/s offered", func(o *overview) string { return loadText(o.arrivals.Rate) }},
	{"failed", func(o *overview) string { return decimal(o.failed, 0) }},
	{"req/s", func(o *overview) string { return compact(o.requests) }},
	{"output tok/s", func(o *overview) string { return compact(o.output) }},
	{"total tok/s", func(o *overview) string { return compact(o.total) }},
	{"median TTFT", func(o *overview) string { return compact(o.ttft[0]) }},
	{"P99 TTFT", func(o *overview) string { return compact(o.ttft[1]) }},
	{"median TPOT", func(o *overview) string { return compact(o.tpot[0]) }},
	{"P99 TPOT", func(o *overview) string { return compact(o.tpot[1]) }},
	{"median E2EL", func(o *overview) string { return compact(o.e2el[0]) }},
	{"P99 E2EL", func(o *overview) string { return compact(o.e2el[1]) }},
}

// cells are the columns of one run.
func (o *overview) cells() []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.value(o)
	}
	return out
}

// decimal writes a value with a number of digits; "–" where it is not known.
func decimal(value float64, digits int) string {
	if math.IsNaN(value) {
		return "–"
	}
	return strconv.FormatFloat(value, 'f', digits, 64)
}

// compact writes a value with fewer digits the larger it is, so that the table of runs fits on the page;
// the exact numbers stand in its sections.
func compact(value float64) string {
	switch size := math.Abs(value); {
	case size >= 1000:
		return decimal(value, 0)
	case size >= 100:
		return decimal(value, 1)
	}
	return decimal(value, 2)
}

// cards are the headline of a run.
func (s *series) cards() []pair {
	sum := s.Summary
	out := []pair{
		{"output tokens/s", fmt.Sprintf("%.1f", sum.OutputRate)},
		{"tokens/s, prompts included", fmt.Sprintf("%.1f", sum.TotalRate)},
		{"requests/s", fmt.Sprintf("%.2f", sum.RequestRate)},
		{"median TTFT", withUnit(sum.TTFT, sum.TTFT.Median)},
		{"P99 TTFT", withUnit(sum.TTFT, sum.TTFT.P(99))},
		{"median TPOT", withUnit(sum.TPOT, sum.TPOT.Median)},
		{"P99 ITL", withUnit(sum.ITL, sum.ITL.P(99))},
		{"median E2EL", withUnit(sum.E2EL, sum.E2EL.Median)},
		{"requests at once, at most", fmt.Sprintf("%.0f", s.peak)},
		{"requests succeeded", fmt.Sprintf("%d of %d", sum.Completed, sum.Completed+sum.Failed)},
	}
	if len(sum.Setup.Goodput) > 0 {
		out = append(out, pair{"requests/s within objectives", fmt.Sprintf("%.2f", sum.Goodput)})
	}
	return out
}

// withUnit writes milliseconds so that they read well.
func withUnit(d report.Dist, ms float64) string {
	switch {
	case d.N == 0:
		return "–"
	case ms >= 10_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 1:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.3f ms", ms)
}

// A metric is a row of the table of latencies.
type metric struct {
	Name   string
	N      int
	Values []string
}

// latencyTable returns the table of latencies: its columns, its rows, and a sentence about
// percentiles that the number of values does not certify, which bear a mark.
func latencyTable(summary *report.Summary) (columns []string, rows []metric, uncertain string) {
	percentiles := append([]float64{90, 99}, summary.Setup.Percentiles...)
	slices.Sort(percentiles)
	percentiles = slices.Compact(percentiles)
	columns = []string{"mean", "std", "median"}
	for _, p := range percentiles {
		columns = append(columns, "P"+strconv.FormatFloat(p, 'f', -1, 64))
	}
	columns = append(columns, "max")
	// Which percentiles bear a mark; the report has judged those of its own metrics.
	type percentile struct {
		metric string
		p      float64
	}
	marked := map[percentile]bool{}
	var needs []string
	floor := map[float64]int{} // how many values a percentile needs
	for _, certified := range summary.Ossian.Certified {
		floor[certified.P] = certified.Need
		if certified.Certified || certified.N == 0 {
			continue
		}
		marked[percentile{certified.Metric, certified.P}] = true
		if need := fmt.Sprintf("P%s needs %d", strconv.FormatFloat(certified.P, 'f', -1, 64), certified.Need); certified.Need > 0 && !slices.Contains(needs, need) {
			needs = append(needs, need)
		}
	}
	// The tool's metrics by their keys, and ours, of which only the number of values is known.
	ext := &summary.Ossian
	for _, latency := range []struct {
		key, name string
		d         report.Dist
	}{
		{"ttft", "TTFT", summary.TTFT}, {"tpot", "TPOT", summary.TPOT}, {"itl", "ITL", summary.ITL}, {"e2el", "E2EL", summary.E2EL},
		{"", "first text, reasoning included", ext.FirstToken}, {"", "wait in the client for a slot", ext.QueueWait},
		{"", "first text, since its scheduled arrival", ext.OpenLoop.FirstToken}, {"", "last text, since its scheduled arrival", ext.OpenLoop.E2EL},
	} {
		if latency.d.N == 0 {
			continue
		}
		row := metric{latency.name, latency.d.N, []string{decimal(latency.d.Mean, 2), decimal(latency.d.Std, 2), decimal(latency.d.Median, 2)}}
		for _, p := range percentiles {
			text := decimal(latency.d.P(p), 2)
			if marked[percentile{latency.key, p}] || (latency.key == "" && latency.d.N < floor[p]) {
				text += " *"
			}
			row.Values = append(row.Values, text)
		}
		row.Values = append(row.Values, decimal(latency.d.Max, 2))
		rows = append(rows, row)
	}
	if len(marked) > 0 {
		uncertain = "* not certified with 99 % confidence by so few values"
		if len(needs) > 0 {
			uncertain += ": " + strings.Join(needs, ", ")
		}
	}
	return columns, rows, uncertain
}

// facts says how a run was measured.
func (s *series) facts() []pair {
	set := &s.Summary.Setup
	ext := &s.Summary.Ossian
	out := []pair{
		{"profile", set.Profile.String()}, {"backend", set.Backend}, {"server dialect", set.Dialect}, {"endpoint", set.URL},
		{"model", set.ModelID}, {"tokenizer", set.Tokenizer}, {"workload", set.Dataset}, {"hash of the workload", set.Hash},
		{"seed", strconv.FormatInt(set.Seed, 10)},
		{"request rate", loadText(set.Arrivals.Rate) + " per second"},
		{"burstiness", loadText(set.Arrivals.Burstiness)},
		{"requests at once, at most", loadText(byConcurrency.of(&s.overview))},
		{"ignores the end of text", strconv.FormatBool(set.IgnoreEOS)},
		{"duration", fmt.Sprintf("%.3f s", s.Summary.Duration)},
		{"tokens", fmt.Sprintf("%d of prompts, %d of output", s.Summary.Input, s.Summary.Output)},
		{"prompt tokens from a cache", fmt.Sprintf("%.1f %%", ext.Cache.HitPercent)},
		{"client", clientFacts(&ext.Client)},
	}
	for _, m := range set.Metadata {
		out = append(out, pair{m.Key, m.Value})
	}
	out = append(out, environmentFacts(set.Environment)...)
	// What a run says of itself is text from outside.
	for i := range out {
		out[i] = pair{clean(out[i].Key), clean(out[i].Value)}
	}
	return slices.DeleteFunc(out, func(p pair) bool { return p.Value == "" })
}

// environmentFacts lists what is known of machines and versions.
func environmentFacts(facts map[string]string) (out []pair) {
	for _, key := range slices.Sorted(maps.Keys(facts)) {
		out = append(out, pair{strings.ReplaceAll(key, "_", " "), facts[key]})
	}
	return out
}

// clientFacts says what the measuring process did to the numbers.
func clientFacts(client *report.Client) string {
	if client.Threads == 0 {
		return ""
	}
	clock := "arrival times by its own clock"
	if client.Kernel {
		clock = "arrival times from the kernel"
	}
	text := fmt.Sprintf("%s; %.1f %% of a core, %d threads; %s; P99 lateness of sending %s", client.Verdict, client.CPUPercent, client.Threads, clock, withUnit(client.SendLate, client.SendLate.P(99)))
	if client.Shared {
		text += "; the server ran in the same process"
	}
	return text
}
